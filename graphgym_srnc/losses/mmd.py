"""Maximum mean discrepancy of two samples under a sum of Gaussian kernels."""
from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor


def mmd(x: Tensor, y: Tensor, scales: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0)) -> Tensor:
    r"""Squared multi-kernel MMD, the biased estimate.

    .. math:: \overline{k(s, s')} + \overline{k(t, t')} - 2\, \overline{k(s, t)}, \quad
        k(a, b) = \frac{1}{U} \sum_u e^{-\lVert a - b \rVert^2 / 2 \sigma_u^2}, \quad
        \sigma_u^2 = \text{scale}_u \cdot \overline{\lVert a - b \rVert^2}

    The bandwidth comes from all pairs of the joint sample and is a constant to the gradient. Time
    :math:`O((n + m)^2 d)`, memory :math:`O((n + m)^2)` for each kernel: draw some 2,000 nodes.

    Args:
        x, y: source and target sample, ``[n, d]`` and ``[m, d]``.
        scales: factors of the mean squared distance.

    Returns:
        The discrepancy, not negative but for rounding, and 0 for equal samples.

    Source: Gretton et al. (JMLR 2012); Long et al. (ICML 2015) for several kernels.
    """
    # Distances do not depend on the origin; around the mean their expansion loses no digits.
    centre = torch.cat([x, y]).detach().mean(0)
    x, y = x - centre, y - centre
    # The mean squared distance of all pairs is twice the mean squared distance to the centre.
    spread = 2 * torch.cat([x, y]).detach().square().sum(1).mean()
    widths = [2 * scale * spread.clamp(min=1e-12) for scale in scales]
    return _mean_kernel(x, x, widths) + _mean_kernel(y, y, widths) - 2 * _mean_kernel(x, y, widths)


def _mean_kernel(a: Tensor, b: Tensor, widths: list[Tensor]) -> Tensor:
    squared = (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T).clamp(min=0)
    return torch.stack([(-squared / width).exp().mean() for width in widths]).mean()

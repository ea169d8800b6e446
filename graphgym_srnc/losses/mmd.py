"""Maximum mean discrepancy of two samples under a sum of Gaussian kernels."""

from __future__ import annotations

from torch import Tensor, cat

KERNELS = 5
"""Number of kernels. Each has half the variance of the previous one."""


def mmd(x: Tensor, y: Tensor, widest: float = 4.0) -> Tensor:
    r"""Squared multi-kernel maximum mean discrepancy (biased estimate).

    .. math:: \overline{k(s, s')} + \overline{k(t, t')} - 2\, \overline{k(s, t)}, \quad
        k(a, b) = \frac{1}{U} \sum_{u=0}^{U-1} e^{-\lVert a - b \rVert^2 / 2 \sigma_u^2}, \quad
        \sigma_u^2 = 2^{-u} \, \text{widest} \cdot \overline{\lVert a - b \rVert^2}

    The bandwidth is the mean over all pairs of the joint sample and has no gradient. Time is
    :math:`O((n + m)^2 d)` and memory :math:`O((n + m)^2)` per kernel, so sample about 2,000 nodes.

    Args:
        x, y: source and target sample, ``[n, d]`` and ``[m, d]``.
        widest: factor of the mean squared distance in the widest kernel.

    Returns:
        The discrepancy. It is 0 for equal samples and non-negative up to rounding.

    References:
        Gretton et al. (JMLR 2012); Long et al. (ICML 2015) for several kernels.
    """
    # Centring leaves distances unchanged and keeps the expansion below precise.
    centre = cat([x, y]).detach().mean(0)
    x, y = x - centre, y - centre
    # The mean squared distance of all pairs is twice the mean squared distance to the centre.
    spread = 2 * cat([x, y]).detach().square().sum(1).mean()
    rate = -1 / (2 * widest * spread.clamp(min=1e-12))
    return _mean_kernel(x, x, rate) + _mean_kernel(y, y, rate) - 2 * _mean_kernel(x, y, rate)


def _mean_kernel(a: Tensor, b: Tensor, rate: Tensor) -> Tensor:
    squared = (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T).clamp(min=0)
    # Half the variance means the square of the previous kernel, which is cheaper than exp.
    kernel = (rate * squared).exp()
    total = kernel.mean()
    for _ in range(KERNELS - 1):
        kernel = kernel.square()
        total = total + kernel.mean()
    return total / KERNELS

"""Discrepancies of two samples: CMD, DeepCORAL, MMD and characteristic functions.

Samples are ``x`` ``[n, d]`` of the source and ``y`` ``[m, d]`` of the target.
"""

from __future__ import annotations

import torch
from torch import Tensor

KERNELS = 5  # of MMD; each has half the variance of the previous one
FLOOR = 1e-12  # added before a square root, whose gradient is infinite at 0


def cmd(x: Tensor, y: Tensor, order: int = 5) -> Tensor:
    r"""Central moment discrepancy of two samples, with moments up to ``order`` :math:`K`.

    .. math:: \lVert \mathbb E X - \mathbb E Y \rVert_2 + \sum_{k=2}^{K}
        \lVert c_k(X) - c_k(Y) \rVert_2, \quad c_k(X) = \mathbb E (X - \mathbb E X)^k

    CMD is a metric only on a bounded interval, whose width counts as 1, as in the code of
    Zellinger et al. (ICLR 2017, Definition 2) and of SRGNN (Zhu et al., NeurIPS 2021).
    """
    mean_x = x.mean(0)
    mean_y = y.mean(0)
    total = _norm(mean_x - mean_y)
    centred_x = x - mean_x
    centred_y = y - mean_y
    power_x = centred_x
    power_y = centred_y
    for _ in range(2, order + 1):
        power_x = power_x * centred_x
        power_y = power_y * centred_y
        total = total + _norm(power_x.mean(0) - power_y.mean(0))
    return total


def coral(x: Tensor, y: Tensor) -> Tensor:
    r"""Squared distance of covariances, DeepCORAL (Sun and Saenko, ECCV Workshops 2016).

    .. math:: \frac{1}{4 d^2} \lVert C_S - C_T \rVert_F^2, \quad
        C_S = \frac{1}{n - 1} \sum_i (x_i - \bar x)(x_i - \bar x)^\top
    """
    # torch.cov would wait for the device.
    centred = (z - z.mean(0) for z in (x, y))
    first, second = (z.T @ z / (len(z) - 1) for z in centred)
    return (first - second).square().sum() / (4 * x.size(1) ** 2)


def mmd(x: Tensor, y: Tensor, widest: float = 4.0) -> Tensor:
    r"""Squared multi-kernel maximum mean discrepancy (biased estimate).

    .. math:: \overline{k(s, s')} + \overline{k(t, t')} - 2\, \overline{k(s, t)}, \quad
        k(a, b) = \frac{1}{U} \sum_{u=0}^{U-1} e^{-\lVert a - b \rVert^2 / 2 \sigma_u^2}, \quad
        \sigma_u^2 = 2^{-u} \, \text{widest} \cdot \overline{\lVert a - b \rVert^2}

    The bandwidth is the mean over all pairs of the joint sample and has no gradient. Memory is
    :math:`O((n + m)^2)` (Gretton et al., JMLR 2012; Long et al., ICML 2015).
    """
    # Centring leaves distances unchanged and keeps their expansion precise.
    centre = torch.cat([x, y]).detach().mean(0)
    x = x - centre
    y = y - centre
    # The mean squared distance of all pairs is twice the mean squared distance to the centre.
    spread = 2 * torch.cat([x, y]).detach().square().sum(1).mean()
    rate = -1 / (2 * widest * spread.clamp(min=1e-12))
    return _mean_kernel(x, x, rate) + _mean_kernel(y, y, rate) - 2 * _mean_kernel(x, y, rate)


def characteristic_discrepancy(
    x: Tensor, y: Tensor, frequencies: Tensor, amplitude: float = 0.5
) -> Tensor:
    r"""Mean distance between the empirical characteristic functions of two samples.

    .. math:: \frac{1}{K} \sum_k \sqrt{\alpha (|\phi_x| - |\phi_y|)^2
        + 2 (1 - \alpha) (|\phi_x| |\phi_y| - \text{Re}\, \phi_x \overline{\phi_y})}, \quad
        \phi_x(t_k) = \frac{1}{n} \sum_i e^{\mathrm i t_k^\top x_i}

    The first term, of weight ``amplitude``, compares amplitudes, the second phases, at frequencies
    :math:`t_k` ``[K, d]`` (Ansari et al., CVPR 2020; ADAlign, ICLR 2026, for the two weights).
    """
    angles = (sample @ frequencies.T for sample in (x, y))
    (a, b), (c, d) = ((torch.cos(angle).mean(0), torch.sin(angle).mean(0)) for angle in angles)
    amplitude_x = (a * a + b * b + FLOOR).sqrt()
    amplitude_y = (c * c + d * d + FLOOR).sqrt()
    amplitudes = (amplitude_x - amplitude_y) ** 2
    # Computed as a difference, so that equal samples give exactly zero.
    phases = ((a - c) ** 2 + (b - d) ** 2 - amplitudes).clamp(min=0)
    return (amplitude * amplitudes + (1 - amplitude) * phases + FLOOR).sqrt().mean()


def _norm(difference: Tensor) -> Tensor:
    return (difference.square().sum() + FLOOR).sqrt()


def _mean_kernel(a: Tensor, b: Tensor, rate: Tensor) -> Tensor:
    squared = (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T).clamp(min=0)
    # Half the variance means the square of the previous kernel, which is cheaper than exp.
    kernel = (rate * squared).exp()
    total = kernel.mean()
    for _ in range(KERNELS - 1):
        kernel = kernel.square()
        total = total + kernel.mean()
    return total / KERNELS

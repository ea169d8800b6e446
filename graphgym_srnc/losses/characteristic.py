"""Discrepancy between the empirical characteristic functions of two samples."""

from __future__ import annotations

import torch
from torch import Tensor

FLOOR = 1e-12
"""Added before the square root, whose gradient is infinite at 0."""


def characteristic_discrepancy(
    x: Tensor, y: Tensor, frequencies: Tensor, amplitude: float = 0.5
) -> Tensor:
    r"""Mean distance between the empirical characteristic functions of two samples.

    .. math:: \frac{1}{K} \sum_k \sqrt{\alpha (|\phi_x| - |\phi_y|)^2
        + 2 (1 - \alpha) (|\phi_x| |\phi_y| - \text{Re}\, \phi_x \overline{\phi_y})}, \quad
        \phi_x(t_k) = \frac{1}{n} \sum_i e^{\mathrm i t_k^\top x_i}

    The first term compares amplitudes, the second phases. Without weights they add up to
    :math:`|\phi_x - \phi_y|^2`. Time and memory are :math:`O((n + m) K)`.

    Args:
        x, y: source and target sample, ``[n, d]`` and ``[m, d]``.
        frequencies: :math:`t_k`, ``[K, d]``.
        amplitude: :math:`\alpha`, weight of the amplitudes; the phases have weight
            :math:`1 - \alpha`.

    References:
        Ansari et al. (CVPR 2020); Xia et al. (ICLR 2026, ADAlign) for the two weights.
    """
    (a, b), (c, d) = (_real_and_imaginary(sample @ frequencies.T) for sample in (x, y))
    one, other = (a * a + b * b + FLOOR).sqrt(), (c * c + d * d + FLOOR).sqrt()
    of_amplitude = (one - other) ** 2
    # Computed as a difference, so that equal samples give exactly zero.
    of_phase = ((a - c) ** 2 + (b - d) ** 2 - of_amplitude).clamp(min=0)
    return (amplitude * of_amplitude + (1 - amplitude) * of_phase + FLOOR).sqrt().mean()


def _real_and_imaginary(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part ``[K]`` of the characteristic function from angles ``[n, K]``."""
    return torch.cos(angle).mean(0), torch.sin(angle).mean(0)

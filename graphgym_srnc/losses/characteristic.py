"""Discrepancy of two samples' empirical characteristic functions, amplitude and phase apart."""
from __future__ import annotations

import torch
from torch import Tensor

FLOOR = 1e-12
"""Added under a root, whose gradient at 0 is infinite."""


def characteristic_discrepancy(x: Tensor, y: Tensor, frequencies: Tensor,
                               amplitude: float = 0.5) -> Tensor:
    r"""Mean distance of two empirical characteristic functions over some frequencies.

    .. math:: \frac{1}{K} \sum_k \sqrt{\alpha (|\phi_x| - |\phi_y|)^2
        + 2 (1 - \alpha) (|\phi_x| |\phi_y| - \text{Re}\, \phi_x \overline{\phi_y})}, \quad
        \phi_x(t_k) = \frac{1}{n} \sum_i e^{\mathrm i t_k^\top x_i}

    The two terms without their weights add up to :math:`|\phi_x - \phi_y|^2`. Time and memory
    :math:`O((n + m) K)`.

    Args:
        x, y: source and target sample, ``[n, d]`` and ``[m, d]``.
        frequencies: :math:`t_k`, ``[K, d]``.
        amplitude: :math:`\alpha`, the weight of the amplitudes; that of the phases is the rest.

    Source: Ansari et al. (CVPR 2020); Xia et al. (ICLR 2026, ADAlign) for the two weights.
    """
    (a, b), (c, d) = (_real_and_imaginary(sample @ frequencies.T) for sample in (x, y))
    one, other = (a * a + b * b + FLOOR).sqrt(), (c * c + d * d + FLOOR).sqrt()
    of_amplitude = (one - other) ** 2
    # The rest of the squared distance, in a form that rounds to nothing between equal samples.
    of_phase = ((a - c) ** 2 + (b - d) ** 2 - of_amplitude).clamp(min=0)
    return (amplitude * of_amplitude + (1 - amplitude) * of_phase + FLOOR).sqrt().mean()


def _real_and_imaginary(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Both parts ``[K]`` of the characteristic function from angles ``[n, K]``."""
    return torch.cos(angle).mean(0), torch.sin(angle).mean(0)

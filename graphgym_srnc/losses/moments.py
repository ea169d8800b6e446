"""Distances between the moments of a source and a target sample: CMD and DeepCORAL."""
from __future__ import annotations

from torch import Tensor

from graphgym_srnc.errors import InputError


def cmd(x: Tensor, y: Tensor, order: int = 5, width: float = 1.0) -> Tensor:
    r"""Central moment discrepancy: how far means and central moments of each coordinate lie apart.

    .. math:: \frac{1}{w} \lVert \mathbb E X - \mathbb E Y \rVert_2
        + \sum_{k=2}^{K} \frac{1}{w^k} \lVert c_k(X) - c_k(Y) \rVert_2,
        \quad c_k(X) = \mathbb E (X - \mathbb E X)^k

    with :math:`w = b - a` for hidden values in :math:`[a, b]`; it is a metric on a bounded interval
    alone. The codes of Zellinger (sigmoid) and of SRGNN (tanh, of width 2) both take :math:`w = 1`.

    Args:
        x, y: source and target sample, ``[n, d]`` and ``[m, d]``.
        order: :math:`K`.
        width: :math:`w`.

    Returns:
        The discrepancy; :math:`10^{-6} K` at most where the samples are equal.

    Raises:
        InputError: ``order`` below 1, or ``width`` not positive.

    Source: Zellinger et al. (ICLR 2017), Definition 2; Zhu et al. (NeurIPS 2021) on graphs.
    """
    if order < 1:
        raise InputError("order", order, "at least 1")
    if not width > 0:
        raise InputError("width", width, "above 0")
    mean_x, mean_y = x.mean(0), y.mean(0)
    centred_x, centred_y = x - mean_x, y - mean_y
    total = _norm(mean_x - mean_y) / width
    power_x, power_y = centred_x, centred_y
    for k in range(2, order + 1):
        power_x, power_y = power_x * centred_x, power_y * centred_y
        total = total + _norm(power_x.mean(0) - power_y.mean(0)) / width ** k
    return total


def coral(x: Tensor, y: Tensor) -> Tensor:
    r"""DeepCORAL: the squared distance of the two covariance matrices.

    .. math:: \frac{1}{4 d^2} \lVert C_S - C_T \rVert_F^2, \quad
        C_S = \frac{1}{n - 1} \sum_i (x_i - \bar x)(x_i - \bar x)^\top

    Args:
        x, y: source and target sample, ``[n, d]`` and ``[m, d]``.

    Raises:
        InputError: a sample of fewer than two rows, which has no covariance.

    Source: Sun and Saenko (ECCV Workshops 2016).
    """
    return (_covariance(x) - _covariance(y)).square().sum() / (4 * x.size(1) ** 2)


def _norm(difference: Tensor) -> Tensor:
    # Euclid's norm has no gradient at zero, where both samples have the same moment.
    return (difference.square().sum() + 1e-12).sqrt()


def _covariance(x: Tensor) -> Tensor:
    if x.size(0) < 2:
        raise InputError("coral", x.size(0), "at least two nodes on each side")
    # Centring first instead of subtracting mean times mean: no cancellation in float32.
    centred = x - x.mean(0)
    return centred.T @ centred / (x.size(0) - 1)

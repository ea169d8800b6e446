"""Discrepancies between moments of a source and a target sample: CMD and DeepCORAL."""

from __future__ import annotations

from torch import Tensor

from graphgym_srnc.core.errors import InputError


def cmd(x: Tensor, y: Tensor, order: int = 5, width: float = 1.0) -> Tensor:
    r"""Central moment discrepancy of two samples.

    .. math:: \frac{1}{w} \lVert \mathbb E X - \mathbb E Y \rVert_2
        + \sum_{k=2}^{K} \frac{1}{w^k} \lVert c_k(X) - c_k(Y) \rVert_2,
        \quad c_k(X) = \mathbb E (X - \mathbb E X)^k

    Here :math:`w = b - a` for hidden values in :math:`[a, b]`. CMD is a metric only on a bounded
    interval. The code of Zellinger et al. (sigmoid) and of SRGNN (tanh, width 2) uses
    :math:`w = 1`.

    Args:
        x, y: source and target sample, ``[n, d]`` and ``[m, d]``.
        order: :math:`K`, the largest moment.
        width: :math:`w`.

    Returns:
        The discrepancy; at most :math:`10^{-6} K` for equal samples.

    Raises:
        InputError: ``order`` is below 1, or ``width`` is not positive.

    References:
        Zellinger et al. (ICLR 2017), Definition 2; Zhu et al. (NeurIPS 2021) on graphs.
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
        total = total + _norm(power_x.mean(0) - power_y.mean(0)) / width**k
    return total


def coral(x: Tensor, y: Tensor) -> Tensor:
    r"""DeepCORAL loss: squared distance of the two covariance matrices.

    .. math:: \frac{1}{4 d^2} \lVert C_S - C_T \rVert_F^2, \quad
        C_S = \frac{1}{n - 1} \sum_i (x_i - \bar x)(x_i - \bar x)^\top

    Args:
        x, y: source and target sample, ``[n, d]`` and ``[m, d]``.

    Raises:
        InputError: a sample has fewer than two rows.

    References:
        Sun and Saenko (ECCV Workshops 2016).
    """
    return (_covariance(x) - _covariance(y)).square().sum() / (4 * x.size(1) ** 2)


def _norm(difference: Tensor) -> Tensor:
    # The Euclidean norm has no gradient at zero.
    return (difference.square().sum() + 1e-12).sqrt()


def _covariance(x: Tensor) -> Tensor:
    if x.size(0) < 2:
        raise InputError("coral", x.size(0), "at least two nodes on each side")
    # Centring first avoids cancellation in float32.
    centred = x - x.mean(0)
    return centred.T @ centred / (x.size(0) - 1)

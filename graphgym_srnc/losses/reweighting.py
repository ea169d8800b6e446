"""Ratios of class and edge-class frequencies between target and source."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

STIFF = 1e4
"""Weight of the equality constraint in the least-squares problem."""


def shift_weights(
    confusion: np.ndarray, target: np.ndarray, source: np.ndarray, ridge: float
) -> np.ndarray:
    r"""Ratios of target to source shares, estimated from the predictions of a classifier.

    .. math:: \min_{w \ge 0} \lVert C w - \mu_T \rVert^2 + \lambda \lVert w - 1 \rVert^2
        \quad \text{s.t.} \quad \mu_S^\top w = 1

    Args:
        confusion: :math:`C`, mean product of predicted posterior and true class over the source,
            ``[K, K]``.
        target: :math:`\mu_T`, mean posterior over the target, ``[K]``.
        source: :math:`\mu_S`, shares of the true classes in the source, ``[K]``.
        ridge: :math:`\lambda`.

    Returns:
        :math:`w`, ``[K]``.

    References:
        Lipton et al. (ICML 2018) and Azizzadenesheli et al. (ICLR 2019) for labels; Liu et al.
        (ICML 2024, Pair-Align) for pairs.
    """
    ones = np.ones(len(source))
    rows = [confusion, ridge**0.5 * np.diag(ones), STIFF * source[None]]
    wanted = [target, ridge**0.5 * ones, [STIFF]]
    return nnls(np.concatenate(rows), np.concatenate(wanted))[0]


def conditional_ratio(weights: np.ndarray, source: np.ndarray, floor: float) -> np.ndarray:
    r"""Ratio of neighbour class probabilities between target and source.

    .. math:: \gamma_{ab} = \frac{P_T(b \mid a)}{P_S(b \mid a)}, \quad
        P_T(a, b) \propto w_{ab} P_S(a, b) + \epsilon, \quad P_S(a, b) \propto \mu_{ab} + \epsilon

    :math:`P(b \mid a)` is the probability that a neighbour of a node of class a has class b.

    Args:
        weights: :math:`w`, ``[N, N]``.
        source: :math:`\mu`, share of the source's edges between each pair of classes, ``[N, N]``.
        floor: :math:`\epsilon`, which shrinks the ratios of rare pairs towards 1.

    Returns:
        :math:`\gamma`, ``[N, N]``.
    """
    in_target, in_source = source * weights + floor, source + floor
    return (
        in_target / in_target.sum(1, keepdims=True) / (in_source / in_source.sum(1, keepdims=True))
    )

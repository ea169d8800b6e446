"""How much oftener the target has a class, or a pair of linked classes, than the source."""
from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

STIFF = 1e4
"""Weight of the equation that has to hold beside those that are met as well as they can be."""


def shift_weights(confusion: np.ndarray, target: np.ndarray, source: np.ndarray,
                  ridge: float) -> np.ndarray:
    r"""Ratios of target to source shares that explain what a classifier says of the target.

    .. math:: \min_{w \ge 0} \lVert C w - \mu_T \rVert^2 + \lambda \lVert w - 1 \rVert^2
        \quad \text{s.t.} \quad \mu_S^\top w = 1

    Args:
        confusion: :math:`C`, mean of predicted posterior times true class over the source,
            ``[K, K]``.
        target: :math:`\mu_T`, mean posterior over the target, ``[K]``.
        source: :math:`\mu_S`, shares of the true classes in the source, ``[K]``.
        ridge: :math:`\lambda`.

    Returns:
        :math:`w`, ``[K]``.

    Source: Lipton et al. (ICML 2018) and Azizzadenesheli et al. (ICLR 2019) for labels; Liu et al.
    (ICML 2024, Pair-Align) for pairs.
    """
    ones = np.ones(len(source))
    rows = [confusion, ridge ** 0.5 * np.diag(ones), STIFF * source[None]]
    wanted = [target, ridge ** 0.5 * ones, [STIFF]]
    return nnls(np.concatenate(rows), np.concatenate(wanted))[0]


def conditional_ratio(weights: np.ndarray, source: np.ndarray, floor: float) -> np.ndarray:
    r"""How much oftener a neighbour of a node of class a has class b in the target, ``[N, N]``.

    .. math:: \gamma_{ab} = \frac{P_T(b \mid a)}{P_S(b \mid a)}, \quad
        P_T(a, b) \propto w_{ab} P_S(a, b) + \epsilon, \quad P_S(a, b) \propto \mu_{ab} + \epsilon

    Args:
        weights: :math:`w`, ``[N, N]``.
        source: :math:`\mu`, share of the source's edges between classes, ``[N, N]``.
        floor: :math:`\epsilon`, which draws ratios of rare pairs to 1.
    """
    in_target, in_source = source * weights + floor, source + floor
    return (in_target / in_target.sum(1, keepdims=True)
            / (in_source / in_source.sum(1, keepdims=True)))

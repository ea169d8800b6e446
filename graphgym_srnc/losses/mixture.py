"""Weights of several classifiers in one posterior."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor
from torch.nn import functional as F

PRIOR = 3.0  # number of labels that the prior of equal weights counts for
LEAST = 0.01  # sum of the weights if no classifier is better than chance


def log_linear_weights(log_p: Tensor, label: Tensor) -> Tensor:
    r"""Weights ``[M]`` of a log-linear mixture of classifiers with the largest likelihood.

    .. math:: \max_{w \ge 0} \frac1n \sum_i \log P_w(y_i \mid i)
        - \frac{\nu}{n} \sum_m \left(w_m - \frac1M\right)^2, \quad
        P_w(k \mid i) \propto \prod_m P_m(k \mid i)^{w_m}

    The sum of the weights is an inverse temperature. The prior counts as :math:`\nu = 3` labels.
    If all weights would be 0, they are equal and their sum is 0.01, which keeps the predicted
    classes.

    Args:
        log_p: :math:`\log P_m` of nodes that the classifiers did not learn, ``[M, n, N]``.
        label: classes :math:`y` of these nodes, ``[n]``.

    References:
        Heskes, "Selecting Weighting Factors in Logarithmic Opinion Pools", NIPS 1997.
    """
    parts = log_p.double().cpu().numpy()
    count, size = parts.shape[:2]
    target = F.one_hot(label, parts.shape[2]).double().cpu().numpy()
    equal = np.full(count, 1 / count)

    def loss(weight: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = log_softmax(np.tensordot(weight, parts, 1), axis=1)
        away = weight - equal
        value = -(mixed * target).sum() + PRIOR * (away**2).sum()
        gradient = (parts * (np.exp(mixed) - target)).sum((1, 2)) + 2 * PRIOR * away
        return value / size, gradient / size

    found = minimize(loss, equal, jac=True, bounds=[(0, None)] * count, method="L-BFGS-B")
    weight = found.x if found.x.any() else LEAST * equal
    return torch.from_numpy(weight).to(log_p)

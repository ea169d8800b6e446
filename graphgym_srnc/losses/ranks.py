"""Whether so few held-out nodes with low confidence can be chance: a test of unknown classes."""

from __future__ import annotations

import functools

import numpy as np
from scipy import special
from torch import Tensor

from graphgym_srnc.losses.prior import effective_number

SHARES = np.geomspace(1e-4, 0.95, 128)  # shares u at which nodes are counted
LARGE = 5  # ranks are exact in a pool that is this many times as large as their number
DRAWS = 4999  # of ranks without unknown nodes; the smallest p-value is 1 / (DRAWS + 1)


def low_rank_p_value(ranks: Tensor, weight: Tensor, pool: int) -> float:
    r"""p-value of the hypothesis that no unlabelled node is of an unknown class.

    .. math:: M = \min_u P(B_{n, u} \le n F(u)), \quad
        n = \frac{(\sum_i w_i)^2}{\sum_i w_i^2}

    :math:`F(u)` is the weighted share of ranks below :math:`u`, and :math:`B_{n, u}` is binomial.
    Without unknown nodes, and with labels that were drawn at random, the ranks are uniform.
    Unknown nodes take the lowest ranks, so too few held-out nodes have one. The p-value is the
    share of :data:`DRAWS` draws of :math:`n` uniform ranks with at most this :math:`M`.

    The ranks are uniform among all nodes. A pool of :math:`u < 5n` unlabelled nodes varies itself,
    so :math:`n` is then replaced by :math:`nu / (n + u)`, as for two samples.

    Args:
        ranks: share of unlabelled nodes with lower confidence than each held-out node, ``[n]``.
        weight: :math:`w`, ``[n]``: ratio of the share of a node's class among the unlabelled nodes
            to that among the labelled ones.
        pool: number :math:`u` of unlabelled nodes that the ranks are among.

    References:
        Berk and Jones (Z. Wahrscheinlichkeitstheorie 1979), one-sided.
    """
    own = weight.double().numpy(force=True)
    found = ranks.double().numpy(force=True)
    number = effective_number(weight)
    if pool < LARGE * number:
        number *= pool / (number + pool)
    count = max(1, round(number))
    below = np.histogram(found, np.append(0, SHARES), weights=own)[0].cumsum() / own.sum()
    chances = _chance_of_as_few(count * below, count)
    # Equal minima may differ in the last digits.
    as_small = _minima(count) <= chances.min() * (1 + 1e-9)
    return (1 + int(as_small.sum())) / (1 + DRAWS)


def least_detectable_share(count: int, level: float) -> float:
    r"""Share of unknown nodes that ``count`` held-out labels show at a significance ``level``.

    .. math:: (1 - s)^n = M

    This share :math:`s` would be shown if all unknown nodes ranked lowest; :math:`M` has the level
    as its p-value in :func:`low_rank_p_value`.
    """
    return 1 - float(np.quantile(_minima(count), level)) ** (1 / count)


def _chance_of_as_few(below: np.ndarray, count: int) -> np.ndarray:
    """Chance that at most ``below[..., j]`` of ``count`` uniform ranks are below ``SHARES[j]``.

    The beta function continues the binomial distribution between whole numbers.
    """
    others = np.maximum(count - below, 1e-9)
    return special.betainc(others, below + 1, 1 - SHARES)


@functools.lru_cache(maxsize=16)
def _minima(count: int) -> np.ndarray:
    """The statistic of draws of ``count`` uniform ranks, ``[DRAWS]``."""
    widths = np.diff(SHARES, prepend=0)
    parts = np.append(widths, 1 - SHARES[-1])
    drawn = np.random.default_rng(0).multinomial(count, parts, size=DRAWS)
    below = drawn[:, :-1].cumsum(1)
    return _chance_of_as_few(below, count).min(1)

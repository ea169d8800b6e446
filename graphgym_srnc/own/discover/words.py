"""The words that set a cluster apart, or the feature columns where they have no names."""
from __future__ import annotations

import numpy as np
import scipy.sparse as sp

PRIOR = 0.1
"""Weight of the whole graph's counts as a prior; the larger, the more often a word must occur to be told."""


def log_odds(counts: np.ndarray, others: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""How much more a word is used in one group than in the rest, in standard errors.

    .. math:: z_w = \frac{\delta_w}{\sqrt{1 / a_w + 1 / b_w}}, \quad
              \delta_w = \ln \frac{a_w}{\sum_v a_v - a_w} - \ln \frac{b_w}{\sum_v b_v - b_w}, \quad a = y + \alpha, \ b = y' + \alpha

    Args:
        counts: :math:`y`, how often each word occurs in the group, ``[F]``.
        others: :math:`y'`, the same in the rest, ``[F]``.
        prior: :math:`\alpha`, above 0, ``[F]``.

    Returns:
        :math:`z`, ``[F]``.

    Source: Monroe, Colaresi and Quinn, Political Analysis 16 (2008), weighted log-odds with an informative Dirichlet prior.
    """
    a, b = counts + prior, others + prior
    delta = np.log(a / np.maximum(a.sum() - a, 1e-12)) - np.log(b / np.maximum(b.sum() - b, 1e-12))
    return delta / np.sqrt(1 / a + 1 / b)


def mean_difference(x: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Welch's t of each column of ``x`` ``[V, F]`` between the rows ``inside`` ``[V]`` and the others, ``[F]``."""
    a, b = x[inside], x[~inside]
    error = np.sqrt(a.var(0) / max(len(a), 1) + b.var(0) / max(len(b), 1))
    return (a.mean(0) - b.mean(0)) / np.maximum(error, 1e-12)


def distinguishing(x: sp.csr_array | np.ndarray, group: np.ndarray, most: int = 10) -> dict[int, list[tuple[int, float]]]:
    """The columns that set each group apart, with their :math:`z`, the largest first; only those above 2 are told.

    Features that are all 0 or more count as words, once a node each (:func:`log_odds`); others are compared by their means.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        most: columns told of each group.
    """
    words = (x.data if sp.issparse(x) else x).min(initial=0) >= 0
    if words:
        present = sp.csr_array(x > 0, dtype=np.float64)
        member = sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(group.max() + 1, len(group)))
        counts = (member @ present).toarray()
        total = counts.sum(0)
        scores = [log_odds(own, total - own, PRIOR * np.maximum(total, 1)) for own in counts]
    else:
        dense = x.toarray() if sp.issparse(x) else x
        scores = [mean_difference(dense, group == number) for number in range(group.max() + 1)]
    told = {}
    for number, z in enumerate(scores):
        best = np.argsort(-z, kind="stable")[:most]
        told[number] = [(int(column), float(z[column])) for column in best if z[column] > 2]
    return told

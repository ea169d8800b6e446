"""The words that set a cluster apart, or the feature columns where they have no names."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from graphgym_srnc.backbones import Sparse
from graphgym_srnc.backbones.features import Mapped

PRIOR = 0.1
"""Weight of the whole graph's counts as a prior; the larger, the more often a word must occur."""


def features(x: Sparse | Tensor | Mapped) -> sp.csr_array | np.ndarray:
    """Features ``[V, F]`` of a prepared graph as a matrix."""
    return x.matrix if isinstance(x, Sparse) else np.asarray(x[:].cpu())


def are_words(x: sp.csr_array | np.ndarray) -> bool:
    """Whether features ``[V, F]`` are all 0 or more, so that they count as occurrences of words."""
    return bool(np.asarray(x.data if isinstance(x, sp.csr_array) else x).min(initial=0) >= 0)


def distinguishing(
    x: sp.csr_array | np.ndarray, group: np.ndarray, most: int = 10
) -> dict[int, list[tuple[int, float]]]:
    """The columns that set each group apart, with their :math:`z`, the largest first and above 2.

    Words count once a node (:func:`log_odds`); other features are compared by their means.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        most: columns of each group.
    """
    num_groups = group.max() + 1
    if are_words(x):
        entries = np.ones(len(group)), (group, np.arange(len(group)))
        member = sp.csr_array(entries, shape=(num_groups, len(group)))
        counts = (member @ sp.csr_array(x > 0, dtype=np.float64)).toarray()
        total = counts.sum(0)
        scores = [log_odds(count, total - count, PRIOR * np.maximum(total, 1)) for count in counts]
    else:
        dense = x.toarray() if isinstance(x, sp.csr_array) else x
        scores = [mean_difference(dense, group == number) for number in range(num_groups)]
    best = [np.argsort(-z, kind="stable")[:most] for z in scores]
    return {
        number: [(int(column), float(z[column])) for column in columns if z[column] > 2]
        for number, (z, columns) in enumerate(zip(scores, best))
    }


def log_odds(counts: np.ndarray, others: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""How much more a word is used in one group than in the rest, in standard errors.

    .. math:: z_w = \frac{\delta_w}{\sqrt{1 / a_w + 1 / b_w}}, \quad
              \delta_w = \ln \frac{a_w}{\sum_v a_v - a_w} - \ln \frac{b_w}{\sum_v b_v - b_w}, \quad
              a = y + \alpha, \ b = y' + \alpha

    Args:
        counts: :math:`y`, how often each word occurs in the group, ``[F]``.
        others: :math:`y'`, the same in the rest, ``[F]``.
        prior: :math:`\alpha`, above 0, ``[F]``.

    Returns:
        :math:`z`, ``[F]``.

    Source: Monroe, Colaresi and Quinn, Political Analysis 16 (2008), weighted log-odds with an
    informative Dirichlet prior.
    """

    def log_odds_of(a: np.ndarray) -> np.ndarray:
        return np.log(a / np.maximum(a.sum() - a, 1e-12))

    a, b = counts + prior, others + prior
    return (log_odds_of(a) - log_odds_of(b)) / np.sqrt(1 / a + 1 / b)


def mean_difference(x: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Welch's t of each column of ``x`` ``[V, F]`` between rows ``inside`` ``[V]`` and others."""
    a, b = x[inside], x[~inside]
    if not len(a) or not len(b):
        return np.zeros(x.shape[1])
    error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
    return (a.mean(0) - b.mean(0)) / np.maximum(error, 1e-12)

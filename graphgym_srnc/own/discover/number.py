"""How many new clusters there are: modularity, stability and words of each number."""

from __future__ import annotations

import math
from typing import Mapping, NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.core import progress
from graphgym_srnc.methods.shared.topics import Matrix, are_words, by_group, features, kmeans
from graphgym_srnc.own.discover.candidates import Seeds
from graphgym_srnc.own.discover.clusters import assign, separation
from graphgym_srnc.own.discover.representation import links, word_columns
from graphgym_srnc.plots import embedding

BEYOND = 10  # maximum number of new clusters tried
SAMPLE = 2000  # maximum number of nodes that k-means learns from
HALVES = 5  # pairs of halves of the nodes that are clustered apart
FLAT = 0.005  # relative difference of modularity below which one cluster is preferred
EVEN = 0.1  # relative difference below which numbers fit about equally well, and words decide
PRIOR = 200.0  # size of the Dirichlet prior of the words of a cluster, in occurrences
# Of the parts of a cluster, see parts():
MOST_PARTS = 4
STABLE = 0.6
SMALLEST = 30
LEAST_PART = 5


class Fit(NamedTuple):
    """How well a number of new clusters fits.

    Args:
        modularity: Newman's modularity of all nodes, by known class and new cluster.
        stability: mean adjusted Rand index of two clusterings, each learned from one half of the
            nodes; 1 for one cluster.
        words: length of a description of the nodes' words by those of their clusters, in nats; nan
            if the features are not words.
    """

    modularity: float
    stability: float
    words: float

    @property
    def score(self) -> float:
        """Modularity times stability."""
        return max(self.modularity, 0.0) * self.stability


def fits(graph: Data, posterior: Tensor, state: Tensor, seeds: Seeds) -> dict[int, Fit]:
    """The fit of 1, 2, ... new clusters, of which k-means learns from at most ``SAMPLE`` nodes.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        state: representation of the nodes, ``[V, D]``.
        seeds: the nodes that new clusters consist of.
    """
    adjacency = links(graph)
    x = features(graph)
    drawn, unit, x = _sample(seeds.nodes, state, x[:, word_columns(x)])
    found = {}
    for before in progress.steps(max(1, min(BEYOND, len(drawn) // 5))):
        number = before + 1
        group = kmeans(unit, number, restarts=3).labels_
        cluster = assign(state, posterior, seeds, drawn, group)
        modularity, *_ = separation(adjacency, cluster.numpy(), int(cluster.max()) + 1)
        words = description(x, group)
        found[number] = Fit(float(modularity.sum()), stability(unit, number), words)
    return found


def suggested(found: Mapping[int, Fit]) -> int:
    """The number of new clusters with the shortest description, of those that score about equally.

    These are the smallest number whose score is within ``EVEN`` of the highest, and larger ones.
    One cluster is preferred if its modularity is within ``FLAT`` of that of the best number. A
    number up to about twice as large whose score is within ``EVEN``, too, is preferred if it makes
    the description of the words shorter.
    """
    several = [number for number in found if number > 1]
    best = found[max(several, key=lambda number: found[number].score, default=1)].modularity
    is_flat = found[1].modularity >= best - FLAT * abs(best)
    near = even(found, 1 if is_flat else 2)
    small = [number for number in near if number <= 2 * near[0] + 1]
    return min(small, key=lambda number: found[number].words)


def even(found: Mapping[int, Fit], least: int = 1) -> list[int]:
    """Numbers from ``least`` on whose score is within ``EVEN`` of the highest one of these."""
    score = {number: fit.score for number, fit in found.items() if number >= least}
    highest = max(score.values())
    return [number for number in score if score[number] >= (1 - EVEN) * highest]


def stability(unit: np.ndarray, number: int) -> float:
    """Mean adjusted Rand index of clusterings ``[n, D]`` learned from halves of the nodes.

    References:
        Lange, Roth, Braun and Buhmann (Neural Computation 2004).
    """
    if number == 1 or len(unit) < 2 * number:
        return float(number == 1)
    rng = np.random.default_rng(0)
    agreed = []
    for repeat in range(HALVES):
        halves = np.array_split(rng.permutation(len(unit)), 2)
        learned = [kmeans(unit[half], number, 3, repeat) for half in halves]
        agreed.append(adjusted_rand_score(*(means.predict(unit) for means in learned)))
    return float(np.mean(agreed))


def description(x: Matrix, group: np.ndarray) -> float:
    r"""Minus the log-likelihood of the words of nodes, by a distribution for each group.

    .. math:: -\sum_k \ln \frac{\Gamma(a)}{\Gamma(a + n_k)} \prod_w
        \frac{\Gamma(a_w + n_{kw})}{\Gamma(a_w)}

    Group :math:`k` has :math:`n_{kw}` nodes with the word :math:`w`, and :math:`n_k` occurrences of
    words. The prior :math:`a_w` is the share of the word, times :data:`PRIOR`. Splitting a group
    whose words are alike makes the description longer.

    Args:
        x: features ``[n, F]``; nan is returned if they are not words.
        group: the group of each node, ``[n]``.

    References:
        The Dirichlet compound multinomial of Madsen, Kauchak and Elkan (ICML 2005).
    """
    if not are_words(x):
        return math.nan
    count = by_group((x > 0).astype(np.float64), group, group.max() + 1)
    count = count[:, count.any(0)]
    prior = PRIOR * count.sum(0) / max(count.sum(), 1)
    words = gammaln(count + prior) - gammaln(prior)
    sizes = gammaln(PRIOR) - gammaln(PRIOR + count.sum(1))
    return -float(words.sum() + sizes.sum())


def _sample(nodes: Tensor, state: Tensor, x: Matrix) -> tuple[Tensor, np.ndarray, Matrix]:
    """At most ``SAMPLE`` nodes, their states of length 1 and their features."""
    drawn = nodes[embedding.sample(len(nodes), SAMPLE)]
    return drawn, F.normalize(state[drawn], dim=1).numpy(), x[drawn.numpy()]


def parts(state: Tensor, x: Matrix, nodes: Tensor) -> list[Tensor]:
    """The nodes ``[n]`` of a cluster by part, the largest part first; empty if it has no parts.

    It has the largest number of parts, up to ``MOST_PARTS``, of ``LEAST_PART`` nodes or more with a
    stability of ``STABLE`` whose words make the description shorter. ``x`` ``[V, F]`` are the words
    of all nodes.
    """
    if len(nodes) < SMALLEST:
        return []
    drawn, unit, own = _sample(nodes, state, x)
    whole = description(own, np.zeros(len(drawn), dtype=int))
    for number in range(MOST_PARTS, 1, -1):
        means = kmeans(unit, number)
        group = means.predict(F.normalize(state[nodes], dim=1).numpy())
        found = [nodes[group == part] for part in range(number)]
        is_shorter = math.isnan(whole) or description(own, means.labels_) < whole
        is_large = min(map(len, found)) >= LEAST_PART
        if is_shorter and is_large and stability(unit, number) >= STABLE:
            return sorted(found, key=len, reverse=True)
    return []

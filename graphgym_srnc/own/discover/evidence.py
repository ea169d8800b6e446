"""How many clusters there may be, and how well clusters agree with true classes.

No rule finds the number of classes on real graphs, where a class may consist of several communities
and two classes may form one. So two curves give evidence, which is never the truth.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score, average_precision_score
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.core import progress
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.clusters import Discovery, centres, kmeans, nearest, separation
from graphgym_srnc.train.metrics import clustering_scores

BEYOND, SAMPLE = 10, 2000
"""Maximum number of new clusters tried, and maximum number of nodes that k-means learns from."""

DRAWS, SHARE = 6, 0.7
"""Number of clusterings with each number of clusters, and the share of nodes that each sees."""

FLAT, STEADY = 0.02, 0.6
"""The smallest number within this share of the largest value is suggested; and the stability below
which one new cluster is suggested, because no split is stable."""


class Curve(NamedTuple):
    """A figure over numbers of clusters.

    Args:
        name: what it measures.
        counts: numbers of clusters, known classes included.
        values, errors: means and standard errors over clusterings of samples.
        suggestion: the smallest number whose value is within ``FLAT`` of the largest.
    """

    name: str
    counts: list[int]
    values: list[float]
    errors: list[float]
    suggestion: int


class Evidence(NamedTuple):
    """Two curves over the number of clusters."""

    modularity: Curve
    stability: Curve

    @property
    def told(self) -> str:
        """The suggestions as a range in words."""
        return " to ".join(map(str, sorted({curve.suggestion for curve in self})))


def gather(graph: Data, posterior: Tensor, state: Tensor) -> Evidence:
    """Both curves, from one new cluster on.

    Several clusterings of unknown nodes each learn from a sample of these nodes. ``modularity`` is
    that of the whole graph when each node joins the nearest centre. ``stability`` is the mean
    adjusted Rand index of a clustering and the others. One cluster is always stable, so it is
    suggested only where no split is stable.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last and the likeliest one of a
            node at least.
        state: the representation that is clustered, ``[V, D]``.

    References:
        Stability: Ben-Hur, Elisseeff and Guyon (PSB 2002).
    """
    adjacency, label = prepare(graph, "auto").adjacency("raw").matrix, posterior.argmax(1)
    num_known = posterior.size(1) - 1
    unknown, rng = (label == num_known).nonzero().view(-1), np.random.RandomState(0)
    drawn = _sample(unknown, SAMPLE, rng)
    samples = [_sample(drawn, max(int(SHARE * len(drawn)), 1), rng) for _ in range(DRAWS)]
    known = centres(state, label, num_known + 1)[:num_known]

    most = max(1, min(BEYOND, len(drawn) // 5))
    separate, steady = [], []
    for new in (number + 1 for number in progress.steps(most)):
        splits, modularities = [], []
        for seed, sample in enumerate(samples):
            group = kmeans(state[sample], new, restarts=3, seed=seed)
            centre = centres(state[sample], group, new)
            splits.append(torch.cdist(state[drawn], centre).argmin(1).numpy())
            cluster, _ = nearest(state, torch.cat([known, centre]))
            shares, _ = separation(adjacency, cluster.numpy(), num_known + new)
            modularities.append(shares.sum())
        agreement = np.full((DRAWS, DRAWS), np.nan)
        for a, b in combinations(range(DRAWS), 2):
            agreement[a, b] = agreement[b, a] = adjusted_rand_score(splits[a], splits[b])
        separate.append(modularities)
        steady.append(np.nanmean(agreement, 1))

    steady[0] = np.full(DRAWS, STEADY)  # one cluster is always stable
    stability = _curve("stability", num_known, steady)
    stability.values[0] = stability.errors[0] = np.nan
    return Evidence(_curve("modularity", num_known, separate), stability)


def _curve(name: str, num_known: int, draws: list) -> Curve:
    """The curve of values ``[n, DRAWS]`` of 1, 2, ... new clusters."""
    values = np.array(draws)
    mean, error = np.nanmean(values, 1), values.std(1, ddof=1) / np.sqrt(DRAWS)
    counts = [num_known + new for new in range(1, len(mean) + 1)]
    best = int(np.argmax(mean >= mean.max() - FLAT * abs(mean.max())))
    return Curve(name, counts, mean.tolist(), error.tolist(), counts[best])


def summary(evidence: Evidence) -> str:
    """The suggestions in a sentence."""
    suggestions = ", ".join(f"{curve.name} {curve.suggestion}" for curve in evidence)
    return (
        f"suggested number of clusters, known classes included: {evidence.told} "
        f"({suggestions}); an estimate, not the true number of classes"
    )


def _sample(nodes: Tensor, most: int, rng: np.random.RandomState) -> Tensor:
    drawn = rng.choice(len(nodes), min(most, len(nodes)), replace=False)
    return nodes[torch.from_numpy(np.sort(drawn))]


def rate(discovery: Discovery, task: ShiftTask | None) -> dict[str, float]:
    """Scores of clusters against the true classes of target nodes that were not labelled, in words.

    ACC and NMI are those of all these nodes, and of those of unseen classes. The average precision
    is that of finding nodes of unseen classes by the newness of their cluster; by chance it is
    their share.

    Raises:
        InputError: their true classes are not known.
    """
    if task is None or "y_true" not in task.target:
        message = "the true classes of this graph are not known"
        hint = "Leave it out, or use the target graph of a run with all labels"
        raise InputError.plain("--evaluate", message, hint)
    free = task.target.y_true >= 0
    if task.source is task.target:
        free[task.train] = False
    true, group = task.target.y_true[free], discovery.cluster[free]
    unseen = (task.target.y == task.unknown)[free]
    scores = {}
    for of, nodes in (("all nodes", unseen >= 0), ("nodes of unseen classes", unseen)):
        if nodes.any():
            for name, value in clustering_scores(group[nodes], true[nodes]).items():
                scores[f"{name.upper()} of {of}"] = value
    if unseen.any():
        newness = np.array([cluster.newness for cluster in discovery.every])[group]
        scores["average precision of the ranking"] = average_precision_score(unseen, newness)
        scores["average precision by chance"] = float(unseen.double().mean())
    return scores

"""How many clusters there may be, and how well clusters agree with true classes.

No rule finds the number of classes on real graphs, where a class may consist of several communities
and two classes may form one. So three curves give evidence, which is never the truth.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from sklearn.metrics import adjusted_rand_score, average_precision_score
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.clusters import (
    Discovery,
    centres,
    kmeans,
    nearest,
    separation,
)
from graphgym_srnc.train.metrics import clustering_scores

BEYOND, SAMPLE = 10, 2000
"""Maximum number of new clusters tried, and maximum number of nodes that k-means learns from."""

DRAWS, SHARE = 6, 0.7
"""Number of clusterings that stability compares, and the share of nodes that each of them sees."""

FLAT, STEADY = 0.02, 0.6
"""Share of the largest modularity by which its plateau may be lower, and stability below which one
new cluster is suggested, because no split is stable."""


class Curve(NamedTuple):
    """A figure over numbers of clusters ``counts``, and the number that it suggests."""

    name: str
    counts: list[int]
    values: list[float]
    suggestion: int


class Evidence(NamedTuple):
    """Three curves over the number of clusters."""

    eigengap: Curve
    modularity: Curve
    stability: Curve

    @property
    def bracket(self) -> tuple[int, int]:
        """The smallest and the largest suggestion."""
        suggestions = [curve.suggestion for curve in self]
        return min(suggestions), max(suggestions)

    @property
    def told(self) -> str:
        """The bracket in words."""
        return " to ".join(map(str, sorted({*self.bracket})))


def gather(graph: Data, posterior: Tensor, state: Tensor) -> Evidence:
    """All three curves, from one new cluster on.

    ``eigengap`` is that of the subgraph of unknown nodes (:func:`eigengaps`). ``modularity`` is
    that of the whole clustering; the smallest number on its plateau is suggested. ``stability`` is
    the mean adjusted Rand index of clusterings of unknown nodes that each learn from a sample of
    them. One cluster is always stable, so it is suggested only where no split is stable.

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

    def learnt(nodes: Tensor, count: int, seed: int) -> Tensor:
        return centres(state[nodes], kmeans(state[nodes], count, restarts=3, seed=seed), count)

    def modularity(new: int) -> float:
        cluster, _ = nearest(state, torch.cat([known, learnt(drawn, new, 0)]))
        return float(separation(adjacency, cluster.numpy(), num_known + new)[0].sum())

    def stability(new: int) -> float:
        learned = (learnt(sample, new, seed) for seed, sample in enumerate(samples))
        splits = [torch.cdist(state[drawn], centre).argmin(1).numpy() for centre in learned]
        return float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(splits, 2)]))

    most = max(1, min(BEYOND, len(drawn) // 5))
    counts = [num_known + new for new in range(1, most + 1)]
    gaps = eigengaps(adjacency[unknown.numpy()][:, unknown.numpy()], most)
    gaps = np.pad(gaps, (0, most - len(gaps)))
    separate = [modularity(new) for new in range(1, most + 1)]
    steady = [STEADY, *(stability(new) for new in range(2, most + 1))]
    plateau = max(separate) - FLAT * abs(max(separate))
    flat = next(count for count, value in zip(counts, separate) if value >= plateau)
    return Evidence(
        Curve("eigengap", counts, gaps.tolist(), counts[int(gaps.argmax())]),
        Curve("modularity", counts, separate, flat),
        Curve("stability", counts, [np.nan, *steady[1:]], counts[int(np.argmax(steady))]),
    )


def eigengaps(adjacency: sp.csr_array, most: int) -> np.ndarray:
    r"""Gaps between the largest eigenvalues of the largest component, ``[most]`` or less.

    The matrix is :math:`(D + \bar d)^{-1/2} A (D + \bar d)^{-1/2}`. Without the mean degree
    :math:`\bar d` small groups that hang on an edge have the largest eigenvalues (Qin and Rohe,
    NeurIPS 2013).
    """
    _, component = connected_components(adjacency, directed=False)
    nodes = np.flatnonzero(component == np.bincount(component).argmax())
    largest = sp.csr_array(adjacency[nodes][:, nodes], dtype=np.float64)
    count = min(most + 1, len(nodes) - 1)
    if count < 2:
        return np.zeros(0)
    degree = np.asarray(largest.sum(1)).ravel()
    scale = sp.diags_array(1 / np.sqrt(degree + degree.mean()))
    start = np.random.RandomState(0).standard_normal(len(nodes))
    matrix = scale @ largest @ scale
    values = eigsh(matrix, k=count, which="LA", v0=start, return_eigenvectors=False)
    return -np.diff(np.sort(values)[::-1])


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

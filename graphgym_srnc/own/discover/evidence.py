"""Evidence on the number of clusters |C|: three curves over it, what each of them suggests, and the bracket of the three.

No rule finds the number of classes on real graphs, where a class may fall into several communities and two classes into one. So this is
evidence and never the truth.
"""
from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from graphgym_srnc.own.clustering import constrained_kmeans
from graphgym_srnc.own.discover.clusters import centres, nearest, separation

BEYOND = 10
"""How many clusters beside those of known classes are tried, less where few nodes are unknown."""

SAMPLE = 2000
"""Most nodes that k-means learns from; all others go to the nearest centre."""

DRAWS, SHARE = 6, 0.7
"""Clusterings that stability compares, and the share of nodes that each of them sees."""

FLAT = 0.02
"""Share of the largest modularity by which a smaller number of clusters may fall short of it: the curve ends in a plateau."""

STEADY = 0.6
"""Stability below which no split is steady, so that one new cluster is suggested."""


class Curve(NamedTuple):
    """A figure over numbers of clusters ``counts``, and the number that it suggests."""

    name: str
    counts: list[int]
    values: list[float]
    suggestion: int


class Evidence(NamedTuple):
    """Three curves, and the least and largest number that one of them suggests."""

    eigengap: Curve
    modularity: Curve
    stability: Curve

    @property
    def bracket(self) -> tuple[int, int]:
        suggestions = [curve.suggestion for curve in self]
        return min(suggestions), max(suggestions)


def gather(adjacency: sp.csr_array, state: Tensor, label: Tensor, num_known: int, seed: int = 0) -> Evidence:
    """All three curves, from one cluster beside the known classes on.

    ``eigengap`` is that of the subgraph of unknown nodes (:func:`eigengaps`), ``modularity`` that of the whole clustering as
    :func:`graphgym_srnc.own.discover.clusters.find` makes it, of which the smallest number on its plateau is suggested. ``stability`` is the
    mean adjusted Rand index of clusterings of unknown nodes that each learn from a part of them; one cluster is always stable, so it is
    suggested only where no split is (Ben-Hur et al., 2002).

    Args:
        adjacency: symmetric, without self-loops, ``[V, V]``.
        state: what is clustered, ``[V, D]``.
        label: what the model says, ``[V]``, ``num_known`` = unknown, for one node at least.
        num_known: :math:`N`.
        seed: of samples and k-means.
    """
    unknown, rng = (label == num_known).nonzero().view(-1), np.random.RandomState(seed)
    drawn = unknown[torch.from_numpy(_part(rng, len(unknown), SAMPLE))]
    parts = [drawn[torch.from_numpy(_part(rng, len(drawn), max(int(SHARE * len(drawn)), 1)))] for _ in range(DRAWS)]
    known = centres(state, label.clamp(max=num_known), num_known + 1)[:num_known]

    def learnt(nodes: Tensor, count: int, seed: int) -> Tensor:
        group = constrained_kmeans(state[nodes], count, spherical=True, restarts=3, seed=seed).cluster
        return centres(state[nodes], group, count)

    def agreement(new: int) -> float:
        found = [torch.cdist(state[drawn], learnt(part, new, seed + i)).argmin(1).numpy() for i, part in enumerate(parts)]
        return float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(found, 2)]))

    counts = [num_known + new for new in range(1, max(1, min(BEYOND, len(drawn) // 5)) + 1)]
    modularity, stability = [], []
    for new in range(1, len(counts) + 1):
        cluster, _ = nearest(state, torch.cat([known, learnt(drawn, new, seed)]))
        modularity.append(float(separation(adjacency, cluster.numpy(), num_known + new)["modularity"].sum()))
        stability.append(agreement(new) if new > 1 else np.nan)
    own = unknown.numpy()
    gaps = np.zeros(len(counts))
    seen = eigengaps(adjacency[own][:, own], len(counts))
    gaps[:len(seen)] = seen
    plateau, steady = max(modularity) - FLAT * abs(max(modularity)), np.nan_to_num(stability, nan=STEADY)
    return Evidence(Curve("eigengap", counts, gaps.tolist(), counts[int(gaps.argmax())]),
                    Curve("modularity", counts, modularity, min(c for c, value in zip(counts, modularity) if value >= plateau)),
                    Curve("stability", counts, stability, counts[int(steady.argmax())]))


def _part(rng: np.random.RandomState, count: int, most: int) -> np.ndarray:
    return np.sort(rng.choice(count, min(most, count), replace=False))


def eigengaps(adjacency: sp.csr_array, most: int) -> np.ndarray:
    r"""Gaps :math:`\lambda_k - \lambda_{k+1}`, ``k = 1 .. most``, between the largest eigenvalues of the normalised adjacency
    :math:`(D + \bar d)^{-1/2} A (D + \bar d)^{-1/2}` of the largest component, ``[most]`` or less on a small one.

    Without the mean degree :math:`\bar d` small groups that hang on an edge have the largest eigenvalues (Qin and Rohe, NeurIPS 2013).
    """
    _, component = connected_components(adjacency, directed=False)
    own = np.flatnonzero(component == np.bincount(component).argmax())
    part = sp.csr_array(adjacency[own][:, own], dtype=np.float64)
    count = min(most + 1, len(own) - 1)
    if count < 2:
        return np.zeros(0)
    degree = np.asarray(part.sum(1)).ravel()
    scale = sp.diags_array(1 / np.sqrt(degree + degree.mean()))
    start = np.random.RandomState(0).standard_normal(len(own))
    values = eigsh(scale @ part @ scale, k=count, which="LA", v0=start, return_eigenvectors=False)
    return -np.diff(np.sort(values)[::-1])

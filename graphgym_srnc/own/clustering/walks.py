"""Random walks, all walkers at once: uniform ones of DeepWalk and biased ones of node2vec."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.options import Positive, checked


@partial(checked, prefix="walks.")
def random_walks(
    adjacency: sp.csr_array,
    start: np.ndarray,
    length: int,
    *,
    p: Positive = 1.0,
    q: Positive = 1.0,
    rng: np.random.RandomState,
) -> np.ndarray:
    r"""One walk from each start node; a node without neighbours stays where it is.

    With :math:`p = q = 1` each step is uniform over the neighbours (Perozzi et al., DeepWalk, KDD
    2014). Else a walk that came from :math:`t` to :math:`v` goes on to :math:`x` with a weight of
    :math:`1/p` if :math:`x = t`, :math:`1` if :math:`x` is a neighbour of :math:`t`, and
    :math:`1/q` otherwise (Grover and Leskovec, node2vec, KDD 2016). Steps are drawn by rejection,
    which needs no table of second-order probabilities with its :math:`\sum_v \deg(v)^2` entries.

    Args:
        adjacency: a CSR matrix ``[V, V]`` with sorted indices; weights are not read.
        start: start nodes, ``[n]``.
        length: number of nodes of a walk, the start included.
        p: return parameter.
        q: in-out parameter.
        rng: where randomness comes from.

    Returns:
        Nodes, ``[n, length]``.

    Raises:
        InputError: a value is out of its range.
    """
    if length < 1:
        raise InputError("walks.length", length, "1 or more")
    first, neighbours = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64)
    num_nodes, degree = adjacency.shape[0], np.diff(first)
    edges = np.repeat(np.arange(num_nodes), degree) * num_nodes + neighbours

    def step(node: np.ndarray) -> np.ndarray:
        drawn = first[node] + (rng.random_sample(len(node)) * degree[node]).astype(np.int64)
        if not len(neighbours):
            return node
        # A node without neighbours would read past its row, and the last one past the end.
        reached = neighbours[np.minimum(drawn, len(neighbours) - 1)]
        return np.where(degree[node] > 0, reached, node)

    def adjacent(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        key = a * num_nodes + b
        return edges[np.searchsorted(edges, key).clip(max=len(edges) - 1)] == key

    walks = np.empty((len(start), length), dtype=np.int64)
    walks[:, 0] = start
    largest_weight = max(1 / p, 1, 1 / q)
    for i in range(1, length):
        here = walks[:, i - 1]
        walks[:, i] = step(here)
        if p == q == 1 or i == 1:
            continue
        rejected = np.flatnonzero(degree[here] > 0)
        while len(rejected):
            before, to = walks[rejected, i - 2], walks[rejected, i]
            weight = np.where(to == before, 1 / p, np.where(adjacent(before, to), 1, 1 / q))
            rejected = rejected[rng.random_sample(len(rejected)) * largest_weight >= weight]
            walks[rejected, i] = step(here[rejected])
    return walks

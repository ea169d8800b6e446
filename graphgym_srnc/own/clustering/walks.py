"""Random walks on a graph: uniform ones of DeepWalk and biased ones of node2vec, all walkers at once."""
from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.errors import InputError


def random_walks(adjacency: sp.csr_array, start: np.ndarray, length: int, *, p: float = 1.0, q: float = 1.0,
                 rng: np.random.RandomState) -> np.ndarray:
    r"""One walk from each start node; a node without neighbours stays where it is.

    With :math:`p = q = 1` each step is uniform over the neighbours (Perozzi et al., DeepWalk, KDD 2014). Else a walk that came
    from :math:`t` to :math:`v` goes on to :math:`x` with a weight of :math:`1/p` if :math:`x = t`, :math:`1` if :math:`x` is a
    neighbour of :math:`t`, and :math:`1/q` otherwise (Grover and Leskovec, node2vec, KDD 2016). Steps are drawn by rejection, so
    no table of second-order probabilities, which takes :math:`\sum_v \deg(v)^2`, is made.

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
        InputError: ``length`` is below 1, or ``p`` or ``q`` is not a finite number above 0.
    """
    if length < 1:
        raise InputError("walks.length", length, "1 or more")
    for name, value in {"p": p, "q": q}.items():
        if not 0 < value < np.inf:
            raise InputError(f"walks.{name}", value, "a finite number above 0")
    first, neighbours, num_nodes = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64), adjacency.shape[0]
    degree = np.diff(first)
    edges = np.repeat(np.arange(num_nodes), degree) * num_nodes + neighbours

    def step(node: np.ndarray) -> np.ndarray:
        drawn = first[node] + (rng.random_sample(len(node)) * degree[node]).astype(np.int64)
        # A node without neighbours would read past its row, and the last one past the end.
        return np.where(degree[node] > 0, neighbours[np.minimum(drawn, max(len(neighbours) - 1, 0))], node) if len(neighbours) else node

    def adjacent(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        key = a * num_nodes + b
        return edges[np.searchsorted(edges, key).clip(max=len(edges) - 1)] == key

    walks = np.empty((len(start), length), dtype=np.int64)
    walks[:, 0] = start
    most = max(1 / p, 1, 1 / q)
    for i in range(1, length):
        here = walks[:, i - 1]
        walks[:, i] = step(here)
        if p == q == 1 or i == 1:
            continue
        open_ = np.flatnonzero(degree[here] > 0)
        while len(open_):
            came, to = walks[open_, i - 2], walks[open_, i]
            weight = np.where(to == came, 1 / p, np.where(adjacent(came, to), 1, 1 / q))
            open_ = open_[rng.random_sample(len(open_)) * most >= weight]
            walks[open_, i] = step(here[open_])
    return walks

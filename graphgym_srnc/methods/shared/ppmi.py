"""Positive pointwise mutual information (PPMI) of nodes that co-occur in random walks."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.backbones.graph import Graph

_walked: WeakKeyDictionary[Graph, Graph] = WeakKeyDictionary()


def ppmi(adjacency: sp.csr_array, walks: int = 40, length: int = 10, seed: int = 0) -> sp.csr_array:
    r"""PPMI matrix of random walks.

    .. math:: P_{ab} = \max\Big(0, \log \frac{p_{ab} V}{L \sum_c p_{cb}}\Big)

    :math:`p_{ab}` is the share of the visits of walks from :math:`a` that are to node :math:`b`.
    The length of a walk is uniform in 1 to :math:`L`.

    Args:
        adjacency: :math:`A`, ``[V, V]``; weights are ignored.
        walks: number of walks from each node.
        length: :math:`L`, the maximum length.
        seed: seed of the walks.

    Returns:
        :math:`P` without its diagonal, ``[V, V]``; a node without neighbours has an empty row.

    References:
        Wu et al. (WWW 2020), UDAGCN.
    """
    rng, num_nodes = np.random.default_rng(seed), adjacency.shape[0]
    first, degree = adjacency.indptr.astype(np.int64), np.diff(adjacency.indptr)
    start = np.repeat(np.flatnonzero(degree), walks)
    left = rng.integers(1, length + 1, len(start))
    here, met = start, []
    while len(start):
        drawn = first[here] + (rng.random(len(here)) * degree[here]).astype(np.int64)
        here = adjacency.indices[drawn].astype(np.int64)
        met.append(start * num_nodes + here)
        left = left - 1
        start, here, left = (part[left > 0] for part in (start, here, left))

    pair, count = np.unique(np.concatenate([np.empty(0, np.int64), *met]), return_counts=True)
    a, b = np.divmod(pair, max(num_nodes, 1))
    share = count / np.bincount(a, count, minlength=num_nodes)[a]
    total = np.bincount(b, share, minlength=num_nodes)
    information = np.log(share * np.count_nonzero(degree) / (length * total[b]))
    kept = (information > 0) & (a != b)
    return sp.csr_array(
        (information[kept].astype(np.float32), (a[kept], b[kept])), shape=adjacency.shape
    )


def ppmi_graph(graph: Graph) -> Graph:
    """The graph with :func:`ppmi` as its adjacency and the same features, cached."""
    if graph not in _walked:
        _walked[graph] = graph.rewired(ppmi(graph.adjacency("raw").matrix))
    return _walked[graph]

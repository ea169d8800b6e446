"""Features that say where a node lies in its graph; they belong to this graph alone."""
from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from graphgym_srnc.errors import InputError


def spectral(edges: np.ndarray, num_nodes: int, dimensions: int) -> sp.csr_matrix:
    r"""The leading eigenvectors ``[V, D]`` of :math:`D^{-1/2} A D^{-1/2}`, times :math:`\sqrt V`.

    Raises:
        InputError: more dimensions than the graph has.
    """
    if not 1 <= dimensions < num_nodes - 1:
        raise InputError("--spectral", dimensions, f"1 to {num_nodes - 2}")
    adjacency = sp.csr_matrix((np.ones(edges.shape[1]), edges), shape=(num_nodes, num_nodes))
    adjacency = ((adjacency + adjacency.T) > 0).astype(float)
    adjacency.setdiag(0)
    root = sp.diags(1 / np.sqrt(np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1)))

    # From a vector that is an eigenvector itself the iteration would go on at random.
    start = np.random.RandomState(0).standard_normal(num_nodes)
    _, vectors = eigsh(root @ adjacency @ root, k=dimensions, which="LA", v0=start)
    # An eigenvector has no sign of its own.
    largest = vectors[np.abs(vectors).argmax(0), np.arange(dimensions)]
    return sp.csr_matrix((vectors * np.sign(largest))[:, ::-1] * num_nodes ** 0.5)

"""What is clustered: what the words around a node are about, beside the posterior of the model."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.own.discover.words import are_words, features

TOPICS, STEPS, RESTART = 20, 10, 0.1
"""Width of :func:`topics`; steps and restart of its personalised PageRank."""


def states(graph: Data, posterior: Tensor) -> Tensor:
    r"""Topics of length 1 beside :math:`\sqrt P`, whose distances are Hellinger's, ``[V, D]``."""
    return torch.cat([F.normalize(topics(graph), dim=1), posterior.float().sqrt()], 1)


def topics(graph: Data, dim: int = TOPICS) -> Tensor:
    r"""The first principal axes of :math:`\sum_t \pi_t \hat A^t X`, ``[V, dim]``.

    The sum is ten steps of personalised PageRank. Rows of :math:`X` have length 1; columns of words
    are weighted by inverse document frequency. Neither a dense ``[V, F]`` nor a ``[V, V]`` matrix
    is made; the axes come from products with vectors.

    Args:
        graph: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        dim: number of axes; less on a graph with fewer nodes or features.
    """
    prepared = prepare(graph, "auto")
    loops, x = (
        prepared.adjacency("loops").matrix.astype(np.float64),
        _weighted(features(prepared.x)),
    )
    walk = sp.csr_array(sp.diags_array(1 / np.asarray(loops.sum(1)).ravel()) @ loops)
    back = walk.T.tocsr()

    def smooth(v: np.ndarray, step: sp.csr_array) -> np.ndarray:
        out = v
        for _ in range(STEPS):
            out = (1 - RESTART) * (step @ out) + RESTART * v
        return out

    def centred(v: np.ndarray) -> np.ndarray:
        return v - v.mean(0)

    dim = min(dim, min(x.shape) - 1)
    if dim < 1:
        return torch.from_numpy(centred(smooth(x @ np.eye(x.shape[1]), walk))).float()
    product = LinearOperator(
        x.shape,
        matvec=lambda v: centred(smooth(x @ v, walk)),
        rmatvec=lambda u: x.T @ smooth(centred(u), back),
        dtype=np.float64,
    )
    rng = np.random.RandomState(0)
    if np.abs(product @ rng.standard_normal(x.shape[1])).max() < 1e-9:
        return torch.zeros(x.shape[0], dim)  # all nodes are about the same, which ARPACK refuses
    left, scale, _ = svds(product, k=dim, v0=rng.standard_normal(min(x.shape)))
    return torch.from_numpy(np.ascontiguousarray((left * scale)[:, ::-1])).float()


def _weighted(x: sp.csr_array | np.ndarray) -> sp.csr_array | np.ndarray:
    """Features ``[V, F]``; words weighted by inverse document frequency, in rows of length 1."""
    matrix = x.astype(np.float64)
    if not are_words(matrix):
        return matrix
    present = np.asarray((matrix > 0).sum(0)).ravel()
    idf = np.log((1 + matrix.shape[0]) / (1 + present))
    matrix = sp.csr_array(matrix).multiply(idf).tocsr()
    length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.maximum(length, 1e-12)) @ matrix)

"""Unsupervised embeddings of nodes, none of which reads a label."""
from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph, Sparse, prepare, train_infomax
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.clustering.skipgram import skip_gram
from graphgym_srnc.own.clustering.walks import random_walks

KINDS = ("features", "deepwalk", "node2vec", "dgi")


def embed(data: Data, kind: str, seed: int = 0, *, features: str = "row", dim: int = 128, walks: int = 10, length: int = 40,
          window: int = 10, p: float = 0.5, q: float = 0.5, hidden: int = 512) -> Tensor:
    """Embed the nodes of a graph; global random generators stay untouched.

    ``deepwalk`` (KDD 2014) takes 10 walks from each node where its authors take 80; 40 nodes a walk, vectors of width 128 and windows
    of 10 are theirs. ``node2vec`` (KDD 2016) differs in ``p`` and ``q`` alone, which its authors choose by labels out of 0.25, 0.5, 1,
    2 and 4; here they are fixed, as no label may choose. ``dgi`` (ICLR 2019) is :mod:`graphgym_srnc.backbones.dgi`.

    Args:
        data: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        kind: ``features``, ``deepwalk``, ``node2vec`` or ``dgi``.
        seed: decides everything random.
        features: how features are scaled for ``features`` and ``dgi``, see :class:`graphgym_srnc.backbones.Graph`.
        dim, window: of skip-gram.
        walks: walks from each node.
        length: nodes of a walk.
        p, q: of ``node2vec``.
        hidden: width of ``dgi``.

    Returns:
        The embedding, ``[V, D]``.

    Raises:
        InputError: the kind is unknown or a value is not possible.
    """
    if kind not in KINDS:
        raise InputError("embedding", kind, ", ".join(KINDS))
    graph = prepare(data, features)
    if kind == "features":
        return torch.from_numpy(graph.x.matrix.toarray()) if isinstance(graph.x, Sparse) else graph.x
    if kind == "dgi":
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return train_infomax(graph, hidden=hidden)(graph).detach()
    return _from_walks(graph, seed, dim, walks, length, window, *((p, q) if kind == "node2vec" else (1.0, 1.0)))


def _from_walks(graph: Graph, seed: int, dim: int, walks: int, length: int, window: int, p: float, q: float) -> Tensor:
    if walks < 1:
        raise InputError("walks.walks", walks, "1 or more")
    start = np.tile(np.arange(graph.num_nodes), walks)
    drawn = random_walks(graph.adjacency("raw").matrix, start, length, p=p, q=q, rng=np.random.RandomState(seed))
    return skip_gram(drawn, graph.num_nodes, dim=dim, window=window, seed=seed)

"""Unsupervised embeddings of nodes, none of which reads a label."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import dense, prepare, train_infomax
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.own.clustering.skipgram import skip_gram
from graphgym_srnc.own.clustering.walks import random_walks

KINDS = ("features", "deepwalk", "node2vec", "dgi")

WALKS, LENGTH = 10, 40
"""Walks from each node (DeepWalk's authors take 80), and nodes of a walk."""

RETURN, IN_OUT = 0.5, 0.5
"""node2vec's :math:`p` and :math:`q`. Its authors choose them by labels, which stay unread here."""


def embed(
    data: Data,
    kind: str,
    seed: int = 0,
    *,
    features: str = "row",
    dim: int = 128,
    hidden: int = 512,
) -> Tensor:
    """Embed the nodes of a graph; global random generators stay untouched.

    Args:
        data: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        kind: ``features``, ``deepwalk`` (KDD 2014), ``node2vec`` (KDD 2016) or ``dgi`` (ICLR 2019).
        seed: decides everything random.
        features: how features are scaled for ``features`` and ``dgi``, see
            :class:`graphgym_srnc.backbones.Graph`.
        dim: width of ``deepwalk`` and ``node2vec``.
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
        return dense(graph.whole_features())
    if kind == "dgi":
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return train_infomax(graph, hidden=hidden)(graph).detach()

    p, q = (RETURN, IN_OUT) if kind == "node2vec" else (1.0, 1.0)
    start, rng = np.tile(np.arange(graph.num_nodes), WALKS), np.random.RandomState(seed)
    walks = random_walks(graph.adjacency("raw").matrix, start, LENGTH, p=p, q=q, rng=rng)
    return skip_gram(walks, graph.num_nodes, dim=dim, seed=seed)

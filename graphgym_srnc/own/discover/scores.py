"""How good clusters are where true classes are known; nothing that is found depends on it."""
from __future__ import annotations

from typing import Sequence

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.train.metrics import clustering_scores


def rate(found: Discovery, y_true: Tensor, unseen: Tensor, nodes: Tensor, top: int = 10) -> dict[str, float]:
    """Scores of clusters against true classes.

    ``acc`` and ``nmi`` over all ``nodes``, ``unseen_acc`` and ``unseen_nmi`` over those of unseen classes. ``ap_nodes``: average precision
    at finding nodes of unseen classes by the newness of their cluster, and ``share_unseen``, that of chance. ``ap_clusters``: the same
    for clusters, those of known classes among them, where one is new if most of its nodes are unseen. ``consistency``: that of unaligned
    clusters.

    Args:
        found: the clusters.
        y_true: true classes, ``[V]``, -1 where not known.
        unseen: whether a node is of an unseen class, ``[V]``.
        nodes: nodes to score, ``[n]``: those with a true class that were not labelled.
        top: typical nodes looked at.
    """
    every = [*found.known, *found.new]
    newness = torch.tensor([one.newness for one in every], dtype=torch.double)
    mine = torch.zeros(len(y_true), dtype=torch.bool)
    mine[nodes] = True
    hidden = nodes[unseen[nodes]]
    scores = dict(clustering_scores(found.cluster[nodes], y_true[nodes]))
    if len(hidden):
        scores |= {f"unseen_{name}": value for name, value in clustering_scores(found.cluster[hidden], y_true[hidden]).items()}
        scores["ap_nodes"] = float(average_precision_score(unseen[nodes], newness[found.cluster[nodes]]))
        scores["share_unseen"] = len(hidden) / len(nodes)
    own = [one.nodes[mine[one.nodes]] for one in every]
    new = torch.tensor([len(n) > 0 and float(unseen[n].float().mean()) > 0.5 for n in own])
    if new.any():
        scores["ap_clusters"] = float(average_precision_score(new, newness))
    scores["consistency"] = consistency(own[len(found.known):], y_true, top)
    return scores


def consistency(typical: Sequence[Tensor], y_true: Tensor, top: int = 10) -> float:
    """How much the most typical nodes of a cluster are of one class: the share of the commonest class among the first ``top``, a mean over
    clusters.

    Args:
        typical: nodes of each cluster, the most typical first.
        y_true: true classes, ``[V]``.
        top: nodes looked at.
    """
    shares = [float(y_true[nodes[:top]].bincount().max()) / len(nodes[:top]) for nodes in typical if len(nodes)]
    return sum(shares) / max(len(shares), 1)

"""How good clusters are where true classes are known; nothing that is found depends on it."""

from __future__ import annotations

from typing import Mapping, Sequence

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.train.metrics import clustering_scores

TOP = 10
"""The most typical nodes of a cluster that consistency looks at."""


def rate_on(discovery: Discovery, task: ShiftTask | None) -> dict[str, float]:
    """:func:`rate` on the target nodes of a task that were not labelled.

    Raises:
        InputError: their true classes are not known.
    """
    if task is None or "y_true" not in task.target:
        raise InputError.plain(
            "--evaluate",
            "the true classes of this graph are not known",
            "Leave it out, or use the target graph of a run with all labels",
        )
    target = task.target
    free = target.y_true >= 0
    if task.source is target:
        free[task.train] = False
    return rate(discovery, target.y_true, target.y == task.unknown, free.nonzero().view(-1))


def rate(discovery: Discovery, y_true: Tensor, unseen: Tensor, nodes: Tensor) -> dict[str, float]:
    """Scores of clusters against true classes.

    ``acc`` and ``nmi`` are over all ``nodes``, ``unseen_acc`` and ``unseen_nmi`` over those of
    unseen classes. ``ap_nodes`` is the average precision at finding nodes of unseen classes by the
    newness of their cluster, ``share_unseen`` that of chance, and ``ap_clusters`` that at finding
    clusters most of whose nodes are unseen. ``consistency`` is that of new clusters.

    Args:
        discovery: the clusters.
        y_true: true classes, ``[V]``, -1 where not known.
        unseen: whether a node is of an unseen class, ``[V]``.
        nodes: nodes to score, ``[n]``: those with a true class that were not labelled.
    """
    every = [*discovery.known, *discovery.new]
    newness = torch.tensor([cluster.newness for cluster in every], dtype=torch.double)
    group, hidden = discovery.cluster, nodes[unseen[nodes]]
    scores = dict(clustering_scores(group[nodes], y_true[nodes]))
    if len(hidden):
        on_unseen = clustering_scores(group[hidden], y_true[hidden])
        scores |= {f"unseen_{name}": value for name, value in on_unseen.items()}
        scores["ap_nodes"] = float(average_precision_score(unseen[nodes], newness[group[nodes]]))
        scores["share_unseen"] = len(hidden) / len(nodes)
    scored = [cluster.nodes[torch.isin(cluster.nodes, nodes)] for cluster in every]
    new = torch.tensor([len(n) > 0 and float(unseen[n].float().mean()) > 0.5 for n in scored])
    if new.any():
        scores["ap_clusters"] = float(average_precision_score(new, newness))
    return scores | {"consistency": consistency(scored[len(discovery.known) :], y_true)}


def consistency(typical: Sequence[Tensor], y_true: Tensor, top: int = TOP) -> float:
    """The mean share over clusters that the commonest class has of their most typical nodes.

    Args:
        typical: nodes of each cluster, the most typical first.
        y_true: true classes, ``[V]``.
        top: nodes looked at.
    """
    looked_at = [y_true[nodes[:top]] for nodes in typical if len(nodes)]
    shares = [float(classes.bincount().max()) / len(classes) for classes in looked_at]
    return sum(shares) / max(len(shares), 1)


def summary(scores: Mapping[str, float]) -> str:
    """Scores in words, a line each."""
    percent = {name: f"{100 * value:.2f}" for name, value in scores.items()}
    lines = ["all unlabelled nodes: ACC {acc}, NMI {nmi}".format(**percent)]
    if "unseen_acc" in scores:
        clusters = (
            f"{scores['ap_clusters']:.3f} over clusters"
            if "ap_clusters" in scores
            else "no cluster consists mostly of unseen classes"
        )
        lines += [
            "nodes of unseen classes: ACC {unseen_acc}, NMI {unseen_nmi}".format(**percent),
            f"average precision of the ranking: {scores['ap_nodes']:.3f} over nodes "
            f"(random: {scores['share_unseen']:.3f}), {clusters}",
        ]
    lines.append(
        "share of the commonest class in the ten most typical nodes of a cluster: "
        f"{100 * scores['consistency']:.0f} %"
    )
    return "scores against true classes\n  " + "\n  ".join(lines)

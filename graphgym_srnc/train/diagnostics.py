"""Diagnostics of a trained run: figures, and a sentence for each figure beyond its bound.

The bounds were measured, see ``docs/reference/diagnostics.md``. Figures and sentences use labels of
training, held-out source and validation nodes only. Labels of test nodes are used only for a
reliability curve, on which no sentence depends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.data.describe import few_labels, label_counts
from graphgym_srnc.losses.alignment import alignment_cost
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train.metrics import expected_calibration_error, reliability
from graphgym_srnc.train.trainer import predict_sets

HOMOPHILY, EDGES = 0.5, 30
"""Minimum edge homophily, and the minimum number of edges needed to estimate it."""

USED = 0.75
"""Minimum ratio of the effective number of clusters to that of classes."""

MARGIN = 0.1
"""Minimum relative extra cost of the second-best assignment of clusters to classes."""

BALANCE = 0.2
"""Maximum total variation distance of predicted known classes, validation against target nodes."""

UNKNOWN_SHARE, UNKNOWN_RATIO = 0.9, 3.0
"""Maximum share of target nodes predicted as unknown, and its maximum ratio to validation labels.
"""

AGREEMENT = 0.6
"""Minimum agreement with episode 0 among target nodes predicted as known.

A node agrees if its class was the most probable known class in episode 0.
"""

LOCALITY = 1.3
"""Maximum of the lower bound of :func:`label_locality`, which is below 1 for random labels."""

OVERCONFIDENCE = 0.15
"""Maximum excess of the mean probability over the accuracy on validation nodes."""


class Verdict(NamedTuple):
    """Diagnostics of a run.

    Args:
        figures: figures by name; figures that the task or the method does not provide are absent.
        sentences: sentences on figures beyond their bounds, by topic.
        reliability: reliability curves on ``val`` and ``test`` nodes, see
            :func:`graphgym_srnc.train.metrics.reliability`.
    """

    figures: dict[str, float]
    sentences: dict[str, str]
    reliability: dict[str, list[list[float]]]


@torch.no_grad()
def judge(method: Method, task: ShiftTask, first: Tensor | None = None) -> Verdict:
    """Compute the diagnostics of a trained method with its final weights and threshold.

    Args:
        method: the method, with the weights of the selected episode.
        task: the task it was trained on, with its labels.
        first: predictions ``[2, V]`` in episode 0, see ``RunRecord.first`` of
            :class:`graphgym_srnc.train.trainer.RunRecord`.

    Returns:
        The diagnostics.
    """
    seen = getattr(method, "task", task)
    _, on_val, on_test, on_target = predict_sets(method, seen)
    parts = (
        ("val", on_val, task.validation.y[task.val]),
        ("test", on_test, task.target.y[task.test]),
    )
    curves = {name: curve(method, found, label) for name, found, label in parts if len(label)}
    predicted, predicted_val = method.decide(on_target), method.decide(on_val)

    figures: dict[str, float] = {}
    same, edges = homophily(task)
    if edges >= EDGES:
        figures |= {"homophily": same, "labelled_edges": edges}
    figures |= cluster_figures(method, seen)
    if task.source is task.target:
        figures["label_locality"] = label_locality(task, predicted)
    if len(task.val):
        # Known classes only, since the share of unknown nodes has its own sentence.
        named = [classes[classes < task.num_known] for classes in (predicted_val, predicted)]
        if all(map(len, named)):
            shares = [class_shares(classes, task.num_known) for classes in named]
            figures["balance"] = float((shares[0] - shares[1]).abs().sum() / 2)
        excess = sum(count * (sure - right) for sure, right, count in curves["val"])
        figures["overconfidence"] = excess / len(task.val)
    if task.open_set:
        figures["unknown_share"] = float((predicted == task.num_known).double().mean())
        if len(task.val):
            unknown = task.validation.y[task.val] == task.num_known
            figures["val_unknown_share"] = float(unknown.double().mean())
    known = predicted < task.num_known
    if first is not None and known.any():
        figures["agreement"] = float((first[1] == predicted)[known].double().mean())
    figures |= {f"{name}_ece": expected_calibration_error(c) for name, c in curves.items()}

    found = sentences(figures)
    if few := few_labels(label_counts(task)):
        found["few labels"] = few
    for topic in method.reported:
        found.pop(topic, None)  # a warning or a test of the method already covers it
    return Verdict(figures, found, curves)


def sentences(figures: dict[str, float]) -> dict[str, str]:
    """A warning for each figure outside its range: what was measured, its meaning, what to do."""
    found, f = {}, figures
    if f.get("homophily", 1) < HOMOPHILY:
        found["homophily"] = (
            f"Only {_percent(f['homophily'])} of the {f['labelled_edges']:.0f} edges between"
            " labelled nodes join nodes of the same class"
            f" (expected: at least {_percent(HOMOPHILY)}). Methods that smooth over neighbours,"
            " SRNC+ included, often lose on such graphs. Compare with train.mode erm and with an"
            " MLP (gnn.layer_type mlp)."
        )
    if f.get("label_locality", 0) > LOCALITY:
        found["locality"] = (
            "Edges join labelled nodes of the same class at least"
            f" {f['label_locality']:.1f} times as often as they would join randomly labelled nodes"
            f" (expected: at most {LOCALITY:g}). The labels seem to come from one part of the"
            " graph, so validation scores and the estimated share of unknown nodes may be wrong."
            " Label nodes in other parts too."
        )
    if "clusters" in f and f["clusters"] < USED * f["classes"]:
        found["collapse"] = (
            f"The cluster GNN uses {f['clusters']:.1f} clusters for {f['classes']:.1f} classes,"
            f" measured as effective numbers (expected: at least {_percent(USED)} of the classes)."
            " The clusters do not match the classes. Try cluster_init source or a larger collapse."
        )
    if f.get("margin", 1) < MARGIN:
        found["alignment"] = (
            "The second-best assignment of clusters to classes costs only"
            f" {_percent(f['margin'])} more than the best (expected: at least {_percent(MARGIN)})."
            " Two classes may be swapped. Check the confusion matrix, or label more nodes."
        )
    if f.get("balance", 0) > BALANCE:
        found["balance"] = (
            "The predicted shares of the known classes differ by"
            f" {_percent(f['balance'])} between validation and target nodes (total variation,"
            f" expected: at most {_percent(BALANCE)}). Validation scores may not hold on the"
            " target. Draw validation nodes from the target graph if you can."
        )
    found |= _unknown(f)
    if f.get("agreement", 1) < AGREEMENT:
        found["agreement"] = (
            "The final model and the plain GNN of episode 0 predict the same class on only"
            f" {_percent(f['agreement'])} of the target nodes predicted as known (expected: at"
            f" least {_percent(AGREEMENT)}). Check some nodes on which they differ before you trust"
            " either model."
        )
    if f.get("overconfidence", 0) > OVERCONFIDENCE:
        found["calibration"] = (
            "The mean probability of the predicted class is"
            f" {100 * f['overconfidence']:.0f} points above the accuracy on validation nodes"
            f" (expected: at most {100 * OVERCONFIDENCE:.0f}). The model is overconfident. Rank"
            " nodes by their probability, but do not read it as the chance to be right."
        )
    return found


def _unknown(f: dict[str, float]) -> dict[str, str]:
    share, expected = f.get("unknown_share"), f.get("val_unknown_share", 0.0)
    if share is None:
        return {}
    if share == 0 and not expected:
        return {
            "unknown share": "No target node is predicted as unknown. That is right if every"
            " class has labels. Otherwise the unknown-class threshold is"
            " wrong; check the nodes near it."
        }
    if share == 0 or share > UNKNOWN_SHARE:
        bounds = f" (expected: above 0 and at most {_percent(UNKNOWN_SHARE)})"
    elif expected and not 1 / UNKNOWN_RATIO <= share / expected <= UNKNOWN_RATIO:
        bounds = (
            f", but {100 * expected:.1f} % of the validation nodes are unknown"
            f" (expected: within a factor of {UNKNOWN_RATIO:g})"
        )
    else:
        return {}
    return {
        "unknown share": f"{100 * share:.1f} % of the target nodes are predicted as unknown"
        f"{bounds}. The unknown-class threshold is probably wrong; check the"
        " nodes near it."
    }


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def curve(method: Method, scores: Tensor, label: Tensor) -> list[list[float]]:
    """Reliability curve of a method's scores ``[n, N(+1)]`` on nodes with labels ``[n]``."""
    return reliability(method.posterior(scores).amax(1), method.decide(scores) == label)


def homophily(task: ShiftTask) -> tuple[float, int]:
    """Edge homophily of labelled nodes of known classes, and the number of their edges.

    It covers the graphs with labels of training, held-out source and validation nodes.
    """
    same = edges = 0
    for graph, parts in _labelled(task):
        label = torch.full((graph.num_nodes,), HIDDEN, device=graph.y.device)
        for nodes in parts:
            label[nodes] = graph.y[nodes]
        label[label == task.num_known] = HIDDEN
        labelled = label >= 0
        for pairs in graph.edge_index.split(2**20, 1):
            a, b = label[pairs[:, labelled[pairs].all(0) & (pairs[0] < pairs[1])]]
            same, edges = same + int((a == b).sum()), edges + len(a)
    return same / max(edges, 1), edges


def label_locality(task: ShiftTask, predicted: Tensor) -> float:
    r"""Lower bound of how much oftener edges join labelled nodes than if labels were random.

    .. math:: \frac{m - 2 \sqrt m}{\sum_k m_k \frac{n^s_k (n^s_k - 1)}{n_k (n_k - 1)}}

    Of the predicted class :math:`k`, :math:`n_k` nodes and :math:`m_k` edges lie inside it, and
    :math:`n^s_k` of these nodes are labelled. :math:`m` edges join two labelled nodes of one class;
    two standard errors are subtracted. Without it, the ratio is 1 on average if labels are drawn at
    random within each class.

    Args:
        task: a task with one graph.
        predicted: predicted classes of all nodes, ``[V]``.
    """
    graph, size, given = task.source, task.num_known, task.train
    label, labelled = predicted.clone(), torch.zeros_like(predicted, dtype=torch.bool)
    label[given], labelled[given] = graph.y[given], True
    inside, both = torch.zeros(size + 1, dtype=torch.double, device=label.device), 0
    for pairs in graph.edge_index.split(2**20, 1):
        a, b = pairs[:, (label[pairs[0]] == label[pairs[1]]) & (pairs[0] < pairs[1])]
        inside += torch.bincount(label[a], minlength=size + 1)
        both += int((labelled[a] & labelled[b]).sum())
    nodes, drawn = (torch.bincount(part, minlength=size + 1) for part in (label, label[given]))
    expected = inside * drawn * (drawn - 1) / (nodes * (nodes - 1)).clamp(min=1)
    return (both - 2 * both**0.5) / max(float(expected.sum()), 1.0)


def _labelled(task: ShiftTask) -> list[tuple[Data, list[Tensor]]]:
    if task.validation is task.source:
        return [(task.source, [task.train, task.source_val, task.val])]
    return [(task.source, [task.train, task.source_val]), (task.validation, [task.val])]


def cluster_figures(method: Method, task: ShiftTask) -> dict[str, float]:
    """Figures of the cluster GNNs: effective numbers of clusters and classes, and alignment margin.

    Each figure is that of the worst cluster GNN. The result is empty for a method without cluster
    GNN.
    """
    on_target = method.log_cluster_posterior(task.target)
    elsewhere = task.source is not task.target
    on_source = method.log_cluster_posterior(task.source) if elsewhere else on_target
    if on_target is None or on_source is None:
        return {}
    label = task.source.y[task.train]
    one_hot = F.one_hot(label, task.num_known).float()

    used, margins = [], []
    for source, target in zip(on_source[:, task.train], on_target):
        best, second = second_best(alignment_cost(one_hot, source).double().cpu().numpy())
        used.append(effective_number(class_shares(target.argmax(1), target.size(1))))
        margins.append(min((second - best) / max(best, 1e-12), 1e6))
    classes = effective_number(class_shares(label, task.num_known))
    return {"clusters": min(used), "margin": min(margins), "classes": classes}


def second_best(cost: np.ndarray) -> tuple[float, float]:
    """Total cost of the best one-to-one assignment of ``[C, N]``, and of the second best.

    The result is exact: every other assignment lacks a pair of the best one, so each pair is
    forbidden in turn. The second cost is infinite if there is no other assignment.
    """
    rows, columns = linear_sum_assignment(cost)
    best, others = float(cost[rows, columns].sum()), [np.inf]
    # Larger than the cost of any assignment without the pair.
    price = np.abs(cost).sum() + 1
    for row, column in zip(rows, columns):
        other = cost.copy()
        other[row, column] = price
        found = linear_sum_assignment(other)
        if other[found].max() < price:
            others.append(float(cost[found].sum()))
    return best, min(others)


def class_shares(label: Tensor, size: int) -> Tensor:
    """Share of each class among nodes ``[n]``."""
    return torch.bincount(label, minlength=size).double() / max(len(label), 1)


def effective_number(shares: Tensor) -> float:
    """Effective number of classes: the exponential of the entropy of their shares."""
    return float(torch.special.entr(shares).sum().exp())

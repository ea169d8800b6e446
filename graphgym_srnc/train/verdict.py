"""When to distrust a run: figures of a trained method and its task, and a sentence for each that is beyond its bound.

The bounds were measured, see ``docs/verdict.md``. Figures and sentences take labels of training, held-out source and validation nodes
alone; those of test nodes are read for the reliability curve in the record, which no sentence speaks of.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.backbones import prepare
from graphgym_srnc.losses.alignment import alignment_cost
from graphgym_srnc.methods.base import Method
from graphgym_srnc.task import HIDDEN, ShiftTask
from graphgym_srnc.train.metrics import expected_calibration_error, reliability

if TYPE_CHECKING:
    from torch_geometric.data import Data

HOMOPHILY, EDGES = 0.5, 30
"""Least share of edges that join one class, and least number of edges that tell it."""

USED = 0.75
"""Least ratio of the effective number of clusters to that of classes."""

MARGIN = 0.1
"""Least relative cost of the second-best assignment above the best."""

BALANCE = 0.2
"""Largest total variation between predicted classes on validation and on target nodes."""

UNKNOWN_SHARE, UNKNOWN_RATIO = 0.9, 3.0
"""Largest share of unknown target nodes, and largest ratio to that of validation labels, either way."""

AGREEMENT = 0.6
"""Least share of target nodes, of those said to be known, whose class is also the likeliest known one in episode 0."""

OVERCONFIDENCE = 0.15
"""Largest excess of the mean probability over the share of right predictions on validation nodes."""


class Verdict(NamedTuple):
    """What is odd about a run.

    Args:
        figures: by name; one that the task or the method does not give is absent.
        sentences: by what they speak of, those of figures beyond their bound.
        reliability: the reliability curve on ``val`` and on ``test`` nodes, see :func:`graphgym_srnc.train.metrics.reliability`.
    """

    figures: dict[str, float]
    sentences: dict[str, str]
    reliability: dict[str, list[list[float]]]


@torch.no_grad()
def judge(method: Method, task: ShiftTask, agreement: float | None = None, on_target: Tensor | None = None) -> Verdict:
    """Look at a trained method, with the weights of the selected episode.

    Args:
        method: the method.
        task: what it was trained on (the oracle's task if it is one), with its labels.
        agreement: share of the target nodes said to be of a known class for which it is also the likeliest one in episode 0, the plain
            GNN; see :func:`agreement`.
        on_target: what the method predicts for the target, ``[V, N(+1)]``, where that is known.
    """
    held = getattr(method, "task", task)
    on_target = method.predict(held.target) if on_target is None else on_target
    on_val = on_target if held.validation is held.target else method.predict(held.validation)
    curves = {part: curve(method, scores[nodes], graph.y[nodes]) for part, scores, nodes, graph in
              (("val", on_val, task.val, task.validation), ("test", on_target, task.test, task.target)) if len(nodes)}
    said, said_val = method.decide(on_target), method.decide(on_val)[task.val]
    figures: dict[str, float] = {}
    same, edges = homophily(task)
    if edges >= EDGES:
        figures |= {"homophily": same, "labelled_edges": edges}
    figures |= _of_clusters(method, held)
    if len(task.val):
        shares = [_shares(part, task.num_outputs) for part in (said_val, said)]
        figures["balance"] = float((shares[0] - shares[1]).abs().sum() / 2)
        figures["overconfidence"] = sum(count * (sure - right) for sure, right, count in curves["val"]) / len(task.val)
    if task.open_set:
        figures["unknown_share"] = float((said == task.num_known).double().mean())
        if len(task.val):
            figures["val_unknown_share"] = float((task.validation.y[task.val] == task.num_known).double().mean())
    if agreement is not None:
        figures["agreement"] = agreement
    figures |= {f"{part}_ece": expected_calibration_error(one) for part, one in curves.items()}
    told = sentences(figures)
    if any("collapsed" in warning for warning in method.warnings):
        told.pop("collapse", None)  # the method has said so itself
    return Verdict(figures, told, curves)


def sentences(figures: dict[str, float]) -> dict[str, str]:
    """What to say of figures: what is odd, the figure, its bound, and what to do."""
    told, f = {}, figures
    if f.get("homophily", 1) < HOMOPHILY:
        told["homophily"] = (f"only {_percent(f['homophily'])} of {f['labelled_edges']:.0f} edges between labelled nodes join one class"
                             f" (bound {_percent(HOMOPHILY)}): neighbours tell little of the class; compare with gnn.layer_type mlp")
    if "clusters" in f and f["clusters"] < USED * f["classes"]:
        told["collapse"] = (f"the cluster GNN uses {f['clusters']:.1f} clusters for {f['classes']:.1f} classes, effective numbers (bound"
                            f" {_percent(USED)}): they are not the classes; try srnc.cluster_init source or a larger srnc.collapse")
    if f.get("margin", 1) < MARGIN:
        told["alignment"] = (f"the second-best assignment of clusters to classes costs only {_percent(f['margin'])} more (bound"
                             f" {_percent(MARGIN)}): one class may stand for another; look at the confusion matrix, or give more labels")
    if f.get("balance", 0) > BALANCE:
        told["balance"] = (f"predicted classes differ by {_percent(f['balance'])} between validation and target nodes (total variation,"
                           f" bound {_percent(BALANCE)}): validation is not like the target, so its scores say little of it")
    told |= _unknown(f)
    if f.get("agreement", 1) < AGREEMENT:
        told["agreement"] = (f"the plain GNN names the same class on only {_percent(f['agreement'])} of the target nodes said to be known"
                             f" (bound {_percent(AGREEMENT)}): look at some on which they differ before you believe either")
    if f.get("overconfidence", 0) > OVERCONFIDENCE:
        told["calibration"] = (f"probabilities are {_percent(f['overconfidence'])} above the share that is right on validation nodes (bound"
                               f" {_percent(OVERCONFIDENCE)}): rank nodes by them, do not read them as chances")
    return told


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _unknown(f: dict[str, float]) -> dict[str, str]:
    share, expected = f.get("unknown_share"), f.get("val_unknown_share", 0.0)
    if share is None:
        return {}
    start, end = f"{100 * share:.1f} % of the target nodes are said to be unknown", ": the cut is off; look at nodes near it"
    if share == 0 or share > UNKNOWN_SHARE:
        return {"unknown share": f"{start} (bounds above 0 and {_percent(UNKNOWN_SHARE)}){end}"}
    if expected and not 1 / UNKNOWN_RATIO <= share / expected <= UNKNOWN_RATIO:
        return {"unknown share": f"{start}, {100 * expected:.1f} % of the validation nodes are (bound a factor of {UNKNOWN_RATIO:g}){end}"}
    return {}


def curve(method: Method, scores: Tensor, label: Tensor) -> list[list[float]]:
    """The reliability curve of a method's scores ``[n, N(+1)]`` on nodes with labels ``[n]``."""
    return reliability(method.posterior(scores).amax(1), method.decide(scores) == label)


def homophily(task: ShiftTask) -> tuple[float, int]:
    """The share of edges between nodes of known classes that join one class, and the number of these edges, both over the graphs that
    hold labels of training, held-out source and validation nodes."""
    same = edges = 0
    for graph, parts in _labelled(task):
        label = torch.full((graph.num_nodes,), HIDDEN, device=graph.y.device)
        for nodes in parts:
            label[nodes] = graph.y[nodes]
        label[label == task.num_known] = HIDDEN
        labelled = label >= 0
        for pairs in graph.edge_index.split(2 ** 20, 1):
            a, b = label[pairs[:, labelled[pairs].all(0) & (pairs[0] < pairs[1])]]
            same, edges = same + int((a == b).sum()), edges + len(a)
    return same / max(edges, 1), edges


def _labelled(task: ShiftTask) -> list[tuple[Data, list[Tensor]]]:
    if task.validation is task.source:
        return [(task.source, [task.train, task.source_val, task.val])]
    return [(task.source, [task.train, task.source_val]), (task.validation, [task.val])]


def agreement(plain: Tensor, said: Tensor, num_known: int) -> float | None:
    """The share of nodes that the decision ``said`` ``[V]`` calls known of which it is the class that ``plain`` ``[V]`` has, too; None
    where there is none."""
    known = said < num_known
    return float((plain == said)[known].double().mean()) if known.any() else None


def second_best(cost: np.ndarray) -> tuple[float, float]:
    """Total cost of the best one-to-one assignment of clusters to classes ``[C, N]``, and of the best one that differs in a pair.

    Exact: another assignment lacks one of the best one's pairs, so each of them is forbidden in turn. Infinite where there is no other.
    """
    rows, columns = linear_sum_assignment(cost)
    best, others = float(cost[rows, columns].sum()), [np.inf]
    # A price that no assignment without the pair can reach.
    price = np.abs(cost).sum() + 1
    for row, column in zip(rows, columns):
        other = cost.copy()
        other[row, column] = price
        found = linear_sum_assignment(other)
        if other[found].max() < price:
            others.append(float(cost[found].sum()))
    return best, min(others)


def _of_clusters(method: Method, task: ShiftTask) -> dict[str, float]:
    """Effective numbers of clusters on the target and of classes in the training labels, and the margin of the assignment, of the worst
    cluster GNN; nothing for a method without one."""
    figures: list[dict[str, float]] = []
    label = task.source.y[task.train]
    one_hot = F.one_hot(label, task.num_known).float()
    for cluster in getattr(method, "clusters", ()):
        source, target = (cluster.log_posterior(prepare(graph, method.cluster_features)) for graph in (task.source, task.target))
        best, second = second_best(alignment_cost(one_hot, source[task.train]).double().cpu().numpy())
        figures.append({"clusters": _effective(_shares(target.argmax(1), target.size(1))),
                        "margin": min((second - best) / max(best, 1e-12), 1e6)})
    if not figures:
        return {}
    return {name: min(f[name] for f in figures) for name in figures[0]} | {"classes": _effective(_shares(label, task.num_known))}


def _shares(label: Tensor, size: int) -> Tensor:
    """The share of each class among nodes ``[n]``."""
    return torch.bincount(label, minlength=size).double() / max(len(label), 1)


def _effective(shares: Tensor) -> float:
    """The effective number of parts, the exponential of the entropy of their shares."""
    return float(torch.special.entr(shares).sum().exp())

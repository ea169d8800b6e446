"""When to distrust a run: figures of a trained method and its task, and a sentence for each oddity.

The bounds were measured, see ``docs/verdict.md``. Figures and sentences take labels of training,
held-out source and validation nodes alone; those of test nodes are read for a reliability curve,
which no sentence speaks of.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import parallel
from graphgym_srnc.losses.alignment import alignment_cost
from graphgym_srnc.methods.base import Method
from graphgym_srnc.task import HIDDEN, ShiftTask
from graphgym_srnc.train.metrics import expected_calibration_error, reliability
from graphgym_srnc.train.trainer import predict_sets

HOMOPHILY, EDGES = 0.5, 30
"""Least share of edges that join one class, and least number of edges that tell it."""

USED = 0.75
"""Least ratio of the effective number of clusters to that of classes."""

MARGIN = 0.1
"""Least relative cost of the second-best assignment above the best."""

BALANCE = 0.2
"""Largest total variation between the known classes predicted on validation and on target nodes."""

UNKNOWN_SHARE, UNKNOWN_RATIO = 0.9, 3.0
"""Largest share of unknown target nodes, and largest ratio to that of validation labels."""

AGREEMENT = 0.6
"""Least share of target nodes, of those called known, whose class was the likeliest known one in
episode 0."""

OVERCONFIDENCE = 0.15
"""Largest excess of the mean probability over the share of right ones on validation nodes."""


class Verdict(NamedTuple):
    """What is odd about a run.

    Args:
        figures: by name; one that the task or the method does not give is absent.
        sentences: by what they speak of, those of figures beyond their bound.
        reliability: the reliability curve on ``val`` and on ``test`` nodes, see
            :func:`graphgym_srnc.train.metrics.reliability`.
    """

    figures: dict[str, float]
    sentences: dict[str, str]
    reliability: dict[str, list[list[float]]]


@torch.no_grad()
@parallel.together()
def judge(method: Method, task: ShiftTask, first: Tensor | None = None) -> Verdict:
    """Look at a trained method, with the weights of the selected episode and its final cut.

    Args:
        method: the method.
        task: what it was trained on, with its labels.
        first: of each target node in episode 0 the decision and, below, the likeliest known class,
            ``[2, V]``, as :class:`graphgym_srnc.train.trainer.RunRecord` has it. Figures of the
            target are of the nodes that :func:`graphgym_srnc.train.trainer.predict_sets` gives.
    """
    seen = getattr(method, "task", task)
    on_val, on_test, on_target, nodes = predict_sets(method, seen)
    parts = (("val", on_val, task.validation.y[task.val]),
             ("test", on_test, task.target.y[task.test]))
    curves = {name: curve(method, found, label) for name, found, label in parts if len(label)}
    predicted, predicted_val = method.decide(on_target), method.decide(on_val)

    figures: dict[str, float] = {}
    same, edges = homophily(task)
    if edges >= EDGES:
        figures |= {"homophily": same, "labelled_edges": edges}
    figures |= cluster_figures(method, seen)
    if len(task.val):
        # Unknown nodes may lie among the target's alone: their share has a sentence of its own.
        known = [classes[classes < task.num_known] for classes in (predicted_val, predicted)]
        if all(map(len, known)):
            shares = [class_shares(classes, task.num_known) for classes in known]
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
        figures["agreement"] = float((first[1, nodes] == predicted)[known].double().mean())
    figures |= {f"{name}_ece": expected_calibration_error(c) for name, c in curves.items()}

    found = sentences(figures)
    if method.collapsed:
        found.pop("collapse", None)  # a warning of the method says so
    return Verdict(figures, found, curves)


def sentences(figures: dict[str, float]) -> dict[str, str]:
    """What to say of figures: what is odd, the figure, its bound, and what to do."""
    found, f = {}, figures
    if f.get("homophily", 1) < HOMOPHILY:
        found["homophily"] = (
            f"only {_percent(f['homophily'])} of {f['labelled_edges']:.0f} edges between labelled"
            f" nodes join one class (bound {_percent(HOMOPHILY)}): neighbours tell little of the"
            " class; compare with an MLP")
    if "clusters" in f and f["clusters"] < USED * f["classes"]:
        found["collapse"] = (
            f"the cluster GNN uses {f['clusters']:.1f} clusters for {f['classes']:.1f} classes,"
            f" effective numbers (bound {_percent(USED)}): they are not the classes; try"
            " cluster_init source or a larger collapse")
    if f.get("margin", 1) < MARGIN:
        found["alignment"] = (
            "the second-best assignment of clusters to classes costs only"
            f" {_percent(f['margin'])} more (bound {_percent(MARGIN)}): one class may stand for"
            " another; look at the confusion matrix, or give more labels")
    if f.get("balance", 0) > BALANCE:
        found["balance"] = (
            f"known classes are predicted in shares that differ by {_percent(f['balance'])} between"
            f" validation and target nodes (total variation, bound {_percent(BALANCE)}): validation"
            " is not like the target, so its scores say little of it")
    found |= _unknown(f)
    if f.get("agreement", 1) < AGREEMENT:
        found["agreement"] = (
            f"the plain GNN names the same class on only {_percent(f['agreement'])} of the target"
            f" nodes said to be known (bound {_percent(AGREEMENT)}): look at some on which they"
            " differ before you believe either")
    if f.get("overconfidence", 0) > OVERCONFIDENCE:
        found["calibration"] = (
            f"probabilities are {_percent(f['overconfidence'])} above the share that is right on"
            f" validation nodes (bound {_percent(OVERCONFIDENCE)}): rank nodes by them, do not"
            " read them as chances")
    return found


def _unknown(f: dict[str, float]) -> dict[str, str]:
    share, expected = f.get("unknown_share"), f.get("val_unknown_share", 0.0)
    if share is None:
        return {}
    if share == 0 and not expected:
        return {"unknown share": "no target node is said to be unknown: right if every class has"
                                 " labels, else the cut is off; look at nodes near it"}
    if share == 0 or share > UNKNOWN_SHARE:
        bounds = f" (bounds above 0 and {_percent(UNKNOWN_SHARE)})"
    elif expected and not 1 / UNKNOWN_RATIO <= share / expected <= UNKNOWN_RATIO:
        bounds = (f", {100 * expected:.1f} % of the validation nodes are"
                  f" (bound a factor of {UNKNOWN_RATIO:g})")
    else:
        return {}
    return {"unknown share": f"{100 * share:.1f} % of the target nodes are said to be unknown"
                             f"{bounds}: the cut is off; look at nodes near it"}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def curve(method: Method, scores: Tensor, label: Tensor) -> list[list[float]]:
    """The reliability curve of a method's scores ``[n, N(+1)]`` on nodes with labels ``[n]``."""
    return reliability(method.posterior(scores).amax(1), method.decide(scores) == label)


def homophily(task: ShiftTask) -> tuple[float, int]:
    """The share of edges between nodes of known classes that join one class, and their number.

    Over the graphs that hold labels of training, held-out source and validation nodes.
    """
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


def cluster_figures(method: Method, task: ShiftTask) -> dict[str, float]:
    """Effective numbers of clusters on the target and of classes in the training labels, and the
    margin of the assignment, each of the worst cluster GNN; nothing for a method without one."""
    on_target = method.log_cluster_posterior(task.target)
    if on_target is None:
        return {}
    on_source = on_target
    if task.source is not task.target:
        on_source = method.log_cluster_posterior(task.source)
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
    """Total cost of the best one-to-one assignment of ``[C, N]``, and of the best that differs.

    Exact: another assignment lacks one of the best one's pairs, so each is forbidden in turn.
    Infinite where there is no other.
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


def class_shares(label: Tensor, size: int) -> Tensor:
    """The share of each class among nodes ``[n]``."""
    return torch.bincount(label, minlength=size).double() / max(len(label), 1)


def effective_number(shares: Tensor) -> float:
    """The effective number of parts, the exponential of the entropy of their shares."""
    return float(torch.special.entr(shares).sum().exp())

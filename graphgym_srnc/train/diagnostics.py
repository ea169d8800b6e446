"""Diagnostics of a trained run: figures, and a sentence for each figure beyond its bound.

The bounds were measured, see ``docs/reference/diagnostics.md``. Figures and sentences use labels of
training, held-out source and validation nodes only. Labels of test nodes are used only for a
reliability curve, on which no sentence depends.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.data.describe import few_labels, label_counts
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train.metrics import expected_calibration_error, reliability
from graphgym_srnc.train.trainer import predict_sets

HOMOPHILY, EDGES = 0.5, 30  # minimum edge homophily, and number of edges needed to estimate it
LOCALITY, CLASS_LOCALITY = 1.3, 2.0  # maxima of label_locality, which is below 1 for random labels
BALANCE = 0.2  # maximum total variation of predicted known classes, validation against target
UNKNOWN_SHARE = 0.9  # maximum share of target nodes predicted as unknown
UNKNOWN_RATIO = 3.0  # its maximum ratio to the share of validation labels, and that to it
KNOWN_AS_UNKNOWN = 0.15  # maximum share of validation nodes predicted as unknown if none is
AGREEMENT = 0.6  # minimum share of nodes predicted as known whose class led those in episode 0
OVERCONFIDENCE = 0.15  # maximum excess of the mean probability over the accuracy on validation


@torch.no_grad()
def judge(method: Method, task: ShiftTask, first: Tensor | None = None) -> dict[str, Any]:
    """Compute the diagnostics of a trained method with its final weights and threshold.

    Args:
        method: the method, with the weights of the selected episode.
        task: the task it was trained on, with its labels.
        first: predictions ``[2, V]`` in episode 0, see ``RunRecord.first``.

    Returns:
        ``figures`` by name, ``sentences`` on figures beyond their bounds by topic, and the
        ``reliability`` curves on ``val`` and ``test`` nodes.
    """
    seen = getattr(method, "task", task)
    _, on_val, on_test, on_target = predict_sets(method, seen)
    scored = {
        "val": (on_val, task.validation.y[task.val]),
        "test": (on_test, task.target.y[task.test]),
    }
    curves = {
        name: reliability(method.posterior(scores).amax(1), method.decide(scores) == label)
        for name, (scores, label) in scored.items()
        if len(label)
    }
    predicted, predicted_val = method.decide(on_target), method.decide(on_val)

    figures: dict[str, float] = {}
    same, edges = homophily(task)
    if edges >= EDGES:
        figures |= {"homophily": same, "labelled_edges": edges}
    if task.source is task.target:
        figures |= label_locality(task, predicted)
    if len(task.val):
        # Known classes only, since the share of unknown nodes has its own sentence.
        named = [classes[classes < task.num_known] for classes in (predicted_val, predicted)]
        if all(map(len, named)):
            counts = [torch.bincount(classes, minlength=task.num_known) for classes in named]
            shares = [count.double() / count.sum() for count in counts]
            figures["balance"] = float((shares[0] - shares[1]).abs().sum() / 2)
        excess = sum(count * (sure - right) for sure, right, count in curves["val"])
        figures["overconfidence"] = excess / len(task.val)
    if task.open_set:
        figures["unknown_share"] = float((predicted == task.num_known).double().mean())
        if len(task.val):
            unknown = task.validation.y[task.val] == task.num_known
            figures["val_unknown_share"] = float(unknown.double().mean())
            # Labelled nodes, as those of validation; unlabelled ones may have more unknown classes.
            on_labelled = method.decide(on_test) if len(task.test) else predicted
            called = (on_labelled == task.num_known).double().mean()
            figures["test_unknown_share"] = float(called)
            if task.validation is task.target and not unknown.any():
                wrong = predicted_val == task.num_known
                figures["known_as_unknown"] = float(wrong.double().mean())
    known = predicted < task.num_known
    if first is not None and known.any():
        figures["agreement"] = float((first[1] == predicted)[known].double().mean())
    figures |= {f"{name}_ece": expected_calibration_error(c) for name, c in curves.items()}

    found = sentences(figures)
    if few := few_labels(label_counts(task)):
        found["few labels"] = few
    for topic in method.reported:
        found.pop(topic, None)  # a warning or a test of the method already covers it
    return {"figures": figures, "sentences": found, "reliability": curves}


def sentences(figures: dict[str, float]) -> dict[str, str]:
    """A warning for each figure outside its range: what was measured, its meaning, what to do."""
    found, f = {}, figures
    if f.get("homophily", 1) < HOMOPHILY:
        found["homophily"] = (
            f"Only {_percent(f['homophily'])} of the {f['labelled_edges']:.0f} edges between"
            " labelled nodes join nodes of the same class"
            f" (expected: at least {_percent(HOMOPHILY)}). Methods that smooth over neighbours,"
            " SRNC+ included, often lose on such graphs. Compare with the method erm and with the"
            " backbone mlp."
        )
    for kind, bound, where in (
        ("label", LOCALITY, "labelled nodes of the same class"),
        ("class", CLASS_LOCALITY, "labelled nodes of one of the classes"),
    ):
        if f.get(f"{kind}_locality", 0) > bound:
            edges, expected = f[f"{kind}_edges"], f[f"{kind}_edges_expected"]
            found["locality"] = (
                f"{edges:.0f} edges join {where}; {expected:.0f} would if the labels were drawn at"
                f" random. The ratio is {edges / max(expected, 1):.1f}, less three standard errors"
                f" {f[f'{kind}_locality']:.1f} (expected: at most {bound:g}). The labels seem to"
                " come from one part of the graph, so validation scores and the estimated share of"
                " unknown nodes may be wrong. Label nodes in other parts too."
            )
    if f.get("balance", 0) > BALANCE:
        found["balance"] = (
            "The predicted shares of the known classes differ by"
            f" {_percent(f['balance'])} between validation and target nodes (half the sum of all"
            f" differences, expected: at most {_percent(BALANCE)}). Scores of validation nodes may"
            " not hold on the target. Label nodes in all parts of the target if you can."
        )
    share, expected = f.get("unknown_share"), f.get("val_unknown_share", 0.0)
    if share == 0 and not expected:
        found["unknown share"] = (
            "No target node is predicted as unknown. That is right if every class has labels."
            " Otherwise the unknown-class threshold is wrong; check the nodes near it."
        )
    elif share is not None:
        bounds, where, tested = "", "target", f.get("test_unknown_share", share)
        if share == 0 or share > UNKNOWN_SHARE:
            bounds = f" (expected: above 0 and at most {_percent(UNKNOWN_SHARE)})"
        elif expected and not 1 / UNKNOWN_RATIO <= tested / expected <= UNKNOWN_RATIO:
            share, where = tested, "test"
            bounds = (
                f", but {100 * expected:.1f} % of the validation nodes are unknown"
                f" (expected: within a factor of {UNKNOWN_RATIO:g})"
            )
        if bounds:
            found["unknown share"] = (
                f"{100 * share:.1f} % of the {where} nodes are predicted as unknown{bounds}. The"
                " unknown-class threshold is probably wrong; check the nodes near it."
            )
    if f.get("known_as_unknown", 0) > KNOWN_AS_UNKNOWN:
        found["known as unknown"] = (
            f"{_percent(f['known_as_unknown'])} of the validation nodes are predicted as unknown,"
            f" although all are of known classes (expected: at most {_percent(KNOWN_AS_UNKNOWN)})."
            " The model predicts too many nodes as unknown. If every class of your own graph has"
            " labels, set file.open_set False."
        )
    if f.get("agreement", 1) < AGREEMENT:
        found["agreement"] = (
            "The final model and the plain GNN that training starts from predict the same class on"
            f" only {_percent(f['agreement'])} of the target nodes predicted as known (expected: at"
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


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def homophily(task: ShiftTask) -> tuple[float, int]:
    """Edge homophily of labelled nodes of known classes, and the number of their edges."""
    same = edges = 0
    parts = [(task.source, torch.cat([task.train, task.source_val])), (task.validation, task.val)]
    if task.validation is task.source:
        parts = [(task.source, torch.cat([task.train, task.source_val, task.val]))]
    for graph, nodes in parts:
        label = torch.full((graph.num_nodes,), HIDDEN, device=graph.y.device)
        label[nodes] = graph.y[nodes]
        label[label == task.num_known] = HIDDEN
        labelled = label >= 0
        for pairs in graph.edge_index.split(2**20, 1):
            a, b = label[pairs[:, labelled[pairs].all(0) & (pairs[0] < pairs[1])]]
            same, edges = same + int((a == b).sum()), edges + len(a)
    return same / max(edges, 1), edges


def label_locality(task: ShiftTask, predicted: Tensor) -> dict[str, float]:
    r"""How much more often edges join labelled nodes than if labels were drawn at random.

    .. math:: \frac{m - 3 \sqrt m}{\sum_k m_k \frac{n^s_k (n^s_k - 1)}{n_k (n_k - 1)}}

    Of the predicted class :math:`k`, :math:`n_k` nodes with links and :math:`m_k` edges lie inside
    it, and :math:`n^s_k` of these nodes are labelled. :math:`m` edges join two labelled nodes of
    one class. Without the three standard errors, the ratio is 1 on average for random labels of
    each class. Wrong predictions of nodes without links would change :math:`n_k` alone.

    Args:
        task: a task with one graph.
        predicted: predicted classes of all nodes, ``[V]``.

    Returns:
        The bound, :math:`m` and the divisor for all classes together (``label_locality``,
        ``label_edges``, ``label_edges_expected``), and for the largest bound of a single class.
    """
    graph, size, given = task.source, task.num_known + 1, task.train
    label, labelled = predicted.clone(), torch.zeros_like(predicted, dtype=torch.bool)
    label[given], labelled[given] = graph.y[given], True
    inside, both = torch.zeros(2, size, dtype=torch.double, device=label.device)
    for pairs in graph.edge_index.split(2**20, 1):
        a, b = pairs[:, (label[pairs[0]] == label[pairs[1]]) & (pairs[0] < pairs[1])]
        inside += torch.bincount(label[a], minlength=size)
        both += torch.bincount(label[a[labelled[a] & labelled[b]]], minlength=size)
    linked = torch.zeros_like(labelled).index_fill_(0, graph.edge_index.reshape(-1), True)
    parts = label[linked], label[linked & labelled]
    nodes, drawn = (torch.bincount(part, minlength=size) for part in parts)
    expected = inside * drawn * (drawn - 1) / (nodes * (nodes - 1)).clamp(min=1)
    # All classes together come first.
    edges, wanted = (torch.cat([part.sum()[None], part]) for part in (both, expected))
    bound = (edges - 3 * edges.sqrt()) / wanted.clamp(min=1)
    figures = {}
    for kind, k in (("label", 0), ("class", 1 + int(bound[1:].argmax()))):
        figures[f"{kind}_locality"] = float(bound[k])
        figures |= {f"{kind}_edges": float(edges[k]), f"{kind}_edges_expected": float(wanted[k])}
    return figures

"""Diagnostics of a trained run: figures, and a sentence for each figure beyond its bound.

The bounds were measured, see ``docs/research/diagnostics.md``. Figures and sentences use labels of
training, held-out source and validation nodes only. Labels of test nodes are used only for a
reliability curve, and to tell that few of them are unknown.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Sequence

import torch
from torch import Tensor

from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.data.describe import few_labels, known_names, label_counts, same_class
from graphgym_srnc.data.edges import CHUNK, LEAST_SAME, TELLING
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train.held_out import FEW
from graphgym_srnc.train.metrics import detection_scores, expected_calibration_error, reliability
from graphgym_srnc.train.trainer import predict_sets

FEW_UNKNOWN = 10  # unknown test nodes below which their scores say little
NONE = 1e-12  # a share of at most this is 0
FEW_LABELLED = 0.2  # share of labelled nodes above which no class should have many others
LOST = 0.5  # nodes predicted as a class, per label of it, below which it is lost


class Check(NamedTuple):
    """The range of a figure, and the warning about a value outside it, by topic."""

    figure: str
    low: float
    high: float
    topic: str
    text: str


NEAR = (
    ", at least {value:.1f} times as many allowing for chance (limit: {bound:g}). The labels seem"
    " to come from one part of the graph, or nodes of a class without labels are predicted as"
    " theirs; then set `open_set=True`. Validation scores and the estimated share of unknown nodes"
    " may be wrong. Label nodes in other parts too."
)
CAUSE = (
    " The unknown-class threshold or the ranking of nodes by P(unknown) is probably wrong{ranked};"
    " check the nodes near the threshold."
)
CHECKS = (
    Check(
        "homophily",
        LEAST_SAME,
        math.inf,
        "homophily",
        "Only {percent} of the {labelled_edges:.0f} edges between labelled nodes join nodes of the"
        " same class (expected: at least {bound_percent}). Methods that smooth over neighbours"
        " often lose on such graphs. Compare with the backbones sign and mlp, and with the method"
        " srnc_plus.",
    ),
    Check(
        "balance",
        0.0,
        0.2,
        "balance",
        "The predicted shares of the known classes differ by {percent} between validation and"
        " target nodes (half the sum of all differences, expected: at most {bound_percent}). Scores"
        " of validation nodes may not hold on the target. Label nodes in all parts of the target if"
        " you can.",
    ),
    Check(
        "known_as_unknown",
        0.0,
        0.15,
        "known as unknown",
        "{percent} of the validation nodes are predicted as unknown, although all are of known"
        " classes (expected: at most {bound_percent}). The model predicts too many nodes as"
        " unknown. If every class of your own graph has labels, set `open_set=False`.",
    ),
    Check(
        "agreement",
        0.6,
        math.inf,
        "agreement",
        "The final model and the model of episode 0 predict the same class on only {percent} of the"
        " target nodes predicted as known (expected: at least {bound_percent}). Check some nodes on"
        " which they differ before you trust either model.",
    ),
    Check(
        "collapse",
        0.25,
        math.inf,
        "collapse",
        "{predicted_share_percent} of the target nodes are predicted as class {collapse_class_name}"
        ", which has {label_share_percent} of the labels. The model has probably"
        " collapsed.{compare}",
    ),
    Check(
        "overconfidence",
        -math.inf,
        0.15,
        "calibration",
        "The mean probability of the predicted class is {points:.0f} points above the accuracy on"
        " validation nodes (expected: at most {bound_points:.0f}). The model is overconfident. Rank"
        " nodes by their probability, but do not read it as the chance to be right.",
    ),
    # Locality is below 1 for random labels.
    Check(
        "label_locality",
        -math.inf,
        1.3,
        "locality",
        "{label_edges:.0f} edges join labelled nodes of the same class, and"
        " {label_edges_expected:.1f} would if labels were random" + NEAR,
    ),
    Check(
        "class_locality",
        -math.inf,
        2.0,
        "locality",
        "{class_edges:.0f} edges join labelled nodes of {largest_class_name}, and"
        " {class_edges_expected:.1f} would if labels were random" + NEAR,
    ),
    Check(
        "unknown_share",
        NONE,
        math.inf,
        "unknown share",
        "No target node is predicted as unknown. That is right if every class has labels."
        " Otherwise the unknown-class threshold is wrong; check the nodes near it.",
    ),
    Check(
        "unknown_share",
        -math.inf,
        0.9,
        "unknown share",
        "{percent} of the target nodes are predicted as unknown (expected: at most"
        " {bound_percent})." + CAUSE,
    ),
    Check(
        "unknown_ratio",  # of the share of test nodes predicted as unknown to that in validation
        1 / 3,
        3.0,
        "unknown share",
        "{tested_share_percent} of the test nodes are predicted as unknown, but"
        " {val_unknown_share_percent} of the validation nodes are unknown (expected: within a"
        " factor of 3)." + CAUSE,
    ),
)
"""Later warnings replace earlier ones of the same topic."""


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
    _, on_val, on_test, on_target = predict_sets(method, getattr(method, "task", task))
    scored = {
        "val": (on_val, task.validation.y[task.val]),
        "test": (on_test, task.target.y[task.test]),
    }
    curves = {
        name: reliability(method.posterior(scores).amax(1), method.decide(scores) == label)
        for name, (scores, label) in scored.items()
        if len(label)
    }
    val_scores = on_val
    predicted, on_val, on_test = map(method.decide, (on_target, on_val, on_test))

    figures = {f"{name}_ece": expected_calibration_error(c) for name, c in curves.items()}
    same, edges = homophily(task)
    if edges >= TELLING:
        figures |= {"homophily": same, "labelled_edges": edges}
    if task.source is task.target:
        figures |= label_locality(task, predicted)
    if len(task.val):
        figures |= balance(on_val, predicted, task.num_known)
        excess = sum(count * (mean - right) for mean, right, count in curves["val"])
        figures["overconfidence"] = excess / len(task.val)
    figures |= collapse(task, predicted)
    if task.open_set:
        figures |= unknown_shares(task, on_val, on_test, predicted)
        figures |= ranking(method.confidence(val_scores), scored["val"][1] == task.num_known)
    known = predicted < task.num_known
    if first is not None and known.any():
        figures["agreement"] = float((first[1] == predicted)[known].double().mean())

    warnings = sentences(figures, known_names(task), is_erm=method.key() == "erm")
    few = few_labels(label_counts(task), task.source is task.target)
    lost = lost_classes(task, predicted)
    told = {"few labels": few, "few unknown": few_unknown(task), "lost classes": lost}
    warnings.update({topic: text for topic, text in told.items() if text})
    for topic in method.reported:
        warnings.pop(topic, None)  # a warning or a test of the method already covers it
    return {"figures": figures, "sentences": warnings, "reliability": curves}


def few_unknown(task: ShiftTask) -> str:
    """A sentence if fewer than :data:`FEW_UNKNOWN` test nodes are unknown, otherwise empty."""
    label = task.target.y[task.test]
    count = int((label == task.num_known).sum()) if task.open_set else 0
    if not 0 < count < FEW_UNKNOWN:
        return ""
    return (
        f"The unknown class has {count} of {counted(len(label), 'test node')}, so its scores say"
        " little."
    )


def lost_classes(task: ShiftTask, predicted: Tensor) -> str:
    """A sentence if hardly any other nodes of one graph are predicted as a class with labels.

    Args:
        task: the task; with two graphs, or with many labels, there is no sentence.
        predicted: predicted classes of all nodes, ``[V]``.
    """
    given = torch.cat([task.train, task.val])
    if not task.one_graph or len(given) > FEW_LABELLED * len(predicted):
        return ""
    others = torch.ones_like(predicted, dtype=torch.bool)
    others[given] = False
    size = task.num_known + 1
    found = torch.bincount(predicted[others], minlength=size).tolist()
    labels = torch.bincount(task.source.y[given], minlength=size).tolist()
    lost = [
        f"{name} ({counted(labels[k], 'label')}, {found[k]:,} predicted)"
        for k, name in enumerate(known_names(task)[: task.num_known])
        if labels[k] >= FEW and found[k] < LOST * labels[k]
    ]
    if not lost:
        return ""
    return (
        f"Hardly any other nodes are predicted as {listed(lost)}. If the graph has more nodes of"
        " such a class, the model misses them. Check its labels, and label more of its nodes."
    )


def ranking(confidence: Tensor, is_unknown: Tensor) -> dict[str, float]:
    """AUROC of the unknown class by the confidence ``[n]`` of nodes, if some are of each kind."""
    if is_unknown.all() or not is_unknown.any():
        return {}
    found = detection_scores(confidence, is_unknown, ~is_unknown)
    return {"val_unknown_auroc": found["unknown_auroc"]}


def collapse(task: ShiftTask, predicted: Tensor) -> dict[str, Any]:
    r"""Minimum of :math:`(1 - s_k) / (1 - p_k)` over the known classes :math:`k`.

    Of the target nodes ``[V]``, the share :math:`s_k` is predicted as :math:`k`. :math:`p_k` is the
    share of :math:`k` among training or validation labels, whichever is larger.
    """
    labels = [task.source.y[task.train], task.validation.y[task.val]]
    shares = torch.zeros(3, task.num_known, dtype=torch.double)
    for row, classes in enumerate((predicted, *labels)):
        counts = torch.bincount(classes.cpu(), minlength=task.num_known)[: task.num_known]
        shares[row] = counts / max(len(classes), 1)
    given = shares[1:].amax(0)
    rest = ((1 - shares[0]) / (1 - given)).nan_to_num(1.0)
    k = int(rest.argmin())
    names = {"collapse": rest[k], "predicted_share": shares[0, k], "label_share": given[k]}
    return {name: float(value) for name, value in names.items()} | {"collapse_class": float(k)}


def balance(on_val: Tensor, on_target: Tensor, num_known: int) -> dict[str, float]:
    """Total variation of the predicted known classes, ``[n]`` on validation and ``[V]`` on target.

    The share of unknown nodes has its own sentence.
    """
    known = [classes[classes < num_known] for classes in (on_val, on_target)]
    if not all(map(len, known)):
        return {}
    counts = [torch.bincount(classes, minlength=num_known).double() for classes in known]
    first, second = (count / count.sum() for count in counts)
    return {"balance": float((first - second).abs().sum() / 2)}


def unknown_shares(
    task: ShiftTask, on_val: Tensor, on_test: Tensor, on_target: Tensor
) -> dict[str, float]:
    """Shares of unknown nodes among labels and among the predicted classes of each set ``[n]``."""

    def share(classes: Tensor) -> float:
        return float((classes == task.num_known).double().mean())

    figures = {"unknown_share": share(on_target)}
    if len(task.val) or len(task.test):
        # Labelled nodes, as those of validation; unlabelled ones may have more unknown classes.
        figures["test_unknown_share"] = share(on_test if len(task.test) else on_target)
    if len(task.val):
        labelled = share(task.validation.y[task.val])
        figures["val_unknown_share"] = labelled
        if task.validation is task.target and not labelled:
            figures["known_as_unknown"] = share(on_val)
    return figures


def sentences(
    figures: Mapping[str, float], names: Sequence[str] = (), is_erm: bool = False
) -> dict[str, str]:
    """A warning for each figure outside its range, by topic; ``names`` are those of classes."""
    values = dict(figures)
    expected = figures.get("val_unknown_share")
    if expected:
        values["tested_share"] = figures.get("test_unknown_share", figures["unknown_share"])
        values["unknown_ratio"] = values["tested_share"] / expected
    words = {f"{key}_percent": _percent(value) for key, value in values.items() if "share" in key}
    for key in ("collapse_class", "largest_class"):
        k = int(values.get(key, 0))
        words[f"{key}_name"] = names[k] if k < len(names) else str(k)
    words["compare"] = "" if is_erm else " Compare with the method erm."
    words["ranked"] = ""
    if "val_unknown_auroc" in values:
        auroc = _percent(values["val_unknown_auroc"])
        words["ranked"] = f" (AUROC on validation nodes: {auroc}; below 50 % no threshold is right)"
    warnings = {}
    for check in CHECKS:
        value = values.get(check.figure)
        if value is not None and not check.low <= value <= check.high:
            bound = check.low if value < check.low else check.high
            warnings[check.topic] = check.text.format(
                **values,
                **words,
                value=value,
                percent=_percent(value),
                points=100 * value,
                bound=bound,
                bound_percent=_percent(bound),
                bound_points=100 * bound,
            )
    if "collapse" in warnings:  # which explains the other one
        warnings.pop("calibration", None)
    return warnings


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def homophily(task: ShiftTask) -> tuple[float, int]:
    """Edge homophily of labelled nodes of known classes, and the number of their edges.

    With weights it is the share of their weight that lies within classes.
    """
    same = 0.0
    edges = 0
    parts = [(task.source, torch.cat([task.train, task.source_val])), (task.validation, task.val)]
    if task.validation is task.source:
        parts = [(task.source, torch.cat([task.train, task.source_val, task.val]))]
    for graph, nodes in parts:
        label = torch.full((graph.num_nodes,), HIDDEN, device=graph.y.device)
        label[nodes] = graph.y[nodes]
        label[label == task.num_known] = HIDDEN
        of_graph, count = same_class(graph, label)
        same += of_graph
        edges += count
    return same / max(edges, 1), edges


def label_locality(task: ShiftTask, predicted: Tensor) -> dict[str, float]:
    r"""How much more often edges join labelled nodes than if labels were drawn at random.

    .. math:: \frac{m - 3 \sqrt{m + \sum_k p_k^3 \sum_{i \in k} d_i (d_i - 1)}}{
        \sum_k m_k \frac{n^s_k (n^s_k - 1)}{n_k (n_k - 1)}}

    Of the predicted class :math:`k`, :math:`n_k` nodes with links and :math:`m_k` edges lie inside
    it, :math:`d_i` of them at node :math:`i`, and the share :math:`p_k = n^s_k / n_k` of these
    nodes is labelled. :math:`m` edges join two labelled nodes of one class. Without the three
    standard errors, the ratio is 1 on average for random labels of each class. The edges of a
    labelled hub count together, hence the second term of the variance. Wrong predictions of nodes
    without links would change :math:`n_k` alone.

    Args:
        task: a task with one graph.
        predicted: predicted classes of all nodes, ``[V]``.

    Returns:
        The bound, :math:`m` and the divisor for all classes together (``label_locality``,
        ``label_edges``, ``label_edges_expected``), and for the largest bound of a single class,
        ``largest_class``.
    """
    graph = task.source
    size = task.num_known + 1
    given = task.train
    label = predicted.clone()
    labelled = torch.zeros_like(predicted, dtype=torch.bool)
    label[given] = graph.y[given]
    labelled[given] = True
    inside, both = torch.zeros(2, size, dtype=torch.double, device=label.device)
    degree = torch.zeros_like(label, dtype=torch.double)
    for pairs in graph.edge_index.split(CHUNK, 1):
        ends = pairs[:, (label[pairs[0]] == label[pairs[1]]) & (pairs[0] < pairs[1])]
        degree += torch.bincount(ends.ravel(), minlength=len(label))
        a = ends[0]
        inside += torch.bincount(label[a], minlength=size)
        both += torch.bincount(label[a[labelled[ends].all(0)]], minlength=size)
    linked = torch.zeros_like(labelled).index_fill_(0, graph.edge_index.reshape(-1), True)
    parts = label[linked], label[linked & labelled]
    nodes, drawn = (torch.bincount(part, minlength=size) for part in parts)
    expected = inside * drawn * (drawn - 1) / (nodes * (nodes - 1)).clamp(min=1)
    pairs_of_edges = torch.zeros_like(inside).index_add_(0, label, degree * (degree - 1))
    paired = pairs_of_edges * (drawn / nodes.clamp(min=1)) ** 3
    # All classes together come first.
    edges, wanted, extra = (
        torch.cat([part.sum()[None], part]) for part in (both, expected, paired)
    )
    bound = (edges - 3 * (edges + extra).sqrt()) / wanted.clamp(min=1)
    figures = {}
    for kind, k in (("label", 0), ("class", 1 + int(bound[1:].argmax()))):
        figures[f"{kind}_locality"] = float(bound[k])
        figures |= {f"{kind}_edges": float(edges[k]), f"{kind}_edges_expected": float(wanted[k])}
    return figures | {"largest_class": float(k - 1)}

"""Accuracy on labelled nodes of your own graph that a model did not learn, beside simple models."""

from __future__ import annotations

import warnings
from typing import Any, Collection, Mapping, Sequence

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from graphgym_srnc.backbones import Graph, Sparse
from graphgym_srnc.backbones.scaling import scaled_features
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import listed
from graphgym_srnc.data.describe import known_names
from graphgym_srnc.data.edges import SMALL, component_sizes
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.forest import Forest
from graphgym_srnc.methods.shared.unknown_test import Labelled
from graphgym_srnc.methods.shared.validation import OutOfFold

LINEAR = "linear"
LINEAR_ON_HOPS = "linear_hops"
"""Names of the controls: logistic regression on features, and on these beside their hop means."""

SIGNIFICANT = 0.01  # p-value below which probabilities are too high
FEW = 5  # number of held-out labels from which a class is judged
INVERSE_PENALTY = 10.0  # of the linear controls, whose classes have equal total weight
MAX_ENTRIES = 20_000_000  # numbers that a linear control reads, above which it is left out


def judge(
    method: Method,
    task: ShiftTask,
    *,
    with_controls: bool = True,
    chosen: Collection[int] = (),
    checked: Collection[int] = (),
    changed: Collection[int] = (),
    sampled: Collection[int] = (),
) -> dict[str, Any]:
    """Accuracy on labels that were held out, of a method and of simpler models on the same labels.

    The labels are those that the method held out itself, else the validation nodes.

    Args:
        method: a trained method.
        task: the task with one graph that it was trained on, with its labels.
        with_controls: whether to train :func:`controls`, too.
        chosen: nodes that got labels since an earlier model found them in a cluster, or doubted
            them. They are not judged, since they are easier or harder than others.
        checked: nodes whose label the user confirmed or corrected.
        changed: nodes whose label an earlier run did not have.
        sampled: nodes drawn at random after an earlier run. They are judged apart, unless all
            labels are theirs.

    Returns:
        ``labels`` is the number of held-out labels, ``of`` that of all labels of known classes,
        ``chosen`` that of those of ``chosen`` nodes, and ``checked`` that of judged ones that the
        user checked. ``cross_fitted`` says whether the method learned the judged labels, too,
        in the end.
        ``accuracy`` is that among known classes, with ``low`` and ``high`` of its 95 % interval.
        ``sampled`` has these three, and the number of ``labels``, of ``sampled`` nodes.
        ``as_known`` has the same three of the share that is also not predicted as unknown.
        ``alone`` has them by name of each simpler model, also of ``sampled`` nodes, and the
        ``p_value`` of the difference from ``accuracy`` by an exact McNemar test.
        ``classes`` has, by name of each class, its number of ``labels``, those of ``sampled`` nodes
        among them, and how many are ``right``.
        ``small_components`` has these two for nodes in components of at most 5 nodes, and the
        ``mean_probability`` that the method gives its classes of other such nodes. ``unchanged`` is
        :func:`unchanged` of the judged labels. The result is empty without such labels.
    """
    found = method.out_of_fold or _on_validation(method, task)
    if found is None or not len(found.labels):
        return {}
    is_sampled = torch.isin(found.nodes, found.nodes.new_tensor([*sampled]))
    excluded = torch.isin(found.nodes, found.nodes.new_tensor([*chosen]))
    if excluded.all():
        return {}
    found = found.at(~excluded)
    apart = is_sampled[~excluded]
    if apart.all():
        apart = torch.zeros_like(apart)
    alone = {} if found.gnn is None else {method.encoder.kind: found.gnn}
    if found.forest is not None:
        alone[Forest.kind] = found.forest
    if with_controls:
        alone |= controls(method.prepared(task.source), task, found)
    of_sample = {name: _right(right[apart]) for name, right in alone.items()}
    alone = {name: right[~apart] for name, right in alone.items()}
    sampled_right = _right(found.at(apart).correct)
    classes = _by_class(found, known_names(task)[: task.num_known])
    found = found.at(~apart)
    correct = found.correct
    total = len(correct)
    labelled = torch.cat([task.train, task.val])
    labelled = labelled[task.source.y[labelled] < task.num_known]
    return {
        "labels": total,
        "chosen": int(torch.isin(labelled, labelled.new_tensor([*chosen])).sum()),
        "of": len(labelled),
        "cross_fitted": bool(torch.isin(found.nodes, task.train).all()),
        **share(correct.sum(), total),
        "as_known": share(correct.sum() * found.kept, total),
        "alone": {
            name: {
                **share(right.sum(), total),
                "p_value": mcnemar(right, correct),
                "sampled": of_sample[name],
            }
            for name, right in alone.items()
        },
        "classes": classes,
        "small_components": _in_small_components(method, task, found),
        "checked": int(torch.isin(found.nodes, found.nodes.new_tensor([*checked])).sum()),
        "unchanged": _unchanged(found, changed),
        "sampled": sampled_right,
    }


def _by_class(found: OutOfFold, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Number of held-out ``labels`` of each class by its name, and how many are ``right``."""
    counts = {}
    for k, name in enumerate(names):
        is_own = found.labels == k
        counts[name] = {"labels": int(is_own.sum()), "right": int(found.correct[is_own].sum())}
    return counts


def unchanged(method: Method, task: ShiftTask, changed: Collection[int]) -> dict[str, float]:
    """Accuracy on held-out labels of other nodes than ``changed``, ``unknown`` being wrong.

    The result has the number of ``labels``, and the ends of a 95 % interval; it is empty without
    such labels.
    """
    found = method.out_of_fold or _on_validation(method, task)
    return {} if found is None else _unchanged(found, changed)


@torch.no_grad()
def still_named(
    method: Method, task: ShiftTask, named: Mapping[str, Sequence[int]]
) -> dict[str, dict[str, int]]:
    """How many ``nodes`` of clusters that the user named are ``kept`` as that class, by name."""
    names = known_names(task)
    label = method.decide(method.predict(task.target))
    found = {}
    for name, nodes in named.items():
        if name in names:
            kept = label[[*nodes]] == names.index(name)
            found[name] = {"nodes": len(nodes), "kept": int(kept.sum())}
    return found


def _unchanged(found: OutOfFold, changed: Collection[int]) -> dict[str, float]:
    """What :func:`unchanged` says of held-out labels."""
    same = found.at(~torch.isin(found.nodes, found.nodes.new_tensor([*changed])))
    total = len(same.labels)
    if not total:
        return {}
    return {"labels": total, **share(same.correct.sum() * same.kept, total)}


def _right(correct: Tensor) -> dict[str, float]:
    """Number of ``labels`` and the share that is right, where ``[m]`` is 1; empty without any."""
    total = len(correct)
    return {"labels": total, **share(correct.sum(), total)} if total else {}


@torch.no_grad()
def _in_small_components(method: Method, task: ShiftTask, found: OutOfFold) -> dict[str, float]:
    """Held-out labels in small components, and the mean probability of other nodes there."""
    graph = task.target
    sizes = component_sizes(graph.edge_index.cpu().numpy(), graph.num_nodes)
    small = torch.from_numpy(sizes <= SMALL).to(task.train.device)
    held = small[found.nodes]
    figures: dict[str, float] = {"labels": int(held.sum())}
    figures["right"] = int(found.correct[held].sum())
    small[task.train] = False
    if not held.any() or not small.any():
        return figures
    probability = method.posterior(method.predict(graph)[small]).amax(1)
    return figures | {"mean_probability": float(probability.mean())}


def share(right: Tensor | int, total: int) -> dict[str, float]:
    """A share of labels, and the ends of its 95 % interval.

    References:
        Wilson (JASA 1927) for the interval.
    """
    from scipy.stats import binomtest  # slow import, needed by your own graphs only

    count = round(float(right))
    interval = binomtest(count, total).proportion_ci(method="wilson")
    return {"accuracy": count / total, "low": float(interval.low), "high": float(interval.high)}


def on_weak_classes(found: Mapping[str, Any]) -> str:
    """A warning of classes with fewer than half of their held-out labels right; "" if none is.

    ``found`` is what :func:`judge` returns.
    """
    weak = [
        name
        for name, count in found.get("classes", {}).items()
        if count["labels"] >= FEW and 2 * count["right"] < count["labels"]
    ]
    if not weak:
        return ""
    return (
        f"Fewer than half of the held-out labels of {listed(weak)} are predicted right. Do not"
        " trust predictions of such classes; label more of their nodes."
    )


def on_small_components(found: Mapping[str, Any]) -> str:
    """A warning that nodes in small components have too high probabilities; "" if they do not.

    ``found`` is what :func:`judge` returns. A binomial test compares how many of their held-out
    labels are right with the mean probability of the others. It is conservative, since the
    probabilities differ (Hoeffding, Annals of Mathematical Statistics 1956).
    """
    from scipy.stats import binomtest

    small = found.get("small_components", {})
    if "mean_probability" not in small:
        return ""
    right = small["right"]
    labels = small["labels"]
    mean = min(small["mean_probability"], 1.0)
    if binomtest(right, labels, mean, alternative="less").pvalue >= SIGNIFICANT:
        return ""
    return (
        f"Probabilities of nodes in components of at most {SMALL} nodes are too high: their mean is"
        f" {100 * mean:.0f} %, but {right:,} of {labels:,} held-out labels of such nodes are"
        f" predicted right ({100 * right / labels:.0f} %)."
    )


def mcnemar(first: Tensor, second: Tensor) -> float:
    """p-value of the hypothesis that two models are right equally often; 1 = right, ``[m]`` each.

    References:
        McNemar (Psychometrika 1947), in its exact form.
    """
    from scipy.stats import binomtest

    only_first = int((first > second).sum())
    only_one = int((first != second).sum())
    return float(binomtest(only_first, only_one).pvalue) if only_one else 1.0


def controls(graph: Graph, task: ShiftTask, held_out: OutOfFold) -> dict[str, Tensor]:
    """1 where a control predicts a held-out label, else 0, ``[m]``, by its name.

    It learns the labels that the models of each fold learned, with the same weights. A control that
    would read too many numbers is left out, and all are if a fold has labels of one class only.
    """
    from sklearn.linear_model import LogisticRegression

    train = task.train[~torch.isin(task.train, held_out.nodes)]
    learned = torch.cat([train, held_out.nodes])
    fold = torch.cat([torch.full_like(train, -1), held_out.fold]).cpu().numpy()
    label = task.source.y[learned]
    y = label.cpu().numpy()
    # The only fold of validation nodes was learned by no model.
    folds = [
        (fold != number if fold.max() else fold < 0, fold == number)
        for number in range(fold.max() + 1)
    ]
    if any(len(np.unique(y[rest])) < 2 for rest, _ in folds):
        return {}
    weight = Labelled.of(task.source, learned, label).weight
    weights = np.ones(len(y)) if weight is None else weight.cpu().numpy()
    linear = LogisticRegression(C=INVERSE_PENALTY, class_weight="balanced", max_iter=200)
    found = {}
    for name, model, x in (
        (LINEAR, linear, _own_features(graph, learned)),
        (LINEAR_ON_HOPS, linear, _with_hop_means(graph, learned)),
    ):
        if x is not None:
            right = (_predicted(model, x, y, folds, weights) == y)[fold >= 0]
            found[name] = torch.from_numpy(right).float().to(held_out.labels.device)
    return found


def _predicted(
    model: Any,
    x: Any,
    y: np.ndarray,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    weights: np.ndarray,
) -> np.ndarray:
    """Classes ``[n]`` of the held-out rows of each fold, by a model of the others."""
    from sklearn.exceptions import ConvergenceWarning

    predicted = np.full(len(y), -1)
    for rest, is_held_out in folds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x[rest], y[rest], sample_weight=weights[rest])
        predicted[is_held_out] = model.predict(x[is_held_out])
    return predicted


def _own_features(graph: Graph, nodes: Tensor) -> sparse.csr_array | None:
    """Features of nodes; None if too many of them are not zero.

    Their rows are not scaled, and columns that vary by more than 1 are divided by their deviation.
    """
    rows = scaled_features(graph.data.x, "none")[nodes]
    x = rows.matrix if isinstance(rows, Sparse) else sparse.csr_array(rows.cpu().numpy())
    if x.nnz > MAX_ENTRIES:
        return None
    variance = (x * x).mean(0) - x.mean(0) ** 2
    return x @ sparse.diags_array(1 / np.sqrt(variance.clip(1)))


def _with_hop_means(graph: Graph, nodes: Tensor) -> np.ndarray | None:
    """Features of nodes beside their means over one hop and over two; None if these are too many.

    Each of the three parts has length 1. If there are fewer rows than columns, the columns are
    coordinates in the space of the rows: inner products decide what logistic regression predicts.
    """
    number = nodes.cpu().numpy()
    mean = graph.adjacency("mean").matrix
    near = mean[number]
    reached = np.diff(mean.indptr)[near.indices].sum()
    if max(reached, 3 * len(number) * graph.num_features) > MAX_ENTRIES:
        return None
    x = graph.x.matrix if isinstance(graph.x, Sparse) else graph.x.cpu().numpy()
    rows = [x[number], near @ x, near @ mean @ x]
    parts = [part.toarray() if sparse.issparse(part) else part for part in rows]
    every = np.hstack(
        [part / np.linalg.norm(part, axis=1, keepdims=True).clip(1e-12) for part in parts]
    )
    if len(every) < every.shape[1]:
        every = np.asarray(np.linalg.qr(every.T, mode="r")).T
    return every


@torch.no_grad()
def _on_validation(method: Method, task: ShiftTask) -> OutOfFold | None:
    """Predictions of the validation nodes of known classes; None if a graph has none."""
    nodes = task.val[task.source.y[task.val] < task.num_known] if task.one_graph else task.val[:0]
    if not len(nodes) or method.oracle or torch.isin(nodes, task.train).any():
        return None
    scores = method.predict(task.target)[nodes]
    return OutOfFold(
        nodes,
        task.target.y[nodes],
        torch.zeros_like(nodes),
        scores[:, : task.num_known].log_softmax(1),
        _kept(method.decide(scores), scores[:, : task.num_known].argmax(1), task.target.y[nodes]),
    )


def _kept(decided: Tensor, known: Tensor, label: Tensor) -> Tensor:
    """Share of nodes with the right known class, ``[m]``, that are also decided to be of it."""
    right = known == label
    return (decided[right] == label[right]).float().mean() if right.any() else torch.tensor(1.0)

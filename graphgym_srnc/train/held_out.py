"""Accuracy on labelled nodes of your own graph that a model did not learn, beside simple models."""

from __future__ import annotations

import warnings
from typing import Any, Mapping

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from graphgym_srnc.backbones import Graph, Sparse
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import listed
from graphgym_srnc.data.describe import known_names
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.validation import OutOfFold

LINEAR = "linear"
"""Name of the control: logistic regression on the features of a node alone."""

FEW = 5  # number of held-out labels from which a class is judged
INVERSE_PENALTY = 10.0  # of the linear control, whose classes have equal total weight
MAX_ENTRIES = 20_000_000  # non-zero features of the labelled nodes, above which it is left out


def judge(method: Method, task: ShiftTask, *, with_linear: bool = True) -> dict[str, Any]:
    """Accuracy on labels that were held out, of a method and of simpler models on the same labels.

    The labels are those that the method held out itself, else the validation nodes.

    Args:
        method: a trained method.
        task: the task with one graph that it was trained on, with its labels.
        with_linear: whether to train :func:`linear_control`, too.

    Returns:
        ``labels`` is the number of held-out labels and ``of`` that of all labels of known classes.
        ``accuracy`` is that among known classes, with ``low`` and ``high`` of its 95 % interval,
        and ``as_known`` the share that is also not predicted as unknown. ``alone`` has, by name of
        each simpler model, its ``accuracy`` and the ``p_value`` of the difference by an exact
        McNemar test. ``classes`` has, by name of each class, its number of ``labels`` and how many
        are ``right``. The result is empty without such labels.

    References:
        Wilson (JASA 1927) for the interval.
    """
    from scipy.stats import binomtest  # slow import, needed by your own graphs only

    found = method.out_of_fold or _on_validation(method, task)
    if found is None or not len(found.labels):
        return {}
    correct = found.correct
    alone = dict(found.alone)
    linear = linear_control(method.prepared(task.source), task, found) if with_linear else None
    if linear is not None:
        alone[LINEAR] = linear
    total = len(correct)
    interval = binomtest(int(correct.sum()), total).proportion_ci(method="wilson")
    return {
        "labels": total,
        "of": int((task.source.y[torch.cat([task.train, task.val])] < task.num_known).sum()),
        "accuracy": float(correct.mean()),
        "low": float(interval.low),
        "high": float(interval.high),
        "as_known": float(correct.mean() * found.kept),
        "alone": {
            name: {"accuracy": float(right.mean()), "p_value": mcnemar(right, correct)}
            for name, right in alone.items()
        },
        "classes": {
            name: {
                "labels": int((found.labels == k).sum()),
                "right": int(correct[found.labels == k].sum()),
            }
            for k, name in enumerate(known_names(task)[: task.num_known])
        },
    }


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


def mcnemar(first: Tensor, second: Tensor) -> float:
    """p-value of the hypothesis that two models are right equally often; 1 = right, ``[m]`` each.

    References:
        McNemar (Psychometrika 1947), in its exact form.
    """
    from scipy.stats import binomtest

    only_first = int((first > second).sum())
    only_one = int((first != second).sum())
    return float(binomtest(only_first, only_one).pvalue) if only_one else 1.0


def linear_control(graph: Graph, task: ShiftTask, held_out: OutOfFold) -> Tensor | None:
    """1 where logistic regression on features predicts a held-out label, else 0, ``[m]``.

    It learns the labels that the models of each fold learned, from features as these models read
    them. None if there are too many features.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    train = task.train[~torch.isin(task.train, held_out.nodes)]
    learned = torch.cat([train, held_out.nodes])
    fold = torch.cat([torch.full_like(train, -1), held_out.fold]).cpu().numpy()
    x = _rows(graph.x, learned)
    if x.nnz > MAX_ENTRIES:
        return None
    y = task.source.y[learned].cpu().numpy()
    predicted = np.full(len(y), -1)
    model = LogisticRegression(C=INVERSE_PENALTY, class_weight="balanced", max_iter=200)
    for number in range(fold.max() + 1):
        is_held_out = fold == number
        # The only fold of validation nodes was learned by no model.
        rest = ~is_held_out if fold.max() else fold < 0
        if len(np.unique(y[rest])) < 2:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x[rest], y[rest])
        predicted[is_held_out] = model.predict(x[is_held_out])
    right = predicted[fold >= 0] == y[fold >= 0]
    return torch.from_numpy(right).float().to(held_out.labels.device)


def _rows(x: Tensor | Sparse, nodes: Tensor) -> sparse.csr_array:
    """Features of some nodes as a sparse matrix."""
    rows = x[nodes]
    return rows.matrix if isinstance(rows, Sparse) else sparse.csr_array(rows.cpu().numpy())


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
        {},
    )


def _kept(decided: Tensor, known: Tensor, label: Tensor) -> Tensor:
    """Share of nodes with the right known class, ``[m]``, that are also decided to be of it."""
    right = known == label
    return (decided[right] == label[right]).float().mean() if right.any() else torch.tensor(1.0)

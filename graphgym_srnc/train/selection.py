"""Criteria that select the best episode of a run."""

from __future__ import annotations

import math
from typing import Callable, NamedTuple

import torch
from torch import Tensor

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.modularity import modularity
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train.metrics import ExtraScores, scores_of


class Seen(NamedTuple):
    """What a criterion scores after an episode.

    Args:
        method: the method after the episode.
        task: the scenario, with its labels.
        blind: the task as the method sees it.
        val: scores on validation nodes.
        prediction, first: predicted classes of the target nodes now and in episode 0, ``[V]``.
        min_agreement: see :func:`target_modularity`.
        extra: user-defined scores and the score to use.
    """

    method: Method
    task: ShiftTask
    blind: ShiftTask
    val: dict[str, float]
    prediction: Tensor
    first: Tensor
    min_agreement: float
    extra: ExtraScores


Score = tuple[float, dict[str, float]]
"""Score of an episode, and figures to record with it."""


def target_val(seen: Seen) -> Score:
    """Micro-F1 on the validation nodes, as in the paper, or the score named by ``extra``."""
    return seen.extra.value(seen.val), {}


def source_val(seen: Seen) -> Score:
    """The same score on held-out source nodes."""
    blind, nodes = seen.blind, seen.task.source_val
    scores = seen.method.predict(blind.source, blind.role_of(blind.source))[nodes]
    label = seen.task.source.y[nodes]
    return seen.extra.value(scores_of(seen.method, seen.task, scores, label, seen.extra)), {}


def target_modularity(seen: Seen) -> Score:
    """Newman's modularity (Eq. 5) of the predicted classes on the target graph, without labels.

    An episode is not selected if its agreement with episode 0 is below ``min_agreement``. Otherwise
    communities that do not match the classes could be selected for their high modularity. Agreement
    is measured on the nodes that neither episode predicts as unknown.
    """
    both = torch.maximum(seen.prediction, seen.first) < seen.task.num_known
    same = (seen.prediction == seen.first)[both]
    agreed = float(same.float().mean()) if len(same) else 0.0
    graph = seen.method.prepared(seen.blind.target)
    found = modularity(seen.prediction, graph.adjacency("raw"), graph.degree)
    figures = {"agreement": agreed, "class_modularity": found}
    return found if agreed >= seen.min_agreement else -math.inf, figures


def last(seen: Seen) -> Score:
    """Select the last episode."""
    return math.inf, {}


SELECTIONS: dict[str, Callable[[Seen], Score]] = {
    rule.__name__: rule for rule in (target_val, source_val, target_modularity, last)
}
"""Criteria by name. The first episode with the largest score is selected."""

NEEDS = {
    "target_val": ("val", "validation nodes", "target_modularity"),
    "source_val": ("source_val", "held-out source nodes", "target_val"),
}
"""Nodes of the task that a criterion needs, their description, and another criterion."""


def check(selection: str, task: ShiftTask) -> None:
    """Refuse a criterion for which the task lacks nodes.

    Raises:
        InputError: names another criterion.
    """
    nodes, needs, instead = NEEDS.get(selection, ("", "", ""))
    if nodes and not len(getattr(task, nodes)):
        message = f"the rule {selection} needs {needs}, and the task has none"
        raise InputError.plain("selection", message, f"Use {instead} or last")

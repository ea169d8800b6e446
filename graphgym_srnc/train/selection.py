"""Criteria that select the best episode of a run."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.modularity import modularity
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train.metrics import ExtraScores, scores_of

Scored = tuple[float, dict[str, float]]
"""Score of an episode, and figures to record with it."""


class Selection:
    """Base class of selection criteria. The first episode with the largest score is selected.

    Args:
        task: the scenario, with its labels.
        min_agreement: see :class:`TargetModularity`.
        extra: user-defined scores and the score to use.

    Raises:
        InputError: the task lacks the nodes that the criterion needs.
    """

    reads_all: bool = False
    """Whether the prediction of every target node is needed."""

    nodes, needs, instead = "", "", ""
    """Index set of the task that must not be empty, its description, and another criterion."""

    def __init__(
        self, task: ShiftTask, min_agreement: float = 0.0, extra: ExtraScores = ExtraScores()
    ) -> None:
        self.task, self.min_agreement, self.extra = task, min_agreement, extra
        if self.nodes and not len(getattr(task, self.nodes)):
            name = next(name for name, rule in SELECTIONS.items() if isinstance(self, rule))
            message = f"the rule {name} needs {self.needs}, and the task has none"
            raise InputError.plain("selection", message, f"Use {self.instead} or last")

    def __call__(
        self,
        method: Method,
        blind: ShiftTask,
        val: dict[str, float],
        prediction: Tensor,
        first: Tensor,
    ) -> Scored:
        """Score of an episode, and figures to record with it.

        Args:
            method: the method after the episode.
            blind: the task as the method sees it.
            val: scores on validation nodes.
            prediction: predicted classes of the target nodes, ``[V]``; ``HIDDEN`` for nodes that
                were not scored.
            first: predicted classes in episode 0, ``[V]``.
        """
        raise NotImplementedError


class TargetVal(Selection):
    """Micro-F1 on the validation nodes, as in the paper, or the score named by ``extra``."""

    nodes, needs, instead = "val", "validation nodes", "target_modularity"

    def __call__(self, method, blind, val, prediction, first) -> Scored:
        return self.extra.value(val), {}


class SourceVal(Selection):
    """The same score on held-out source nodes."""

    nodes, needs, instead = "source_val", "held-out source nodes", "target_val"

    def __call__(self, method, blind, val, prediction, first) -> Scored:
        nodes = self.task.source_val
        scores = method.predict_at(blind.source, nodes, blind.role_of(blind.source))
        found = scores_of(method, self.task, scores, self.task.source.y[nodes], self.extra)
        return self.extra.value(found), {}


class TargetModularity(Selection):
    """Newman's modularity (Eq. 5) of the predicted classes on the target graph, without labels.

    An episode is not selected if its agreement with episode 0 is below ``min_agreement``. Otherwise
    communities that do not match the classes could be selected for their high modularity. Agreement
    is measured on the nodes that neither episode predicts as unknown.
    """

    reads_all = True

    def __call__(self, method, blind, val, prediction, first) -> Scored:
        both = torch.maximum(prediction, first) < self.task.num_known
        agreed = float((prediction == first)[both].float().mean()) if both.any() else 0.0
        graph = method.prepared(blind.target)
        found = modularity(prediction, graph.adjacency("raw"), graph.degree)
        figures = {"agreement": agreed, "class_modularity": found}
        return found if agreed >= self.min_agreement else -math.inf, figures


class Last(Selection):
    """Select the last episode."""

    def __call__(self, method, blind, val, prediction, first) -> Scored:
        return math.inf, {}


SELECTIONS: dict[str, type[Selection]] = {
    "target_val": TargetVal,
    "source_val": SourceVal,
    "target_modularity": TargetModularity,
    "last": Last,
}

"""What the best episode of a run is chosen by."""
from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.modularity import modularity
from graphgym_srnc.methods.base import Method
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.train.metrics import ExtraScores, scores_of


class Selection:
    """A rule that gives each episode a score; the first one of the largest score is selected.

    It sets ``reads_all`` where it reads the prediction of every target node.

    Args:
        task: the scenario, with its labels.
        min_agreement: see :class:`TargetModularity`.
        extra: which score of labelled nodes counts.

    Raises:
        InputError: the task lacks what the rule reads.
    """

    reads_all: bool = False

    def __init__(self, task: ShiftTask, min_agreement: float = 0.0,
                 extra: ExtraScores = ExtraScores()) -> None:
        self.task, self.min_agreement, self.extra = task, min_agreement, extra

    def __call__(self, method: Method, blind: ShiftTask, val: dict[str, float], prediction: Tensor,
                 first: Tensor) -> tuple[float, dict[str, float]]:
        """The score of an episode, and figures to record with it.

        Args:
            method: as the episode left it.
            blind: the task as the method sees it.
            val: scores on validation nodes.
            prediction: classes of the target nodes, ``[V]``, ``HIDDEN`` for those without a score.
            first: those of episode 0, ``[V]``.
        """
        raise NotImplementedError

    def need(self, nodes: Tensor, allowed: str) -> None:
        """Refuse a task without nodes that the rule reads."""
        if not len(nodes):
            name = next(name for name, rule in SELECTIONS.items() if isinstance(self, rule))
            raise InputError("selection", name, f"{allowed}, or last")


class TargetVal(Selection):
    """Micro-F1 on the validation nodes, as in the paper, or the score that ``extra`` names."""

    def __init__(self, task: ShiftTask, *rest: Any) -> None:
        super().__init__(task, *rest)
        self.need(task.val, "a task with validation nodes, or target_modularity")

    def __call__(self, method, blind, val, prediction, first):
        return self.extra.value(val), {}


class SourceVal(Selection):
    """The same score on held-out source nodes."""

    def __init__(self, task: ShiftTask, *rest: Any) -> None:
        super().__init__(task, *rest)
        self.need(task.source_val, "a task with held-out source nodes, or target_val")

    def __call__(self, method, blind, val, prediction, first):
        task, nodes = self.task, self.task.source_val
        scores = method.predict_at(blind.source, nodes, blind.role_of(blind.source))
        found = scores_of(method, task, scores, task.source.y[nodes], self.extra)
        return self.extra.value(found), {}


class TargetModularity(Selection):
    """Newman's modularity of the predicted classes on the target graph, which takes no label.

    An episode that agrees with episode 0 (the plain GNN, in SRNC) on a smaller share of the target
    nodes than ``min_agreement`` is not selected: modularity is as high for communities that are not
    the classes. Only nodes that neither calls unknown count: who is unknown is what later episodes
    are to find out.
    """

    reads_all = True

    def __call__(self, method, blind, val, prediction, first):
        both = torch.maximum(prediction, first) < self.task.num_known
        agreed = float((prediction == first)[both].float().mean()) if both.any() else 0.0
        graph = method.prepared(blind.target)
        found = modularity(prediction, graph.adjacency("raw"), graph.degree)
        figures = {"agreement": agreed, "class_modularity": found}
        return found if agreed >= self.min_agreement else -math.inf, figures


class Last(Selection):
    """The last episode."""

    def __call__(self, method, blind, val, prediction, first):
        return math.inf, {}


SELECTIONS: dict[str, type[Selection]] = {
    "target_val": TargetVal, "source_val": SourceVal, "target_modularity": TargetModularity,
    "last": Last,
}

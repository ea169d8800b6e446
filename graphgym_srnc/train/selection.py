"""Criteria that select the best episode of a run."""

from __future__ import annotations

import math

from torch import Tensor

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.modularity import modularity
from graphgym_srnc.methods.shared.base import Method

SELECTIONS = ("target_val", "source_val", "target_modularity", "last")
"""Criteria by name. The first episode with the largest score is selected.

``target_val`` is the Micro-F1 on the validation nodes, as in the paper, or another score by name.
``source_val`` is the same score on held-out source nodes. ``target_modularity`` is Newman's
modularity (Eq. 5) of the predicted classes on the target graph, without labels. ``last`` selects
the last episode.
"""

NEEDS = {
    "target_val": ("val", "validation nodes", "target_modularity"),
    "source_val": ("source_val", "held-out source nodes", "target_val"),
}
"""Nodes of the task that a criterion needs, their description, and another criterion."""

MIN_AGREEMENT = 0.6  # with episode 0


def check(selection: str, task: ShiftTask) -> None:
    """Refuse a criterion for which the task lacks nodes, and name another one."""
    nodes, needs, instead = NEEDS.get(selection, ("", "", ""))
    if nodes and not len(getattr(task, nodes)):
        raise InputError.plain(
            "selection",
            f"the rule {selection} needs {needs}, and the task has none",
            f"Use {instead} or last",
        )


NO_UNKNOWN_HELD_OUT = (
    "The validation nodes are source nodes of known classes, which cannot show how well the unknown"
    " class is found. The last episode is selected instead of the best on validation nodes."
)


def resolved(selection: str, task: ShiftTask) -> str:
    """The criterion that ``target_val`` means if the validation nodes are on the source.

    It is ``last`` if some target nodes may be of an unknown class, and no validation node is.
    """
    on_source = task.validation is task.source is not task.target and len(task.source_val)
    if selection != "target_val" or not on_source:
        return selection
    return "last" if task.open_set and not task.validates_unknown else "source_val"


def score_by_modularity(
    method: Method, task: ShiftTask, blind: ShiftTask, classes: Tensor, first: Tensor
) -> tuple[float, dict[str, float]]:
    """Modularity of predicted classes ``[V]`` on the target, and figures to record with it.

    An episode whose agreement with the classes ``first`` of episode 0 is below 60 % is not
    selected. Otherwise communities that do not match the classes could be selected for their
    high modularity. Agreement is measured on the nodes that neither predicts as unknown.
    """
    same = (classes == first)[(classes < task.num_known) & (first < task.num_known)]
    agreement = float(same.float().mean()) if len(same) else 0.0
    graph = method.prepared(blind.target)
    value = modularity(classes, graph.adjacency("raw"), graph.degree)
    figures = {"agreement": agreement, "class_modularity": value}
    return value if agreement >= MIN_AGREEMENT else -math.inf, figures

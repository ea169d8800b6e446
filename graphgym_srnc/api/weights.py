"""Weights of training nodes, which ``sample_weight`` and ``class_weight`` give."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.methods.shared.base import Method

ALLOWED = "None, 'balanced', or a dict of a weight of 0 or more for each class"


def weighted(
    method: Method,
    task: ShiftTask,
    classes: Sequence[Any],
    sample_weight: Any,
    class_weight: dict[Any, float] | str | None,
) -> ShiftTask:
    """The task with ``sample_weight`` ``[V]`` of its source, or as it is without any weights.

    Raises:
        InputError: the method reads no weights, or they are invalid.
    """
    if sample_weight is None and class_weight is None:
        return task
    if not method.weighs_labels:
        name = "class_weight" if sample_weight is None else "sample_weight"
        raise InputError.plain(
            name,
            f"{type(method).__name__} weighs no labelled nodes",
            "Leave it out, or use ERM or SRNC",
        )
    device = task.device
    weight = torch.ones(task.source.num_nodes, device=device)
    if sample_weight is not None:
        weight = _checked(sample_weight, len(weight)).to(device)
    label = task.source.y[task.train]
    if class_weight is not None:
        factors = _of_classes(class_weight, label, [*classes][: task.num_known]).to(device)
        weight = weight.index_put((task.train,), weight[task.train] * factors[label])
    if not (weight[task.train] > 0).any():
        raise InputError.plain("sample_weight", "no training node has a weight above 0")
    if (weight[task.train] == weight[task.train[0]]).all():
        return task  # the mean is that of nodes without weights, up to rounding

    graph = copy.copy(task.source)
    graph.sample_weight = weight
    names = ("source", "target", "val_graph")
    return replace(task, **{key: graph for key in names if getattr(task, key) is task.source})


def _checked(given: Any, size: int) -> Tensor:
    with reading(Path("it"), "a list of numbers", "sample_weight"):
        values = np.asarray(given, dtype=np.float32)
    if values.shape != (size,) or not np.isfinite(values).all() or (values < 0).any():
        raise InputError.plain(
            "sample_weight",
            f"the weights have the shape {values.shape}, or one is negative, NaN or infinite",
            f"Give one number of 0 or more per source node, [{size}]",
        )
    return torch.from_numpy(values)


def _of_classes(given: dict[Any, float] | str, label: Tensor, classes: Sequence[Any]) -> Tensor:
    """Weight of each known class, ``[N]``; ``label`` ``[n]`` are numbers of training nodes."""
    if isinstance(given, str) and given == "balanced":
        count = torch.bincount(label, minlength=len(classes))
        return len(label) / (len(classes) * count.clamp(min=1).float())
    if not isinstance(given, dict) or not {*given} <= {*classes}:
        raise InputError("class_weight", given, f"{ALLOWED}, such as {classes[0]!r}")
    factors = torch.tensor([float(given.get(one, 1.0)) for one in classes])
    if not torch.isfinite(factors).all() or (factors < 0).any():
        raise InputError("class_weight", given, ALLOWED)
    return factors

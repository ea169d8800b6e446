"""Shift scenarios, found by folder: each module here with a function ``build(*, name, root, split_seed, ...) -> ShiftTask`` is one."""
from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Callable

from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from torch_geometric.data import Data

    from graphgym_srnc.task import ShiftTask


SHARED = ("given", "splits")
"""Modules here that are no shift."""


def names() -> list[str]:
    """Names of all shifts, sorted; imports none of them."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in SHARED)


def find(name: str) -> Callable[..., ShiftTask]:
    """The ``build`` function of a shift, imported on demand.

    Raises:
        InputError: there is no such shift.
    """
    if name not in names():
        raise InputError("dataset.format", name, ", ".join(names()))
    return import_module(f"{__name__}.{name}").build


def from_data(source: Data, target: Data | None = None, *, open_set: bool | None = None, held_out: float = 0.0,
              seed: int = 0) -> tuple[ShiftTask, np.ndarray]:
    """A task of graphs in memory, with their own split: ``train_mask``, ``val_mask`` and ``test_mask``, of which no other label is used.

    Classes without a training node are unknown. With two graphs validation and test nodes are those of the target, and the source's
    ``val_mask`` is held out; it serves as validation where the target has none. There need be no validation and no test node.

    Args:
        source: the labelled graph; without a ``train_mask`` all its labelled nodes teach, if there is a target. Labels are whole
            numbers, -1 where there is none, or words, where none is empty.
        target: the graph to predict; None = the same one.
        open_set: whether there is an unknown class; None = whether a node of either graph has a label that no training node has.
        held_out: in open-set shift, the share of each class's training nodes that are validation nodes instead, if there is no other.
        seed: decides which.

    Returns:
        The task, and the label of each of its classes in the user's own words or numbers; the unknown one is ``unknown`` or -1.

    Raises:
        InputError: the graphs, labels or masks make no task.
    """
    from graphgym_srnc.shifts import given
    return given.task_of(source, target, open_set, held_out, seed)


def unlabelled(data: Data) -> Data:
    """The features and edges of a graph that is to be predicted, checked, on the CPU.

    Raises:
        InputError: no PyG ``Data``, or its features or edges are not what they should be.
    """
    from graphgym_srnc.shifts import given
    return given.unlabelled(data)


def forget() -> None:
    """Let go of the graphs that are kept in memory for the next call."""
    from graphgym_srnc.data import citation, datasets
    datasets.load.cache_clear()
    citation._read.cache_clear()

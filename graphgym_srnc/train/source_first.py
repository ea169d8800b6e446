"""Find the unknown class on the source first, then solve close-set shift with one class more.

This is possible between two graphs if nodes of unknown classes are held out on the source: then
other nodes of these classes are among its unlabelled nodes.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.task import HIDDEN, VISIBLE, ShiftTask


def applies(task: ShiftTask) -> bool:
    """Whether the unknown class can be found on the source of a task."""
    source = task.source
    more_nodes = len(task.train) + len(task.val) < source.num_nodes
    own_nodes = task.target is not source and task.validation is source
    return task.validates_unknown and own_nodes and more_nodes


def source_alone(task: ShiftTask) -> ShiftTask:
    """The source as a task of its own: open-set shift on one graph, without test nodes."""
    y = task.blind().source.y
    y[task.val] = task.source.y[task.val]
    seen = {key: task.source[key] for key in VISIBLE if key in task.source}
    source = Data(**seen, y=y)
    unlabelled = torch.ones_like(y, dtype=torch.bool).index_fill(0, task.train, False)
    pool = unlabelled.nonzero().ravel()
    return replace(
        task,
        source=source,
        target=source,
        val_graph=None,
        pool=pool,
        test=pool[:0],
        scored=False,
        info={},
        oracle=None,
    )


def with_found_class(task: ShiftTask, predicted: Tensor) -> ShiftTask:
    """Close-set shift of :math:`N + 1` classes, whose last one is the unknown class.

    Predicted classes of the source ``[V]`` become training labels, except on held-out nodes.
    """
    y = predicted.index_fill(0, torch.cat([task.val, task.source_val]), HIDDEN)
    y[task.train] = task.source.y[task.train]
    seen = {key: task.source[key] for key in VISIBLE if key in task.source}
    source = Data(**seen, y=y)
    return replace(
        task,
        source=source,
        val_graph=source,
        train=(y != HIDDEN).nonzero().ravel(),
        num_known=task.num_known + 1,
        open_set=False,
        unknown_found=True,
    )

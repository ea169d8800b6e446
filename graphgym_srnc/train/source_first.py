"""Find the unknown class on the source first, then solve close-set shift with one class more.

This is possible between two graphs if nodes of unknown classes are held out on the source: then
other nodes of these classes are among its unlabelled nodes.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.task import HIDDEN, ShiftTask


def applies(task: ShiftTask) -> bool:
    """Whether the unknown class can be found on the source of a task."""
    held_out, source = task.val, task.source
    return (
        task.open_set
        and source is not task.target
        and task.validation is source
        and bool((source.y[held_out] == task.num_known).any())
        and len(task.train) + len(held_out) < source.num_nodes
    )


def source_alone(task: ShiftTask) -> ShiftTask:
    """The source as a task of its own: open-set shift on one graph, with the same held-out nodes.

    All unlabelled nodes may receive pseudo-labels. No node is a test node.
    """
    y = task.blind().source.y
    y[task.val] = task.source.y[task.val]
    source = Data(x=task.source.x, edge_index=task.source.edge_index, y=y)
    pool = (~_marked(source, task.train)).nonzero().ravel()
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

    Args:
        task: the task as a method sees it.
        predicted: predicted classes of the source nodes, ``[V]``. Those of unlabelled nodes become
            training labels, except on held-out nodes.
    """
    held_out = _marked(task.source, torch.cat([task.val, task.source_val]))
    y = predicted.masked_fill(held_out, HIDDEN)
    y[task.train] = task.source.y[task.train]
    source = Data(x=task.source.x, edge_index=task.source.edge_index, y=y)
    return replace(
        task,
        source=source,
        val_graph=source,
        train=(~held_out).nonzero().ravel(),
        num_known=task.num_known + 1,
        open_set=False,
        unknown_found=True,
    )


def _marked(graph: Data, nodes: Tensor) -> Tensor:
    """True for the given nodes ``[n]`` among all nodes ``[V]``."""
    return torch.zeros(graph.num_nodes, dtype=torch.bool, device=nodes.device).index_fill(
        0, nodes, True
    )

"""Graphs and masks that a user gives: checks, and the task of graphs that lie in memory."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.data import cleaning, files
from graphgym_srnc.data.cleaning import MASKS
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits
from graphgym_srnc.task import HIDDEN, ShiftTask

UNKNOWN = "unknown"
"""The unknown class where classes are words; where they are numbers it is -1."""


def from_data(source: Data, target: Data | None = None, *, open_set: bool | None = None,
              held_out: float = 0.0, seed: int = 0) -> tuple[ShiftTask, np.ndarray]:
    """A task of graphs in memory with their own split, of which no other label is used.

    The split is in ``train_mask``, ``val_mask`` and ``test_mask``. Classes without a training node
    are unknown. With two graphs validation and test nodes are those of the target, and the source's
    ``val_mask`` is held out; it serves as validation where the target has none. There need be no
    validation and no test node.

    Args:
        source: the labelled graph; without a ``train_mask`` all its labelled nodes teach, if there
            is a target. Labels are whole numbers, -1 where there is none, or words, where none is
            empty.
        target: the graph to predict; None = the same one.
        open_set: whether there is an unknown class; None = whether a node of either graph has a
            label that no training node has.
        held_out: in open-set shift, the share of each class's training nodes that are validation
            nodes instead, if there is no other.
        seed: decides which.

    Returns:
        The task, and the label of each of its classes in the user's own words or numbers; the
        unknown one is ``unknown`` or -1.

    Raises:
        InputError: the graphs, labels or masks make no task.
    """
    given = {"graph": source} if target is None else {"source": source, "target": target}
    graphs, values = _numbered(given)
    source, target = graphs[0], graphs[-1]
    train, source_val, val, test = _split(source, target)
    known = source.y[train].unique()
    if len(known) < 2:
        found = f"nodes of class {values[known.numpy()].tolist()}"
        raise InputError("train_mask", found, "nodes of two classes or more")
    new = sorted({*splits.classes_of(torch.cat([graph.y for graph in graphs]))} - {*known.tolist()})
    open_set = len(new) > 0 if open_set is None else open_set

    for graph in graphs:
        graph.y_true = torch.full_like(graph.y, HIDDEN)
    for graph, nodes in ((source, train), (source, source_val), (target, val), (target, test)):
        graph.y_true[nodes] = graph.y[nodes]
        untaught = [c for c in new if c in graph.y[nodes]]
        if untaught and not open_set:
            allowed = ("True where a mask has nodes of classes that training has not, here "
                       f"{values[untaught].tolist()}")
            raise InputError("open_set", open_set, allowed)
    for graph in graphs:
        graph.y = splits.renumbered(graph.y_true, known.tolist())

    if open_set and held_out and not len(val) and not len(source_val):
        train, held = _hold_out(source.y, train, held_out, seed)
        val, source_val = (held, source_val) if source is target else (val, held)
    val_graph = None
    if len(source_val) and not len(val):
        val, val_graph = source_val, source
    pool = splits.others(target.num_nodes, train if source is target else train[:0])
    pool = pool if len(pool) else train  # where every node teaches, as in a last fit after a search
    task = ShiftTask(name="data", source=source, target=target, train=train, val=val, test=test,
                     source_val=source_val, pool=pool, num_known=len(known), open_set=open_set,
                     val_graph=val_graph, scored=False)
    return task, _classes(values[known.numpy()], open_set)


def unlabelled(data: Data, key: str = "graph") -> Data:
    """The features and edges of a graph that is to be predicted, checked, on the CPU.

    Raises:
        InputError: no PyG ``Data``, or its features or edges are not what they should be.
    """
    if not isinstance(data, Data):
        allowed = "a torch_geometric.data.Data with x and edge_index"
        raise InputError(key, type(data).__name__, allowed)
    found = Data(**files.tensors(data, ("x", "edge_index"), key))
    x, edge_index = cleaning.features_and_edges(found, key)
    return Data(x=x, edge_index=edge_index, num_nodes=len(x))


def masked_nodes(data: Data, key: str, masks: Sequence[str] = MASKS) -> dict[str, Tensor]:
    """Ids of the nodes of each mask that a graph has, by the mask's name.

    Raises:
        InputError: a mask has another shape than ``[V]``, or holds a node without a label; names
            ``key``.
    """
    ids: dict[str, Tensor] = {}
    for mask in (mask for mask in masks if mask in data):
        if tuple(data[mask].shape) != (data.num_nodes,):
            allowed = f"one true or false a node, shape [{data.num_nodes}]"
            raise InputError(f"{key}: {mask}", tuple(data[mask].shape), allowed)
        ids[mask] = data[mask].bool().nonzero().view(-1)
        bare = ids[mask][data.y[ids[mask]] < 0]
        if len(bare):
            found = f"{len(bare)} node(s) without a label, e.g. {int(bare[0])}"
            raise InputError(f"{key}: {mask}", found, "labelled nodes")
    return ids


def _split(source: Data, target: Data) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and held-out nodes of the source, validation and test nodes of the target."""
    none = torch.empty(0, dtype=torch.long)
    if source is target:
        ids = masked_nodes(source, "graph")
        if "train_mask" not in ids:
            allowed = "a mask [V] of the nodes to learn from; the labels of the others are not read"
            raise InputError("graph: train_mask", None, allowed)
        return ids["train_mask"], none, ids.get("val_mask", none), ids.get("test_mask", none)
    at_source = masked_nodes(source, "source", ("train_mask", "val_mask"))
    at_target = masked_nodes(target, "target", ("val_mask", "test_mask"))
    held = at_source.get("val_mask", none)
    every = (source.y.index_fill(0, held, HIDDEN) >= 0).nonzero().view(-1)
    return (at_source.get("train_mask", every), held, at_target.get("val_mask", none),
            at_target.get("test_mask", none))


def _numbered(graphs: dict[str, Data]) -> tuple[list[Data], np.ndarray]:
    """Clean graphs whose labels are numbers, -1 where there is none, of one list of classes."""
    plain = {role: unlabelled(graph, role) for role, graph in graphs.items()}
    labels = {role: _labels(graph.y, len(plain[role].x), role)
              for role, graph in graphs.items() if graph.y is not None}
    kinds = {label.dtype.kind for label in labels.values()}
    if len(kinds) != 1:
        found = "words and numbers" if kinds else None
        raise InputError(f"{list(graphs)[-1]}: y", found, "labels, all words or all whole numbers")
    none = "" if kinds == {"U"} else HIDDEN
    values = np.unique(np.concatenate(list(labels.values())))
    values = values[values != none]
    cleaned = []
    for role, graph in plain.items():
        label = labels.get(role, np.full(len(graph.x), none))
        number = np.where(label == none, HIDDEN, np.searchsorted(values, label))
        graph.update({"y": torch.from_numpy(number), **files.tensors(graphs[role], MASKS, role)})
        cleaned.append(cleaning.clean(graph, role))
    return cleaned, values


def _labels(y: Any, num_nodes: int, key: str) -> np.ndarray:
    """Labels ``[V]`` as whole numbers, or as words; -1 or an empty word where there is none."""
    label = y.cpu().numpy() if torch.is_tensor(y) else np.asarray(y)
    label = label[:, 0] if label.shape == (num_nodes, 1) else label
    if label.shape != (num_nodes,):
        raise InputError(f"{key}: y", label.shape, f"one label a node, shape [{num_nodes}]")
    values = label.tolist()
    if label.dtype.kind in "OU" and all(v is None or isinstance(v, str) for v in values):
        return np.array(["" if word in (None, "-1") else word for word in values])
    whole = label.dtype.kind in "biuf" and np.isfinite(label) & (label.astype(int) == label)
    if not np.all(whole) or label.min() < HIDDEN:
        allowed = "words, or whole numbers from 0; -1 where there is no label"
        raise InputError(f"{key}: y", values[:3], allowed)
    return label.astype(np.int64)


def _classes(known: np.ndarray, open_set: bool) -> np.ndarray:
    """The label of each class in the user's own words or numbers."""
    words = known.dtype.kind == "U"
    if open_set and words and UNKNOWN in known:
        allowed = "another name for a class with training nodes: the unknown one is called so"
        raise InputError("y", UNKNOWN, allowed)
    return np.append(known, UNKNOWN if words else HIDDEN) if open_set else known


def _hold_out(y: Tensor, train: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Training nodes without a share of each class that has two or more, and those held out."""
    order = train[splits.shuffled(len(train), seed, "held-out nodes")]
    held = []
    for c in splits.classes_of(y[train]):
        nodes = order[y[order] == c]
        count = max(1, round(share * len(nodes))) if len(nodes) > 1 else 0
        held.append(nodes[:count])
    held = torch.cat(held)
    return train[~torch.isin(train, held)], held.sort().values

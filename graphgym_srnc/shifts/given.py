"""Graphs and masks that a user gives: checks that the shift ``file`` shares, and the task of graphs that lie in memory."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.data import datasets, files
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits
from graphgym_srnc.task import HIDDEN, ShiftTask

UNKNOWN = "unknown"
"""The unknown class where classes are words; where they are numbers it is -1."""


def masked_nodes(data: Data, key: str, masks: Sequence[str] = files.MASKS) -> dict[str, Tensor]:
    """Ids of the nodes of each mask that a graph has, by the mask's name.

    Raises:
        InputError: a mask has another shape than ``[V]``, or holds a node without a label; names ``key``.
    """
    parts: dict[str, Tensor] = {}
    for mask in masks:
        if mask not in data:
            continue
        if tuple(data[mask].shape) != (data.num_nodes,):
            raise InputError(f"{key}: {mask}", tuple(data[mask].shape), f"one true or false a node, shape [{data.num_nodes}]")
        parts[mask] = data[mask].bool().nonzero().view(-1)
        bare = parts[mask][data.y[parts[mask]] < 0]
        if len(bare):
            raise InputError(f"{key}: {mask}", f"{len(bare)} node(s) without a label, e.g. {int(bare[0])}", "labelled nodes")
    return parts


def unlabelled(data: Data, key: str = "graph") -> Data:
    """See :func:`graphgym_srnc.shifts.unlabelled`."""
    if not isinstance(data, Data):
        raise InputError(key, type(data).__name__, "a torch_geometric.data.Data with x and edge_index")
    x, edge_index = datasets.features_and_edges(Data(**files.tensors(data, ("x", "edge_index"), key)), key)
    return Data(x=x, edge_index=edge_index, num_nodes=len(x))


def task_of(source: Data, target: Data | None, open_set: bool | None, held_out: float, seed: int) -> tuple[ShiftTask, np.ndarray]:
    """See :func:`graphgym_srnc.shifts.from_data`."""
    graphs, values = _numbered({"graph": source} if target is None else {"source": source, "target": target})
    here, there = graphs[0], graphs[-1]
    train, source_val, val, test = _nodes(here, there)
    known = here.y[train].unique()
    if len(known) < 2:
        raise InputError("train_mask", f"nodes of class {values[known.numpy()].tolist()}", "nodes of two classes or more")
    every = torch.cat([graph.y for graph in graphs]).unique()
    new = every[(every >= 0) & ~torch.isin(every, known)]
    open_set = len(new) > 0 if open_set is None else open_set
    for graph in graphs:
        graph.y_true = torch.full_like(graph.y, HIDDEN)
    for graph, nodes in ((here, train), (here, source_val), (there, val), (there, test)):
        graph.y_true[nodes] = graph.y[nodes]
        strange = new[torch.isin(new, graph.y[nodes])]
        if len(strange) and not open_set:
            untaught = values[strange.numpy()].tolist()
            raise InputError("open_set", open_set, f"True where a mask has nodes of classes that training has not, here {untaught}")
    # The last entry answers for nodes without a label.
    number = torch.full((len(values) + 1,), len(known))
    number[known], number[-1] = torch.arange(len(known)), HIDDEN
    for graph in graphs:
        graph.y = number[graph.y_true]
    if open_set and held_out and not len(val) and not len(source_val):
        train, held = _hold_out(here.y, train, held_out, seed)
        val, source_val = (held, source_val) if here is there else (val, held)
    pool = torch.ones(there.num_nodes, dtype=torch.bool)
    if here is there:
        pool[train] = False
    by_source = {"val": source_val, "val_graph": here} if len(source_val) and not len(val) else {}
    task = ShiftTask(**{"name": "data", "source": here, "target": there, "train": train, "val": val, "test": test, "source_val": source_val,
                        "pool": pool.nonzero().view(-1), "num_known": len(known), "open_set": open_set, "scored": False} | by_source)
    return task, _classes(values[known.numpy()], open_set)


def _nodes(here: Data, there: Data) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training nodes and held-out ones of the first graph, validation and test nodes of the second, which may be the same one."""
    none = torch.empty(0, dtype=torch.long)
    if here is there:
        parts = masked_nodes(here, "graph")
        if "train_mask" not in parts:
            raise InputError("graph: train_mask", None, "a mask [V] of the nodes to learn from; the labels of the others are not read")
        return parts["train_mask"], none, parts.get("val_mask", none), parts.get("test_mask", none)
    at_source = masked_nodes(here, "source", ("train_mask", "val_mask"))
    at_target = masked_nodes(there, "target", ("val_mask", "test_mask"))
    source_val = at_source.get("val_mask", none)
    train = at_source.get("train_mask", (here.y.index_fill(0, source_val, HIDDEN) >= 0).nonzero().view(-1))
    return train, source_val, at_target.get("val_mask", none), at_target.get("test_mask", none)


def _numbered(graphs: dict[str, Data]) -> tuple[list[Data], np.ndarray]:
    """Clean graphs whose labels are numbers, -1 where there is none, of one sorted list of classes."""
    plain = {role: unlabelled(graph, role) for role, graph in graphs.items()}
    labels = {role: _labels(graph.y, len(plain[role].x), role) for role, graph in graphs.items() if graph.y is not None}
    kinds = {label.dtype.kind for label in labels.values()}
    if len(kinds) != 1:
        raise InputError(f"{list(graphs)[-1]}: y", "words and numbers" if kinds else None, "labels, all words or all whole numbers")
    none = "" if kinds == {"U"} else HIDDEN
    values = np.unique(np.concatenate(list(labels.values())))
    values = values[values != none]
    clean = []
    for role, own in plain.items():
        label = labels.get(role, np.full(len(own.x), none))
        own.y = torch.from_numpy(np.where(label == none, HIDDEN, np.searchsorted(values, label)))
        clean.append(datasets.clean(own.update(files.tensors(graphs[role], files.MASKS, role)), role))
    return clean, values


def _labels(y: Any, num_nodes: int, key: str) -> np.ndarray:
    """Labels ``[V]`` as whole numbers, -1 where there is none, or as words, empty where there is none."""
    label = y.cpu().numpy() if torch.is_tensor(y) else np.asarray(y)
    label = label[:, 0] if label.shape == (num_nodes, 1) else label
    if label.shape != (num_nodes,):
        raise InputError(f"{key}: y", label.shape, f"one label a node, shape [{num_nodes}]")
    if label.dtype.kind in "OU" and all(word is None or isinstance(word, str) for word in label.tolist()):
        return np.array(["" if word in (None, "-1") else word for word in label.tolist()])
    if label.dtype.kind not in "biuf" or not (np.isfinite(label) & (label.astype(int) == label)).all() or label.min() < HIDDEN:
        raise InputError(f"{key}: y", label[:3].tolist(), "words, or whole numbers from 0; -1 where there is no label")
    return label.astype(np.int64)


def _classes(known: np.ndarray, open_set: bool) -> np.ndarray:
    """The label of each class in the user's own words or numbers."""
    words = known.dtype.kind == "U"
    if open_set and words and UNKNOWN in known:
        raise InputError("y", UNKNOWN, "another name for a class with training nodes, since so the unknown one is called")
    return np.append(known, UNKNOWN if words else HIDDEN) if open_set else known


def _hold_out(y: Tensor, train: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Training nodes without a share of each class that has two or more, one at least, and those held out."""
    order = train[torch.from_numpy(splits.generator(seed, 4).permutation(len(train)))]
    classes = [order[y[order] == c] for c in y[train].unique().tolist()]
    held = torch.cat([nodes[:max(1, round(share * len(nodes))) if len(nodes) > 1 else 0] for nodes in classes])
    return train[~torch.isin(train, held)], held.sort().values

"""A task before any training: graphs, splits, label distributions, and warnings."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import clean, listed
from graphgym_srnc.data.edges import CHUNK, LEAST_SAME, TELLING

# Index sets of a task, in words.
PARTS = {
    "train": "training nodes",
    "source_val": "held-out source nodes",
    "val": "validation nodes",
    "test": "test nodes",
    "pool": "nodes to predict",
}

FEW = 5  # number of training labels below which a class gives a warning


def describe(task: ShiftTask) -> dict[str, Any]:
    """Graphs (by role), sizes of the split, label counts, info, notes and warnings of a task."""
    graphs = {role: _describe_graph(graph) for role, graph in task.graphs().items()}
    if len(graphs) == 1:
        graphs = {"graph": graphs.popitem()[1]}
    labels = label_counts(task)
    if labels.get("unknown") == {"source": 0, "target": 0}:
        del labels["unknown"]
    sizes = {words: len(getattr(task, part)) for part, words in PARTS.items()}
    return {
        "name": task.name,
        "known_classes": task.num_known,
        "open_set": task.open_set,
        "graphs": graphs,
        "splits": {words: size for words, size in sizes.items() if size},
        "labels": labels,
        "info": dict(task.info),
        "notes": _notes(task),
        "warnings": _warnings(task, graphs, labels),
    }


def label_counts(task: ShiftTask) -> dict[str, dict[str, int]]:
    """Training nodes (``source``) and labelled target nodes (``target``) of each class."""
    given = torch.cat([task.train, task.val]) if task.held_out else task.train
    counts = [
        torch.bincount(y[y >= 0], minlength=task.num_outputs).tolist()
        for y in (task.source.y[given], task.target.y)
    ]
    labels = {name: {"source": a, "target": b} for name, a, b in zip(known_names(task), *counts)}
    numbers = task.info.get("unseen")
    if task.open_set and numbers and "y_true" in task.target:
        del labels["unknown"]
        for number, name in zip(numbers, unseen_names(task, numbers)):
            labels[name] = {"source": 0, "target": int((task.target.y_true == number).sum())}
    return labels


def known_names(task: ShiftTask) -> list[str]:
    """One name per output, fit to be shown: known classes, then ``unknown`` in open-set shift."""
    names = list(map(clean, task.class_names[: task.num_known]))
    if not names:
        names = list(map(str, original_labels(task)))
    return [*names, "unknown"] if task.open_set else names


def original_labels(task: ShiftTask) -> list[int]:
    """Original class number of each known class."""
    y = task.source.y[task.train]
    y_true = getattr(task.source, "y_true", task.source.y)
    return [int(y_true[task.train][y == label][0]) for label in range(task.num_known)]


def unseen_names(task: ShiftTask, numbers: Sequence[int], before: str = "unseen ") -> list[str]:
    """Names of masked classes by their original numbers in ``task.target.y_true``."""
    true = task.target.y_true
    known = true[true >= 0].unique().tolist()
    names = dict(zip(known, task.oracle.class_names if task.oracle else ()))
    return [clean(f"{before}{names.get(number, number)}") for number in numbers]


def hidden_classes(task: ShiftTask) -> list[str]:
    """Names of the classes that the split masks."""
    numbers = task.info.get("unseen") if "y_true" in task.target else ()
    return unseen_names(task, numbers, "") if numbers else []


def _describe_graph(graph: Data) -> dict[str, Any]:
    y = graph.y_true if "y_true" in graph else graph.y
    degrees = degree(graph.edge_index[0], graph.num_nodes)
    same, between = same_class(graph, y)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges // 2,
        "features": graph.num_features,
        "classes": int(y[y >= 0].unique().numel()),
        "labelled": int((y >= 0).sum()),
        "unlabelled": int((y < 0).sum()),
        "mean_degree": float(degrees.mean()),
        "isolated": int((degrees == 0).sum()),
        "featureless": int((graph.x == 0).all(1).sum()),
        "labelled_edges": between,
        "homophily": same / between if between else float("nan"),
    }


def same_class(graph: Data, label: Tensor) -> tuple[float, int]:
    """Numbers of edges between nodes with a label ``[V]``: those that join one class, and all.

    With weights, the first number is the share of the weight times the second.
    """
    labelled = label >= 0
    same = total = 0.0
    count = 0
    for place, pairs in enumerate(graph.edge_index.split(CHUNK, 1)):
        between = labelled[pairs].all(0) & (pairs[0] < pairs[1])
        a, b = label[pairs[:, between]]
        weight = torch.ones(len(a), device=label.device)
        if graph.edge_weight is not None:
            weight = graph.edge_weight[place * CHUNK :][: len(between)][between]
        same += float(weight[a == b].sum(dtype=torch.double))
        total += float(weight.sum(dtype=torch.double))
        count += len(a)
    return count * same / total if count else 0.0, count


def _notes(task: ShiftTask) -> list[str]:
    """What was read or changed in the data."""
    cleaned = {
        "self_loops": "self-loops were removed",
        "duplicates": "repeated edges were merged",
        "one_way": "edges had one direction and are read in both",
    }
    counts = task.info.get("cleaned", {})
    unread = task.info.get("unread", "")
    notes = []
    if unread:
        more = "; weights of edges are read from edge_weight alone" if "edge" in unread else ""
        notes.append(f"not read: {unread}{more}")
    for role, graph in task.graphs().items():
        if graph.edge_weight is not None:
            low, high = map(float, graph.edge_weight.aminmax())
            name = "graph" if task.one_graph else role
            notes.append(f"{name}: edges have weights from {low:g} to {high:g}")
    if not task.one_graph:
        used = "tests and validation" if task.validation is task.target else "tests"
        notes.append(
            f"labels of the target are used for {used} alone: {len(task.test):,} are tested"
        )
    return notes + [f"{counts[key]:,} {text}" for key, text in cleaned.items() if counts.get(key)]


def _warnings(task: ShiftTask, graphs: dict[str, Any], labels: dict[str, Any]) -> list[str]:
    """What may spoil the training or its scores."""
    warnings = [
        f"{role}: only {100 * graph['homophily']:.1f} % of the {graph['labelled_edges']:,} edges"
        " between labelled nodes join nodes of the same class. SRNC+ weighs edges and features by"
        " labels that it holds out, so you need not do anything; other methods that smooth over"
        " neighbours may lose."
        for role, graph in graphs.items()
        if graph["labelled_edges"] >= TELLING and graph["homophily"] < LEAST_SAME
    ]
    names = known_names(task)[: task.num_known]
    parts = ("validation", task.validation, task.val), ("test", task.target, task.test)
    for part, graph, nodes in parts:
        present = set(graph.y[nodes].tolist())
        absent = [name for i, name in enumerate(names) if i not in present]
        if absent and len(nodes):
            warnings.append(f"no {part} node is of class {listed(absent)}")
    few = few_labels(labels, task.source is task.target)
    return [*warnings, few] if few else warnings


def few_labels(labels: Mapping[str, Mapping[str, int]], one_graph: bool) -> str:
    """A warning about classes with few training labels, see ``label_counts``; "" if none.

    ``one_graph`` = labels of the target are also those of the source.
    """
    few = {name: count for name, count in labels.items() if 0 < count["source"] < FEW}
    if not few:
        return ""
    texts = []
    for name, count in few.items():
        more = f" of {count['target']} given" if one_graph else ""
        texts.append(f"{name} ({count['source']}{more})")
    return (
        f"Fewer than {FEW} training labels: {listed(texts)}. Predictions of such classes are "
        "unreliable. Label more nodes, or remove the labels."
    )

"""A task before any training: graphs, splits, label distributions, and warnings."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import torch
from torch_geometric.data import Data
from torch_geometric.utils import degree

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import clean, listed

FEW = 5
"""Number of training labels below which a class gives a warning."""


def describe(task: ShiftTask) -> dict[str, Any]:
    """Graphs (by role), splits (sizes by index set), label counts, info and warnings of a task."""
    graphs = {role: _describe_graph(graph) for role, graph in task.graphs().items()}
    labels, sets = label_counts(task), ("train", "source_val", "val", "test", "pool")
    return {
        "name": task.name,
        "fingerprint": task.fingerprint(),
        "known_classes": task.num_known,
        "open_set": task.open_set,
        "graphs": graphs,
        "splits": {key: len(getattr(task, key)) for key in sets},
        "labels": labels,
        "info": dict(task.info),
        "warnings": _warnings(task, graphs, labels),
    }


def label_counts(task: ShiftTask) -> dict[str, dict[str, int]]:
    """Training nodes (``source``) and labelled target nodes (``target``) of each class."""
    source, target = (
        torch.bincount(y[y >= 0], minlength=task.num_outputs).tolist()
        for y in (task.source.y[task.train], task.target.y)
    )
    names = known_names(task)[: task.num_known]
    labels = {name: {"source": source[i], "target": target[i]} for i, name in enumerate(names)}
    sizes = {"unknown": target[task.num_known]} if task.open_set else {}
    if sizes and "y_true" in task.target and task.info.get("unseen"):
        numbers = task.info["unseen"]
        counts = [int((task.target.y_true == number).sum()) for number in numbers]
        sizes = dict(zip(unseen_names(task, numbers), counts))
    return labels | {name: {"source": 0, "target": size} for name, size in sizes.items()}


def known_names(task: ShiftTask) -> list[str]:
    """One name per output, fit to be shown: known classes, then ``unknown`` in open-set shift."""
    names = list(map(clean, task.class_names[: task.num_known]))
    if not names:
        label, true = task.target.y, getattr(task.target, "y_true", task.target.y)
        first = [true[label == index][:1].tolist() for index in range(task.num_known)]
        names = [str(original[0] if original else index) for index, original in enumerate(first)]
    return names + ["unknown"] * int(task.open_set)


def unseen_names(task: ShiftTask, numbers: Sequence[int]) -> list[str]:
    """Names of masked classes by their original numbers in ``task.target.y_true``."""
    true = task.target.y_true
    known = true[true >= 0].unique().tolist()
    names = dict(zip(known, task.oracle.class_names if task.oracle else ()))
    return [clean(f"unseen {names.get(number, number)}") for number in numbers]


def _describe_graph(graph: Data) -> dict[str, Any]:
    row, column = graph.edge_index
    y = graph.y_true if "y_true" in graph else graph.y
    both = (y[row] >= 0) & (y[column] >= 0)
    degrees, same = degree(row, graph.num_nodes), (y[row] == y[column])[both]
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges // 2,
        "features": graph.num_features,
        "feature_density": float((graph.x != 0).float().mean()),
        "classes": int(y[y >= 0].unique().numel()),
        "labelled": int((y >= 0).sum()),
        "mean_degree": float(degrees.mean()),
        "max_degree": int(degrees.max()),
        "isolated": int((degrees == 0).sum()),
        "featureless": int((graph.x == 0).all(1).sum()),
        "homophily": float(same.float().mean()) if both.any() else float("nan"),
    }


def _warnings(task: ShiftTask, graphs: dict[str, Any], labels: dict[str, Any]) -> list[str]:
    warnings = []
    for role, graph in graphs.items():
        for key, text in (("isolated", "edge"), ("featureless", "feature")):
            if graph[key]:
                warnings.append(f"{role}: {graph[key]} of {graph['nodes']} nodes have no {text}")
        if unlabelled := graph["nodes"] - graph["labelled"]:
            warnings.append(f"{role}: {unlabelled} of {graph['nodes']} nodes have no label")
        if graph["homophily"] < 0.4:
            warnings.append(
                f"{role}: only {100 * graph['homophily']:.0f} % of edges join nodes of"
                " the same class. Methods that smooth over neighbours often lose."
            )
    if unread := task.info.get("unread"):
        more = "; edge weights are not used" * ("edge" in unread)
        warnings.append(f"not read: {unread}{more}")
    cleaned = {
        "self_loops": "self-loops were removed",
        "duplicates": "repeated edges were merged",
        "one_way": "directed edges were made undirected",
    }
    counts = task.info.get("cleaned", {})
    warnings += [f"{counts[key]} {text}" for key, text in cleaned.items() if counts.get(key)]
    for part, graph in (("val", task.validation), ("test", task.target)):
        present = set(graph.y[getattr(task, part)].tolist())
        absent = [name for i, name in enumerate(known_names(task)) if i not in present]
        if absent:
            warnings.append(f"{part}: no node belongs to class {', '.join(absent)}")
    if few := few_labels(labels):
        warnings.append(few)
    return warnings


def few_labels(labels: Mapping[str, Mapping[str, int]]) -> str:
    """A warning about classes with few training labels, see :func:`label_counts`; "" if none."""
    few = {name: count["source"] for name, count in labels.items() if 0 < count["source"] < FEW}
    if not few:
        return ""
    named = listed([f"{name} ({count})" for name, count in few.items()])
    return (
        f"Fewer than {FEW} training labels: {named}. Predictions of "
        f"{'this class' if len(few) == 1 else 'these classes'} are unreliable. Label more nodes,"
        " or remove the labels."
    )

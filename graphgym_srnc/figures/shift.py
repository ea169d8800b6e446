"""A shift at a glance, before any training: graphs, splits, label distributions of source and target, and what looks odd."""
from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO

import torch
from torch_geometric.data import Data
from torch_geometric.utils import degree

from graphgym_srnc.task import ShiftTask
from graphgym_srnc.text import clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def describe(task: ShiftTask) -> dict[str, Any]:
    """What there is to know of a task: ``name``, ``graphs`` by role, ``splits``, ``labels``, ``info`` and ``warnings``.

    ``labels`` maps a class to its counts among labelled source nodes (``source``) and among all labelled target nodes
    (``target``), of which methods see nothing.
    """
    graphs = {role: _describe_graph(graph) for role, graph in task.graphs().items()}
    splits = {key: len(getattr(task, key)) for key in ("train", "source_val", "val", "test", "pool")}
    labels = label_counts(task)
    warnings = _warnings(task, graphs, labels, known_names(task))
    return {"name": task.name, "fingerprint": task.fingerprint(), "known_classes": task.num_known, "open_set": task.open_set,
            "graphs": graphs, "splits": splits, "labels": labels, "info": dict(task.info), "warnings": warnings}


def label_counts(task: ShiftTask) -> dict[str, dict[str, int]]:
    """How many labelled nodes a class has among training nodes (``source``) and among all of the target (``target``)."""
    source, target = (torch.bincount(y[y >= 0], minlength=task.num_outputs).tolist() for y in (task.source.y[task.train], task.target.y))
    labels = {name: {"source": source[i], "target": target[i]} for i, name in enumerate(known_names(task)[:task.num_known])}
    if task.open_set:
        labels |= {name: {"source": 0, "target": size} for name, size in _unseen(task, target[task.num_known])}
    return labels


def known_names(task: ShiftTask) -> list[str]:
    """One name per output, fit to be shown: the known classes, by their original number where they have no name, then ``unknown``."""
    names = list(map(clean, task.class_names[:task.num_known]))
    if not names:
        label, true = task.target.y, getattr(task.target, "y_true", task.target.y)
        first = [true[label == index][:1].tolist() for index in range(task.num_known)]
        names = [str(original[0] if original else index) for index, original in enumerate(first)]
    return names + ["unknown"] * int(task.open_set)


def _unseen(task: ShiftTask, size: int) -> list[tuple[str, int]]:
    """Masked classes and their sizes; one heap where the original classes are not told."""
    if "y_true" not in task.target or not task.info.get("unseen"):
        return [("unknown", size)]
    true = task.target.y_true
    names = dict(zip(true[true >= 0].unique().tolist(), task.oracle.class_names if task.oracle else ()))
    return [(clean(f"unseen {names.get(c, c)}"), int((true == c).sum())) for c in task.info["unseen"]]


def _describe_graph(graph: Data) -> dict[str, Any]:
    row, column = graph.edge_index
    y = graph.y_true if "y_true" in graph else graph.y
    both = (y[row] >= 0) & (y[column] >= 0)
    degrees = degree(row, graph.num_nodes)
    return {"nodes": graph.num_nodes, "edges": graph.num_edges // 2, "features": graph.num_features,
            "feature_density": float((graph.x != 0).float().mean()), "classes": int(y[y >= 0].unique().numel()),
            "labelled": int((y >= 0).sum()), "mean_degree": float(degrees.mean()), "max_degree": int(degrees.max()),
            "isolated": int((degrees == 0).sum()),
            "featureless": int((graph.x == 0).all(1).sum()),
            "homophily": float((y[row] == y[column])[both].float().mean()) if both.any() else float("nan")}


def _warnings(task: ShiftTask, graphs: dict[str, Any], labels: dict[str, Any], outputs: list[str]) -> list[str]:
    warnings = []
    for role, graph in graphs.items():
        for key, text in (("isolated", "nodes have no edge"), ("featureless", "nodes have no feature")):
            if graph[key]:
                warnings.append(f"{role}: {graph[key]} of {graph['nodes']} {text}")
        if graph["labelled"] < graph["nodes"]:
            warnings.append(f"{role}: {graph['nodes'] - graph['labelled']} of {graph['nodes']} nodes have no label")
        if graph["homophily"] < 0.4:
            warnings.append(f"{role}: homophily is {graph['homophily']:.2f}; clusters of edges may say little about classes")
    for key, text in (("self_loops", "self-loops were removed"), ("duplicates", "repeated edges were merged"),
                      ("one_way", "edges had no reverse and were made undirected")):
        if task.info.get("cleaned", {}).get(key):
            warnings.append(f"{task.info['cleaned'][key]} {text}")
    for part, graph in (("val", task.validation), ("test", task.target)):
        present = set(graph.y[getattr(task, part)].tolist())
        absent = [name for i, name in enumerate(outputs) if i not in present]
        if absent:
            warnings.append(f"{part}: no node of {', '.join(absent)}")
    fewest = min(count["source"] for count in labels.values() if count["source"])
    if fewest < 5:
        warnings.append(f"train: a class has {fewest} labelled node(s) only")
    return warnings


def show(summary: dict[str, Any], file: TextIO | None = None) -> None:
    """Print what :func:`describe` found, in colour on a terminal that has Rich and as plain lines elsewhere."""
    file = file or sys.stdout
    info = {key: value for key, value in summary["info"].items() if key != "cleaned"}
    head = [("task", summary["name"]), *info.items(), ("fingerprint", summary["fingerprint"][:16])]
    graphs = summary["graphs"]
    keys = next(iter(graphs.values()))
    facts = [("", *graphs), *((key.replace("_", " "), *(_number(graph[key]) for graph in graphs.values())) for key in keys)]
    totals = {side: max(sum(count[side] for count in summary["labels"].values()), 1) for side in ("source", "target")}
    labels = [("class", "train", "%", "target", "%")]
    for name, count in summary["labels"].items():
        labels.append((name, *(text for side in totals for text in (str(count[side]), f"{100 * count[side] / totals[side]:.1f}"))))
    tables = {"": [(key, str(value)) for key, value in head], "graph": facts,
              "split": [(key, str(size)) for key, size in summary["splits"].items()], "labels": labels}
    console = None
    if file.isatty() and find_spec("rich"):
        from rich.console import Console
        console = Console(file=file)
    for title, rows in tables.items():
        header = rows[0] if title in ("graph", "labels") else None
        (_print_rich if console else _print_plain)(console or file, title, rows, header)
    for warning in summary["warnings"]:
        console.print(f"[yellow]![/] {warning}", highlight=False) if console else print(f"! {warning}", file=file)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _print_plain(file: TextIO, title: str, rows: list[tuple[str, ...]], header: tuple[str, ...] | None) -> None:
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) if header else cell for cell, width in zip(row[1:], widths[1:]))]
        print("  ".join(cells).rstrip(), file=file)
    print(file=file)


def _print_rich(console: Any, title: str, rows: list[tuple[str, ...]], header: tuple[str, ...] | None) -> None:
    from rich.table import Table
    table = Table(*(header or [""] * len(rows[0])), title=title or None, show_header=header is not None, title_justify="left")
    for column in table.columns[1:] if header else ():
        column.justify = "right"
    for row in rows[1:] if header else rows:
        table.add_row(*row)
    console.print(table)


def figure(summary: dict[str, Any], *later: dict[str, Any]) -> Figure:
    """Bars of label distributions: training nodes, all target nodes, and those of later tasks with the same classes, e.g. other years.

    Hatched is a class without training nodes.
    """
    from graphgym_srnc.figures.charts import label_shift_figure
    summaries = (summary, *later)
    names = list(dict.fromkeys(name for one in summaries for name in one["labels"]))
    sizes = [[one["labels"].get(name, {"source": 0, "target": 0}) for name in names] for one in summaries]
    parts = {"labelled training nodes": [size["source"] for size in sizes[0]]}
    for number, (one, own) in enumerate(zip(summaries, sizes), 1):
        parts[f"target {number}: {one['name']}" if later else "all target nodes"] = [size["target"] for size in own]
    return label_shift_figure(parts, names, f"{summary['name']}: labels of source and target")

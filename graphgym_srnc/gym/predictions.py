"""What a saved model predicts for a graph: as a table in a file, in a few lines, with doubts."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Mapping, Sequence

import pandas
import torch
from torch_geometric.data import Data

from graphgym_srnc.backbones.features import feature_warnings
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import aligned, clean, counted, listed, short, to_csv
from graphgym_srnc.data.edges import SMALL, component_sizes
from graphgym_srnc.data.labels import PARTS
from graphgym_srnc.train.model import UNKNOWN, Prediction, TrainedModel

LEAST = 10  # labelled nodes from which their accuracy is told
FEW = 100  # nodes below which a mean over them is a rough one


def given_labels(model: TrainedModel, task: ShiftTask) -> list[str]:
    """Class name of each labelled target node, as in the data of the run; "" without a label."""
    return [model.class_names[k] if k >= 0 else "" for k in task.target.y.tolist()]


def split(task: ShiftTask) -> list[str]:
    """What the run used the label of each target node for: train, val, test, or "" for nothing."""
    parts = [""] * task.target.num_nodes
    for part, graph in (("test", task.target), ("val", task.validation), ("train", task.source)):
        for node in getattr(task, part).tolist() if graph is task.target else ():
            parts[node] = part
    return parts


def table(
    model: TrainedModel,
    graph: Data,
    prediction: Prediction,
    ids: Sequence[str] | None,
    given: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
    probabilities: bool = False,
) -> dict[str, list[Any]]:
    """Columns by name, with one value per node; see ``given_labels`` and ``split``."""
    label, posterior = prediction.label, prediction.posterior
    columns: dict[str, list[Any]] = {"node": list(range(len(label)))}
    if ids is not None:
        columns["id"] = list(ids)
    columns["class"] = [model.class_names[k] for k in label.tolist()]
    if given is not None and parts is not None:
        columns |= {"given_label": list(given), "split": list(parts)}
    columns["probability"] = posterior.gather(1, label[:, None])[:, 0].tolist()
    if model.method.task.unknown is not None:
        columns["p_known"] = (1 - posterior[:, -1]).tolist()
    if prediction.cluster is not None:
        columns["gnn_cluster"] = prediction.cluster.tolist()
    columns["component_size"] = component_sizes(graph.edge_index.numpy(), len(label)).tolist()
    for name, p in zip(model.class_names, posterior.T) if probabilities else ():
        columns[f"p_class_{name}" if f"p_{name}" in columns else f"p_{name}"] = p.tolist()
    return columns


def disagreements(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The rows of a ``table`` whose class is not the given label, the most probable first.

    Nodes predicted as unknown follow after the others, and nodes in small components are last.
    """
    frame = pandas.DataFrame(columns).sort_values("probability", ascending=False, kind="stable")
    other = frame[(frame["given_label"] != "") & (frame["given_label"] != frame["class"])]
    order = 2 * (other["component_size"] <= SMALL) + (other["class"] == UNKNOWN)
    return other.loc[order.sort_values(kind="stable").index].to_dict("list")


def on_disagreements(
    columns: Mapping[str, list[Any]], other: Mapping[str, list[Any]], out_of_fold: bool
) -> list[str]:
    """How many given labels of a ``table`` disagree, and the surest; a line each.

    ``other`` are the rows of ``disagreements``, which models told that did not learn these labels
    if ``out_of_fold``.
    """
    labelled = Counter(itertools.compress(columns["split"], columns["given_label"]))
    wrong, unknown = Counter(other["split"]), other["class"].count(UNKNOWN)
    parts = listed([f"{wrong[p]:,} of {n:,} {p or 'unused'}" for p, n in labelled.most_common()])
    who = (
        "Models that were not trained on the label disagree"
        if out_of_fold
        else "The model disagrees"
    )
    text = (
        f"{who} with {wrong.total():,} of {labelled.total():,} given labels"
        f" ({100 * wrong.total() / labelled.total():.1f} %): {parts}."
        f" {unknown:,} of these nodes are predicted as unknown."
        " The label or the model may be wrong."
    )
    if labelled["train"] and not out_of_fold:
        text += " The model has learned the training labels, so wrong ones among them may be"
        text += " missing here. --folds 3 finds more of them."
    return [f"{text} The surest ones are:", *surest(other).splitlines()] if wrong else [text]


def surest(rows: Mapping[str, list[Any]], most: int = 3) -> str:
    """The first rows of :func:`disagreements` as lines of text."""
    shown = (rows.get("id", rows["node"]), rows["given_label"], rows["class"])
    lines = [["  node", "given label", "predicted", "probability"]]
    for number, probability in enumerate(rows["probability"][:most]):
        node, *classes = (short(column[number], 24) for column in shown)
        lines.append([f"  {node}", *classes, f"{probability:.2f}"])
    return aligned(lines).rstrip()


def encode(file: str, columns: dict[str, list[Any]]) -> bytes:
    """Content of a ``.csv`` (four decimals) or ``.parquet`` file, by the suffix of its name."""
    if file.lower().endswith(".parquet"):
        return pandas.DataFrame(columns).to_parquet(None, engine="pyarrow", index=False)
    short = pandas.DataFrame(columns).round(4).astype(object).values.tolist()
    return to_csv([columns, *short]).encode()


def summary(model: TrainedModel, prediction: Prediction, sizes: Sequence[int]) -> str:
    """How many nodes are of each class, how sure the model is, and whose component is small."""
    label, sure = prediction.label, prediction.posterior.amax(1)
    small = torch.tensor(sizes) <= SMALL
    lines = [["class", "nodes", "share", "mean probability"]]
    lines[0] += [f"in components of at most {SMALL} nodes"]
    for k, name in enumerate(model.class_names):
        of_class = sure[label == k]
        mean = f"{float(of_class.mean()):.3f}" if len(of_class) else "-"
        share = f"{100 * len(of_class) / len(label):.1f} %"
        lines.append([clean(name), f"{len(of_class):,}", share, mean])
        lines[-1].append(f"{int((label[small] == k).sum()):,}")
    figures = f"{float(sure.mean()):.3f}", f"{int(small.sum()):,}"
    lines.append(["all", f"{len(label):,}", "", *figures])
    return aligned([line if small.any() else line[:-1] for line in lines]).rstrip("\n")


def notes(
    model: TrainedModel, graph: Data, columns: Mapping[str, list[Any]] | None = None
) -> list[str]:
    """Warnings about nodes with few neighbours, and about features, which this model scales.

    With the ``columns`` of a ``table``, the accuracy of such nodes with a label is measured.
    """
    features = model.method.encoder.features
    found = [text[0].upper() + text[1:] for text in feature_warnings(graph.x, features)]
    sizes = component_sizes(graph.edge_index.numpy(), graph.num_nodes)
    if small := int((sizes <= SMALL).sum()):
        found.append(
            f"The graph has {counted(small, 'node')} in components of at most {SMALL} nodes,"
            f" {int((sizes == 1).sum()):,} without a link. Their predictions use few or no"
            " neighbours and are less reliable."
            + " Their probabilities are too high." * bool(model.method.smoothing)
            + on_small(columns or {})
            + f" Check some of these nodes: {UNKNOWN} is often wrong there."
            * model.method.task.open_set
        )
    if features == "auto" and model.dense and graph.num_nodes < FEW:
        found.append(
            f"The features are centred by the mean of this graph, but {graph.num_nodes} nodes give "
            "a rough mean. Predict on the whole graph that these nodes belong to."
        )
    return found


def on_small(columns: Mapping[str, list[Any]]) -> str:
    """The accuracy of the validation and test nodes in small components, "" if they are few."""
    if "split" not in columns:
        return ""
    frame = pandas.DataFrame(columns)
    held = frame[(frame["component_size"] <= SMALL) & frame["split"].isin(PARTS[1:])]
    if len(held) < LEAST:
        return ""
    right, mean = (held["class"] == held["given_label"]).mean(), held["probability"].mean()
    return (
        f" Of {len(held):,} validation and test nodes among them, {100 * right:.0f} % are right,"
        f" and their mean probability is {100 * mean:.0f} %."
    )

"""``graphgym_srnc.discover``: new classes among the nodes that an estimator calls unknown."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Sequence

import numpy as np
import pandas
import torch
from torch_geometric.data import Data

from graphgym_srnc.api import Estimator
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.data.labels import PARTS
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.io import atomic
from graphgym_srnc.own.discover import clusters, feedback, page, table
from graphgym_srnc.shifts.given import unlabelled


@dataclass(frozen=True, eq=False, repr=False)
class Found:
    """Clusters of a graph. New ones are numbered from 1, the likeliest new class."""

    graph: Data
    clusters: clusters.Discovery
    rows: Sequence[table.Row]  # the clusters in words
    names: Names
    modularity: Mapping[int, float]  # by number of clusters, known classes included
    parts: Mapping[str, torch.Tensor]  # labelled nodes of train, val and test
    y: torch.Tensor  # class numbers of these nodes, [V]

    def __repr__(self) -> str:
        new, known = len(self.clusters.new), len(self.clusters.known)
        return f"Found({new} new clusters, {known} known classes, {len(self.y):,} nodes)"

    def frame(self) -> pandas.DataFrame:
        """A row per new cluster: ``nodes``, ``newness``, ``words`` and ``typical`` ids."""
        ids = self.names.ids or range(len(self.y))
        rows = {
            row.cluster.number: {
                "nodes": len(row.cluster.nodes),
                "newness": row.cluster.newness,
                "words": row.words,
                "typical": [ids[node] for node in row.cluster.nodes[: table.TOP].tolist()],
            }
            for row in self.rows
            if row.cluster.number
        }
        return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("number")

    def html(self, path: str | os.PathLike) -> None:
        """Write a page that works offline, with a map of all nodes."""
        told = self.rows, self.clusters, self.names, self.modularity
        atomic.write_text(Path(path), page.render("New classes", *told, commands={}))

    def labelled(self, names: Mapping[int, str], nodes_per_class: int = 20) -> Data:
        """The graph with labels of typical nodes of the named clusters, for the next ``fit``.

        Args:
            names: class of some new clusters by number, such as ``{1: "rust"}``. Clusters may share
                a class, also a known one.
            nodes_per_class: training nodes from each named cluster; half as many validate.

        Raises:
            InputError: a number or a name is not allowed, or the graph has no training nodes.
        """
        if "train" not in self.parts:
            message = "the graph has no train_mask, so known classes would have no labels"
            raise InputError.plain("graph", message, "Discover in the graph of fit")
        found, graph = self.clusters.named(names), copy.copy(self.graph)
        with renamed({"--name": "names"}):
            feedback.parse_names([f"{k}={name}" for k, name in names.items()], len(found.new))
            graph.y, split = feedback.labels(found, self.parts, self.y, nodes_per_class)
        for part in PARTS:
            graph[f"{part}_mask"] = torch.tensor([own == part for own in split])
        return graph


def discover(model: Estimator, graph: ShiftTask | Data, num_clusters: int = 0) -> Found:
    """Cluster the nodes that a fitted estimator predicts as unknown.

    Args:
        model: a fitted estimator with an unknown class.
        graph: a ``Data`` as for ``predict``, or a ``ShiftTask``, whose target is clustered. Its
            ``ids`` and ``feature_names`` name nodes and words.
        num_clusters: number of clusters, known classes included; 0 = estimated by modularity.

    Returns:
        Clusters with ``frame()``, ``html(path)`` and ``labelled(names)``.

    Raises:
        InputError: the model predicts no node as unknown, or ``num_clusters`` is impossible.
        NotFittedError: the model is not fitted yet.
    """
    task = graph if isinstance(graph, ShiftTask) else None
    given = graph.target if isinstance(graph, ShiftTask) else graph
    posterior, checked = torch.from_numpy(model.predict_proba(given)), unlabelled(given)
    if model.method_.task.unknown is None:
        message = "this model predicts no node as unknown, so there is nothing to discover"
        raise InputError.plain("model", message, "Fit with open_set=True")
    with renamed({"RUN": "model", "--clusters": "num_clusters"}):
        clusters.check(posterior, num_clusters or posterior.size(1))
    parts, y = {}, torch.full((len(posterior),), HIDDEN)
    if task is not None and task.source is task.target:
        parts, y = {part: getattr(task, part).cpu() for part in PARTS}, given.y.cpu()
    for part in PARTS if task is None and given.y is not None else ():
        if (mask := getattr(given, f"{part}_mask", None)) is not None and np.any(np.asarray(mask)):
            _, label, nodes = model._truth(given, nodes=np.asarray(mask) == 1)
            parts[part] = torch.from_numpy(nodes)
            y[parts[part]] = torch.from_numpy(label[nodes])
    classes = (task and task.class_names) or model.classes_
    ids, words = (getattr(given, name, None) for name in ("ids", "feature_names"))
    names = Names(*(texts and [*map(str, texts)] for texts in (ids, None, words)))
    state = clusters.states(checked, posterior)
    modularity = clusters.modularities(checked, posterior, state)
    count = num_clusters or clusters.suggested(modularity)
    found = clusters.find(checked, posterior, count, classes, state)
    rows = table.rows(found, checked, names)
    return Found(given, found, rows, names, modularity, parts, y)

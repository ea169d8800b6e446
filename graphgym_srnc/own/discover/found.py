"""``graphgym_srnc.discover``: new classes among the nodes that an estimator calls unknown."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

import numpy as np
import pandas
import torch
from torch_geometric.data import Data

from graphgym_srnc.api import Estimator
from graphgym_srnc.api.estimator import limited_threads, truth
from graphgym_srnc.api.parameters import typed
from graphgym_srnc.core import text
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
    rows: list[table.Row]  # the clusters in words
    names: Names
    modularity: dict[int, float]  # by number of clusters, known classes included
    parts: dict[str, torch.Tensor]  # labelled nodes of train, val and test
    y: torch.Tensor  # class numbers of these nodes, [V]

    def __repr__(self) -> str:
        new, known = text.counted(len(self.clusters.new), "new cluster"), len(self.clusters.known)
        head = f"{new} beside {known} known classes, in {len(self.y):,} nodes"
        lines = [
            f"  {row.title}: {row.size} nodes, newness {row.figures['newness']},"
            f" {', '.join(row.words[:5]) or 'no typical word'}"
            for row in self.rows[known:]
        ]
        return "\n".join([head, *lines])

    def frame(self) -> pandas.DataFrame:
        """A row per new cluster: ``nodes``, ``newness``, ``words`` and ids of ``typical`` nodes."""
        ids, new = self.names.ids or range(len(self.y)), self.rows[len(self.clusters.known) :]
        typical = [[ids[node] for node in table.shown(row.cluster)] for row in new]
        cells = [(len(row.cluster.nodes), row.cluster.newness, row.words) for row in new]
        frame = pandas.DataFrame(cells, columns=["nodes", "newness", "words"])
        frame.index = pandas.RangeIndex(1, len(new) + 1, name="number")
        return frame.assign(typical=typical)

    def nodes(self) -> pandas.DataFrame:
        """A row per node, by its id or number: ``class`` as predicted, ``cluster`` and others.

        ``cluster`` is the number of a new cluster, or 0 for a known class. The columns are those of
        ``graphgym-srnc discover --nodes`` without positions.
        """
        frame = pandas.DataFrame(table.of_nodes(self.clusters, self.names))
        return frame.set_index("node" if self.names.ids is None else "id")

    def html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that works offline, with a map of all nodes."""
        if not Path(path).absolute().parent.is_dir():
            hint = "Name a file in a folder that exists"
            raise InputError.plain("path", f"{str(path)!r} cannot be written", hint)
        told = self.rows, self.clusters, self.names, self.modularity
        atomic.write_text(Path(path), page.render("New classes", *told, commands={}))

    def labelled(self, names: Mapping[int, str], nodes_per_class: int = 20) -> Data:
        """The graph with labels of typical nodes of some clusters too, for the next ``fit``.

        Args:
            names: class by number of the cluster, such as ``{1: "rust"}``; may be a known class.
            nodes_per_class: training nodes from each named cluster, 1 or more; half as many
                validate, or train if the graph has no ``val_mask``.

        Raises:
            InputError: a number or a name is not allowed, or the graph has no training nodes.
        """
        if not isinstance(names, Mapping):
            hint = "Give the class by number of the cluster, such as {1: 'rust'}"
            raise InputError.plain("names", f"it is a {type(names).__name__}", hint)
        if "train" not in self.parts:
            message = "the graph has no train_mask, so known classes would have no labels"
            raise InputError.plain("graph", message, "Discover in the graph of fit")
        if typed("nodes_per_class", nodes_per_class, int) < 1:
            raise InputError("nodes_per_class", nodes_per_class, "1 or more")
        found, graph = self.clusters.named(names), copy.copy(self.graph)
        with renamed({"--name": "names"}):
            feedback.parse_names([f"{k}={name}" for k, name in names.items()], len(found.new))
            graph.y, split = feedback.labels(found, self.parts, self.y, nodes_per_class)
        if "val" not in self.parts:  # fit then holds out nodes of all classes, old and new
            split = ["train" if own == "val" else own for own in split]
        for part in self.parts:
            graph[f"{part}_mask"] = torch.tensor([own == part for own in split])
        return graph


def discover(model: Estimator, graph: ShiftTask | Data, num_clusters: int = 0) -> Found:
    """Cluster the nodes that a fitted estimator predicts as unknown.

    Args:
        model: a fitted estimator with an unknown class.
        graph: a ``Data`` as for ``predict``, perhaps with ``ids`` and ``feature_names``; or a
            ``ShiftTask``, whose target is clustered.
        num_clusters: number of clusters, known classes included; 0 = estimated by modularity.

    Returns:
        Clusters with ``frame()``, ``nodes()``, ``html(path)`` and ``labelled(names)``.

    Raises:
        InputError: the model predicts no node as unknown, or ``num_clusters`` is impossible.
    """
    if not isinstance(model, Estimator):
        hint = "Give a fitted estimator and then the graph; of OnNodes give its model_"
        raise InputError.plain("model", f"it is a {type(model).__name__}", hint)
    num_clusters = typed("num_clusters", num_clusters, int)
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
        mask = np.asarray(getattr(given, f"{part}_mask", False)) == 1
        if mask.any():
            _, label, nodes = truth(model, given, None, mask)
            parts[part] = torch.from_numpy(nodes)
            y[parts[part]] = torch.from_numpy(label[nodes])
    names = [getattr(given, name, None) for name in ("ids", "feature_names")]
    ids, words = ([*map(str, own)] if own else None for own in names)
    known, called = (task and task.class_names) or model.classes_, Names(ids, None, words)
    with limited_threads(model, checked):
        state = clusters.states(checked, posterior)
        modularity = clusters.modularities(checked, posterior, state)
        count = num_clusters or clusters.suggested(modularity)
        found = clusters.find(checked, posterior, count, known, state)
        rows = table.rows(found, checked, called)
    return Found(given, found, rows, called, modularity, parts, y)

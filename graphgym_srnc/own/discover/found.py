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
from graphgym_srnc.own.discover import feedback, page, table
from graphgym_srnc.own.discover.analysis import Analysis, analyse, labels_given, number_wanted
from graphgym_srnc.own.discover.candidates import Evidence
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.shifts.given import unlabelled


@dataclass(frozen=True, eq=False, repr=False)
class Found:
    """Clusters of a graph. New ones are numbered from 1, the likeliest new class."""

    graph: Data
    analysis: Analysis
    parts: dict[str, torch.Tensor]  # labelled nodes of train, val and test
    y: torch.Tensor  # class numbers of these nodes, [V]

    @property
    def clusters(self) -> Discovery:
        """The clusters."""
        return self.analysis.discovery

    @property
    def rows(self) -> list[table.Row]:
        """The clusters in words."""
        return self.analysis.rows

    @property
    def names(self) -> Names:
        """Names of nodes and feature columns."""
        return self.analysis.names

    def __repr__(self) -> str:
        new, known = text.counted(len(self.clusters.new), "new cluster"), len(self.clusters.known)
        head = f"{new} beside {known} known classes, in {len(self.y):,} nodes"
        lines = [
            f"  {row.title}: {row.size} nodes, newness {row.figures['newness']},"
            f" {', '.join(row.words[:5]) or 'no typical word'}"
            for row in self.analysis.new
        ]
        return "\n".join([head, *self.analysis.lead, *lines])

    def frame(self) -> pandas.DataFrame:
        """A row per new cluster: ``nodes``, ``newness``, ``words`` and ids of ``typical`` nodes."""
        ids, new = self.names.ids or range(len(self.y)), self.analysis.new
        typical = [[ids[shown.node] for shown in row.typical] for row in new]
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
        atomic.write_text(Path(path), page.render("New classes", self.analysis))

    def labelled(self, names: Mapping[int, str], nodes_per_class: int = 20) -> Data:
        """The graph with labels of typical nodes of some clusters too, for the next ``fit``.

        Args:
            names: class by number of the cluster, such as ``{1: "rust"}``; may be a known class.
            nodes_per_class: training nodes from each named cluster, 1 or more; half as many
                validate, or train if the graph has no validation nodes.

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
        for part in self.parts:
            graph[f"{part}_mask"] = torch.tensor([own == part for own in split])
        return graph


def discover(
    model: Estimator, graph: ShiftTask | Data, num_clusters: int = 0, num_new: int = 0
) -> Found:
    """Cluster the nodes that a fitted estimator predicts as unknown, or the least certain ones.

    Args:
        model: a fitted estimator.
        graph: a ``Data`` as for ``predict``, perhaps with ``ids`` and ``feature_names``; or a
            ``ShiftTask``, whose target is clustered.
        num_clusters: number of clusters, known classes included.
        num_new: number of new clusters; 0 = estimated by links, stability and words.

    Returns:
        Clusters with ``frame()``, ``nodes()``, ``html(path)`` and ``labelled(names)``.

    Raises:
        InputError: both numbers are given, or the nodes cannot form so many clusters.
    """
    if not isinstance(model, Estimator):
        hint = "Give a fitted estimator and then the graph; of OnNodes give its model_"
        raise InputError.plain("model", f"it is a {type(model).__name__}", hint)
    num_clusters = typed("num_clusters", num_clusters, int)
    num_new = typed("num_new", num_new, int)
    task = graph if isinstance(graph, ShiftTask) else None
    given = graph.target if isinstance(graph, ShiftTask) else graph
    posterior, checked = torch.from_numpy(model.predict_proba(given)), unlabelled(given)
    parts, y = _labels(model, given, task)
    words = [getattr(given, name, None) for name in ("ids", "feature_names")]
    ids, columns = ([*map(str, own)] if own else None for own in words)
    known = [*((task and task.class_names) or model.classes_)]
    evidence = Evidence.of(model.method_)
    known = known[: posterior.size(1) - evidence.open_set]
    with renamed({"--clusters": "num_clusters", "--new": "num_new"}):
        wanted = number_wanted(num_new, num_clusters, len(known))
        with limited_threads(model, checked):
            found = analyse(
                checked,
                posterior,
                Names(ids, None, columns),
                known,
                evidence,
                labels_given(y.tolist(), known),
                wanted,
            )
    return Found(given, found, parts, y)


def _labels(
    model: Estimator, graph: Data, task: ShiftTask | None
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Labelled nodes of train, val and test in a graph, and their classes ``[V]``."""
    parts, y = {}, torch.full((graph.num_nodes,), HIDDEN)
    if task is not None and task.source is task.target:
        return {part: getattr(task, part).cpu() for part in PARTS}, graph.y.cpu()
    for part in PARTS if task is None and graph.y is not None else ():
        mask = np.asarray(getattr(graph, f"{part}_mask", False)) == 1
        if mask.any():
            _, label, nodes = truth(model, graph, None, mask)
            parts[part] = torch.from_numpy(nodes)
            y[parts[part]] = torch.from_numpy(label[nodes])
    return parts, y

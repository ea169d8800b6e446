"""``graphgym_srnc.discover``: new classes among the nodes that an estimator calls unknown."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import pandas
import torch
from torch_geometric.data import Data

from graphgym_srnc.api import Estimator
from graphgym_srnc.api.estimator import limited_threads, truth
from graphgym_srnc.api.parameters import typed
from graphgym_srnc.core import text
from graphgym_srnc.core.task import CHOSEN_MASK, HIDDEN, ShiftTask
from graphgym_srnc.data.labels import PARTS
from graphgym_srnc.data.names import Names, units_of
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic
from graphgym_srnc.methods.shared.topics import features
from graphgym_srnc.own.discover import feedback, page, table
from graphgym_srnc.own.discover.analysis import Analysis, analyse, known_labels, number_wanted
from graphgym_srnc.own.discover.candidates import Evidence
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.discover.since import Earlier
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

    def __repr__(self) -> str:
        new = text.counted(len(self.clusters.new), "new cluster")
        known = f"{len(self.clusters.known)} known classes"
        lines = []
        for row in self.analysis.new:
            facts = [f"{row.size} nodes", f"newness {row.figures['newness']}", row.few_labels]
            facts.append(", ".join(row.words[:5]) or "no typical word")
            lines.append(f"  {row.title}: {', '.join(filter(None, facts))}")
        lines += [f"  {row.title}: {row.facts}" for row in self.analysis.also]
        head = f"{new} beside {known}, in {len(self.y):,} nodes"
        if self.analysis.changes is not None:
            lines += self.analysis.changes.lines
        return "\n".join([head, *self.analysis.lead, *lines])

    def frame(self) -> pandas.DataFrame:
        """A row per new cluster: ``nodes``, ``newness``, ``words`` and ids of ``typical`` nodes."""
        ids = self.analysis.names.ids or range(len(self.y))
        rows = []
        for row in self.analysis.new:
            cluster = row.cluster
            typical = [ids[shown.node] for shown in row.typical]
            rows.append((cluster.number, len(cluster.nodes), cluster.newness, row.words, typical))
        columns = ["number", "nodes", "newness", "words", "typical"]
        return pandas.DataFrame(rows, columns=columns).set_index("number")

    def nodes(self) -> pandas.DataFrame:
        """A row per node, by its id or number: ``class`` as predicted, ``cluster`` and others.

        ``cluster`` is the number of a new cluster, or 0 for a known class. The columns are those of
        ``graphgym-srnc discover --nodes`` without positions.
        """
        has_ids = self.analysis.names.ids is not None
        return self.analysis.nodes().set_index("id" if has_ids else "node")

    def changes(self) -> pandas.DataFrame:
        """A row per class: its status since an earlier model, counts, shares and their change.

        ``status`` is new, named, grown, shrunk, unchanged or gone. ``change`` is that of the share
        of all nodes, with the 95 % interval from ``low`` to ``high``.

        Raises:
            InputError: ``discover`` was called without ``since``.
        """
        if self.analysis.changes is None:
            raise InputError.plain(
                "since",
                "discover was called without it",
                "Call discover(model, graph, since=(earlier_model, earlier_graph))",
            )
        return self.analysis.changes.table.set_index("name")

    def html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that works offline, with a map of all nodes."""
        if not Path(path).absolute().parent.is_dir():
            raise InputError.plain(
                "path", f"{str(path)!r} cannot be written", "Name a file in a folder that exists"
            )
        atomic.write_text(Path(path), page.render("New classes", self.analysis, {}, {}, []))

    def labelled(self, names: Mapping[Any, str]) -> Data:
        """The graph with labels of nodes of some clusters too, for the next ``fit``.

        Clusters with the name of an earlier class keep it, unless ``names`` gives another one. The
        new labels are those in ``chosen_mask``.

        Args:
            names: class by number of the cluster, of a part or of a group with few labels, such as
                ``{1: "rust", "2a": "go"}``; may be a known class. As large a share of it gets
                labels as of the known classes.

        Raises:
            InputError: a number or a name is not allowed, or the graph has no training nodes.
        """
        if not isinstance(names, Mapping):
            raise InputError.plain(
                "names",
                f"it is a {type(names).__name__}",
                "Give the class by number of the cluster, such as {1: 'rust'}",
            )
        if "train" not in self.parts:
            raise InputError.plain(
                "graph",
                "the graph has no train_mask, so known classes would have no labels",
                "Discover in the graph of fit",
            )
        given = {str(number): name for number, name in names.items()}
        found = self.clusters.named(self.clusters.names | given)
        for number, name in given.items():
            feedback.check_name(str(name).strip(), "names", f"{number}={name}")
        for warning in table.on_named_mixtures(self.analysis.new, given):
            text.warn(warning)
        made = feedback.labels(found, self.parts, self.y)
        for warning in feedback.on_near_names(made, found.classes):
            text.warn(warning)
        graph = copy.copy(self.graph)
        graph.y = made.label
        for part in self.parts:
            graph[f"{part}_mask"] = torch.tensor([own == part for own in made.split])
        before = graph.get(CHOSEN_MASK, torch.zeros(graph.num_nodes, dtype=torch.bool))
        added = torch.tensor(sorted(made.added), dtype=torch.long)
        graph[CHOSEN_MASK] = before.index_fill(0, added, True)
        return graph


def discover(
    model: Estimator,
    graph: ShiftTask | Data,
    num_clusters: int = 0,
    num_new: int = 0,
    since: tuple[Estimator, ShiftTask | Data] | None = None,
) -> Found:
    """Cluster the nodes that a fitted estimator predicts as unknown, or the least certain ones.

    Args:
        model: a fitted estimator.
        graph: a ``Data`` as for ``predict``, perhaps with ``ids`` and ``feature_names``; or a
            ``ShiftTask``, whose target is clustered.
        num_clusters: number of clusters, known classes included.
        num_new: number of new clusters; 0 = estimated by links, stability and words.
        since: an earlier fitted estimator and its graph, to name clusters by its classes and to
            compare classes over time.

    Returns:
        Clusters with ``frame()``, ``nodes()``, ``html(path)`` and ``labelled(names)``, and with
        ``since`` also ``changes()``.

    Raises:
        InputError: both numbers are given, or the nodes cannot form so many clusters.
    """
    _check_model(model, "model")
    num_clusters = typed("num_clusters", num_clusters, int)
    num_new = typed("num_new", num_new, int)
    data = graph.target if isinstance(graph, ShiftTask) else graph
    posterior = torch.from_numpy(model.predict_proba(data))
    checked = unlabelled(data)
    parts, y = _labels(model, graph, data)
    evidence = Evidence.of(model.method_)
    known = _known(model, graph)
    earlier = _earlier(since) if since is not None else None
    wanted = number_wanted(num_new, num_clusters, len(known))
    with limited_threads(model, checked):
        found = analyse(
            checked,
            posterior,
            _names(data),
            known,
            evidence,
            known_labels(parts, y, len(known)),
            wanted,
            earlier=earlier,
        )
    return Found(data, found, parts, y)


def _check_model(model: Any, key: str) -> None:
    """Raise an InputError unless this is an estimator."""
    if not isinstance(model, Estimator):
        raise InputError.plain(
            key,
            f"it is a {type(model).__name__}",
            "Give a fitted estimator and then the graph; of OnNodes give its model_",
        )


def _names(data: Data) -> Names:
    """The ``ids``, ``feature_names`` and ``dates`` of a graph, and units, if it has some."""
    names = ("ids", "feature_names", "dates")
    ids, words, dates = ([*map(str, getattr(data, name, None) or ())] or None for name in names)
    units = units_of(getattr(data, "recipe", None) or {})
    return Names(ids, None, words, units=units, dates=dates)


def _known(model: Estimator, graph: ShiftTask | Data) -> list[Any]:
    """Known classes of an estimator, by the names of the task if it has some."""
    named = isinstance(graph, ShiftTask) and graph.class_names
    return [*(named or model.classes_)][: model.method_.task.num_known]


def _earlier(since: tuple[Estimator, ShiftTask | Data]) -> Earlier:
    """What an earlier estimator predicts for its own graph."""
    if not isinstance(since, tuple) or len(since) != 2:
        raise InputError.plain(
            "since",
            f"it is a {type(since).__name__}",
            "Give a tuple of the earlier estimator and its graph",
        )
    model, graph = since
    _check_model(model, "since")
    then = graph.target if isinstance(graph, ShiftTask) else graph
    return Earlier(
        classes=[*map(str, _known(model, graph))],
        label=torch.from_numpy(model.predict_proba(then)).argmax(1),
        x=features(unlabelled(then)),
        names=_names(then),
    )


def _labels(
    model: Estimator, graph: ShiftTask | Data, data: Data
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Labelled nodes of train, val and test in the ``data`` of a graph, and classes ``[V]``."""
    if isinstance(graph, ShiftTask) and graph.source is data:
        return {part: getattr(graph, part).cpu() for part in PARTS}, data.y.cpu()
    parts: dict[str, torch.Tensor] = {}
    y = torch.full((data.num_nodes,), HIDDEN)
    for part in PARTS if isinstance(graph, Data) and graph.y is not None else ():
        mask = np.asarray(getattr(data, f"{part}_mask", False)) == 1
        if mask.any():
            _, label, nodes = truth(model, data, None, mask)
            parts[part] = torch.from_numpy(nodes)
            y[parts[part]] = torch.from_numpy(label[nodes])
    return parts, y

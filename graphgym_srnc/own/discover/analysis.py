"""The whole analysis of a graph by a model's predictions, which the command and Python show."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import pandas
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core import progress
from graphgym_srnc.core.task import DRAWN_MASK, HIDDEN, covers
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.topics import Matrix, best_topics, features
from graphgym_srnc.own.discover import candidates, clusters, number, since, table, words
from graphgym_srnc.own.discover.candidates import Evidence, Seeds
from graphgym_srnc.own.discover.number import Fit
from graphgym_srnc.own.discover.representation import states

DIVIDED = 3  # more clusters, at most, in place of one that would not be clear


class Analysis(NamedTuple):
    """New clusters of a graph, in figures and in words.

    Args:
        graph: the graph, without features that count parts of words.
        discovery: all clusters.
        rows: the clusters in words.
        names: of nodes and feature columns.
        fits: how well numbers of new clusters fit; empty if these are groups with few labels.
        evidence: what the model says of the unknown class.
        label: known class of each node in the data, ``[V]``; -1 = none.
        changes: of classes since an earlier model, if one was given.
        also: groups of nodes predicted as known classes that may be of a further new class.
        wanted: number of new clusters that the user wants; 0 = as suggested.
    """

    graph: Data
    discovery: clusters.Discovery
    rows: list[table.Row]
    names: Names
    fits: Mapping[int, Fit]
    evidence: Evidence
    label: Tensor
    changes: since.Changes | None = None
    also: Sequence[table.Also] = ()
    wanted: int = 0

    @property
    def new(self) -> list[table.Row]:
        """The new clusters."""
        return [row for row in self.rows if row.cluster.number]

    @property
    def are_leftovers(self) -> bool:
        """Whether there are new clusters, and none of them is likely a class."""
        return bool(self.new) and all(row.leftover for row in self.new)

    @property
    def head(self) -> str:
        """Name of the mean probability of the unknown class, or of its stand-in."""
        return self.discovery.seeds.measure

    @property
    def lead(self) -> list[str]:
        """What to know first: whether there are new classes at all, and how many nodes."""
        told = [table.on_seeds(self.discovery)]
        labelled = (self.label != HIDDEN).nonzero().view(-1)
        is_partial = self.evidence.open_set and not covers(self.graph, labelled)
        sentence = self.evidence.sentence
        if is_partial:
            sentence = table.of_another_time(self.evidence.p_value, self.evidence.is_clear)
        elif sentence and self.evidence.p_value >= 0:
            sentence = table.on_first_group(self.discovery, self.evidence.p_value) or sentence
        if sentence:
            told.insert(int(self.discovery.seeds.predicted), sentence)
        return told + self._on_values()

    def _on_values(self) -> list[str]:
        """A sentence on each value of a category that nearly all nodes of a new cluster share."""
        nodes = [row.cluster.nodes.numpy() for row in self.new]
        found = words.shared_values(features(self.graph), nodes, self.label.numpy(), self.names)
        return [
            table.on_value(row.cluster.number, value, share, labelled)
            for row, values in zip(self.new, found)
            for value, (share, labelled) in values.items()
        ]

    @property
    def suggested(self) -> int:
        """The suggested number of new clusters."""
        return number.suggested(self.fits) if self.fits else len(self.new)

    @property
    def divided(self) -> int:
        """Number of new clusters, some of them clear, that are shown in place of an unclear one; 0
        if as many as suggested or wanted are shown."""
        is_more = not self.wanted and len(self.new) > self.suggested
        return len(self.new) if is_more else 0

    def nodes(self, points: np.ndarray | None = None) -> pandas.DataFrame:
        """``table.of_nodes``, with the classes of then and now if they are compared."""
        columns = {} if self.changes is None else self.changes.columns
        return table.of_nodes(self.discovery, self.names, points).assign(**columns)


def number_wanted(num_new: int, num_clusters: int, num_known: int) -> int:
    """The number of new clusters by one of two options; 0 = to be estimated.

    Raises:
        InputError: both are given, or there are not more clusters than known classes.
    """
    if num_new and num_clusters:
        raise InputError.plain(
            "num_new", "it is given beside the number of all clusters", "Give one of the two"
        )
    if num_clusters and num_clusters <= num_known:
        raise InputError(
            "num_clusters",
            num_clusters,
            f"{num_known + 1} or more, since there are {num_known} known classes",
        )
    return num_new or max(num_clusters - num_known, 0)


def analyse(
    graph: Data,
    posterior: Tensor,
    names: Names,
    classes: Sequence[Any] | np.ndarray,
    evidence: Evidence = Evidence(),
    label: Tensor | None = None,
    num_new: int = 0,
    cluster_names: Mapping[str, str] = MappingProxyType({}),
    earlier: since.Earlier | None = None,
) -> Analysis:
    """Find, measure and describe new clusters.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, or ``[V, N]`` if it has no unknown class.
        names: of nodes and feature columns.
        classes: names of the known classes.
        evidence: what the model says of the unknown class.
        label: known class of each node in the data, ``[V]``; -1 = none (default: no labels).
        num_new: number of new clusters; 0 = as suggested.
        cluster_names: names of new clusters, or their parts, by number.
        earlier: what an earlier model predicts, to compare classes over time.

    Raises:
        InputError: the nodes cannot form so many clusters, or none has such a number.
    """
    graph, names = words.readable_graph(graph, names)
    posterior = candidates.padded(posterior, evidence)
    label = torch.full((len(posterior),), HIDDEN) if label is None else label
    progress.doing("computing node representations", 0.4)
    topics = best_topics(graph, label)
    drawn = graph.get(DRAWN_MASK)
    covered = covers(graph, (label != HIDDEN).nonzero().view(-1))
    seeds = candidates.seeds(topics, posterior, label, evidence, drawn, covered)
    if num_new:
        candidates.check_number(num_new, seeds)
    found, fits = _clustered(graph, posterior, topics, seeds, num_new, [*map(str, classes)])
    also = []
    if seeds.predicted:
        also = candidates.also_possible(topics, posterior, label, len(found.new), drawn)
    x = features(graph)
    described, worded = words.described(x, names)
    new = [replace(one, parts=_parts(one, found.state, described)) for one in found.new]
    found = replace(found, new=new, also=also).named(cluster_names)
    changes = None
    if earlier is not None:
        then, then_names = words.readable(earlier.x, earlier.names)
        earlier = earlier._replace(x=then, names=then_names)
        found, changes = since.compare(found, earlier, x, names)
    progress.doing("describing the clusters", 0.85)
    rows = table.rows(found, x, names)
    in_words = table.also_rows(found.also, described, worded)
    return Analysis(graph, found, rows, names, fits, evidence, label, changes, in_words, num_new)


def _clustered(
    graph: Data,
    posterior: Tensor,
    topics: Tensor,
    seeds: Seeds,
    num_new: int,
    classes: Sequence[str],
) -> tuple[clusters.Discovery, Mapping[int, Fit]]:
    """The clusters, and how well numbers of them fit: groups with few labels, or by k-means."""
    state = states(topics, posterior, seeds.predicted)
    progress.doing("estimating the number of clusters", 0.7)
    if seeds.groups:
        seeds = seeds.first(num_new or seeds.likely)
        made = clusters.of_groups(posterior, seeds)
        return clusters.find(graph, posterior, state, seeds, *made, classes), {}
    fits = number.fits(graph, posterior, state, seeds)

    def found(count: int) -> clusters.Discovery:
        made = clusters.of_means(state, posterior, seeds, count)
        return clusters.find(graph, posterior, state, seeds, *made, classes)

    first = found(num_new or number.suggested(fits))
    if num_new or len(first.new) != 1 or first.new[0].is_clear:
        return first, fits
    # One cluster that is not clear may be of several classes.
    more = [count for count in fits if 1 < count <= 1 + DIVIDED]
    every = [first, *map(found, more)]
    for is_good in (attrgetter("is_clear"), _is_proposed):
        good = [sum(len(new.nodes) for new in one.new if is_good(new)) for one in every]
        if max(good):
            least = (1 - number.EVEN) * max(good)
            return next(one for one, count in zip(every, good) if count >= least), fits
    return first, fits


def _is_proposed(cluster: clusters.Cluster) -> bool:
    """Whether a new cluster is no leftover."""
    return not cluster.weakness


def _parts(cluster: clusters.Cluster, state: Tensor, x: Matrix) -> list[clusters.Part]:
    """The parts of a new cluster, numbered 1a, 1b and so on."""
    small = cluster.nodes[len(cluster.reliable) :]
    return [
        clusters.Part(f"{cluster.number}{letter}", nodes, int(torch.isin(nodes, small).sum()))
        for letter, nodes in zip(ascii_lowercase, number.parts(state, x, cluster.nodes))
    ]


def known_labels(parts: Mapping[str, Tensor], y: Tensor, num_known: int) -> Tensor:
    """Class of each node of the ``parts`` if it is known, otherwise -1, by classes ``[V]``."""
    label = torch.full_like(y, HIDDEN)
    for nodes in parts.values():
        label[nodes] = y[nodes]
    return label.where(label < num_known, HIDDEN)

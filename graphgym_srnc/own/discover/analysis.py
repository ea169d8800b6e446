"""The whole analysis of a graph by a model's predictions, which the command and Python show."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover import candidates, clusters, number, table
from graphgym_srnc.own.discover.candidates import Evidence
from graphgym_srnc.own.discover.number import Fit
from graphgym_srnc.own.discover.representation import features, states


class Analysis(NamedTuple):
    """New clusters of a graph, in figures and in words.

    Args:
        graph: the graph.
        discovery: all clusters.
        rows: the clusters in words.
        names: of nodes and feature columns.
        fits: how well numbers of new clusters fit.
        evidence: what the model says of the unknown class.
        given: class of each node by its label in the data, ``[V]``; "" = none.
    """

    graph: Data
    discovery: clusters.Discovery
    rows: list[table.Row]
    names: Names
    fits: Mapping[int, Fit]
    evidence: Evidence
    given: Sequence[str]

    @property
    def new(self) -> list[table.Row]:
        """The new clusters."""
        return [row for row in self.rows if row.cluster.number]

    @property
    def head(self) -> str:
        """Name of the mean probability of the unknown class, or of its stand-in."""
        return self.discovery.seeds.measure

    @property
    def lead(self) -> list[str]:
        """What to know first: whether there are new classes at all, and how many nodes."""
        told = [self.evidence.sentence, table.on_seeds(self.discovery)]
        return [*filter(None, told if not self.discovery.seeds.predicted else told[::-1])]


def number_wanted(num_new: int, num_clusters: int, num_known: int) -> int:
    """The number of new clusters by one of two options; 0 = to be estimated.

    Raises:
        InputError: both are given, or there are not more clusters than known classes.
    """
    if num_new and num_clusters:
        message = "it is given beside the number of all clusters"
        raise InputError.plain("--new", message, "Give one of the two")
    if num_clusters and num_clusters <= num_known:
        allowed = f"{num_known + 1} or more, since there are {num_known} known classes"
        raise InputError("--clusters", num_clusters, allowed)
    return num_new or max(num_clusters - num_known, 0)


def analyse(
    graph: Data,
    posterior: Tensor,
    names: Names,
    classes: Sequence[Any],
    evidence: Evidence = Evidence(),
    given: Sequence[str] = (),
    num_new: int = 0,
    cluster_names: Callable[[int], Mapping[int, str]] = lambda count: {},
    begin: Callable[[str, float], None] = lambda what, share: None,
) -> Analysis:
    """Find, measure and describe new clusters.

    Args:
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        posterior: of the model, ``[V, N + 1]``, or ``[V, N]`` if it has no unknown class.
        names: of nodes and feature columns.
        classes: names of the known classes.
        evidence: what the model says of the unknown class.
        given: class of each node by its label in the data, "" = none (default: no labels).
        num_new: number of new clusters; 0 = :func:`number.suggested`.
        cluster_names: returns the names of new clusters, by how many there are.
        begin: called at each part with its name and the share of the time that is over after it.

    Raises:
        InputError: the nodes cannot form so many clusters.
    """
    posterior = candidates.padded(posterior, evidence)
    given = [*given] or [""] * len(posterior)
    place = {str(name): k for k, name in enumerate(classes)}
    label = torch.tensor([place.get(name, -1) for name in given])
    begin("computing node representations", 0.4)
    seeds = candidates.seeds(graph, posterior, label, evidence)
    if num_new:
        clusters.check_number(num_new, seeds)
    state = states(graph, posterior, seeds.predicted)
    begin("estimating the number of clusters", 0.7)
    fits = number.fits(graph, posterior, state, seeds)
    found = clusters.find(
        graph, posterior, num_new or number.suggested(fits), classes, state, seeds
    )
    begin("describing the clusters", 0.85)
    x = features(prepare(graph, "none").x)
    parted = [
        clusters.replace(new, parts=tuple(number.parts(state, x, new.nodes))) for new in found.new
    ]
    found = clusters.replace(found, new=parted).named(cluster_names(len(parted)))
    rows = table.rows(found, x, names)
    return Analysis(graph, found, rows, names, fits, evidence, given)


def labels_given(y: Sequence[int] | np.ndarray, classes: Sequence[Any]) -> list[str]:
    """Class names by numbers ``[V]``; "" for numbers that are no known class."""
    return [str(classes[k]) if 0 <= k < len(classes) else "" for k in map(int, y)]

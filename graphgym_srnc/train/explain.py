"""Why a model predicts the class of a node: what the prediction would be with less."""

from __future__ import annotations

import copy
import math
from operator import attrgetter
from typing import NamedTuple, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph, Sparse, prepare
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train.model import TrainedModel

MOST_LINKS = 15  # neighbours that are left out in turn, those with the largest weights first
MOST_WORDS = 15  # features that are left out in turn, the largest first


class Effect(NamedTuple):
    """The probability of the predicted class without a part of the input.

    Args:
        part: number of a neighbour or of a feature; -1 = all links, or all features.
        probability: probability of the class that is predicted with this part.
        label: class that is predicted without it.
    """

    part: int
    probability: float
    label: int


class Explanation(NamedTuple):
    """What a prediction of a node depends on.

    Args:
        label: predicted class.
        posterior: class probabilities, ``[K]``.
        without_features: effect of the node's own features.
        without_links: effect of all its links.
        links: effects of single links, the most important first.
        words: effects of single features, or of those of one number, the most important first.
        neighbours: predicted class of each neighbour, by its number.
        votes: weight, most probable class and its probability by name of each classifier of a
            mixture. The sum of the weights is an inverse temperature.
        steps: probability of the predicted class after each step from the mixture to the final
            probability, by name; those that change it, once there is a score of this class.
    """

    label: int
    posterior: Tensor
    without_features: Effect
    without_links: Effect
    links: list[Effect]
    words: list[Effect]
    neighbours: dict[int, int]
    votes: dict[str, tuple[float, int, float]]
    steps: dict[str, float]


@torch.no_grad()
def explain(
    model: TrainedModel, graph: Data, node: int, together: Sequence[int] | None = None
) -> Explanation:
    """Predict a node of a graph again without its features, its links, and single ones of them.

    The effects of parts do not add up: a node with two good reasons loses little without one.

    Args:
        model: a trained model.
        graph: a ``Data`` with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        node: number of the node.
        together: number of a feature that each feature is made of, ``F`` of them; features with
            the same number are left out together. None = each alone.

    Raises:
        InputError: the graph is invalid, see :meth:`TrainedModel.checked`.

    References:
        Zeiler and Fergus (ECCV 2014): occlusion.
    """
    graph = model.checked(graph)
    prepared = model.method.prepared(graph)
    prepared.adjacency("raw")  # the other operators are made from it
    scores = model.method.predict(graph)
    predicted = model.method.decide(scores)
    posterior = model.method.posterior(scores)[node]
    label = int(predicted[node])
    less = _Less(model.method, graph, prepared, node, label)

    source, target = graph.edge_index
    own = (source == node) | (target == node)
    ends = torch.where(source == node, target, source)
    neighbours = ends[own].unique()
    tried = neighbours
    if graph.edge_weight is not None:
        weight = torch.zeros(graph.num_nodes).index_add(0, ends[own], graph.edge_weight[own])
        tried = neighbours[weight[neighbours].argsort(descending=True, stable=True)]
    links = [less.edges(other, own & (ends == other)) for other in tried[:MOST_LINKS].tolist()]
    row = graph.x[node]
    largest = row.abs().argsort(descending=True, stable=True)[: int(row.count_nonzero())]
    part = largest if together is None else torch.tensor(together)[largest]
    first = [*dict.fromkeys(part.tolist())][:MOST_WORDS]
    words = [less.features(feature, largest[part == feature]) for feature in first]
    return Explanation(
        label,
        posterior,
        less.features(-1, largest),
        less.edges(-1, own),
        sorted(links, key=attrgetter("probability")),
        sorted(words, key=attrgetter("probability")),
        {other: int(predicted[other]) for other in neighbours.tolist()},
        _votes(model, graph, node),
        _steps(model, graph, node, label, float(posterior[label])),
    )


class _Less:
    """Predictions of a node without parts of a checked graph.

    Args:
        method: the trained method.
        graph, prepared: the graph, and what encoders read of it.
        node, label: the node and its predicted class.
    """

    def __init__(self, method: Method, graph: Data, prepared: Graph, node: int, label: int) -> None:
        self.method = method
        self.graph = graph
        self.prepared = prepared
        self.node = node
        self.label = label
        self.x = graph.x.to_sparse() if isinstance(prepared.x, Sparse) else graph.x

    def edges(self, part: int, left_out: Tensor) -> Effect:
        """The effect of some edges, a mask ``[E]``."""
        changed = copy.copy(self.graph)
        changed.edge_index = self.graph.edge_index[:, ~left_out]
        if self.graph.edge_weight is not None:
            changed.edge_weight = self.graph.edge_weight[~left_out]
        return self._effect(part, changed, None)

    def features(self, part: int, left_out: Tensor) -> Effect:
        """The effect of some features of the node, by their numbers."""
        changed = copy.copy(self.graph)
        x = _without(self.x, self.node, left_out)
        changed.x = self.graph.x.scaling.attach(x)
        return self._effect(part, changed, self.prepared)

    def _effect(self, part: int, changed: Data, edges_of: Graph | None) -> Effect:
        # As long as this graph lives, features and operators are prepared once.
        held = prepare(changed, self.method.encoder.features, edges_of)
        held.adjacency("raw")
        scores = self.method.predict(changed)
        p = self.method.posterior(scores)[self.node, self.label]
        return Effect(part, float(p), int(self.method.decide(scores)[self.node]))


def _votes(model: TrainedModel, graph: Data, node: int) -> dict[str, tuple[float, int, float]]:
    """The field ``votes`` of an :class:`Explanation`."""
    votes = {}
    for name, (weight, posterior) in model.method.votes(graph).items():
        best = posterior[node].max(0)
        votes[name] = weight, int(best.indices), float(best.values)
    return votes


def _steps(
    model: TrainedModel, graph: Data, node: int, label: int, final: float
) -> dict[str, float]:
    """The field ``steps`` of an :class:`Explanation`, which ends at the final probability."""
    steps: dict[str, float] = {}
    for name, scores in model.method.stages(graph).items():
        p = float(scores[node].softmax(0)[label]) if label < scores.size(1) else None
        if p is not None and p not in steps.values():
            steps[name] = p
    if steps and not math.isclose(final, [*steps.values()][-1], abs_tol=1e-6):
        threshold = "unknown-class threshold and " if model.method.task.open_set else ""
        steps[f"after {threshold}calibration"] = final
    return steps


def _without(x: Tensor, node: int, features: Tensor) -> Tensor:
    """Features ``[V, F]``, dense or sparse, without some of those of a node."""
    if x.layout == torch.strided:
        changed = x.clone()
        changed[node, features] = 0
        return changed
    place = x.indices()
    kept = (place[0] != node) | ~torch.isin(place[1], features)
    parts = place[:, kept], x.values()[kept]
    return torch.sparse_coo_tensor(*parts, x.shape, is_coalesced=True, check_invariants=False)

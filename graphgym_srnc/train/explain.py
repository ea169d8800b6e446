"""Why a model predicts the class of a node: what the prediction would be with less."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.train.model import TrainedModel

MOST_LINKS = 30  # neighbours that are left out in turn
MOST_WORDS = 30  # features that are left out in turn, the largest first


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
        words: effects of single features, the most important first.
        neighbours: predicted class of each neighbour, by its number.
        votes: weight, most probable class and its probability by name of each classifier of a
            mixture.
    """

    label: int
    posterior: Tensor
    without_features: Effect
    without_links: Effect
    links: list[Effect]
    words: list[Effect]
    neighbours: dict[int, int]
    votes: dict[str, tuple[float, int, float]]


def explain(model: TrainedModel, graph: Data, node: int) -> Explanation:
    """Predict a node of a graph again without its features, its links, and single ones of them.

    The effects of parts do not add up: a node with two good reasons loses little without one.

    Args:
        model: a trained model.
        graph: a ``Data`` with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.
        node: number of the node.

    Raises:
        InputError: the graph is invalid, see :meth:`TrainedModel.checked`.

    References:
        Zeiler and Fergus (ECCV 2014): occlusion.
    """
    prediction = model.predict(graph)
    votes = {}
    for name, (weight, posterior) in model.method.votes(model.checked(graph)).items():
        best = posterior[node].max(0)
        votes[name] = weight, int(best.indices), float(best.values)
    label = int(prediction.label[node])

    def effect(part: int, x: Tensor, edges: Tensor) -> Effect:
        changed = copy.copy(graph)
        changed.x = x
        changed.edge_index = edges
        found = model.predict(changed)
        return Effect(part, float(found.posterior[node, label]), int(found.label[node]))

    x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    source, target = graph.edge_index
    own = (source == node) | (target == node)
    ends = torch.where(source == node, target, source)
    neighbours = ends[own].unique()
    links = []
    for other in neighbours[:MOST_LINKS].tolist():
        kept = graph.edge_index[:, ~(own & (ends == other))]
        links.append(effect(other, x, kept))
    words = []
    for feature in _largest(x[node]):
        words.append(effect(feature, _without(x, node, feature), graph.edge_index))
    return Explanation(
        label,
        prediction.posterior[node],
        effect(-1, _without(x, node, slice(None)), graph.edge_index),
        effect(-1, x, graph.edge_index[:, ~own]),
        sorted(links, key=_probability),
        sorted(words, key=_probability),
        {other: int(prediction.label[other]) for other in neighbours.tolist()},
        votes,
    )


def _largest(values: Tensor) -> list[int]:
    """Positions of the non-zero features ``[F]`` of a node, the largest first."""
    order = values.abs().argsort(descending=True, stable=True)
    return order[: min(MOST_WORDS, int((values != 0).sum()))].tolist()


def _without(x: Tensor, node: int, features: int | slice) -> Tensor:
    """Features ``[V, F]`` with some of those of a node set to 0."""
    changed = x.clone()
    changed[node, features] = 0
    return changed


def _probability(effect: Effect) -> float:
    return effect.probability

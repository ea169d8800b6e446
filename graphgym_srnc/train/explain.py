"""Why a model predicts the class of a node: what the prediction would be with less."""

from __future__ import annotations

import copy
import math
from operator import attrgetter
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.data.cleaning import strided
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
        words: effects of single features, the most important first.
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
    checked = model.checked(graph)
    label = int(prediction.label[node])
    posterior = prediction.posterior[node]

    def effect(part: int, x: Tensor, kept: Tensor) -> Effect:
        changed = copy.copy(graph)
        changed.x = x
        changed.edge_index = graph.edge_index[:, kept]
        if graph.edge_weight is not None:
            changed.edge_weight = graph.edge_weight[kept]
        found = model.predict(changed)
        return Effect(part, float(found.posterior[node, label]), int(found.label[node]))

    x = strided(graph.x)
    source, target = graph.edge_index
    own = (source == node) | (target == node)
    every = torch.ones_like(own)
    ends = torch.where(source == node, target, source)
    neighbours = ends[own].unique()
    tried = neighbours
    if graph.edge_weight is not None:
        weight = torch.zeros(graph.num_nodes).index_add(0, ends[own], graph.edge_weight[own])
        tried = neighbours[weight[neighbours].argsort(descending=True, stable=True)]
    links = [effect(other, x, ~(own & (ends == other))) for other in tried[:MOST_LINKS].tolist()]
    largest = x[node].abs().argsort(descending=True, stable=True)
    largest = largest[: min(MOST_WORDS, int(x[node].count_nonzero()))]
    words = [effect(feature, _without(x, node, feature), every) for feature in largest.tolist()]
    return Explanation(
        label,
        posterior,
        effect(-1, _without(x, node, slice(None)), every),
        effect(-1, x, ~own),
        sorted(links, key=attrgetter("probability")),
        sorted(words, key=attrgetter("probability")),
        {other: int(prediction.label[other]) for other in neighbours.tolist()},
        _votes(model, checked, node),
        _steps(model, checked, node, label, float(posterior[label])),
    )


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


def _without(x: Tensor, node: int, features: int | slice) -> Tensor:
    """Features ``[V, F]`` with some of those of a node set to 0."""
    changed = x.clone()
    changed[node, features] = 0
    return changed

"""The plan of SRNC+, the form of what labels decide, and the statistics behind it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from graphgym_srnc.losses.prior import unknown_evidence

SIGNIFICANT = 0.05  # p-value up to which the sign of an unknown class is clear
TESTS = 3  # of ranks, propensity and groups; Bonferroni's correction multiplies by it
DONE = 0.97  # expected accuracy from which one iteration is enough


class Plan(NamedTuple):
    """What the labels decided, and how far the method is.

    Args:
        finds_unknown: whether nodes may be predicted as unknown.
        unknown_share: share of the unlabelled nodes of one graph that is predicted as unknown, of
            those alone from which labels could be drawn.
        least_share: evidence of unknown nodes, see :func:`unknown_evidence`.
        p_value: p-value of the hypothesis that there are none, by ranks of held-out nodes, label
            propensity and groups with few labels; -1 = not tested.
        is_clear: whether this is a clear sign of unknown nodes, or nothing was tested.
        accuracy: accuracy on held-out nodes of known classes.
        expected: expected accuracy on the unlabelled nodes of one graph that are predicted as known
            classes; -1 = not known.
        precision: expected share of unknown nodes among those predicted as unknown; -1 = not known.
        temperature: temperature of the probabilities of nodes predicted as known classes.
        unknown_temperature: that of nodes predicted as unknown.
        smooths: whether the posterior is smoothed.
        adapts: whether edges seem to join nodes of the same class, so that iterations and the prior
            correction help.
        iteration: number of finished iterations.
        by_propensity: whether nodes are ranked by :class:`Propensity` before the first iteration.
        tested: number of labels that the test used.
        corrects: whether the prior correction is applied.
    """

    finds_unknown: bool
    unknown_share: float = 0.0
    least_share: float = 0.0
    p_value: float = -1.0
    is_clear: bool = True
    accuracy: float = 1.0
    expected: float = -1.0
    precision: float = -1.0
    temperature: float = 1.0
    unknown_temperature: float = 1.0
    smooths: bool = True
    adapts: bool = True
    iteration: int = 0
    by_propensity: bool = False
    tested: int = 0
    corrects: bool = True  # last, since saved models have the values in this order


class Decision(NamedTuple):
    """What labels decide.

    Args:
        plan: the new plan.
        figures: numbers for the record of a run, by name.
        warnings: sentences for the user, by code.
        reported: topics of diagnostics that the decision covers.
        episodes: number of iterations in all; None = as before.
        kept: share of the correctly predicted held-out nodes that are not predicted as unknown,
            ``[]``; None = as before.
        favoured: share of all weights that moves to the classifier on features alone.
    """

    plan: Plan
    figures: dict[str, float]
    warnings: dict[str, str] = {}
    reported: tuple[str, ...] = ()
    episodes: int | None = None
    kept: Tensor | None = None
    favoured: float = 0.0


class Judged(NamedTuple):
    """Held-out nodes of known classes of one graph.

    Args:
        ranks: share of those unlabelled nodes from which labels could be drawn that have lower
            confidence, ``[n]``.
        weight: share of a node's class among the unlabelled nodes, divided by that among labels.
        correct: 1 where the known class is predicted, else 0.
    """

    ranks: Tensor
    weight: Tensor
    correct: Tensor

    def at(self, mask: Tensor) -> Judged:
        """Those where ``mask`` ``[n]`` is true."""
        return Judged._make(value[mask] for value in self)

    def kept(self, rank: float) -> Tensor:
        """Share of the correctly predicted nodes that are not below a rank, ``[]``."""
        is_above = self.ranks >= rank
        return ((self.correct * is_above).sum() / self.correct.sum().clamp(min=1)).cpu()


def promises_more(one: Judged, other: Judged) -> bool:
    """Whether a confidence promises more accuracy than another one.

    It has to do so for both estimates of the share of unknown nodes: with few of them, predicting
    few nodes as unknown seems best, and with many of them many.
    """
    own = unknown_evidence(*one)
    others = unknown_evidence(*other)
    return all(
        _promised(one, own.rank, share) > _promised(other, others.rank, share)
        for share in (own.least_share, others.least_share)
    )


def _promised(judged: Judged, rank: float, share: float) -> float:
    """Expected accuracy with a threshold at a rank, if a share of the nodes are unknown."""
    is_below = (judged.ranks < rank).double()
    below, _ = weighted_mean(is_below, judged.weight)
    kept, _ = weighted_mean(judged.correct * (1 - is_below), judged.weight)
    return min(share, rank - (1 - share) * below) + (1 - share) * kept


def mean_or(values: Tensor, otherwise: float) -> float:
    """The mean of values ``[n]``, or another value if there are none."""
    return float(values.mean()) if len(values) else otherwise


def weighted_mean(values: Tensor, weight: Tensor) -> tuple[float, float]:
    """The mean of values ``[n]`` with weights ``[n]``, and its standard error."""
    weight = weight.double() / weight.sum()
    mean = (weight * values).sum()
    spread = (weight * (values - mean).square()).sum()
    return float(mean), float((spread * weight.square().sum()).sqrt())


def confident_nodes(scores: Tensor, pool: Tensor, share: float) -> Tensor:
    """Nodes ``[n]`` of the pool with the largest margins in each class, at least one per class.

    Args:
        scores: scores of all nodes, ``[V, K]``. The margin is the difference of the largest two.
        pool: ids of the unlabelled nodes.
        share: share of the nodes of each predicted class to choose.
    """
    best = scores[pool].topk(2, 1)
    margin = best.values[:, 0] - best.values[:, 1]
    label = best.indices[:, 0]
    chosen = []
    for members in ((label == k).nonzero().ravel() for k in range(scores.size(1))):
        order = margin[members].argsort(descending=True)
        chosen.append(members[order[: max(1, math.ceil(share * len(order)))]])
    return pool[torch.cat(chosen)]

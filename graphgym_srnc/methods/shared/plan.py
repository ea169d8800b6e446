"""The plan of SRNC+: what labels decide, how warnings say so, and the statistics behind it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from graphgym_srnc.losses.prior import unknown_evidence

SIGNIFICANT = 0.05  # p-value up to which the sign of an unknown class is clear
WEAK = 0.2  # p-value up to which it is weak
TESTS = 3  # of ranks, propensity and groups; Bonferroni's correction multiplies by it
NOT_ADAPTED = {
    True: "SRNC+ did not adapt to the target, since few of its edges seem to join nodes of the same"
    " class (estimated assortativity {:.2f}). Classifiers of the labels alone make the predictions,"
    " with more weight on features.",
    False: "SRNC+ did not adapt to the target, since few edges of the source join nodes of the same"
    " class (assortativity {:.2f}), and features alone cannot tell whether this differs on the"
    " target. Classifiers of the labels alone make the predictions.",
}
"""Warnings if a target is not adapted to, by whether features are reliable."""

NOT_ITERATED = (
    "SRNC+ learned no pseudo-labels, since edges between labelled nodes hardly join nodes of the"
    " same class more often than by chance (assortativity {:.2f}; 1 = always). Classifiers of"
    " features and edges, weighted by held-out labels, make the predictions; you need not do"
    " anything."
)

UNDONE = (
    "SRNC+ predicts as before its iteration {}, since this lowered the expected accuracy (from"
    " {:.1f} to {:.1f} % of the unlabelled nodes that the labels represent)."
)

NO_UNKNOWN = "no unknown class"  # code of the next warning
NO_SIGN = (
    "The labels show {} sign of an unknown class (p = {:.2g}; a clear sign: at most 0.05), so no"
    " node is predicted as unknown."
)
VARIES = 0.5  # p-value up to which another division of the labels may give a clear sign
ON_OTHER_SEEDS = (
    " The p-value depends on how labels are divided at random: on one table it was 0.005 to 0.33"
    " with four seeds."
)
UNUSUAL = 0.05  # least share of the nodes that labels were drawn from below the threshold
UNUSUAL_PRECISION = 0.5
"""Share of these nodes that are of an unknown class: 38, 44, 64 and 72 % in four tables."""
_UNUSUAL = (
    f" Nodes are predicted as unknown if they are less certain than {100 * (1 - UNUSUAL):.0f} % of"
    " the nodes that labels were drawn from. Some may be of known classes that have changed: in"
    " four tables, 38 to 72 % were of classes without labels. So their probability of being"
    f" unknown is set to {100 * UNUSUAL_PRECISION:.0f} % on average."
)
UNUSUAL_OTHERS = (
    "Only {:.0f} % of the unlabelled nodes could have been drawn as labelled ones, such as those of"
    " the same time. These show no clear sign of an unknown class (p = {:.2g}), and the"
    " labels do not test the others." + _UNUSUAL
)
MOST_UNUSUAL = 1 / 3  # share of the other nodes above which classes have changed
DRIFT = (
    "{:.0f} % of the nodes from which no labels were drawn, such as those of another time, are less"
    f" certain than {100 * (1 - UNUSUAL):.0f} % of the others. So classes have changed. New classes"
    " cannot be told from these, so no node is predicted as unknown. Expect a much lower accuracy"
    " there, and label some of these nodes, drawn at random."
)
NOTHING_TO_TEST = (
    "Nearly all nodes that could have been drawn as labelled ones, such as those of the same time,"
    " have labels, so nothing tests for an unknown class." + _UNUSUAL
)
TOO_SMALL = "detectable share"  # code of the next warning
DETECTABLE = (
    "{:,} labels may not show an unknown class that has less than about {:.0f} % of the nodes, nor"
    " a larger one that is much like a known class. If you know that there is one, set"
    " `abstain=False`, or label some of its nodes for validation."
)


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
        return Judged(self.ranks[mask], self.weight[mask], self.correct[mask])


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

"""Classifiers that were each trained without a part of the labels, which they then judge."""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.backbones import Graph
from graphgym_srnc.losses.mixture import log_linear_weights
from graphgym_srnc.losses.prior import black_box_weights, shares_differ
from graphgym_srnc.methods.shared.evidence import Evidence
from graphgym_srnc.methods.shared.validation import (
    OutOfFold,
    calibrated,
    is_better,
    log_likelihood,
)

FOLDS = 5  # number of parts of the labels that are held out in turn
MAX_HELD_OUT = 1500  # held-out labels that suffice: the standard error of a share is 1.3 points
MAX_ON_SOURCE = 100  # the same between two graphs, where labels of the source decide less
CLEAR = 2.0  # standard errors by which a forest must make held-out labels likelier


class Fold(NamedTuple):
    """Classifiers and the labels that they learned and did not learn.

    Args:
        evidence: classifiers that learned ``train``.
        train, labels: labelled nodes and their classes, ``[n - m]``.
        held_out, held_out_labels: the other labelled nodes and their classes, ``[m]``.
    """

    evidence: Evidence
    train: Tensor
    labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor


def cross_fit(
    fit: Callable[[Tensor, Tensor], Evidence],
    train: Tensor,
    labels: Tensor,
    enough: int,
    always: Tensor | None = None,
) -> list[Fold]:
    """Up to five mixtures of classifiers, each trained without a fifth of the labels.

    Args:
        fit: returns classifiers that learned labelled nodes and their classes.
        train, labels: labelled nodes and their classes, ``[n]``.
        enough: number of held-out labels after which no further mixture is trained.
        always: which labels every mixture learns, ``[n]``; None = none.
    """
    made: list[Fold] = []
    fold = folds(labels, FOLDS, always)
    for number in range(FOLDS):
        learned = fold != number
        left = ~learned
        evidence = fit(train[learned], labels[learned])
        made.append(Fold(evidence, train[learned], labels[learned], train[left], labels[left]))
        if ((fold >= 0) & (fold <= number)).sum() >= enough:
            break
    return made


def folds(labels: Tensor, count: int, always: Tensor | None = None) -> Tensor:
    """Fold ``[n]`` of each labelled node, ``0`` to ``count - 1``, at random; -1 where ``always``.

    They are drawn across all labels, as labels were from all nodes: a class that has too many by
    chance would have too many in each fold drawn within classes, and held-out nodes would seem more
    certain than unlabelled ones. Labels that were drawn per class get folds within each class.
    """
    fold = torch.full_like(labels, -1)
    drawn = labels >= 0 if always is None else ~always
    within = torch.where(drawn, labels if drawn_per_class(labels[drawn]) else 0, -1)
    for members in ((within == k).nonzero().ravel() for k in within[drawn].unique()):
        order = members[torch.randperm(len(members), device=labels.device)]
        # Each class starts in another fold, so that small classes do not all share the first.
        fold[order] = (torch.arange(len(order), device=labels.device) + int(members[0])) % count
    return fold


def drawn_per_class(labels: Tensor) -> bool:
    """Whether most classes of labels ``[n]`` have equally many, give or take one."""
    counts = labels.unique(return_counts=True)[1]
    return bool(2 * (counts >= counts.max() - 1).sum() > len(counts))


def ranks_in(pool: Tensor, scores: Tensor) -> Tensor:
    """Share of the scores ``[u]`` of a pool that are below each of other scores ``[m]``."""
    return torch.searchsorted(pool.sort().values, scores) / len(pool)


class HeldOut:
    """Labelled nodes of a graph, judged by mixtures of classifiers that did not learn them.

    Args:
        folds: the classifiers, which all get the same weights.
        graph: the graph.
        num_known: number of known classes :math:`N`.

    Attributes:
        weight: weights of the mixture with the largest likelihood, ``[M]``, that of a forest only
            if it is clearly of use.
        labels: classes of all held-out nodes, ``[m]``, in the order of the folds.
        parts: log posteriors of the held-out nodes by each classifier, ``[M, m, N]``.
        log_p: log posteriors of all nodes by each fold, ``[V, N]``.
    """

    def __init__(self, folds: Sequence[Fold], graph: Graph, num_known: int) -> None:
        self.folds = folds
        self.num_known = num_known
        self.labels = torch.cat([fold.held_out_labels for fold in folds])
        parts = [fold.evidence.log_posteriors(graph, num_known) for fold in folds]
        self.parts = torch.cat([part[:, fold.held_out] for part, fold in zip(parts, folds)], 1)
        self.weight = _weights(self.parts, self.labels, folds[0].evidence.with_forest)
        for fold in folds:
            fold.evidence.weight.copy_(self.weight)
        self.log_p = [fold.evidence.log_posterior(graph, num_known) for fold in folds]

    def held_out(self, values: Sequence[Tensor]) -> Tensor:
        """Rows of the held-out nodes, ``[m, ...]``, of values of all nodes by each fold."""
        return torch.cat([value[fold.held_out] for value, fold in zip(values, self.folds)])

    def correct(self, log_p: Sequence[Tensor]) -> Tensor:
        """1 where log posteriors ``[V, N]`` of each fold predict a held-out label, else 0."""
        return (self.held_out(log_p).argmax(1) == self.labels).float()

    def out_of_fold(self, log_p: Sequence[Tensor]) -> OutOfFold:
        """Predictions of the held-out nodes, from log posteriors ``[V, N]`` of each fold.

        They are :func:`calibrated`: the mixture alone nearly is, but smoothing flattens it.
        """
        sizes = torch.tensor([len(fold.held_out) for fold in self.folds])
        return OutOfFold(
            torch.cat([fold.held_out for fold in self.folds]),
            self.labels,
            torch.arange(len(sizes)).repeat_interleave(sizes).to(self.labels.device),
            calibrated(self.held_out(log_p), self.labels),
            torch.tensor(1.0),
            self._right(0),
            self._right(-1) if self.folds[0].evidence.with_forest else None,
        )

    def _right(self, number: int) -> Tensor:
        """1 where one classifier predicts a held-out label, else 0, ``[m]``."""
        return (self.parts[number].argmax(1) == self.labels).float()

    def ranks(
        self, scores: Sequence[Tensor], pool: Tensor, classes: Tensor | None = None
    ) -> Tensor:
        """Share of the pool with a lower score than each held-out node, ``[m]``.

        Of the pool, only nodes that are predicted as one of some ``classes`` count, if given.
        """
        found = []
        for score, log_p, fold in zip(scores, self.log_p, self.folds):
            others = score[pool]
            if classes is not None:
                others = others[torch.isin(log_p[pool].argmax(1), classes)]
            found.append(ranks_in(others, score[fold.held_out]))
        return torch.cat(found)

    def class_ratios(self, pool: Tensor) -> Tensor:
        """Share of each class in the pool, divided by that among labels, ``[N]``.

        It is 1 unless labels were drawn per class, and the predicted shares of classes differ
        significantly between the pool and held-out nodes.
        """
        ones = torch.ones(self.num_known, device=pool.device)
        if not drawn_per_class(self.labels):
            return ones
        predicted = self.held_out(self.log_p).argmax(1)
        in_pool = torch.cat([log_p[pool].argmax(1) for log_p in self.log_p])
        shares = in_pool.bincount(minlength=self.num_known) / len(in_pool)
        confusion = ones.new_zeros(self.num_known, self.num_known)
        one = ones.new_ones(len(self.labels))
        confusion.index_put_((predicted, self.labels), one, accumulate=True)
        if not shares_differ(confusion, shares):
            return ones
        ratio = black_box_weights(confusion / len(self.labels), shares)
        return ratio.clamp(min=1e-12)  # their sum is a divisor


def _weights(parts: Tensor, labels: Tensor, with_forest: bool) -> Tensor:
    """Weights ``[M]`` of classifiers; 0 of a forest, the last one, unless it is clearly of use.

    Where a forest is of no use, its small weight would still blur the ranking of unknown nodes.
    """
    every = log_linear_weights(parts, labels)
    if not with_forest:
        return every
    others = log_linear_weights(parts[:-1], labels)
    with_it = calibrated(torch.tensordot(every, parts, 1), labels)
    without = calibrated(torch.tensordot(others, parts[:-1], 1), labels)
    likelier = log_likelihood(with_it, labels)
    likely = log_likelihood(without, labels)
    return every if is_better(likelier, likely, errors=CLEAR) else F.pad(others, (0, 1))

"""Whether labelled nodes differ from unlabelled ones, a sign of unknown classes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from graphgym_srnc.backbones.sign import HOPS
from graphgym_srnc.methods.shared.cross_fit import ranks_in

RIDGES = (0.1, 1.0, 10.0)  # penalties, in multiples of the mean variance of a feature
DRAWS = 499  # random sets of labelled nodes; the smallest p-value is 1 / (DRAWS + 1)
TOGETHER = 50  # sets that are compared at once
SAMPLE = 10_000  # unlabelled nodes that suffice
CHUNK = 100_000  # nodes whose scores are computed at once
TINY = 1e-12  # variance of a feature that is constant


class Propensity(nn.Module):
    r"""A linear score of nodes that is low where few nodes have labels.

    .. math:: s_i = w^T (x_i - \bar x)

    :math:`w` is the direction that :class:`Contrast` found, times a scale.
    """

    direction: Tensor
    offset: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("direction", torch.zeros(width))
        self.register_buffer("offset", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Scores ``[V]`` of nodes with hop features ``[V, D]``, which may have half precision."""
        parts = [part.to(self.direction.dtype) @ self.direction for part in x.split(CHUNK)]
        return torch.cat(parts) - self.offset


class Axes(NamedTuple):
    """Principal axes of nodes.

    Args:
        center: mean of the features, ``[d]``.
        vectors: the axes, ``[d, d]``.
        variance: variance along each axis, ``[d]``.
        x: coordinates of the nodes, ``[R, d]``.
    """

    center: Tensor
    vectors: Tensor
    variance: Tensor
    x: Tensor


class Choice(NamedTuple):
    """Axes, and the inverse of the penalised variance along each, ``[d]``."""

    axes: Axes
    inverse: Tensor


class Contrast:
    r"""Labelled nodes against unlabelled ones, by their features or by their hop features.

    Labels are drawn at random from nodes of known classes, so the mean features of labelled and of
    unlabelled nodes, :math:`\mu_1` and :math:`\mu_0`, differ only if some nodes are of an unknown
    class. The statistic compares them along the direction :math:`w` of the linear discriminant:

    .. math:: t = \frac{\|\mu_1 - \mu_0\|_K^2 - b}{\sqrt{w^T C w}}, \quad
        w = K (\mu_1 - \mu_0), \quad K = (C + \lambda I)^{-1}

    :math:`C` is the covariance of all nodes, and :math:`b` the bias of the squared norm, which
    pairs of a node with itself cause. Features or hop features and :math:`\lambda` are those with
    the largest :math:`t`.

    Args:
        x: hop features of all nodes, ``[V, D]``.
        labelled: labelled nodes, ``[n]``.
        weight: weight of each label, ``[n]``; 0 = it counts neither as labelled nor as unlabelled.
        pool: unlabelled nodes.
        spread: standard deviation of the scores of unlabelled nodes by a fitted model.

    References:
        Harchaoui, Bach and Moulines, "Testing for Homogeneity with Kernel Fisher Discriminant
        Analysis", NeurIPS 2007; Elkan and Noto, "Learning Classifiers from Only Positive and
        Unlabeled Data", KDD 2008.
    """

    def __init__(
        self, x: Tensor, labelled: Tensor, weight: Tensor, pool: Tensor, spread: float = 1.0
    ) -> None:
        self.spread = spread
        pool = pool[:: 1 + len(pool) // SAMPLE]
        nodes = torch.cat([labelled[weight > 0], pool])
        self.place = torch.full((len(x),), -1, device=x.device)
        self.place[nodes] = torch.arange(len(nodes), device=x.device)
        self.weight = torch.zeros(len(nodes), device=x.device)
        self.weight[: len(nodes) - len(pool)] = weight[weight > 0]
        self.is_pool = self.weight == 0
        own = x[nodes].float()
        axes = [_axes(own[:, :width]) for width in (x.size(1) // (1 + HOPS), x.size(1))]
        self.choices = [
            Choice(one, 1 / (one.variance + ridge * one.variance.mean()).clamp(min=TINY))
            for one in axes
            for ridge in RIDGES
        ]

    def p_value(self) -> float:
        """p-value of the hypothesis that labels are drawn at random from all nodes.

        It is the share of random sets of as many nodes with at least as large a statistic.
        """
        labels = self.weight[~self.is_pool]
        if not len(labels) or self.is_pool.sum() < 2:
            return 1.0
        generator = torch.Generator().manual_seed(0)
        found = self._statistics(self.weight[None], self.is_pool[None]).max()
        count = 1
        for draws in torch.arange(DRAWS).split(TOGETHER):
            order = torch.rand(len(draws), len(self.weight), generator=generator)
            drawn = order.topk(len(labels)).indices.to(labels.device)
            weight = labels.new_zeros(order.shape)
            weight.scatter_(1, drawn, labels.expand(len(draws), -1))
            count += int((self._statistics(weight, weight == 0).amax(0) >= found).sum())
        return count / (1 + DRAWS)

    def fit(self, model: Propensity, left_out: Tensor) -> None:
        """Set the direction of a model, without the labels of some nodes ``[m]``."""
        weight = self._without(left_out)
        axes, inverse = self._best(weight)
        way = inverse * self._difference(axes, weight)
        way = self.spread / (axes.x[self.is_pool] @ way).std().clamp(min=TINY) * way
        width = len(way)
        model.direction.zero_()
        model.direction[:width] = axes.vectors @ way
        model.offset.copy_(axes.center @ model.direction[:width])

    def ranks(self, left_out: Tensor) -> Tensor:
        """Share of unlabelled nodes with a lower score than each of some labelled nodes, ``[m]``.

        No score depends on whether the node itself has a label, so without an unknown class they
        are uniform.
        """
        weight = self._without(left_out)
        axes, inverse = self._best(weight)
        pool = axes.x[self.is_pool]
        score = axes.x @ (inverse * self._difference(axes, weight))
        # The mean of the other unlabelled nodes, for each of these.
        own = (pool * (pool - pool.mean(0))) @ inverse / (len(pool) - 1)
        return ranks_in(score[self.is_pool] + own, score[self.place[left_out]])

    def _without(self, left_out: Tensor) -> Tensor:
        """Weights of labels ``[R]`` without those of some nodes."""
        weight = self.weight.clone()
        place = self.place[left_out]
        weight[place[place >= 0]] = 0
        return weight

    def _best(self, weight: Tensor) -> Choice:
        """The choice with the largest statistic for labels with weights ``[R]``."""
        found = self._statistics(weight[None], self.is_pool[None])[:, 0]
        return self.choices[int(found.argmax())]

    def _difference(self, axes: Axes, weight: Tensor) -> Tensor:
        """Difference of the means of labelled and of unlabelled nodes along each axis, ``[d]``."""
        return weight @ axes.x / weight.sum() - axes.x[self.is_pool].mean(0)

    def _statistics(self, weight: Tensor, is_pool: Tensor) -> Tensor:
        """The statistic of each choice for sets of labels.

        Args:
            weight: of the labels of each set, ``[B, R]``.
            is_pool: which nodes are unlabelled beside each set, ``[B, R]``.
        """
        shares = [part / part.sum(1, keepdim=True) for part in (weight, is_pool.to(weight))]
        found = []
        means: list[Tensor] = []
        for number, (axes, inverse) in enumerate(self.choices):
            if number % len(RIDGES) == 0:
                means = [share @ axes.x for share in shares]
            own = axes.x.square() @ inverse
            norms = [_norm(*both, inverse, own) for both in zip(means, shares)]
            product = (means[0] * means[1]) @ inverse
            spread = ((means[0] - means[1]) * inverse).square() @ axes.variance
            found.append((sum(norms) - 2 * product) / spread.clamp(min=TINY).sqrt())
        return torch.stack(found)


def _axes(x: Tensor) -> Axes:
    """Principal axes of nodes with features ``[R, d]``."""
    center = x.mean(0)
    x = x - center
    # In double precision, so that small variances keep their sign.
    variance, vectors = torch.linalg.eigh((x.T @ x).double() / len(x))
    vectors = vectors.to(x)
    return Axes(center, vectors, variance.clamp(min=0).to(x), x @ vectors)


def _norm(mean: Tensor, share: Tensor, inverse: Tensor, own: Tensor) -> Tensor:
    """Unbiased squared norms ``[B]`` of means ``[B, d]``, without pairs of a node with itself.

    Args:
        mean: means of sets of nodes.
        share: share of each node in them, ``[B, R]``.
        inverse: weight of each axis, ``[d]``.
        own: squared norm of each node, ``[R]``.
    """
    square = share.square()
    pairs = mean.square() @ inverse - square @ own
    return pairs / (1 - square.sum(1)).clamp(min=TINY)

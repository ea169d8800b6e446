"""A classifier of features alone, which tests whether the edges of a target join equal classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graphgym_srnc import backbones
from graphgym_srnc.backbones import EncoderSpec, Graph
from graphgym_srnc.losses.modularity import assortativity, label_assortativity
from graphgym_srnc.losses.prior import posterior_correlation
from graphgym_srnc.methods.shared import training
from graphgym_srnc.methods.shared.training import MakeOptimizer, Term

HELD_OUT = 5  # one label of each class in this number is held out to measure the reliability
MIN_RELIABILITY = 0.3  # minimum correlation of the posterior with the classes


class FeaturesOnly(nn.Module):
    """An MLP on the features of nodes.

    Args:
        spec: specification of the method's encoder, whose width it has.
        in_dim: number of features.
        num_known: number of known classes :math:`N`.
        batch_size: ``batch_size`` of the method.
    """

    def __init__(self, spec: EncoderSpec, in_dim: int, num_known: int, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        # The weights of the method must not depend on whether this classifier exists.
        with torch.random.fork_rng(devices=[]):
            self.encoder = backbones.build(backbones.own(spec, "mlp"), in_dim, num_known)

    def fit(
        self, graph: Graph, train: Tensor, labels: Tensor, steps: int, make_optimizer: MakeOptimizer
    ) -> float:
        """Learn four fifths of the labels ``[n]`` of a graph, and return the reliability.

        This is the correlation of the posterior with the true class on the other labelled nodes.
        """
        held_out = folds(labels, HELD_OUT) == 0
        optimizer = make_optimizer(self.encoder.parameters())
        terms = [Term("features_only", graph, train[~held_out], labels[~held_out])]
        training.fit_terms(self.encoder, optimizer, terms, steps, self.batch_size)
        p = self.log_posterior(graph)[train[held_out]].exp()
        return posterior_correlation(p, labels[held_out])

    def log_posterior(self, graph: Graph) -> Tensor:
        """Log posteriors of all nodes of a graph, ``[V, N]``."""
        return training.all_logits(self.encoder, graph, self.batch_size).log_softmax(1)

    def assortativity(
        self, target: Graph, source: Graph, train: Tensor, labels: Tensor, *rest: Any
    ) -> tuple[float, float]:
        """Learn the labels, and estimate the assortativity of the classes of the target.

        If features alone are unreliable, the result is that of the labels of the source.

        Args:
            target: the graph without labels.
            source, train, labels, rest: the arguments of :meth:`fit`.

        Returns:
            The assortativity, and the reliability of the features.
        """
        reliability = self.fit(source, train, labels, *rest)
        if reliability < MIN_RELIABILITY:
            label = torch.full_like(source.data.y, -1).index_copy(0, train, labels)
            return label_assortativity(source.data.edge_index, source.degree, label), reliability
        p = self.log_posterior(target).exp()
        adjacency = target.adjacency("raw")
        return assortativity(p, adjacency, target.degree, reliability), reliability


def folds(labels: Tensor, count: int) -> Tensor:
    """Fold ``[n]`` of each labelled node, ``0`` to ``count - 1``, drawn within each class."""
    fold = torch.empty_like(labels)
    for members in ((labels == k).nonzero().ravel() for k in labels.unique()):
        order = members[torch.randperm(len(members), device=labels.device)]
        # Each class starts in another fold, so that small classes do not all share the first.
        fold[order] = (torch.arange(len(order), device=labels.device) + int(members[0])) % count
    return fold

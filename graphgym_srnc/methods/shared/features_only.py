"""A classifier of features alone, which says whether the edges of a target join equal classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graphgym_srnc import backbones
from graphgym_srnc.backbones import EncoderSpec, Graph
from graphgym_srnc.losses.modularity import assortativity, label_assortativity
from graphgym_srnc.losses.prior import posterior_correlation
from graphgym_srnc.methods.shared import training
from graphgym_srnc.methods.shared.training import MakeOptimizer, Part

HELD_OUT = 5  # one label of each class in this number is held out to measure the reliability

RELIABLE, ASSORTATIVE = 0.3, 0.2
"""Minimum correlation of the MLP with the classes, and minimum assortativity to adapt to it."""

NOT_ADAPTED = {
    True: "SRNC+ did not adapt to the target, since few of its edges seem to join nodes of the same"
    " class (estimated assortativity {:.2f}). A weighted mean of a plain GNN and an MLP makes the"
    " predictions.",
    False: "SRNC+ did not adapt to the target, since few edges of the source join nodes of the same"
    " class (assortativity {:.2f}), and features alone cannot tell whether this differs on the"
    " target. The plain GNN makes the predictions.",
}
"""Warnings if a target is not adapted to, by whether features are reliable."""


class Judgement(NamedTuple):
    """Whether the edges of a target support adaptation.

    Args:
        adapts: whether they seem to join nodes of the same class.
        features_weight: weight of the MLP in the mean with the plain classifier.
        figures: reliability and assortativity.
        warning: reason not to adapt.
    """

    adapts: bool
    features_weight: float
    figures: dict[str, float]
    warning: str


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
        spec = replace(spec, kind="mlp", make=None, base=None)
        # The weights of the method must not depend on whether this classifier exists.
        with torch.random.fork_rng(devices=[]):
            self.encoder = backbones.build(spec, in_dim, num_known)

    def learn(
        self,
        graph: Graph,
        train: Tensor,
        labels: Tensor,
        steps: int,
        make_optimizer: MakeOptimizer,
    ) -> float:
        """Learn four fifths of the labels, and return the reliability on the others.

        Args:
            graph: the graph of the labels.
            train, labels: labelled nodes and their classes, ``[n]``.
            steps: number of gradient steps.
            make_optimizer: function that makes the optimiser.

        Returns:
            The correlation of the posterior with the true class.
        """
        part = folds(labels, HELD_OUT)
        kept, rest = part > 0, part == 0
        optimizer = make_optimizer(self.encoder.parameters())
        parts = [Part("features_only", graph, train[kept], labels[kept])]
        training.fit_parts(self.encoder, optimizer, parts, steps, self.batch_size)
        return posterior_correlation(self.log_posterior(graph)[train[rest]].exp(), labels[rest])

    def log_posterior(self, graph: Graph) -> Tensor:
        """Log posteriors of all nodes of a graph, ``[V, N]``."""
        return training.all_logits(self.encoder, graph, self.batch_size).log_softmax(1)

    def judge(
        self, target: Graph, source: Graph, train: Tensor, labels: Tensor, *rest: Any
    ) -> Judgement:
        """Learn the labels, and judge the edges of the target, or those of the source.

        The latter are judged by their labels, if features alone are unreliable. The weight of the
        MLP falls from a half at assortativity 0 to nothing where the method adapts.

        Args:
            target: the graph without labels.
            source, train, labels, rest: the arguments of :meth:`learn`.
        """
        found = self.learn(source, train, labels, *rest)
        reliable = found >= RELIABLE
        if reliable:
            homophily = self.assortativity(target, found)
        else:
            edges = source.data.edge_index
            homophily = label_assortativity(edges, source.degree, train, labels)
        weight = min(max(1 - homophily / ASSORTATIVE, 0.0), 1.0) / 2
        return Judgement(
            adapts=homophily >= ASSORTATIVE,
            features_weight=weight if reliable else 0.0,
            figures={"features_reliability": found, "assortativity": homophily},
            warning=NOT_ADAPTED[reliable].format(homophily),
        )

    def assortativity(self, graph: Graph, reliability: float) -> float:
        """Estimated assortativity of the classes of a graph whose labels are not known."""
        p = self.log_posterior(graph).exp()
        return assortativity(p, graph.adjacency("raw"), graph.degree, reliability)


def folds(labels: Tensor, count: int) -> Tensor:
    """Fold ``[n]`` of each labelled node, ``0`` to ``count - 1``, drawn within each class."""
    fold = torch.empty_like(labels)
    for members in ((labels == k).nonzero().ravel() for k in labels.unique()):
        order = members[torch.randperm(len(members), device=labels.device)]
        # Each class starts in another fold, so that small classes do not all share the first.
        fold[order] = (torch.arange(len(order), device=labels.device) + int(members[0])) % count
    return fold

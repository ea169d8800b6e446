"""Confidence that a node is of a known class, before there is a model of the unknown class."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphgym_srnc.backbones import EncoderSpec, Graph, prepare
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN
from graphgym_srnc.methods.shared.cross_fit import HeldOut
from graphgym_srnc.methods.shared.label_density import LabelDensity

PROPAGATION = 10  # propagation steps of log-odds
MIN_ERROR = 1e-6  # minimum probability of an error in log-odds


class FirstScores(nn.Module):
    r"""The sum of propagated log-odds and weighted label density.

    .. math:: s_i = \text{propagate}\left(\log \frac{p_i}{1 - p_i}\right) + w\, d_i

    :math:`p_i` is the probability of the best known class if all classes had equally many labels,
    and :math:`d_i` the :class:`LabelDensity`.

    Args:
        spec: encoder specification of the cluster GNNs of the label density.
        sizes: the other arguments of :class:`LabelDensity`, with the number of known classes first.
        weight: :math:`w`; 0 = log-odds alone.
    """

    frequency: Tensor
    communities: Tensor

    def __init__(self, spec: EncoderSpec, num_known: int, *sizes: Any, weight: float) -> None:
        super().__init__()
        self.features = spec.features
        self.weight = weight
        self.register_buffer("frequency", torch.ones(num_known))
        self.register_buffer("communities", torch.tensor(False))
        self.density = LabelDensity(spec, *sizes)

    def find_communities(self, clusters: Sequence[ClusterGNN]) -> None:
        """Train cluster GNNs on modularity alone, and use their label density, if there are any."""
        self.density.fit(clusters)
        self.communities.fill_(bool(clusters))

    def posteriors(self, graph: Data) -> list[Tensor]:
        """Posteriors over communities of all nodes of a graph; empty without communities."""
        return self.density.posteriors(prepare(graph, self.features)) if self.communities else []

    def count_labels(
        self, posteriors: list[Tensor], logits: Tensor, train: Tensor, labels: Tensor
    ) -> None:
        """Count the labels ``[n]`` of classes and, by :meth:`posteriors`, those of communities.

        ``logits`` are those of the known classes on the target, ``[V, N]``.
        """
        # A fold of the labels may lack a class.
        counts = labels.bincount(minlength=len(self.frequency)).clamp(min=1)
        self.frequency.copy_(counts / counts.max())
        if posteriors:
            self.density.count(posteriors, logits.softmax(1), train, labels)

    def of_folds(self, held_out: HeldOut, graph: Graph) -> list[Tensor]:
        """Scores ``[V]`` of the nodes of a graph, by the classifiers and labels of each fold."""
        posteriors = self.posteriors(graph.data)
        scores = []
        for fold, log_p in zip(held_out.folds, held_out.log_p):
            logits = log_p / held_out.weight.sum()
            self.count_labels(posteriors, logits, fold.train, fold.labels)
            scores.append(self(logits, graph, posteriors))
        return scores

    @torch.no_grad()
    def forward(self, logits: Tensor, graph: Graph, posteriors: list[Tensor]) -> Tensor:
        """Scores ``[V]`` of the nodes of a graph, from logits of the known classes ``[V, N]``."""
        best = (logits - self.frequency.log()).log_softmax(1).amax(1, keepdim=True)
        score = propagated(best - (-best.expm1()).clamp(min=MIN_ERROR).log(), graph)[:, 0]
        if posteriors:
            score = score + self.weight * self.density(posteriors)
        return score


def with_unknown(logits: Tensor, score: Tensor) -> Tensor:
    """Scores of classes ``[V, N + 1]`` from logits of the known classes and a score of nodes.

    Args:
        logits: of the known classes, ``[V, N]``.
        score: confidence that a node is of a known class, ``[V]``; minus it is that of the unknown
            class.
    """
    log_p = logits.log_softmax(1)
    return torch.cat([log_p - log_p.amax(1, keepdim=True), -score[:, None]], 1)


def propagated(score: Tensor, graph: Graph) -> Tensor:
    """Scores ``[V, 1]`` averaged repeatedly over neighbours, with restart 0.1."""
    adjacency = graph.adjacency("gcn")
    result = score
    weight = adjacency @ torch.ones_like(score)
    for _ in range(PROPAGATION):
        result = 0.9 * (adjacency @ result) / weight + 0.1 * score
    return result

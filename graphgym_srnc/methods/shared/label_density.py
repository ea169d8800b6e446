"""Label density of graph communities, an indicator of unknown classes."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor, nn

from graphgym_srnc.backbones import EncoderSpec, Graph
from graphgym_srnc.losses.prior import expected_labels
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, Clusters

RESOLUTIONS = (1.0, 2.0)
"""Resolutions of the cluster GNNs, in multiples of the method's.

Coarse communities have more labels to count, fine ones have fewer classes.
"""

STEPS = 100  # gradient steps of a cluster GNN


class LabelDensity(nn.Module):
    r"""Label density of graph communities, an indicator of unknown classes.

    Labels are drawn from nodes of known classes, so communities of unknown nodes have few of them.
    With a cluster GNN :math:`Q_{ic}` trained on modularity alone and the classifier's posterior
    :math:`P_{ik}` over the known classes, the log density of a node is

    .. math:: \sum_c Q_{ic} \log \frac{1 + \sum_{j \in D^s} Q_{jc}}{1 + \sum_j Q_{jc} e_j}

    where :math:`e_j` is the expected number of labels of a node, see :func:`expected_labels`. The
    result is the mean over the cluster GNNs. It is near 0 where labels are as dense as elsewhere
    and negative where they are missing. The labels of each class are assumed to be drawn at random
    from its nodes.

    The arguments are those of :class:`Clusters`.

    References:
        Elkan and Noto, "Learning Classifiers from Only Positive and Unlabeled Data", KDD 2008.
    """

    clusters: Any  # a list of Clusters
    log_density: Tensor

    def __init__(self, spec: EncoderSpec, in_dim: int, num_clusters: int, *sizes: int) -> None:
        super().__init__()
        clusters = (Clusters(spec, in_dim, num_clusters, *sizes) for _ in RESOLUTIONS)
        self.clusters = nn.ModuleList(clusters)
        self.register_buffer("log_density", torch.zeros(len(RESOLUTIONS), num_clusters))

    def fit(self, clusters: Sequence[ClusterGNN]) -> None:
        """Train a cluster GNN on modularity alone for each of :data:`RESOLUTIONS`, and copy it."""
        for own, cluster in zip(self.clusters, clusters):
            cluster.pretrain(STEPS)
            own.load_state_dict(cluster.state_dict())

    def posteriors(self, graph: Graph) -> list[Tensor]:
        """Posteriors over communities ``[V, C]`` of all nodes of a graph, by each cluster GNN."""
        return [member.log_posterior(graph).exp() for member in self.clusters]

    @torch.no_grad()
    def count(self, posteriors: list[Tensor], p: Tensor, train: Tensor, labels: Tensor) -> None:
        """Count the labels in each community.

        Args:
            posteriors: :meth:`posteriors` of the graph of the labels.
            p: the classifier's posterior over the known classes, ``[V, N]``.
            train, labels: labelled nodes and their classes, ``[n]``.
        """
        expected = expected_labels(p, labels)
        for member, q in enumerate(posteriors):
            self.log_density[member] = ((1 + q[train].sum(0)) / (1 + expected @ q)).log()

    @torch.no_grad()
    def forward(self, posteriors: list[Tensor]) -> Tensor:
        """The log density of all nodes of a graph, ``[V]``, by their :meth:`posteriors`."""
        return torch.stack([q @ row for q, row in zip(posteriors, self.log_density)]).mean(0)

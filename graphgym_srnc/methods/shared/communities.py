"""Label density of graph communities, an indicator of unknown classes."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

from graphgym_srnc.backbones import EncoderSpec, Graph
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, Clusters
from graphgym_srnc.methods.shared.training import minimise

SCALES = (1.0, 1.0, 2.0, 2.0)
"""Resolutions of the cluster GNNs, in multiples of the method's.

Coarse communities have more labels to count, fine ones have fewer classes.
"""

STEPS, MOST, CHECKED = 100, 200, 10
"""Gradient steps with ``batch_size``, maximum steps without, and steps between two checks."""

UNDECIDED = 0.3
"""Mean entropy of the clusters, at most 1, below which training stops.

The number of steps that this takes depends on the graph, and is 50 to 200.
"""


def find(cluster: ClusterGNN) -> None:
    """Train a cluster GNN on modularity alone until the entropy of its clusters is low."""
    losses = cluster.classify([], modularity=True)
    if cluster.batch_size:  # a check of every node would take longer than the steps
        minimise(cluster.encoder, cluster.optimizer, losses, STEPS)
        return
    for _ in range(MOST // CHECKED):
        minimise(cluster.encoder, cluster.optimizer, losses, CHECKED)
        if mean_entropy(cluster.log_posterior(cluster.target)) < UNDECIDED:
            break


def mean_entropy(log_q: Tensor) -> float:
    r"""Mean entropy of log posteriors ``[V, C]``, in [0, 1].

    .. math:: -\frac{1}{V \log C} \sum_{ic} Q_{ic} \log Q_{ic}
    """
    entropy = -(log_q.exp() * log_q).sum(1).mean()
    return float(entropy) / math.log(log_q.size(1))


class LabelDensity(nn.Module):
    r"""Label density of graph communities, an indicator of unknown classes.

    Labels are drawn from nodes of known classes, so communities of unknown nodes have few of them.
    With a cluster GNN :math:`Q_{ic}` trained on modularity alone and the classifier's posterior
    :math:`P_{ik}` over the known classes, the log density of a node is

    .. math:: \sum_c Q_{ic} \log \frac{1 + \sum_{j \in D^s} Q_{jc}}{1 + \sum_j Q_{jc} e_j},
        \qquad e_j = \sum_k P_{jk} \frac{|D^s_k|}{\sum_l P_{lk}}

    where :math:`e_j` is the expected number of labels of a node. The result is the mean over the
    cluster GNNs. It is near 0 where labels are as dense as elsewhere and negative where they are
    missing. The labels of each class are assumed to be drawn at random from its nodes.

    The arguments are those of :class:`Clusters`.

    References:
        Elkan and Noto, "Learning Classifiers from Only Positive and Unlabeled Data", KDD 2008.
    """

    log_density: Tensor

    def __init__(self, spec: EncoderSpec, in_dim: int, num_clusters: int, *sizes: int) -> None:
        super().__init__()
        self.clusters = nn.ModuleList(Clusters(spec, in_dim, num_clusters, *sizes) for _ in SCALES)
        self.register_buffer("log_density", torch.zeros(len(SCALES), num_clusters))

    def adopt(self, trained: list[ClusterGNN]) -> None:
        """Copy cluster GNNs that were trained on modularity, one for each of :data:`SCALES`."""
        for own, cluster in zip(self.clusters, trained):
            own.load_state_dict(cluster.state_dict())

    @torch.no_grad()
    def count(self, graph: Graph, p: Tensor, train: Tensor, labels: Tensor) -> None:
        """Count the labels in each community.

        Args:
            graph: the graph of the labels.
            p: the classifier's posterior over the known classes, ``[V, N]``.
            train, labels: labelled nodes and their classes, ``[n]``.
        """
        drawn = labels.bincount(minlength=p.size(1)) / p.sum(0).clamp(min=1e-12)
        expected = p @ drawn
        for member, clusters in enumerate(cast(list[Clusters], [*self.clusters])):
            q = clusters.log_posterior(graph).exp()
            found, due = q[train].sum(0), expected @ q
            self.log_density[member] = ((1 + found) / (1 + due)).log()

    @torch.no_grad()
    def forward(self, graph: Graph) -> Tensor:
        """The log density of all nodes of a graph, ``[V]``."""
        clusters = cast(list[Clusters], [*self.clusters])
        pairs = zip(clusters, self.log_density)
        return torch.stack([c.log_posterior(graph).exp() @ density for c, density in pairs]).mean(0)

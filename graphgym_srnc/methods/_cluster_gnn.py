"""The cluster GNN: modularity on the target graph, kept close to the classes on the source."""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc import backbones
from graphgym_srnc.backbones import EncoderSpec, Graph
from graphgym_srnc.losses.alignment import align, alignment_cost, map_clusters
from graphgym_srnc.losses.modularity import collapse_loss, modularity, modularity_loss
from graphgym_srnc.methods.base import MakeOptimizer, adam, minimise

USED_SHARE = 0.01
"""A cluster that is the first choice of fewer nodes than this share counts as unused."""


class Clusters(nn.Module):
    r""":math:`\text{GNN}_\Phi` and its map from clusters to classes; all that is needed to assign nodes.

    Args:
        spec: the encoder.
        in_dim: number of features.
        num_clusters: :math:`C`.
        num_outputs: classes that a cluster may stand for, :math:`N` or, with the unknown class, :math:`N + 1`.
    """

    def __init__(self, spec: EncoderSpec, in_dim: int, num_clusters: int, num_outputs: int) -> None:
        super().__init__()
        self.num_outputs = num_outputs
        self.encoder = backbones.build(spec, in_dim, num_clusters)
        self.register_buffer("mapping", torch.arange(num_clusters).clamp(max=num_outputs - 1))

    @torch.no_grad()
    def log_posterior(self, graph: Graph) -> Tensor:
        r""":math:`\log Q_\Phi` of all nodes of a graph, ``[V, C]`` (Eq. cluster)."""
        self.encoder.eval()
        return self.encoder(self.encoder.view(graph)).log_softmax(1)

    def log_class_posterior(self, graph: Graph) -> Tensor:
        """The same in the label space, ``[V, N(+1)]``."""
        return map_clusters(self.log_posterior(graph), self.mapping, self.num_outputs)


class ClusterGNN(Clusters):
    r"""The same with its graphs and its optimiser, to be trained.

    Args:
        spec, num_clusters, num_outputs: see :class:`Clusters`.
        source, target: both graphs; the same object in open-set shift.
        resolution, collapse: weights of the degree term and of the collapse term, see :mod:`graphgym_srnc.losses.modularity`.
        modularity_weight: weight of :math:`\mathcal L_{\Phi,T}`.
        lr, weight_decay: of Adam.
    """

    def __init__(self, spec: EncoderSpec, num_clusters: int, num_outputs: int, source: Graph, target: Graph, *, resolution: float,
                 collapse: float, modularity_weight: float, lr: float, weight_decay: float) -> None:
        super().__init__(spec, target.num_features, num_clusters, num_outputs)
        self.source, self.target = source, target
        self.adjacency, self.degree = target.adjacency("raw"), target.degree
        self.resolution, self.collapse, self.modularity_weight = resolution, collapse, modularity_weight
        self.optimizer = adam(self.encoder.parameters(), lr, weight_decay)

    def target_loss(self, log_q: Tensor) -> Tensor:
        r""":math:`\mathcal L_{\Phi,T}` of log posteriors of the target graph, ``[V, C]``."""
        q = log_q.exp()
        loss = modularity_loss(q, self.adjacency, self.degree, self.resolution)
        return self.modularity_weight * (loss + self.collapse * collapse_loss(q))

    def pretrain(self, steps: int) -> dict[str, float]:
        r"""Minimise :math:`\mathcal L_{\Phi,T}` (line 2 of Algorithm 1)."""
        view = self.encoder.view(self.target)
        return minimise(self.encoder, self.optimizer,
                        lambda: {"cluster_target": self.target_loss(self.encoder(view).log_softmax(1))}, steps)

    def pretrain_on_source(self, nodes: Tensor, label: Tensor, steps: int, make_optimizer: MakeOptimizer = adam) -> dict[str, float]:
        """Fit the source labels instead, with a classifier's optimiser, so that cluster k stands for class k from the start."""
        view, optimizer = self.encoder.view(self.source, nodes), make_optimizer(self.encoder.parameters())
        return minimise(self.encoder, optimizer, lambda: {"cluster_source": F.cross_entropy(self.encoder(view), label)}, steps)

    @torch.no_grad()
    def align(self, nodes: Tensor, p: Tensor) -> float:
        """Give each cluster its class by the divergences over source nodes ``[n]`` with class posteriors ``[n, N]`` (Eq. assignment).

        Returns:
            The mean divergence of the pairs.
        """
        cost = alignment_cost(p, self.log_posterior(self.source)[nodes])
        self.mapping, mean = align(cost)
        return mean

    def update(self, nodes: Tensor, p: Tensor, steps: int, batch: int) -> dict[str, float]:
        r""":math:`T` steps of :math:`\mathcal L_\Phi = \mathcal L_{\Phi,T} + \mathcal L_{\Phi,\theta,S}` (lines 6 to 8 of Algorithm 1).

        Args:
            nodes, p: source nodes ``[n]`` and their class posteriors ``[n, N(+1)]``; no nodes = no regulariser.
            steps: :math:`T`.
            batch: :math:`B`, source nodes drawn per step; 0 = all.
        """
        on_target = self.encoder.view(self.target)
        on_source = None if self.source is self.target or not len(nodes) else self.encoder.view(self.source, nodes)

        def losses() -> dict[str, Tensor]:
            log_q = self.encoder(on_target).log_softmax(1)
            terms = {"cluster_target": self.target_loss(log_q)}
            if len(nodes):
                drawn = torch.randperm(len(nodes))[:batch or None]
                log_q_source = log_q[nodes[drawn]] if on_source is None else self.encoder(on_source).log_softmax(1)[drawn]
                terms["cluster_source"] = F.kl_div(map_clusters(log_q_source, self.mapping, self.num_outputs)[:, :p.size(1)], p[drawn],
                                                   reduction="batchmean")
            return terms

        return minimise(self.encoder, self.optimizer, losses, steps)

    def state(self) -> dict[str, float]:
        """Modularity of the hard clusters on the target and how many of them are in use."""
        cluster = self.log_posterior(self.target).argmax(1)
        count = torch.bincount(cluster, minlength=len(self.mapping))
        return {"modularity": modularity(cluster, self.adjacency, self.degree),
                "used_clusters": int((count >= max(1, USED_SHARE * len(cluster))).sum())}

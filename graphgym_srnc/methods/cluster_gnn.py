"""The cluster GNN: modularity on the target graph, kept close to the classes on the source."""
from __future__ import annotations

from typing import Any, Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc import backbones, parallel
from graphgym_srnc.backbones import Batches, EncoderSpec, Graph, draw_edges
from graphgym_srnc.losses.alignment import align, alignment_cost, grouped, map_clusters
from graphgym_srnc.losses.modularity import (
    collapse_loss,
    modularity,
    modularity_loss,
    sampled_modularity_loss,
)
from graphgym_srnc.methods.training import MakeOptimizer, adam, all_logits, fit_labels, minimise

USED_SHARE = 0.01
"""A cluster that is the first choice of fewer nodes than this share counts as unused."""

_known: "WeakKeyDictionary[Clusters, WeakKeyDictionary[Graph, tuple[Tensor, Tensor]]]" = WeakKeyDictionary()
"""The weights of a cluster GNN and the posterior that they gave: an episode asks for it several times."""


class Clusters(nn.Module):
    r""":math:`\text{GNN}_\Phi` and its map from clusters to classes; all that is needed to assign nodes.

    Args:
        spec: the encoder.
        in_dim: number of features.
        num_clusters: :math:`C`.
        num_outputs: classes that a cluster may stand for, :math:`N` or, with the unknown class, :math:`N + 1`.
        batch_size: that of the method.
    """

    def __init__(self, spec: EncoderSpec, in_dim: int, num_clusters: int, num_outputs: int, batch_size: int = 0) -> None:
        super().__init__()
        self.num_outputs, self.batch_size = num_outputs, batch_size
        self.encoder = backbones.build(spec, in_dim, num_clusters)
        self.register_buffer("mapping", torch.arange(num_clusters).clamp(max=num_outputs - 1))

    @torch.no_grad()
    def log_posterior(self, graph: Graph) -> Tensor:
        r""":math:`\log Q_\Phi` of all nodes of a graph, ``[V, C]`` (Eq. cluster); made once while the weights stay as they are."""
        known = _known.setdefault(self, WeakKeyDictionary())
        weights = torch.cat([weight.detach().float().flatten() for weight in self.encoder.state_dict().values()]).cpu()
        if graph in known and torch.equal(known[graph][0], weights):
            return known[graph][1]
        made = all_logits(self.encoder, graph, self.batch_size).log_softmax(1)
        if parallel.world() == parallel.count():
            # One process that kept what it made for itself would be missed by the others, which make it together.
            known[graph] = weights, made
        return made

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
        batch_size, fanout: edges and nodes drawn a step, and neighbours drawn a node and layer; ``batch_size`` 0 = full batch.
    """

    def __init__(self, spec: EncoderSpec, num_clusters: int, num_outputs: int, source: Graph, target: Graph, *, resolution: float,
                 collapse: float, modularity_weight: float, lr: float, weight_decay: float, batch_size: int = 0, fanout: int = 0) -> None:
        super().__init__(spec, target.num_features, num_clusters, num_outputs, batch_size)
        self.source, self.target = source, target
        self.adjacency, self.degree = target.adjacency("raw"), target.degree
        self.resolution, self.collapse, self.modularity_weight, self.fanout = resolution, collapse, modularity_weight, fanout
        self.optimizer = adam(self.to(target.device).encoder.parameters(), lr, weight_decay)

    def target_loss(self, log_q: Tensor) -> Tensor:
        r""":math:`\mathcal L_{\Phi,T}` of log posteriors of the target graph, ``[V, C]``."""
        q = log_q.exp()
        loss = modularity_loss(q, self.adjacency, self.degree, self.resolution)
        return self.modularity_weight * (loss + self.collapse * collapse_loss(q))

    def pretrain(self, steps: int) -> dict[str, float]:
        r"""Minimise :math:`\mathcal L_{\Phi,T}` (line 2 of Algorithm 1)."""
        on_target = self.on_target()
        return minimise(self.encoder, self.optimizer, lambda: {"cluster_target": on_target()[0]}, steps)

    def on_target(self) -> Callable[[], tuple[Tensor, Tensor | None]]:
        r"""A function that gives :math:`\mathcal L_{\Phi,T}` and log posteriors of the target, ``[V, C]``; with batches each time an
        estimate from drawn edges and, for the collapse term, drawn nodes, and None."""
        if not self.batch_size:
            view = self.encoder.view(self.target)

            def full() -> tuple[Tensor, Tensor]:
                log_q = self.encoder(view).log_softmax(1)
                return self.target_loss(log_q), log_q

            return full
        views = Batches(self.encoder, self.target, [], self.batch_size, self.fanout)

        def sampled() -> tuple[Tensor, None]:
            ends = draw_edges(self.target, max(2, self.batch_size))
            nodes = parallel.share(lambda: torch.randint(self.target.num_nodes, (self.batch_size,), device=ends.device))
            q = self.encoder(views.at(torch.cat([*ends, nodes]))).softmax(1).split([*[ends.size(1)] * 2, len(nodes)])
            first, second, others = parallel.gather(*q)
            loss = sampled_modularity_loss(first, second, self.resolution)
            return self.modularity_weight * (loss + self.collapse * collapse_loss(others)), None

        return sampled

    def pretrain_on_source(self, nodes: Tensor, label: Tensor, steps: int, make_optimizer: MakeOptimizer = adam) -> dict[str, float]:
        """Fit the source labels instead, with a classifier's optimiser, so that cluster k stands for class k from the start."""
        loss = fit_labels(self.encoder, make_optimizer(self.encoder.parameters()), self.source, nodes, label, steps,
                          batch_size=self.batch_size, fanout=self.fanout)
        return {"cluster_source": loss}

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
            batch: :math:`B`, source nodes drawn per step; 0 = all, or ``batch_size``.
        """
        on_target, on_source, groups = self.on_target(), None, grouped(self.mapping, self.num_outputs)
        if len(nodes) and (self.batch_size or self.source is not self.target):
            on_source = Batches(self.encoder, self.source, [nodes], min(batch or self.batch_size, self.batch_size), self.fanout)

        def losses() -> dict[str, Tensor]:
            loss, log_q = on_target()
            terms = {"cluster_target": loss}
            if len(nodes):
                if self.batch_size:
                    view, (drawn,) = on_source()
                    log_q_source = self.encoder(view).log_softmax(1)
                else:
                    drawn = torch.randperm(len(nodes), device=nodes.device)[:batch or None]
                    log_q_source = log_q[nodes[drawn]] if on_source is None else self.encoder(on_source.whole).log_softmax(1)[drawn]
                terms["cluster_source"] = F.kl_div(map_clusters(log_q_source, groups, self.num_outputs)[:, :p.size(1)], p[drawn],
                                                   reduction="batchmean")
            return terms

        return minimise(self.encoder, self.optimizer, losses, steps)

    def checkpoint(self) -> dict[str, Any]:
        """Weights, resolution and optimiser, to be trained further by another one after :meth:`restore`."""
        return {"weights": self.state_dict(), "resolution": self.resolution, "optimizer": self.optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> ClusterGNN:
        """Become the one that a :meth:`checkpoint` was taken of; returns itself."""
        self.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        return self

    def state(self) -> dict[str, float]:
        """Modularity of the hard clusters on the target and how many of them are in use."""
        cluster = self.log_posterior(self.target).argmax(1)
        count = torch.bincount(cluster, minlength=len(self.mapping))
        return {"modularity": modularity(cluster, self.adjacency, self.degree),
                "used_clusters": int((count >= max(1, USED_SHARE * len(cluster))).sum())}

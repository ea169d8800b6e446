"""The cluster GNN: modularity on the target (Eq. 6 of the paper), and labels (Eqs. 8 and 10)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc import backbones
from graphgym_srnc.backbones import Batches, EncoderSpec, Graph, prepare
from graphgym_srnc.losses.alignment import align, alignment_cost, map_clusters
from graphgym_srnc.losses.modularity import (
    collapse_loss,
    modularity,
    modularity_loss,
    sampled_modularity_loss,
)
from graphgym_srnc.methods.shared import training
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import (
    MakeOptimizer,
    Term,
    adam,
    gather,
    log_softmax,
    minimise,
)

USED_SHARE = 0.01  # minimum share of nodes whose most probable cluster is a used cluster


class Clusters(nn.Module):
    r"""Cluster GNN :math:`\text{GNN}_\Phi` and its assignment of clusters to classes.

    Args:
        spec: specification of the encoder.
        in_dim: number of features.
        num_clusters: number of clusters :math:`C`.
        num_outputs: number of classes: :math:`N` or, with the unknown class, :math:`N + 1`.
        batch_size: ``batch_size`` of the method.
    """

    mapping: Tensor

    def __init__(
        self,
        spec: EncoderSpec,
        in_dim: int,
        num_clusters: int,
        num_outputs: int,
        batch_size: int = 0,
    ) -> None:
        super().__init__()
        self.num_outputs = num_outputs
        self.batch_size = batch_size
        self.encoder = backbones.build(spec, in_dim, num_clusters)
        mapping = np.arange(num_clusters).clip(max=num_outputs - 1)
        self.register_buffer("mapping", torch.from_numpy(mapping))

    @torch.no_grad()
    def log_posterior(self, graph: Graph) -> Tensor:
        r""":math:`\log Q_\Phi` of all nodes of a graph, ``[V, C]`` (Eq. 4)."""
        return training.all_logits(self.encoder, graph, self.batch_size).log_softmax(1)

    @property
    def log_class_posterior(self) -> Callable[[Tensor], Tensor]:
        """A function from log posteriors of clusters ``[n, C]`` to those of classes."""
        return map_clusters(self.mapping, self.num_outputs)


class ClusterGNN(Clusters):
    r"""Cluster GNN that is trained on a source and a target graph with its own optimiser.

    :meth:`on_target` is the only place that computes :math:`\mathcal L_{\Phi,T}` (Eq. 6).
    :meth:`pretrain` minimises it alone, :meth:`update` with SRNC's divergence on the source
    (Eq. 8), and :meth:`fit` with the cross-entropies of SRNC+.

    Args:
        spec, num_clusters, num_outputs: as in :class:`Clusters`.
        source, target: both graphs; the same object in open-set shift on one graph.
        resolution: resolution :math:`\gamma`, the weight of modularity's degree term.
        collapse: weight of the collapse term, see :mod:`graphgym_srnc.losses.modularity`.
        modularity_weight: weight of :math:`\mathcal L_{\Phi,T}`.
        lr: learning rate of Adam.
        padded: whether posteriors are computed by :func:`log_softmax`, which differs in rounding.
        batch_size, fanout: those of the method; as many edges as nodes are drawn per step.
    """

    def __init__(
        self,
        spec: EncoderSpec,
        num_clusters: int,
        num_outputs: int,
        source: Graph,
        target: Graph,
        *,
        resolution: float,
        collapse: float,
        modularity_weight: float,
        lr: float,
        padded: bool = False,
        batch_size: int = 0,
        fanout: int = 0,
    ) -> None:
        super().__init__(spec, target.num_features, num_clusters, num_outputs, batch_size)
        self.source = source
        self.target = target
        self.fanout = fanout
        self.adjacency = target.adjacency("raw")
        self.degree = target.degree
        self.resolution = resolution
        self.collapse = collapse
        self.modularity_weight = modularity_weight
        self.log_softmax = log_softmax if padded else partial(torch.log_softmax, dim=1)
        self.optimizer = adam(self.to(target.device).encoder.parameters(), lr=lr, weight_decay=0.0)

    def pretrain(self, steps: int) -> dict[str, float]:
        r"""Minimise :math:`\mathcal L_{\Phi,T}` (line 2 of Algorithm 1)."""
        on_target = self.on_target()
        return minimise(self.encoder, self.optimizer, lambda: on_target()[0], steps)

    def fit(
        self, terms: Sequence[Term], steps: tuple[int, int], make_optimizer: MakeOptimizer = adam
    ) -> dict[str, float]:
        r"""Minimise cross-entropies, then their sum with :math:`\mathcal L_{\Phi,T}`.

        Args:
            terms: cross-entropies of the classes of the clusters, on the source or the target.
            steps: numbers of gradient steps without and with modularity.
            make_optimizer: function that makes the optimiser of the first steps.
        """
        optimizer = make_optimizer(self.encoder.parameters())
        minimise(self.encoder, optimizer, self.losses(terms, modularity=False), steps[0])
        return minimise(self.encoder, self.optimizer, self.losses(terms, modularity=True), steps[1])

    @torch.no_grad()
    def align(self, log_q: Tensor, p: Tensor) -> float:
        """Assign clusters ``[n, C]`` to classes ``[n, N]`` by their mean divergence (Eq. 7)."""
        self.mapping, mean = align(alignment_cost(p, log_q))
        return mean

    def update(self, nodes: Tensor, p: Tensor, steps: int, batch: int) -> dict[str, float]:
        r"""Minimise :math:`\mathcal L_\Phi = \mathcal L_{\Phi,T} + \mathcal L_{\Phi,\theta,S}`.

        Args:
            nodes, p: source nodes ``[n]`` and their class posteriors ``[n, N(+1)]``; without nodes
                there is no second term.
            steps: :math:`T`.
            batch: :math:`B`, source nodes drawn per step; 0 = all, or ``batch_size``.
        """
        if not len(nodes):
            return self.pretrain(steps)
        on_target = self.on_target()
        by_class = self.log_class_posterior
        here = self.source is self.target
        if self.batch_size or not here:
            size = min(batch or self.batch_size, self.batch_size)
            on_source = Batches(self.encoder, self.source, [nodes], size, self.fanout)

        def losses() -> dict[str, Tensor]:
            terms, log_q = on_target()
            if self.batch_size:
                view, (drawn,) = on_source()
                log_q = self.encoder(view).log_softmax(1)
            else:
                drawn = torch.randperm(len(nodes), device=nodes.device)[: batch or None]
                if here:  # the encoder reads a graph once per step
                    log_q = log_q[nodes[drawn]]
                else:
                    log_q = self.encoder(on_source.whole).log_softmax(1)[drawn]
            mapped = by_class(log_q)[:, : p.size(1)]
            return terms | {"cluster_source": F.kl_div(mapped, p[drawn], reduction="batchmean")}

        return minimise(self.encoder, self.optimizer, losses, steps)

    def losses(self, terms: Sequence[Term], *, modularity: bool) -> Callable[[], dict[str, Tensor]]:
        r"""A function that returns cross-entropies and, if asked for, :math:`\mathcal L_{\Phi,T}`.

        Without batches the encoder reads the target once per step.
        """
        on_target = self.on_target(modularity)
        by_class = self.log_class_posterior
        cross_entropies = partial(
            training.cross_entropies, self.encoder, outputs=lambda z: by_class(z.log_softmax(1))
        )
        if self.batch_size:
            of_terms = cross_entropies(terms, self.batch_size, self.fanout)
            return lambda: of_terms() | (on_target()[0] if modularity else {})

        here = [term for term in terms if term.graph is self.target]
        elsewhere = cross_entropies([term for term in terms if term.graph is not self.target])

        def full_batch() -> dict[str, Tensor]:
            losses = elsewhere()
            (target, log_q) = on_target()
            for term in here:
                log_p = by_class(log_q.index_select(0, term.nodes))
                losses[term.name] = term.weight * F.nll_loss(log_p, term.labels)
            return losses | target

        return full_batch

    def on_target(self, modularity: bool = True) -> Callable[[], tuple[dict[str, Tensor], Tensor]]:
        r"""A function that returns :math:`\mathcal L_{\Phi,T}` by name, and log posteriors.

        These are ``[V, C]`` on the target. With batches the loss is estimated from drawn edges and
        nodes, and the posteriors are those of the nodes. There is no loss without ``modularity``.
        """
        if not self.batch_size:
            view = self.encoder.view(self.target)

            def full() -> tuple[dict[str, Tensor], Tensor]:
                log_q = self.log_softmax(self.encoder(view))
                return {"cluster_target": self.target_loss(log_q)} if modularity else {}, log_q

            return full

        views = Batches(self.encoder, self.target, [], self.batch_size, self.fanout)

        def sampled() -> tuple[dict[str, Tensor], Tensor]:
            ends = views.draw_edges(max(2, self.batch_size))
            nodes = views.draw_nodes()
            q = self.encoder(views.at(torch.cat([*ends, nodes]))).softmax(1)
            first, second, others = map(gather, q.split([*[ends.size(1)] * 2, len(nodes)]))
            loss = sampled_modularity_loss(first, second, self.resolution)
            loss = loss + self.collapse * collapse_loss(others)
            return {"cluster_target": self.modularity_weight * loss}, others

        return sampled

    def target_loss(self, log_q: Tensor) -> Tensor:
        r""":math:`\mathcal L_{\Phi,T}` of log posteriors of the target graph, ``[V, C]``."""
        q = log_q.exp()
        loss = modularity_loss(q, self.adjacency, self.degree, self.resolution)
        return self.modularity_weight * (loss + self.collapse * collapse_loss(q))

    def figures(self, log_q: Tensor) -> dict[str, float]:
        """Modularity and number of used clusters of log posteriors of the target, ``[V, C]``."""
        cluster = log_q.argmax(1)
        count = torch.bincount(cluster, minlength=len(self.mapping))
        used = count >= max(1, USED_SHARE * len(cluster))
        value = modularity(cluster, self.adjacency, self.degree)
        return {"modularity": value, "used_clusters": int(used.sum())}


class ClusterMethod(Method):
    """Base class of methods that train cluster GNNs beside the classifier."""

    @property
    def cluster_spec(self) -> EncoderSpec:
        """Specification of a cluster GNN: the classifier's with SELU and self-skips, as in DMoN."""
        # A pretrained base is trained with the features of its own specification.
        features = self.encoder.features if backbones.pretrains(self.encoder) else "auto"
        return replace(self.encoder, act="selu", skip=True, features=features)

    def untrained(self, num_clusters: int, spec: EncoderSpec, **settings: Any) -> ClusterGNN:
        """An untrained cluster GNN on both graphs, with some settings of :class:`ClusterGNN`."""
        task = self.task
        source, target = (prepare(graph, spec.features) for graph in (task.source, task.target))
        settings |= {"batch_size": self.batch_size, "fanout": self.fanout}
        return ClusterGNN(spec, num_clusters, task.num_outputs, source, target, **settings)

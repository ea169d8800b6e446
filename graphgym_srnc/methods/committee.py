"""Cluster GNNs that are trained side by side; the paper has one of them."""
from __future__ import annotations

from functools import partial
from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphgym_srnc.backbones import EncoderSpec, Graph, prepare
from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.cluster_gnn import USED_SHARE, ClusterGNN, Clusters, cluster_encoder
from graphgym_srnc.methods.training import hidden_and_group
from graphgym_srnc.task import ShiftTask, Sizes

PRETRAIN_STEPS = 150
"""Steps of a cluster GNN on modularity in episode 0."""


class Committee(nn.ModuleList):
    """Some :class:`ClusterGNN`, maybe none, whose class posteriors are averaged.

    ``log_q`` has the log posteriors ``[V, C]`` of each of them on both graphs; :meth:`assign` makes
    them anew after each training.
    """

    log_q: list[dict[Graph, Tensor]]

    def assign(self) -> dict[str, float]:
        """Infer all clusters; give the mean of :meth:`ClusterGNN.figures`."""
        self.log_q = [{graph: cluster.log_posterior(graph)
                       for graph in dict.fromkeys((cluster.source, cluster.target))}
                      for cluster in self]
        return mean([cluster.figures(log_q[cluster.target])
                     for cluster, log_q in zip(self, self.log_q)])

    def align(self, nodes: Tensor, p: Tensor) -> dict[str, float]:
        """Map clusters to classes by source nodes ``[n]`` and their classes ``[n, N]``."""
        return mean([{"alignment_cost": cluster.align(log_q[cluster.source][nodes], p)}
                     for cluster, log_q in zip(self, self.log_q)])

    def update(self, nodes: Tensor, p: Tensor, steps: int, batch: int) -> dict[str, float]:
        """:meth:`ClusterGNN.update` of each, then :meth:`assign`."""
        losses = mean([cluster.update(nodes, p, steps, batch) for cluster in self])
        return losses | self.assign()

    def class_posterior(self, role: str) -> Tensor:
        r""":math:`Q_\Phi` of the source or target in the label space, ``[V, N(+1)]``.

        Clusters that stand for no known class are unknown.
        """
        return torch.stack([cluster.log_class_posterior(log_q[getattr(cluster, role)]).exp()
                            for cluster, log_q in zip(self, self.log_q)]).mean(0)


def mean(figures: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure; nothing of none."""
    names = figures[0] if figures else ()
    return {name: sum(each[name] for each in figures) / len(figures) for name in names}


def complaints(figures: dict[str, float], labels: Tensor, open_set: bool) -> list[str]:
    """What is odd about these :meth:`ClusterGNN.figures`, by labels ``[n]`` of training nodes."""
    # A class that few labels have may well be rarer in the target: twice the share, so that one
    # near the line is no alarm.
    common = torch.bincount(labels) >= 2 * USED_SHARE * len(labels)
    classes, used = int(common.sum()) + int(open_set), figures["used_clusters"]
    found = []
    if used < classes:
        found.append(f"cluster GNN collapsed: {used:.1f} clusters in use for {classes} classes")
    if figures["modularity"] < 0.05:
        found.append(f"cluster GNN found no communities: modularity {figures['modularity']:.3f}")
    return found


class Clustered(Method):
    """A method that has a committee of cluster GNNs beside its classifier.

    :meth:`adapt` sets, for a task, how many there are (``count``), of how many clusters (``size``),
    and whether they start from the source labels (``from_source``); the other attributes below are
    options of the method.
    """

    size: int
    count: int
    from_source: bool
    cluster_lr: float
    collapse: float
    modularity_weight: float = 1.0
    cluster_source_steps: int = 60

    def adapt(self, task: ShiftTask | Sizes) -> None:
        """Decide what the kind of shift decides."""
        raise NotImplementedError

    @property
    def cluster_spec(self) -> EncoderSpec:
        """The recipe of a cluster GNN."""
        return cluster_encoder(self.encoder)

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.adapt(task)
        self.classifier = self.new_classifier(task.num_outputs)
        sizes = task.num_features, self.size, task.num_outputs, self.batch_size
        self.clusters = nn.ModuleList(
            Clusters(self.cluster_spec, *sizes) for _ in range(self.count))

    def make_clusters(self, resolution: float) -> dict[str, float]:
        """Make and pre-train the committee; give its figures."""
        self.clusters = Committee(
            self.pretrained_cluster_gnn(resolution) for _ in range(self.count))
        return self.clusters.assign()

    def pretrained_cluster_gnn(self, resolution: float) -> ClusterGNN:
        """A cluster GNN trained on modularity, or on the source labels where it starts there."""
        cluster = self.new_cluster_gnn(resolution)
        if self.from_source:
            cluster.pretrain_on_source(
                self.task.train, self.labels, self.cluster_source_steps, self.make_optimizer)
        else:
            cluster.pretrain(PRETRAIN_STEPS)
        return cluster

    def new_cluster_gnn(self, resolution: float) -> ClusterGNN:
        """An untrained cluster GNN."""
        spec, task = self.cluster_spec, self.task
        graphs = (prepare(graph, spec.features) for graph in (task.source, task.target))
        return ClusterGNN(
            spec, self.size, task.num_outputs, *graphs, resolution=resolution,
            collapse=self.collapse, modularity_weight=self.modularity_weight, lr=self.cluster_lr,
            batch_size=self.batch_size, fanout=self.fanout)

    @torch.no_grad()
    def log_cluster_posterior(self, graph: Data) -> Tensor | None:
        if not self.clusters:
            return None
        graph = prepare(graph, self.cluster_spec.features)
        return torch.stack([cluster.log_posterior(graph) for cluster in self.clusters])

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        views = super().views()
        if self.clusters:
            encoder, features = self.clusters[0].encoder, self.cluster_spec.features
            views["cluster_gnn"] = partial(hidden_and_group, encoder, features)
        return views

    def checkpoint(self) -> dict[str, Any]:
        return super().checkpoint() | {"clusters": [c.checkpoint() for c in self.clusters]}

    def load(self, state: dict[str, Any]) -> None:
        """Cluster GNNs have optimisers of their own."""
        self.clusters = Committee(self.new_cluster_gnn(saved["resolution"]).restore(saved)
                                  for saved in state["clusters"])
        super().load(state)
        self.clusters.assign()

"""Cluster GNNs that are trained side by side; the paper has one of them."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from graphgym_srnc.backbones import Graph
from graphgym_srnc.methods.cluster_gnn import USED_SHARE, ClusterGNN


class Committee(nn.ModuleList):
    """Some :class:`ClusterGNN`, maybe none, whose class posteriors are averaged.

    ``log_q`` holds what each of them says of each of its graphs, ``[V, C]``; :meth:`assign` makes it
    anew after each training.
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
    return {name: sum(one[name] for one in figures) / len(figures) for name in names}


def complaints(figures: dict[str, float], labels: Tensor, open_set: bool) -> list[str]:
    """What is wrong with clusters of these :meth:`ClusterGNN.figures`, by training labels ``[n]``."""
    # A class that few labels have may well be rarer in the target: twice the share, so that one near
    # the line is no alarm.
    common = torch.bincount(labels) >= 2 * USED_SHARE * len(labels)
    classes, used = int(common.sum()) + int(open_set), figures["used_clusters"]
    found = []
    if used < classes:
        found.append(f"cluster GNN collapsed: {used:.1f} clusters in use for {classes} classes")
    if figures["modularity"] < 0.05:
        found.append(f"cluster GNN found no communities: modularity {figures['modularity']:.3f}")
    return found

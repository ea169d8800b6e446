"""Asymmetric adaptive GNN (Liu et al., AAAI 2024): propagate much on the target and little on the source, and match by MMD."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph, prepare
from graphgym_srnc.losses.adversarial import ganin_schedule
from graphgym_srnc.losses.mmd import mmd
from graphgym_srnc.methods.supervised import Supervised


class A2GNN(Supervised):
    r"""One encoder for both graphs, whose output is propagated ``source_hops`` times on the source and ``target_hops`` on the target.

    .. math:: \mathcal L = \text{CE}(\hat A_S^s f(X_S)) + w \, \text{MMD}^2(\hat A_S^s h(X_S), \hat A_T^t h(X_T))

    With ``gnn.layer_type mlp`` it is the authors' model, in which nothing but these hops reads an edge.

    Args:
        weight: :math:`w` at the end; it rises from 0 by Ganin's schedule, see :class:`graphgym_srnc.methods.mmd.MMD`.
        source_hops: :math:`s`.
        target_hops: :math:`t`.
        sample: nodes of either side drawn for the MMD at each step.
    """

    in_batches = False

    def __init__(self, *, weight: float = 0.1, source_hops: int = 0, target_hops: int = 10, sample: int = 1024, **base) -> None:
        super().__init__(**base)
        self.require("weight", weight, weight >= 0, "0 or more")
        self.require("source_hops", source_hops, source_hops >= 0, "0 or more")
        self.require("target_hops", target_hops, target_hops >= 0, "0 or more")
        self.require("sample", sample, sample >= 2, "2 or more")
        self.weight, self.source_hops, self.target_hops, self.sample = weight, source_hops, target_hops, sample

    def begin(self) -> None:
        if self.source_hops:
            self.on_source = self.classifier.view(self.source)
        self.on_target = self.classifier.view(self.target)

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.classifier.embed(self.on_source)
        if self.source_hops:
            logits, source = (hop(z, self.source, self.source_hops)[self.task.train] for z in (logits, source))
        target = hop(self.classifier.embed(self.on_target)[1], self.target, self.target_hops)[self.task.pool]
        source, target = (h[torch.randperm(len(h), device=h.device)[:self.sample]] for h in (source, target))
        weight = self.weight * ganin_schedule(self.progress)
        return {"source": F.cross_entropy(logits, self.labels), "mmd": weight * mmd(source, target)}

    @torch.no_grad()
    def logits(self, graph: Data) -> Tensor:
        """Logits after the hops of the source on the source graph, and of the target on any other."""
        # A blind task shares its tensors with the task itself, but not its graphs.
        source, two = self.task.source, self.task.source is not self.task.target
        at_source = two and graph.x is source.x and graph.edge_index is source.edge_index
        return hop(super().logits(graph), prepare(graph, self.encoder.features), self.source_hops if at_source else self.target_hops)


def hop(z: Tensor, graph: Graph, count: int) -> Tensor:
    r""":math:`\hat A^k Z`, ``[V, K]``."""
    for _ in range(count):
        z = graph.adjacency("gcn") @ z
    return z

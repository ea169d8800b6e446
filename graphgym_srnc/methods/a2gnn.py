"""Asymmetric adaptive GNN (Liu et al., AAAI 2024): propagate on the target, less on the source."""
from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph
from graphgym_srnc.losses.adversarial import ganin_schedule
from graphgym_srnc.losses.mmd import mmd
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Natural, Range, Weight


class A2GNN(Scored):
    r"""One encoder for both graphs, whose output is propagated :math:`s` times on the source and
    :math:`t` times on the target, and matched by MMD.

    .. math:: \mathcal L = \text{CE}(\hat A_S^s f(X_S))
        + w \, \text{MMD}^2(\hat A_S^s h(X_S), \hat A_T^t h(X_T))

    With an MLP as backbone nothing but these hops reads an edge, as in the authors' model, which
    differs in its class layer: that propagates once on both graphs.

    Args:
        weight: :math:`w` at the end; it rises from 0 by Ganin's schedule, see
            :class:`graphgym_srnc.methods.mmd.MMD`.
        source_hops: :math:`s`.
        target_hops: :math:`t`.
        sample: nodes of either side drawn for the MMD at each step.
    """

    in_batches = False
    search = {"weight": (0.1, 1.0, 5.0, 25.0), "target_hops": (2, 5, 10, 15, 30)}

    def __init__(self, *, weight: Weight = 0.1, source_hops: Natural = 0, target_hops: Natural = 10,
                 sample: Annotated[int, Range(2)] = 1024, **base) -> None:
        super().__init__(**base)
        self.weight, self.source_hops, self.target_hops = weight, source_hops, target_hops
        self.sample = sample

    def begin(self) -> None:
        if self.source_hops:
            self.on_source = self.classifier.view(self.source)
        self.on_target = self.classifier.view(self.target)

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.classifier.embed(self.on_source)
        if self.source_hops:
            train = self.task.train
            logits = hop(logits, self.source, self.source_hops)[train]
            source = hop(source, self.source, self.source_hops)[train]

        target = self.classifier.embed(self.on_target)[1]
        target = hop(target, self.target, self.target_hops)[self.task.pool]
        drawn = (h[torch.randperm(len(h), device=h.device)[:self.sample]] for h in (source, target))
        weight = self.weight * ganin_schedule(self.progress)
        return {"source": F.cross_entropy(logits, self.labels), "mmd": weight * mmd(*drawn)}

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logits after the hops of the source on a source graph, and of the target on any other."""
        hops = self.source_hops if role == "source" else self.target_hops
        return hop(super().logits(graph, role), self.prepared(graph), hops)


def hop(z: Tensor, graph: Graph, count: int) -> Tensor:
    r""":math:`\hat A^k Z`, ``[V, K]``."""
    for _ in range(count):
        z = graph.adjacency("gcn") @ z
    return z

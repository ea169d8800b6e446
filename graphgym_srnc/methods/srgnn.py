"""Shift-robust GNN (Zhu et al., NeurIPS 2021): training nodes weighted to look like the target."""
from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc import cache
from graphgym_srnc.backbones import Graph, dense
from graphgym_srnc.losses import moments
from graphgym_srnc.losses.kmm import kmm_weights
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Count, Natural, Range, Weight

CACHED_FROM = 1000
"""Nodes of a target graph from which it is quicker to look for weights that another run has found
than to find them."""


class SRGNN(Scored):
    r"""The plain GNN with kernel-mean-matching weights on its training nodes and the CMD of its
    hidden states (Eq. 11 of SRGNN).

    .. math:: \mathcal L = \frac{1}{M} \sum_i \beta_i \, \text{CE}(y_i, f(x_i))
        + w \, d_\text{CMD}(h_S, h_T)

    The weights are found once, before training, on features propagated over the graph,
    :math:`\hat A^k X`, since the adjacency rows that the authors' code compares have no columns in
    common between two graphs.

    Args:
        weight: :math:`w`.
        order: moments up to this one.
        b_min: smallest :math:`\beta`.
        hops: :math:`k`.
        kernel_dim: wide features are projected at random to so many dimensions first.
        kernel_nodes: solve for at most so many training nodes, of which the others take the nearest
            one's weight; 0 = all.
        target_nodes: target nodes for both parts, drawn once; 0 = all unlabelled ones.
    """

    search = {"weight": (0.1, 0.5, 1.0)}

    def __init__(self, *, weight: Weight = 1.0, order: Count = 5,
                 b_min: Annotated[float, Range(0, 1, closed="left")] = 0.2, hops: Natural = 2,
                 kernel_dim: Count = 128, kernel_nodes: Natural = 2000, target_nodes: Natural = 0,
                 **base) -> None:
        super().__init__(**base)
        self.weight, self.order, self.b_min, self.hops = weight, order, b_min, hops
        self.kernel_dim, self.kernel_nodes = kernel_dim, kernel_nodes
        self.target_nodes = target_nodes

    def begin(self) -> None:
        self.on_target = self.target_view(self.target_nodes)
        if self.target.num_nodes < CACHED_FROM or self.task.device.type != "cpu":
            self.beta = self.node_weights()
            return
        parts = (self.source.content, self.target.content, self.task.train, self.task.pool,
                 self.labels, self.b_min, self.hops, self.kernel_dim, self.kernel_nodes)
        found = cache.memoise("kmm", lambda: {"beta": self.node_weights()}, parts)
        self.beta = found["beta"]

    def losses(self) -> dict[str, Tensor]:
        logits, source, target = self.hidden_states(bounded=True)
        each = F.cross_entropy(logits, self.labels, reduction="none")
        return {"source": (self.beta[self.drawn] * each).mean(),
                "cmd": self.weight * moments.cmd(source, target, self.order)}

    @torch.no_grad()
    def node_weights(self) -> Tensor:
        r""":math:`\beta`, ``[|D^s|]``, with a mean of one over each class."""
        train, pool = self.task.train, self.task.pool
        width, projection = self.source.num_features, None
        if width > self.kernel_dim:
            projection = torch.randn(width, self.kernel_dim, device=train.device)
            projection = projection / self.kernel_dim ** 0.5

        def features(graph: Graph, nodes: Tensor) -> Tensor:
            x = graph.propagated("gcn", self.hops)[nodes]
            return dense(x) if projection is None else x @ projection

        z, count = features(self.source, train), len(train)
        kept = torch.arange(count, device=train.device)
        if 0 < self.kernel_nodes < count:
            kept = torch.randperm(count, device=train.device)[:self.kernel_nodes].sort().values

        # As many target nodes as training nodes, as the authors take.
        drawn = pool[torch.randperm(len(pool), device=pool.device)[:len(kept)]]
        z_target = features(self.target, drawn)
        beta = kmm_weights(z[kept], z_target, self.labels[kept], self.b_min).to(z.dtype)
        if len(kept) < count:
            nearest = [torch.cdist(rows, z[kept]).argmin(1) for rows in z.split(1024)]
            beta = beta[torch.cat(nearest)]

        size = torch.bincount(self.labels).to(z.dtype)
        total = torch.zeros_like(size).index_add_(0, self.labels, beta)
        return beta * (size / total.clamp(min=1e-12))[self.labels]

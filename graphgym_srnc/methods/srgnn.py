"""SRGNN: reweighted training nodes and CMD (Zhu et al., NeurIPS 2021)."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.backbones import Graph, dense
from graphgym_srnc.core.options import Count, Natural, Range, Weight
from graphgym_srnc.losses import discrepancy
from graphgym_srnc.losses.kmm import kmm_weights
from graphgym_srnc.methods.shared.scores import Scored


class SRGNN(Scored):
    r"""Train a plain GNN on reweighted labelled nodes, with the CMD of its hidden states.

    .. math:: \mathcal L = \frac{1}{M} \sum_i \beta_i \, \text{CE}(y_i, f(x_i))
        + w \, d_\text{CMD}(h_S, h_T), \qquad
        \min_\beta \tfrac12 \beta^\top K \beta + g^\top \beta

    The weights :math:`\beta_i \ge b`, with mean 1 in each class, make the labelled nodes look like
    the target by kernel mean matching. They are computed once, before training, on propagated
    features :math:`\hat A^k X`.

    Differences from the authors' code: they compare rows of the adjacency or of personalised
    PageRank, which have no columns in common between two graphs. They solve with cvxopt, here with
    projected gradients. Their GCN on small graphs has CMD alone; here every backbone has both
    parts.

    When to use: labelled nodes that are a biased sample of the same graph
    (``dataset.format localized``).

    Args:
        weight: weight :math:`w` of CMD.
        order: highest moment of CMD.
        b_min: minimum weight :math:`b`.
        hops: number :math:`k` of propagation steps.
        kernel_dim: dimension to which wide features are projected at random first.
        kernel_nodes: maximum number of training nodes to solve for; the others take the weight of
            the nearest one. 0 = all.
        target_nodes: number of target nodes for both parts, drawn once; 0 = all unlabelled ones.

    References:
        Zhu et al., "Shift-Robust GNNs: Overcoming the Limitations of Localized Graph Training
        Data", NeurIPS 2021.
    """

    search = {"weight": (0.1, 0.5, 1.0)}

    def __init__(
        self,
        *,
        weight: Weight = 1.0,
        order: Count = 5,
        b_min: Annotated[float, Range(0, 1, closed="left")] = 0.2,
        hops: Natural = 2,
        kernel_dim: Count = 128,
        kernel_nodes: Natural = 2000,
        target_nodes: Natural = 0,
        **base,
    ) -> None:
        super().__init__(**base)
        self.weight, self.order, self.b_min, self.hops = weight, order, b_min, hops
        self.kernel_dim, self.kernel_nodes = kernel_dim, kernel_nodes
        self.target_nodes = target_nodes

    def begin(self) -> None:
        self.on_target = self.target_view(self.target_nodes)
        self.beta = self.node_weights()

    def losses(self) -> dict[str, Tensor]:
        logits, source, target = self.hidden_states(bounded=True)
        each = F.cross_entropy(logits, self.labels, reduction="none")
        return {
            "source": (self.beta[self.drawn] * each).mean(),
            "cmd": self.weight * discrepancy.cmd(source, target, self.order),
        }

    @torch.no_grad()
    def node_weights(self) -> Tensor:
        r""":math:`\beta`, ``[|D^s|]``, with a mean of one over each class."""
        train, pool = self.task.train, self.task.pool
        width, projection = self.source.num_features, None
        if width > self.kernel_dim:
            projection = torch.randn(width, self.kernel_dim, device=train.device)
            projection = projection / self.kernel_dim**0.5

        def features(graph: Graph, nodes: Tensor) -> Tensor:
            x = graph.propagated("gcn", self.hops)[nodes]
            return dense(x) if projection is None else x @ projection

        z, count = features(self.source, train), len(train)
        kept = torch.arange(count, device=train.device)
        if 0 < self.kernel_nodes < count:
            kept = torch.randperm(count, device=train.device)[: self.kernel_nodes].sort().values

        # As many target nodes as training nodes, as the authors take.
        drawn = pool[torch.randperm(len(pool), device=pool.device)[: len(kept)]]
        z_target = features(self.target, drawn)
        beta = kmm_weights(z[kept], z_target, self.labels[kept], self.b_min).to(z.dtype)
        if len(kept) < count:
            nearest = [torch.cdist(rows, z[kept]).argmin(1) for rows in z.split(1024)]
            beta = beta[torch.cat(nearest)]

        size = torch.bincount(self.labels).to(z.dtype)
        total = torch.zeros_like(size).index_add_(0, self.labels, beta)
        return beta * (size / total.clamp(min=1e-12))[self.labels]

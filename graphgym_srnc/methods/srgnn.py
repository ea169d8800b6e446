"""SRGNN: reweighted training nodes and CMD (Zhu et al., NeurIPS 2021)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.utils import scatter

from graphgym_srnc.backbones import Graph
from graphgym_srnc.losses.discrepancy import cmd
from graphgym_srnc.losses.kmm import kmm_weights
from graphgym_srnc.methods.shared.aligned import Aligned

KERNEL_DIM = 128  # wide features are projected to this dimension at random
KERNEL_NODES = 2000  # weights are solved for; other training nodes take that of the nearest one


class SRGNN(Aligned):
    r"""Train a plain GNN on reweighted labelled nodes, with the CMD of its hidden states.

    .. math:: \mathcal L = \frac{1}{M} \sum_i \beta_i \, \text{CE}(y_i, f(x_i))
        + w \, d_\text{CMD}(h_S, h_T), \qquad
        \min_\beta \tfrac12 \beta^\top K \beta + g^\top \beta

    The weights :math:`\beta_i \ge 0.2`, with mean 1 in each class, make the labelled nodes look
    like the target by kernel mean matching. They are computed once, before training, on propagated
    features :math:`\hat A^2 X`.

    Differences from the authors' code: they compare rows of the adjacency or of personalised
    PageRank, which two graphs do not share. Their GCN on small graphs has CMD alone.

    When to use: labelled nodes that are a biased sample of the same graph
    (``dataset.format localized``).

    Args:
        weight: weight :math:`w` of the discrepancy.

    References:
        Zhu et al., "Shift-Robust GNNs: Overcoming the Limitations of Localized Graph Training
        Data", NeurIPS 2021.
    """

    cites = ("zhu2021srgnn",)
    with_backbone = "{}-SRGNN"
    weighs_labels = False
    term = "cmd"
    bounded = True
    discrepancy = staticmethod(cmd)
    search = {"weight": (0.1, 0.5, 1.0)}

    def begin(self) -> None:
        super().begin()
        self.beta = self.node_weights()

    def source_loss(self, logits: Tensor) -> Tensor:
        each = F.cross_entropy(logits, self.labels, reduction="none")
        return (self.beta[self.batch] * each).mean()

    @torch.no_grad()
    def node_weights(self) -> Tensor:
        r""":math:`\beta`, ``[|D^s|]``, with a mean of one over each class."""
        train = self.task.train
        pool = self.task.pool
        width = self.source.num_features
        projection = torch.eye(width, device=train.device)
        if width > KERNEL_DIM:
            projection = torch.randn(width, KERNEL_DIM, device=train.device) / KERNEL_DIM**0.5

        def features(graph: Graph, nodes: Tensor) -> Tensor:
            return graph.propagated("gcn", 2)[nodes] @ projection

        z = features(self.source, train)
        count = len(train)
        kept = torch.arange(count, device=train.device)
        if count > KERNEL_NODES:
            kept = torch.randperm(count, device=train.device)[:KERNEL_NODES].sort().values

        # As many target nodes as training nodes, as in the authors' code.
        drawn = pool[torch.randperm(len(pool), device=pool.device)[: len(kept)]]
        z_target = features(self.target, drawn)
        beta = kmm_weights(z[kept], z_target, self.labels[kept]).to(z.dtype)
        if len(kept) < count:
            nearest = [torch.cdist(rows, z[kept]).argmin(1) for rows in z.split(1024)]
            beta = beta[torch.cat(nearest)]

        size = self.labels.bincount()
        total = scatter(beta, self.labels)
        return beta * (size / total.clamp(min=1e-12))[self.labels]

"""Graph attention of Veličković et al. (ICLR 2018)."""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec, Layer
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block
from graphgym_srnc.errors import InputError


class GATLayer(Layer):
    r""":math:`\Vert_k \sum_j \alpha^k_{ij} W^k h_j + b` over neighbours and the node itself.

    .. math:: \alpha^k_{ij} \propto \exp \text{LeakyReLU}(a^k \cdot [W^k h_i, W^k h_j])

    Hidden layers concatenate ``spec.heads`` heads, the last layer has one.
    """

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__(in_dim, out_dim, spec, last)
        self.heads = 1 if last else spec.heads
        if out_dim % self.heads:
            raise InputError("hidden", out_dim, f"a multiple of the number of heads, {self.heads}")
        shape = (self.heads, out_dim // self.heads)
        self.target, self.neighbour = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape))) for _ in range(2))

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        z = (h @ self.weight).unflatten(1, (self.heads, -1))
        row, column = block.edges
        score = (block.root(z) * self.target).sum(2)[row] + (z * self.neighbour).sum(2)[column]
        score = F.leaky_relu(score, 0.2)

        # Subtracting the largest score of a row leaves its softmax as it is and keeps exp in range.
        rows = block.adjacency.shape[0]
        largest = score.new_full((rows, self.heads), -torch.inf)
        largest.scatter_reduce_(0, row[:, None].expand_as(score), score.detach(), "amax")
        weight = (score - largest[row]).exp()
        if block.drawn:
            weight = weight * block.multiplicity[:, None]

        total = weight.new_zeros(rows, self.heads).index_add(0, row, weight)
        out = z.new_zeros(rows, *z.shape[1:]).index_add(0, row, weight[..., None] * z[column])
        return (out / total[..., None]).flatten(1) + self.bias


class GAT(Encoder):
    """Layers of :class:`GATLayer`."""

    operator, layer, precompute = "loops", GATLayer, False

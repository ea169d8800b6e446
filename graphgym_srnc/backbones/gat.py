"""Graph attention network of Veličković et al. (ICLR 2018)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec, Layer, dropout
from graphgym_srnc.backbones.features import Mapped
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block
from graphgym_srnc.errors import InputError


class GATLayer(Layer):
    r"""Graph attention layer over neighbours and the node itself.

    .. math:: \Vert_k \sum_j \alpha^k_{ij} W^k h_j + b, \quad
        \alpha^k_{ij} \propto \exp \text{LeakyReLU}(a^k \cdot [W^k h_i, W^k h_j])

    Hidden layers concatenate ``spec.heads`` heads. The output layer averages ``last_heads`` heads.
    """

    last_heads = 1
    attention_dropout = 0.0

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        self.heads = self.last_heads if last else spec.heads
        width = out_dim * self.heads if last else out_dim
        if width % self.heads:
            raise InputError("hidden", out_dim, f"a multiple of the number of heads, {self.heads}")
        super().__init__(in_dim, width, spec, last)
        if last:
            self.bias = nn.Parameter(torch.zeros(out_dim))
        shape = (self.heads, width // self.heads)
        self.target, self.neighbour = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape))) for _ in range(2)
        )

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        z = h @ self.weight
        # Columns (k, 0) and (k, 1): share of a node in head k's score as target and as neighbour.
        parts = torch.block_diag(*torch.stack([self.target, self.neighbour], 2))
        part = (z @ parts).unflatten(1, (self.heads, 2))
        target, neighbour = block.root(part)[..., 0].flatten(), part[..., 1].flatten()

        # All heads together equal one head on a graph that repeats each node once per head.
        edges = block.operator.repeated(self.heads)
        score = target.index_select(0, edges.rows) + neighbour.index_select(0, edges.parts.columns)
        attention = dropout(
            edges.softmax(F.leaky_relu(score, 0.2), block.drawn),
            self.attention_dropout if self.training else 0.0,
        )
        out = edges.weighted(attention, z.view(len(neighbour), -1)).view(-1, z.size(1))
        if z.size(1) > len(self.bias):
            out = out.unflatten(1, (self.heads, -1)).mean(1)
        return out + self.bias


class GAT(Encoder):
    """Encoder with :class:`GATLayer` layers."""

    operator, layer, precompute = "loops", GATLayer, False


class GATDropLayer(GATLayer):
    """:class:`GATLayer` with dropout ``spec.dropout`` of the attention weights."""

    last_heads = 2

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__(in_dim, out_dim, spec, last)
        self.attention_dropout = spec.dropout


class GATDrop(GAT):
    """GAT with dropout of features and attention weights too, and two heads in the output layer.

    The dropout follows the authors of GAT. Their output layer has one head, or eight on PubMed;
    that of UAGA has two.
    """

    layer = GATDropLayer

    def layer_output(self, i: int, hidden: Sparse | Tensor | Mapped, block: Block) -> Tensor:
        if i == 0 and self.training:
            p = self.spec.dropout
            hidden = (
                _Dropped(hidden, p)
                if isinstance(hidden, Sparse)
                else dropout(cast(Tensor, hidden), p)
            )
        return super().layer_output(i, hidden, block)


class _Dropped(Sparse):
    """Sparse matrix with dropout of its entries, for products with weights."""

    def __init__(self, matrix: Sparse, p: float) -> None:
        self.whole, self.values = matrix, dropout(matrix.parts.values, p)

    def __matmul__(self, weight: Tensor) -> Tensor:
        return self.whole.weighted(self.values, weight)

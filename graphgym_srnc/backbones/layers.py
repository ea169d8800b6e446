"""Layers and their encoders: GCN, GraphSAGE, MLP, SGC and GAT."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec, Layer, dropout
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View
from graphgym_srnc.errors import InputError


class GCNLayer(Layer):
    r"""Graph convolution :math:`\tilde D^{-1/2}(A+I)\tilde D^{-1/2} H W + b`."""

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        return block.propagate(h, self.weight).add_(self.bias)


class GCN(Encoder):
    """Graph convolutional network of Kipf and Welling (ICLR 2017)."""

    operator = "gcn"
    layer = GCNLayer


class SAGELayer(Layer):
    r"""GraphSAGE layer :math:`D^{-1}A H W + H W_\text{root} + b`."""

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__(in_dim, out_dim, spec, last)
        self.root_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_dim, out_dim)))

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        out = block.propagate(h, self.weight).add_(block.root(h) @ self.root_weight)
        return out.add_(self.bias)


class SAGE(Encoder):
    """GraphSAGE with mean aggregation, of Hamilton, Ying and Leskovec (NeurIPS 2017)."""

    operator = "mean"
    layer = SAGELayer


class LinearLayer(Layer):
    """Linear layer :math:`H W + b`."""

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        return h @ self.weight + self.bias


class MLP(Encoder):
    """Perceptron on the rows of :meth:`inputs`, a baseline that ignores the edges."""

    layer = LinearLayer
    local = True

    def inputs(self, graph: Graph) -> Sparse | Tensor:
        """Input of the first layer for all nodes, ``[V, in_dim]``."""
        return graph.x

    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        x = self.inputs(graph)
        return View(x if nodes is None else x[nodes], [Block()] * len(self.layers))


class SGC(MLP):
    r"""Simple graph convolution :math:`\hat A^K X W + b` of Wu et al. (ICML 2019).

    :math:`K` is ``spec.layers``, and the smoothed features are cached.
    """

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        super().__init__(replace(spec, layers=1), in_dim, out_dim)
        self.power = spec.layers

    def inputs(self, graph: Graph) -> Sparse | Tensor:
        return graph.propagated("gcn", self.power)


class GATLayer(Layer):
    r"""Graph attention layer over neighbours and the node itself, of Veličković et al. (ICLR 2018).

    .. math:: \Vert_k \sum_j \alpha^k_{ij} W^k h_j + b, \quad
        \alpha^k_{ij} \propto \exp \text{LeakyReLU}(a^k \cdot [W^k h_i, W^k h_j])

    Hidden layers concatenate ``spec.heads`` heads. The output layer averages ``last_heads`` heads.
    """

    last_heads = 1
    drops = False

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        self.heads = self.last_heads if last else spec.heads
        width = out_dim * self.heads if last else out_dim
        if width % self.heads:
            raise InputError("hidden", out_dim, f"a multiple of the number of heads, {self.heads}")
        super().__init__(in_dim, width, spec, last)
        if last:
            self.bias = nn.Parameter(torch.zeros(out_dim))
        self.attention_dropout = spec.dropout if self.drops else 0.0
        shape = (self.heads, width // self.heads)
        self.target, self.neighbour = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape))) for _ in range(2)
        )

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        z = h @ self.weight
        # Columns (k, 0) and (k, 1): share of a node in head k's score as target and as neighbour.
        parts = torch.block_diag(*torch.stack([self.target, self.neighbour], 2))
        part = (z @ parts).unflatten(1, (self.heads, 2))
        target = block.root(part)[..., 0].flatten()
        neighbour = part[..., 1].flatten()

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
    """Encoder with :class:`GATLayer` layers, whose attention ignores the weights of edges.

    So does PyG's ``GATConv``, which can read them only as a feature of edges (``edge_dim``).
    """

    operator = "loops"
    layer = GATLayer
    precompute = False
    reads_weights = False


class GATDropLayer(GATLayer):
    """:class:`GATLayer` with dropout ``spec.dropout`` of the attention weights."""

    last_heads = 2
    drops = True


class GATDrop(GAT):
    """GAT with dropout of features and attention weights too, and two heads in the output layer.

    The dropout follows the authors of GAT. Their output layer has one head, or eight on PubMed;
    that of UAGA has two.
    """

    layer = GATDropLayer

    def layer_output(self, i: int, hidden: Sparse | Tensor, block: Block) -> Tensor:
        if i == 0 and self.training:
            drop = _Dropped if isinstance(hidden, Sparse) else dropout
            hidden = drop(cast(Any, hidden), self.spec.dropout)
        return super().layer_output(i, hidden, block)


class _Dropped(Sparse):
    """Sparse matrix with dropout of its entries, for products with weights."""

    def __init__(self, matrix: Sparse, p: float) -> None:
        self.whole = matrix
        self.values = dropout(matrix.parts.values, p)

    def __matmul__(self, weight: Tensor) -> Tensor:
        return self.whole.weighted(self.values, weight)

"""Layers without attention and their encoders: GCN, GraphSAGE, MLP and SGC."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec, Layer
from graphgym_srnc.backbones.features import Mapped
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View


class GCNLayer(Layer):
    r"""Graph convolution :math:`\tilde D^{-1/2}(A+I)\tilde D^{-1/2} H W + b`."""

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        return block.propagate(h, self.weight).add_(self.bias)


class GCN(Encoder):
    """Graph convolutional network of Kipf and Welling (ICLR 2017)."""

    operator, layer = "gcn", GCNLayer


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

    operator, layer = "mean", SAGELayer


class LinearLayer(Layer):
    """Linear layer :math:`H W + b`."""

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        return h @ self.weight + self.bias


class MLP(Encoder):
    """Perceptron on the rows of :meth:`inputs`, a baseline that ignores the edges."""

    layer, local = LinearLayer, True

    def inputs(self, graph: Graph) -> Sparse | Tensor | Mapped:
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

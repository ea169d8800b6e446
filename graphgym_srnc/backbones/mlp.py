"""Multi-layer perceptron, a baseline that ignores the edges."""

from __future__ import annotations

from torch import Tensor

from graphgym_srnc.backbones.encoder import Encoder, Layer
from graphgym_srnc.backbones.features import Mapped
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View


class LinearLayer(Layer):
    """Linear layer :math:`H W + b`."""

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        return h @ self.weight + self.bias


class MLP(Encoder):
    """Encoder with :class:`LinearLayer` layers on the rows of :meth:`inputs`."""

    layer, local = LinearLayer, True

    def inputs(self, graph: Graph) -> Sparse | Tensor | Mapped:
        """Input of the first layer for all nodes, ``[V, in_dim]``."""
        return graph.x

    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        x = self.inputs(graph)
        return View(x if nodes is None else x[nodes], [Block()] * len(self.layers))

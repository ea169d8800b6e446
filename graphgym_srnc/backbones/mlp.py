"""A multi-layer perceptron: the control that never looks at an edge."""
from __future__ import annotations

from torch import Tensor

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec, Weight
from graphgym_srnc.backbones.graph import Block, Graph, View
from graphgym_srnc.backbones.sparse import Sparse


class LinearLayer(Weight):
    """:math:`H W + b`."""

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__(in_dim, out_dim)

    def forward(self, h: Sparse | Tensor, block: Block | None) -> Tensor:
        return h @ self.weight + self.bias


class _Own(Block):
    """A node's own state is all that a layer reads."""

    def __init__(self) -> None:
        super().__init__(adjacency=None)


class MLP(Encoder):
    """Layers of :class:`LinearLayer`."""

    layer, local = LinearLayer, True

    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        return View(graph.x if nodes is None else graph.x[nodes], [_Own()] * len(self.layers))

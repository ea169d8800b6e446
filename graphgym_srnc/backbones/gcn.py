"""Graph convolution of Kipf and Welling (ICLR 2017)."""
from __future__ import annotations

from torch import Tensor

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec, Weight
from graphgym_srnc.backbones.graph import Block
from graphgym_srnc.backbones.sparse import Sparse


class GCNLayer(Weight):
    r""":math:`\tilde D^{-1/2}(A+I)\tilde D^{-1/2} H W + b`."""

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__(in_dim, out_dim)

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        return block.propagate(h, self.weight).add_(self.bias)


class GCN(Encoder):
    """Layers of :class:`GCNLayer`."""

    operator, layer = "gcn", GCNLayer

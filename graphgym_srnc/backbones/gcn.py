"""Graph convolutional network of Kipf and Welling (ICLR 2017)."""

from __future__ import annotations

from torch import Tensor

from graphgym_srnc.backbones.encoder import Encoder, Layer
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block


class GCNLayer(Layer):
    r"""Graph convolution :math:`\tilde D^{-1/2}(A+I)\tilde D^{-1/2} H W + b`."""

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        return block.propagate(h, self.weight).add_(self.bias)


class GCN(Encoder):
    """Encoder with :class:`GCNLayer` layers."""

    operator, layer = "gcn", GCNLayer

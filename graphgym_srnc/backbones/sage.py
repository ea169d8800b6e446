"""GraphSAGE with mean aggregation, of Hamilton, Ying and Leskovec (NeurIPS 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec, Layer
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block


class SAGELayer(Layer):
    r"""GraphSAGE layer :math:`D^{-1}A H W + H W_\text{root} + b`."""

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__(in_dim, out_dim, spec, last)
        self.root_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_dim, out_dim)))

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        out = block.propagate(h, self.weight).add_(block.root(h) @ self.root_weight)
        return out.add_(self.bias)


class SAGE(Encoder):
    """Encoder with :class:`SAGELayer` layers."""

    operator, layer = "mean", SAGELayer

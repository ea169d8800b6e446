"""Features of a node beside those of its neighbourhood (SIGN), for a perceptron."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones.encoder import EncoderSpec
from graphgym_srnc.backbones.graph import Graph, PerGraph
from graphgym_srnc.backbones.layers import MLP, LinearLayer
from graphgym_srnc.backbones.sparse import Sparse, dense
from graphgym_srnc.backbones.view import Block

HOPS = 2  # number of neighbourhoods beside a node's own features
WIDE = 300  # number of features above which they are reduced
REDUCED = 256  # number of features to which they are reduced
SWEEPS = 4  # power iterations of the truncated singular value decomposition
LARGE = 100_000  # nodes above which a sample of these is decomposed, and numbers have 16 bits


class HopLayer(LinearLayer):
    """Linear layer of features that may be stored in half precision."""

    def forward(self, h: Sparse | Tensor, block: Block) -> Tensor:
        return super().forward(cast(Tensor, h).to(self.weight.dtype), block)


class SIGN(MLP):
    r"""Perceptron on :math:`[x, D^{-1}A x, (D^{-1}A)^2 x]` of Frasca et al. (2020).

    The rows of each part have length 1. More than 300 features are first reduced to 256 by a
    truncated singular value decomposition of the target's features.
    """

    layer = HopLayer

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        base = HopFeatures(in_dim) if spec.base is None else spec.base
        super().__init__(spec, cast(HopFeatures, base).out_dim, out_dim)
        self.base = cast(HopFeatures, base)

    @staticmethod
    def pretrain(spec: EncoderSpec, target: Graph) -> HopFeatures:
        """The reduction of features that all encoders of a run share."""
        features = HopFeatures(target.num_features).to(target.device)
        features.fit(target)
        return features

    def inputs(self, graph: Graph) -> Tensor:
        return self.base(graph)


class HopFeatures(nn.Module):
    """Features of nodes and means over their neighbourhoods, each part of length 1."""

    components: Tensor

    def __init__(self, in_dim: int) -> None:
        super().__init__()
        self.reduces = in_dim > WIDE
        width = REDUCED if self.reduces else in_dim
        self.out_dim = (1 + HOPS) * width
        self.register_buffer("components", torch.zeros((in_dim, width) if self.reduces else (0,)))
        self.cached = PerGraph()

    @torch.no_grad()
    def fit(self, graph: Graph) -> None:
        """Find the leading right singular vectors of a graph's features, if there are many."""
        if not self.reduces:
            return
        x = graph.x
        if graph.num_nodes > LARGE:
            x = x[:: -(-graph.num_nodes // LARGE)]
        generator = torch.Generator().manual_seed(0)
        found = torch.randn(x.shape[1], REDUCED, generator=generator).to(graph.device)
        found = torch.linalg.qr(found).Q
        back = x.transposed_product if isinstance(x, Sparse) else x.T.__matmul__
        for _ in range(SWEEPS):
            found = torch.linalg.qr(back(x @ found)).Q
        self.components.copy_(found)

    @torch.no_grad()
    def forward(self, graph: Graph) -> Tensor:
        """Hop features of all nodes of a graph, ``[V, out_dim]``."""
        if graph not in self.cached:
            x = graph.x @ self.components if self.reduces else dense(graph.x)
            dtype = torch.half if len(x) > LARGE else x.dtype
            found = x.new_empty(len(x), self.out_dim, dtype=dtype)
            for hop, part in enumerate(found.split(x.size(1), 1)):
                x = graph.adjacency("mean") @ x if hop else x
                F.normalize(x, out=part)
            self.cached[graph] = found
        return self.cached[graph]

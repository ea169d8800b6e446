"""Simple graph convolution of Wu et al. (ICML 2019): logistic regression on smoothed features."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from graphgym_srnc.backbones.encoder import EncoderSpec
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.mlp import MLP
from graphgym_srnc.backbones.sparse import Sparse


class SGC(MLP):
    r"""Simple graph convolution :math:`\hat A^K X W + b` with :math:`K` = ``spec.layers``.

    The smoothed features are cached.
    """

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        super().__init__(replace(spec, layers=1), in_dim, out_dim)
        self.power = spec.layers

    def inputs(self, graph: Graph) -> Sparse | Tensor:
        return graph.propagated("gcn", self.power)

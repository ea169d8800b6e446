"""Simple graph convolution of Wu et al. (ICML 2019): logistic regression on smoothed features."""
from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec
from graphgym_srnc.backbones.graph import Graph, View
from graphgym_srnc.backbones.mlp import LinearLayer, _Own


class SGC(Encoder):
    r""":math:`\hat A^K X W + b` with :math:`K` = ``spec.layers``; the smoothed features are made once a graph."""

    layer, local = LinearLayer, True

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        super().__init__(replace(spec, layers=1), in_dim, out_dim)
        self.power = spec.layers

    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        x = graph.propagated("gcn", self.power)
        return View(x if nodes is None else x[nodes], [_Own()])

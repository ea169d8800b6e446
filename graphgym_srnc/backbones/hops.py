"""Encoder with several propagation steps per hidden layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from torch import Tensor, nn

from graphgym_srnc.backbones.encoder import Encoder, EncoderSpec
from graphgym_srnc.backbones.gcn import GCNLayer
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.mlp import MLP
from graphgym_srnc.backbones.view import Block, View


class HopEncoder(Encoder):
    r"""Encoder with k propagation steps in each hidden layer and a GCN output layer.

    .. math:: h \leftarrow \text{act}(\hat A^k h W + b)

    The first map :math:`h W + b` may be a layer of any kind; its bias is added after the
    propagation.

    Args:
        spec: the encoder specification; ``layers`` includes the output layer, and 1 is treated as
            2.
        first: builds the first layer for a given output width.
        out_dim: number of logits.
        hops: default of :math:`k` in :meth:`view`.

    References:
        Liu et al. (AAAI 2024), with one hidden layer.
    """

    layer = GCNLayer

    def __init__(
        self, spec: EncoderSpec, first: Callable[[int], Encoder], out_dim: int, hops: int
    ) -> None:
        super().__init__(replace(spec, layers=1), spec.hidden, out_dim)
        plain = replace(spec, layers=1)
        others = (MLP(plain, spec.hidden, spec.hidden) for _ in range(spec.layers - 2))
        self.parts = nn.ModuleList([first(spec.hidden), *others])
        self.hops, self.hidden_dim = hops, spec.hidden

    def view(self, graph: Graph, nodes: Tensor | None = None, hops: int | None = None) -> View:
        first, hop = self.parts[0].view(graph), Block(graph.adjacency("gcn"))
        hops = self.hops if hops is None else hops
        blocks = [*first.blocks, *[hop] * hops]
        for _ in self.parts[1:]:
            blocks += [Block(), *[hop] * hops]
        return View(first.x, [*blocks, hop if nodes is None else hop.rows(nodes)])

    def embed(self, view: View) -> tuple[Tensor, Tensor]:
        """Logits ``[n, out_dim]`` of a view's nodes, and hidden state ``[V, H]`` of all nodes."""
        return self._run(view)

    def _run(self, view: View) -> tuple[Tensor, Tensor]:
        *blocks, last = view.blocks
        each = len(blocks) // len(self.parts)
        h = view.x
        for i, part in enumerate(self.parts):
            own, *hops = blocks[i * each : (i + 1) * each]
            out, bias = part(View(h, [own])) - part.output_bias, part.output_bias
            for block in hops:
                out = block.adjacency @ out
            h = self._activated(out + bias)
        return self.layers[0](h, last), h

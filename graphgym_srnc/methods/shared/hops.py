"""Methods that propagate a different number of times on the source and on the target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Mapping

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphgym_srnc.backbones import MLP, Block, Encoder, EncoderSpec, GCNLayer, Graph, View, build
from graphgym_srnc.core.options import Steps
from graphgym_srnc.methods.shared.aligned import Aligned


class HopEncoder(Encoder):
    r"""Encoder with k propagation steps in each hidden layer and a GCN output layer.

    .. math:: h \leftarrow \text{act}(\hat A^k h W + b)

    The first map :math:`h W + b` may be a layer of any kind; its bias is added after the
    propagation. There is a hidden layer or more. ``hops`` is the default of :math:`k`.
    """

    layer = GCNLayer
    parts: Any  # encoders with one layer, one for each hidden layer

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int, hops: int) -> None:
        plain = replace(spec, layers=1)
        width = spec.hidden
        super().__init__(plain, width, out_dim)
        first = build(plain, in_dim, width)
        others = [MLP(plain, width, width) for _ in range(spec.layers - 2)]
        self.parts = nn.ModuleList([first, *others])
        self.hops = hops
        self.hidden_dim = width

    def view(self, graph: Graph, nodes: Tensor | None = None, hops: int | None = None) -> View:
        first = self.parts[0].view(graph)
        hop = Block(graph.adjacency("gcn"))
        hops = self.hops if hops is None else hops
        blocks = [*first.blocks, *[hop] * hops]
        for _ in self.parts[1:]:
            blocks += [Block(), *[hop] * hops]
        return View(first.x, [*blocks, hop if nodes is None else hop.rows(nodes)])

    def _run(
        self, view: View, between: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits ``[n, out_dim]`` of a view's nodes, and hidden state ``[V, H]`` of all nodes."""
        *blocks, last = view.blocks
        each = len(blocks) // len(self.parts)
        x = view.x
        for i, part in enumerate(self.parts):
            own, *hops = blocks[i * each : (i + 1) * each]
            out = part(View(x, [own])) - part.output_bias
            for block in hops:
                out = block.operator @ out
            x = h = self._activated(out + part.output_bias)
        return self.layers[0](h, last), h


class HopMethod(Aligned):
    """Base class of methods with a :class:`HopEncoder`.

    Args:
        source_hops, target_hops: propagation steps of a hidden layer on source and target.
    """

    classifier: HopEncoder
    in_batches = False
    encoder_defaults: Mapping[str, Any] = {"kind": "mlp", "features": "none", "hidden": 128}

    def __init__(self, *, source_hops: Steps, target_hops: Steps = 10, **base: Any) -> None:
        super().__init__(**base)
        self.source_hops = source_hops
        self.target_hops = target_hops

    def new_classifier(self, num_outputs: int) -> HopEncoder:
        return HopEncoder(self.encoder, self.task.num_features, num_outputs, self.target_hops)

    def begin(self) -> None:
        self.on_source = self.classifier.view(self.source, hops=self.source_hops)
        self.on_target = self.classifier.view(self.target)

    def embed(self, view: View) -> tuple[Tensor, Tensor]:
        """Logits and hidden states of training nodes, or of the target's pool."""
        nodes = self.task.train if view is self.on_source else self.task.pool
        logits, states = self.classifier.embed(view)
        return logits[nodes], states[nodes]

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        hops = self.source_hops if role == "source" else self.target_hops
        return self.classifier.eval()(self.classifier.view(self.prepared(graph), hops=hops))

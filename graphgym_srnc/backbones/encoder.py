"""What all encoders share: the stack of layers, hidden activations, and views of the graph."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones.graph import Block, Graph, View, make_view
from graphgym_srnc.backbones.sampling import draw_view
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.errors import InputError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu, "selu": F.selu, "elu": F.elu, "tanh": torch.tanh, "swish": F.silu,
    "lrelu_01": lambda h: F.leaky_relu(h, 0.1), "identity": lambda h: h,
}


def dropout(h: Tensor, p: float) -> Tensor:
    """Zero each entry with probability ``p`` (in steps of 1/256) and scale the others up; seven times faster than torch's on CPU.

    One random byte an entry decides, and random bytes come eight at a time.
    """
    cut = min(round(p * 256), 255)
    if cut == 0:
        return h
    words = torch.empty((h.numel() + 7) // 8, dtype=torch.int64, device=h.device).random_(-2 ** 63, None)
    # Written as numbers at once: a mask of booleans takes five times as long to make and to convert.
    kept = torch.ge(words.view(torch.uint8)[:h.numel()].view(h.shape), cut, out=torch.empty_like(h))
    return h * kept.mul_(256 / (256 - cut))


@dataclass(frozen=True)
class EncoderSpec:
    """A recipe for encoders; a method builds as many as it needs.

    Args:
        kind: ``gcnconv``, ``sageconv``, ``gatconv``, ``sgconv``, ``mlp``, or a name that ``make`` understands.
        layers: number of layers; the last one gives the logits.
        hidden: width :math:`H` of the hidden layers.
        dropout: dropout on hidden layers.
        act: activation of hidden layers, a key of ``ACTIVATIONS``.
        heads: attention heads of ``gatconv``; ``hidden`` is shared among them.
        features: how features are scaled: ``row``, ``l2``, ``auto`` or ``none``, see :class:`Graph`.
        skip: add a linear map of a node's own hidden state to each layer but the first.
        make: builds an encoder of another kind from ``(spec, in_dim, out_dim)``.
        base: what :func:`graphgym_srnc.backbones.pretrained` puts under the encoder, e.g. a trained DGI.
    """

    kind: str = "gcnconv"
    layers: int = 2
    hidden: int = 256
    dropout: float = 0.5
    act: str = "relu"
    heads: int = 8
    features: str = "row"
    skip: bool = False
    make: "Callable[[EncoderSpec, int, int], Encoder] | None" = None
    base: nn.Module | None = None


class Encoder(nn.Module):
    """A stack of message-passing layers whose last one gives the logits.

    ``forward(view)`` returns logits ``[n, out_dim]`` of the nodes of a view; :meth:`embed` returns the last hidden state
    ``[n, hidden_dim]`` beside them. A view is made once for a set of nodes and serves any number of steps.
    Subclasses name their ``operator`` (see :meth:`Graph.adjacency`) and their ``layer``, a module
    ``layer(in_dim, out_dim, spec, last)`` with ``forward(h, block)``.
    """

    operator: str = "gcn"
    layer: type[nn.Module]
    precompute: bool = True
    """Whether layers read their input through :meth:`Block.propagate` and :meth:`Block.root` alone."""
    local: bool = False
    """Whether layers read a node's own row alone, so that rows of a view of all nodes are a view of some."""

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.spec = spec
        widths = [in_dim] + [spec.hidden] * (spec.layers - 1) + [out_dim]
        self.layers = nn.ModuleList(type(self).layer(a, b, spec, i == spec.layers - 1) for i, (a, b) in enumerate(zip(widths, widths[1:])))
        self.skips = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip(widths[1:-1], widths[2:])) if spec.skip else None
        self.act = ACTIVATIONS[spec.act]
        self.hidden_dim = spec.hidden if len(self.layers) > 1 else out_dim

    @property
    def output_bias(self) -> Tensor:
        """The bias of the logits, ``[out_dim]``."""
        return self.layers[-1].bias

    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        """The part of a graph that the logits of ``nodes`` ``[n]`` depend on (None = all nodes)."""
        return make_view(graph, self.operator, len(self.layers), nodes, self.precompute)

    def sample(self, graph: Graph, nodes: Tensor, fanout: int) -> View:
        """A view of ``nodes`` ``[n]`` with at most ``fanout`` (0 = all) drawn neighbours a node and layer, another one at each call.

        Raises:
            InputError: the encoder makes views of its own, as GraphGym's layers do, which read the whole graph.
        """
        if type(self).view is not Encoder.view:
            raise InputError("gnn.layer_type", self.spec.kind, "a layer of the fast path, where batch_size is above 0")
        return draw_view(graph, self.operator, len(self.layers), nodes, fanout, self.precompute)

    def forward(self, view: View) -> Tensor:
        return self._run(view)[0]

    def embed(self, view: View) -> tuple[Tensor, Tensor]:
        """Logits ``[n, out_dim]`` and last hidden state ``[n, H]``, after activation and dropout, of the nodes of a view.

        An encoder of one layer has no hidden state; its logits stand in for it.
        """
        out, hidden = self._run(view)
        return out, view.blocks[-1].root(hidden) if len(self.layers) > 1 else out

    def _run(self, view: View) -> tuple[Tensor, Tensor]:
        """Logits, and the input of the last layer."""
        hidden, out = view.x, None
        for i, block in enumerate(view.blocks):
            if i > 0:
                hidden = dropout(self.act(out), self.spec.dropout if self.training else 0.0)
            out = self.layer_output(i, hidden, block)
        return out, hidden

    def layer_output(self, i: int, hidden: "Sparse | Tensor", block: Block) -> Tensor:
        """What layer i makes of its input ``[n_in, K]``, with the self-skip if there is one, before the activation."""
        out = self.layers[i](hidden, block)
        return out + self.skips[i - 1](block.root(hidden)) if i > 0 and self.skips is not None else out


class Weight(nn.Module):
    """A weight matrix ``[in_dim, out_dim]`` (Glorot uniform) and a bias ``[out_dim]`` (zero)."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_dim, out_dim)))
        self.bias = nn.Parameter(torch.zeros(out_dim))

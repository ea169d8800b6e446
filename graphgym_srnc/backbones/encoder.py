"""What all encoders share: their recipe, the stack of layers, hidden activations and dropout."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones.features import FEATURES
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sampling import draw_view
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View, make_view
from graphgym_srnc.errors import InputError
from graphgym_srnc.options import Count, OneOf, Range, check

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu, "selu": F.selu, "elu": F.elu, "tanh": torch.tanh, "swish": F.silu,
    "lrelu_01": lambda h: F.leaky_relu(h, 0.1), "identity": lambda h: h,
}


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """A recipe for encoders; a method builds as many as it needs.

    Args:
        kind: a key of ``BACKBONES``, or a name that ``make`` understands.
        layers: number of layers; the last one gives the logits.
        hidden: width :math:`H` of the hidden layers.
        dropout: dropout on hidden layers.
        act: activation of hidden layers.
        heads: attention heads of ``gatconv`` and ``gatdrop``; ``hidden`` is shared among them.
        features: how features are scaled, see :class:`Graph`.
        skip: add a linear map of a node's own hidden state to each layer but the first.
        make: builds an encoder of another kind from ``(spec, in_dim, out_dim)``.
        base: what :func:`graphgym_srnc.backbones.pretrained` puts under the encoder, e.g. a DGI.

    Raises:
        InputError: names a field whose value is out of its range.
    """

    kind: str = "gcnconv"
    layers: Count = 2
    hidden: Count = 256
    dropout: Annotated[float, Range(0, 1, closed="left")] = 0.5
    act: Annotated[str, OneOf(*ACTIVATIONS)] = "relu"
    heads: Count = 8
    features: Annotated[str, OneOf(*FEATURES)] = "row"
    skip: bool = False
    make: Callable[[EncoderSpec, int, int], Encoder] | None = None
    base: nn.Module | None = None

    def __post_init__(self) -> None:
        # Whoever makes layers of other kinds knows other activations too.
        check(EncoderSpec, {key: value for key, value in vars(self).items()
                            if key != "act" or self.make is None})


class Encoder(nn.Module):
    """A stack of message-passing layers whose last one gives the logits.

    A view is made once for a set of nodes and serves any number of steps. A subclass names its
    ``operator`` (see :meth:`Graph.adjacency`) and its ``layer``, a module that is made with
    ``layer(in_dim, out_dim, spec, last)`` and has ``forward(h, block)``.
    """

    operator: str = "gcn"
    layer: type[nn.Module]
    precompute: bool = True
    """Whether layers read their input by :meth:`Block.propagate` and :meth:`Block.root` alone."""
    registered: bool = False
    """Whether its layers are registered elsewhere, so that the recipe alone cannot make them."""
    local: bool = False
    """Whether layers read each node's own row alone: rows of a view of all are a view of some."""

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.spec = spec
        widths = [in_dim] + [spec.hidden] * (spec.layers - 1) + [out_dim]
        self.layers = nn.ModuleList(
            type(self).layer(a, b, spec, i == spec.layers - 1)
            for i, (a, b) in enumerate(zip(widths, widths[1:])))
        skipped = zip(widths[1:-1], widths[2:]) if spec.skip else ()
        self.skips = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in skipped)
        if not self.registered:
            check(EncoderSpec, {"act": spec.act})
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
        """A view of ``nodes`` ``[n]`` with newly drawn neighbours at each call.

        Args:
            fanout: at most so many neighbours a node and layer; 0 = all.

        Raises:
            InputError: the encoder makes views of its own, which read the whole graph.
        """
        if type(self).view is not Encoder.view:
            raise InputError("kind", self.spec.kind,
                             "a layer of the fast path, where batch_size is above 0")
        return draw_view(graph, self.operator, len(self.layers), nodes, fanout, self.precompute)

    def forward(self, view: View) -> Tensor:
        """Logits ``[n, out_dim]`` of the nodes of a view."""
        return self._run(view)[0]

    def embed(self, view: View,
              between: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Logits ``[n, out_dim]`` and last hidden state ``[n, H]`` of the nodes of a view.

        The state is that after activation and dropout. An encoder of one layer has none; its
        logits stand in for it.

        Args:
            view: what to read.
            between: what the last layer reads instead of that state, made of it, such as the same
                with a reversed gradient; an encoder of one layer does not ask.
        """
        out, hidden = self._run(view, between)
        return out, view.blocks[-1].root(hidden) if len(self.layers) > 1 else out

    def _run(self, view: View,
             between: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Logits, and the input of the last layer before ``between``."""
        hidden, out = view.x, None
        for i, block in enumerate(view.blocks):
            if i > 0:
                hidden = self._activated(out)
            last = 0 < i == len(view.blocks) - 1
            read = between(hidden) if last and between is not None else hidden
            out = self.layer_output(i, read, block)
        return out, hidden

    def _activated(self, out: Tensor) -> Tensor:
        """Activation and, in training, dropout of what a hidden layer gave, ``[n, H]``."""
        p = self.spec.dropout if self.training else 0.0
        if self.act is torch.relu and _cut(p):
            return _DroppedRelu.apply(out, p)
        return dropout(self.act(out), p)

    def layer_output(self, i: int, hidden: Sparse | Tensor, block: Block) -> Tensor:
        """What layer i and its skip make of an input ``[n_in, K]``, before the activation."""
        out = self.layers[i](hidden, block)
        return out + self.skips[i - 1](block.root(hidden)) if i > 0 and self.skips else out


class Layer(nn.Module):
    """A weight matrix ``[in_dim, out_dim]`` (Glorot uniform) and a bias ``[out_dim]`` (zero).

    Args:
        spec: the recipe of the encoder.
        last: whether the layer gives the logits.
    """

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_dim, out_dim)))
        self.bias = nn.Parameter(torch.zeros(out_dim))


def dropout(h: Tensor, p: float) -> Tensor:
    """Zero each entry with probability ``p``, in steps of 1/256, and scale the others up.

    One random byte an entry decides, and random bytes come eight at a time: on the CPU that is
    seven times faster than torch's own.
    """
    cut = _cut(p)
    return h * _drawn_scale(h, cut) if cut else h


class _DroppedRelu(torch.autograd.Function):
    """``dropout(relu(h), p)`` to the digit, whose backward pass reads the result alone.

    The two would make and keep three matrices of its size.
    """

    @staticmethod
    def forward(ctx, h: Tensor, p: float) -> Tensor:
        cut = _cut(p)
        ctx.scale = 256 / (256 - cut)
        out = _drawn_scale(h, cut).mul_(h).clamp_min_(0)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.saved_tensors[0].sign().mul_(gradient).mul_(ctx.scale), None


def _cut(p: float) -> int:
    """How many of the 256 values of a byte drop an entry."""
    return min(round(p * 256), 255)


def _drawn_scale(h: Tensor, cut: int) -> Tensor:
    """What each entry of a state is multiplied by: 0 where it is dropped."""
    words = torch.empty((h.numel() + 7) // 8, dtype=torch.int64, device=h.device)
    draws = words.random_(-2 ** 63, None).view(torch.uint8)[:h.numel()].view(h.shape)
    # Written as numbers at once: a mask of booleans takes five times as long to make and convert.
    kept = torch.ge(draws, cut, out=torch.empty_like(h))
    return kept.mul_(256 / (256 - cut))

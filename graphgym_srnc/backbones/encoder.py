"""Base class of encoders: specification, stack of layers, activations and dropout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Callable, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sampling import draw_view
from graphgym_srnc.backbones.scaling import FEATURES
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View, make_view
from graphgym_srnc.core.options import Count, Few, OneOf, Range, check
from graphgym_srnc.errors import InputError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "selu": F.selu,
    "elu": F.elu,
    "tanh": torch.tanh,
    "swish": F.silu,
    "lrelu_01": lambda h: F.leaky_relu(h, 0.1),
    "identity": lambda h: h,
}


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """Specification from which a method builds its encoders.

    Args:
        kind: type of the layers, such as ``gcnconv``.
        layers: number of layers, including the output layer.
        hidden: width of the hidden layers.
        dropout: dropout probability of the hidden layers.
        act: activation of the hidden layers.
        heads: number of attention heads, which share the ``hidden`` units.
        features: feature scaling, see :class:`Graph`.
        skip: whether to add a linear map of a node's hidden state to each layer but the first.
        make: builds an encoder of another kind from ``(spec, in_dim, out_dim)``.
        base: pretrained base of the encoder, see :func:`graphgym_srnc.backbones.pretrained`.

    Raises:
        InputError: the value of a field is out of range.
    """

    kind: str = "gcnconv"
    layers: Few = 2
    hidden: Count = 256
    dropout: Annotated[float, Range(0, 1, closed="left")] = 0.5
    act: Annotated[str, OneOf(*ACTIVATIONS)] = "relu"
    heads: Count = 8
    features: Annotated[str, OneOf(*FEATURES)] = "row"
    skip: bool = False
    make: Callable[[EncoderSpec, int, int], Encoder] | None = None
    base: nn.Module | None = None

    def __post_init__(self) -> None:
        # Custom layers may support other activations.
        custom = {"act"} if self.make is not None else set()
        check(EncoderSpec, {key: vars(self)[key] for key in vars(self).keys() - custom})


class Encoder(nn.Module):
    """Stack of message-passing layers whose last layer outputs the logits.

    A view is made once for a set of nodes and is reused in many steps. A subclass sets its
    ``operator`` (see :meth:`Graph.adjacency`) and its ``layer``. The latter is a module constructed
    as ``layer(in_dim, out_dim, spec, last)`` with a method ``forward(h, block)``.
    """

    operator: str = "gcn"
    layer: type[nn.Module]
    precompute: bool = True
    """Whether layers access input only through :meth:`Block.propagate` and :meth:`Block.root`."""
    reads_weights: bool = True
    """Whether the layers read the weights of edges."""
    registered: bool = False
    """Whether the layers are registered elsewhere, so that the specification cannot build them."""
    local: bool = False
    """Whether an output depends only on the node's own row."""

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.spec = spec
        self.widths = widths = [in_dim] + [spec.hidden] * (spec.layers - 1) + [out_dim]
        self.layers = nn.ModuleList(
            type(self).layer(a, b, spec, i == spec.layers - 1)
            for i, (a, b) in enumerate(zip(widths, widths[1:]))
        )
        skipped = zip(widths[1:-1], widths[2:]) if spec.skip else ()
        self.skips = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in skipped)
        if not self.registered:
            check(EncoderSpec, {"act": spec.act})
            self.act = ACTIVATIONS[spec.act]
        self.hidden_dim = spec.hidden if len(self.layers) > 1 else out_dim

    @property
    def output_bias(self) -> Tensor:
        """Bias of the logits, ``[out_dim]``."""
        return cast(Tensor, self.layers[-1].bias)

    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        """Part of a graph that the logits of ``nodes`` ``[n]`` depend on; None = all nodes."""
        return make_view(graph, self.operator, len(self.layers), nodes, self.precompute)

    def sample(self, graph: Graph, nodes: Tensor, fanout: int) -> View:
        """View of nodes ``[n]`` with at most ``fanout`` newly sampled neighbours; 0 = all.

        Raises:
            InputError: the encoder has its own views, which need the whole graph.
        """
        if type(self).view is not Encoder.view:
            raise InputError.plain(
                "kind",
                f"the layer {self.spec.kind} cannot be trained in batches",
                "Set batch_size to 0, or use a layer of this package",
            )
        return draw_view(graph, self.operator, len(self.layers), nodes, fanout, self.precompute)

    def forward(self, view: View) -> Tensor:
        """Logits ``[n, out_dim]`` of the nodes of a view."""
        return self._run(view)[0]

    def embed(
        self, view: View, between: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits ``[n, out_dim]`` and last hidden state ``[n, H]`` of the nodes of a view.

        The state is taken after activation and dropout; with one layer it is the logits. The last
        layer reads ``between(state)``, for example with a reversed gradient.
        """
        out, hidden = self._run(view, between)
        return out, out if hidden is None else view.blocks[-1].root(hidden)

    def _run(
        self, view: View, between: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits, and the last hidden state before ``between``, if there is one."""
        out = self.layer_output(0, view.x, view.blocks[0])
        hidden = None
        for i, block in enumerate(view.blocks[1:], 1):
            hidden = self._activated(out)
            last = i == len(view.blocks) - 1
            read = between(hidden) if last and between is not None else hidden
            out = self.layer_output(i, read, block)
        return out, hidden

    def _activated(self, out: Tensor) -> Tensor:
        """Activation and, in training, dropout of a hidden layer's output ``[n, H]``."""
        p = self.spec.dropout if self.training else 0.0
        if self.act is torch.relu and _cut(p):
            return _DroppedRelu.apply(out, p)
        return dropout(self.act(out), p)

    def layer_output(self, i: int, hidden: Sparse | Tensor, block: Block) -> Tensor:
        """Output of layer i and its skip connection for input ``[n_in, K]``, not activated."""
        out = self.layers[i](hidden, block)
        if i > 0 and self.skips:
            out = out + self.skips[i - 1](block.root(cast(Tensor, hidden)))
        return out


class Layer(nn.Module):
    """Base class of layers: a weight ``[in_dim, out_dim]`` (Glorot uniform) and a zero bias.

    ``last`` tells whether this is the output layer.
    """

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_dim, out_dim)))
        self.bias = nn.Parameter(torch.zeros(out_dim))


def dropout(h: Tensor, p: float) -> Tensor:
    """Zero each entry with probability ``p``, rounded to 1/256, and rescale the others.

    On the CPU this is seven times faster than torch's dropout.
    """
    cut = _cut(p)
    return h * _drawn_scale(h, cut) if cut else h


class _DroppedRelu(torch.autograd.Function):
    """``dropout(relu(h), p)``, which keeps one matrix of this size instead of three."""

    @staticmethod
    def forward(ctx, h: Tensor, p: float) -> Tensor:
        cut = _cut(p)
        ctx.scale = 256 / (256 - cut)
        out = _drawn_scale(h, cut).mul_(h).clamp_min_(0)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, out, 0).mul_(ctx.scale), None


def _cut(p: float) -> int:
    """Number of the 256 values of a byte that drop an entry."""
    return min(round(p * 256), 255)


def _drawn_scale(h: Tensor, cut: int) -> Tensor:
    """Random factor of each entry: 0 if it is dropped."""
    words = torch.empty((h.numel() + 7) // 8, dtype=torch.int64, device=h.device)
    draws = words.random_(-(2**63), None).view(torch.uint8)[: h.numel()].view(h.shape)
    # Writing floats directly is five times faster than making and converting a boolean mask.
    kept = torch.ge(draws, cut, out=torch.empty_like(h))
    return kept.mul_(256 / (256 - cut))

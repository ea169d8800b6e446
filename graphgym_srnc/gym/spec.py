"""An encoder of layers that are registered with GraphGym, and the choice between it and ours."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Iterator

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.init import init_weights
from torch_geometric.graphgym.models.layer import GeneralLayer, new_layer_config
from torch_geometric.utils import from_scipy_sparse_matrix
from yacs.config import CfgNode

from graphgym_srnc.backbones import ACTIVATIONS, BACKBONES, Encoder, EncoderSpec, Graph, dense
from graphgym_srnc.backbones.view import Block, View
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.io.settings import flatten

# GraphGym's key for each field of an ``EncoderSpec`` that a config sets.
SPEC_KEYS = {
    "kind": "gnn.layer_type",
    "layers": "gnn.layers_mp",
    "hidden": "gnn.dim_inner",
    "dropout": "gnn.dropout",
    "act": "gnn.act",
    "heads": "gnn.att_heads",
    "features": "dataset.normalize",
}


@renamed(SPEC_KEYS)
def encoder_spec(cfg: CfgNode) -> EncoderSpec:
    """The specification of the encoders of a config."""
    settings = flatten(cfg)
    fields = {field: settings[key] for field, key in SPEC_KEYS.items()}
    return EncoderSpec(**fields, make=make_encoder)


def is_fast(gnn: CfgNode, kind: str) -> bool:
    """Whether our own layers can serve: they have no normalisation and fewer activations."""
    plain = not (gnn.batchnorm or gnn.l2norm)
    return kind in BACKBONES and plain and gnn.act in ACTIVATIONS


@renamed(SPEC_KEYS)
def make_encoder(spec: EncoderSpec, in_dim: int, out_dim: int) -> Encoder:
    """An encoder of our own layers if they can serve, else of GraphGym's layers."""
    encoder = BACKBONES[spec.kind] if is_fast(cfg.gnn, spec.kind) else GymEncoder
    return encoder(spec, in_dim, out_dim)


@dataclass
class GymBlock(Block):
    """Input of one of GraphGym's layers: the whole graph; ``outputs`` ``[n]`` are returned."""

    data: Data = field(default_factory=Data)


@contextlib.contextmanager
def _layer_errors(kind: str) -> Iterator[None]:
    """Report any error of a registered layer but a lack of memory as one of its key."""
    try:
        yield
    except Exception as error:
        no_memory = isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError))
        if no_memory or "can't allocate memory" in str(error):
            raise
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        message = f"the layer {kind!r} failed ({cause})"
        hint = "Register a layer that is made from a LayerConfig and maps batch.x [V, F] and "
        hint += "batch.edge_index [2, E] to batch.x [V, F']"
        raise InputError.plain(SPEC_KEYS["kind"], message, hint) from error


class GymLayer(nn.Module):
    """GraphGym's ``GeneralLayer``: layer, batch norm, dropout, activation, l2 norm.

    The last one of a stack is the bare layer and a bias.
    """

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__()
        config = new_layer_config(in_dim, out_dim, 1, has_act=True, has_bias=not last, cfg=cfg)
        config = replace(config, dropout=spec.dropout, act=spec.act, dim_inner=spec.hidden)
        self.kind = spec.kind
        with _layer_errors(self.kind):
            make = register.layer_dict[self.kind]
            self.layer = make(config) if last else GeneralLayer(self.kind, config)
        self.bias = nn.Parameter(torch.zeros(out_dim)) if last else None
        self.layer.apply(init_weights)

    def forward(self, h: Tensor, block: GymBlock) -> Tensor:
        """Output ``[n, L]`` at the output nodes, from the states ``[V, K]`` of all nodes."""
        batch = Data(**block.data.to_dict() | {"x": h})
        with _layer_errors(self.kind):
            out = self.layer(batch).x
            if self.bias is not None:
                out = out + self.bias
        return out if block.outputs is None else out[block.outputs]


class GymEncoder(Encoder):
    """A stack of ``GymLayer``; always computes the whole graph.


    A layer finds the weights of edges in ``batch.edge_weight``, which GraphGym's own do not read.
    """

    layer = GymLayer
    registered = True
    reads_weights = False

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        super().__init__(spec, in_dim, out_dim)
        # GraphGym's layers hold their own dropout and activation.
        self.spec = replace(spec, dropout=0.0)
        self.act = nn.Identity()

    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        """The whole graph, whatever the nodes ``[n]`` of the logits."""
        # Edges in both directions and without self-loops.
        edges, weight = from_scipy_sparse_matrix(graph.adjacency("raw").matrix)
        data = Data(x=dense(graph.x), edge_index=edges.to(graph.device), num_nodes=graph.num_nodes)
        if graph.is_weighted:
            data.edge_weight = weight.to(graph.device)
        inner: list[Block] = [GymBlock(data=data) for _ in self.layers[:-1]]
        return View(data.x, [*inner, GymBlock(data=data, outputs=nodes)])

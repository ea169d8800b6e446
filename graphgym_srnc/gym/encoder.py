"""Layers that are registered with GraphGym as an encoder of ours, and when the fast path serves."""
from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.init import init_weights
from torch_geometric.graphgym.models.layer import GeneralLayer, new_layer_config
from torch_geometric.utils import from_scipy_sparse_matrix
from yacs.config import CfgNode

from graphgym_srnc.backbones import BACKBONES, Block, Encoder, EncoderSpec, Graph, View, dense
from graphgym_srnc.errors import InputError, renamed

SPEC_KEYS = {
    "kind": "gnn.layer_type", "layers": "gnn.layers_mp", "hidden": "gnn.dim_inner",
    "dropout": "gnn.dropout", "act": "gnn.act", "heads": "gnn.att_heads",
    "features": "dataset.normalize"}
"""GraphGym's key for each field of an :class:`EncoderSpec` that a config sets."""


@renamed(SPEC_KEYS)
def encoder_spec(cfg: CfgNode) -> EncoderSpec:
    """The recipe for encoders that a config gives."""
    parts = {field: key.split(".") for field, key in SPEC_KEYS.items()}
    fields = {field: cfg[block][key] for field, (block, key) in parts.items()}
    return EncoderSpec(**fields, make=make_encoder)


def is_fast(cfg: CfgNode, kind: str) -> bool:
    """Whether a layer type runs on the fast path, which has no normalisation between layers."""
    return kind in BACKBONES and not (cfg.gnn.batchnorm or cfg.gnn.l2norm)


def ignored(cfg: CfgNode) -> set[str]:
    """Fields of the recipe that change nothing: those of hidden layers where there are none."""
    kind = cfg.gnn.layer_type
    if cfg.gnn.layers_mp > 1 and not (kind == "sgconv" and is_fast(cfg, kind)):
        return set()
    return {"dropout"} if kind == "dgi" else {"dropout", "hidden"}


@renamed(SPEC_KEYS)
def make_encoder(spec: EncoderSpec, in_dim: int, out_dim: int) -> Encoder:
    """The fast path where it does what the global config asks for, else GraphGym's own layers."""
    encoder = BACKBONES[spec.kind] if is_fast(cfg, spec.kind) else GymEncoder
    return encoder(spec, in_dim, out_dim)


def edge_index(graph: Graph) -> Tensor:
    """The edges of a graph in both directions and without self-loops, ``[2, E]``."""
    return from_scipy_sparse_matrix(graph.adjacency("raw").matrix)[0].to(graph.device)


@dataclass
class GymBlock(Block):
    """The whole graph for one of GraphGym's layers, of which ``outputs`` ``[n]`` are kept."""

    data: Data | None = None


class GymLayer(nn.Module):
    """GraphGym's ``GeneralLayer``: layer, batch norm, dropout, activation, l2 norm.

    The last one of a stack is the bare layer and a bias.

    Raises:
        InputError: GraphGym knows no such layer or activation.
    """

    def __init__(self, in_dim: int, out_dim: int, spec: EncoderSpec, last: bool) -> None:
        super().__init__()
        for key, name, known in (("kind", spec.kind, register.layer_dict),
                                 ("act", spec.act, register.act_dict)):
            if name not in known:
                raise InputError(SPEC_KEYS[key], name, ", ".join(sorted(known)))
        config = new_layer_config(in_dim, out_dim, 1, has_act=True, has_bias=not last, cfg=cfg)
        config = replace(config, dropout=spec.dropout, act=spec.act, dim_inner=spec.hidden)
        layer = register.layer_dict[spec.kind]
        self.layer = layer(config) if last else GeneralLayer(spec.kind, config)
        self.bias = nn.Parameter(torch.zeros(out_dim)) if last else None
        self.layer.apply(init_weights)

    def forward(self, h: Tensor, block: GymBlock) -> Tensor:
        """What the layer makes of a state ``[V, K]`` of all nodes, at the nodes of the output."""
        batch = copy.copy(block.data)
        batch.x = h
        out = self.layer(batch).x
        if self.bias is not None:
            out = out + self.bias
        return out if block.outputs is None else out[block.outputs]


class GymEncoder(Encoder):
    """A stack of :class:`GymLayer`; always computes the whole graph."""

    layer, registered = GymLayer, True

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        super().__init__(spec, in_dim, out_dim)
        # GraphGym's layers hold their own dropout and activation.
        self.spec, self.act = replace(spec, dropout=0.0), nn.Identity()

    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        """The whole graph, whatever the nodes ``[n]`` of the logits."""
        data = Data(x=dense(graph.whole_features()), edge_index=edge_index(graph),
                    num_nodes=graph.num_nodes)
        blocks = [GymBlock(data=data) for _ in self.layers]
        blocks[-1].outputs = nodes
        return View(data.x, blocks)

"""Encoders of nodes. A backbone of your own is one file here with a subclass of :class:`Encoder`, and one line below."""
from __future__ import annotations

from dataclasses import replace

from graphgym_srnc.backbones.dgi import DGI
from graphgym_srnc.backbones.encoder import ACTIVATIONS, Encoder, EncoderSpec
from graphgym_srnc.backbones.gat import GAT
from graphgym_srnc.backbones.gcn import GCN
from graphgym_srnc.backbones.graph import FEATURES, Block, Graph, View, prepare
from graphgym_srnc.backbones.mlp import MLP
from graphgym_srnc.backbones.sage import SAGE
from graphgym_srnc.backbones.sampling import Batches, draw_edges, draw_nodes, infer
from graphgym_srnc.backbones.sgc import SGC
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.errors import InputError

BACKBONES: dict[str, type[Encoder]] = {"gcnconv": GCN, "sageconv": SAGE, "gatconv": GAT, "sgconv": SGC, "mlp": MLP, "dgi": DGI}
"""The fast path, by GraphGym's ``gnn.layer_type``."""

__all__ = ["ACTIVATIONS", "BACKBONES", "FEATURES", "Batches", "Block", "Encoder", "EncoderSpec", "Graph", "Sparse", "View", "blank", "build",
           "draw_edges", "draw_nodes", "infer", "prepare", "pretrained"]


def build(spec: EncoderSpec, in_dim: int, out_dim: int) -> Encoder:
    """An encoder of a spec from ``in_dim`` features to ``out_dim`` logits.

    Raises:
        InputError: the kind or the activation is unknown, or dropout is no probability.
    """
    if spec.act not in ACTIVATIONS:
        raise InputError("gnn.act", spec.act, ", ".join(ACTIVATIONS))
    if not 0 <= spec.dropout < 1:
        raise InputError("gnn.dropout", spec.dropout, "a probability in [0, 1)")
    if spec.make is not None:
        return spec.make(spec, in_dim, out_dim)
    if spec.kind not in BACKBONES:
        raise InputError("gnn.layer_type", spec.kind, ", ".join(BACKBONES))
    return BACKBONES[spec.kind](spec, in_dim, out_dim)


def pretrained(spec: EncoderSpec, target: Graph) -> EncoderSpec:
    """The spec with whatever its kind learns from the unlabelled target graph before training; most kinds learn nothing."""
    learn = getattr(BACKBONES.get(spec.kind), "pretrain", None)
    return spec if learn is None or spec.base is not None else replace(spec, base=learn(spec, target))


def blank(spec: EncoderSpec, in_dim: int) -> EncoderSpec:
    """The spec with what its kind learns before training still unlearnt, to load trained weights into; most kinds learn nothing."""
    learns = hasattr(BACKBONES.get(spec.kind), "pretrain")
    return replace(spec, base=build(spec, in_dim, 1).base) if learns and spec.base is None else spec

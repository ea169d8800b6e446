"""Encoders of nodes. A backbone of your own is one file here with a subclass of :class:`Encoder`, and one line below."""
from __future__ import annotations

from graphgym_srnc.backbones.base import ACTIVATIONS, Encoder, EncoderSpec
from graphgym_srnc.backbones.gat import GAT
from graphgym_srnc.backbones.gcn import GCN
from graphgym_srnc.backbones.graph import FEATURES, Graph, prepare
from graphgym_srnc.backbones.mlp import MLP
from graphgym_srnc.backbones.sage import SAGE
from graphgym_srnc.backbones.sgc import SGC
from graphgym_srnc.errors import InputError

BACKBONES: dict[str, type[Encoder]] = {"gcnconv": GCN, "sageconv": SAGE, "gatconv": GAT, "sgconv": SGC, "mlp": MLP}
"""The fast path, by GraphGym's ``gnn.layer_type``."""

__all__ = ["ACTIVATIONS", "BACKBONES", "FEATURES", "Encoder", "EncoderSpec", "Graph", "build", "prepare"]


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

"""Node encoders (backbones).

Each further file of this package, such as ``dgi.py``, defines a subclass of :class:`Encoder` of its
name, ignoring case and ``_``. Other packages add backbones through entry points, see
:mod:`graphgym_srnc.core.plugins`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphgym_srnc.backbones.batches import Batches, infer
from graphgym_srnc.backbones.dgi import train_infomax
from graphgym_srnc.backbones.encoder import ACTIVATIONS, Encoder, EncoderSpec, Layer
from graphgym_srnc.backbones.graph import OPERATORS, Graph, PerGraph, prepare
from graphgym_srnc.backbones.layers import MLP, GCNLayer
from graphgym_srnc.backbones.scaling import FEATURES, Scaling
from graphgym_srnc.backbones.sparse import Sparse, dense
from graphgym_srnc.backbones.view import Block, View
from graphgym_srnc.core.plugins import Registry
from graphgym_srnc.errors import InputError

__all__ = [
    "ACTIVATIONS",
    "BACKBONES",
    "FEATURES",
    "MLP",
    "Batches",
    "Block",
    "Encoder",
    "EncoderSpec",
    "GCNLayer",
    "Graph",
    "Layer",
    "PerGraph",
    "Scaling",
    "Sparse",
    "View",
    "build",
    "dense",
    "infer",
    "own",
    "prepare",
    "pretrained",
    "pretrains",
    "train_infomax",
]


def _check(found: Any, name: str) -> None:
    if not (isinstance(found, type) and issubclass(found, Encoder) and hasattr(found, "layer")):
        raise InputError.plain(
            name,
            f"{found!r:.100} is not a subclass of graphgym_srnc.backbones.Encoder with a layer",
        )
    if found.operator not in OPERATORS:
        raise InputError.plain(
            name, f"its operator is {found.operator!r}; allowed: {', '.join(OPERATORS)}"
        )


BACKBONES: Registry[type[Encoder]] = Registry(
    __name__,
    _check,
    ["batches", "encoder", "scaling", "graph", "layers", "sampling", "sparse", "view"],
    {
        "gcnconv": "layers:GCN",
        "sageconv": "layers:SAGE",
        "gatconv": "layers:GAT",
        "gatdrop": "layers:GATDrop",
        "sgconv": "layers:SGC",
        "mlp": "layers:MLP",
    },
)


def build(spec: EncoderSpec, in_dim: int, out_dim: int) -> Encoder:
    """Build an encoder from ``in_dim`` features to ``out_dim`` logits.

    Raises:
        InputError: the kind is unknown, or its layers do not support the width.
    """
    if spec.make is not None:
        return spec.make(spec, in_dim, out_dim)
    if spec.kind not in BACKBONES:
        raise InputError("kind", spec.kind, ", ".join(BACKBONES))
    return BACKBONES[spec.kind](spec, in_dim, out_dim)


def own(spec: EncoderSpec, kind: str, base: Any = None) -> EncoderSpec:
    """The spec of an encoder of this package in place of the spec's own, with the same width.

    An activation that this package lacks becomes ReLU.
    """
    act = spec.act if spec.act in ACTIVATIONS else "relu"
    return replace(spec, kind=kind, act=act, make=None, base=base)


def pretrained(spec: EncoderSpec, target: Graph) -> EncoderSpec:
    """The spec with a base encoder pretrained on the target graph without labels, if it has one."""
    if spec.base is not None or not pretrains(spec):
        return spec
    encoder: Any = BACKBONES[spec.kind]
    return replace(spec, base=encoder.pretrain(spec, target))


def pretrains(spec: EncoderSpec) -> bool:
    """Whether encoders of a spec share a base that is pretrained without labels."""
    return spec.kind in BACKBONES and hasattr(BACKBONES[spec.kind], "pretrain")

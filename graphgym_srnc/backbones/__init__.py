"""Node encoders (backbones).

To add a backbone, add a file with a subclass of :class:`Encoder` and an entry in ``BACKBONES``
below, or an entry point in another package, see :mod:`graphgym_srnc.core.plugins`.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import ItemsView
from dataclasses import replace
from typing import Any

from graphgym_srnc.backbones.dgi import DGI, train_infomax
from graphgym_srnc.backbones.encoder import ACTIVATIONS, Encoder, EncoderSpec, Layer
from graphgym_srnc.backbones.features import FEATURES
from graphgym_srnc.backbones.graph import Graph, prepare
from graphgym_srnc.backbones.layers import GAT, GCN, MLP, SAGE, SGC, GATDrop, GCNLayer
from graphgym_srnc.backbones.sampling import Batches, infer
from graphgym_srnc.backbones.sparse import Sparse, dense
from graphgym_srnc.backbones.view import Block, View
from graphgym_srnc.core.plugins import added, load, usable
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
    "Sparse",
    "View",
    "build",
    "dense",
    "infer",
    "prepare",
    "pretrained",
    "pretrains",
    "train_infomax",
]


class Kinds(UserDict[str, type[Encoder]]):
    """Encoder classes by kind; encoders of other packages are imported on first access."""

    data: dict[str, Any]

    def __getitem__(self, kind: str) -> type[Encoder]:
        if self.data[kind] is None:
            self.data[kind] = load("backbones", kind, _check)
        return self.data[kind]

    def items(self) -> ItemsView[str, type[Encoder]]:
        """All encoders by kind, without those of other packages that cannot be used."""
        return usable(self.__getitem__, self.data).items()


def _check(found: Any) -> None:
    if not (isinstance(found, type) and issubclass(found, Encoder)):
        raise InputError.plain("it", "it is not a subclass of graphgym_srnc.backbones.Encoder")


BACKBONES = Kinds()  # encoder classes by kind

BACKBONES.data = {
    "gcnconv": GCN,
    "sageconv": SAGE,
    "gatconv": GAT,
    "gatdrop": GATDrop,
    "sgconv": SGC,
    "mlp": MLP,
    "dgi": DGI,
}
BACKBONES.data |= dict.fromkeys(added("backbones", BACKBONES.data.keys()))


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


def pretrained(spec: EncoderSpec, target: Graph) -> EncoderSpec:
    """The spec with a base encoder pretrained on the target graph without labels, if it has one."""
    if spec.base is not None or not pretrains(spec):
        return spec
    encoder: Any = BACKBONES[spec.kind]
    return replace(spec, base=encoder.pretrain(spec, target))


def pretrains(spec: EncoderSpec) -> bool:
    """Whether encoders of a spec share a base that is pretrained without labels."""
    return hasattr(BACKBONES.get(spec.kind), "pretrain")

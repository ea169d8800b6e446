"""The IID oracle: the plain GNN with every class labelled, what a method would reach without shift."""
from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.methods.base import Supervised


class IID(Supervised):
    """The plain GNN on ``task.oracle``; the paper's ΔF1 is the distance to its Micro-F1."""

    oracle = True

    def losses(self) -> dict[str, Tensor]:
        return {"source": F.cross_entropy(self.classifier(self.on_source), self.labels)}

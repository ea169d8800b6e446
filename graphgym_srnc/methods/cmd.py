"""Central moment discrepancy (Zellinger et al., ICLR 2017): the moments of hidden states agree between source and target."""
from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses import moments
from graphgym_srnc.methods.supervised import Supervised
from graphgym_srnc.parallel import gather


class CMD(Supervised):
    """The plain GNN with the central moment discrepancy of its last hidden state between source and target.

    The measure wants bounded hidden states: use ``gnn.act tanh`` as its authors do; after another activation, and on backbones
    without a hidden layer, whose logits are aligned, a tanh is put between.

    Args:
        weight: weight of the discrepancy.
        order: moments up to this one.
        target_nodes: target nodes that are aligned, drawn once; 0 = all unlabelled ones.
    """

    def __init__(self, *, weight: float = 1.0, order: int = 5, target_nodes: int = 0, **base) -> None:
        super().__init__(**base)
        self.require("weight", weight, weight >= 0, "0 or more")
        self.require("order", order, order >= 1, "1 or more")
        self.require("target_nodes", target_nodes, target_nodes >= 0, "0 or more")
        self.weight, self.order, self.target_nodes = weight, order, target_nodes

    def begin(self) -> None:
        self.on_target = self.target_view(self.target_nodes)

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.classifier.embed(self.on_source)
        source, target = gather(source, self.classifier.embed(self.on_target)[1])
        if self.encoder.act != "tanh" or len(self.classifier.layers) == 1:
            source, target = source.tanh(), target.tanh()
        return {"source": F.cross_entropy(logits, self.labels), "cmd": self.weight * moments.cmd(source, target, self.order)}

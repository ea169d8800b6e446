"""Central moment discrepancy (Zellinger et al., ICLR 2017): source and target agree in moments."""
from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses import moments
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Count, Natural, Weight


class CMD(Scored):
    """The plain GNN with the central moment discrepancy of its last hidden state.

    The measure wants bounded hidden states: use ``tanh`` as activation as its authors do; after
    another one, and on backbones without a hidden layer, whose logits are aligned, a tanh is put
    between.

    Args:
        weight: weight of the discrepancy between source and target.
        order: moments up to this one.
        target_nodes: target nodes that are aligned, drawn once; 0 = all unlabelled ones.
    """

    search = {"weight": (0.01, 0.1, 1.0, 5.0)}

    def __init__(self, *, weight: Weight = 1.0, order: Count = 5, target_nodes: Natural = 0,
                 **base) -> None:
        super().__init__(**base)
        self.weight, self.order, self.target_nodes = weight, order, target_nodes

    def begin(self) -> None:
        self.on_target = self.target_view(self.target_nodes)

    def losses(self) -> dict[str, Tensor]:
        logits, source, target = self.hidden_states(bounded=True)
        return {"source": F.cross_entropy(logits, self.labels),
                "cmd": self.weight * moments.cmd(source, target, self.order)}

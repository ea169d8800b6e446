"""Deep CORAL (Sun and Saenko, 2016): source and target agree in their covariances."""
from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses import moments
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Natural, Weight


class CORAL(Scored):
    """The plain GNN with the distance of the covariances of its last hidden state.

    Args:
        weight: weight of the distance, which is small: 1 to 10,000.
        target_nodes: target nodes that are aligned, drawn once; 0 = all unlabelled ones.
    """

    search = {"weight": (1.0, 10.0, 100.0, 1000.0, 10000.0)}

    def __init__(self, *, weight: Weight = 100.0, target_nodes: Natural = 0, **base) -> None:
        super().__init__(**base)
        self.weight, self.target_nodes = weight, target_nodes

    def begin(self) -> None:
        self.on_target = self.target_view(self.target_nodes)

    def losses(self) -> dict[str, Tensor]:
        logits, source, target = self.hidden_states()
        return {"source": F.cross_entropy(logits, self.labels),
                "coral": self.weight * moments.coral(source, target)}

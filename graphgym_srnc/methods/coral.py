"""Deep CORAL (Sun and Saenko, 2016): the covariances of hidden states agree between source and target."""
from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses import moments
from graphgym_srnc.methods.supervised import Supervised
from graphgym_srnc.parallel import gather


class CORAL(Supervised):
    """The plain GNN with the distance of the covariances of its last hidden state between source and target.

    Args:
        weight: weight of the distance, which is small: 1 to 10,000.
        target_nodes: target nodes that are aligned, drawn once; 0 = all unlabelled ones.
    """

    def __init__(self, *, weight: float = 100.0, target_nodes: int = 0, **base) -> None:
        super().__init__(**base)
        self.require("weight", weight, weight >= 0, "0 or more")
        self.require("target_nodes", target_nodes, target_nodes >= 0, "0 or more")
        self.weight, self.target_nodes = weight, target_nodes

    def begin(self) -> None:
        self.on_target = self.target_view(self.target_nodes)

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.classifier.embed(self.on_source)
        source, target = gather(source, self.classifier.embed(self.on_target)[1])
        return {"source": F.cross_entropy(logits, self.labels), "coral": self.weight * moments.coral(source, target)}

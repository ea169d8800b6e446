"""Methods that align hidden states of source and target by one more term of the loss."""

from __future__ import annotations

from torch import Tensor

from graphgym_srnc.backbones import View
from graphgym_srnc.core.options import Weight
from graphgym_srnc.methods.shared.scores import Scored
from graphgym_srnc.methods.shared.training import gather


class Aligned(Scored):
    """A plain GNN with a discrepancy between its hidden states on source and target.

    Args:
        weight: weight :math:`w` of the discrepancy.
    """

    term: str  # name of the discrepancy
    weighs_labels = True
    bounded = False  # whether a tanh is applied to states that no tanh bounds already

    def __init__(self, *, weight: Weight = 1.0, **base) -> None:
        super().__init__(**base)
        self.weight = weight

    def begin(self) -> None:
        self.on_target = self.target_view()

    def discrepancy(self, source: Tensor, target: Tensor) -> Tensor:
        """Discrepancy of hidden states ``[n, H]`` of all processes."""
        raise NotImplementedError

    @property
    def strength(self) -> float:
        """Weight of the discrepancy at this step."""
        return self.weight

    def embed(self, view: View) -> tuple[Tensor, Tensor]:
        """Logits ``[n, N]`` of a view's nodes, and the states ``[n, H]`` that are aligned."""
        return self.classifier.embed(view)

    def source_states(self) -> tuple[Tensor, Tensor]:
        """Logits and states of this step's source nodes."""
        return self.embed(self.on_source)

    def target_states(self) -> Tensor:
        """States of this step's target nodes."""
        return self.embed(self.on_target)[1]

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.source_states()
        terms = {"source": self.source_loss(logits)}
        if self.weight:
            source = gather(source)
            target = gather(self.target_states())
            if self.bounded and (self.encoder.act != "tanh" or len(self.classifier.layers) == 1):
                source = source.tanh()
                target = target.tanh()
            terms[self.term] = self.strength * self.discrepancy(source, target)
        return terms

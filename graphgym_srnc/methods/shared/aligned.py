"""Base class of methods that align hidden states of source and target."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphgym_srnc.backbones import View
from graphgym_srnc.core.options import Weight
from graphgym_srnc.losses.discrepancy import mmd
from graphgym_srnc.methods.shared.scores import Scored
from graphgym_srnc.methods.shared.training import gather


def sampled_mmd(x: Tensor, y: Tensor, most: int, widest: float = 4.0) -> Tensor:
    """The MMD of at most ``most`` drawn rows of each sample, ``[n, H]``."""
    x, y = (h[torch.randperm(len(h), device=h.device)[:most]] for h in (x, y))
    return mmd(x, y, widest)


class Aligned(Scored):
    """Cross-entropy on the source, and a weighted discrepancy of source and target states.

    Args:
        weight: weight :math:`w` of the discrepancy; 0 = none is computed.

    Attributes:
        term: name of the discrepancy.
        bounded: whether a tanh is applied to states that no tanh bounds already.
    """

    term: str
    bounded: bool = False

    def __init__(self, *, weight: Weight = 1.0, **base: Any) -> None:
        super().__init__(**base)
        self.weight = weight

    def begin(self) -> None:
        self.on_target = self.target_view()

    @property
    def strength(self) -> float:
        """Share of the weight at this step."""
        return 1.0

    def embed(self, view: View) -> tuple[Tensor, Tensor]:
        """Logits and states of the nodes of a view."""
        return self.classifier.embed(view)

    def discrepancy(self, source: Tensor, target: Tensor, /) -> Tensor:
        """Discrepancy of the hidden states ``[n, H]`` of all processes."""
        raise NotImplementedError

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.embed(self.on_source)
        terms = {"source": self.source_loss(logits)}
        if self.weight:
            source = gather(source)
            target = gather(self.embed(self.on_target)[1])
            if self.bounded and (self.encoder.act != "tanh" or len(self.classifier.layers) == 1):
                source = source.tanh()
                target = target.tanh()
            terms[self.term] = self.weight * self.strength * self.discrepancy(source, target)
        return terms

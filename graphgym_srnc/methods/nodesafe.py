"""NODESafe (Yang et al., ICML 2025): a bound on the spread of energies, under GNNSafe's score."""
from __future__ import annotations

from typing import Annotated

from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc import parallel
from graphgym_srnc.losses import openness
from graphgym_srnc.methods.scores import SCORES, Scored
from graphgym_srnc.options import Natural, OneOf, Share, Weight


class NODESafe(Scored):
    r"""The plain GNN with penalties on how lengths and sums of its logits vary over nodes.

    .. math:: \mathcal L = \text{CE}_S + w \left( \lambda
        \frac{\text{Var} \lVert f \rVert}{\text{E} \lVert f \rVert} + (1 - \lambda)
        \frac{\text{Var} \sum_c f_c}{|\text{E} \sum_c f_c|} \right)

    Large energies of single nodes would spoil those of their neighbours by GNNSafe's propagation.
    Source: Yang et al. (ICML 2025).

    Args:
        weight: :math:`w`.
        bounded: :math:`\lambda`, the share of the lengths.
        warmup: gradient steps without the penalty.
    """

    search = {"weight": (0.1, 1.0, 5.0, 12.0)}

    def __init__(self, *, weight: Weight = 1.0, bounded: Share = 0.999, warmup: Natural = 20,
                 score: Annotated[str, OneOf("max_softmax", *SCORES)] = "gnnsafe",
                 **base) -> None:
        super().__init__(score=score, **base)
        self.weight, self.bounded, self.warmup = weight, bounded, warmup

    def losses(self) -> dict[str, Tensor]:
        logits = self.classifier(self.on_source)
        terms = {"source": F.cross_entropy(logits, self.labels)}
        if self.taken > self.warmup:
            everywhere, = parallel.gather(logits)
            spread = openness.logit_spread(everywhere, self.bounded)
            terms["spread"] = self.weight * spread
        return terms

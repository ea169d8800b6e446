"""NODESafe: penalties on the variance of logits (Yang et al., ICML 2025)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphgym_srnc.core.options import Weight
from graphgym_srnc.losses import openness
from graphgym_srnc.methods.shared.scores import Confidence, Scored
from graphgym_srnc.methods.shared.training import gather

WARMUP = 20  # gradient steps without the penalty


class NODESafe(Scored):
    r"""Train a plain GNN with penalties on the variance of logit norms and logit sums over nodes.

    .. math:: \mathcal L = \text{CE}_S + w \left( 0.999
        \frac{\text{Var} \lVert f \rVert}{\text{E} \lVert f \rVert} + 0.001
        \frac{\text{Var} \sum_c f_c}{|\text{E} \sum_c f_c|} \right)

    The penalties cover labelled nodes, without a gradient through the means.

    Differences from the authors' code: there is no training on outliers. They divide by the signed
    mean of the sums, which rewards variance if it is negative; here by its absolute value.

    When to use: with GNNSafe's score, whose propagation spreads extreme energies of single nodes.

    Args:
        weight: weight :math:`w`. The authors use 12 on Cora, 5 on CiteSeer and 0.8 to 1 on PubMed.

    References:
        Yang et al., "Bounded and Uniform Energy-based Out-of-distribution Detection for Graphs",
        ICML 2025.
    """

    cites = ("yang2025nodesafe",)
    search = {"weight": (0.1, 1.0, 5.0, 12.0)}

    def __init__(
        self, *, weight: Weight = 1.0, confidence: Confidence = "gnnsafe", **base: Any
    ) -> None:
        super().__init__(confidence=confidence, **base)
        self.weight = weight

    def losses(self) -> dict[str, Tensor]:
        logits = self.classifier(self.on_source)
        terms = {"source": self.source_loss(logits)}
        if self.steps_done > WARMUP:
            terms["spread"] = self.weight * openness.logit_spread(gather(logits))
        return terms

"""DANN: domain-adversarial training (Ganin et al., JMLR 2016)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from graphgym_srnc.core.options import Weight
from graphgym_srnc.losses.adversarial import adversarial_loss, ganin_schedule
from graphgym_srnc.methods.shared.aligned import Aligned


class DANN(Aligned):
    r"""Train a plain GNN against a domain classifier whose gradient is reversed.

    .. math:: \mathcal L = \text{CE}_S
        + w \, (\text{BCE}(d(R_\lambda(h_S)), 1) + \text{BCE}(d(R_\lambda(h_T)), 0))

    :math:`R_\lambda` reverses the gradient into the encoder. :math:`\lambda = 2/(1+e^{-10p}) - 1`
    rises from 0 to 1 with the share :math:`p` of all gradient steps.

    Differences from the authors' code: :math:`d` is a perceptron with one hidden layer of the
    encoder's width. The learning rate of Adam stays constant; Ganin's falls.

    When to use: as the standard baseline of domain adaptation.

    Args:
        weight: weight :math:`w` of the domain loss.

    References:
        Ganin et al., "Domain-Adversarial Training of Neural Networks", JMLR 2016.
    """

    cites = ("ganin2016dann",)
    with_backbone = "{}-DANN"
    term = "domain"
    search = {"weight": (0.01, 0.1, 1.0)}

    def __init__(self, *, weight: Weight = 0.1, **base: Any) -> None:
        super().__init__(weight=weight, **base)

    def begin(self) -> None:
        super().begin()
        width = self.classifier.hidden_dim
        self.domain = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def discrepancy(self, source: Tensor, target: Tensor, /) -> Tensor:
        return adversarial_loss(self.domain, ganin_schedule(self.progress), source, target)

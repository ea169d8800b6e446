"""GRADE: adversarial alignment of subtrees (Wu et al., AAAI 2023)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graphgym_srnc.backbones import View
from graphgym_srnc.core.options import Weight
from graphgym_srnc.losses.adversarial import adversarial_loss, ganin_schedule
from graphgym_srnc.methods.shared.aligned import Aligned


class GRADE(Aligned):
    r"""Train a plain GNN against a linear domain classifier on hidden states and logits.

    .. math:: \mathcal L = \text{CE}_S + w \, (\text{BCE}(d(R_\lambda([h_S, f_S])), 1)
        + \text{BCE}(d(R_\lambda([h_T, f_T])), 0))

    A node after :math:`l` layers represents its subtree of depth :math:`l`, so domains that cannot
    be separated by :math:`[h, f]` bound the graph subtree discrepancy.

    Differences from the authors' code: they concatenate the states of all layers. Here features
    have no dropout, and a layer of the backbone gives the logits instead of a linear one.

    Args:
        weight: weight :math:`w`. The authors' is 0.01 of the mean over both graphs.

    References:
        Wu, He and Ainsworth, "Non-IID Transfer Learning on Graphs", AAAI 2023.
    """

    cites = ("wu2023grade",)
    term = "domain"
    search = {"weight": (0.0005, 0.005, 0.05)}

    def __init__(self, *, weight: Weight = 0.005, **base: Any) -> None:
        super().__init__(weight=weight, **base)

    def begin(self) -> None:
        super().begin()
        self.domain = nn.Linear(self.classifier.hidden_dim + self.task.num_known, 1)

    def embed(self, view: View) -> tuple[Tensor, Tensor]:
        """Logits of a view's nodes, and hidden states beside the logits."""
        logits, hidden = self.classifier.embed(view)
        return logits, torch.cat([hidden, logits], 1)

    def discrepancy(self, source: Tensor, target: Tensor, /) -> Tensor:
        return adversarial_loss(self.domain, ganin_schedule(self.progress), source, target)

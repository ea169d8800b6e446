"""GRADE (Wu et al., AAAI 2023): neighbourhoods of every depth look alike on source and target."""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.losses.adversarial import domain_loss, ganin_schedule, reverse_gradient
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Natural, Positive, Weight


class GRADE(Scored):
    r"""The plain GNN, and a linear domain classifier on hidden state and logits side by side.

    A node after :math:`l` layers is its subtree of depth :math:`l`, so that what tells the domains
    apart by :math:`[h, f]` bounds the graph subtree discrepancy.

    .. math:: \mathcal L = \text{CE}_S + w \, (\text{BCE}(d(R_\lambda([h_S, f_S])), 1)
        + \text{BCE}(d(R_\lambda([h_T, f_T])), 0))

    with :math:`\lambda` rising from 0 to 1 by Ganin's schedule. This is the discrepancy that its
    authors call JS; they put the states of all layers side by side, which on two layers is the
    same.

    Args:
        weight: :math:`w`; the authors have .01 of the mean over both graphs, half of our sum.
        gamma: how fast :math:`\lambda` rises.
        target_nodes: target nodes that are aligned, drawn once; 0 = all unlabelled ones.
    """

    search = {"weight": (0.0005, 0.005, 0.05)}

    def __init__(self, *, weight: Weight = 0.005, gamma: Positive = 10.0,
                 target_nodes: Natural = 0, **base) -> None:
        super().__init__(**base)
        self.weight, self.gamma, self.target_nodes = weight, gamma, target_nodes

    def begin(self) -> None:
        self.on_target = self.target_view(self.target_nodes)
        self.domain = nn.Linear(self.classifier.hidden_dim + self.task.num_known, 1)

    def losses(self) -> dict[str, Tensor]:
        strength = ganin_schedule(self.progress, self.gamma)

        def domain(logits: Tensor, hidden: Tensor) -> Tensor:
            return self.domain(reverse_gradient(torch.cat([hidden, logits], 1), strength)).view(-1)

        logits, source = self.classifier.embed(self.on_source)
        on_target = self.classifier.embed(self.on_target)
        return {"source": F.cross_entropy(logits, self.labels),
                "domain": self.weight * domain_loss(domain(logits, source), domain(*on_target))}

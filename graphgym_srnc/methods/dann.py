"""Domain-adversarial training (Ganin et al., JMLR 2016): nobody can tell source from target."""
from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.losses.adversarial import domain_loss, ganin_schedule, reverse_gradient
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Natural, Positive, Weight


class DANN(Scored):
    r"""The plain GNN, and a domain classifier on its hidden state whose gradient is reversed.

    .. math:: \mathcal L = \text{CE}_S
        + w \, (\text{BCE}(d(R_\lambda(h_S)), 1) + \text{BCE}(d(R_\lambda(h_T)), 0))

    with :math:`\lambda` rising from 0 to 1 over the whole training, by Ganin's schedule.

    Args:
        weight: :math:`w`.
        gamma: how fast :math:`\lambda` rises.
        target_nodes: target nodes that are aligned, drawn once; 0 = all unlabelled ones.
    """

    search = {"weight": (0.01, 0.1, 1.0)}

    def __init__(self, *, weight: Weight = 0.1, gamma: Positive = 10.0, target_nodes: Natural = 0,
                 **base) -> None:
        super().__init__(**base)
        self.weight, self.gamma, self.target_nodes = weight, gamma, target_nodes

    def begin(self) -> None:
        self.on_target = self.target_view(self.target_nodes)
        width = self.classifier.hidden_dim
        self.domain = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def losses(self) -> dict[str, Tensor]:
        strength = ganin_schedule(self.progress, self.gamma)
        logits, source = self.classifier.embed(self.on_source)
        target = self.classifier.embed(self.on_target)[1]
        domains = [self.domain(reverse_gradient(h, strength)).view(-1) for h in (source, target)]
        return {"source": F.cross_entropy(logits, self.labels),
                "domain": self.weight * domain_loss(*domains)}

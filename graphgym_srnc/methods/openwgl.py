"""OpenWGL: a variational graph autoencoder for open-set shift (Wu et al., ICDM 2020)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, View, build
from graphgym_srnc.core.options import Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared.supervised import Supervised

LATENT = 16
SAMPLES = 100
MAX_EDGES = 20_000
"""Dimension of :math:`z`, samples at test time, and maximum number of edges drawn per step."""

LOG_SIGMA = -1.0  # initially; larger deviations would hide the signal for a few hundred steps


class OpenWGL(Supervised):
    r"""Train a variational graph autoencoder whose classifier is uncertain on unlabelled nodes.

    .. math:: \mathcal L = \text{CE}_S + w_1 \text{KL}(z_S \Vert \mathcal N(0, I))
        + w_2 \text{BCE}(z_i^\top z_j, A_{ij}) + w_3 \overline{\textstyle\sum_c p_c \log p_c}

    A linear classifier reads samples :math:`z_i \sim \mathcal N(\mu_i, \text{diag}(\sigma_i^2))`.
    KL is a mean over nodes and dimensions. The edge term covers the target's edges and as many
    random pairs. The last term, which is off in close-set shift, covers unlabelled nodes with
    :math:`1/N < \max_c p_c < 0.5`.

    Differences from the authors' code: their encoder has two output layers, here the halves of one.
    Their deviations start at 1, here at :math:`1/e`. Test samples are shared by all nodes and come
    from a fixed seed. Their threshold is the midpoint between the mean confidences of known and
    unknown validation nodes, and their demo reports the best test step.

    When to use: open-set shift, if the uncertainty should be trained rather than post hoc.

    Args:
        kl_weight, edge_weight, uncertainty_weight: weights :math:`w_1, w_2, w_3`.

    References:
        Wu, Pan and Zhu, "OpenWGL: Open-World Graph Learning", ICDM 2020.
    """

    cites = ("wu2020openwgl",)
    in_batches = False
    search = {"kl_weight": (0.1, 1.0), "edge_weight": (0.1, 1.0)}
    weighs_labels = True
    search_open = {"uncertainty_weight": (0.1, 1.0)}

    def __init__(
        self,
        *,
        kl_weight: Weight = 1.0,
        edge_weight: Weight = 1.0,
        uncertainty_weight: Weight = 1.0,
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self.kl_weight = kl_weight
        self.edge_weight = edge_weight
        self.uncertainty_weight = uncertainty_weight

    def new_classifier(self, num_outputs: int) -> Encoder:
        """The encoder of means and logarithms of deviations; the classes are the head's."""
        return build(self.encoder, self.task.num_features, 2 * LATENT)

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.head = nn.Linear(LATENT, task.num_known)

    def begin(self) -> None:
        self.edges = self.target.edges
        self.on_target = self.classifier.view(self.target)

    def losses(self) -> dict[str, Tensor]:
        task = self.task
        edges = self.edges
        of_target = self.sample(self.on_target)
        z = of_target[2]
        if self.source is self.target:
            mean, log_sigma, drawn = (part[task.train] for part in of_target)
        else:
            mean, log_sigma, drawn = self.sample(self.on_source)
        terms = {
            "source": self.source_loss(self.head(drawn)),
            "kl": self.kl_weight * kl_divergence(mean, log_sigma),
        }
        if edges.size(1):
            if edges.size(1) > MAX_EDGES:
                edges = edges[:, torch.randint(edges.size(1), (MAX_EDGES,), device=edges.device)]
            others = torch.randint(len(z), edges.shape, device=edges.device)
            terms["edges"] = self.edge_weight * edge_loss(z, edges, others)
        if task.open_set:
            terms["uncertainty"] = self.uncertainty_weight * uncertainty_loss(
                self.head(z[task.pool])
            )
        return terms

    def sample(self, view: View) -> tuple[Tensor, Tensor, Tensor]:
        """Means, logarithms of deviations, and a sample of the nodes of a view, ``[n, K]``."""
        mean, log_sigma = self._normal(self.classifier(view))
        return mean, log_sigma, mean + torch.randn_like(mean) * log_sigma.exp()

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logarithm of the class probabilities, averaged over samples, ``[V, N]``."""
        mean, log_sigma = self._normal(super().logits(graph, role))
        noise = torch.randn(SAMPLES, LATENT, generator=torch.Generator().manual_seed(0)).to(mean)
        p = sum(self.head(mean + eps * log_sigma.exp()).softmax(1) for eps in noise)
        return (p / SAMPLES).clamp(min=1e-12).log()

    def _normal(self, out: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_sigma = out.split(LATENT, 1)
        return mean, (log_sigma + LOG_SIGMA).clamp(max=10)  # the KL term of more would overflow


def kl_divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """KL divergence from the standard normal distribution, a mean over entries ``[n, K]``."""
    return ((2 * log_sigma).exp() / 2 + mean**2 / 2 - 0.5 - log_sigma).mean()


def edge_loss(z: Tensor, edges: Tensor, others: Tensor) -> Tensor:
    """Binary cross-entropy of inner products: ``edges`` are linked, ``others`` not, ``[2, m]``."""
    linked, random = [(z[i] * z[j]).sum(1) for i, j in (edges, others)]
    total = F.softplus(-linked).sum() + F.softplus(random).sum()
    return total / (edges.size(1) + others.size(1))


def uncertainty_loss(logits: Tensor) -> Tensor:
    """Mean negative entropy of nodes whose largest probability is above 1/N and below 0.5.

    It is 0 without such nodes; ``logits`` are ``[n, N]``.
    """
    log_p = logits.log_softmax(1)
    p = log_p.exp()
    best = p.detach().amax(1)
    chosen = ((best > 1 / logits.size(1)) & (best < 0.5)).to(p.dtype)
    return ((p * log_p).sum(1) * chosen).sum() / chosen.sum().clamp(min=1)

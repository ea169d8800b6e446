"""OpenWGL: a variational graph autoencoder for open-set shift (Wu et al., ICDM 2020)."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, View, build
from graphgym_srnc.core.options import Count, OneOf, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared.supervised import Supervised

START = -1.0
"""Logarithm of a deviation if the encoder's output is 0.

With deviations of 1 and means near 0, a few hundred steps would not find the signal in the noise.
"""


class OpenWGL(Supervised):
    r"""Train a variational graph autoencoder whose classifier is uncertain on unlabelled nodes.

    .. math:: \mathcal L = \text{CE}_S + w_1 \text{KL}(z_S \Vert \mathcal N(0, I))
        + w_2 \text{BCE}(z_i^\top z_j, A_{ij}) + w_3 \overline{\textstyle\sum_c p_c \log p_c}

    Each node has the distribution :math:`z_i \sim \mathcal N(\mu_i, \text{diag}(\sigma_i^2))`, and
    a linear classifier reads a sample of it. KL is a mean over nodes and dimensions. The edge term
    covers the target's edges and as many random pairs. The last term covers unlabelled nodes with
    :math:`1/N < \max_c p_c < 0.5`; with two known classes there are none. In close-set shift it is
    off.

    Differences from the authors' code: their encoder has two output layers, here the halves of one.
    Their deviations start at 1, here at :math:`1/e`. They use hidden width 32 and 3000 steps at
    0.001. Test samples are shared by all nodes and come from a fixed seed. Their demo reports the
    best test step; this one does not.

    When to use: open-set shift, if the uncertainty should be trained rather than post hoc.

    Args:
        latent: dimension of :math:`z`.
        kl_weight, edge_weight, uncertainty_weight: weights :math:`w_1`, :math:`w_2` and
            :math:`w_3`.
        max_edges: maximum number of edges drawn per step.
        samples: number of samples at test time, whose probabilities are averaged.
        cut: rule of the unknown-class threshold: ``validation`` or ``share`` as in every method, or
            ``mean``, the authors' midpoint between the mean confidences of known and unknown
            validation nodes. Without unknown validation nodes ``mean`` is ``validation``.

    References:
        Wu, Pan and Zhu, "OpenWGL: Open-World Graph Learning", ICDM 2020.
    """

    search = {"kl_weight": (0.1, 1.0), "edge_weight": (0.1, 1.0)}
    search_open = {"uncertainty_weight": (0.1, 1.0)}

    def __init__(
        self,
        *,
        latent: Count = 16,
        kl_weight: Weight = 1.0,
        edge_weight: Weight = 1.0,
        uncertainty_weight: Weight = 1.0,
        max_edges: Count = 20000,
        samples: Count = 100,
        cut: Annotated[str, OneOf("validation", "share", "mean")] = "validation",
        **base,
    ) -> None:
        super().__init__(cut=cut, **base)
        self.latent, self.max_edges, self.samples = latent, max_edges, samples
        self.kl_weight, self.edge_weight = kl_weight, edge_weight
        self.uncertainty_weight = uncertainty_weight

    def new_classifier(self, num_outputs: int) -> Encoder:
        """The encoder of means and logarithms of deviations; the classes are the head's."""
        return build(self.encoder, self.task.num_features, 2 * self.latent)

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.head = nn.Linear(self.latent, task.num_known)

    def begin(self) -> None:
        if self.batch_size:
            self.on_nodes = self.batches(self.target)
        else:
            self.edges, self.on_target = self.target.edges, self.classifier.view(self.target)

    def losses(self) -> dict[str, Tensor]:
        """Loss terms; with batches those of drawn nodes and edges."""
        task, graph = self.task, self.target
        if self.batch_size:
            mean, log_sigma, drawn = self.sample(self.on_source)
            edges = self.on_nodes.draw_edges(min(self.batch_size, self.max_edges))
            others = torch.randint(graph.num_nodes, edges.shape, device=edges.device)
            pool = task.pool[self.on_nodes.draw(len(task.pool))]
            # From here on nodes are rows of a view of these nodes alone.
            nodes, row = torch.cat([*edges, *others, pool]).unique(return_inverse=True)
            z = self.sample(self.on_nodes.at(nodes))[2]
            pool = row[len(row) - len(pool) :]
            edges, others = row[: 4 * edges.size(1)].view(2, 2, -1)
        else:
            found = self.sample(self.on_target)
            z, pool, edges = found[2], task.pool, self.edges
            if self.source is graph:
                mean, log_sigma, drawn = (part[task.train] for part in found)
            else:
                mean, log_sigma, drawn = self.sample(self.on_source)
            if edges.size(1) > self.max_edges and self.edge_weight:
                size = (self.max_edges,)
                edges = edges[:, torch.randint(edges.size(1), size, device=edges.device)]
            if self.edge_weight and edges.size(1):
                others = torch.randint(len(z), edges.shape, device=edges.device)

        terms = {
            "source": F.cross_entropy(self.head(drawn), self.labels),
            "kl": self.kl_weight * kl_divergence(mean, log_sigma),
        }
        if self.edge_weight and edges.size(1):
            terms["edges"] = self.edge_weight * edge_loss(z, edges, others)
        if self.uncertainty_weight and task.open_set:
            terms["uncertainty"] = self.uncertainty_weight * uncertainty_loss(self.head(z[pool]))
        return terms

    def sample(self, view: View) -> tuple[Tensor, Tensor, Tensor]:
        """Means, logarithms of deviations, and a sample of the nodes of a view, ``[n, K]``."""
        mean, log_sigma = self._normal(self.classifier(view))
        return mean, log_sigma, draw(mean, log_sigma)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target", nodes: Tensor | None = None) -> Tensor:
        """Logarithm of the class probabilities, averaged over samples, ``[V, N]``."""
        mean, log_sigma = self._normal(super().logits(graph, role, nodes))
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(self.samples, self.latent, generator=generator).to(mean)
        each = (self.head(mean + eps * log_sigma.exp()).softmax(1) for eps in noise)
        p = sum(each, torch.zeros(()))
        return (p / self.samples).clamp(min=1e-12).log()

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        unknown = label == self.task.num_known
        both = unknown.any() and not unknown.all()
        if self.cut != "mean" or not self.task.open_set or not both:
            super().calibrate(scores, label, on_target)
            return
        confidence = self.confidence(scores)
        self.threshold.fill_((confidence[unknown].mean() + confidence[~unknown].mean()) / 2)

    def _normal(self, out: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_sigma = out.split(self.latent, 1)
        # Larger deviations are useless, and the KL term would overflow.
        return mean, (log_sigma + START).clamp(max=10)


def draw(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """Reparametrised sample of a normal distribution for each node, ``[n, K]``."""
    return mean + torch.randn_like(mean) * log_sigma.exp()


def kl_divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """KL divergence from the standard normal distribution, a mean over entries ``[n, K]``."""
    return ((2 * log_sigma).exp() / 2 + mean**2 / 2 - 0.5 - log_sigma).mean()


def edge_loss(z: Tensor, edges: Tensor, others: Tensor) -> Tensor:
    """Binary cross-entropy of inner products: ``edges`` are linked, ``others`` not, ``[2, m]``."""
    linked, random = [(z[i] * z[j]).sum(1) for i, j in (edges, others)]
    total = F.softplus(-linked).sum() + F.softplus(random).sum()
    return total / (edges.size(1) + others.size(1))


def uncertainty_loss(logits: Tensor) -> Tensor:
    """Negative entropy of unsure nodes, whose largest probability is above 1/N and below 0.5.

    It is a mean over them, 0 where there are none; ``logits`` are ``[n, N]``.
    """
    log_p = logits.log_softmax(1)
    p = log_p.exp()
    best = p.detach().amax(1)
    chosen = ((best > 1 / logits.size(1)) & (best < 0.5)).to(p.dtype)
    return ((p * log_p).sum(1) * chosen).sum() / chosen.sum().clamp(min=1)

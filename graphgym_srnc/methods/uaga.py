"""UAGA: unknown-excluded adversarial graph alignment (Shen et al., AAAI 2025)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.core.options import Count, Natural, Weight
from graphgym_srnc.core.task import HIDDEN, ShiftTask, Sizes
from graphgym_srnc.losses.adversarial import domain_loss, reverse_gradient
from graphgym_srnc.losses.openness import half_unknown
from graphgym_srnc.methods.shared.supervised import Supervised
from graphgym_srnc.methods.shared.training import minimise

UNKNOWN_SHARE = 0.22
"""Share of target nodes that count as likeliest unknown: the authors' 2000 on their graphs."""


class UAGA(Supervised):
    r"""Align target nodes that look known with the source and push away those that look unknown.

    .. math:: \mathcal L = \text{CE}_S + w \, \text{CE}(T, \tilde y)
        + 0.5 \left(\text{BCE}(d(R_1(h_S)), 1) + \text{BCE}(d(R_\lambda(h_T)), 0)\right)

    Episode 0 is open-set back-propagation: the class layer predicts unknown with probability one
    half on target nodes, and reversed gradients make the layers below disagree. Each later episode
    clusters the target by k-means with a centre per class. A node whose cluster equals its
    predicted class gets it as pseudo-label :math:`\tilde y`. The gradient is reversed
    (:math:`\lambda = 1`) except for pseudo-unknown nodes (:math:`\lambda = -1`). The likeliest of
    the :math:`N + 1` classes is predicted; validation moves nothing.

    Differences from the authors' code: full batches, and one clustering per 20 steps instead of 5.
    After episode 0 it may predict no unknown node for dozens of episodes, so use all steps and
    ``train.selection last``, or a larger ``target_weight``.

    When to use: classes are missing and the target is another graph (``dataset.format ocnnc``).

    Args:
        pretrain_steps: gradient steps of episode 0.
        steps: gradient steps between two clusterings.
        rounds: number of clusterings, one per episode.
        target_weight: weight :math:`w`.

    References:
        Shen et al., "Open-Set Cross-Network Node Classification via Unknown-Excluded Adversarial
        Graph Domain Alignment", AAAI 2025. Saito et al., "Open Set Domain Adaptation by
        Backpropagation", ECCV 2018.
    """

    cites = ("shen2025uaga",)
    calibrated = False
    explicit_unknown = True
    in_batches = False
    weighs_labels = True

    def __init__(
        self,
        *,
        pretrain_steps: Count = 150,
        steps: Count = 20,
        rounds: Natural = 50,
        target_weight: Weight = 0.1,
        **base: Any,
    ) -> None:
        super().__init__(steps=steps, rounds=rounds, **base)
        self.pretrain_steps = pretrain_steps
        self.target_weight = target_weight

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.classifier = self.new_classifier(task.num_outputs)

    def begin(self) -> None:
        self.on_target = self.target_view()
        first = nn.Linear(self.classifier.hidden_dim, 128)
        second = nn.Linear(128, 128)
        self.domain = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(128, 1))

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.setup(task)
        self.initialise()
        return minimise(self, self.optimizer, self.first_losses, self.pretrain_steps)

    def episode(self) -> dict[str, float]:
        self.pseudo = self.pseudo_labels()
        shares = {"pseudo_labels": float((self.pseudo >= 0).float().mean())}
        if self.task.open_set:
            unknown = (self.pseudo == self.task.num_known).float()
            shares["pseudo_unknown_share"] = float(unknown.mean())
        return super().episode() | shares

    def first_losses(self) -> dict[str, Tensor]:
        """Terms of episode 0."""
        terms = {"source": self.source_loss(self.classifier(self.on_source))}
        if self.task.open_set:
            logits, _ = self.classifier.embed(self.on_target, lambda h: reverse_gradient(h, 1.0))
            terms["adversary"] = half_unknown(logits)
        return terms

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.classifier.embed(self.on_source)
        on_target, target = self.classifier.embed(self.on_target)
        pseudo = F.cross_entropy(on_target, self.pseudo, ignore_index=HIDDEN, reduction="sum")
        strength = torch.where(self.pseudo == self.task.num_known, -1.0, 1.0)[:, None]
        source = reverse_gradient(source, 1.0)
        target = reverse_gradient(target, strength)
        domains = [self.domain(h).view(-1) for h in (source, target)]
        return {
            "source": self.source_loss(logits),
            "target": self.target_weight * pseudo / (self.pseudo >= 0).sum().clamp(min=1),
            "domain": 0.5 * domain_loss(*domains),
        }

    @torch.no_grad()
    def pseudo_labels(self) -> Tensor:
        """The class of each node of the pool, ``[n]``, ``HIDDEN`` where it has none."""
        self.classifier.eval()
        source = self.classifier.embed(self.on_source)[1]
        logits, target = self.classifier.embed(self.on_target)
        centres = [source[self.labels == c].mean(0) for c in range(self.task.num_known)]
        if self.task.open_set:
            count = max(1, round(UNKNOWN_SHARE * len(target)))
            likeliest = logits.softmax(1)[:, -1].topk(count).indices
            centres.append(target[likeliest].mean(0))

        cluster = k_means(target, torch.stack(centres))
        predicted = logits.argmax(1)
        label = predicted.masked_fill(cluster != predicted, HIDDEN)
        if self.task.open_set:
            label[likeliest[label[likeliest] == HIDDEN]] = self.task.num_known
        return label


def k_means(points: Tensor, centres: Tensor) -> Tensor:
    """Clusters ``[n]`` of points ``[n, H]`` by Lloyd's algorithm from given centres ``[K, H]``."""
    cluster = torch.cdist(points, centres).argmin(1)
    for _ in range(100):
        # A cluster without points keeps its centre.
        index = cluster[:, None].expand_as(points)
        centres = centres.scatter_reduce(0, index, points, "mean", include_self=False)
        before = cluster
        cluster = torch.cdist(points, centres).argmin(1)
        if torch.equal(before, cluster):
            break
    return cluster

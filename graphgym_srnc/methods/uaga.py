"""Unknown-excluded adversarial alignment (Shen et al., AAAI 2025): unknown nodes are kept apart."""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.losses.adversarial import domain_loss, reverse_gradient
from graphgym_srnc.losses.openness import half_unknown
from graphgym_srnc.methods.supervised import Supervised
from graphgym_srnc.methods.training import minimise
from graphgym_srnc.options import Count, Natural, Share, Weight
from graphgym_srnc.task import HIDDEN, ShiftTask, Sizes


class UAGA(Supervised):
    r"""A classifier of :math:`N + 1` classes; what looks known is drawn to the source, what looks
    unknown is pushed away from it.

    Episode 0 is open-set back-propagation (Saito et al., ECCV 2018): the class layer says of target
    nodes that they are unknown with probability one half, and the layers below, whose gradient is
    reversed, make it change its mind in either direction.

    .. math:: \mathcal L_0 = \text{CE}_S - \frac{1}{2|T|} \sum_{v \in T}
        \log p_{N+1}(v) + \log (1 - p_{N+1}(v))

    Each further episode first clusters the target's hidden states by k-means, with one centre for
    each known class (at first the mean of its source nodes) and one for the unknown (at first the
    mean of the likeliest unknown nodes). A node whose cluster is its predicted class has that
    pseudo-label :math:`\tilde y`, and those likeliest unknown nodes that have none are unknown.
    Then

    .. math:: \mathcal L = \text{CE}_S + w_T \text{CE}(T, \tilde y)
        + w_D \left(\text{BCE}(d(R_1(h_S)), 1) + \text{BCE}(d(R_\lambda(h_T)), 0)\right)

    with :math:`\lambda = -1`, no reversal, for nodes of pseudo-label unknown and 1 for all others.
    A node is unknown where that is the likeliest of the :math:`N + 1` classes, whatever validation
    says. The defaults take as many gradient steps as the authors, who draw 2048 nodes for each, and
    cluster after each five; their encoder is ``gatdrop``. In close-set shift it aligns all nodes.

    Args:
        pretrain_steps: gradient steps of episode 0.
        steps: gradient steps between two clusterings.
        rounds: clusterings, an episode each.
        target_weight: :math:`w_T`.
        domain_weight: :math:`w_D`; the authors' loss is the mean over both graphs, ours their sum.
        unknown_share: share of the target's nodes that count as the likeliest unknown ones; the
            authors take 2000, which is 0.21 to 0.23 on their graphs.
    """

    prior, calibrated, explicit_unknown = 0.0, False, True
    in_batches = False

    def __init__(self, *, pretrain_steps: Count = 150, steps: Count = 20, rounds: Natural = 50,
                 target_weight: Weight = 0.1, domain_weight: Weight = 0.5,
                 unknown_share: Share = 0.22, **base) -> None:
        super().__init__(steps=steps, rounds=rounds, **base)
        self.pretrain_steps, self.target_weight = pretrain_steps, target_weight
        self.domain_weight, self.unknown_share = domain_weight, unknown_share

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.classifier = self.new_classifier(task.num_outputs)

    def begin(self) -> None:
        self.on_target = self.target_view()
        sizes = (self.classifier.hidden_dim, 128, 128)
        hidden = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
        self.domain = nn.Sequential(*hidden, nn.Linear(sizes[-1], 1))

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.setup(task)
        self.ready()
        return minimise(self, self.optimizer, self.first_losses, self.pretrain_steps)

    def episode(self) -> dict[str, float]:
        self.pseudo = self.pseudo_labels()
        shares = {"pseudo_labels": float((self.pseudo >= 0).float().mean())}
        if self.task.open_set:
            unknown = self.pseudo == self.task.num_known
            shares["pseudo_unknown_share"] = float(unknown.float().mean())
        return super().episode() | shares

    def first_losses(self) -> dict[str, Tensor]:
        """The terms of episode 0."""
        terms = {"source": F.cross_entropy(self.classifier(self.on_source), self.labels)}
        if self.task.open_set:
            logits, _ = self.classifier.embed(self.on_target, lambda h: reverse_gradient(h, 1.0))
            terms["adversary"] = half_unknown(logits)
        return terms

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.classifier.embed(self.on_source)
        on_target, target = self.classifier.embed(self.on_target)
        named = F.cross_entropy(on_target, self.pseudo, ignore_index=HIDDEN, reduction="sum")
        strength = torch.where(self.pseudo == self.task.num_known, -1.0, 1.0)[:, None]
        domains = (self.domain(reverse_gradient(h, weight)).view(-1)
                   for h, weight in ((source, 1.0), (target, strength)))
        return {"source": F.cross_entropy(logits, self.labels),
                "target": self.target_weight * named / (self.pseudo >= 0).sum().clamp(min=1),
                "domain": self.domain_weight * domain_loss(*domains)}

    @torch.no_grad()
    def pseudo_labels(self) -> Tensor:
        """A class for each node of the pool, ``[n]``, ``HIDDEN`` where it has none."""
        self.classifier.eval()
        source = self.classifier.embed(self.on_source)[1]
        logits, target = self.classifier.embed(self.on_target)
        centres = [source[self.labels == c].mean(0) for c in range(self.task.num_known)]
        if self.task.open_set:
            count = max(1, round(self.unknown_share * len(target)))
            likeliest = logits.softmax(1)[:, -1].topk(count).indices
            centres.append(target[likeliest].mean(0))

        cluster = k_means(target, torch.stack(centres))
        label = cluster.masked_fill(cluster != logits.argmax(1), HIDDEN)
        if self.task.open_set:
            label[likeliest[label[likeliest] == HIDDEN]] = self.task.num_known
        return label


def k_means(points: Tensor, centres: Tensor, most: int = 100) -> Tensor:
    """Clusters ``[n]`` of points ``[n, H]`` by Lloyd's algorithm from given centres ``[K, H]``.

    A centre that no point is nearest to stays where it is.

    Args:
        most: turns after which it stops in any case.
    """
    cluster = torch.cdist(points, centres).argmin(1)
    for _ in range(most):
        count = cluster.bincount(minlength=len(centres))[:, None]
        total = torch.zeros_like(centres).index_add(0, cluster, points)
        centres = torch.where(count > 0, total / count.clamp(min=1), centres)
        before, cluster = cluster, torch.cdist(points, centres).argmin(1)
        if torch.equal(before, cluster):
            break
    return cluster

"""SRNC+: the paper's algorithm with what makes it hold on graphs that nobody tuned it on."""
from __future__ import annotations

import copy
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses.modularity import newman_resolution
from graphgym_srnc.methods.cluster_gnn import ClusterGNN
from graphgym_srnc.methods.srnc import SRNC
from graphgym_srnc.options import Count, Natural, Positive, Range, Weight
from graphgym_srnc.task import ShiftTask, Sizes

LADDER = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
"""Resolutions that the rule tries."""

CANDIDATES = 3
"""How many of them it keeps."""


class SRNCPlus(SRNC):
    r"""SRNC with one setting for all graphs and both kinds of shift.

    Beyond the paper it has a rule for the number of clusters and the resolution, a committee of
    small cluster GNNs, sure pseudo-labels only, a calibrated cut, a smoothed posterior and
    self-training.

    Args:
        num_clusters: :math:`C` in open-set shift; 0 = max(16, 3(N + 1)).
        resolution: :math:`\gamma`; 0 = by the rule of :meth:`choose_resolutions`.
        cluster_source_steps: steps of a cluster GNN on source labels, where it starts from them.
        modularity_weight: weight of :math:`\mathcal L_{\Phi,T}` against
            :math:`\mathcal L_{\Phi,\theta,S}`.
        members: number of cluster GNNs, whose class posteriors are averaged. Where they start from
            the source labels there is one: all would begin as the same classifier.
        product: exponent of the classifier's posterior that multiplies that of the clusters.
        drop_unsure: in open-set shift, the share of target nodes with the least sure pseudo-labels
            that are never drawn. In close-set shift those are the very nodes that the shift has
            moved, and all are drawn.
        target_ratio: target nodes drawn per episode, in multiples of :math:`|D^s|`.
        hard_labels: take the likeliest pseudo-label rather than a sample.
        calibrated: whether the cut between known and unknown is moved on validation.
        self_training: in open-set shift, episodes at the end of each resolution in which a new
            classifier learns from the sure ones among the last one's decisions on the whole target.
    """

    encoder_defaults = {"hidden": 64}
    search = {"modularity_weight": (1.0, 3.0, 10.0)}
    search_open = {"drop_unsure": (0.0, 0.3, 0.5)}
    kept = (*SRNC.kept, "pretrained", "resolutions")

    def __init__(self, *, num_clusters: Natural = 0, rounds: Count = 3, source_batch: Natural = 0,
                 cluster_lr: Positive = 0.003, resolution: Weight = 0.0, collapse: Weight = 0.1,
                 smoothing: Natural = 10, cluster_source_steps: Natural = 60,
                 modularity_weight: Weight = 3.0, members: Count = 3, product: Weight = 1.0,
                 drop_unsure: Annotated[float, Range(0, 1, closed="left")] = 0.3,
                 target_ratio: Positive = 5.0, hard_labels: bool = True, calibrated: bool = True,
                 self_training: Natural = 3, **base) -> None:
        super().__init__(num_clusters=num_clusters, rounds=rounds, source_batch=source_batch,
                         cluster_lr=cluster_lr, resolution=resolution, collapse=collapse,
                         smoothing=smoothing, **base)
        self.cluster_source_steps, self.modularity_weight = cluster_source_steps, modularity_weight
        self.members, self.product, self.drop_unsure = members, product, drop_unsure
        self.target_ratio, self.hard_labels = target_ratio, hard_labels
        self.calibrated, self.self_training = calibrated, self_training
        self.episodes = rounds + self_training
        self.register_buffer("number", torch.tensor(0))

    def adapt(self, task: ShiftTask | Sizes) -> None:
        super().adapt(task)
        if task.open_set and not self.num_clusters:
            self.size = max(16, 3 * task.num_outputs)
        if self.count and not self.from_source:
            self.count = self.members
        self.dropped_share = self.drop_unsure if task.open_set else 0.0
        self.turns = self.rounds + (self.self_training if task.open_set else 0)

    def ready(self) -> None:
        super().ready()
        self.number.zero_()
        self.candidates: dict[float, ClusterGNN] = {}

    def begin(self, resolution: float) -> dict[str, float]:
        """Start from the pre-trained classifier at each resolution."""
        if not self.number:
            self.pretrained = copy.deepcopy(self.classifier.state_dict())
            self.resolutions = [resolution] if resolution else self.choose_resolutions()
            self.episodes = self.turns * len(self.resolutions)
            resolution = self.resolutions[0]
        self.classifier.load_state_dict(self.pretrained)
        return super().begin(resolution) | ({} if self.number else {"members": self.count})

    def choose_resolutions(self) -> list[float]:
        """The rule for the resolution, which reads no label of a masked class.

        Close-set shift: Newman's estimate from the source labels. Open-set shift: a cluster GNN is
        pre-trained at each step of a ladder; resolutions at which fewer clusters are in use than
        there are classes to tell apart, with room for the masked ones, are left out, and the
        smallest of the rest are tried in turn, the trainer choosing on validation.
        """
        task = self.task
        if not task.open_set:
            edges, degree = task.source.edge_index, self.source.degree
            return [newman_resolution(edges, degree, task.train, self.labels)]

        wanted = min(1.25 * task.num_outputs, self.size)
        for resolution in LADDER:
            cluster = super().pretrained_cluster_gnn(resolution)
            log_q = cluster.log_posterior(cluster.target)
            if cluster.figures(log_q)["used_clusters"] >= wanted:
                self.candidates[resolution] = cluster
            if len(self.candidates) == CANDIDATES:
                break
        return list(self.candidates) or [LADDER[-1]]

    def pretrained_cluster_gnn(self, resolution: float) -> ClusterGNN:
        """The one that the rule has trained already, or a new one."""
        return self.candidates.pop(resolution, None) or super().pretrained_cluster_gnn(resolution)

    def episode(self) -> dict[str, float]:
        """One turn of the paper's while loop, or of self-training, at one of the resolutions."""
        stage, turn = divmod(int(self.number), self.turns)
        resolution = self.resolutions[stage]
        figures = self.begin(resolution) if stage and not turn else {}
        figures |= super().episode() if turn < self.rounds else self.train_on_itself()
        self.number += 1
        return figures | {"resolution": resolution}

    def pseudo_posterior(self) -> Tensor:
        r"""The clusters' posterior times that of the classifier to the power of ``product``."""
        q, known = super().pseudo_posterior(), self.task.num_known
        if not self.product or not self.clusters:
            return q
        p = self.class_posterior(self.task.target)
        if self.task.open_set and not self.knows_unknown:
            # The classifier knows no unknown class yet: it may only share out what Q leaves to the
            # known ones.
            p = torch.cat([p[:, :known] * (1 - q[:, known:]), q[:, known:]], 1)
        return F.normalize(q * p.clamp(min=1e-6) ** self.product, p=1, dim=1)

    def draw_target(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """Draw among the sure target nodes, and take the likeliest pseudo-label of each."""
        pool = self.task.pool
        if self.dropped_share:
            pool = pool[self.surest(q[pool].amax(1))]
        count = round(self.target_ratio * len(self.task.train))
        nodes = pool[torch.randperm(len(pool), device=pool.device)[:count]]
        if self.hard_labels:
            return nodes, q[nodes].argmax(1)
        return nodes, torch.multinomial(q[nodes], 1).view(-1)

    def train_on_itself(self) -> dict[str, float]:
        """Train a new classifier on the sure ones among this one's decisions on the target."""
        scores = self.predict(self.task.target)[self.task.pool]
        scores[:, self.task.num_known:] += self.threshold
        top, label = scores.topk(2)
        sure = self.surest(top[:, 0] - top[:, 1])

        self.classifier.load_state_dict(self.new_classifier(self.task.num_outputs).state_dict())
        self.optimizer = self.make_optimizer(self.classifier.parameters())
        figures = self.update_classifier(self.task.pool[sure], label[sure, 0])
        return figures | {"bound": self.bound()}

    def surest(self, confidence: Tensor) -> Tensor:
        """Positions of the nodes that are sure enough to be drawn, the surest first."""
        count = max(1, round(len(confidence) * (1 - self.dropped_share)))
        return confidence.argsort(descending=True, stable=True)[:count]

    def checkpoint(self) -> dict[str, Any]:
        waiting = [cluster.checkpoint() for cluster in self.candidates.values()]
        return super().checkpoint() | {"candidates": waiting}

    def load(self, state: dict[str, Any]) -> None:
        """Cluster GNNs of later resolutions wait, pre-trained."""
        waiting = [self.new_cluster_gnn(saved["resolution"]).restore(saved)
                   for saved in state["candidates"]]
        super().load(state)
        self.candidates = {cluster.resolution: cluster for cluster in waiting}

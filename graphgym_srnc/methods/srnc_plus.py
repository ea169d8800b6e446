"""SRNC+: SRNC with one cluster per known class and spare ones for the unknown class."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder
from graphgym_srnc.core.options import Count, Natural, OneOf, Positive, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.modularity import newman_resolution
from graphgym_srnc.losses.prior import equal_ranks_p_value, unknown_share
from graphgym_srnc.methods.shared.base import threshold_by_share
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, ClusterMethod
from graphgym_srnc.methods.shared.communities import SCALES
from graphgym_srnc.methods.shared.features_only import FeaturesOnly
from graphgym_srnc.methods.shared.first_scores import FirstScores
from graphgym_srnc.methods.shared.held_out import HeldOut
from graphgym_srnc.methods.shared.pseudo_labels import surest
from graphgym_srnc.methods.shared.training import (
    Part,
    all_logits,
    minimise,
    part_losses,
    random_draws_apart,
)


class Kind(NamedTuple):
    """Settings that depend on the kind of shift.

    Args:
        correction, power: prior correction ``auto``; the mean of an open-set posterior would count
            the unknown nodes.
        converges: whether the classifier stops when its loss has converged. Between two graphs rare
            classes are learnt late, when the mean loss is already low.
        learned: share of the pseudo-labels of each class to learn; None = the held-out accuracy to
            the power of ``doubt``.
    """

    correction: str
    power: float
    converges: bool
    learned: float | None = None


KINDS = {
    ("close-set", "one graph"): Kind("mean", 0.75, converges=True),
    ("close-set", "two graphs"): Kind("mean", 0.75, converges=False),
    ("open-set", "one graph"): Kind("labels", 0.5, converges=True),
    ("open-set", "two graphs"): Kind("labels", 0.5, converges=False, learned=0.7),
}

LEVEL = 0.01
"""Level of the test for an unknown class."""

CERTAIN = 50.0
"""Finite log-odds used instead of infinity."""

COLLAPSE, CLUSTER_LR = 0.1, 0.003
"""Weight of the collapse term, and learning rate for modularity."""

NO_UNKNOWN = (
    "The labels show no sign of an unknown class (p = {:.2f}), so no node is predicted as unknown."
    " If you know that there is one, set srnc_plus.abstain False, or label some of its nodes for"
    " validation."
)


class SRNCPlus(ClusterMethod):
    r"""Alternate a classifier and a cluster GNN, starting from the labels, for every kind of shift.

    The cluster GNN has one cluster per known class and, in open-set shift, ``spare`` further
    clusters, whose sum is the unknown class. Each iteration trains a new cluster GNN on the labels,
    on the classifier's pseudo-labels :math:`\hat y_\theta` and on the target's modularity (Eq. 10
    of the paper, with the target in its second term too):

    .. math:: \mathcal L_\Phi = w \mathcal L_{\Phi,T}
        + \text{CE}(Q_\Phi, y) + \text{CE}(Q_\Phi, \hat y_\theta)

    A new classifier then learns the labels and the pseudo-labels :math:`\hat y = \arg\max Q_\Phi^v
    P_\theta^{1-v}` on the target (Eq. 9).

    Before there is a model of the unknown class, a node is unknown if its :class:`FirstScores` are
    low. It abstains where the data do not support more. If labels that are held out in turn rank
    like the unlabelled nodes, then no node is unknown. If features say that the edges of a second
    graph do not join nodes of the same class, then the plain classifier, or its mean with an MLP,
    makes the predictions.

    When to use: your own graph, two graphs, or classes that have no labels. Prefer another method
    if all labels of a class come from one part of the graph, if the graph grows over time, or if
    there are only about 20 labels in total.

    Args:
        rounds: number of iterations.
        steps: maximum gradient steps of the classifier per iteration. On one graph without
            ``batch_size`` it stops when the loss has converged.
        fit_steps: gradient steps of the cluster GNN on labels and pseudo-labels.
        cluster_steps: gradient steps of the cluster GNN on the whole loss.
        spare: number of spare clusters in open-set shift.
        modularity_weight: weight :math:`w` of modularity.
        resolution: resolution of modularity in open-set shift, in multiples of Newman's estimate
            from the pseudo-labels. In close-set shift it is 1.
        missing: weight of label density against log-odds in the first scores; 0 = log-odds alone.
        doubt: exponent of the held-out accuracy that gives the share of pseudo-labels to learn; 0 =
            all. In open-set shift between two graphs the share is 70 %.
        smoothing: steps of personalised PageRank over the posterior. In open-set shift, held-out
            nodes of the target decide whether it is smoothed.
        abstain: whether to predict no node as unknown if the labels show no sign of an unknown
            class, and not to adapt to the target of two graphs if its edges do not seem to join
            nodes of the same class.
        correction: as in every method. ``auto`` is ``mean`` with power 0.75 in close-set shift,
            else ``labels`` with power 0.5.

    References:
        Zhu et al., "Shift-Robust Node Classification via Graph Adversarial Clustering",
        arXiv:2203.15802, 2022. Elkan and Noto, "Learning Classifiers from Only Positive and
        Unlabeled Data", KDD 2008 (label density).
    """

    explicit_unknown = True
    encoder_defaults = {"hidden": 64}
    search = {"modularity_weight": (1.0, 3.0, 10.0)}
    kept = (*ClusterMethod.kept, "held_out_labels")
    iteration: Tensor
    accuracy: Tensor
    share: Tensor
    smooths: Tensor
    absent: Tensor
    adapts: Tensor
    mixes: Tensor
    first: FirstScores
    features_only: FeaturesOnly
    held_out_labels: Tensor

    def __init__(
        self,
        *,
        rounds: Count = 3,
        steps: Count = 200,
        fit_steps: Count = 60,
        cluster_steps: Natural = 60,
        spare: Count = 12,
        modularity_weight: Weight = 3.0,
        resolution: Positive = 2.0,
        missing: Weight = 3.0,
        doubt: Weight = 2.0,
        smoothing: Natural = 10,
        abstain: bool = True,
        correction: Annotated[str, OneOf("auto", "none", "mean", "em", "bbse", "labels")] = "auto",
        source_first: bool = True,
        **base: Any,
    ) -> None:
        super().__init__(
            smoothing=smoothing, correction=correction, source_first=source_first, **base
        )
        self.rounds, self.episodes, self.steps, self.fit_steps = rounds, rounds, steps, fit_steps
        self.cluster_steps, self.spare = cluster_steps, spare
        self.modularity_weight, self.resolution = modularity_weight, resolution
        self.missing, self.doubt, self.abstain = missing, doubt, abstain
        for name, value in self.initial.items():
            self.register_buffer(name, torch.tensor(value))

    initial = {
        "iteration": 0,
        "accuracy": 1.0,
        "share": -1.0,
        "smooths": False,
        "absent": False,
        "adapts": True,
        "mixes": False,
    }

    @property
    def open(self) -> bool:
        """Whether some nodes are of an unknown class without labels, as far as is known."""
        return self.task.open_set and not self.absent

    @property
    def one_graph(self) -> bool:
        """Whether source and target are the same graph."""
        return self.task.source is self.task.target

    @property
    def kind(self) -> Kind:
        """Settings of the kind of shift."""
        shift = "open-set" if self.open else "close-set"
        return KINDS[shift, "one graph" if self.one_graph else "two graphs"]

    @property
    def prior_correction(self) -> tuple[str, float]:
        if self.correction == "auto":
            return self.kind.correction, self.kind.power
        return super().prior_correction

    @property
    def held_out(self) -> HeldOut:
        """Held-out nodes of the target; none if they are on another graph."""
        here, task = self.task.validation is self.task.target, self.task
        count = len(self.held_out_labels) if here else 0
        return HeldOut(task.val[:count], self.held_out_labels[:count], task.num_known)

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.classifier = self.new_classifier(task.num_outputs)
        known, features, batch = task.num_known, task.num_features, self.batch_size
        if task.open_set:
            sizes = known, features, known + self.spare, task.num_outputs, batch
            self.first = FirstScores(self.cluster_spec, *sizes, weight=self.missing)
        else:
            self.features_only = FeaturesOnly(self.encoder, features, known, batch)

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Train the classifier of the known classes, and learn whether and how to adapt."""
        for name, value in self.initial.items():
            getattr(self, name).fill_(value)
        self.setup(task)
        self.ready()
        self.episodes, self.held_out_labels = self.rounds, self.labels[:0]
        self.smooths.fill_(not self.open)
        self.classifier, figures = self.trained([self.labelled(task.train, self.labels)])
        if task.open_set:
            logits = self.logits(task.target)[:, : task.num_known]
            self.first.find_communities(self.communities(logits.argmax(1)))
            self.first.learn(task.source, logits, task.train, self.labels)
        elif self.abstain and not self.one_graph:
            figures |= self.judge_target()
        return figures

    def judge_target(self) -> dict[str, float]:
        """Decide whether to adapt to the target of two graphs."""
        with random_draws_apart(self.task.device):
            learned = self.source, self.task.train, self.labels, self.steps, self.make_optimizer
            found = self.features_only.judge(self.target, *learned)
        self.reported.append("homophily")
        self.adapts.fill_(found.adapts)
        self.mixes.fill_(found.mixes)
        if not found.adapts:
            self.episodes = 0
            self.warnings.append(found.warning)
        return found.figures

    def estimate_unknown(self) -> dict[str, float]:
        """Estimate the share of unknown nodes, and test whether there are any.

        Labels are held out in turn for this. Unknown held-out nodes would tell more.
        """
        task = self.task
        if self.iteration or not (self.open and self.one_graph) or self.held_out.unknown:
            return {}

        def known_logits(train: Tensor, labels: Tensor) -> Tensor:
            classifier, _ = self.trained([self.labelled(train, labels)])
            return all_logits(classifier, self.target, self.batch_size)[:, : task.num_known]

        with random_draws_apart(task.device):
            ranks = self.first.held_out_ranks(
                known_logits, self.target, task.train, self.labels, task.pool
            )
        p_value, share = equal_ranks_p_value(ranks), unknown_share(ranks, len(task.pool))
        self.share.fill_(share)
        sure = self.confidence(self.predict(task.target))
        self.threshold.copy_(sure[task.pool].quantile(self.share))
        if self.abstain and p_value > LEVEL:
            self.absent.fill_(True)
            self.smooths.fill_(True)
            self.warnings.append(NO_UNKNOWN.format(p_value))
            self.reported.append("unknown share")
        return {"no_unknown_p_value": p_value, "unknown_share": share}

    def episode(self) -> dict[str, float]:
        """Run one iteration: pseudo-labels, cluster GNN, and a new classifier."""
        task, figures = self.task, self.estimate_unknown()
        width = task.num_known + self.open
        scores = self.predict(task.target)[:, :width]
        scores[:, task.num_known :] += self.threshold.clamp(max=CERTAIN)

        of_clusters, log_q = self.cluster(scores)
        log_q, log_p = log_q[:, :width], scores.log_softmax(1)
        weight = self.held_out.weight(log_q, log_p)
        evidence = weight * log_q + (1 - weight) * log_p

        learned, label = self.surest(evidence), evidence.argmax(1)
        self.classifier, of_classifier = self.trained(
            [
                self.labelled(task.train, self.labels, "classifier_source"),
                Part("classifier_target", self.target, learned, label[learned]),
            ]
        )
        self.iteration.add_(1)
        if self.open:
            log_p = self.logits(task.target).log_softmax(1)
            self.smooths.fill_(self.held_out.accepts(self.smoothed(log_p, task.target), log_p))
        figures |= of_clusters | of_classifier | {"cluster_weight": weight}
        figures["learned_share"] = len(learned) / len(task.pool)
        if task.open_set:
            unknown = (label[task.pool] == task.num_known).float().mean()
            figures["pseudo_unknown_share"] = float(unknown)
        return figures

    def surest(self, scores: Tensor) -> Tensor:
        """Unlabelled nodes ``[n]`` whose pseudo-labels are learned, by scores ``[V, N(+1)]``."""
        share = self.kind.learned or float(self.accuracy) ** self.doubt
        return surest(scores, self.task.pool, share)

    def labelled(self, train: Tensor, labels: Tensor, name: str = "source") -> Part:
        """Cross-entropy of labels ``[n]``, at first among the known classes alone."""
        known = self.task.num_known if name == "source" else None
        return Part(name, self.source, train, labels, num_classes=known)

    def trained(self, parts: list[Part]) -> tuple[Encoder, dict[str, float]]:
        """A new classifier, trained on cross-entropies, and their last values by name."""
        classifier = self.new_classifier(self.task.num_outputs).to(self.task.device)
        figures = minimise(
            classifier,
            self.make_optimizer(classifier.parameters()),
            part_losses(classifier, parts, self.batch_size, self.fanout),
            self.steps,
            # The loss of a mini-batch is too noisy to detect convergence.
            until_converged=self.kind.converges and not self.batch_size,
        )
        return classifier, figures

    def cluster(self, scores: Tensor) -> tuple[dict[str, float], Tensor]:
        r"""Train a new cluster GNN on the scores ``[V, N(+1)]`` of the classifier.

        Returns:
            Losses and figures, and :math:`\log Q_\Phi` over classes ``[V, N + 1]`` on the target.
        """
        named, learned = scores.argmax(1), self.surest(scores)
        cluster = self.new_cluster_gnn(named)
        parts = [
            Part("cluster_source", cluster.source, self.task.train, self.labels),
            Part("cluster_decisions", cluster.target, learned, named[learned]),
        ]
        encoder, optimizer = cluster.encoder, self.make_optimizer(cluster.encoder.parameters())
        minimise(encoder, optimizer, cluster.classify(parts, modularity=False), self.fit_steps)
        whole = cluster.classify(parts, modularity=True)
        figures = minimise(encoder, cluster.optimizer, whole, self.cluster_steps)
        log_q = cluster.log_posterior(cluster.target)
        figures |= {"resolution": cluster.resolution} | cluster.figures(log_q)
        return figures, cluster.log_class_posterior(log_q)

    def new_cluster_gnn(self, named: Tensor, scale: float = 1.0, **changes: Any) -> ClusterGNN:
        """An untrained cluster GNN, whose resolution is estimated from pseudo-labels on the target.

        Args:
            named: pseudo-labels, ``[V]``.
            scale: factor of the resolution.
            changes: changes to the encoder specification.
        """
        every = torch.arange(len(named), device=named.device)
        gamma = newman_resolution(self.task.target.edge_index, self.target.degree, every, named)
        return self.untrained(
            self.task.num_known + self.spare * self.open,
            replace(self.cluster_spec, **changes),
            resolution=gamma * scale * (self.resolution if self.open else 1.0),
            collapse=COLLAPSE,
            modularity_weight=self.modularity_weight,
            lr=CLUSTER_LR,
        )

    def communities(self, named: Tensor) -> list[ClusterGNN]:
        """Untrained cluster GNNs of the label density, which is used on one graph only."""
        used = SCALES if self.one_graph and self.missing else ()
        return [self.new_cluster_gnn(named, scale, dropout=0.0) for scale in used]

    def corrected(self, scores: Tensor) -> Tensor:
        return super().corrected(scores) if self.adapts else scores

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Log posteriors ``[V, N(+1)]``.

        Before the first iteration, the unknown class has minus the first scores.
        """
        logits, known = self.logits(graph, role), self.task.num_known
        if self.mixes:
            features = self.features_only.log_posterior(self.prepared(graph))
            return (logits.log_softmax(1) + features) / 2
        if not self.adapts:
            return logits
        if self.open and not self.iteration:
            log_p = logits[:, :known].log_softmax(1)
            score = self.first(logits[:, :known], self.prepared(graph))
            return torch.cat([log_p - log_p.amax(1, keepdim=True), -score[:, None]], 1)
        log_p = logits[:, : known + self.open].log_softmax(1)
        log_p = self.smoothed(log_p, graph) if self.smooths else log_p
        if self.absent:
            log_p = torch.cat([log_p, log_p.amax(1, keepdim=True) - CERTAIN], 1)
        return log_p

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold of the unknown class, for pseudo-labels and for predictions.

        Unknown held-out nodes choose it, or the estimated share of unknown nodes on one graph.
        Between two graphs half of the target is unknown at first, later those that the classifier
        predicts as unknown.
        """
        self.held_out_labels, known = label, label < self.task.num_known
        if known.any():
            named = scores[known, : self.task.num_known].argmax(1)
            self.accuracy.fill_((named == label[known]).float().mean())
        sure = self.confidence(on_target)
        if not self.open:
            self.threshold.zero_()
        elif self.held_out.unknown:
            super().calibrate(scores, label, on_target)
        elif self.share >= 0:
            self.threshold.copy_(sure[self.task.pool].quantile(self.share))
        elif self.one_graph or self.cut == "share":
            self.threshold.fill_(threshold_by_share(self.confidence(scores[known]), sure))
        else:
            self.threshold.copy_(sure.new_zeros(()) if self.iteration else sure.median())

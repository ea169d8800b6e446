"""SRNC+: SRNC with one cluster per known class and spare ones for the unknown class."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, Graph
from graphgym_srnc.core.options import Count, Natural, OneOf, Positive, Steps, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.modularity import newman_resolution
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, ClusterMethod
from graphgym_srnc.methods.shared.features_only import MIN_RELIABILITY, FeaturesOnly
from graphgym_srnc.methods.shared.first_scores import FirstScores
from graphgym_srnc.methods.shared.held_out import HeldOut
from graphgym_srnc.methods.shared.label_density import RESOLUTIONS
from graphgym_srnc.methods.shared.prediction import threshold_by_share
from graphgym_srnc.methods.shared.training import Term, all_logits, fit_terms, random_draws_apart

LARGE_LOG_ODDS = 50.0  # used instead of infinity
COLLAPSE, CLUSTER_LR = 0.1, 0.003  # weight of the collapse term, and learning rate for modularity
MIN_ASSORTATIVITY = 0.2  # at which the classes of a target support adaptation
NOT_ADAPTED = {
    True: "SRNC+ did not adapt to the target, since few of its edges seem to join nodes of the same"
    " class (estimated assortativity {:.2f}). A weighted mean of a plain GNN and an MLP makes the"
    " predictions.",
    False: "SRNC+ did not adapt to the target, since few edges of the source join nodes of the same"
    " class (assortativity {:.2f}), and features alone cannot tell whether this differs on the"
    " target. The plain GNN makes the predictions.",
}
"""Warnings if a target is not adapted to, by whether features are reliable."""

SIGNIFICANT, WEAK = 0.01, 0.1  # p-values below which the sign of an unknown class is clear, or weak
SIGN = "sign of an unknown class"
NO_UNKNOWN = (
    "The labels show {} " + SIGN + " (p = {:.2g}; a clear sign: below 0.01), so no node is"
    " predicted as unknown. If you know that there is one, set srnc_plus.abstain False"
    " (Python: abstain=False), or label some of its nodes for validation."
)


class Kind(NamedTuple):
    """Settings that depend on the kind of shift.

    Args:
        open_set: whether nodes may be of an unknown class without labels.
        correction: name and power of the prior correction ``auto``; the mean of an open-set
            posterior would count the unknown nodes.
        until_converged: whether the classifier stops when its loss has converged. Between two
            graphs rare classes are learnt late, when the mean loss is already low.
        pseudo_label_share: share of the pseudo-labels of each class to learn; None = the held-out
            accuracy to the power of ``doubt``.
        resolutions: resolutions of the communities of the label density. They and the share of
            unknown nodes need unlabelled nodes of the labelled graph.
    """

    open_set: bool
    correction: tuple[str, float]
    until_converged: bool
    pseudo_label_share: float | None = None
    resolutions: tuple[float, ...] = ()


KINDS = {
    ("close-set", "one graph"): Kind(False, ("mean", 0.75), True),
    ("close-set", "two graphs"): Kind(False, ("mean", 0.75), False),
    ("open-set", "one graph"): Kind(True, ("labels", 0.5), True, resolutions=RESOLUTIONS),
    ("open-set", "two graphs"): Kind(True, ("labels", 0.5), False, pseudo_label_share=0.7),
}


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
    low. The method adapts only as far as the data support it. If labels that are held out in turn
    rank like the unlabelled nodes, then no node is unknown. If features say that the edges of a
    second graph do not join nodes of the same class, then the plain classifier, or its weighted
    mean with an MLP, makes the predictions.

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
        correction: correction of the posterior by class shares, see ``ERM``. ``auto`` is ``mean``
            with power 0.75 in close-set shift, else ``labels`` with power 0.5.

    Attributes:
        held_out_labels, accuracy: labels of the validation nodes, and the share of the known ones
            that is predicted correctly.
        unknown_share: estimated share of unknown nodes among the unlabelled ones; -1 = none.
        iteration, smooths: number of finished iterations; whether the posterior is smoothed.
        absent: whether the labels show no sign of an unknown class.
        adapts, features_weight: whether the method adapts to the target; if not, the weight of the
            MLP.

    References:
        Zhu et al., "Shift-Robust Node Classification via Graph Adversarial Clustering",
        arXiv:2203.15802, 2022.
    """

    checkpointed = (*ClusterMethod.checkpointed, "held_out_labels", "accuracy", "unknown_share")
    explicit_unknown = True
    encoder_defaults = {"hidden": 64}
    search = {"modularity_weight": (1.0, 3.0, 10.0)}
    held_out_labels: Tensor
    iteration: Tensor
    smooths: Tensor
    absent: Tensor
    adapts: Tensor
    features_weight: Tensor

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
        smoothing: Steps = 10,
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

    @property
    def kind(self) -> Kind:
        """Settings of the kind of shift, as far as it is known."""
        shift = "open-set" if self.task.open_set and not self.absent else "close-set"
        one_graph = self.task.source is self.task.target
        return KINDS[shift, "one graph" if one_graph else "two graphs"]

    @property
    def prior_correction(self) -> tuple[str, float]:
        if not self.adapts:
            return "none", 1.0
        return self.kind.correction if self.correction == "auto" else super().prior_correction

    @property
    def held_out(self) -> HeldOut:
        """Held-out nodes of the target; none if they are on another graph."""
        here, task = self.task.validation is self.task.target, self.task
        count = len(self.held_out_labels) if here else 0
        return HeldOut(task.val[:count], self.held_out_labels[:count], task.num_known)

    def build(self, task: ShiftTask | Sizes) -> None:
        # Reset what an earlier run learned about its task.
        initial = {"absent": False, "adapts": True, "smooths": not task.open_set}
        for name, value in (initial | {"features_weight": 0.0, "iteration": 0}).items():
            # A saved model is built without values of its weights, but these are read at once.
            self.register_buffer(name, torch.tensor(value, device="cpu"))
        self.held_out_labels, self.accuracy, self.unknown_share = torch.zeros(0).long(), 1.0, -1.0
        super().build(task)
        self.classifier = self.new_classifier(task.num_outputs)
        known, features, batch = task.num_known, task.num_features, self.batch_size
        if task.open_set:
            sizes = known, features, known + self.spare, task.num_outputs, batch
            self.first = FirstScores(self.cluster_spec, *sizes, weight=self.missing)
        else:
            self.features_only = FeaturesOnly(self.encoder, features, known, batch)

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Train the classifier of the known classes, and test whether and how to adapt."""
        self.setup(task)
        self.initialise()
        self.episodes = self.rounds
        self.classifier, figures = self.train_classifier(task.train, self.labels)
        if task.open_set:
            self.find_communities(self.logits(task.target)[:, : task.num_known])
        return figures | self.test_homophily()

    def test_homophily(self) -> dict[str, float]:
        """Decide whether to adapt to the target of two graphs in close-set shift."""
        if not self.abstain or self.kind.open_set or self.source is self.target:
            return {}
        with random_draws_apart(self.task.device):
            labelled = self.source, self.task.train, self.labels, self.steps, self.make_optimizer
            value, reliability = self.features_only.assortativity(self.target, *labelled)
        self.reported.append("homophily")
        if value < MIN_ASSORTATIVITY:
            reliable = reliability >= MIN_RELIABILITY
            # The weight of the MLP falls from a half at assortativity 0 to 0 at the bound.
            weight = min(1 - value / MIN_ASSORTATIVITY, 1.0) / 2
            self.adapts.fill_(False)
            self.features_weight.fill_(weight if reliable else 0.0)
            self.episodes = 0
            self.warnings.append(NOT_ADAPTED[reliable].format(value))
        return {"features_reliability": reliability, "assortativity": value}

    def find_communities(self, logits: Tensor) -> None:
        """Find communities and their label density, from logits of known classes ``[V, N]``."""
        predicted, scales = logits.argmax(1), self.kind.resolutions if self.missing else ()
        clusters = [self.new_cluster_gnn(predicted, scale, dropout=0.0) for scale in scales]
        self.first.find_communities(clusters)
        posteriors = self.first.posteriors(self.task.source)
        self.first.count_labels(posteriors, logits, self.task.train, self.labels)

    def estimate_unknown(self) -> dict[str, float]:
        """Estimate the share of unknown nodes of one graph, and test whether there are any.

        Labels are held out in turn for this. Nothing is estimated if unknown nodes are held out,
        since these set the threshold.
        """
        if not self.kind.resolutions or self.held_out.unknown:
            return {}

        def known_logits(train: Tensor, labels: Tensor) -> Tensor:
            classifier, _ = self.train_classifier(train, labels)
            logits = all_logits(classifier, self.target, self.batch_size)
            return logits[:, : self.task.num_known]

        labelled = self.task.train, self.labels
        with random_draws_apart(self.task.device):
            found = self.first.test_unknown(known_logits, self.target, *labelled, self.task.pool)
        self.unknown_share, p_value = found
        confidence = self.confidence(self.predict(self.task.target))[self.task.pool]
        self.threshold.copy_(confidence.quantile(self.unknown_share))
        if self.abstain and p_value > SIGNIFICANT:
            sign = "no significant" if p_value > WEAK else "only a weak"
            self.absent.fill_(True)
            self.smooths.fill_(True)
            self.warnings.append(NO_UNKNOWN.format(sign, p_value))
            self.reported.append("unknown share")
        return {"no_unknown_p_value": p_value, "unknown_share": self.unknown_share}

    def episode(self) -> dict[str, float]:
        """One iteration of Algorithm 1: pseudo-labels, cluster GNN, mixture and classifier."""
        task, figures = self.task, {} if self.iteration else self.estimate_unknown()
        # Pseudo-labels: the last classifier's. With the threshold the largest score decides.
        num_classes = task.num_known + self.kind.open_set
        scores = self.predict(task.target)[:, :num_classes]
        scores[:, task.num_known :] += self.threshold.clamp(max=LARGE_LOG_ODDS)

        # Lines 5 to 8: the cluster GNN on labels, pseudo-labels and modularity (Eq. 10).
        log_q, cluster_figures = self.train_cluster_gnn(scores)

        # Lines 10 and 11: pseudo-labels of the mixture of both models.
        log_q, log_p = log_q[:, :num_classes], scores.log_softmax(1)
        weight = self.held_out.best_weight(log_q, log_p)
        mixture = weight * log_q + (1 - weight) * log_p
        pseudo = self.pseudo_labels("classifier_target", self.target, mixture)

        # Lines 12 and 13: the classifier on labels and pseudo-labels (Eq. 9).
        self.classifier, losses = self.train_classifier(task.train, self.labels, [pseudo])
        self.iteration.add_(1)
        if self.kind.open_set:
            log_p = self.logits(task.target).log_softmax(1)
            self.smooths.fill_(self.held_out.not_worse(self.smoothed(log_p, task.target), log_p))
        figures |= cluster_figures | losses | {"cluster_weight": weight}
        figures["learned_share"] = len(pseudo.nodes) / len(task.pool)
        if task.open_set:
            unknown = mixture.argmax(1)[task.pool] == task.num_known
            figures["pseudo_unknown_share"] = float(unknown.float().mean())
        return figures

    def pseudo_labels(self, name: str, graph: Graph, scores: Tensor) -> Term:
        """Cross-entropy on the most confident pseudo-labels, by scores ``[V, N(+1)]``."""
        share = self.kind.pseudo_label_share or self.accuracy**self.doubt
        nodes = confident_nodes(scores, self.task.pool, share)
        return Term(name, graph, nodes, scores.argmax(1)[nodes])

    def train_classifier(
        self, train: Tensor, labels: Tensor, pseudo: Sequence[Term] = ()
    ) -> tuple[Encoder, dict[str, float]]:
        """A new classifier of labels ``[n]`` and pseudo-labels, and its last losses by name.

        Without pseudo-labels it learns the known classes alone.
        """
        name, known = ("classifier_source", None) if pseudo else ("source", self.task.num_known)
        classifier = self.new_classifier(self.task.num_outputs).to(self.task.device)
        figures = fit_terms(
            classifier,
            self.make_optimizer(classifier.parameters()),
            [Term(name, self.source, train, labels, num_classes=known), *pseudo],
            self.steps,
            self.batch_size,
            self.fanout,
            # The loss of a mini-batch is too noisy to detect convergence.
            until_converged=self.kind.until_converged and not self.batch_size,
        )
        return classifier, figures

    def train_cluster_gnn(self, scores: Tensor) -> tuple[Tensor, dict[str, float]]:
        r"""Train a new cluster GNN on the scores ``[V, N(+1)]`` of the classifier.

        Returns:
            :math:`\log Q_\Phi` over classes ``[V, N + 1]`` on the target, and losses by name.
        """
        cluster = self.new_cluster_gnn(scores.argmax(1))
        terms = [
            Term("cluster_source", cluster.source, self.task.train, self.labels),
            self.pseudo_labels("cluster_decisions", cluster.target, scores),
        ]
        figures = cluster.fit(terms, (self.fit_steps, self.cluster_steps), self.make_optimizer)
        log_q = cluster.log_posterior(cluster.target)
        figures |= {"resolution": cluster.resolution} | cluster.figures(log_q)
        return cluster.log_class_posterior(log_q), figures

    def new_cluster_gnn(self, predicted: Tensor, scale: float = 1.0, **changes: Any) -> ClusterGNN:
        """An untrained cluster GNN, whose resolution is estimated from predictions on the target.

        Args:
            predicted: predicted classes, ``[V]``.
            scale: factor of the resolution.
            changes: changes to the encoder specification.
        """
        gamma = newman_resolution(self.task.target.edge_index, self.target.degree, predicted)
        return self.untrained(
            self.task.num_known + self.spare * self.kind.open_set,
            replace(self.cluster_spec, **changes),
            resolution=gamma * scale * (self.resolution if self.kind.open_set else 1.0),
            collapse=COLLAPSE,
            modularity_weight=self.modularity_weight,
            lr=CLUSTER_LR,
            padded=True,
        )

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold of the unknown class, for pseudo-labels and for predictions.

        Unknown held-out nodes choose it, or the estimated share of unknown nodes on one graph.
        Between two graphs half of the target is unknown at first, later those that the classifier
        predicts as unknown.
        """
        self.held_out_labels, known = label, label < self.task.num_known
        if known.any():
            predicted = scores[known, : self.task.num_known].argmax(1)
            self.accuracy = float((predicted == label[known]).float().mean())
        target, validation = self.confidence(on_target), self.confidence(scores[known])
        if not self.kind.open_set:
            self.threshold.zero_()
        elif self.held_out.unknown:
            super().calibrate(scores, label, on_target)
        elif self.unknown_share >= 0:
            pool = target[self.task.pool]
            at_share = pool.quantile(self.unknown_share)
            self.threshold.copy_(lower_threshold(at_share, validation, pool))
        elif self.kind.resolutions or self.cut == "share":
            self.threshold.fill_(threshold_by_share(validation, target))
        else:
            self.threshold.copy_(target.new_zeros(()) if self.iteration else target.median())

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Log posteriors ``[V, N(+1)]``."""
        logits, known = self.logits(graph, role), self.task.num_known
        if not self.adapts:
            return self.unadapted(logits, graph)
        if self.kind.open_set and not self.iteration:
            return self.first.log_posterior(logits[:, :known], self.prepared(graph))
        log_p = logits[:, : known + self.kind.open_set].log_softmax(1)
        log_p = self.smoothed(log_p, graph) if self.smooths else log_p
        if self.absent:
            log_p = torch.cat([log_p, log_p.amax(1, keepdim=True) - LARGE_LOG_ODDS], 1)
        return log_p

    def unadapted(self, logits: Tensor, graph: Data) -> Tensor:
        """Log posteriors ``[V, N]`` of a target without homophily, from the plain classifier's."""
        weight = self.features_weight
        if not weight:
            return logits
        features = self.features_only.log_posterior(self.prepared(graph))
        return (1 - weight) * logits.log_softmax(1) + weight * features


def lower_threshold(threshold: Tensor, known: Tensor, unlabelled: Tensor) -> Tensor:
    """The highest threshold, at most a given one, below which known nodes are in the minority.

    Below it, the share of held-out known nodes is at most half the share of unlabelled nodes.

    Args:
        threshold: the threshold of the estimated share of unknown nodes.
        known, unlabelled: confidences of held-out known nodes ``[n]`` and unlabelled nodes ``[m]``.
    """
    known, unlabelled = known.sort().values, unlabelled.sort().values
    candidates = torch.cat([known[known < threshold], threshold.view(1)])
    known_below = torch.searchsorted(known, candidates) / max(len(known), 1)
    below = torch.searchsorted(unlabelled, candidates) / len(unlabelled)
    return candidates[known_below <= below / 2].max()


def confident_nodes(scores: Tensor, pool: Tensor, share: float) -> Tensor:
    """Nodes ``[n]`` of the pool with the largest margins in each class, at least one per class.

    Args:
        scores: scores of all nodes, ``[V, K]``. The margin is the difference of the largest two.
        pool: ids of the unlabelled nodes.
        share: share of the nodes of each predicted class to choose.
    """
    best = scores[pool].topk(2, 1)
    margin, label = best.values[:, 0] - best.values[:, 1], best.indices[:, 0]
    chosen = []
    for members in ((label == k).nonzero().ravel() for k in range(scores.size(1))):
        order = margin[members].argsort(descending=True)
        chosen.append(members[order[: max(1, math.ceil(share * len(order)))]])
    return pool[torch.cat(chosen)]

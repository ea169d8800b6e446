"""SRNC+: SRNC with one cluster per known class and spare ones for the unknown class."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, Graph
from graphgym_srnc.core.options import Count, Natural, OneOf, Positive, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.modularity import newman_resolution
from graphgym_srnc.methods.shared.adaptation import Adaptation, confident_nodes
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, ClusterMethod
from graphgym_srnc.methods.shared.features_only import FeaturesOnly
from graphgym_srnc.methods.shared.first_scores import FirstScores
from graphgym_srnc.methods.shared.training import Term, fit_terms

LARGE_LOG_ODDS = 50.0  # used instead of infinity
COLLAPSE, CLUSTER_LR = 0.1, 0.003  # weight of the collapse term, and learning rate for modularity


class SRNCPlus(Adaptation, ClusterMethod):
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
    low. :class:`Adaptation` decides whether the data support to adapt.

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

    References:
        Zhu et al., "Shift-Robust Node Classification via Graph Adversarial Clustering",
        arXiv:2203.15802, 2022.
    """

    explicit_unknown = True
    encoder_defaults = {"hidden": 64}
    search = {"modularity_weight": (1.0, 3.0, 10.0)}

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
        """Train the classifier of the known classes, and test whether and how to adapt."""
        self.setup(task)
        self.initialise()
        self.episodes = self.rounds
        self.classifier, figures = self.train_classifier(task.train, self.labels)
        if task.open_set:
            self.find_communities(self.logits(task.target)[:, : task.num_known])
        return figures | self.test_homophily()

    def find_communities(self, logits: Tensor) -> None:
        """Find communities and their label density, from logits of known classes ``[V, N]``."""
        predicted, scales = logits.argmax(1), self.kind.resolutions if self.missing else ()
        clusters = [self.new_cluster_gnn(predicted, scale, dropout=0.0) for scale in scales]
        self.first.find_communities(clusters)
        posteriors = self.first.posteriors(self.task.source)
        self.first.count_labels(posteriors, logits, self.task.train, self.labels)

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

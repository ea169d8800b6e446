"""SRNC: Shift-Robust Node Classification, Algorithm 1 of the paper."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Callable

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph
from graphgym_srnc.core.options import Count, Natural, OneOf, Positive, Range, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.alignment import evidence_lower_bound
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, ClusterMethod, Clusters
from graphgym_srnc.methods.shared.training import Term, fit_terms, hidden_and_group

PRETRAIN_STEPS = 150
SOURCE_STEPS = 60
"""Gradient steps of the cluster GNN in episode 0 on modularity, or on the source labels."""


class SRNC(ClusterMethod):
    r"""Alternate a classifier and a cluster GNN, as in Algorithm 1 of the SRNC paper.

    .. math:: \mathcal L_\Phi = \mathcal L_{\Phi,T} + \mathcal L_{\Phi,\theta,S}, \qquad
        \mathcal L_\theta = \mathcal L_{\theta,S} + \mathcal L_{\theta,\Phi,T}
        + \alpha \mathcal L_{\theta,\Phi,S}

    The cluster GNN minimises the negative modularity of the target and the divergence of its
    clusters from the source labels. The classifier minimises cross-entropy on labels and
    pseudo-labels.

    Differences from the paper, whose code was not found: where it gives no detail, the cluster GNN
    follows DMoN, with its collapse term. In close-set shift it learns the source labels first,
    because the paper's order of pre-training often leaves clusters that do not match the classes.

    When to use: to compare with the paper. Only one cluster per class counts as known, so too many
    nodes become unknown if a class has several communities, as between two graphs.

    Args:
        num_clusters: number of clusters :math:`C` in open-set shift; :math:`N` in close-set shift.
        pretrain_steps: gradient steps of the classifier in episode 0.
        rounds: number of episodes after episode 0.
        cluster_steps: gradient steps :math:`T` of the cluster GNN per episode.
        source_batch: number :math:`B` of source nodes drawn per cluster step; 0 = all.
        steps: gradient steps of the classifier per episode.
        alpha: weight :math:`\alpha` of pseudo-labels on unlabelled source nodes. Above 0 the
            predictions of the classifier stand in for the missing source labels.
        source_regularizer: whether to use :math:`\mathcal L_{\Phi,\theta,S}`; False is an ablation.
        pseudo_labels: model that gives the pseudo-labels: ``cluster``, or ``classifier`` for the
            ablation without :math:`\Phi`.
        unknown_share: share of pseudo-labels that are unknown in that ablation; 0 =
            :math:`1 / (N + 1)`, as many as of each known class. The paper does not give it.
        cluster_init: how the cluster GNN starts: from ``modularity`` alone (the paper's order),
            from the ``source`` labels, or ``auto``, which is ``source`` in close-set shift.
        cluster_lr: learning rate of the cluster GNN.
        collapse: weight of DMoN's collapse term.

    References:
        Zhu, Zhang, Park, Yang and Han, "Shift-Robust Node Classification via Graph Adversarial
        Clustering", arXiv:2203.15802, 2022.
    """

    cites = ("zhu2022srnc",)
    calibrated = False
    explicit_unknown = True
    search = {"cluster_steps": (5, 20, 50), "source_batch": (32, 80)}
    weighs_labels = True
    search_open = {"num_clusters": (7, 16)}
    clusters: Any  # a ClusterGNN, or None in the ablation without it
    knows_unknown: Tensor
    one_hot: Tensor
    log_q: dict[Graph, Tensor]

    def __init__(
        self,
        *,
        num_clusters: Count = 16,
        pretrain_steps: Count = 100,
        rounds: Count = 5,
        cluster_steps: Natural = 20,
        source_batch: Natural = 32,
        steps: Count = 60,
        alpha: Weight = 0.0,
        source_regularizer: bool = True,
        pseudo_labels: Annotated[str, OneOf("cluster", "classifier")] = "cluster",
        unknown_share: Annotated[float, Range(0, 1, closed="left")] = 0.0,
        cluster_init: Annotated[str, OneOf("auto", "modularity", "source")] = "auto",
        cluster_lr: Positive = 0.01,
        collapse: Weight = 1.0,
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self.num_clusters = num_clusters
        self.pretrain_steps = pretrain_steps
        self.cluster_steps = cluster_steps
        self.source_batch = source_batch
        self.steps = steps
        self.alpha = alpha
        self.source_regularizer = source_regularizer
        self.pseudo_labels = pseudo_labels
        self.unknown_share = unknown_share
        self.cluster_init = cluster_init
        self.cluster_lr = cluster_lr
        self.collapse = collapse
        self.episodes = rounds
        self.register_buffer("knows_unknown", torch.tensor(False))

    @property
    def size(self) -> int:
        """Number of clusters."""
        return self.num_clusters if self.task.open_set else self.task.num_known

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.classifier = self.new_classifier(task.num_outputs)
        self.clusters = None
        if self.pseudo_labels == "cluster":
            self.clusters = Clusters(
                self.cluster_spec, task.num_features, self.size, task.num_outputs, self.batch_size
            )

    def initialise(self) -> None:
        task = self.task
        allowed = f"{task.num_known} (known classes) to {task.target.num_nodes} (nodes)"
        right = task.num_known <= self.size <= task.target.num_nodes
        self.require("num_clusters", self.size, right, allowed)
        self.one_hot = F.one_hot(self.labels, task.num_known).float()
        super().build(task)
        self.prior.learn(self.labels)
        self.classifier = self.new_classifier(task.num_outputs)
        self.to(task.device)
        self.optimizer = self.make_optimizer(self.classifier.parameters())

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Episode 0 (lines 1 and 2): pre-train the classifier, and then the cluster GNN."""
        self.setup(task)
        self.initialise()
        term = self.labelled("source", task.num_known)
        figures = self.fit([term], self.pretrain_steps)
        with torch.no_grad():
            self.classifier.output_bias[task.num_known :] = 0
        self.optimizer = self.make_optimizer(self.classifier.parameters())
        self.knows_unknown.fill_(False)

        self.clusters = None
        if self.pseudo_labels != "cluster":
            return figures
        self.clusters = self.new_cluster_gnn()
        init = self.cluster_init
        if init == "source" or init == "auto" and not task.open_set:
            encoder = self.clusters.encoder
            term = Term("source", self.clusters.source, task.train, self.labels)
            sizes = (self.batch_size, self.fanout)
            fit_terms(
                encoder, self.make_optimizer(encoder.parameters()), [term], SOURCE_STEPS, *sizes
            )
        else:
            self.clusters.pretrain(PRETRAIN_STEPS)
        return figures | {"num_clusters": self.size} | self.assign()

    def episode(self) -> dict[str, float]:
        """One iteration of the outer while loop of Algorithm 1 (lines 3 to 15)."""
        task = self.task
        figures = dict[str, float]()
        if self.clusters:
            # Eq. 7: map clusters to classes on the labelled source nodes.
            log_q = self.log_q[self.clusters.source][task.train]
            figures["alignment_cost"] = self.clusters.align(log_q, self.one_hot)
            # Lines 5 to 8: T steps of the cluster GNN, each on B nodes of the source.
            nodes, p = self.source_posterior()
            figures |= self.clusters.update(nodes, p, self.cluster_steps, self.source_batch)
            figures |= self.assign()

        # Lines 10 and 11: as many target nodes as source labels, with labels drawn from Q.
        q = self.pseudo_posterior()
        pool = task.pool
        nodes = pool[torch.randperm(len(pool), device=pool.device)[: len(task.train)]]
        labels = torch.multinomial(q[nodes], 1).view(-1)
        # Lines 12 and 13: the classifier on labels and pseudo-labels (Eq. 9).
        terms = [
            self.labelled("classifier_source"),
            Term("classifier_target", self.target, nodes, labels),
        ]
        if self.alpha and self.clusters:
            # As many unlabelled source nodes as labelled ones.
            drawn = torch.randperm(self.source.num_nodes, device=pool.device)
            drawn = drawn[~torch.isin(drawn, task.train)][: len(task.train)]
            q = self.cluster_posterior(self.clusters.source)[drawn]
            pseudo = torch.multinomial(q, 1).view(-1)
            terms.append(Term("classifier_unlabelled", self.source, drawn, pseudo, self.alpha))
        figures |= self.fit(terms, self.steps)
        self.knows_unknown.fill_(task.open_set)
        if task.open_set:
            figures["pseudo_unknown_share"] = float((labels == task.num_known).float().mean())
        if self.clusters:  # Eq. 11, on labelled source nodes
            q = self.cluster_posterior(self.clusters.source)[task.train]
            log_p = self.logits(task.source)[task.train].log_softmax(1)
            figures["bound"] = float(evidence_lower_bound(q.clamp(min=1e-12).log(), log_p))
        return figures

    def labelled(self, name: str, num_classes: int | None = None) -> Term:
        """The cross-entropy on the labelled source nodes, of some of the logits."""
        nodes = self.task.train
        return Term(name, self.source, nodes, self.labels, 1.0, num_classes, self.label_weights)

    def fit(self, terms: list[Term], steps: int) -> dict[str, float]:
        """Train the classifier on cross-entropies, and return their last values by name."""
        return fit_terms(
            self.classifier, self.optimizer, terms, steps, self.batch_size, self.fanout
        )

    def new_cluster_gnn(self) -> ClusterGNN:
        """An untrained cluster GNN."""
        return self.untrained(
            self.size,
            self.cluster_spec,
            lr=self.cluster_lr,
            resolution=1.0,
            collapse=self.collapse,
            modularity_weight=1.0,
        )

    def assign(self) -> dict[str, float]:
        """Compute the clusters of both graphs and return :meth:`ClusterGNN.figures`."""
        clusters = self.clusters
        graphs = dict.fromkeys((clusters.source, clusters.target))
        self.log_q = {graph: clusters.log_posterior(graph) for graph in graphs}
        return clusters.figures(self.log_q[clusters.target])

    @torch.no_grad()
    def pseudo_posterior(self) -> Tensor:
        r"""Distribution of the target's pseudo-labels, ``[V, N(+1)]``: :math:`Q_\Phi`.

        Without :math:`\Phi` it is the classifier's, and the least confident nodes are unknown.
        """
        task = self.task
        if self.clusters:
            return self.cluster_posterior(self.clusters.target)
        confidence, predicted = self.class_posterior(task.target)[:, : task.num_known].max(1)
        if task.open_set:
            share = self.unknown_share or 1 / task.num_outputs
            threshold = confidence[task.pool].quantile(share)
            predicted[confidence < threshold] = task.num_known
        return F.one_hot(predicted, task.num_outputs).float()

    def cluster_posterior(self, graph: Graph) -> Tensor:
        r"""Class posterior :math:`Q_\Phi` by the cluster GNN, ``[V, N(+1)]``."""
        return self.clusters.log_class_posterior(self.log_q[graph]).exp()

    def source_posterior(self) -> tuple[Tensor, Tensor]:
        r"""Source nodes ``[n]`` and their posterior :math:`\mathbb P^s` ``[n, N(+1)]`` (Eq. 8)."""
        train = self.task.train
        if not self.source_regularizer:
            return train[:0], self.one_hot[:0]
        if not self.alpha:
            return train, self.one_hot
        p = self.class_posterior(self.task.source)
        p[train] = F.pad(self.one_hot, (0, p.size(1) - self.one_hot.size(1)))
        return torch.arange(len(p), device=p.device), p

    @torch.no_grad()
    def class_posterior(self, graph: Data) -> Tensor:
        r"""Posterior :math:`P_\theta` of the classifier, ``[V, N(+1)]``."""
        logits = self.logits(graph)
        if not self.knows_unknown:  # before episode 1
            logits[:, self.task.num_known :] = -torch.inf
        return logits.softmax(1)

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Log posteriors of the classifier, ``[V, N(+1)]``."""
        return self.smooth(self.class_posterior(graph), graph).clamp(min=1e-12).log()

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        views = super().views()
        if self.clusters:
            encoder = self.clusters.encoder
            views["cluster_gnn"] = partial(hidden_and_group, encoder, self.cluster_spec.features)
        return views

    def checkpoint(self) -> dict[str, Any]:
        state = super().checkpoint()
        if self.clusters:
            state["cluster_optimizer"] = self.clusters.optimizer.state_dict()
        return state

    def load(self, state: dict[str, Any]) -> None:
        self.clusters = None
        if "cluster_optimizer" in state:
            self.clusters = self.new_cluster_gnn()
            self.clusters.optimizer.load_state_dict(state["cluster_optimizer"])
        super().load(state)
        if self.clusters:
            self.assign()

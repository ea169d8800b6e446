"""SRNC+: SRNC with one cluster per known class and spare ones for the unknown class."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from operator import itemgetter
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.core.options import Count, Natural, OneOf, Positive, Share, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.modularity import label_assortativity, newman_resolution
from graphgym_srnc.losses.prior import equal_ranks_p_value
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, ClusterMethod
from graphgym_srnc.methods.shared.communities import SCALES
from graphgym_srnc.methods.shared.features_only import FeaturesOnly, folds
from graphgym_srnc.methods.shared.first_scores import FirstScores
from graphgym_srnc.methods.shared.threshold import threshold_by_share
from graphgym_srnc.methods.shared.training import Part, minimise, part_losses, random_draws_apart

SMOOTHING = 10
"""Propagation steps of the posterior."""

LEARNED = 0.7
"""Share of the pseudo-labels of each class to learn in open-set shift between two graphs."""

CERTAIN = 50.0
"""Finite log-odds used instead of infinity."""

FOLDS, LEVEL = 5, 0.01
"""Folds of the labels, and level of the test, that say whether there is an unknown class."""

RELIABLE, ASSORTATIVE = 0.3, 0.2
"""Minimum correlation of an MLP with the classes, and minimum assortativity to adapt to it."""

CORRECTIONS = {False: ("mean", 0.75), True: ("labels", 0.5)}
"""Prior correction and its power, by open-set shift, where the mean would count unknown nodes."""

COLLAPSE, CLUSTER_LR = 0.1, 0.003
"""Weight of the collapse term, and learning rate for modularity."""

SHARES = (0.4, 0.7)
"""Shares of all pseudo-labels to learn, selected on unknown validation nodes."""

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Weights of the cluster GNN relative to the classifier, selected on held-out nodes."""

TEMPERATURES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 4.0)
"""Scale factors of log posteriors, so that comparisons do not depend on calibration."""


NOT_ADAPTED = {
    True: "SRNC+ did not adapt to the target, since few of its edges seem to join nodes of the same"
    " class (estimated assortativity {:.2f}). The mean of a plain GNN and of an MLP makes the"
    " predictions.",
    False: "SRNC+ did not adapt to the target, since few edges of the source join nodes of the same"
    " class (assortativity {:.2f}), and features alone cannot tell whether this differs on the"
    " target. The plain GNN makes the predictions.",
}
"""Warnings if a target is not adapted to, by whether features are reliable."""

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

    In the first iteration on one graph a node is unknown if the sum of two scores is low: the
    log-odds of its likeliest class, and the label density of its communities
    (:class:`FirstScores`). If labelled nodes of an unknown class are held out on the source of two
    graphs, the same algorithm first finds that class on the source. The target is then solved as
    close-set shift of :math:`N + 1` classes.

    It abstains where the data do not support more. If labels that are held out in turn rank like
    the unlabelled nodes, then no node is unknown. If features say that the edges of a second graph
    do not join nodes of the same class, then the plain classifier, or its mean with an MLP, makes
    the predictions.

    When to use: your own graph, two graphs, or classes that have no labels. Prefer another method
    if all labels of a class come from one part of the graph, if the graph grows over time, or if
    there are only about 20 labels in total.

    Args:
        rounds: number of iterations, and as many again on the source if it is solved first.
        steps: maximum gradient steps of the classifier per iteration. On one graph without
            ``batch_size`` it stops when the loss has converged.
        fit_steps: gradient steps of the cluster GNN on labels and pseudo-labels.
        cluster_steps: gradient steps of the cluster GNN on the whole loss.
        spare: number of spare clusters in open-set shift.
        modularity_weight: weight :math:`w` of modularity.
        resolution: resolution of modularity in open-set shift, in multiples of Newman's estimate
            from the pseudo-labels. In close-set shift it is 1.
        missing: weight of label density against log-odds in the first iteration; 0 = log-odds
            alone.
        sure: share of the held-out known nodes that pseudo-labels keep known, on one graph without
            unknown validation nodes.
        doubt: exponent of the held-out accuracy that gives the share of pseudo-labels to learn; 0 =
            all. It is not used if unknown nodes are searched for on another graph.
        smoothing: steps of personalised PageRank over the posterior in close-set shift, and if the
            unknown class was found on the source. Otherwise held-out nodes decide.
        abstain: whether to predict no node as unknown if the labels show no sign of an unknown
            class, and not to adapt to the target of two graphs if its edges do not seem to join
            nodes of the same class.
        correction: as in every method. ``auto`` is ``mean`` with power 0.75 in close-set shift, and
            if the unknown class was found on the source; else ``labels`` with power 0.5.

    References:
        Zhu et al., "Shift-Robust Node Classification via Graph Adversarial Clustering",
        arXiv:2203.15802, 2022. Elkan and Noto, "Learning Classifiers from Only Positive and
        Unlabeled Data", KDD 2008 (label density).
    """

    explicit_unknown = True
    encoder_defaults = {"hidden": 64}
    search = {"modularity_weight": (1.0, 3.0, 10.0)}
    search_open = {"sure": (0.7, 0.8, 0.9)}
    kept = (*ClusterMethod.kept, "held_out", "decided")
    number: Tensor
    decision_cut: Tensor
    accuracy: Tensor
    shared: Tensor
    found: Tensor
    absent: Tensor
    adapts: Tensor
    mixes: Tensor
    first: FirstScores
    features_only: FeaturesOnly
    labelled: Tensor
    held_out: Tensor
    decided: Tensor

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
        sure: Share = 0.8,
        doubt: Weight = 2.0,
        smoothing: Natural = SMOOTHING,
        abstain: bool = True,
        correction: Annotated[str, OneOf("auto", "none", "mean", "em", "bbse", "labels")] = "auto",
        **base: Any,
    ) -> None:
        super().__init__(smoothing=smoothing, correction=correction, **base)
        self.rounds, self.episodes, self.steps, self.fit_steps = rounds, rounds, steps, fit_steps
        self.cluster_steps, self.spare = cluster_steps, spare
        self.modularity_weight, self.resolution = modularity_weight, resolution
        self.missing, self.sure, self.doubt, self.abstain = missing, sure, doubt, abstain
        self.correction_by_kind = correction == "auto"
        self.register_buffer("number", torch.tensor(0))
        self.register_buffer("decision_cut", torch.tensor(0.0))
        self.register_buffer("accuracy", torch.tensor(1.0))
        self.register_buffer("shared", torch.tensor(False))
        self.register_buffer("found", torch.tensor(False))
        self.register_buffer("absent", torch.tensor(False))
        self.register_buffer("adapts", torch.tensor(True))
        self.register_buffer("mixes", torch.tensor(False))

    @property
    def one_graph(self) -> bool:
        """Whether source and target are the same graph."""
        return self.task.source is self.task.target

    @property
    def num_labelled(self) -> int:
        """Number of classes with labels: the known ones, and the unknown one once it is found."""
        return self.task.num_known + int(self.found)

    @property
    def closed(self) -> bool:
        """Whether every class of the target has labels, as far as is known."""
        return self.num_labelled == self.task.num_outputs or bool(self.absent)

    def build(self, task: ShiftTask | Sizes) -> None:
        if self.correction_by_kind:
            self.correction, self.correction_power = CORRECTIONS[task.open_set]
        super().build(task)
        self.classifier = self.new_classifier(task.num_outputs)
        known, features, batch = task.num_known, task.num_features, self.batch_size
        if task.open_set:
            clusters = known + self.spare
            sizes = known, features, clusters, task.num_outputs, batch
            self.first = FirstScores(self.cluster_spec, *sizes, weight=self.missing)
        else:
            self.features_only = FeaturesOnly(self.encoder, features, known, batch)

    @property
    def num_clusters(self) -> int:
        """Number of clusters: one per labelled class, plus spare ones for an unknown class."""
        return self.num_labelled + (0 if self.closed else self.spare)

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Train the classifier of the known classes, and on one graph find its communities."""
        for flag in (self.found, self.absent, self.mixes):
            flag.fill_(False)
        self.adapts.fill_(True)
        self.setup(task)
        self.ready()
        self.number.zero_()
        self.episodes, self.labelled = self.rounds, task.train
        self.held_out = self.decided = self.labels[:0]
        part = Part("source", self.source, task.train, self.labels, num_classes=task.num_known)
        figures = self.train_classifier([part])
        if not task.open_set:
            asks = self.abstain and not self.one_graph
            return figures | (self.look_at_target() if asks else {})
        logits = None
        if self.one_graph and self.missing:
            logits = self.logits(task.target)[:, : task.num_known]
            named = logits.argmax(1)
            clusters = [self.new_cluster_gnn(named, scale, dropout=0.0) for scale in SCALES]
            self.first.find_communities(clusters)
        self.first.learn(task.source, logits, task.train, self.labels)
        return figures

    def look_at_target(self) -> dict[str, float]:
        """Adapt to the target of two graphs only if edges seem to join nodes of the same class.

        A classifier of features alone judges the edges of the target. If it is unreliable, the
        labels judge those of the source.
        """
        mlp, task = self.features_only, self.task
        with random_draws_apart(task.device):
            found = mlp.learn(self.source, task.train, self.labels, self.steps, self.make_optimizer)
        reliable = found >= RELIABLE
        if reliable:
            homophily = mlp.assortativity(self.target, found)
        else:
            edges, degree = task.source.edge_index, self.source.degree
            homophily = label_assortativity(edges, degree, task.train, self.labels)
        self.adapts.fill_(homophily >= ASSORTATIVE)
        self.mixes.fill_(reliable and not self.adapts)
        if not self.adapts:
            self.episodes = 0
            self.warnings.append(NOT_ADAPTED[reliable].format(homophily))
        return {"features_reliability": found, "assortativity": homophily}

    def look_for_unknown(self) -> dict[str, float]:
        """Test whether there is an unknown class, with labels that were held out in turn.

        The labels are divided into folds. A classifier of the other folds ranks the nodes of each
        fold among the unlabelled nodes.
        """
        task, known = self.task, self.task.num_known
        state, ranks = deepcopy(self.state_dict()), []
        with random_draws_apart(task.device):
            fold = folds(self.labels, FOLDS)
            for i in range(FOLDS):
                kept, rest = fold != i, fold == i
                train, labels = task.train[kept], self.labels[kept]
                part = Part("source", self.source, train, labels, num_classes=known)
                self.train_classifier([part])
                logits = self.logits(task.source)[:, :known]
                self.first.learn(task.source, logits, train, labels)
                score = self.first(logits, self.target)
                others = score[task.pool].sort().values
                ranks.append(torch.searchsorted(others, score[task.train[rest]]) / len(others))
        self.load_state_dict(state)
        p_value = equal_ranks_p_value(torch.cat(ranks))
        self.absent.fill_(p_value > LEVEL)
        if self.absent:
            self.warnings.append(NO_UNKNOWN.format(p_value))
        return {"no_unknown_p_value": p_value}

    def episode(self) -> dict[str, float]:
        """Run one iteration: pseudo-labels, cluster GNN, and a new classifier."""
        task = self.task
        if self.source_tells:
            return self.find_on_source()
        doubted = self.abstain and self.one_graph and not self.closed and not self.judges_unknown
        tested = self.look_for_unknown() if doubted and not self.number else {}
        scores = self.predict(task.target)
        if not self.closed and (not self.number or self.one_graph):
            scores[:, task.num_known] += self.decision_cut
        if self.absent:
            scores = scores[:, : task.num_known]
        figures, log_q = self.cluster(scores)

        log_q, log_p = log_q[:, : scores.size(1)], scores.log_softmax(1)
        weight = self.best_weight(log_q, log_p)
        evidence = weight * log_q + (1 - weight) * log_p
        self.number.add_(1)
        figures |= tested | {"cluster_weight": weight} | self.learn(evidence)
        if task.open_set:
            share = (evidence[task.pool].argmax(1) == task.num_known).float().mean()
            figures["pseudo_unknown_share"] = float(share)
        if not self.closed:
            self.choose_sharing()
        return figures

    @property
    def source_tells(self) -> bool:
        """Whether the unknown class can be found on the source first.

        This requires two graphs, and held-out nodes of that class and unlabelled nodes on the
        source.
        """
        task, held_out = self.task, self.held_out
        return (
            not self.closed
            and not self.one_graph
            and not self.number
            and task.validation is task.source
            and bool((held_out == task.num_known).any())
            and len(task.train) + len(held_out) < task.source.num_nodes
        )

    def find_on_source(self) -> dict[str, float]:
        """Find the unknown class on the source, as a task of its own, and learn all decisions."""
        whole, label, source = self.task, self.held_out, self.task.source
        free = torch.ones(source.num_nodes, dtype=torch.bool, device=whole.device)
        free[whole.train] = False
        pool = free.nonzero().ravel()
        free[whole.val] = False
        rest = free.nonzero().ravel()
        alone = replace(whole, target=source, val_graph=None, pool=pool, test=rest)

        def scores() -> Tensor:
            found = self.predict(source)
            self.calibrate(found[whole.val], label, found)
            return found

        self.start(alone)
        for _ in range(self.rounds):
            scores()
            self.episode()
        decided = self.decide(scores())
        decided[whole.train] = self.labels

        self.setup(whole)
        self.ready()
        self.number.zero_()
        self.held_out, self.episodes = label, 1 + self.rounds
        self.learn_from(decided)
        figures = self.train_classifier([Part("source", self.source, self.labelled, self.labels)])
        share = (decided[rest] == whole.num_known).float().mean()
        return figures | {"source_unknown_share": float(share)}

    def learn_from(self, decided: Tensor) -> None:
        """Use decisions ``[V]`` on the source as labels, except those of held-out nodes."""
        self.decided = decided
        self.found.fill_(True)
        kept = torch.ones(len(decided), dtype=torch.bool, device=decided.device)
        kept[self.task.val] = False
        self.labelled = kept.nonzero().ravel()
        self.labels = decided[self.labelled]

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.labelled = self.task.train
        if self.found:
            self.learn_from(self.decided)

    @property
    def judges_unknown(self) -> bool:
        """Whether there are unknown nodes among the held-out nodes on the target."""
        return self.judged and int(self.held_out.max()) == self.task.num_known

    def learn(self, evidence: Tensor) -> dict[str, float]:
        """Train the classifier on labels and the most confident pseudo-labels.

        Held-out unknown nodes, if there are any, select the number of pseudo-labels.

        Args:
            evidence: scores of the pseudo-labels, ``[V, N(+1)]``.
        """
        label, tried, chosen = evidence.argmax(1), [], [self.surest(evidence)]
        if self.judges_unknown:
            order = self.margins(evidence)[0].argsort(descending=True)
            sizes = [max(1, round(share * len(order))) for share in SHARES]
            chosen = [self.task.pool[order[:size]] for size in sizes]
        for learned in chosen:
            figures = self.train_classifier(
                [
                    Part("classifier_source", self.source, self.labelled, self.labels),
                    Part("classifier_target", self.target, learned, label[learned]),
                ]
            )
            figures["learned_share"] = len(learned) / len(self.task.pool)
            losses = self.losses_shared_or_not() if self.judges_unknown else ()
            loss = min((float(each.mean()) for each in losses), default=0.0)
            tried.append((loss, figures, deepcopy(self.classifier.state_dict())))
        _, figures, state = min(tried, key=itemgetter(0))
        self.classifier.load_state_dict(state)
        return figures

    def best_weight(self, log_q: Tensor, log_p: Tensor) -> float:
        """Weight of the cluster GNN with the smallest held-out loss; 0.5 without held-out nodes.

        Args:
            log_q, log_p: log posteriors of the cluster GNN and the classifier, ``[V, N(+1)]``.
        """
        if not self.judged:
            return 0.5
        return min(
            WEIGHTS, key=lambda v: float(self.held_out_losses(v * log_q + (1 - v) * log_p).mean())
        )

    def choose_sharing(self) -> None:
        """Propagate the posterior unless the held-out loss rises by more than a standard error."""
        if self.judged:
            shared, alone = self.losses_shared_or_not()
            worse = shared - alone
            error = worse.std(correction=0) / len(worse) ** 0.5
            self.shared.fill_(bool(worse.mean() <= error))

    def losses_shared_or_not(self) -> tuple[Tensor, Tensor]:
        """Cross-entropy of each held-out node with and without propagation of the posterior."""
        log_p = self.logits(self.task.target).log_softmax(1)
        shared = self.smooth(log_p.exp(), self.task.target, SMOOTHING).clamp(min=1e-6).log()
        return self.held_out_losses(shared), self.held_out_losses(log_p)

    @property
    def judged(self) -> bool:
        """Whether there are held-out nodes on the target."""
        return self.task.validation is self.task.target and len(self.held_out) > 0

    def held_out_losses(self, log_p: Tensor) -> Tensor:
        """Cross-entropy of each held-out node ``[n]``, at the best temperature.

        Only known classes are compared if no held-out node is unknown.

        Args:
            log_p: log posteriors of the target, ``[V, N(+1)]``.
        """
        width = self.task.num_known + int(self.held_out.max() == self.task.num_known)
        scores = log_p[self.task.val, :width]
        losses = (
            F.cross_entropy(scores * scale, self.held_out, reduction="none")
            for scale in TEMPERATURES
        )
        return min(losses, key=lambda each: float(each.mean()))

    def surest(self, scores: Tensor) -> Tensor:
        """Unlabelled nodes ``[n]`` with the largest margins in each class, at least one per class.

        Args:
            scores: scores of the pseudo-labels, ``[V, N(+1)]``.
        """
        (margin, label), share = self.margins(scores), float(self.accuracy) ** self.doubt
        if not self.closed and not self.one_graph:
            share = LEARNED
        kept = []
        for members in ((label == k).nonzero().ravel() for k in range(scores.size(1))):
            order = margin[members].argsort(descending=True)
            kept.append(members[order[: max(1, math.ceil(share * len(order)))]])
        return self.task.pool[torch.cat(kept)]

    def margins(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Margin between the two most probable classes of unlabelled nodes, and the class."""
        best = scores[self.task.pool].topk(2, 1)
        return best.values[:, 0] - best.values[:, 1], best.indices[:, 0]

    def train_classifier(self, parts: list[Part]) -> dict[str, float]:
        """Train a new classifier."""
        self.classifier.load_state_dict(self.new_classifier(self.task.num_outputs).state_dict())
        optimizer = self.make_optimizer(self.classifier.parameters())
        terms = part_losses(self.classifier, parts, self.batch_size, self.fanout)
        # Between two graphs rare classes are learnt late, when the mean loss is already low. The
        # loss of a mini-batch is too noisy to detect convergence.
        return minimise(
            self.classifier,
            optimizer,
            terms,
            self.steps,
            until_converged=self.one_graph and not self.batch_size,
        )

    def cluster(self, scores: Tensor) -> tuple[dict[str, float], Tensor]:
        r"""Train a new cluster GNN.

        Args:
            scores: scores of the classifier, ``[V, N(+1)]``, whose maximum is its decision.

        Returns:
            Losses and figures, and :math:`\log Q_\Phi` over classes ``[V, N(+1)]`` on the target.
        """
        named, learned = scores.argmax(1), self.surest(scores)
        cluster = self.new_cluster_gnn(named)
        encoder = cluster.encoder
        parts = [
            Part("cluster_source", cluster.source, self.labelled, self.labels),
            Part("cluster_decisions", cluster.target, learned, named[learned]),
        ]

        minimise(
            encoder,
            self.make_optimizer(encoder.parameters()),
            cluster.classify(parts, modularity=False),
            self.fit_steps,
        )
        figures = minimise(
            encoder, cluster.optimizer, cluster.classify(parts, modularity=True), self.cluster_steps
        )
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
        edges, degree = self.task.target.edge_index, self.target.degree
        gamma = newman_resolution(edges, degree, every, named)
        if not self.closed:
            gamma *= scale * self.resolution
        return self.untrained(
            self.num_clusters,
            replace(self.cluster_spec, **changes),
            resolution=gamma,
            collapse=COLLAPSE,
            modularity_weight=self.modularity_weight,
            lr=CLUSTER_LR,
        )

    @property
    def num_corrected(self) -> int:
        # The other corrections use statistics of the given labels.
        return self.num_labelled if self.correction == "mean" else self.task.num_known

    def corrected(self, scores: Tensor) -> Tensor:
        if not self.adapts:
            return scores
        if self.correction_by_kind:
            self.correction, self.correction_power = CORRECTIONS[not self.closed]
        return super().corrected(scores)

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Log posteriors ``[V, N(+1)]``.

        Before the first iteration, the unknown class has minus the sum of two scores: the
        propagated log-odds of the best class if all classes had equally many labels, and the
        weighted label density.
        """
        logits, known = self.logits(graph, role), self.task.num_known
        if self.mixes:
            features = self.features_only.log_posterior(self.prepared(graph))
            return (logits.log_softmax(1) + features) / 2
        if not self.adapts:
            return logits
        if self.absent:
            scores = self.smoothed(logits[:, :known], graph)
            return torch.cat([scores, scores.amax(1, keepdim=True) - CERTAIN], 1)
        if self.closed:
            return self.smoothed(logits, graph)
        if self.number:
            log_p = logits.log_softmax(1)
            if self.shared:
                return self.smooth(log_p.exp(), graph, SMOOTHING).clamp(min=1e-12).log()
            return log_p
        log_p = logits[:, :known].log_softmax(1)
        score = self.first(logits[:, :known], self.prepared(graph))
        return torch.cat([log_p - log_p.amax(1, keepdim=True), -score[:, None]], 1)

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold of the unknown class.

        Without unknown held-out nodes it follows from their estimated share on one graph. Between
        two graphs it is the logit of the unknown class.
        """
        self.held_out, known = label, label < self.num_labelled
        if known.any():
            named = scores[known, : self.num_labelled].argmax(1)
            self.accuracy.fill_(float((named == label[known]).float().mean()))
        if self.closed:
            self.threshold.fill_(0.0)
            return
        if self.judges_unknown:
            super().calibrate(scores, label, on_target)
            self.decision_cut.copy_(self.threshold.clamp(max=CERTAIN))
            return

        held_out, sure = self.confidence(scores[known]), self.confidence(on_target)
        self.decision_cut.copy_(
            held_out.quantile(1 - self.sure) if self.one_graph else sure.median()
        )
        if self.one_graph or self.cut == "share":
            self.threshold.fill_(threshold_by_share(held_out, sure))
        else:
            self.threshold.fill_(0.0 if self.number else self.decision_cut)

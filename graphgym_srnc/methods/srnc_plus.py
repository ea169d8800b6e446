"""SRNC+: a cluster for each known class, and spare ones for what no label explains."""
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

from graphgym_srnc.backbones import EncoderSpec, prepare
from graphgym_srnc.losses.modularity import newman_resolution
from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.cluster_gnn import ClusterGNN, cluster_encoder
from graphgym_srnc.methods.communities import SCALES, LabelDensity, find
from graphgym_srnc.methods.cut import cut_by_share
from graphgym_srnc.methods.training import Part, minimise, part_losses
from graphgym_srnc.options import Count, Natural, OneOf, Positive, Share, Weight
from graphgym_srnc.task import ShiftTask, Sizes

PROPAGATION = 10
"""Steps by which neighbours share log-odds, and a posterior where held-out nodes gain by it."""

LEARNED = 0.7
"""Share of each class's decisions to learn in open-set shift between two graphs, where accuracy on
the source tells nothing of unknown nodes."""

TINY = 1e-6
"""Least chance of an error that log-odds reckon with."""

CERTAIN = 50.0
"""Log-odds that stand for infinity, which has no margins."""

CORRECTIONS = {False: ("mean", 0.75), True: ("labels", 0.5)}
"""Prior correction and its power in close-set and in open-set shift, where unknown nodes would
count as known ones in the mean."""

COLLAPSE, CLUSTER_LR = 0.1, 0.003
"""Weight of the collapse term, and learning rate of modularity."""

SHARES = (0.4, 0.7)
"""Shares of all decisions for a classifier to learn that unknown validation nodes choose from."""

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Weights of the cluster GNN against the classifier that held-out nodes choose from."""

TEMPERATURES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 4.0)
"""Factors of log posteriors, so that only what they know is compared, not how sure they are."""


class SRNCPlus(Method):
    r"""Classifier and cluster GNN by turns, from the labels on, in every kind of shift.

    A classifier and, where labels and target are on one graph, cluster GNNs are pre-trained apart
    (lines 1 and 2 of Algorithm 1). In the first turn the classifier knows no unknown class. In
    place of its score stand the propagated log-odds of a node's likeliest class,
    :math:`\log p - \log (1 - p)`, and the labels that the node's communities lack
    (:class:`LabelDensity`): the one tells from features, the other from edges, who is unknown.
    Here :math:`p` is divided by the classes' shares of the labels: a class that has many looks sure
    of unknown nodes as well.

    A turn's cluster GNN has a cluster for each known class and, in open-set shift, spare ones. It
    learns the labels and the classifier's decisions on the target, then with them the target's
    modularity (Eq. 10 of the paper, with both graphs in its second term):

    .. math:: \mathcal L_\Phi = w \mathcal L_{\Phi,T}
        + \text{CE}(Q_\Phi, y) + \text{CE}(Q_\Phi, \hat y_\theta)

    The unknown class is the sum of the spare clusters: decisions fill them, modularity moves their
    borders to where edges are few. Then a new classifier learns the labels and
    :math:`\hat y = \arg\max Q_\Phi^v P_\theta^{1-v}` on the target (Eq. 9). Held-out nodes choose
    :math:`v` and whether the classifier's posterior is propagated, both by their cross-entropy;
    between two graphs there are none on the target, and :math:`v` is a half.

    Either learns of each class the decisions with the largest margins alone, a share
    :math:`a^\text{doubt}` of them, with :math:`a` the accuracy among the known classes on held-out
    known nodes: nearly all where classes are easy, half of them where they are not; in open-set
    shift between two graphs seven tenths. Where validation has unknown nodes of the target, one
    classifier learns the surest two fifths of all decisions, another seven tenths, and the one
    stays that names held-out nodes best.

    Decisions are cut as validation wants it where it has such nodes; else where the classifier is
    less sure than ``sure`` of the held-out known nodes: an unknown node that is taken for known
    does more harm than the reverse. Between two graphs there is a cut in the first turn alone: the
    less sure half of the target is unknown by it.

    Where nodes of unknown classes are held out on the source of two graphs, others are among its
    unlabelled nodes. There they are found first, by this very algorithm on the source as one graph.
    Its decisions are the labels of the source from there on, of :math:`N + 1` classes, and what
    follows is close-set shift. The cut itself is not taken to the target: it is too high on a graph
    of which a classifier is less sure on the whole. An unknown class that the source lacks is not
    looked for then.

    Args:
        rounds: turns, and where the source is solved first as many there.
        steps: gradient steps of the classifier in a turn, at most; on one graph, without
            ``batch_size``, until its loss has converged.
        fit_steps: steps by which a cluster GNN learns labels and decisions.
        cluster_steps: :math:`T`, steps on the whole sum.
        spare: spare clusters in open-set shift.
        modularity_weight: :math:`w`.
        resolution: of modularity in open-set shift, in multiples of Newman's estimate from the
            decisions; 1 in close-set shift.
        missing: weight of missing labels against log-odds in the first turn; 0 = log-odds alone.
        sure: share of the held-out known nodes that the classifier's decisions keep known, on one
            graph.
        doubt: power of the held-out accuracy that gives the share of decisions to learn; 0 = all.
            Not read where unknown nodes are looked for on another graph.
        smoothing: as of every method, but in close-set shift alone.
        correction: as of every method; ``auto``, which sets its power too, is ``mean`` at 0.75 in
            close-set shift and ``labels`` at 0.5 in open-set shift.
    """

    explicit_unknown = True
    encoder_defaults = {"hidden": 64}
    search = {"modularity_weight": (1.0, 3.0, 10.0)}
    search_open = {"sure": (0.7, 0.8, 0.9)}
    kept = (*Method.kept, "held_out", "decided")

    def __init__(self, *, rounds: Count = 3, steps: Count = 200, fit_steps: Count = 60,
                 cluster_steps: Natural = 60, spare: Count = 12,
                 modularity_weight: Weight = 3.0, resolution: Positive = 2.0, missing: Weight = 3.0,
                 sure: Share = 0.8, doubt: Weight = 2.0, smoothing: Natural = PROPAGATION,
                 correction: Annotated[str, OneOf("auto", "none", "mean", "em", "bbse",
                                                  "labels")] = "auto", **base) -> None:
        super().__init__(smoothing=smoothing, correction=correction, **base)
        self.rounds, self.episodes, self.steps, self.fit_steps = rounds, rounds, steps, fit_steps
        self.cluster_steps, self.spare = cluster_steps, spare
        self.modularity_weight, self.resolution = modularity_weight, resolution
        self.missing, self.sure, self.doubt = missing, sure, doubt
        self.correction_by_kind = correction == "auto"
        self.register_buffer("number", torch.tensor(0))
        self.register_buffer("decision_cut", torch.tensor(0.0))
        self.register_buffer("accuracy", torch.tensor(1.0))
        self.register_buffer("shared", torch.tensor(False))
        self.register_buffer("found", torch.tensor(False))

    @property
    def one_graph(self) -> bool:
        """Whether labels are on the target graph itself, whose scores they are comparable with."""
        return self.task.source is self.task.target

    @property
    def num_labelled(self) -> int:
        """Classes that have labels: the known ones, and the unknown one once it is found."""
        return self.task.num_known + int(self.found)

    @property
    def closed(self) -> bool:
        """Whether every class of the target has labels."""
        return self.num_labelled == self.task.num_outputs

    def build(self, task: ShiftTask | Sizes) -> None:
        if self.correction_by_kind:
            self.correction, self.correction_power = CORRECTIONS[task.open_set]
        super().build(task)
        self.classifier = self.new_classifier(task.num_outputs)
        self.register_buffer("frequency", torch.ones(task.num_known))
        self.density = None
        if task.open_set:
            self.density = LabelDensity(self.cluster_spec, task.num_features, self.num_clusters,
                                        task.num_outputs, self.batch_size)

    @property
    def cluster_spec(self) -> EncoderSpec:
        """The recipe of a cluster GNN."""
        return cluster_encoder(self.encoder)

    @property
    def num_clusters(self) -> int:
        """Clusters of a cluster GNN: one for each class with labels, and spare ones where the
        unknown class has none."""
        return self.num_labelled + (0 if self.closed else self.spare)

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Train the classifier of the known classes, and on one graph the cluster GNNs that tell
        where labels are missing (lines 1 and 2 of Algorithm 1)."""
        self.found.fill_(False)
        self.setup(task)
        self.ready()
        self.number.zero_()
        self.episodes, self.labelled = self.rounds, task.train
        self.held_out = self.decided = self.labels[:0]
        counts = self.labels.bincount(minlength=task.num_known)
        self.frequency.copy_(counts / counts.max())
        part = Part("source", self.source, task.train, self.labels, num_classes=task.num_known)
        figures = self.train_classifier([part])
        if task.open_set and self.one_graph and self.missing:
            self.find_communities()
        return figures

    def find_communities(self) -> None:
        """Train cluster GNNs on modularity alone, and count the labels in their communities."""
        p = self.logits(self.task.target)[:, :self.task.num_known].softmax(1)
        trained = [self.new_cluster_gnn(p.argmax(1), scale, dropout=0.0) for scale in SCALES]
        for cluster in trained:
            find(cluster)
        self.density.learn(trained, p, self.task.train, self.labels)

    def episode(self) -> dict[str, float]:
        """One turn: decisions, clusters, and a new classifier."""
        task = self.task
        if self.source_tells:
            return self.find_on_source()
        scores = self.predict(task.target)
        if not self.closed and (not self.number or self.one_graph):
            scores[:, task.num_known] += self.decision_cut
        figures, log_q = self.cluster(scores)

        log_p = scores.log_softmax(1)
        weight = self.best_weight(log_q, log_p)
        evidence = weight * log_q + (1 - weight) * log_p
        self.number += 1
        figures |= {"cluster_weight": weight} | self.learn(evidence)
        if task.open_set:
            share = (evidence[task.pool].argmax(1) == task.num_known).float().mean()
            figures["pseudo_unknown_share"] = float(share)
            self.choose_sharing()
        return figures

    @property
    def source_tells(self) -> bool:
        """Whether the source of two graphs has unlabelled nodes, unknown ones among them, as those
        held out there show, that have not been found yet."""
        task, held_out = self.task, self.held_out
        return (not self.closed and not self.one_graph and not self.number
                and task.validation is task.source and bool((held_out == task.num_known).any())
                and len(task.train) + len(held_out) < task.source.num_nodes)

    def find_on_source(self) -> dict[str, float]:
        """Find the unknown class on the source as on a graph of its own, by as many turns, and
        train the classifier by all decisions there."""
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
        self.held_out, self.episodes = label, self.rounds + 1
        self.learn_from(decided)
        figures = self.train_classifier([Part("source", self.source, self.labelled, self.labels)])
        share = (decided[rest] == whole.num_known).float().mean()
        return figures | {"source_unknown_share": float(share)}

    def learn_from(self, decided: Tensor) -> None:
        """Let decisions ``[V]`` on the source be labels, but for those of held-out nodes."""
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
        """Whether held-out nodes on the target are among unknown ones."""
        return self.judged and int(self.held_out.max()) == self.task.num_known

    def learn(self, evidence: Tensor) -> dict[str, float]:
        """Train the classifier by labels and the surest decisions, as many as held-out nodes want
        where some of them are unknown.

        Args:
            evidence: scores of the decisions, ``[V, N(+1)]``.
        """
        label, tried = evidence.argmax(1), []
        for learned in self.lessons(evidence):
            figures = self.train_classifier([
                Part("classifier_source", self.source, self.labelled, self.labels),
                Part("classifier_target", self.target, learned, label[learned])])
            figures["learned_share"] = len(learned) / len(self.task.pool)
            tried.append((self.held_out_loss(), figures, deepcopy(self.classifier.state_dict())))
        _, figures, state = min(tried, key=itemgetter(0))
        self.classifier.load_state_dict(state)
        return figures

    def lessons(self, evidence: Tensor) -> list[Tensor]:
        """The sets of nodes ``[n]`` whose decisions are tried in a turn."""
        if self.judges_unknown:
            return [self.surest_of_all(evidence, share) for share in SHARES]
        return [self.surest(evidence)]

    def held_out_loss(self) -> float:
        """Cross-entropy of the classifier on held-out nodes, with or without its neighbours'
        posterior; 0 where none of them is unknown, since nothing is chosen then."""
        if not self.judges_unknown:
            return 0.0
        return min(float(each.mean()) for each in self.losses_shared_or_not())

    def best_weight(self, log_q: Tensor, log_p: Tensor) -> float:
        """The weight of ``log_q`` against ``log_p``, both ``[V, N(+1)]``, with which held-out nodes
        are named best; a half where there are none on the target."""
        if not self.judged:
            return 0.5
        return min(WEIGHTS, key=lambda v: float(
            self.held_out_losses(v * log_q + (1 - v) * log_p).mean()))

    def choose_sharing(self) -> None:
        """Let neighbours share the posterior unless held-out nodes are named worse by it, by more
        than one standard error: communities lend what single nodes lack, as those of an unknown
        class do."""
        if self.judged:
            shared, alone = self.losses_shared_or_not()
            worse = shared - alone
            error = worse.std(correction=0) / len(worse) ** 0.5
            self.shared.fill_(bool(worse.mean() <= error))

    def losses_shared_or_not(self) -> tuple[Tensor, Tensor]:
        """Cross-entropy of held-out nodes with the posterior of neighbours, and without."""
        log_p = self.logits(self.task.target).log_softmax(1)
        shared = self.smooth(log_p.exp(), self.task.target, PROPAGATION).clamp(min=TINY).log()
        return self.held_out_losses(shared), self.held_out_losses(log_p)

    @property
    def judged(self) -> bool:
        """Whether there are held-out nodes on the target."""
        return self.task.validation is self.task.target and len(self.held_out) > 0

    def held_out_losses(self, log_p: Tensor) -> Tensor:
        """Cross-entropy of each held-out node ``[n]`` on the target, at the best temperature, among
        the known classes where none of them is unknown.

        Args:
            log_p: log posteriors of the target, ``[V, N(+1)]``.
        """
        width = self.task.num_known + int(self.held_out.max() == self.task.num_known)
        scores = log_p[self.task.val, :width]
        losses = (F.cross_entropy(scores * scale, self.held_out, reduction="none")
                  for scale in TEMPERATURES)
        return min(losses, key=lambda each: float(each.mean()))

    def surest(self, scores: Tensor) -> Tensor:
        """Of each class the unlabelled nodes that have it by the largest margins, ``[n]``, one or
        more.

        Args:
            scores: of decisions, ``[V, N(+1)]``.
        """
        (margin, label), share = self.margins(scores), float(self.accuracy) ** self.doubt
        if not self.closed and not self.one_graph:
            share = LEARNED
        kept = []
        for members in ((label == k).nonzero().ravel() for k in range(scores.size(1))):
            order = margin[members].argsort(descending=True)
            kept.append(members[order[:max(1, math.ceil(share * len(order)))]])
        return self.task.pool[torch.cat(kept)]

    def surest_of_all(self, scores: Tensor, share: float) -> Tensor:
        """The share of unlabelled nodes with the largest margins, of whatever class, ``[n]``."""
        order = self.margins(scores)[0].argsort(descending=True)
        return self.task.pool[order[:max(1, round(share * len(order)))]]

    def margins(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """By how much the unlabelled nodes have their likeliest class, and which that is, ``[n]``
        each."""
        best = scores[self.task.pool].topk(2, 1)
        return best.values[:, 0] - best.values[:, 1], best.indices[:, 0]

    def train_classifier(self, parts: list[Part]) -> dict[str, float]:
        """Train a new classifier."""
        self.classifier.load_state_dict(self.new_classifier(self.task.num_outputs).state_dict())
        optimizer = self.make_optimizer(self.classifier.parameters())
        terms = part_losses(self.classifier, parts, self.batch_size, self.fanout)
        # Between two graphs rare classes come late, when the loss of all has long been low; and
        # the loss of drawn nodes says too little.
        return minimise(self.classifier, optimizer, terms, self.steps,
                        until_converged=self.one_graph and not self.batch_size)

    def cluster(self, scores: Tensor) -> tuple[dict[str, float], Tensor]:
        r"""Train a new cluster GNN; give its losses and :math:`\log Q_\Phi` over classes
        ``[V, N(+1)]`` on the target.

        Args:
            scores: the classifier's, ``[V, N(+1)]``, whose largest is its decision.
        """
        named, learned = scores.argmax(1), self.surest(scores)
        cluster = self.new_cluster_gnn(named)
        encoder = cluster.encoder
        parts = [Part("cluster_source", cluster.source, self.labelled, self.labels),
                 Part("cluster_decisions", cluster.target, learned, named[learned])]

        minimise(encoder, self.make_optimizer(encoder.parameters()),
                 cluster.classify(parts, modularity=False), self.fit_steps)
        figures = minimise(encoder, cluster.optimizer, cluster.classify(parts, modularity=True),
                           self.cluster_steps)
        log_q = cluster.log_posterior(cluster.target)
        figures |= {"resolution": cluster.resolution} | cluster.figures(log_q)
        return figures, cluster.log_class_posterior(log_q)

    def new_cluster_gnn(self, named: Tensor, scale: float = 1.0, **changes: Any) -> ClusterGNN:
        """An untrained cluster GNN, its resolution by decisions ``[V]`` on the target, scaled, and
        its recipe with some changes."""
        every = torch.arange(len(named), device=named.device)
        edges, degree = self.task.target.edge_index, self.target.degree
        gamma = newman_resolution(edges, degree, every, named)
        if not self.closed:
            gamma *= scale * self.resolution
        spec = replace(self.cluster_spec, **changes)
        graphs = (prepare(graph, spec.features) for graph in (self.task.source, self.task.target))
        return ClusterGNN(spec, self.num_clusters, self.task.num_outputs, *graphs,
                          resolution=gamma, collapse=COLLAPSE,
                          modularity_weight=self.modularity_weight, lr=CLUSTER_LR,
                          batch_size=self.batch_size, fanout=self.fanout)

    @property
    def num_corrected(self) -> int:
        # The other corrections read figures of the labels that were given.
        return self.num_labelled if self.correction == "mean" else self.task.num_known

    def corrected(self, scores: Tensor) -> Tensor:
        if self.correction_by_kind:
            self.correction, self.correction_power = CORRECTIONS[not self.closed]
        return super().corrected(scores)

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Log posteriors ``[V, N(+1)]``; before the first turn the unknown class has the negative
        propagated log-odds of a node's likeliest class, of classes as if all had as many labels,
        less what labels are missing, above the likeliest class."""
        logits, known = self.logits(graph, role), self.task.num_known
        if self.closed:
            return self.smoothed(logits, graph)
        if self.number:
            log_p = logits.log_softmax(1)
            if self.shared:
                return self.smooth(log_p.exp(), graph, PROPAGATION).clamp(min=1e-12).log()
            return log_p
        log_p = logits[:, :known].log_softmax(1)
        best = (logits[:, :known] - self.frequency.log()).log_softmax(1).amax(1, keepdim=True)
        odds = best - (-best.expm1()).clamp(min=TINY).log()
        score = self.propagated(odds, graph)
        if self.density.log_density.any():
            prepared = prepare(graph, self.cluster_spec.features)
            score += self.missing * self.density(prepared)[:, None]
        return torch.cat([log_p - log_p.amax(1, keepdim=True), -score], 1)

    @torch.no_grad()
    def propagated(self, score: Tensor, graph: Data) -> Tensor:
        """Scores ``[V, 1]`` after steps of a mean over neighbours, a tenth of its own at each."""
        adjacency, result = self.prepared(graph).adjacency("gcn"), score
        weight = adjacency @ torch.ones_like(score)
        for _ in range(PROPAGATION):
            result = 0.9 * (adjacency @ result) / weight + 0.1 * score
        return result

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """As all methods do where a held-out node on the target is unknown; else the cut is by the
        estimated share of unknown nodes on one graph, and between two graphs at the logit of the
        unknown class."""
        self.held_out, known = label, label < self.num_labelled
        if known.any():
            named = scores[known, :self.num_labelled].argmax(1)
            self.accuracy.fill_(float((named == label[known]).float().mean()))
        if self.closed:
            self.threshold.fill_(0.0)
            return
        if self.judges_unknown:
            super().calibrate(scores, label, on_target)
            self.decision_cut.copy_(self.threshold.clamp(max=CERTAIN))
            return

        held_out, sure = self.confidence(scores[known]), self.confidence(on_target)
        self.decision_cut.copy_(held_out.quantile(1 - self.sure) if self.one_graph
                                else sure.median())
        if self.one_graph or self.cut == "share":
            self.threshold.fill_(cut_by_share(held_out, sure))
        else:
            self.threshold.fill_(0.0 if self.number else self.decision_cut)

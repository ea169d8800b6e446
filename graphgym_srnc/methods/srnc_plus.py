"""SRNC+: SRNC with one cluster per known class and spare ones for the unknown class.

Episode 0 trains classifiers and asks held-out labels, each later episode is an iteration. What the
labels decide on edges (``shared/homophily.py``), on unknown nodes (``shared/unknown_test.py``,
``shared/unknown_share.py``) and on an iteration (``shared/twins.py``) comes back as a
:class:`Decision`, and :meth:`SRNCPlus.follow` alone carries it out.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Annotated, Any, Sequence, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, Graph
from graphgym_srnc.core.options import Count, Natural, OneOf, Positive, Steps, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.calibration import temperature
from graphgym_srnc.losses.modularity import newman_resolution
from graphgym_srnc.losses.prior import UnknownEvidence, unknown_evidence
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, ClusterMethod
from graphgym_srnc.methods.shared.cross_fit import (
    MAX_HELD_OUT,
    MAX_ON_SOURCE,
    Fold,
    HeldOut,
    cross_fit,
    ranks_in,
)
from graphgym_srnc.methods.shared.evidence import Evidence, specs
from graphgym_srnc.methods.shared.first_scores import FirstScores, with_unknown
from graphgym_srnc.methods.shared.homophily import decide_on_adaptation, decide_on_iterations
from graphgym_srnc.methods.shared.label_density import RESOLUTIONS
from graphgym_srnc.methods.shared.plan import (
    DONE,
    Decision,
    Judged,
    Plan,
    confident_nodes,
    mean_or,
)
from graphgym_srnc.methods.shared.prediction import threshold_by_share
from graphgym_srnc.methods.shared.propensity import Contrast, Propensity
from graphgym_srnc.methods.shared.training import Term, random_draws_apart
from graphgym_srnc.methods.shared.twins import halves, recount
from graphgym_srnc.methods.shared.unknown_share import Unlabelled, decide_on_unknown
from graphgym_srnc.methods.shared.unknown_test import Labelled, UnknownTest
from graphgym_srnc.methods.shared.validation import OutOfFold, Validation, is_better

LARGE_LOG_ODDS = 50.0  # used instead of infinity
COLLAPSE = 0.1  # weight of the collapse term
CLUSTER_LR = 0.003  # learning rate for modularity
SAMPLE = 20_000  # unlabelled nodes that suffice for the temperature
PSEUDO_LABEL_SHARE = 0.7  # of each class, between two graphs in open-set shift
ROUNDS_ON_ONE = 2  # iterations, after which scores do not rise
ROUNDS = 3  # the same between two graphs
MOST_ROUNDS = 5  # iterations while the expected accuracy rises
CHECKPOINTED = ("held_out_labels", "out_of_fold", "class_ratio", "gained", "learned")


class SRNCPlus(ClusterMethod):
    r"""Alternate a classifier and a cluster GNN, starting from the labels, for every kind of shift.

    The cluster GNN has one cluster per known class and, in open-set shift, ``spare`` further
    clusters, whose sum is the unknown class. Each iteration trains a new cluster GNN on the labels,
    on the classifier's pseudo-labels :math:`\hat y_\theta` and on the target's modularity (Eq. 10
    of the paper, with the target in its second term too):

    .. math:: \mathcal L_\Phi = w \mathcal L_{\Phi,T}
        + \text{CE}(Q_\Phi, y) + \text{CE}(Q_\Phi, \hat y_\theta)

    New classifiers then learn the labels and the pseudo-labels :math:`\hat y = \arg\max Q_\Phi^v
    P_\theta^{1-v}` on the target (Eq. 9). :math:`P_\theta` is a log-linear mixture of the GNN, an
    MLP on hop features, an MLP on features alone and, without ``batch_size``, a random forest on
    features (:class:`Evidence`).

    Labels that the classifiers did not learn decide everything else (:class:`HeldOut`): the weights
    of the mixture, smoothing, whether there is an unknown class, and how many nodes are predicted
    as unknown. They are validation nodes or, without any, each fifth of the labels in turn.
    Before there is a model of the unknown class, a node is unknown if its :class:`FirstScores` or
    its label propensity (:class:`Contrast`) are low. If the edges of a second graph do not seem to
    join nodes of the same class, classifiers of the labels alone make the predictions.

    When to use: your own graph, two graphs, or classes that have no labels. Prefer another method
    if all labels of a class come from one part of the graph, if the graph grows over time, or if
    there are only about 20 labels in total.

    Args:
        rounds: maximum number of iterations; 0 = two on one graph, three between two graphs, and up
            to five while the expected accuracy rises.
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
        smoothing: steps of personalised PageRank over the posterior. On one graph, held-out nodes
            decide whether it is smoothed.
        abstain: whether to predict no node as unknown if the labels show no sign of an unknown
            class, and not to adapt to the target if its edges do not seem to join nodes of the same
            class.
        correction: correction of the posterior by class shares, see ``ERM``. ``auto`` is ``mean``
            with power 0.75 in close-set shift, else ``labels`` with power 0.5.

    References:
        Zhu et al., "Shift-Robust Node Classification via Graph Adversarial Clustering",
        arXiv:2203.15802, 2022.
    """

    cites = ("zhu2022srnc",)
    checkpointed = ClusterMethod.checkpointed + CHECKPOINTED
    explicit_unknown = True
    cross_fits = True
    encoder_defaults = {"hidden": 64}
    title = "SRNC+"
    search = {"modularity_weight": (1.0, 3.0, 10.0)}
    plan: Plan  # what the labels decided
    held_out_labels: Tensor  # labels of the validation nodes, [n]
    labelled: Tensor  # nodes whose labels are learned, [n]
    twins: list[SRNCPlus]  # the method without each half of the labels, if these judge iterations
    learned: Tensor | None = None  # of a twin: where it learns the label of a training node
    class_ratio: Tensor  # share of each class among unlabelled nodes / that among labels
    gained: Tensor | None = None  # what each held-out node added to the expected accuracy
    contrast: Contrast | None = None  # labelled against unlabelled nodes, in episode 0

    def __init__(
        self,
        *,
        rounds: Natural = 0,
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
        self.rounds = rounds
        self.episodes = rounds or ROUNDS
        self.steps = steps
        self.fit_steps = fit_steps
        self.cluster_steps = cluster_steps
        self.spare = spare
        self.modularity_weight = modularity_weight
        self.resolution = resolution
        self.missing = missing
        self.doubt = doubt
        self.abstain = abstain

    # ---- state ----

    @property
    def classifier(self) -> Encoder:  # type: ignore[override]  # other methods assign it
        """The GNN of the config."""
        return self.evidence.gnn

    @property
    def validation(self) -> Validation:
        """Validation nodes on the target; none if they are on another graph."""
        task = self.task
        count = len(self.held_out_labels) if task.validation is task.target else 0
        return Validation(task.val[:count], self.held_out_labels[:count], task.num_known)

    @property
    def sample(self) -> Labelled:
        """The nodes whose labels are learned."""
        return Labelled.of(self.task.source, self.labelled, self.labels)

    @property
    def unlabelled(self) -> Unlabelled:
        """The unlabelled nodes of the target."""
        return Unlabelled.of(self.task, self.labelled)

    @property
    def num_classes(self) -> int:
        """Number of classes that the classifiers have learned."""
        return self.task.num_known + bool(self.plan.finds_unknown and self.plan.iteration)

    def change(self, **values: Any) -> None:
        """Replace values of the plan."""
        self.plan = self.plan._replace(**values)

    def get_extra_state(self) -> Tensor:
        """The plan, as torch saves it with the weights."""
        return torch.tensor([float(value) for value in self.plan], dtype=torch.double, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Set the plan that :meth:`get_extra_state` returned."""
        values = zip(self.plan._asdict().items(), state.tolist())
        self.change(**{name: type(before)(value) for (name, before), value in values})

    def build(self, task: ShiftTask | Sizes) -> None:
        self.plan = Plan(finds_unknown=task.open_set, smooths=not task.open_set)
        self.held_out_labels = torch.zeros(0, dtype=torch.long)
        super().build(task)
        known = task.num_known
        features = task.num_features
        batch = self.batch_size
        sizes = features, task.num_outputs, (batch, self.fanout)
        self.evidence = Evidence(specs(self.encoder, features), *sizes, with_forest=not batch)
        if task.open_set:
            numbers = known, features, known + self.spare, task.num_outputs, batch
            self.first = FirstScores(self.cluster_spec, *numbers, weight=self.missing)
            self.propensity = Propensity(self.evidence.hop_features.out_dim)

    def setup(self, task: ShiftTask) -> None:
        super().setup(task)
        self.labelled = task.train
        self.twins = []
        self.gained = None
        self.contrast = None

    def checkpoint(self) -> dict[str, Any]:
        return super().checkpoint() | {"twins": [twin.checkpoint() for twin in self.twins]}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        if self.out_of_fold is not None:
            self.out_of_fold = OutOfFold(*self.out_of_fold)
        self.twins = [self.twin(own["learned"]) for own in state["twins"]]
        for twin, own in zip(self.twins, state["twins"]):
            twin.load(own)

    # ---- episode 0: classifiers of the known classes, and what held-out labels decide ----

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Train the classifiers of the known classes, and test whether and how to adapt."""
        self.setup(task)
        self.initialise()
        self.episodes = self.rounds or (ROUNDS_ON_ONE if task.one_graph else ROUNDS)
        self.evidence.find_hop_features(self.target)
        # Validation nodes of one graph judge the classifiers instead, see learn_validation().
        cross_fits = not task.one_graph or not len(task.val)
        held_out = self.cross_fit() if cross_fits else None
        figures: dict[str, float] = {}
        if held_out is not None and not task.one_graph:
            figures |= self.evidence.figures
            if self.abstain and not task.open_set:
                decision = decide_on_adaptation(self.source, self.target, held_out, self.plan)
                figures |= self.follow(decision)
        figures |= self.train_evidence(self.evidence, self.labelled, self.labels)
        if task.open_set:
            self.find_communities()
        if held_out is not None and task.one_graph:
            figures |= self.plan_from(held_out)
        return figures

    def cross_fit(self) -> HeldOut:
        """Train classifiers without parts of the labels, which then judge them."""

        def fit(train: Tensor, labels: Tensor) -> Evidence:
            evidence = self.evidence.untrained()
            self.train_evidence(evidence, train, labels)
            return evidence

        with random_draws_apart(self.task.device):
            enough = MAX_HELD_OUT if self.task.one_graph else MAX_ON_SOURCE
            folds = cross_fit(fit, self.labelled, self.labels, enough, self.sample.never_held_out)
        held_out = HeldOut(folds, self.source, self.task.num_known)
        self.evidence.weight.copy_(held_out.weight)
        return held_out

    def learn_validation(self, label: Tensor) -> dict[str, float]:
        """Keep the labels of validation nodes; those of one graph decide before any iteration."""
        self.held_out_labels = label
        figures = {}
        nodes, labels, num_known = self.validation
        known = labels < num_known
        if self.task.one_graph and self.out_of_fold is None and known.any():
            fold = Fold(self.evidence, *self.sample[:2], nodes[known], labels[known])
            figures = self.plan_from(HeldOut([fold], self.target, num_known))
        return figures | super().learn_validation(label)

    def plan_from(self, held_out: HeldOut) -> dict[str, float]:
        """Decide from held-out labels whether to smooth, to iterate and to look for new classes."""
        fold = held_out.folds[0]
        figures = self.follow(decide_on_iterations(self.source, fold, self.plan, self.abstain))
        log_p = self.choose_smoothing(held_out)
        self.reported.append("homophily")  # the weights of the mixture take it into account
        figures |= self.evidence.figures
        if self.task.open_set and not self.task.validates_unknown:
            figures |= self.test_unknown(held_out)
        correct = self.choose_correction(held_out, log_p).correct
        figures["held_out_accuracy"] = float(correct.mean())
        figures["held_out_error"] = float(correct.std(correction=0)) / len(correct) ** 0.5
        if self.task.open_set:
            self.count_labels()
            if self.episodes and "expected_accuracy" in figures:
                # Where nearly all is right, one iteration follows, which nothing has to judge.
                is_done = figures["expected_accuracy"] >= DONE
                if not self.rounds:
                    self.episodes = 1 if is_done else MOST_ROUNDS
                if not is_done:
                    self.make_twins()
                    found, judged = self.judge()
                    self.gained = found.gained(judged.ranks, judged.correct)
            self.contrast = None
        return figures

    def follow(self, decision: Decision) -> dict[str, float]:
        """Do what labels decided; return the figures."""
        self.plan = decision.plan
        self.warnings |= decision.warnings
        self.reported += decision.reported
        if decision.episodes is not None:
            self.episodes = decision.episodes
        if decision.kept is not None and self.out_of_fold is not None:
            self.out_of_fold = self.out_of_fold._replace(kept=decision.kept)
        if decision.favoured:
            self.evidence.favour_features(decision.favoured)
        return decision.figures

    def choose_smoothing(self, held_out: HeldOut) -> list[Tensor]:
        """Smooth if it makes held-out labels more likely; return log posteriors of each fold."""
        log_p = [self.smoothed(log_p, self.task.target) for log_p in held_out.log_p]
        smoothed = held_out.out_of_fold(log_p)
        plain = held_out.out_of_fold(held_out.log_p)
        # Without homophily it must be clearly better, since it can do much harm there.
        errors = 0.0 if self.plan.adapts else 1.0
        smooths = is_better(smoothed.log_likelihood, plain.log_likelihood, errors)
        self.out_of_fold = smoothed if smooths else plain
        accuracy = float(self.out_of_fold.correct.mean())
        self.change(smooths=smooths, accuracy=accuracy, expected=accuracy)
        return log_p if smooths else held_out.log_p

    def test_unknown(self, held_out: HeldOut) -> dict[str, float]:
        """Test whether there are unknown nodes, and choose how many are predicted as unknown."""
        target = self.task.target
        unlabelled = self.unlabelled
        logits = self.known_logits(target)
        test = UnknownTest(target, unlabelled.comparable, self.sample, held_out, logits)
        self.class_ratio = test.class_ratio
        scores = self.first.of_folds(held_out, self.target)
        figures = {}
        if unlabelled.lack_comparable:
            judged = test.judged(scores)
        else:
            hops = self.evidence.hop_features(self.target)
            tested, judged, self.contrast = test.run(scores, hops, self.plan)
            figures = self.follow(tested)
        if self.contrast is not None:
            self.contrast.fit(self.propensity, self.task.pool[:0])
        # No later node is in a community with many labels, if all of these are of an earlier time.
        certainty = self.first(logits, self.target, [])
        decision = decide_on_unknown(judged, unlabelled, certainty, self.plan, self.abstain)
        return figures | self.follow(decision)

    def choose_correction(self, held_out: HeldOut, log_p: Sequence[Tensor]) -> OutOfFold:
        """Correct by class shares if it makes held-out labels likelier; return predictions of them.

        ``log_p`` are the uncorrected log posteriors ``[V, N]`` of each fold.
        """
        plain = cast(OutOfFold, self.out_of_fold)
        name, power = self.prior_correction
        if self.correction != "auto" or name == "none":
            return plain
        corrected = [self.prior.corrected(p, self.prior.weights(name, p), power) for p in log_p]
        found = held_out.out_of_fold(corrected)._replace(kept=plain.kept)
        if not is_better(found.log_likelihood, plain.log_likelihood):
            self.change(corrects=False)
            return plain
        accuracy = float(found.correct.mean())
        expected = self.plan.expected if self.plan.finds_unknown else accuracy
        self.change(accuracy=accuracy, expected=expected)
        self.out_of_fold = found
        return found

    # ---- which nodes are unknown, before the first iteration ----

    def find_communities(self) -> None:
        """Find communities and count the labels in them."""
        predicted = self.known_logits(self.task.target).argmax(1)
        # Label density needs unlabelled nodes of the labelled graph.
        scales = RESOLUTIONS if self.missing and self.task.one_graph else ()
        self.first.find_communities(
            [self.new_cluster_gnn(predicted, scale, dropout=0.0) for scale in scales]
        )
        self.count_labels()

    def count_labels(self) -> None:
        """Count the labels of classes and communities for the first scores."""
        posteriors = self.first.posteriors(self.task.source)
        log_p = self.known_logits(self.task.target)
        self.first.count_labels(posteriors, log_p, self.labelled, self.labels)

    def first_confidence(self, graph: Data) -> Tensor:
        """Confidence ``[V]`` that a node is of a known class, before the first iteration."""
        prepared = self.prepared(graph)
        if self.plan.by_propensity:
            return self.propensity(self.evidence.hop_features(prepared))
        return self.first(self.known_logits(graph), prepared, self.first.posteriors(graph))

    def known_logits(self, graph: Data) -> Tensor:
        """Logits of the known classes ``[V, N]``, as if the weights of the mixture summed to 1."""
        return self.logits(graph) / self.evidence.weight.sum()

    # ---- iterations ----

    def episode(self) -> dict[str, float]:
        """One iteration of Algorithm 1: pseudo-labels, cluster GNN, mixture and classifiers."""
        task = self.task
        num_classes = task.num_known + self.plan.finds_unknown
        # Pseudo-labels: the last classifiers'. With the threshold the largest score decides.
        scores = self.predict(task.target)[:, :num_classes]
        scores[:, task.num_known :] += self.threshold.clamp(max=LARGE_LOG_ODDS)

        # Lines 5 to 8: the cluster GNN on labels, pseudo-labels and modularity (Eq. 10).
        log_q, figures = self.train_cluster_gnn(scores)

        # Lines 10 and 11: pseudo-labels of the mixture of both models.
        log_q = log_q[:, :num_classes]
        log_p = scores.log_softmax(1)
        weight = self.validation.best_weight(log_q, log_p)
        mixture = weight * log_q + (1 - weight) * log_p
        pseudo = self.pseudo_labels("classifier_target", self.target, mixture)

        # Lines 12 and 13: the classifiers on labels and pseudo-labels (Eq. 9).
        self.change(iteration=self.plan.iteration + 1)
        before = self.evidence
        self.evidence = before.untrained()
        figures |= self.train_evidence(self.evidence, self.labelled, self.labels, pseudo)
        # Twins do not judge themselves.
        if self.gained is not None and self.learned is None:
            figures |= self.recount_unknown(self.gained, before)
        if len(self.validation.nodes):
            log_p = self.logits(task.target)
            smoothed = self.smoothed(log_p, task.target)
            correct = self.validation.correct
            self.change(smooths=is_better(correct(smoothed), correct(log_p), errors=-1.0))
        figures["cluster_weight"] = weight
        figures["learned_share"] = len(pseudo.nodes) / len(task.pool)
        if task.open_set:
            unknown = mixture.argmax(1)[task.pool] == task.num_known
            figures["pseudo_unknown_share"] = float(unknown.float().mean())
        return figures

    def pseudo_labels(self, name: str, graph: Graph, scores: Tensor) -> Term:
        """Cross-entropy on the most confident pseudo-labels, by scores ``[V, N(+1)]``."""
        share = self.plan.accuracy**self.doubt
        if self.plan.finds_unknown and not self.task.one_graph:
            share = PSEUDO_LABEL_SHARE
        nodes = confident_nodes(scores, self.task.pool, share)
        labels = scores.argmax(1)[nodes]
        return Term(name, graph, nodes, labels, num_classes=scores.size(1))

    def train_evidence(
        self, evidence: Evidence, train: Tensor, labels: Tensor, *pseudo: Term
    ) -> dict[str, float]:
        """Train classifiers on labels ``[n]`` and pseudo-labels; return the last losses."""
        name = "classifier_source" if pseudo else "source"
        labelled = Term(
            name,
            self.source,
            train,
            labels,
            num_classes=self.num_classes,
            node_weights=Labelled.of(self.task.source, train, labels).weight,
        )
        # The loss of a mini-batch is too noisy to detect convergence. Between two graphs rare
        # classes are learnt late, when the mean loss is already low.
        until_converged = self.task.one_graph and not self.batch_size
        terms = [labelled, *pseudo]
        return evidence.fit(terms, self.steps, self.make_optimizer, until_converged)

    def train_cluster_gnn(self, scores: Tensor) -> tuple[Tensor, dict[str, float]]:
        r"""Train a new cluster GNN on the scores ``[V, N(+1)]`` of the classifiers.

        Returns :math:`\log Q_\Phi` over classes ``[V, N + 1]`` on the target, and losses by name.
        """
        cluster = self.new_cluster_gnn(scores.argmax(1))
        terms = [
            Term("cluster_source", cluster.source, self.labelled, self.labels),
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
        graph = self.task.target
        degree = self.target.degree
        gamma = newman_resolution(graph.edge_index, degree, predicted, graph.edge_weight)
        return self.untrained(
            self.task.num_known + self.spare * self.plan.finds_unknown,
            replace(self.cluster_spec, **changes),
            resolution=gamma * scale * (self.resolution if self.plan.finds_unknown else 1.0),
            collapse=COLLAPSE,
            modularity_weight=self.modularity_weight,
            lr=CLUSTER_LR,
            padded=True,
        )

    # ---- twins, which judge the iterations ----

    def make_twins(self) -> None:
        """Train a twin without each half of the labels, unless validation nodes judge."""
        if len(self.validation.nodes):
            return
        with random_draws_apart(self.task.device):
            learned = halves(self.labels, self.sample.never_held_out)
            self.twins = [self.twin(one) for one in learned]
            for twin, one in zip(self.twins, learned):
                twin.train_evidence(twin.evidence, twin.labelled, twin.labels)
                twin.count_labels()
                if self.contrast is not None:
                    self.contrast.fit(twin.propensity, self.labelled[~one])

    def twin(self, learned: Tensor) -> SRNCPlus:
        """This method with some of the labels, those where ``learned`` ``[n]`` is true.

        Its classifiers are untrained.
        """
        shared = (self.task, self.source, self.target, self.encoder, self.evidence, self.contrast)
        twin = copy.deepcopy(self, {id(value): value for value in shared})
        twin.evidence = self.evidence.untrained()
        twin.learned = learned
        twin.labelled = self.labelled[learned]
        twin.labels = self.labels[learned]
        return twin

    def iterate_twins(self) -> None:
        """Do the last iteration with the labels of each twin."""
        with random_draws_apart(self.task.device):
            for twin in self.twins:
                twin.plan = self.plan._replace(iteration=self.plan.iteration - 1)
                scores = twin.predict(self.task.target)
                twin.set_threshold(scores[:0], twin.labels[:0], scores)
                twin.episode()

    def judge(self) -> tuple[UnknownEvidence, Judged]:
        """What held-out labels say of unknown nodes: those of twins, or the validation nodes."""
        nodes, labels, _ = self.validation
        parts = [self.judged(nodes, labels)] if len(nodes) else []
        for twin in self.twins:
            left = ~cast(Tensor, twin.learned) & ~self.sample.elsewhere
            parts.append(twin.judged(self.labelled[left], self.labels[left]))
        every = Judged(*map(torch.cat, zip(*parts)))
        return unknown_evidence(*every), every

    def judged(self, nodes: Tensor, labels: Tensor) -> Judged:
        """Nodes ``[n]`` whose labels ``[n]`` this method did not learn, by its predictions."""
        scores = self.predict(self.task.target)
        confidence = self.confidence(scores)
        ranks = ranks_in(confidence[self.unlabelled.comparable], confidence[nodes])
        correct = scores[nodes, : self.task.num_known].argmax(1) == labels
        return Judged(ranks, self.class_ratio[labels], correct.float())

    def recount_unknown(self, gained: Tensor, before: Evidence) -> dict[str, float]:
        """Count unknown nodes again after an iteration, or undo it.

        Before it were these classifiers, and each held-out node ``gained`` so much, ``[m]``.
        """
        self.iterate_twins()
        found, judged = self.judge()
        least = self.unlabelled.unusual_rank(judged)
        decision = recount(found, judged, gained, self.plan, least)
        if decision.plan.iteration < self.plan.iteration:
            self.evidence = before
        elif self.plan.is_clear:
            self.gained = found.gained(judged.ranks, judged.correct)
        return self.follow(decision)

    # ---- predictions ----

    @property
    def prior_correction(self) -> tuple[str, float]:
        if not self.plan.adapts or not self.plan.corrects:
            return "none", 1.0
        if self.correction != "auto":
            return super().prior_correction
        # The mean of an open-set posterior would count the unknown nodes.
        return ("labels", 0.5) if self.plan.finds_unknown else ("mean", 0.75)

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold of the unknown class, for pseudo-labels and for predictions.

        Unknown held-out nodes choose it, or the estimated share of unknown nodes on one graph.
        Between two graphs half of the target is unknown at first, later those that the classifier
        predicts as unknown.
        """
        known = label < self.task.num_known
        if known.any():
            predicted = scores[known, : self.task.num_known].argmax(1)
            self.change(accuracy=float((predicted == label[known]).float().mean()))
        self.set_threshold(scores, label, on_target)
        self.set_temperature(on_target)

    def set_threshold(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold of the unknown class; the arguments are those of ``calibrate``."""
        confidence = self.confidence(on_target)
        if not self.plan.finds_unknown:
            self.threshold.fill_(-torch.inf if self.task.open_set else 0.0)
        elif self.task.validates_unknown:
            super().calibrate(scores, label, on_target)
            if self.task.one_graph:
                predicted = self.decide(scores)
                right = (predicted == label).float()
                unknown = predicted == self.task.num_known
                self.change(
                    expected=mean_or(right[~unknown], -1.0),
                    precision=mean_or(right[unknown], -1.0),
                )
        elif self.task.one_graph:
            self.threshold.copy_(
                confidence[self.unlabelled.comparable].quantile(self.plan.unknown_share)
            )
        elif self.cut == "share":
            self.threshold.fill_(threshold_by_share(self.confidence(scores), confidence))
        else:
            self.threshold.copy_(
                confidence.new_zeros(()) if self.plan.iteration else confidence.median()
            )

    def set_temperature(self, on_target: Tensor) -> None:
        """Set the temperatures at which mean largest probabilities are the expected accuracies.

        Nodes predicted as unknown have their own one, since the scores of the unknown class come
        from another model before the first iteration.
        """
        pool = self.task.pool[:: 1 + len(self.task.pool) // SAMPLE]
        log_p = super().posterior(on_target[pool]).log()
        unknown = log_p.argmax(1) == self.task.num_known
        if self.plan.expected >= 0 and not unknown.all():
            self.change(temperature=temperature(log_p[~unknown], self.plan.expected))
        if self.plan.precision >= 0 and unknown.any():
            self.change(unknown_temperature=temperature(log_p[unknown], self.plan.precision))

    def posterior(self, scores: Tensor) -> Tensor:
        log_p = super().posterior(scores).log()
        is_unknown = log_p.argmax(1, keepdim=True) == self.task.num_known
        divisor = torch.where(is_unknown, self.plan.unknown_temperature, self.plan.temperature)
        return (log_p / divisor).softmax(1)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        return self.evidence.log_posterior(self.prepared(graph), self.num_classes)

    @torch.no_grad()
    def votes(self, graph: Data) -> dict[str, tuple[float, Tensor]]:
        posteriors = self.evidence.log_posteriors(self.prepared(graph), self.num_classes).exp()
        used = zip(self.evidence.used.items(), posteriors)
        return {self.evidence.kinds[number]: (weight, p) for (number, weight), p in used}

    def stages(self, graph: Data) -> dict[str, Tensor]:
        is_first = self.plan.finds_unknown and not self.plan.iteration
        second = (
            "unknown likelier where few nodes have labels" if is_first else "averaged over links"
        )
        return {
            "classifiers combined by their shares": self.logits(graph),
            second: self.uncorrected(graph),
            "frequent classes made less probable": self.predict(graph),
        }

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Log posteriors ``[V, N(+1)]``."""
        if self.plan.finds_unknown and not self.plan.iteration:
            return with_unknown(self.known_logits(graph), self.first_confidence(graph))
        log_p = self.logits(graph, role)
        if self.plan.smooths:
            log_p = self.smoothed(log_p, graph)
        if self.task.open_set and not self.plan.finds_unknown:
            log_p = torch.cat([log_p, log_p.amax(1, keepdim=True) - LARGE_LOG_ODDS], 1)
        return log_p

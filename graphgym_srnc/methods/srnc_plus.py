"""SRNC+: SRNC with one cluster per known class and spare ones for the unknown class."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Annotated, Any, Sequence, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, Graph
from graphgym_srnc.core.options import Count, Natural, OneOf, Positive, Steps, Weight
from graphgym_srnc.core.task import DRAWN_MASK, ShiftTask, Sizes, covers
from graphgym_srnc.losses.calibration import temperature
from graphgym_srnc.losses.modularity import assortativity, label_assortativity, newman_resolution
from graphgym_srnc.losses.prior import UnknownEvidence, posterior_correlation, unknown_evidence
from graphgym_srnc.losses.ranks import least_detectable_share
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN, ClusterMethod
from graphgym_srnc.methods.shared.cross_fit import (
    MAX_HELD_OUT,
    MAX_ON_SOURCE,
    Fold,
    HeldOut,
    cross_fit,
    folds,
    ranks_in,
)
from graphgym_srnc.methods.shared.evidence import Evidence, specs
from graphgym_srnc.methods.shared.first_scores import FirstScores, with_unknown
from graphgym_srnc.methods.shared.label_density import RESOLUTIONS
from graphgym_srnc.methods.shared.plan import (
    DETECTABLE,
    DRIFT,
    MOST_UNUSUAL,
    NO_SIGN,
    NO_UNKNOWN,
    NOT_ADAPTED,
    NOT_ITERATED,
    NOTHING_TO_TEST,
    ON_OTHER_SEEDS,
    SIGNIFICANT,
    TESTS,
    TOO_SMALL,
    UNDONE,
    UNUSUAL,
    UNUSUAL_OTHERS,
    UNUSUAL_PRECISION,
    VARIES,
    WEAK,
    Judged,
    Plan,
    confident_nodes,
    mean_or,
    weighted_mean,
)
from graphgym_srnc.methods.shared.prediction import threshold_by_share
from graphgym_srnc.methods.shared.propensity import Contrast, Propensity
from graphgym_srnc.methods.shared.training import Term, random_draws_apart
from graphgym_srnc.methods.shared.unknown_test import Labelled, UnknownTest
from graphgym_srnc.methods.shared.validation import OutOfFold, Validation, is_better

LARGE_LOG_ODDS = 50.0  # used instead of infinity
COLLAPSE = 0.1  # weight of the collapse term
CLUSTER_LR = 0.003  # learning rate for modularity
MIN_ASSORTATIVITY = 0.2  # from which edges support iterations or adaptation
MIN_RELIABILITY = 0.3  # minimum correlation of the MLP's posterior with the classes
SAMPLE = 20_000  # unlabelled nodes that suffice for the temperature
PSEUDO_LABEL_SHARE = 0.7  # of each class, between two graphs in open-set shift
ROUNDS_ON_ONE = 2  # iterations, after which scores do not rise
ROUNDS = 3  # the same between two graphs
MOST_ROUNDS = 5  # iterations while the expected accuracy rises
ENOUGH = 300  # labels that one twin leaves out, with which no second twin is needed
CLEAR = 2  # standard errors of a rise after which another iteration follows
LEAST_COMPARABLE = 50  # unlabelled nodes that held-out labels are compared with
DONE = 0.97  # expected accuracy from which one iteration is enough


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

    Attributes:
        plan: what the labels decided.
        evidence: the classifiers.
        held_out_labels: labels of the validation nodes, ``[n]``.
        labelled: nodes whose labels are learned, ``[n]``.
        twins: the method without each half of the labels, if these judge its iterations.
        learned: of a twin, where it learns the label of a training node.
        class_ratio: share of each class among unlabelled nodes, divided by that among labels.
        contrast: labelled against unlabelled nodes, until the iterations begin.
        gained: what each held-out node added to the expected accuracy, after the last iteration.

    References:
        Zhu et al., "Shift-Robust Node Classification via Graph Adversarial Clustering",
        arXiv:2203.15802, 2022.
    """

    cites = ("zhu2022srnc",)
    checkpointed = (
        *ClusterMethod.checkpointed,
        "held_out_labels",
        "out_of_fold",
        "class_ratio",
        "gained",
        "learned",
    )
    explicit_unknown = True
    cross_fits = True
    encoder_defaults = {"hidden": 64}
    title = "SRNC+"
    search = {"modularity_weight": (1.0, 3.0, 10.0)}
    plan: Plan
    held_out_labels: Tensor
    labelled: Tensor
    twins: list[SRNCPlus]
    class_ratio: Tensor
    learned: Tensor | None = None
    gained: Tensor | None = None
    contrast: Contrast | None = None

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
        here = self.task.validation is self.task.target
        task = self.task
        count = len(self.held_out_labels) if here else 0
        return Validation(task.val[:count], self.held_out_labels[:count], task.num_known)

    @property
    def comparable(self) -> Tensor:
        """Ids of the unlabelled target nodes that could have been drawn as labelled ones.

        If they are too few to compare with, it is all unlabelled nodes.
        """
        return self.task.pool if self.lacks_comparable else self.task.pool[self.is_drawn]

    @property
    def lacks_comparable(self) -> bool:
        """Whether labels were drawn from a part of the target that has hardly any other nodes."""
        is_drawn = self.is_drawn
        return bool(is_drawn.sum() < LEAST_COMPARABLE and not is_drawn.all())

    @property
    def is_drawn(self) -> Tensor:
        """Which unlabelled target nodes could have been drawn as labelled ones, ``[u]``."""
        pool = self.task.pool
        drawn = self.task.target.get(DRAWN_MASK)
        return torch.ones_like(pool, dtype=torch.bool) if drawn is None else drawn[pool]

    @property
    def num_classes(self) -> int:
        """Number of classes that the classifiers have learned."""
        return self.task.num_known + bool(self.plan.finds_unknown and self.plan.iteration)

    @property
    def prior_correction(self) -> tuple[str, float]:
        if not self.plan.adapts or not self.plan.corrects:
            return "none", 1.0
        if self.correction != "auto":
            return super().prior_correction
        # The mean of an open-set posterior would count the unknown nodes.
        return ("labels", 0.5) if self.plan.finds_unknown else ("mean", 0.75)

    def get_extra_state(self) -> Tensor:
        """The plan, as torch saves it with the weights."""
        return torch.tensor([float(value) for value in self.plan], dtype=torch.double, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Set the plan that :meth:`get_extra_state` returned."""
        values = zip(self.plan._asdict().items(), state.tolist())
        self.change(**{name: type(before)(value) for (name, before), value in values})

    def change(self, **values: Any) -> None:
        """Replace values of the plan."""
        self.plan = self.plan._replace(**values)

    def build(self, task: ShiftTask | Sizes) -> None:
        self.plan = Plan(finds_unknown=task.open_set, smooths=not task.open_set)
        self.held_out_labels = torch.zeros(0, dtype=torch.long)
        super().build(task)
        known = task.num_known
        features = task.num_features
        batch = self.batch_size
        self.evidence = Evidence(
            specs(self.encoder, features),
            features,
            task.num_outputs,
            (batch, self.fanout),
            with_forest=not batch,
        )
        if task.open_set:
            sizes = known, features, known + self.spare, task.num_outputs, batch
            self.first = FirstScores(self.cluster_spec, *sizes, weight=self.missing)
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

    # ---- before the first iteration ----

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
            figures |= self.test_homophily(held_out)
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

    @property
    def sample(self) -> Labelled:
        """The nodes whose labels are learned."""
        return Labelled.of(self.task.source, self.labelled, self.labels)

    def learn_validation(self, label: Tensor) -> dict[str, float]:
        """Keep the labels of validation nodes; those of one graph decide before any iteration."""
        self.held_out_labels = label
        figures = {}
        nodes, labels, num_known = self.validation
        known = labels < num_known
        if self.task.one_graph and self.out_of_fold is None and known.any():
            learned = self.evidence, self.task.train, self.labels
            fold = Fold(*learned, nodes[known], labels[known])
            figures = self.plan_from(HeldOut([fold], self.target, num_known))
        return figures | super().learn_validation(label)

    def plan_from(self, held_out: HeldOut) -> dict[str, float]:
        """Decide from held-out labels whether to smooth, to iterate and to look for new classes."""
        figures = self.test_labelled_edges(held_out.folds[0])
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
            # Where nearly all is right, one iteration follows, which nothing has to judge.
            if self.episodes and figures.get("expected_accuracy", 1.0) < DONE:
                self.prepare_recounts()
            self.contrast = None
        return figures

    def test_labelled_edges(self, fold: Fold) -> dict[str, float]:
        """Do not iterate if edges between labelled nodes of a fold's graph join few equal classes.

        If too few edges tell it, they are assumed to join equal classes.
        """
        nodes = torch.cat([fold.train, fold.held_out])
        labels = torch.cat([fold.labels, fold.held_out_labels])
        value = self.source_assortativity(nodes, labels, otherwise=1.0)
        if self.abstain and value < MIN_ASSORTATIVITY:
            self.change(adapts=False)
            self.episodes = 0
            self.warnings["not iterated"] = NOT_ITERATED.format(value)
        return {"assortativity": value}

    def source_assortativity(self, nodes: Tensor, labels: Tensor, **options: float) -> float:
        """Assortativity of the edges between nodes ``[n]`` of the source with these labels."""
        graph = self.source.data
        label = torch.full_like(graph.y, -1).index_copy(0, nodes, labels)
        degree = self.source.degree
        return label_assortativity(graph.edge_index, degree, label, graph.edge_weight, **options)

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

    def choose_correction(self, held_out: HeldOut, log_p: Sequence[Tensor]) -> OutOfFold:
        """Correct by class shares if it makes held-out labels more likely.

        Args:
            held_out: labels that were held out.
            log_p: uncorrected log posteriors ``[V, N]`` of each fold.

        Returns:
            Predictions of the held-out nodes.
        """
        assert self.out_of_fold is not None
        plain = self.out_of_fold
        name, power = self.prior_correction
        if self.correction != "auto" or name == "none":
            return plain
        weights = [self.prior.weights(name, p) for p in log_p]
        corrected = [self.prior.corrected(p, w, power) for p, w in zip(log_p, weights)]
        found = held_out.out_of_fold(corrected)._replace(kept=plain.kept)
        self.change(corrects=is_better(found.log_likelihood, plain.log_likelihood))
        if not self.plan.corrects:
            return plain
        self.out_of_fold = found
        self.change(accuracy=float(found.correct.mean()))
        if not self.plan.finds_unknown:
            self.change(expected=self.plan.accuracy)
        return found

    def test_unknown(self, held_out: HeldOut) -> dict[str, float]:
        """Test whether there are unknown nodes, and choose how many are predicted as unknown."""
        target = self.task.target
        logits = self.known_logits(target)
        test = UnknownTest(target, self.comparable, self.sample, held_out, logits)
        self.class_ratio = test.class_ratio
        scores = self.scores_of_folds(held_out)
        if self.lacks_comparable:
            judged = test.judged(scores)
            drifts = self.finds_drift(judged)
            return {} if drifts else self.call_unusual_unknown(judged, NOTHING_TO_TEST)
        # Scores of both kinds are spread alike.
        spread = float(scores[0][self.comparable].std())
        contrast = test.contrast(self.evidence.hop_features(self.target), spread)
        p_values = test.p_values(scores, contrast)
        p_value = min(TESTS * min(p_values.values()), 1.0)
        self.change(
            p_value=p_value, is_clear=p_value <= SIGNIFICANT, tested=int(test.is_tested.sum())
        )

        judged, by_propensity = test.best_confidence(scores, contrast, p_values)
        if by_propensity:
            self.contrast = contrast
            contrast.fit(self.propensity, self.task.pool[:0])
            self.change(by_propensity=True)
        figures = {f"{name}_p_value": value for name, value in p_values.items()}
        figures["no_unknown_p_value"] = p_value
        return figures | self.decide_on_unknown(judged)

    def decide_on_unknown(self, judged: Judged) -> dict[str, float]:
        """Choose how many nodes are predicted as unknown, after the test for these.

        Without a clear sign it is none, unless labels were drawn from a part of the nodes alone.
        """
        found = unknown_evidence(*judged)
        figures = {"least_unknown_share": found.least_share}
        if self.finds_drift(judged):
            return figures
        if self.plan.is_clear or not self.abstain:
            self.choose_share(found, judged)
            self.count_kept(judged)
            if self.plan.adapts and not self.rounds:
                self.episodes = MOST_ROUNDS if found.accuracy < DONE else 1
            return figures | {"expected_accuracy": found.accuracy, "expected_error": found.error}
        if not covers(self.task.target, self.labelled):
            share = 100 * float(self.is_drawn.float().mean())
            warning = UNUSUAL_OTHERS.format(share, self.plan.p_value)
            return figures | self.call_unusual_unknown(judged, warning)
        self.change(finds_unknown=False)
        self.reported.append("unknown share")
        self.warn_of_no_sign()
        return figures

    def call_unusual_unknown(self, judged: Judged, warning: str) -> dict[str, float]:
        """Predict nodes as unknown that are less certain than nearly all held-out nodes."""
        self.change(unknown_share=self.unusual_rank(judged), precision=UNUSUAL_PRECISION)
        self.count_kept(judged)
        self.episodes = min(self.episodes, 1)
        self.warnings[NO_UNKNOWN] = warning
        return {"unusual_share": self.plan.unknown_share}

    def finds_drift(self, judged: Judged) -> bool:
        """Whether over a third of the nodes that no labels represent look unusual.

        Classes have changed then. New ones cannot be told from these, so no node is unknown.
        """
        rank = self.unusual_rank(judged)
        others = self.task.pool[~self.is_drawn]
        if not self.abstain or not rank or not len(others):
            return False
        confidence = self.first_confidence(self.task.target)
        bound = confidence[self.comparable].quantile(rank)
        share = float((confidence[others] < bound).float().mean())
        if share <= MOST_UNUSUAL:
            return False
        self.change(finds_unknown=False, is_clear=False)
        self.reported.append("unknown share")
        self.warnings[NO_UNKNOWN] = DRIFT.format(100 * share)
        return True

    def unusual_rank(self, judged: Judged) -> float:
        """Least share of comparable nodes whose confidence is too low for a known class.

        It is 0 unless there are other nodes, which may be of an unknown class that these lack, and
        which no labels represent.
        """
        if covers(self.task.target, self.labelled):
            return 0.0
        return float(judged.ranks.quantile(UNUSUAL)) if self.lacks_comparable else UNUSUAL

    def first_confidence(self, graph: Data) -> Tensor:
        """Confidence ``[V]`` that a node is of a known class, before the first iteration."""
        prepared = self.prepared(graph)
        if self.plan.by_propensity:
            return self.propensity(self.evidence.hop_features(prepared))
        return self.first(self.known_logits(graph), prepared, self.first.posteriors(graph))

    def scores_of_folds(self, held_out: HeldOut) -> list[Tensor]:
        """First scores of all nodes, ``[V]``, by the classifiers and labels of each fold."""
        posteriors = self.first.posteriors(self.task.target)
        scores = []
        for fold, log_p in zip(held_out.folds, held_out.log_p):
            flat = log_p / held_out.weight.sum()
            self.first.count_labels(posteriors, flat, fold.train, fold.labels)
            scores.append(self.first(flat, self.target, posteriors))
        return scores

    def warn_of_no_sign(self) -> None:
        """Say that no node is predicted as unknown, and what the labels may not show."""
        plan = self.plan
        sign = "no significant" if plan.p_value > WEAK else "only a weak"
        least = least_detectable_share(plan.tested, SIGNIFICANT / TESTS)
        self.warnings[NO_UNKNOWN] = NO_SIGN.format(sign, plan.p_value)
        if plan.p_value <= VARIES:
            self.warnings[NO_UNKNOWN] += ON_OTHER_SEEDS
        self.warnings[TOO_SMALL] = DETECTABLE.format(plan.tested, 100 * least)

    def test_homophily(self, held_out: HeldOut) -> dict[str, float]:
        """Decide whether to adapt to the target of two graphs in close-set shift.

        If it has little homophily, the MLP on features alone gets more weight.
        """
        figures = self.evidence.figures
        if not self.abstain or self.task.open_set:
            return figures
        value, reliability = self.target_assortativity(held_out)
        self.reported.append("homophily")
        if value < MIN_ASSORTATIVITY:
            reliable = reliability >= MIN_RELIABILITY
            self.change(adapts=False, smooths=False)
            self.episodes = 0
            self.warnings["not adapted"] = NOT_ADAPTED[reliable].format(value)
            if reliable:
                # The share of the MLP grows to a half at assortativity 0, from none at the bound.
                share = min(1 - value / MIN_ASSORTATIVITY, 1.0) / 2
                self.evidence.favour_features(share)
        return figures | {"features_reliability": reliability, "assortativity": value}

    def target_assortativity(self, held_out: HeldOut) -> tuple[float, float]:
        """Estimated assortativity of the target, and the reliability of features alone.

        If features alone are unreliable, the assortativity is that of the labels of the source.
        """
        networks = [fold.evidence for fold in held_out.folds]
        on_source = held_out.held_out([network.by_features(self.source) for network in networks])
        reliability = posterior_correlation(on_source.exp(), held_out.labels)
        if reliability < MIN_RELIABILITY:
            return self.source_assortativity(self.task.train, self.labels), reliability
        on_target = [network.by_features(self.target).exp() for network in networks]
        p = torch.stack(on_target).mean(0)
        adjacency = self.target.adjacency("raw")
        return assortativity(p, adjacency, self.target.degree, reliability), reliability

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

    def known_logits(self, graph: Data) -> Tensor:
        """Logits of the known classes ``[V, N]``, as if the weights of the mixture summed to 1."""
        log_p = self.logits(graph)[:, : self.task.num_known]
        return log_p / self.evidence.weight.sum()

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
        if self.recounts:
            figures |= self.recount_unknown(before)
        if len(self.validation.nodes):
            log_p = self.logits(task.target)
            smoothed = self.smoothed(log_p, task.target)
            correct = self.validation.correct
            smooths = is_better(correct(smoothed), correct(log_p), errors=-1.0)
            self.change(smooths=smooths)
        figures["cluster_weight"] = weight
        figures["learned_share"] = len(pseudo.nodes) / len(task.pool)
        if task.open_set:
            unknown = mixture.argmax(1)[task.pool] == task.num_known
            figures["pseudo_unknown_share"] = float(unknown.float().mean())
        return figures

    # ---- twins: the same iterations with a part of the labels, which the other labels judge ----

    @property
    def recounts(self) -> bool:
        """Whether unknown nodes are counted again after an iteration: not by a twin."""
        return self.gained is not None and self.learned is None

    def prepare_recounts(self) -> None:
        """Judge the predictions before the first iteration as those after it."""
        if not len(self.validation.nodes):
            with random_draws_apart(self.task.device):
                self.twins = self.make_twins()
        found, judged = self.judge()
        self.gained = found.gained(judged.ranks, judged.correct)

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

    def make_twins(self) -> list[SRNCPlus]:
        """A trained twin without each half of the labels; one, if it leaves out enough of them."""
        half = folds(self.labels, 2, self.sample.never_held_out)
        enough = (half >= 0).sum() >= 2 * ENOUGH
        twins = [self.twin(half != number) for number in range(1 if enough else 2)]
        for twin in twins:
            twin.train_evidence(twin.evidence, twin.labelled, twin.labels)
            twin.count_labels()
            if self.contrast is not None:
                self.contrast.fit(twin.propensity, self.labelled[~cast(Tensor, twin.learned)])
        return twins

    def iterate_twins(self) -> None:
        """Do the last iteration with the labels of each twin."""
        for twin in self.twins:
            twin.plan = self.plan._replace(iteration=self.plan.iteration - 1)
            scores = twin.predict(self.task.target)
            twin.set_threshold(scores[:0], self.labels[:0], scores)
            twin.episode()

    def judge(self) -> tuple[UnknownEvidence, Judged]:
        """What held-out labels say of unknown nodes: those of twins, or the validation nodes."""
        nodes, labels, _ = self.validation
        judges: list[tuple[SRNCPlus, Tensor, Tensor]] = [(self, nodes, labels)]
        if not len(nodes):
            compared = ~self.sample.elsewhere
            left_out = [~cast(Tensor, twin.learned) & compared for twin in self.twins]
            judges = [
                (twin, self.labelled[left], self.labels[left])
                for twin, left in zip(self.twins, left_out)
            ]
        parts = []
        for method, nodes, labels in judges:
            scores = method.predict(self.task.target)
            confidence = method.confidence(scores)
            correct = scores[nodes, : self.task.num_known].argmax(1) == labels
            ranks = ranks_in(confidence[self.comparable], confidence[nodes])
            parts.append(Judged(ranks, self.class_ratio[labels], correct.float()))
        judged = Judged(*map(torch.cat, zip(*parts)))
        return unknown_evidence(*judged), judged

    def recount_unknown(self, before: Evidence) -> dict[str, float]:
        """Count unknown nodes again after an iteration.

        The number is the mean of both counts, or the new one if there is clearly more evidence.
        If the expected accuracy on held-out labels rises by more than two standard errors, and is
        not yet 97 %, another iteration follows. If it falls by more than one, this one is undone.
        """
        assert self.gained is not None
        with random_draws_apart(self.task.device):
            self.iterate_twins()
        found, judged = self.judge()
        gained = found.gained(judged.ranks, judged.correct)
        rise, error = weighted_mean(gained - self.gained, judged.weight)
        if not self.plan.is_clear or rise <= CLEAR * error or found.accuracy >= DONE:
            self.episodes = self.plan.iteration
        if rise < -error:
            before_it, _ = weighted_mean(100 * self.gained, judged.weight)
            after, _ = weighted_mean(100 * gained, judged.weight)
            self.warnings["undone"] = UNDONE.format(self.plan.iteration, before_it, after)
            self.evidence = before
            self.change(iteration=self.plan.iteration - 1)
        elif self.plan.is_clear:
            self.gained = gained
            more = (found.least_share - self.plan.least_share) * 2 * len(gained) ** 0.5
            self.choose_share(found, judged, weight=1.0 if more > CLEAR else 0.5)
            self.count_kept(judged)
        return {
            "recounted_share": found.rank,
            "recounted_least_share": found.least_share,
            "recounted_accuracy": found.accuracy,
        }

    def choose_share(self, found: UnknownEvidence, judged: Judged, weight: float = 1.0) -> None:
        """Predict as many nodes as unknown as evidence says, in a weighted mean with the plan."""

        def mean(now: float, new: float) -> float:
            return (1 - weight) * now + weight * new

        plan = self.plan
        self.change(
            unknown_share=mean(plan.unknown_share, max(found.rank, self.unusual_rank(judged))),
            least_share=mean(plan.least_share, found.least_share),
            expected=mean(plan.expected, found.known_accuracy),
            precision=mean(plan.precision, found.precision),
        )

    def count_kept(self, judged: Judged) -> None:
        """Count correctly predicted held-out nodes above the unknown-class threshold."""
        assert self.out_of_fold is not None
        correct = judged.correct
        is_above = judged.ranks >= self.plan.unknown_share
        kept = (correct * is_above).sum() / correct.sum().clamp(min=1)
        self.out_of_fold = self.out_of_fold._replace(kept=kept.cpu())

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

        Returns:
            :math:`\log Q_\Phi` over classes ``[V, N + 1]`` on the target, and losses by name.
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

    # ---- predictions ----

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
            self.threshold.copy_(confidence[self.comparable].quantile(self.plan.unknown_share))
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
        used = self.evidence.used
        kinds = [self.evidence.kinds[number] for number in used]
        return {kind: (weight, p) for kind, weight, p in zip(kinds, used.values(), posteriors)}

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

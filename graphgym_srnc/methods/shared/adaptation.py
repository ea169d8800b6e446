"""Whether and how far labels and features support adaptation to a target."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared import training
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.features_only import MIN_RELIABILITY, FeaturesOnly
from graphgym_srnc.methods.shared.first_scores import FirstScores
from graphgym_srnc.methods.shared.held_out import HeldOut
from graphgym_srnc.methods.shared.label_density import RESOLUTIONS
from graphgym_srnc.methods.shared.prediction import threshold_by_share

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
    " predicted as unknown. If you know that there is one, add srnc_plus.abstain False to the"
    " command of the run (Python: abstain=False), or label some of its nodes for validation."
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


class Adaptation(Method):
    """Base class of a method that adapts to the target only as far as the data support it.

    If labels that are held out in turn rank like the unlabelled nodes, then no node is unknown. If
    features say that the edges of a second graph do not join nodes of the same class, then the
    plain classifier, or its weighted mean with an MLP, makes the predictions. The option
    ``abstain`` of the method turns both tests off.

    Attributes:
        held_out_labels, accuracy: labels of the validation nodes, and the share of the known ones
            that is predicted correctly.
        unknown_share: estimated share of unknown nodes among the unlabelled ones; -1 = none.
        iteration, smooths: number of finished iterations; whether the posterior is smoothed.
        absent: whether the labels show no sign of an unknown class.
        adapts, features_weight: whether the method adapts to the target; if not, the weight of the
            MLP.
    """

    checkpointed = (*Method.checkpointed, "held_out_labels", "accuracy", "unknown_share")
    abstain: bool
    steps: int
    first: FirstScores
    features_only: FeaturesOnly
    held_out_labels: Tensor
    accuracy: float
    unknown_share: float
    iteration: Tensor
    smooths: Tensor
    absent: Tensor
    adapts: Tensor
    features_weight: Tensor

    @property
    def kind(self) -> Kind:
        """Settings of the kind of shift, as far as it is known."""
        shift = "open-set" if self.task.open_set and not self.absent else "close-set"
        one_graph = self.task.source is self.task.target
        return KINDS[shift, "one graph" if one_graph else "two graphs"]

    @property
    def prior_correction(self) -> tuple[str, float]:
        return self.kind.correction if self.correction == "auto" else super().prior_correction

    @property
    def held_out(self) -> HeldOut:
        """Held-out nodes of the target; none if they are on another graph."""
        here, task = self.task.validation is self.task.target, self.task
        count = len(self.held_out_labels) if here else 0
        return HeldOut(task.val[:count], self.held_out_labels[:count], task.num_known)

    def build(self, task: ShiftTask | Sizes) -> None:
        """Reset what an earlier run learned about its task."""
        initial = {"absent": False, "adapts": True, "smooths": not task.open_set}
        for name, value in (initial | {"features_weight": 0.0, "iteration": 0}).items():
            # A saved model is built without values of its weights, but these are read at once.
            self.register_buffer(name, torch.tensor(value, device="cpu"))
        self.held_out_labels, self.accuracy, self.unknown_share = torch.zeros(0).long(), 1.0, -1.0
        super().build(task)

    def train_classifier(self, train: Tensor, labels: Tensor) -> tuple[Encoder, dict[str, float]]:
        """A classifier of labels ``[n]`` of known classes, and its last losses by name."""
        raise NotImplementedError

    def test_homophily(self) -> dict[str, float]:
        """Decide whether to adapt to the target of two graphs in close-set shift."""
        if not self.abstain or self.kind.open_set or self.source is self.target:
            return {}
        with training.random_draws_apart(self.task.device):
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

    def estimate_unknown(self) -> dict[str, float]:
        """Estimate the share of unknown nodes of one graph, and test whether there are any.

        Labels are held out in turn for this. Nothing is estimated if unknown nodes are held out,
        since these set the threshold.
        """
        if not self.kind.resolutions or self.held_out.unknown:
            return {}

        def known_logits(train: Tensor, labels: Tensor) -> Tensor:
            classifier, _ = self.train_classifier(train, labels)
            logits = training.all_logits(classifier, self.target, self.batch_size)
            return logits[:, : self.task.num_known]

        labelled = self.task.train, self.labels
        with training.random_draws_apart(self.task.device):
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

    def corrected(self, scores: Tensor) -> Tensor:
        return super().corrected(scores) if self.adapts else scores

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

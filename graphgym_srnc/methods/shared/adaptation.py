"""Whether and how far labels and features support adaptation to a target."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared import training
from graphgym_srnc.methods.shared.base import Method, threshold_by_share
from graphgym_srnc.methods.shared.communities import SCALES
from graphgym_srnc.methods.shared.features_only import FeaturesOnly
from graphgym_srnc.methods.shared.first_scores import FirstScores
from graphgym_srnc.methods.shared.held_out import HeldOut


class Kind(NamedTuple):
    """Settings that depend on the kind of shift.

    Args:
        open: whether nodes may be of an unknown class without labels.
        correction, power: prior correction ``auto``; the mean of an open-set posterior would count
            the unknown nodes.
        converges: whether the classifier stops when its loss has converged. Between two graphs rare
            classes are learnt late, when the mean loss is already low.
        learned: share of the pseudo-labels of each class to learn; None = the held-out accuracy to
            the power of ``doubt``.
        scales: resolutions of the communities of the label density. They and the share of unknown
            nodes need unlabelled nodes of the labelled graph.
    """

    open: bool
    correction: str
    power: float
    converges: bool
    learned: float | None = None
    scales: tuple[float, ...] = ()


KINDS = {
    ("close-set", "one graph"): Kind(False, "mean", 0.75, converges=True),
    ("close-set", "two graphs"): Kind(False, "mean", 0.75, converges=False),
    ("open-set", "one graph"): Kind(True, "labels", 0.5, converges=True, scales=SCALES),
    ("open-set", "two graphs"): Kind(True, "labels", 0.5, converges=False, learned=0.7),
}


class Adaptation(Method):
    """Base class of a method that adapts to the target only as far as the data support it.

    If labels that are held out in turn rank like the unlabelled nodes, then no node is unknown. If
    features say that the edges of a second graph do not join nodes of the same class, then the
    plain classifier, or its weighted mean with an MLP, makes the predictions. The option
    ``abstain`` of the method turns both tests off.
    """

    kept = (*Method.kept, "held_out_labels", "accuracy", "share")
    abstain: bool
    steps: int
    first: FirstScores
    features_only: FeaturesOnly
    held_out_labels: Tensor
    accuracy: float
    share: float
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
        """Forget what an earlier run learned about its task."""
        initial = {"absent": False, "adapts": True, "smooths": not task.open_set}
        for name, value in (initial | {"features_weight": 0.0, "iteration": 0}).items():
            # A saved model is built without values of its weights, but these are read at once.
            self.register_buffer(name, torch.tensor(value, device="cpu"))
        self.held_out_labels, self.accuracy, self.share = torch.zeros(0).long(), 1.0, -1.0
        super().build(task)

    def trained(self, train: Tensor, labels: Tensor) -> tuple[Encoder, dict[str, float]]:
        """A classifier of labels ``[n]`` of known classes, and its last losses by name."""
        raise NotImplementedError

    def judge_target(self) -> dict[str, float]:
        """Decide whether to adapt to the target of two graphs in close-set shift."""
        if not self.abstain or self.kind.open or self.source is self.target:
            return {}
        with training.random_draws_apart(self.task.device):
            learned = self.source, self.task.train, self.labels, self.steps, self.make_optimizer
            found = self.features_only.judge(self.target, *learned)
        self.reported.append("homophily")
        self.adapts.fill_(found.adapts)
        self.features_weight.fill_(found.features_weight)
        if not found.adapts:
            self.episodes = 0
            self.warnings.append(found.warning)
        return found.figures

    def estimate_unknown(self) -> dict[str, float]:
        """Estimate the share of unknown nodes of one graph, and test whether there are any.

        Labels are held out in turn for this. Nothing is estimated if unknown nodes are held out,
        since these set the threshold.
        """
        if not self.kind.scales or self.held_out.unknown:
            return {}

        def known_logits(train: Tensor, labels: Tensor) -> Tensor:
            classifier, _ = self.trained(train, labels)
            logits = training.all_logits(classifier, self.target, self.batch_size)
            return logits[:, : self.task.num_known]

        labelled = self.task.train, self.labels
        with training.random_draws_apart(self.task.device):
            found = self.first.estimate(known_logits, self.target, *labelled, self.task.pool)
        self.share = found.share
        self.threshold.copy_(self.threshold_at(self.predict(self.task.target)))
        if self.abstain and found.absent:
            self.absent.fill_(True)
            self.smooths.fill_(True)
            self.warnings.append(found.warning)
            self.reported.append("unknown share")
        return found.figures

    def threshold_at(self, on_target: Tensor) -> Tensor:
        """Threshold of the estimated share of unlabelled nodes, by scores ``[V, N + 1]``."""
        return self.confidence(on_target)[self.task.pool].quantile(self.share)

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold of the unknown class, for pseudo-labels and for predictions.

        Unknown held-out nodes choose it, or the estimated share of unknown nodes on one graph.
        Between two graphs half of the target is unknown at first, later those that the classifier
        predicts as unknown.
        """
        self.held_out_labels, known = label, label < self.task.num_known
        if known.any():
            named = scores[known, : self.task.num_known].argmax(1)
            self.accuracy = float((named == label[known]).float().mean())
        sure = self.confidence(on_target)
        if not self.kind.open:
            self.threshold.zero_()
        elif self.held_out.unknown:
            super().calibrate(scores, label, on_target)
        elif self.share >= 0:
            at_share, pool = self.threshold_at(on_target), sure[self.task.pool]
            self.threshold.copy_(lowered(at_share, self.confidence(scores[known]), pool))
        elif self.kind.scales or self.cut == "share":
            self.threshold.fill_(threshold_by_share(self.confidence(scores[known]), sure))
        else:
            self.threshold.copy_(sure.new_zeros(()) if self.iteration else sure.median())

    def corrected(self, scores: Tensor) -> Tensor:
        return super().corrected(scores) if self.adapts else scores

    def unadapted(self, logits: Tensor, graph: Data) -> Tensor:
        """Log posteriors ``[V, N]`` of a target without homophily, from the plain classifier's."""
        weight = self.features_weight
        if not weight:
            return logits
        features = self.features_only.log_posterior(self.prepared(graph))
        return (1 - weight) * logits.log_softmax(1) + weight * features


def lowered(threshold: Tensor, known: Tensor, unlabelled: Tensor) -> Tensor:
    """The highest threshold, at most a given one, below which known nodes are in the minority.

    Below it, the share of held-out known nodes is at most half the share of unlabelled nodes.

    Args:
        threshold: the threshold of the estimated share of unknown nodes.
        known, unlabelled: confidences of held-out known nodes ``[n]`` and unlabelled nodes ``[m]``.
    """
    known, unlabelled = known.sort().values, unlabelled.sort().values
    tried = torch.cat([known[known < threshold], threshold.view(1)])
    of_known = torch.searchsorted(known, tried) / max(len(known), 1)
    of_all = torch.searchsorted(unlabelled, tried) / len(unlabelled)
    return tried[of_known <= of_all / 2].max()

"""The plain GNN: cross-entropy on the source, and a threshold for the unknown class. Copy this file to add a method."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc import backbones
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method, best_threshold, fit_labels
from graphgym_srnc.task import ShiftTask


class ERM(Method):
    """Empirical risk minimisation on the labelled source nodes (Eq. 2 of the paper).

    In open-set shift a node whose largest softmax falls below a threshold is unknown (Hendrycks and Gimpel, ICLR 2017); the
    threshold is cut on validation.

    Args:
        steps: gradient steps of an episode.
        rounds: episodes after episode 0, each continuing the training; the trainer keeps the best.
    """

    def __init__(self, *, steps: int = 100, rounds: int = 1, **base) -> None:
        super().__init__(**base)
        if steps < 1:
            raise InputError("erm.steps", steps, "1 or more")
        self.steps, self.episodes = steps, rounds
        self.register_buffer("threshold", torch.tensor(0.0))

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.task, self.graph = task, backbones.prepare(task.source, self.encoder.features)
        self.classifier = backbones.build(self.encoder, self.graph.num_features, task.num_known)
        self.optimizer = self.make_optimizer(self.classifier.parameters())
        return self.episode()

    def episode(self) -> dict[str, float]:
        nodes = self.task.train
        return {"source": fit_labels(self.classifier, self.optimizer, self.graph, nodes, self.task.source.y[nodes], self.steps)}

    def calibrate(self, scores: Tensor, label: Tensor) -> None:
        if self.task.open_set:
            confidence, prediction = scores.softmax(1).max(1)
            self.threshold.fill_(best_threshold(confidence, prediction, label, self.task.unknown))

    def decide(self, scores: Tensor) -> Tensor:
        confidence, prediction = F.softmax(scores, 1).max(1)
        return torch.where(confidence < self.threshold, self.task.num_known, prediction)

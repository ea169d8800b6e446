"""The IID oracle: the plain GNN with every class labelled, what a method would reach without shift."""
from __future__ import annotations

from graphgym_srnc import backbones
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method, fit_labels
from graphgym_srnc.task import ShiftTask


class IID(Method):
    """The plain GNN on ``task.oracle``; the paper's ΔF1 is the distance to its Micro-F1.

    Args:
        steps: gradient steps of an episode.
        rounds: episodes after episode 0, each continuing the training; the trainer keeps the best.
    """

    oracle = True

    def __init__(self, *, steps: int = 100, rounds: int = 1, **base) -> None:
        super().__init__(**base)
        if steps < 1:
            raise InputError("iid.steps", steps, "1 or more")
        self.steps, self.episodes = steps, rounds

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.task, self.graph = task, backbones.prepare(task.source, self.encoder.features)
        self.classifier = backbones.build(self.encoder, self.graph.num_features, task.num_known)
        self.optimizer = self.make_optimizer(self.classifier.parameters())
        return self.episode()

    def episode(self) -> dict[str, float]:
        nodes = self.task.train
        return {"source": fit_labels(self.classifier, self.optimizer, self.graph, nodes, self.task.source.y[nodes], self.steps)}

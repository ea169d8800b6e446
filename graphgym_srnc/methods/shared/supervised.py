"""Base class of methods that train one classifier on a sum of losses."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphgym_srnc.backbones import Batches, Graph, View
from graphgym_srnc.core.options import Count, Natural
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import cross_entropy, minimise


class Supervised(Method):
    """A method with one classifier that is trained on the sum of the terms of :meth:`losses`.

    Args:
        steps: gradient steps per episode.
        rounds: number of episodes after episode 0. Each continues the training, and the trainer
            keeps the best one.
    """

    checkpointed = (*Method.checkpointed, "steps_done")
    on_source: View
    on_target: View
    source_batches: Batches
    target_batches: Batches | None
    batch: Tensor | slice

    def __init__(self, *, steps: Count = 100, rounds: Natural = 1, **base: Any) -> None:
        super().__init__(**base)
        self.steps = steps
        self.episodes = rounds

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.classifier = self.new_classifier(task.num_known)

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.setup(task)
        self.initialise()
        return self.episode()

    def initialise(self) -> None:
        super().initialise()
        self.steps_done = 0
        self.batch = slice(None)
        self.target_batches = None
        self.set_source(self.source)
        self.begin()
        self.to(self.task.device)
        self.optimizer = self.make_optimizer(p for p in self.parameters() if p.requires_grad)

    def begin(self) -> None:
        """Prepare what the losses need; modules made here are trained with the classifier."""

    def losses(self) -> dict[str, Tensor]:
        """Terms of the objective by name; by default the cross-entropy on the source.

        ``on_source`` and ``labels`` belong to this step's nodes ``task.train[self.batch]``.
        """
        return {"source": self.source_loss(self.classifier(self.on_source))}

    def source_loss(self, logits: Tensor) -> Tensor:
        """Cross-entropy of this step's source nodes, by their logits ``[n, N]``."""
        return cross_entropy(logits, self.labels, self.label_weights)

    def store_statistics(self) -> None:
        """Store what predictions need of the training nodes; called after each episode."""

    def episode(self) -> dict[str, float]:
        labels = self.labels
        weights = self.label_weights

        def next_losses() -> dict[str, Tensor]:
            self.steps_done += 1
            if self.batch_size:
                self.on_source, (self.batch,) = self.source_batches()
                self.labels = labels[self.batch]
                self.label_weights = None if weights is None else weights[self.batch]
                if self.target_batches is not None:
                    self.on_target, _ = self.target_batches()
            return self.losses()

        terms = minimise(self, self.optimizer, next_losses, self.steps)
        # Those of all training nodes, which a batch has replaced.
        self.labels = labels
        self.label_weights = weights
        self.store_statistics()
        return terms

    @property
    def progress(self) -> float:
        """Share of all gradient steps that are done."""
        return (self.steps_done - 1) / (self.steps * (self.episodes + 1))

    def set_source(self, graph: Graph) -> None:
        """Train on this graph: the source, or the source with other edge weights."""
        self.source_batches = Batches(
            self.classifier, graph, [self.task.train], self.batch_size, self.fanout
        )
        self.on_source = self.source_batches.whole

    def target_view(self) -> View:
        """View of the target's pool, to be stored as ``on_target``, which batches replace."""
        pool = self.task.pool
        if self.batch_size:
            self.target_batches = Batches(
                self.classifier, self.target, [pool], self.batch_size, self.fanout
            )
            return self.target_batches.whole
        # A view of the whole graph is faster than one of a list of all its nodes.
        every = len(pool) == self.target.num_nodes
        return self.classifier.view(self.target, None if every else pool)

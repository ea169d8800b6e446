"""Base class of methods that train one classifier on a sum of losses."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.backbones import Batches, Encoder, Graph, View
from graphgym_srnc.core import parallel
from graphgym_srnc.core.options import Count, Natural
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import minimise


class Supervised(Method):
    """A method with one classifier that is trained on the sum of the terms of :meth:`losses`.

    Args:
        steps: gradient steps per episode.
        rounds: number of episodes after episode 0. Each continues the training, and the trainer
            keeps the best one.
    """

    kept = (*Method.kept, "taken")
    classifier: Encoder
    on_source: View
    on_target: View
    target_batches: Batches | None

    def __init__(self, *, steps: Count = 100, rounds: Natural = 1, **base) -> None:
        super().__init__(**base)
        self.steps, self.episodes = steps, rounds

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.classifier = self.new_classifier(task.num_known)

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.setup(task)
        self.ready()
        return self.episode()

    def ready(self) -> None:
        super().ready()
        self.taken, self.drawn, self.target_batches = 0, slice(None), None
        self.read_source(self.source)
        self.begin()
        self.to(self.task.device)
        self.optimizer = self.make_optimizer(p for p in self.parameters() if p.requires_grad)

    def begin(self) -> None:
        """Make what losses need beside the classifier; modules made here are trained with it."""

    def losses(self) -> dict[str, Tensor]:
        """The terms of the objective by name, whose sum is minimised.

        ``on_source`` and ``labels`` are those of this step's nodes, which ``drawn`` names among
        ``task.train``. By default it is the cross-entropy on the labelled source nodes.
        """
        return {"source": F.cross_entropy(self.classifier(self.on_source), self.labels)}

    def remember(self) -> None:
        """Keep what predictions need to know of the training nodes; called after each episode."""

    def episode(self) -> dict[str, float]:
        labels = self.labels

        def losses() -> dict[str, Tensor]:
            self.taken += 1
            if self.batch_size:
                self.on_source, (self.drawn,) = self.source_batches()
                self.labels = labels[self.drawn]
                if self.target_batches is not None:
                    self.on_target, _ = self.target_batches()
            return self.losses()

        terms = minimise(self, self.optimizer, losses, self.steps)
        self.labels = labels
        self.remember()
        return terms

    @property
    def progress(self) -> float:
        """Share of all gradient steps that are done, 0 at the first one."""
        return (self.taken - 1) / (self.steps * (self.episodes + 1))

    def read_source(self, graph: Graph) -> None:
        """Train on labelled nodes of this graph: the source, or the source with other weights."""
        self.source_batches = self.batches(graph, self.task.train)
        self.on_source = self.source_batches.whole

    def target_view(self, count: int = 0) -> View:
        """A view of ``count`` nodes of the target's pool, drawn once, or of the whole pool (0).

        It is to be kept as ``on_target``, which with batches is another one at each step.
        """
        pool = self.task.pool
        if 0 < count < len(pool):
            pool = pool[torch.randperm(len(pool), device=pool.device)[:count]].sort().values
        if self.batch_size:
            self.target_batches = self.batches(self.target, pool)
            return self.target_batches.whole
        # Of a whole graph there are faster views than of all its nodes one by one.
        every = len(pool) == self.target.num_nodes
        return self.classifier.view(self.target, None if every else pool)

    def hidden_states(self, bounded: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of this step's source nodes, and hidden states ``[n, H]`` of source and target.

        Args:
            bounded: put a tanh on hidden states that are not bounded by one already.
        """
        logits, source = self.classifier.embed(self.on_source)
        source, target = parallel.gather(source, self.classifier.embed(self.on_target)[1])
        if bounded and (self.encoder.act != "tanh" or len(self.classifier.layers) == 1):
            source, target = source.tanh(), target.tanh()
        return logits, source, target

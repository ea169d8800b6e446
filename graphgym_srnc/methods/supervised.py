"""A method that trains one classifier on a sum of losses."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph, View, prepare
from graphgym_srnc.losses.openness import fit_openmax
from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.scores import CONFIDENCES, SCORES, odin, openmax
from graphgym_srnc.methods.training import minimise
from graphgym_srnc.task import ShiftTask, Sizes


class Supervised(Method):
    """A method that trains one classifier on a sum of losses; :meth:`losses` says which.

    Args:
        steps: gradient steps of an episode.
        rounds: episodes after episode 0, each continuing the training; the trainer keeps the best.
        score: in open-set shift, how sure the classifier is of a known class: ``max_softmax``, ``max_logit``, ``entropy``,
            ``energy``, ``gnnsafe`` (energy propagated over the graph), ``odin`` or ``openmax``, see
            :mod:`graphgym_srnc.methods.scores`. Only ``max_softmax`` sees ``smoothing``; the others are of the raw logits.
        temperature: of ``energy``, ``gnnsafe`` and ``odin``.
        perturbation: step of ``odin`` along the sign of the gradient of what the encoder reads.
    """

    kept = (*Method.kept, "taken")

    def __init__(self, *, steps: int = 100, rounds: int = 1, score: str = "max_softmax", temperature: float = 1.0,
                 perturbation: float = 0.01, **base) -> None:
        super().__init__(**base)
        self.require("steps", steps, steps >= 1, "1 or more")
        self.require("rounds", rounds, rounds >= 0, "0 or more")
        self.require("score", score, score in SCORES, ", ".join(SCORES))
        self.require("temperature", temperature, temperature > 0, "above 0")
        self.require("perturbation", perturbation, perturbation >= 0, "0 or more")
        self.steps, self.episodes = steps, rounds
        self.score, self.temperature, self.perturbation = score, temperature, perturbation

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.classifier = self.new_classifier(task.num_known)
        if self.score == "openmax" and task.open_set:
            for name, shape in (("centre", (task.num_known,) * 2), ("shape", task.num_known), ("scale", task.num_known)):
                self.register_buffer(f"openmax_{name}", torch.ones(shape))

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

    def read_source(self, graph: Graph) -> None:
        """Train on the labelled nodes of this graph: the source, or the source with other weights."""
        self.source_batches = self.batches(graph, self.task.train)
        self.on_source = self.source_batches.whole

    @property
    def progress(self) -> float:
        """Share of all gradient steps that are done, 0 at the first one."""
        return (self.taken - 1) / (self.steps * (self.episodes + 1))

    def begin(self) -> None:
        """Make what the losses need beside the classifier; modules that are made here are trained with it, and needed by them alone."""

    @torch.no_grad()
    def remember(self) -> None:
        """Keep what predictions need to know of the training nodes; called after each episode."""
        if self.score == "openmax" and self.task.open_set:
            for name, value in fit_openmax(self.logits(self.task.source)[self.task.train], self.labels).items():
                getattr(self, f"openmax_{name}").copy_(value)

    def losses(self) -> dict[str, Tensor]:
        """The terms of the objective by name, whose sum is minimised; by default the cross-entropy on the labelled source nodes.

        ``on_source`` and ``labels`` are those of this step's nodes, which ``drawn`` names among ``task.train``.
        """
        return {"source": F.cross_entropy(self.classifier(self.on_source), self.labels)}

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
        return self.classifier.view(self.target, None if len(pool) == self.target.num_nodes else pool)

    @torch.no_grad()
    def predict(self, graph: Data) -> Tensor:
        """Scores ``[V, N]``; another score than ``max_softmax`` adds a last column, minus itself: the larger, the more unknown."""
        logits = self.logits(graph)
        scores = self.scores(logits, graph)
        if not self.task.open_set or self.score == "max_softmax":
            return scores
        own = prepare(graph, self.encoder.features)
        if self.score == "odin":
            sure = odin(self.classifier, self.classifier.view(own), self.temperature, self.perturbation)
        elif self.score == "openmax":
            sure = openmax(logits, {name: getattr(self, f"openmax_{name}") for name in ("centre", "shape", "scale")})
        else:
            sure = CONFIDENCES[self.score](logits, self.temperature, own)
        return torch.cat([scores, -sure[:, None]], 1)

    def confidence(self, scores: Tensor) -> Tensor:
        return -scores[:, -1] if scores.size(1) > self.task.num_known else super().confidence(scores)

    def log_odds(self, confidence: Tensor) -> Tensor:
        return super().log_odds(confidence) if self.score == "max_softmax" else confidence

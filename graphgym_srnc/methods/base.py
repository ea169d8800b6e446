"""The contract of a method. ``erm.py`` is the shortest example: copy it to add one of your own."""
from __future__ import annotations

from functools import partial
from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Batches, Encoder, EncoderSpec, Graph, blank, build, prepare, pretrained
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.cut import best_threshold
from graphgym_srnc.methods.training import MakeOptimizer, adam, all_logits, hidden_and_group, random_state, set_random_state
from graphgym_srnc.task import ShiftTask, Sizes


class Method(nn.Module):
    """One way to classify the nodes of a target graph under shift.

    The signatures of a subclass and its bases are its config schema: every keyword with a scalar default becomes
    ``cfg.<method>.<keyword>``. The trainer calls :meth:`start` once (the paper's episode 0), then :meth:`episode` by turns, and
    between them :meth:`predict`, :meth:`calibrate` and :meth:`decide`. A method sees ``task.blind()`` only.

    Args:
        encoder: the backbone that :meth:`new_classifier` makes encoders of.
        make_optimizer: optimiser of the classifier from its parameters.
        smoothing: steps of personalised PageRank (restart 0.1) over the predicted posterior; 0 = none.
        batch_size: nodes that each part of a loss draws for a gradient step; 0 = full batch. With batches, logits of a whole graph are
            made one layer at a time.
        fanout: with batches, neighbours drawn a node and layer; 0 = all of them.

    Raises:
        InputError: an option makes no sense.
    """

    episodes: int = 0
    """How many episodes the method wants after episode 0."""

    oracle: bool = False
    """True if the method is to be given ``task.oracle``, the task with every class visible."""

    in_batches: bool = True
    """False where the losses read every node of a graph."""

    prior: float | None = None
    """The cut that would hold without validation, if the method has one, see :func:`best_threshold`."""

    kept: tuple[str, ...] = ("warnings", "episodes", "draws")
    """What a checkpoint has beside weights and ``self.optimizer``: attributes, tensors and plain values, that an episode reads and that
    :meth:`ready` cannot make again."""

    def __init__(self, *, encoder: EncoderSpec = EncoderSpec(), make_optimizer: MakeOptimizer = adam, smoothing: int = 0,
                 batch_size: int = 0, fanout: int = 10) -> None:
        super().__init__()
        for name, value in (("smoothing", smoothing), ("batch_size", batch_size), ("fanout", fanout)):
            self.require(name, value, value >= 0, "0 or more")
        self.require("batch_size", batch_size, self.in_batches or not batch_size, "0, since the losses read every node of a graph")
        self.encoder, self.make_optimizer, self.smoothing = encoder, make_optimizer, smoothing
        self.batch_size, self.fanout = batch_size, fanout
        self.warnings: list[str] = []
        self.register_buffer("threshold", torch.tensor(0.0))

    def require(self, option: str, value: Any, right: bool, allowed: str) -> None:
        """Refuse the value of an option by its config key."""
        if not right:
            raise InputError(f"{type(self).__name__.lower()}.{option}", value, allowed)

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Build and pre-train on a blind task; return the loss terms of episode 0."""
        raise NotImplementedError

    def episode(self) -> dict[str, float]:
        """Run one episode; return every loss term and diagnostic figure of it."""
        raise NotImplementedError

    def build(self, task: ShiftTask | Sizes) -> None:
        """Make the modules that predictions need, untrained, from the sizes of a task alone: what a trained model is loaded into.

        Nothing else is needed to predict afterwards, so what predictions take from the training graph has to be a buffer.
        """
        self.task, self.encoder = task, blank(self.encoder, task.num_features)

    def setup(self, task: ShiftTask) -> None:
        """Make ready what every method needs: both graphs, the training labels, and an encoder that knows the target if it wants to."""
        self.task, self.labels = task, task.source.y[task.train]
        self.source, self.target = (prepare(graph, self.encoder.features) for graph in (task.source, task.target))
        self.to(task.device)
        self.encoder = pretrained(self.encoder, self.target)
        self.draws = random_state(task.device)

    def ready(self) -> None:
        """Between :meth:`setup` and the first gradient step, make all that episodes need; drawn again, it is the same."""
        self.build(self.task)
        self.to(self.task.device)

    def checkpoint(self) -> dict[str, Any]:
        """All that the next episode depends on but torch's generator; tensors are the method's own, not copies of them."""
        state = {"weights": self.state_dict(), **{name: getattr(self, name) for name in self.kept if hasattr(self, name)}}
        if self.encoder.base is not None:
            state["base"] = self.encoder.base.state_dict()
        if hasattr(self, "optimizer"):
            state["optimizer"] = self.optimizer.state_dict()
        return state

    def restore(self, task: ShiftTask, state: dict[str, Any]) -> None:
        """Become the method that a :meth:`checkpoint` was taken of, on the same blind task, without a step of training."""
        if "base" in state:
            self.encoder = blank(self.encoder, task.num_features)
            self.encoder.base.load_state_dict(state["base"])
        self.setup(task)
        set_random_state(state["draws"], task.device)
        self.ready()
        self.load(state)

    def load(self, state: dict[str, Any]) -> None:
        """The part of :meth:`restore` that comes after :meth:`ready`."""
        for name in self.kept:
            if name in state:
                setattr(self, name, state[name])
        self.load_state_dict(state["weights"])
        if "optimizer" in state:
            self.optimizer.load_state_dict(state["optimizer"])

    def new_classifier(self, num_outputs: int) -> Encoder:
        """An untrained encoder with that many logits."""
        return build(self.encoder, self.task.num_features, num_outputs)

    @torch.no_grad()
    def logits(self, graph: Data) -> Tensor:
        """Logits ``[V, N(+1)]`` of all nodes of any graph with the same features; by default ``self.classifier``'s."""
        return all_logits(self.classifier, prepare(graph, self.encoder.features), self.batch_size)

    def batches(self, graph: Graph, *parts: Tensor) -> Batches:
        """The classifier's views of some nodes of a graph, each part's ids ``[n_i]``, step by step."""
        return Batches(self.classifier, graph, parts, self.batch_size, self.fanout)

    def predict(self, graph: Data) -> Tensor:
        """Scores ``[V, N]`` or ``[V, N + 1]``: the logits, or logarithms of the smoothed posterior where there is ``smoothing``."""
        return self.scores(self.logits(graph), graph)

    def scores(self, logits: Tensor, graph: Data) -> Tensor:
        """What :meth:`predict` makes of the logits ``[V, N(+1)]`` of a graph."""
        return self.smooth(logits.softmax(1), graph).clamp(min=1e-12).log() if self.smoothing else logits

    @torch.no_grad()
    def smooth(self, p: Tensor, graph: Data) -> Tensor:
        r"""``smoothing`` steps of :math:`P \leftarrow 0.9 \hat A P + 0.1 P_0` over a posterior ``[V, K]``, rows summing to one."""
        smooth, adjacency = p, prepare(graph, self.encoder.features).adjacency("gcn") if self.smoothing else None
        for _ in range(self.smoothing):
            smooth = 0.9 * (adjacency @ smooth) + 0.1 * p
        return F.normalize(smooth, p=1, dim=1)

    def confidence(self, scores: Tensor) -> Tensor:
        """How sure it is that a node is of a known class, ``[n]``, from scores ``[n, N(+1)]``; by default the largest softmax of a
        known class. In open-set shift the threshold and the AUROC of the unknown class are those of this figure."""
        return scores.softmax(1)[:, :self.task.num_known].amax(1)

    def calibrate(self, scores: Tensor, label: Tensor) -> None:
        """Cut what must be cut with validation labels, from validation scores ``[n, N(+1)]`` and labels ``[n]``."""
        if self.task.open_set:
            known = scores[:, :self.task.num_known].argmax(1)
            self.threshold.fill_(best_threshold(self.confidence(scores), known, label, self.task.num_known, self.prior))

    def decide(self, scores: Tensor) -> Tensor:
        """Classes ``[n]`` from scores ``[n, N(+1)]``: the likeliest known class, or unknown below the threshold."""
        known = scores[:, :self.task.num_known].argmax(1)
        return torch.where(self.confidence(scores) < self.threshold, self.task.num_known, known) if self.task.open_set else known

    def posterior(self, scores: Tensor) -> Tensor:
        r"""Probabilities ``[n, N]`` or, in open-set shift, ``[n, N + 1]`` from scores; the likeliest class is that of :meth:`decide`.

        The known classes share what the softmax of their own scores gives them. The unknown class :math:`u` stands to the likeliest
        known one as the threshold :math:`t` to the confidence :math:`s`, :math:`\log p_u - \max_c \log p_c = \ell(t) - \ell(s)`, with
        :meth:`log_odds` :math:`\ell`.
        """
        log_p = scores[:, :self.task.num_known].double().log_softmax(1)
        if not self.task.open_set:
            return log_p.exp()
        sure = self.confidence(scores)
        lead = (self.log_odds(self.threshold.double()) - self.log_odds(sure.double())).clamp(-50, 50)
        # At a tie, and where rounding makes one, the decision counts.
        lead = torch.where(sure < self.threshold, lead.clamp(min=1e-9), lead.clamp(max=0))
        return torch.cat([log_p, (log_p.amax(1) + lead)[:, None]], 1).softmax(1)

    def log_odds(self, confidence: Tensor) -> Tensor:
        r"""A confidence on the scale of log odds; by default that of a probability, :math:`\log s - \log(1 - s)`."""
        return confidence.logit(eps=1e-12)

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        """What there is to draw, by name: each function gives an embedding ``[V, H]`` and a group ``[V]`` of every node."""
        classifier = getattr(self, "classifier", None)
        return {"classifier": partial(hidden_and_group, classifier, self.encoder.features)} if isinstance(classifier, Encoder) else {}

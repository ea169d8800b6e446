"""The base class of methods. ``erm.py`` is the shortest example of a method."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Callable, Mapping, Sequence, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphgym_srnc import backbones
from graphgym_srnc.backbones import Batches, Encoder, EncoderSpec, Graph, prepare
from graphgym_srnc.core import options
from graphgym_srnc.core.options import Natural, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.correction import Correction, PriorCorrection
from graphgym_srnc.methods.shared.threshold import Cut, Threshold
from graphgym_srnc.methods.shared.training import (
    MakeOptimizer,
    adam,
    all_logits,
    batches,
    hidden_and_group,
    random_state,
    set_random_state,
)


class Method(Threshold, PriorCorrection):
    r"""A way to classify the nodes of a target graph under distribution shift.

    The keyword-only arguments of a subclass and its bases are its config keys. Their annotations
    define the allowed values, which are checked here. The trainer calls :meth:`start` once (the
    paper's episode 0), then :meth:`episode` repeatedly, and between them :meth:`predict`,
    :meth:`calibrate` and :meth:`decide`. A method sees ``task.blind()`` only, which hides test
    labels.

    Args:
        encoder: backbone that :meth:`new_classifier` builds encoders from.
        make_optimizer: function that makes the optimiser of the classifier from its parameters.
        smoothing: steps of personalised PageRank over the predicted posterior; 0 = none.
        correction: correction of the posterior by the class prior of the predicted graph: ``none``,
            ``mean`` (divide by the mean posterior), ``em`` or ``bbse`` (multiply by the estimated
            ratio of class shares to training), or ``labels`` (divide by the shares of the training
            labels).
        correction_power: exponent :math:`\tau` of the correction.
        cut: how to choose the unknown-class threshold: the best Micro-F1 on ``validation``, or the
            estimated ``share`` of unknown target nodes, which needs validation nodes of known
            classes alone.
        source_first: whether to find the unknown class on the source of two graphs first. Its
            nodes then teach the class, see :mod:`graphgym_srnc.train.source_first`. It needs
            held-out source nodes of unknown classes, and has no effect without them.
        batch_size: number of nodes that each part of a loss draws per gradient step; 0 = full
            batch. With batches, the logits of a whole graph are computed one layer at a time.
        fanout: number of neighbours drawn per node and layer with batches; 0 = all.
    """

    task: ShiftTask
    """The blind task; a loaded model has its :class:`Sizes` instead."""

    classifier: Encoder
    optimizer: torch.optim.Optimizer
    source: Graph
    target: Graph
    labels: Tensor
    draws: tuple[Tensor, ...]

    kept: tuple[str, ...] = ("warnings", "reported", "episodes", "draws")
    """Tensors and plain values of a checkpoint that :meth:`ready` cannot build again."""

    episodes: int = 0
    """Number of episodes after episode 0 that the method asks for; callers use :attr:`planned`."""

    limit: int = -1
    """Maximum number of episodes after episode 0, which the trainer sets; -1 = no limit."""

    oracle: bool = False
    """Whether the method receives ``task.oracle``, the task with every class visible."""

    in_batches: bool = True
    """Whether mini-batches are supported; False if the losses need every node of a graph."""

    encoder_defaults: Mapping[str, Any] = {}
    """Encoder settings that the method was tuned with, if they differ from the defaults."""

    search: Mapping[str, Sequence[Any]] = {}
    """Values of the method's options that a search tries, by option.

    An empty list removes an option that a search tries for every method.
    """

    search_open: Mapping[str, Sequence[Any]] = {}
    """Values of options that have an effect in open-set shift only."""

    def __new__(cls, *_: Any, **given: Any) -> Method:
        options.check(cls, given, f"{cls.key()}.")
        return super().__new__(cls)

    def __init__(
        self,
        *,
        encoder: EncoderSpec = EncoderSpec(),
        make_optimizer: MakeOptimizer = adam,
        smoothing: Natural = 0,
        correction: Correction = "none",
        correction_power: Weight = 1.0,
        cut: Cut = "validation",
        source_first: bool = False,
        batch_size: Natural = 0,
        fanout: Natural = 10,
    ) -> None:
        super().__init__()
        self.encoder, self.make_optimizer = encoder, make_optimizer
        self.smoothing, self.batch_size, self.fanout = smoothing, batch_size, fanout
        self.correction, self.correction_power, self.cut = correction, correction_power, cut
        self.source_first = source_first
        allowed = "0, since the losses read every node of a graph"
        self.require("batch_size", batch_size, self.in_batches or not batch_size, allowed)
        self.warnings: list[str] = []
        self.reported: list[str] = []  # topics of diagnostics that the method has covered
        self.register_buffer("threshold", torch.tensor(0.0))

    @property
    def planned(self) -> int:
        """Number of episodes after episode 0; :meth:`start` and :meth:`episode` may change it."""
        return self.episodes if self.limit < 0 else min(self.limit, self.episodes)

    @classmethod
    def key(cls) -> str:
        """Name of the method in configs, which is the name of its module."""
        package, _, module = cls.__module__.rpartition(".")
        return module if package == "graphgym_srnc.methods" else cls.__name__.lower()

    def require(self, option: str, value: Any, right: bool, allowed: str) -> None:
        """Raise an :class:`InputError` about an option and its value unless ``right`` is true."""
        if not right:
            raise InputError(f"{self.key()}.{option}", value, allowed)

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Build and pre-train the modules on a blind task, and return the terms of episode 0."""
        raise NotImplementedError

    def episode(self) -> dict[str, float]:
        """Run one episode, and return its loss terms and other figures."""
        raise NotImplementedError

    def build(self, task: ShiftTask | Sizes) -> None:
        """Build the untrained modules needed for prediction, given a task or only its sizes.

        A trained model is loaded into them, so what predictions use must be a weight or a buffer.
        """
        self.task = cast(ShiftTask, task)
        self.build_correction(task.num_known)

    def setup(self, task: ShiftTask) -> None:
        """Prepare what every ``start`` needs: both graphs, the labels and a pretrained encoder."""
        self.task, self.labels = task, task.source.y[task.train]
        features = self.encoder.features
        self.source, self.target = prepare(task.source, features), prepare(task.target, features)
        self.to(task.device)
        self.encoder = backbones.pretrained(self.encoder, self.target)
        self.draws = random_state(task.device)

    def ready(self) -> None:
        """Build everything that episodes need, after :meth:`setup`; may be called again."""
        self.build(self.task)
        self.learn_prior(self.labels)
        self.to(self.task.device)

    def checkpoint(self) -> dict[str, Any]:
        """Everything that the next episode depends on, except torch's random state."""
        kept = {name: getattr(self, name) for name in self.kept if hasattr(self, name)}
        state = {"weights": self.state_dict(), **kept}
        if self.encoder.base is not None:
            state["base"] = self.encoder.base.state_dict()
        if hasattr(self, "optimizer"):
            state["optimizer"] = self.optimizer.state_dict()
        return state

    def restore(self, task: ShiftTask, state: dict[str, Any]) -> None:
        """Continue from a :meth:`checkpoint` on the same task."""
        if "base" in state:
            base = cast(nn.Module, backbones.build(self.encoder, task.num_features, 1).base)
            base.load_state_dict(state["base"])
            self.encoder = replace(self.encoder, base=base)
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
        """An untrained encoder with ``num_outputs`` logits."""
        return backbones.build(self.encoder, self.task.num_features, num_outputs)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logits ``[V, N(+1)]`` of any graph with the same features.

        ``role`` is ``source`` for the source of two graphs, else ``target``.
        """
        return all_logits(self.classifier, self.prepared(graph), self.batch_size)

    def predict(self, graph: Data, role: str = "target") -> Tensor:
        """Scores ``[V, K]`` that decisions use; the first ``N`` are those of known classes."""
        return self.corrected(self.uncorrected(graph, role))

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Scores before prior correction: logits, or logarithms of a smoothed posterior."""
        return self.smoothed(self.logits(graph, role), graph)

    def prepared(self, graph: Data) -> Graph:
        """A graph with features scaled as the encoder reads them."""
        return prepare(graph, self.encoder.features)

    def batches(self, graph: Graph, *parts: Tensor) -> Batches:
        """Views of parts of nodes ``[n_i]`` for the classifier, one for each gradient step."""
        return batches(self.classifier, graph, parts, self.batch_size, self.fanout)

    def log_cluster_posterior(self, graph: Data) -> Tensor | None:
        """Log posteriors over clusters ``[M, V, C]`` of M cluster GNNs, or None."""
        return None

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        """Functions that return an embedding ``[V, H]`` and a group ``[V]``, by name."""
        return {"classifier": partial(hidden_and_group, self.classifier, self.encoder.features)}

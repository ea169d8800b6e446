"""The contract of methods. ``coral.py`` is a short example of a method."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Callable, Mapping, Sequence, cast

from torch import Tensor, nn, optim
from torch_geometric.data import Data

from graphgym_srnc import backbones
from graphgym_srnc.backbones import Encoder, EncoderSpec, Graph
from graphgym_srnc.core import options
from graphgym_srnc.core.options import Natural
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.prediction import Predictor
from graphgym_srnc.methods.shared.training import (
    MakeOptimizer,
    adam,
    hidden_and_group,
    random_state,
    set_random_state,
)

SET_BY = {
    **dict.fromkeys(("task", "source", "target", "labels", "rng_state"), "setup"),
    **dict.fromkeys(("classifier", "scaling", "prior_weight"), "build"),
    **dict.fromkeys(("optimizer", "on_source", "source_batches", "steps_done"), "initialise"),
}
"""The method that sets an attribute; a subclass may have overridden it."""

WEIGHTS_IGNORED = (
    "The layers of type {} ignore the weights of edges, which smoothing and clusters read. Use"
    " gcnconv, sageconv, sgconv or sign if the weights matter."
)


class Method(Predictor):
    """A way to classify the nodes of a target graph under distribution shift.

    The keyword-only arguments of a subclass and its bases are its config keys. Their annotations
    define the allowed values, which are checked here. The trainer calls :meth:`start` once (the
    paper's episode 0), then :meth:`episode` repeatedly. After each of them it calls what
    :class:`Predictor` defines. A method sees ``task.blind()`` only.

    Args:
        encoder: backbone that :meth:`new_classifier` builds encoders from.
        make_optimizer: function that makes the optimiser of the classifier from its parameters.
        source_first: whether to find the unknown class on the source of two graphs first, see
            :mod:`graphgym_srnc.train.source_first`. It needs held-out source nodes of unknown
            classes, and has no effect without them.
        batch_size: number of nodes that each part of a loss draws per gradient step; 0 = full
            batch. With batches, the logits of a whole graph are computed one layer at a time.
        fanout: number of neighbours drawn per node and layer with batches; 0 = all.

    Attributes:
        checkpointed: names of the tensors and plain values of a checkpoint that
            :meth:`initialise` cannot build again.
        episodes: number of episodes after episode 0 that the method asks for, see :attr:`planned`.
        max_episodes: the most episodes after episode 0, which the trainer sets; -1 = no limit.
        oracle: whether the method receives ``task.oracle``, with every class visible.
        weighs_labels: whether the loss weighs training nodes by ``sample_weight`` of the source.
        in_batches: whether mini-batches are supported; False if losses need every node of a graph.
        encoder_defaults: encoder settings that the method was tuned with, if they differ.
        title: printed name; default: the name of the class.
        with_backbone: printed name that contains the backbone, in the place of ``{}``; default: the
            title, and behind it a backbone other than GCN.
        cites: keys of the method's entries in ``report/references.bib``.
        search: values of options that a search tries; an empty list tries none.
        search_open: values of options that have an effect in open-set shift only.
    """

    optimizer: optim.Optimizer
    source: Graph
    target: Graph
    labels: Tensor
    label_weights: Tensor | None
    rng_state: tuple[Tensor, ...]
    checkpointed: tuple[str, ...] = ("warnings", "reported", "episodes", "rng_state")
    episodes: int = 0
    max_episodes: int = -1
    oracle: bool = False
    weighs_labels: bool = False
    in_batches: bool = True
    encoder_defaults: Mapping[str, Any] = {}
    title: str = ""
    with_backbone: str = ""
    cites: tuple[str, ...] = ()
    search: Mapping[str, Sequence[Any]] = {}
    search_open: Mapping[str, Sequence[Any]] = {}

    def __new__(cls, *_: Any, **given: Any) -> Method:
        options.check(cls, given, f"{cls.key()}.")
        return super().__new__(cls)

    def __getattr__(self, name: str) -> Any:
        """Name the likely cause if an attribute is missing."""
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name not in SET_BY:
                raise
            text = f"{type(self).__name__} has no attribute {name!r}, which {SET_BY[name]}() sets."
            text += f" If it overrides {SET_BY[name]}(), call super().{SET_BY[name]}(...) there"
            raise AttributeError(text) from error

    def __init__(
        self,
        *,
        encoder: EncoderSpec = EncoderSpec(),
        make_optimizer: MakeOptimizer = adam,
        source_first: bool = False,
        batch_size: Natural = 0,
        fanout: Natural = 10,
        **prediction: Any,
    ) -> None:
        super().__init__(**prediction)
        self.encoder = encoder
        self.make_optimizer = make_optimizer
        self.source_first = source_first
        self.batch_size = batch_size
        self.fanout = fanout
        allowed = "0, since the losses read every node of a graph"
        self.require("batch_size", batch_size, self.in_batches or not batch_size, allowed)
        self.warnings: list[str] = []
        self.reported: list[str] = []  # topics of diagnostics that the method has covered

    @property
    def planned(self) -> int:
        """Number of episodes after episode 0; :meth:`start` and :meth:`episode` may change it."""
        return self.episodes if self.max_episodes < 0 else min(self.max_episodes, self.episodes)

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

    def setup(self, task: ShiftTask) -> None:
        """Prepare what every ``start`` needs: both graphs, the labels and a pretrained encoder."""
        self.task = task
        self.labels = task.source.y[task.train]
        given = task.source.get("sample_weight")
        self.label_weights = None if given is None else given[task.train]
        self.source = self.prepared(task.source)
        self.target = self.prepared(task.target)
        self.to(task.device)
        self.encoder = backbones.pretrained(self.encoder, self.target)
        self.rng_state = random_state(task.device)

    def initialise(self) -> None:
        """Build everything that episodes need, after :meth:`setup`; may be called again."""
        self.build(self.task)
        self.learn_prior(self.labels)
        self.to(self.task.device)
        is_weighted = self.source.is_weighted or self.target.is_weighted
        reads = getattr(getattr(self, "classifier", None), "reads_weights", True)
        text = WEIGHTS_IGNORED.format(self.encoder.kind)
        if is_weighted and not reads and text not in self.warnings:
            self.warnings.append(text)

    def new_classifier(self, num_outputs: int) -> Encoder:
        """An untrained encoder with ``num_outputs`` logits."""
        return backbones.build(self.encoder, self.task.num_features, num_outputs)

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        """Functions that return an embedding ``[V, H]`` and a group ``[V]``, by name."""
        return {"classifier": partial(hidden_and_group, self.classifier, self.encoder.features)}

    def checkpoint(self) -> dict[str, Any]:
        """Everything that the next episode depends on, except torch's random state."""
        values = {name: getattr(self, name) for name in self.checkpointed if hasattr(self, name)}
        state = {"weights": self.state_dict(), **values}
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
        set_random_state(state["rng_state"], task.device)
        self.initialise()
        self.load(state)

    def load(self, state: dict[str, Any]) -> None:
        """Load a checkpoint into modules that :meth:`initialise` has built."""
        for name in self.checkpointed:
            if name in state:
                setattr(self, name, state[name])
        self.load_state_dict(state["weights"])
        if "optimizer" in state:
            self.optimizer.load_state_dict(state["optimizer"])

"""The contract of a method. ``erm.py`` is the shortest example: copy it to add one of your own."""
from __future__ import annotations

from functools import partial
from typing import Any, Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphgym_srnc import backbones, options
from graphgym_srnc.backbones import Batches, Encoder, EncoderSpec, Graph, prepare
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.correction import Correction, PriorCorrection
from graphgym_srnc.methods.cut import Cut, OpenSetCut
from graphgym_srnc.methods.resume import Resumable, random_state
from graphgym_srnc.methods.training import MakeOptimizer, adam, all_logits, hidden_and_group
from graphgym_srnc.options import Natural, Weight
from graphgym_srnc.task import ShiftTask, Sizes


class Method(OpenSetCut, PriorCorrection, Resumable, nn.Module):
    r"""One way to classify the nodes of a target graph under shift.

    The keyword-only signatures of a subclass and its bases are its config schema: their annotations
    say what is allowed, and are checked here. The trainer calls :meth:`start` once (the paper's
    episode 0), then :meth:`episode` by turns, and between them :meth:`predict`, :meth:`calibrate`
    and :meth:`decide`. A method sees ``task.blind()`` only.

    Args:
        encoder: the backbone that :meth:`new_classifier` makes encoders of.
        make_optimizer: optimiser of the classifier from its parameters.
        smoothing: steps of personalised PageRank over the predicted posterior; 0 = none.
        correction: of the posterior by the class prior of the predicted graph: ``mean`` divides it
            by its own mean, ``em`` and ``bbse`` weigh classes by how much more frequent they are
            than in training, estimated without a label of that graph, and ``labels`` divides it by
            the shares of the training labels (Menon et al., ICLR 2021).
        correction_power: :math:`\tau`, exponent of the correction.
        cut: what the threshold of the unknown class is cut by: the best Micro-F1 on ``validation``,
            or the ``share`` of the target that is unknown, estimated from validation nodes of known
            classes alone.
        batch_size: nodes that each part of a loss draws for a gradient step; 0 = full batch. With
            batches, logits of a whole graph are made one layer at a time.
        fanout: with batches, neighbours drawn a node and layer; 0 = all of them.

    Raises:
        InputError: an option makes no sense.
    """

    episodes: int = 0
    """How many episodes the method wants after episode 0."""

    oracle: bool = False
    """True if it is to be given ``task.oracle``, the task with every class visible."""

    in_batches: bool = True
    """False where the losses read every node of a graph."""

    by_node: bool = False
    """True where some nodes of a graph are scored for less than all of them."""

    encoder_defaults: Mapping[str, Any] = {}
    """Fields of the encoder's recipe that the method was tuned with, where they are unusual."""

    search: Mapping[str, Sequence[Any]] = {}
    """Values of its options that a search tries, by option, as its authors did or more. An empty
    list takes away what a search tries of every method."""

    search_open: Mapping[str, Sequence[Any]] = {}
    """The same for options that act in open-set shift alone."""

    def __new__(cls, *_: Any, **given: Any) -> Method:
        options.check(cls, given, f"{cls.key()}.")
        return super().__new__(cls)

    def __init__(self, *, encoder: EncoderSpec = EncoderSpec(),
                 make_optimizer: MakeOptimizer = adam, smoothing: Natural = 0,
                 correction: Correction = "none", correction_power: Weight = 1.0,
                 cut: Cut = "validation", batch_size: Natural = 0, fanout: Natural = 10) -> None:
        super().__init__()
        self.encoder, self.make_optimizer = encoder, make_optimizer
        self.smoothing, self.batch_size, self.fanout = smoothing, batch_size, fanout
        self.correction, self.correction_power, self.cut = correction, correction_power, cut
        self.require("batch_size", batch_size, self.in_batches or not batch_size,
                     "0, since the losses read every node of a graph")
        self.warnings: list[str] = []
        self.collapsed = False  # whether a warning says that clusters do not tell the classes apart
        self.register_buffer("threshold", torch.tensor(0.0))

    @classmethod
    def key(cls) -> str:
        """Its name in configs: that of its module."""
        package, _, module = cls.__module__.rpartition(".")
        return module if package == __package__ else cls.__name__.lower()

    def require(self, option: str, value: Any, right: bool, allowed: str) -> None:
        """Refuse the value of an option by its config key."""
        if not right:
            raise InputError(f"{self.key()}.{option}", value, allowed)

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Build and pre-train on a blind task; return the loss terms of episode 0."""
        raise NotImplementedError

    def episode(self) -> dict[str, float]:
        """Run one episode; return every loss term and diagnostic figure of it."""
        raise NotImplementedError

    def build(self, task: ShiftTask | Sizes) -> None:
        """Make the modules that predictions need, untrained, from the sizes of a task alone.

        A trained model is loaded into them and needs nothing else to predict, so what predictions
        take from the training graph has to be a buffer.
        """
        self.task, self.encoder = task, backbones.blank(self.encoder, task.num_features)
        self.build_correction(task)

    def setup(self, task: ShiftTask) -> None:
        """Make ready what every ``start`` needs: both graphs, the labels, a pretrained encoder."""
        self.task, self.labels = task, task.source.y[task.train]
        features = self.encoder.features
        self.source, self.target = prepare(task.source, features), prepare(task.target, features)
        self.to(task.device)
        self.encoder = backbones.pretrained(self.encoder, self.target)
        self.draws = random_state(task.device)

    def ready(self) -> None:
        """Between :meth:`setup` and the first step, make all that episodes need; repeatable."""
        self.build(self.task)
        self.learn_prior(self.labels)
        self.to(self.task.device)

    def new_classifier(self, num_outputs: int) -> Encoder:
        """An untrained encoder with that many logits."""
        return backbones.build(self.encoder, self.task.num_features, num_outputs)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target", nodes: Tensor | None = None) -> Tensor:
        """Logits ``[V, N(+1)]`` of all nodes of any graph with the same features.

        Args:
            graph: the graph.
            role: ``source`` where it plays the source of two graphs, else ``target``.
            nodes: these nodes alone, ``[n]``; the trainer asks for some only where ``by_node``.
        """
        return all_logits(self.classifier, self.prepared(graph), self.batch_size, nodes)

    def predict(self, graph: Data, role: str = "target") -> Tensor:
        """Scores ``[V, K]`` that decisions are made of, the first ``N`` those of known classes."""
        return self.corrected(self.uncorrected(graph, role))

    def predict_at(self, graph: Data, nodes: Tensor, role: str = "target") -> Tensor:
        """The scores ``[n, K]`` of some nodes; those of the others are not made where ``by_node``.
        """
        if self.by_node:
            return self.corrected(self.logits(graph, role, nodes))
        return self.predict(graph, role)[nodes]

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Scores before prior correction: logits, or logarithms of a smoothed posterior."""
        return self.smoothed(self.logits(graph, role), graph)

    def prepared(self, graph: Data) -> Graph:
        """A graph with features as the encoder reads them."""
        return prepare(graph, self.encoder.features)

    def batches(self, graph: Graph, *parts: Tensor) -> Batches:
        """The classifier's views of a graph's nodes, ids ``[n_i]`` of each part, step by step."""
        return Batches(self.classifier, graph, parts, self.batch_size, self.fanout)

    def log_cluster_posterior(self, graph: Data) -> Tensor | None:
        """Log posteriors over clusters ``[M, V, C]`` by M cluster GNNs; None without one."""
        return None

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        """What there is to draw, by name: functions that give an embedding ``[V, H]`` and a group
        ``[V]`` of every node."""
        classifier = getattr(self, "classifier", None)
        if not isinstance(classifier, Encoder):
            return {}
        return {"classifier": partial(hidden_and_group, classifier, self.encoder.features)}

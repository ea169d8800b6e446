"""The contract of methods. ``coral.py`` is a short example of a method."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Callable, Mapping, Sequence, cast

import torch
from torch import Tensor, nn, optim
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import backbones
from graphgym_srnc.backbones import Encoder, EncoderSpec, Graph, Scaling, prepare
from graphgym_srnc.core import options
from graphgym_srnc.core.options import Natural, OneOf, Steps, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.prediction import (
    ROLES,
    ClassPrior,
    best_threshold,
    threshold_by_share,
)
from graphgym_srnc.methods.shared.training import (
    MakeOptimizer,
    adam,
    all_logits,
    hidden_and_group,
    random_state,
    set_random_state,
)
from graphgym_srnc.methods.shared.validation import OutOfFold

KNOWN_RECALL = 0.95  # of the validation nodes, if none of them is of an unknown class

WEIGHTS_IGNORED = (
    "The layers of type {} ignore the weights of edges, which smoothing and clusters read. Use"
    " gcnconv, sageconv, sgconv or sign if the weights matter."
)


class Method(nn.Module):
    r"""A way to classify the nodes of a target graph under distribution shift.

    The keyword-only arguments of a subclass and its bases are its config keys. Their annotations
    define the allowed values, which are checked here. The trainer calls :meth:`start` once (the
    paper's episode 0), then :meth:`episode` repeatedly. After each of them it calls
    :meth:`learn_validation`, :meth:`predict` and :meth:`calibrate`. A method sees ``task.blind()``
    only.

    :meth:`predict` smooths the logits over the graph and corrects them for its class prior.
    :meth:`decide` predicts a node as unknown if its :meth:`confidence` is below the threshold,
    which :meth:`calibrate` sets. A method may override each of these steps.

    Statistics of a whole graph, such as column means and class shares, are those of the graphs of
    training. A later graph is predicted by those of the graph in its role. Its nodes are therefore
    predicted alike, whether or not other components belong to the graph.

    Args:
        encoder: backbone that :meth:`new_classifier` builds encoders from.
        make_optimizer: function that makes the optimiser of the classifier from its parameters.
        source_first: whether to find the unknown class on the source of two graphs first, see
            :mod:`graphgym_srnc.train.source_first`. It needs held-out source nodes of unknown
            classes, and has no effect without them.
        batch_size: number of nodes that each part of a loss draws per gradient step; 0 = full
            batch. With batches, the logits of a whole graph are computed one layer at a time.
        fanout: number of neighbours drawn per node and layer with batches; 0 = all.
        smoothing: steps of personalised PageRank over the predicted posterior; 0 = none.
        correction: correction of the posterior by the class prior of the target: ``none``, ``mean``
            (divide by the mean posterior), ``em`` or ``bbse`` (multiply by the estimated ratio of
            class shares to training), or ``labels`` (divide by the shares of the training labels).
            The prior is estimated on the target of training and kept for later graphs.
        correction_power: exponent :math:`\tau` of the correction.
        cut: how to choose the unknown-class threshold: the best Micro-F1 on ``validation``, or the
            estimated ``share`` of unknown target nodes, which needs validation nodes of known
            classes alone.

    Attributes:
        task: the blind task; a loaded model has its :class:`Sizes` instead.
        warnings: sentences on the training by code, which no diagnostic has.
        calibrated: whether validation nodes set the threshold; otherwise it is 0.
        cross_fits: whether the method holds out labels itself if there are no validation nodes.
        out_of_fold: predictions of labelled nodes by classifiers that did not learn them, of a
            method that holds out labels itself.
        explicit_unknown: whether the last of ``N + 1`` scores is that of the unknown class.
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

    task: ShiftTask
    classifier: Encoder
    warnings: dict[str, str]
    threshold: Tensor
    calibrated: bool = True
    cross_fits: bool = False
    out_of_fold: OutOfFold | None = None
    explicit_unknown: bool = False
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

    def __init__(
        self,
        *,
        encoder: EncoderSpec = EncoderSpec(),
        make_optimizer: MakeOptimizer = adam,
        source_first: bool = False,
        batch_size: Natural = 0,
        fanout: Natural = 10,
        smoothing: Steps = 0,
        correction: Annotated[str, OneOf("none", "mean", "em", "bbse", "labels")] = "none",
        correction_power: Weight = 1.0,
        cut: Annotated[str, OneOf("validation", "share")] = "validation",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.make_optimizer = make_optimizer
        self.source_first = source_first
        self.batch_size = batch_size
        self.fanout = fanout
        self.smoothing = smoothing
        self.correction = correction
        self.correction_power = correction_power
        self.cut = cut
        self.require(
            "batch_size",
            batch_size,
            self.in_batches or not batch_size,
            "0, since the losses read every node of a graph",
        )
        self.register_buffer("threshold", torch.tensor(0.0))
        self.warnings = {}
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
        self.prior.learn(self.labels)
        self.to(self.task.device)
        is_weighted = self.source.is_weighted or self.target.is_weighted
        reads = getattr(getattr(self, "classifier", None), "reads_weights", True)
        if is_weighted and not reads:
            self.warnings["edge weights"] = WEIGHTS_IGNORED.format(self.encoder.kind)

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

    # ---- prediction ----

    @property
    def prior_correction(self) -> tuple[str, float]:
        """Name and power of the correction."""
        return self.correction, self.correction_power

    def build(self, task: ShiftTask | Sizes) -> None:
        """Build the untrained modules that predictions need, given a task or only its sizes.

        A trained model is loaded into them, so what predictions use must be a weight or a buffer.
        """
        self.task = cast(ShiftTask, task)
        self.out_of_fold = None
        self.scaling = nn.ModuleDict({role: Scaling() for role in ROLES})
        if isinstance(task, ShiftTask):
            for role, graph in zip(ROLES, (task.source, task.target)):
                cast(Scaling, self.scaling[role]).fit(graph.x)
        self.prior = ClassPrior(task.num_known)

    # ---- statistics of the training graphs ----

    def as_trained(self, graph: Data, role: str = "target") -> Data:
        """A graph whose features are scaled by the statistics of the training graph of its role."""
        own = self.task.graphs().values() if isinstance(self.task, ShiftTask) else ()
        if hasattr(graph.x, "scaling") or any(graph.x is learned.x for learned in own):
            return graph
        graph = copy.copy(graph)
        graph.x = cast(Scaling, self.scaling[role]).attach(graph.x)
        return graph

    def statistic(
        self, stored: Tensor, graph: Data, role: str, estimate: Callable[[], Tensor]
    ) -> Tensor:
        """A statistic of a graph, ``stored`` in a buffer ``[2, ...]`` for each of :data:`ROLES`.

        It is estimated on the graphs of training, and those of source and target are kept. Other
        graphs have the one of their role.
        """
        if not isinstance(self.task, ShiftTask) or all(
            graph is not own for own in self.task.graphs().values()
        ):
            return stored[ROLES.index(role)]
        found = estimate()
        for place, own in zip(stored, (self.task.source, self.task.target)):
            if graph is own:
                place.copy_(found)
        return found

    # ---- scores ----

    def votes(self, graph: Data) -> dict[str, tuple[float, Tensor]]:
        """Weight and posterior ``[V, K]`` of each classifier of a mixture by name, if it is one."""
        return {}

    def stages(self, graph: Data) -> dict[str, Tensor]:
        """Scores ``[V, K]`` of such a mixture, and after each step that changes them, by name."""
        return {}

    def prepared(self, graph: Data) -> Graph:
        """A graph with features scaled as the encoder reads them."""
        return prepare(graph, self.encoder.features)

    def predict(self, graph: Data, role: str = "target") -> Tensor:
        """Scores ``[V, K]`` that decisions use; the first ``N`` are those of known classes.

        ``role`` is ``source`` for the source of two graphs, else ``target``.
        """
        graph = self.as_trained(graph, role)
        scores = self.uncorrected(graph, role)
        correction, power = self.prior_correction
        if correction == "none":
            return scores
        estimate = partial(self.prior.weights, correction, scores)
        weights = self.statistic(self.prior.weight, graph, role, estimate)
        return self.prior.corrected(scores, weights, power)

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Scores before prior correction: logits, or logarithms of a smoothed posterior."""
        return self.smoothed(self.logits(graph, role), graph)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logits ``[V, N(+1)]`` of any graph with the same features."""
        return all_logits(self.classifier, self.prepared(graph), self.batch_size)

    def smoothed(self, logits: Tensor, graph: Data) -> Tensor:
        """Logits ``[V, K]``, or with ``smoothing`` the logarithm of their smoothed softmax."""
        if not self.smoothing:
            return logits
        return self.smooth(logits.softmax(1), graph).clamp(min=1e-12).log()

    @torch.no_grad()
    def smooth(self, p: Tensor, graph: Data) -> Tensor:
        r"""Personalised PageRank over a posterior ``[V, K]``, whose rows then sum to 1.

        .. math:: P \leftarrow 0.9 \hat A P + 0.1 P_0
        """
        result = p
        prepared = self.prepared(graph)
        for _ in range(self.smoothing):
            result = 0.9 * (prepared.adjacency("gcn") @ result) + 0.1 * p
        return F.normalize(result, p=1, dim=1)

    def learn_validation(self, label: Tensor) -> dict[str, float]:
        """Learn from the labels ``[n]`` of the validation nodes what scores depend on.

        The trainer calls it after each episode, before :meth:`predict`. The result are figures.
        """
        if self.correction == "bbse":
            graph = self.task.validation
            scores = self.uncorrected(graph, self.task.role_of(graph))
            self.prior.learn_confusion(scores[self.task.val], label)
        return {}

    # ---- decisions ----

    def confidence(self, scores: Tensor) -> Tensor:
        """Confidence ``[n]`` that a node is of a known class, from scores ``[n, N(+1)]``.

        It is the largest softmax of a known class, or the difference between the largest score of a
        known class and that of the unknown class, if there is one. The threshold and the AUROC of
        the unknown class refer to it.
        """
        unknown = self.task.unknown
        learned = self.explicit_unknown or self.task.unknown_found
        if unknown is not None and learned and scores.size(1) > unknown:
            return scores[:, :unknown].amax(1) - scores[:, unknown]
        return scores.softmax(1)[:, : self.task.num_known].amax(1)

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold by the option ``cut``.

        If no validation node is unknown, the threshold accepts :data:`KNOWN_RECALL` of them.

        Args:
            scores, label: scores ``[n, K]`` and labels ``[n]`` of the validation nodes.
            on_target: scores of the target nodes, ``[V, K]``.
        """
        if not self.task.open_set:
            return
        unknown = label == self.task.num_known
        confidence = self.confidence(scores)
        if self.cut == "share":
            threshold = threshold_by_share(confidence[~unknown], self.confidence(on_target))
        elif not self.calibrated:
            return
        elif unknown.any():
            known = scores[:, : self.task.num_known].argmax(1)
            threshold = best_threshold(confidence, known, label, self.task.num_known)
        else:
            threshold = float(confidence.quantile(1 - KNOWN_RECALL))
            self.warnings["no unknown held out"] = (
                "No held-out node belongs to an unknown class. The unknown-class threshold is set"
                f" so that {100 * KNOWN_RECALL:.0f} % of the held-out nodes are predicted as known."
            )
        self.threshold.fill_(threshold)

    def decide(self, scores: Tensor) -> Tensor:
        """Classes ``[n]``: the most probable known class, or unknown below the threshold."""
        known = scores[:, : self.task.num_known].argmax(1)
        if not self.task.open_set:
            return known
        return torch.where(self.confidence(scores) < self.threshold, self.task.num_known, known)

    def posterior(self, scores: Tensor) -> Tensor:
        r"""Probabilities ``[n, N(+1)]``, whose maximum is the class of :meth:`decide`.

        .. math:: \log p_u - \max_c \log p_c = \ell(t) - \ell(s)

        The softmax of the known scores gives the ratios between known classes, the threshold
        :math:`t`, the confidence :math:`s` and :meth:`log_odds` :math:`\ell` that of the unknown.
        """
        log_p = scores[:, : self.task.num_known].double().log_softmax(1)
        if not self.task.open_set:
            return log_p.exp()

        confidence = self.confidence(scores)
        margin = self.log_odds(self.threshold.double()) - self.log_odds(confidence.double())
        margin = margin.clamp(-50, 50)
        # The decision counts at a tie, also if rounding causes it.
        below = confidence < self.threshold
        margin = torch.where(below, margin.clamp(min=1e-9), margin.clamp(max=0))
        return torch.cat([log_p, (log_p.amax(1) + margin)[:, None]], 1).softmax(1)

    def log_odds(self, confidence: Tensor) -> Tensor:
        r"""Log-odds of a confidence: :math:`\log \frac{s}{1 - s}` of a probability :math:`s`."""
        return confidence if self.explicit_unknown else confidence.logit(eps=1e-12)

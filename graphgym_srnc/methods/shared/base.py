"""The base class of methods. ``coral.py`` is a short example of a method."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Callable, Mapping, Sequence, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import backbones
from graphgym_srnc.backbones import Encoder, EncoderSpec, Graph, prepare
from graphgym_srnc.core import options
from graphgym_srnc.core.options import Natural, OneOf, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.prior import black_box_weights, em_prior, known_share
from graphgym_srnc.methods.shared.training import (
    MakeOptimizer,
    adam,
    all_logits,
    hidden_and_group,
    random_state,
    set_random_state,
)

Correction = Annotated[str, OneOf("none", "mean", "em", "bbse", "labels")]
Cut = Annotated[str, OneOf("validation", "share")]

KEPT = 0.95  # share of known validation nodes to predict as known if no validation node is unknown


class Method(nn.Module):
    r"""A way to classify the nodes of a target graph under distribution shift.

    The keyword-only arguments of a subclass and its bases are its config keys. Their annotations
    define the allowed values, which are checked here. The trainer calls :meth:`start` once (the
    paper's episode 0), then :meth:`episode` repeatedly, and between them :meth:`predict`,
    :meth:`calibrate` and :meth:`decide`. A method sees ``task.blind()`` only.

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
        source_first: whether to find the unknown class on the source of two graphs first, see
            :mod:`graphgym_srnc.train.source_first`. It needs held-out source nodes of unknown
            classes, and has no effect without them.
        batch_size: number of nodes that each part of a loss draws per gradient step; 0 = full
            batch. With batches, the logits of a whole graph are computed one layer at a time.
        fanout: number of neighbours drawn per node and layer with batches; 0 = all.

    Attributes:
        task: the blind task; a loaded model has its :class:`Sizes` instead.
        kept: tensors and plain values of a checkpoint that :meth:`ready` cannot build again.
        episodes: number of episodes after episode 0 that the method asks for, see :attr:`planned`.
        limit: maximum number of episodes after episode 0, which the trainer sets; -1 = none.
        oracle: whether the method receives ``task.oracle``, with every class visible.
        in_batches: whether mini-batches are supported; False if losses need every node of a graph.
        prior: threshold if no validation node is unknown; None = the one that :data:`KEPT` gives.
        calibrated: whether the threshold is set on validation nodes.
        explicit_unknown: whether the last of ``N + 1`` scores is that of the unknown class.
        encoder_defaults: encoder settings that the method was tuned with, if they differ.
        search: values of options that a search tries; an empty list tries none.
        search_open: values of options that have an effect in open-set shift only.
    """

    task: ShiftTask
    classifier: Encoder
    optimizer: torch.optim.Optimizer
    source: Graph
    target: Graph
    labels: Tensor
    threshold: Tensor
    source_prior: Tensor
    confusion: Tensor
    draws: tuple[Tensor, ...]
    kept: tuple[str, ...] = ("warnings", "reported", "episodes", "draws")
    episodes: int = 0
    limit: int = -1
    oracle: bool = False
    in_batches: bool = True
    prior: float | None = None
    calibrated: bool = True
    explicit_unknown: bool = False
    encoder_defaults: Mapping[str, Any] = {}
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

    @property
    def prior_correction(self) -> tuple[str, float]:
        """Name and power of the correction."""
        return self.correction, self.correction_power

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
        """Build the untrained modules that predictions need, given a task or only its sizes.

        A trained model is loaded into them, so what predictions use must be a weight or a buffer.
        """
        self.task = cast(ShiftTask, task)
        correction, known = self.prior_correction[0], task.num_known
        if correction in ("em", "labels"):
            self.register_buffer("source_prior", torch.full((known,), 1 / known))
        if correction == "bbse":
            self.register_buffer("confusion", torch.eye(known) / known)

    def setup(self, task: ShiftTask) -> None:
        """Prepare what every ``start`` needs: both graphs, the labels and a pretrained encoder."""
        self.task, self.labels = task, task.source.y[task.train]
        self.source, self.target = self.prepared(task.source), self.prepared(task.target)
        self.to(task.device)
        self.encoder = backbones.pretrained(self.encoder, self.target)
        self.draws = random_state(task.device)

    def ready(self) -> None:
        """Build everything that episodes need, after :meth:`setup`; may be called again."""
        self.build(self.task)
        self.learn_prior(self.labels)
        self.to(self.task.device)

    def learn_prior(self, labels: Tensor) -> None:
        """Store the class prior of training labels ``[n]``, if the correction reads it."""
        if self.prior_correction[0] in ("em", "labels"):
            counts = torch.bincount(labels, minlength=self.task.num_known)
            self.source_prior.copy_(counts / counts.sum())

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
        """Load a checkpoint into modules that :meth:`ready` has built."""
        for name in self.kept:
            if name in state:
                setattr(self, name, state[name])
        self.load_state_dict(state["weights"])
        if "optimizer" in state:
            self.optimizer.load_state_dict(state["optimizer"])

    def new_classifier(self, num_outputs: int) -> Encoder:
        """An untrained encoder with ``num_outputs`` logits."""
        return backbones.build(self.encoder, self.task.num_features, num_outputs)

    def prepared(self, graph: Data) -> Graph:
        """A graph with features scaled as the encoder reads them."""
        return prepare(graph, self.encoder.features)

    def log_cluster_posterior(self, graph: Data) -> Tensor | None:
        """Log posteriors over clusters ``[M, V, C]`` of M cluster GNNs, or None."""
        return None

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        """Functions that return an embedding ``[V, H]`` and a group ``[V]``, by name."""
        return {"classifier": partial(hidden_and_group, self.classifier, self.encoder.features)}

    # ---- prediction ----

    def predict(self, graph: Data, role: str = "target") -> Tensor:
        """Scores ``[V, K]`` that decisions use; the first ``N`` are those of known classes.

        ``role`` is ``source`` for the source of two graphs, else ``target``.
        """
        return self.corrected(self.uncorrected(graph, role))

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
        return self.smooth(logits.softmax(1), graph, self.smoothing).clamp(min=1e-12).log()

    @torch.no_grad()
    def smooth(self, p: Tensor, graph: Data, steps: int) -> Tensor:
        r"""Personalised PageRank over a posterior ``[V, K]``, whose rows then sum to 1.

        .. math:: P \leftarrow 0.9 \hat A P + 0.1 P_0
        """
        result, prepared = p, self.prepared(graph)
        for _ in range(steps):
            result = 0.9 * (prepared.adjacency("gcn") @ result) + 0.1 * p
        return F.normalize(result, p=1, dim=1)

    def learn_confusion(self, scores: Tensor, label: Tensor) -> None:
        """Store the confusion matrix of uncorrected scores ``[n, K]`` of held-out known nodes."""
        size = self.task.num_known
        known = label < size
        named = scores[known, :size].argmax(1)
        counts = torch.bincount(named * size + label[known], minlength=size**2)
        self.confusion.copy_(counts.view(size, size) / counts.sum())

    @torch.no_grad()
    def corrected(self, scores: Tensor) -> Tensor:
        r"""Scores ``[V, K]`` of all nodes of a graph, corrected for the class prior of that graph.

        .. math:: \tilde p_{ic} \propto p_{ic} \, w_c^\tau

        The weights :math:`w` are estimated on the whole graph without its labels. Known-class
        probabilities are renormalised to their previous total, so the unknown class keeps its
        share.
        """
        correction, power = self.prior_correction
        if correction == "none":
            return scores
        known = self.task.num_known
        total = scores[:, :known].logsumexp(1, keepdim=True)
        log_p = (scores[:, :known] - total).double()
        p = log_p.exp()
        if correction == "mean":
            weight = 1 / p.mean(0).clamp(min=1e-12)
        elif correction == "labels":
            weight = 1 / self.source_prior.to(p)
        elif correction == "em":
            weight = em_prior(p, self.source_prior) / self.source_prior
        else:
            predicted = torch.bincount(p.argmax(1), minlength=known).double()
            weight = black_box_weights(self.confusion, predicted / predicted.sum())
        corrected = (log_p + power * weight.clamp(min=1e-12).log()).log_softmax(1).to(scores)
        return torch.cat([corrected + total, scores[:, known:]], 1)

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
        """Set the threshold; ``prior`` or :data:`KEPT` give it if no validation node is unknown.

        Args:
            scores, label: scores ``[n, K]`` and labels ``[n]`` of the validation nodes.
            on_target: scores of the target nodes, ``[V, K]``.
        """
        if not self.task.open_set:
            return
        unknown, confidence = label == self.task.num_known, self.confidence(scores)
        if self.cut == "share":
            cut = threshold_by_share(confidence[~unknown], self.confidence(on_target))
        elif not self.calibrated:
            return
        elif unknown.any():
            known = scores[:, : self.task.num_known].argmax(1)
            cut = best_threshold(confidence, known, label, self.task.num_known)
        elif self.prior is None:
            cut = float(confidence.quantile(1 - KEPT))
            self.warnings.append(
                "No held-out node belongs to an unknown class. The unknown-class threshold is set"
                f" so that {100 * KEPT:.0f} % of the held-out nodes are predicted as known."
            )
        else:
            cut = self.prior
        self.threshold.fill_(cut)

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

        sure = self.confidence(scores)
        lead = self.log_odds(self.threshold.double()) - self.log_odds(sure.double())
        lead = lead.clamp(-50, 50)
        # The decision counts at a tie, also if rounding causes it.
        lead = torch.where(sure < self.threshold, lead.clamp(min=1e-9), lead.clamp(max=0))
        return torch.cat([log_p, (log_p.amax(1) + lead)[:, None]], 1).softmax(1)

    def log_odds(self, confidence: Tensor) -> Tensor:
        r"""Log-odds of a confidence: :math:`\log \frac{s}{1 - s}` of a probability :math:`s`."""
        return confidence if self.explicit_unknown else confidence.logit(eps=1e-12)


def threshold_by_share(held_out: Tensor, on_target: Tensor) -> float:
    """Threshold that predicts the estimated share of unknown target nodes as unknown.

    Args:
        held_out, on_target: confidence of held-out nodes of known classes ``[n]``, and of all
            target nodes ``[V]``.
    """
    ordered = on_target.sort().values
    unknown = round((1 - known_share(held_out, on_target)) * len(ordered))
    return float(ordered[unknown]) if unknown < len(ordered) else float("inf")


def best_threshold(confidence: Tensor, prediction: Tensor, label: Tensor, unknown: int) -> float:
    """Threshold with the largest validation Micro-F1 of all thresholds, in O(n log n).

    Args:
        confidence, prediction, label: confidence that a node is of a known class, its most probable
            known class, and its true class, all ``[n]``.
        unknown: label of the unknown class.
    """
    confidence, order = confidence.sort()
    gain = ((label == unknown).long() - (prediction == label).long())[order]
    correct = F.pad(gain.cumsum(0), (1, 0))

    # Entry i predicts the i least confident nodes as unknown, as does every threshold above the
    # i-th confidence, up to and including the next one.
    high = F.pad(confidence, (0, 1), value=torch.inf)
    correct[1:-1][confidence[1:] == confidence[:-1]] = -len(label)
    return float(high[correct.argmax()])

"""The contract of a method, and what methods share. ``erm.py`` is the shortest example: copy it to add one of your own."""
from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import parallel
from graphgym_srnc.backbones import Encoder, EncoderSpec, Graph, blank, build, prepare, pretrained
from graphgym_srnc.backbones.graph import View
from graphgym_srnc.backbones.sampling import Batches, infer
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.openness import fit_openmax
from graphgym_srnc.methods._scores import CONFIDENCES, SCORES, odin, openmax
from graphgym_srnc.task import ShiftTask, Sizes

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def adam(parameters: Iterable[nn.Parameter], lr: float = 0.01, weight_decay: float = 5e-4) -> torch.optim.Optimizer:
    """Adam with the paper's learning rate and weight decay (Parameter Settings)."""
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)


def random_state(device: torch.device) -> tuple[Tensor, ...]:
    """The state of torch's generator and, on a GPU, of the device's own, where dropout and draws of a step come from."""
    return (torch.get_rng_state(), *([] if device.type == "cpu" else [torch.get_device_module(device).get_rng_state(device)]))


def set_random_state(state: tuple[Tensor, ...], device: torch.device) -> None:
    """Put back what :func:`random_state` gave."""
    torch.set_rng_state(state[0])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(state[1], device)


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


class Supervised(Method):
    """A method that trains one classifier on a sum of losses; :meth:`losses` says which.

    Args:
        steps: gradient steps of an episode.
        rounds: episodes after episode 0, each continuing the training; the trainer keeps the best.
        score: in open-set shift, how sure the classifier is of a known class: ``max_softmax``, ``max_logit``, ``entropy``,
            ``energy``, ``gnnsafe`` (energy propagated over the graph), ``odin`` or ``openmax``, see
            :mod:`graphgym_srnc.methods._scores`. Only ``max_softmax`` sees ``smoothing``; the others are of the raw logits.
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


@torch.no_grad()
def all_logits(model: Encoder, graph: Graph, batch_size: int) -> Tensor:
    """Logits ``[V, K]`` of all nodes of a graph in eval mode; of a method that learns from batches, one layer at a time."""
    return infer(model, graph) if batch_size else model.eval()(model.view(graph))


@torch.no_grad()
def hidden_and_group(model: Encoder, features: str, graph: Data) -> tuple[Tensor, Tensor]:
    """The last hidden state ``[V, H]`` of all nodes of a graph, and the number of the largest logit ``[V]``."""
    model.eval()
    logits, hidden = model.embed(model.view(prepare(graph, features)))
    return hidden, logits.argmax(1)


def minimise(model: nn.Module, optimizer: torch.optim.Optimizer, losses: Callable[[], dict[str, Tensor]], steps: int) -> dict[str, float]:
    """Take gradient steps on the sum of the terms that ``losses()`` gives, with the model in training mode.

    Returns:
        The terms at the last step.
    """
    terms: dict[str, Tensor] = {}
    model.train()
    with parallel.own_draws():
        for _ in range(steps):
            terms = losses()
            optimizer.zero_grad()
            sum(terms.values()).backward()
            parallel.average(parameter for group in optimizer.param_groups for parameter in group["params"])
            optimizer.step()
    return parallel.mean({name: float(term.detach()) for name, term in terms.items()})


def fit_labels(model: Encoder, optimizer: torch.optim.Optimizer, graph: Graph, nodes: Tensor, labels: Tensor, steps: int,
               num_classes: int | None = None, batch_size: int = 0, fanout: int = 0) -> float:
    """Minimise the mean cross-entropy (Eq. 2 of the paper) on labelled nodes for a number of steps.

    Args:
        model, optimizer: the classifier and its optimiser.
        graph: the graph that holds the nodes.
        nodes, labels: node ids and classes, both ``[n]``.
        steps: number of gradient steps.
        num_classes: use the first so many logits only, as in pre-training before there is an unknown class.
        batch_size, fanout: those of :class:`Method`.

    Returns:
        The last loss.
    """
    batches = Batches(model, graph, [nodes], batch_size, fanout)

    def losses() -> dict[str, Tensor]:
        view, (drawn,) = batches()
        return {"source": F.cross_entropy(model(view)[:, :num_classes], labels[drawn])}

    return minimise(model, optimizer, losses, steps)["source"]


def best_threshold(confidence: Tensor, prediction: Tensor, label: Tensor, unknown: int, prior: float | None = None) -> float:
    """The cut below which a node is unknown, by the largest validation Micro-F1; exact over all cuts, in O(n log n).

    Args:
        confidence: how sure the classifier is of its known class, ``[n]``.
        prediction: the known class it would name, ``[n]``.
        label: true classes with ``unknown`` where masked, ``[n]``.
        unknown: label of the unknown class.
        prior: the cut that holds without validation; given one, the cut nearest to it is taken among those that are at most one
            (paired) standard error worse than the best, so that few validation nodes cannot move it far.
    """
    confidence, order = confidence.sort()
    gain = ((label == unknown).long() - (prediction == label).long())[order]
    correct, changed = (F.pad(step.cumsum(0), (1, 0)) for step in (gain, gain.abs()))
    # Cut i names the i least sure nodes unknown: any threshold above the i-th confidence, up to and with the next, does so.
    low, high = F.pad(confidence, (1, 0), value=-torch.inf), F.pad(confidence, (0, 1), value=torch.inf)
    correct[1:-1][confidence[1:] == confidence[:-1]] = -len(label)
    best = int(correct.argmax())
    if prior is None:
        return float(high[best])
    lost = (correct[best] - correct).double()
    error = ((changed - changed[best]).abs() - lost ** 2 / len(label)).clamp(min=0).sqrt()
    cuts = torch.full_like(high, prior).clamp(torch.nextafter(low, torch.full_like(low, torch.inf)), high)
    return float(cuts[(cuts - prior).abs().masked_fill(lost > error, torch.inf).argmin()])

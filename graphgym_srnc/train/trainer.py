"""Training loop over episodes: evaluation, early stopping, and restoring the best state."""

from __future__ import annotations

import copy
import itertools
import json
import math
import time
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Callable, Mapping, Protocol, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones.scaling import feature_warning
from graphgym_srnc.core import parallel
from graphgym_srnc.core.options import Natural, OneOf, Range, checked
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import check_finite, random_state, set_random_state
from graphgym_srnc.train import source_first
from graphgym_srnc.train.metrics import Metric, scores_of
from graphgym_srnc.train.selection import (
    NO_UNKNOWN_HELD_OUT,
    SELECTIONS,
    check,
    resolved,
    score_by_modularity,
)


@dataclass
class Episode:
    """Result of one episode.

    Args:
        number: number of the episode; 0 = pre-training.
        losses: loss terms and other figures of the method.
        val, test: scores on validation and test nodes.
        seconds: training time in seconds.
        train: Micro-F1 on training nodes.
    """

    number: int
    losses: dict[str, float]
    val: dict[str, float]
    test: dict[str, float]
    seconds: float
    train: dict[str, float] = field(default_factory=dict)


@dataclass(repr=False)
class RunRecord:
    """Result of a run.

    Args:
        task: name of the task.
        fingerprint: fingerprint of the task.
        selection: name of the selection criterion.
        history: all episodes.
        best: number of the selected episode.
        score: its selection score; None if it is not finite.
        stopped: reason for the end of training.
        warnings: warnings of the training by code, sentences.
        verdict: result of :func:`graphgym_srnc.train.diagnostics.judge`, which the caller sets.
        held_out: result of :func:`graphgym_srnc.train.held_out.judge`, which the caller sets.
    """

    task: str
    fingerprint: str
    selection: str
    history: list[Episode] = field(default_factory=list)
    best: int = 0
    score: float | None = None
    stopped: str = ""
    warnings: dict[str, str] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    held_out: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Predicted and most probable known class [2, V] of the target nodes in episode 0, which are
        # not stored.
        self.first: Tensor | None = None

    @property
    def val(self) -> dict[str, float]:
        """Scores of the selected episode on validation nodes."""
        return self.history[self.best].val

    @property
    def test(self) -> dict[str, float]:
        """Scores of the selected episode on test nodes."""
        return self.history[self.best].test

    @classmethod
    def of(cls, fields: dict[str, Any]) -> RunRecord:
        """The record with these fields, the inverse of ``dataclasses.asdict``."""
        return cls(**fields | {"history": [Episode(**episode) for episode in fields["history"]]})


Callback = Callable[[Episode, Method, ShiftTask], None]


class Checkpoint(Protocol):
    """Storage of the state of a run between two episodes: tensors and plain values."""

    def read(self) -> dict[str, Any] | None:
        """Last state of the same run, or None; the same in all processes."""

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        """Store ``state()`` at once, since the next episode modifies its tensors."""


@checked
@parallel.together()
def fit(
    method: Method,
    task: ShiftTask,
    *,
    seed: int | None = 0,
    max_episodes: Annotated[int, Range(-1)] = -1,
    patience: Natural = 0,
    selection: Annotated[str, OneOf(*SELECTIONS)] = "target_val",
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    metrics: Mapping[str, Metric] = {},
    best: str = "micro_f1",
) -> RunRecord:
    """Train a method on a task and load the weights of the selected episode into it.

    Several processes of a ``torch.distributed`` group can train together in batches if each calls
    this function alike. Only the first process calls the callbacks and writes checkpoints.

    Args:
        method: the method to train; it receives ``task.blind()``.
        task: the scenario; ``task.oracle`` for the oracle.
        seed: seed of the weights and of all random draws in training, but not of the split; None =
            do not seed torch's generator.
        max_episodes: maximum number of episodes after episode 0; -1 = the number the method asks
            for.
        patience: stop after this number of episodes in a row without a better selection score; 0 =
            never. The paper's "while Micro-F1 on validation increases" (Algorithm 1) is 1.
        selection: criterion that selects the best episode: ``target_val``, ``source_val``,
            ``target_modularity`` or ``last``, see :mod:`graphgym_srnc.train.selection`.
        callbacks: functions called after each episode with the episode, the method and the task.
        checkpoint: storage of the state of the run after each episode. A new ``method`` continues
            from the state that it contains, with the numbers of an uninterrupted run.
        metrics: the user's own scores, by name.
        best: score that ``target_val`` and ``source_val`` use, of ``metrics`` or of
            :func:`graphgym_srnc.train.metrics.classification_scores`.

    Raises:
        InputError: ``selection`` is unknown, or the task lacks what the criterion or method needs.
        FloatingPointError: a loss term is NaN or infinite.
    """
    check(selection, task)
    check_method(method, task)
    method.max_episodes = max_episodes
    if seed is not None:
        torch.manual_seed(seed)
    record = RunRecord(task.name, task.fingerprint(), resolved(selection, task))
    parallel.check_alike("dataset", record.fingerprint)
    run = Training(method, task, task.blind(), record, metrics, best)

    if checkpoint is not None and (state := checkpoint.read()) is not None:
        run.restore(state)
    elif method.source_first and source_first.applies(task):
        run.train_on_source_alone(max_episodes)
    record = run.record
    for number in itertools.count(len(record.history)):
        episode = run.episode(number)
        with parallel.alone() as is_first:
            for callback in callbacks if is_first else ():
                callback(episode, method, task)
        if run.stops(number, patience):
            break
        if checkpoint is not None and is_first:
            checkpoint.write(run.state)

    method.load_state_dict(run.best_state)
    record.warnings |= feature_warnings(method, run.blind)
    if record.selection == "last" and selection != "last":
        record.warnings["last episode"] = NO_UNKNOWN_HELD_OUT
    record.warnings |= method.warnings
    return record


def feature_warnings(method: Method, task: ShiftTask) -> dict[str, str]:
    """A warning by code for each graph of a task whose features a method scales badly."""
    found = {}
    for role, graph in task.graphs().items():
        text = feature_warning(graph.x, method.encoder.features)
        if text:
            found[f"features of {role}"] = f"{role} x: {text}"
    return found


def check_method(method: Method, task: ShiftTask) -> None:
    """Refuse options of a method for which the task or the number of processes is unsuitable."""
    allowed = "1 or more, since several processes train together and share batches"
    method.require(
        "batch_size", method.batch_size, method.batch_size > 0 or parallel.count() == 1, allowed
    )
    for option, value in (("correction", "bbse"), ("cut", "share")):
        known = task.validation.y[task.val] < task.num_known
        if getattr(method, option) == value and not known.any():
            raise InputError.plain(
                f"{method.key()}.{option}",
                f"{value} needs validation nodes of known classes, and the task has none",
                "Use another value",
            )


@dataclass
class Training:
    """A training run between two episodes; ``metrics`` and ``best`` are as in :func:`fit`."""

    method: Method
    task: ShiftTask
    blind: ShiftTask
    record: RunRecord
    metrics: Mapping[str, Metric]
    best: str
    best_score: float = -math.inf
    best_state: dict[str, Tensor] = field(default_factory=dict)
    source_classes: Tensor | None = None  # predicted on the source alone, [V]
    source_seconds: float = 0.0

    def state(self) -> dict[str, Any]:
        """Everything that the next episode depends on."""
        return {
            "method": self.method.checkpoint(),
            "record": json.dumps(asdict(self.record), default=float),
            "best_score": self.best_score,
            "best_state": self.best_state,
            "first": self.record.first,
            "on_source": self.source_classes,
            "random": random_state(self.task.device),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state`."""
        self.add_found_class(state["on_source"])
        self.method.restore(self.blind, state["method"])
        self.record = RunRecord.of(json.loads(state["record"]))
        self.record.first = state["first"]
        self.best_score = state["best_score"]
        self.best_state = state["best_state"]
        set_random_state(state["random"], self.task.device)

    def train_on_source_alone(self, max_episodes: int) -> None:
        """Find the unknown class on the source, see :mod:`graphgym_srnc.train.source_first`."""
        begin = time.perf_counter()
        method = self.method
        alone = source_first.source_alone(self.task)
        fit(method, alone, seed=None, max_episodes=max_episodes, selection="last")
        self.add_found_class(method.decide(method.predict(alone.source)))
        method.warnings = {
            f"{code} on the source alone": f"On the source alone: {text}"
            for code, text in method.warnings.items()
        }
        method.reported = []
        self.source_seconds = time.perf_counter() - begin

    def add_found_class(self, predicted: Tensor | None) -> None:
        """Add the unknown class to the known ones, if it is among classes ``[V]`` of the source."""
        self.source_classes = predicted
        if predicted is not None and (predicted == self.task.num_known).any():
            self.blind = source_first.with_found_class(self.blind, predicted)

    def episode(self, number: int) -> Episode:
        """Train one episode, evaluate the method, and keep its weights if they are the best."""
        method = self.method
        record = self.record
        begin = time.perf_counter()
        try:
            losses = method.episode() if number else method.start(self.blind)
            check_finite(losses)
            losses |= method.learn_validation(self.task.validation.y[self.task.val])
            seconds = time.perf_counter() - begin
            train, val, test, classes = evaluate(method, self.task, self.blind, self.metrics)
        except FloatingPointError as error:
            name = type(method).__name__
            raise FloatingPointError(f"{name}, episode {number}: {error}") from error
        if number == 0 and self.source_classes is not None:
            share = (self.source_classes == self.task.num_known).float().mean()
            losses |= {"source_unknown_share": float(share)}
            seconds += self.source_seconds

        record.first = classes if record.first is None else record.first
        score, figures = self.selection_score(val, classes[0], record.first[0])
        episode = Episode(number, losses | figures, val, test, seconds, train)
        record.history.append(episode)
        if record.selection == "last" or score > self.best_score or not self.best_state:
            self.best_score = score
            record.best = number
            record.score = float(score) if math.isfinite(score) else None
            self.best_state = copy.deepcopy(method.state_dict())
        return episode

    def selection_score(
        self, val: dict[str, float], classes: Tensor, first: Tensor
    ) -> tuple[float, dict[str, float]]:
        """Score of an episode by the selection criterion, and figures to record with it.

        Args:
            val: scores on validation nodes.
            classes, first: predicted classes ``[V]`` of the target, now and in episode 0.
        """
        method = self.method
        task = self.task
        blind = self.blind
        match self.record.selection:
            case "last":
                return math.inf, {}
            case "target_modularity":
                return score_by_modularity(method, task, blind, classes, first)
            case "source_val":
                nodes = task.source_val
                scores = predict(method, blind, blind.source)[nodes]
                val = scores_of(method, task, scores, task.source.y[nodes], self.metrics)
        return val.get(self.best, -math.inf), {}

    def stops(self, number: int, patience: int) -> bool:
        """Whether training ends after an episode; the record then states the reason."""
        record = self.record
        if patience and number - record.best >= patience:
            record.stopped = f"no better score by {record.selection} for {patience} episode(s)"
        elif number >= self.method.planned:
            record.stopped = f"all {number} episode(s) done"
        return bool(record.stopped)


def evaluate(
    method: Method, task: ShiftTask, blind: ShiftTask, metrics: Mapping[str, Metric]
) -> tuple[dict[str, float], dict[str, float], dict[str, float], Tensor]:
    """Set the unknown-class threshold on validation nodes and score the method after an episode.

    Returns scores on training, validation and test nodes, and predictions ``[2, V]`` as in
    ``RunRecord.first``.
    """
    label = task.validation.y[task.val]
    on_train, on_val, on_test, on_target = predict_sets(method, blind)
    if len(label) or method.cross_fits:
        method.calibrate(on_val, label, on_target)

    right = method.decide(on_train) == blind.source.y[blind.train]
    train = {"micro_f1": float(right.float().mean())}
    val = scores_of(method, task, on_val, label, metrics)
    test = scores_of(method, task, on_test, task.target.y[task.test], metrics)
    classes = [method.decide(on_target), on_target[:, : task.num_known].argmax(1)]
    return train, val, test, torch.stack(classes)


def predict_sets(method: Method, task: ShiftTask) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores ``[n, K]`` of training, validation, test and all target nodes of a blind task."""
    source = task.source
    validation = task.validation
    target = task.target
    whole = {id(graph): predict(method, task, graph) for graph in task.graphs().values()}
    on_source, on_val, on_target = (whole[id(graph)] for graph in (source, validation, target))
    return on_source[task.train], on_val[task.val], on_target[task.test], on_target


def predict(method: Method, task: ShiftTask, graph: Data) -> Tensor:
    """Scores ``[V, K]`` of a graph of a task.

    Raises:
        FloatingPointError: a score is NaN.
    """
    scores = method.predict(graph, task.role_of(graph))
    if scores.isnan().any():
        raise FloatingPointError("a score that predict() returns is nan")
    return scores

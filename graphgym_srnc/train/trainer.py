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

from graphgym_srnc.backbones.features import feature_warnings
from graphgym_srnc.core import parallel
from graphgym_srnc.core.options import Natural, OneOf, Range, checked
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import random_state, set_random_state
from graphgym_srnc.train import source_first
from graphgym_srnc.train.metrics import Metric, scores_of
from graphgym_srnc.train.selection import (
    NO_UNKNOWN_HELD_OUT,
    SELECTIONS,
    check,
    resolved,
    score_by_modularity,
    score_on_source,
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


@dataclass
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
        warnings: warnings of the method.
        verdict: result of :func:`graphgym_srnc.train.diagnostics.judge`, which the caller sets.
    """

    task: str
    fingerprint: str
    selection: str
    history: list[Episode] = field(default_factory=list)
    best: int = 0
    score: float | None = None
    stopped: str = ""
    warnings: list[str] = field(default_factory=list)
    verdict: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Predicted and most probable known class [2, V] of the target nodes in episode 0, which are
        # not stored.
        self.first: Tensor | None = None

    def __repr__(self) -> str:
        scores = self.test or self.val if self.history else {}
        shown = [f", {name} {scores[name]:.3f}" for name in ("micro_f1", "macro_f1") if scores]
        about = f"episode {self.best} of {len(self.history) - 1} by {self.selection}"
        return f"RunRecord({self.task}: {about}{''.join(shown)})"

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
    given, selection = selection, resolved(selection, task)
    method.limit = max_episodes
    allowed = "1 or more, since several processes train together and share batches"
    right = method.batch_size > 0 or parallel.count() == 1
    method.require("batch_size", method.batch_size, right, allowed)
    for option, needs in (("correction", "bbse"), ("cut", "share")):
        held_out = (task.validation.y[task.val] < task.num_known).any()
        if getattr(method, option) == needs and not held_out:
            message = f"{needs} needs validation nodes of known classes, and the task has none"
            raise InputError.plain(f"{method.key()}.{option}", message, "Use another value")
    if seed is not None:
        torch.manual_seed(seed)
    record = RunRecord(task=task.name, fingerprint=task.fingerprint(), selection=selection)
    parallel.check_alike("dataset", record.fingerprint)
    blind, best_score, best_state = task.blind(), -math.inf, {}

    found = checkpoint.read() if checkpoint is not None else None
    on_source, seconds_on_source = None, 0.0
    if found is not None:
        on_source = found["on_source"]
    elif method.source_first and source_first.applies(task):
        begin = time.perf_counter()
        alone = source_first.source_alone(task)
        fit(method, alone, seed=None, max_episodes=max_episodes, selection="last")
        on_source = method.decide(method.predict(alone.source))
        method.warnings = [f"On the source alone: {text}" for text in method.warnings]
        method.reported = []
        seconds_on_source = time.perf_counter() - begin
    if on_source is not None and (on_source == task.num_known).any():
        blind = source_first.with_found_class(blind, on_source)
    if found is not None:
        method.restore(blind, found["method"])
        record = RunRecord.of(json.loads(found["record"]))
        best_score, best_state = found["best_score"], found["best_state"]
        record.first = found["first"]
        set_random_state(found["random"], task.device)

    def state() -> dict[str, Any]:
        return {
            "method": method.checkpoint(),
            "record": json.dumps(asdict(record), default=float),
            "best_score": best_score,
            "best_state": best_state,
            "first": record.first,
            "on_source": on_source,
            "random": random_state(task.device),
        }

    for number in itertools.count(len(record.history)):
        begin = time.perf_counter()
        losses = method.start(blind) if number == 0 else method.episode()
        seconds = time.perf_counter() - begin + (0.0 if number else seconds_on_source)
        if number == 0 and on_source is not None:
            share = (on_source == task.num_known).float().mean()
            losses |= {"source_unknown_share": float(share)}
        for term, value in losses.items():
            if not math.isfinite(value):
                name = type(method).__name__
                raise FloatingPointError(f"{name}, episode {number}: {term} is {value}")

        train, val, test, classes = evaluate(method, task, blind, metrics)
        record.first = first = classes if record.first is None else record.first
        score = val.get(best, -math.inf)
        if selection == "source_val":
            score = score_on_source(method, task, blind, metrics, best)
        elif selection == "target_modularity":
            score, figures = score_by_modularity(method, task, blind, classes[0], first[0])
            losses |= figures
        elif selection == "last":
            score = math.inf
        episode = Episode(number, losses, val, test, seconds, train)
        record.history.append(episode)
        if selection == "last" or score > best_score or not best_state:
            best_score, record.best = score, number
            record.score = float(score) if math.isfinite(score) else None
            best_state = copy.deepcopy(method.state_dict())

        with parallel.together(False):
            for callback in () if parallel.rank() else callbacks:
                callback(episode, method, task)
        if patience and number - record.best >= patience:
            record.stopped = f"no better score by {selection} for {patience} episode(s)"
            break
        if number >= method.planned:
            record.stopped = f"all {number} episode(s) done"
            break
        if checkpoint is not None and not parallel.rank():
            checkpoint.write(state)

    method.load_state_dict(best_state)
    about_features = (
        f"{role} x: {text}"
        for role, graph in blind.graphs().items()
        for text in feature_warnings(graph.x, method.encoder.features)
    )
    about_rule = [NO_UNKNOWN_HELD_OUT] * (selection == "last" and given != "last")
    record.warnings = list(dict.fromkeys([*about_features, *about_rule, *method.warnings]))
    return record


def evaluate(
    method: Method, task: ShiftTask, blind: ShiftTask, metrics: Mapping[str, Metric]
) -> tuple[dict[str, float], dict[str, float], dict[str, float], Tensor]:
    """Set the unknown-class threshold on validation nodes and score the method after an episode.

    Returns scores on training, validation and test nodes, and predictions ``[2, V]`` as in
    ``RunRecord.first``.
    """
    label = task.validation.y[task.val]
    if len(label) and method.correction == "bbse":
        held_out = blind.validation, blind.role_of(blind.validation)
        method.learn_confusion(method.uncorrected(*held_out)[task.val], label)
    on_train, on_val, on_test, on_target = predict_sets(method, blind)
    if len(label):
        method.calibrate(on_val, label, on_target)

    right = method.decide(on_train) == blind.source.y[blind.train]
    train = {"micro_f1": float(right.float().mean())}
    val = scores_of(method, task, on_val, label, metrics)
    test = scores_of(method, task, on_test, task.target.y[task.test], metrics)
    classes = [method.decide(on_target), on_target[:, : task.num_known].argmax(1)]
    return train, val, test, torch.stack(classes)


def predict_sets(method: Method, task: ShiftTask) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores ``[n, K]`` of training, validation, test and all target nodes of a blind task."""
    source, validation, target = task.source, task.validation, task.target
    whole = {
        id(graph): method.predict(graph, task.role_of(graph)) for graph in task.graphs().values()
    }
    on_source, on_val, on_target = (whole[id(graph)] for graph in (source, validation, target))
    return on_source[task.train], on_val[task.val], on_target[task.test], on_target

"""Training loop over episodes: evaluation, early stopping, and restoring the best state."""

from __future__ import annotations

import copy
import itertools
import json
import math
import time
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Callable, Protocol, Sequence

import torch
from torch import Tensor

from graphgym_srnc.backbones.features import feature_warnings
from graphgym_srnc.core import parallel
from graphgym_srnc.core.options import Natural, OneOf, Range, Share, checked
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import random_state, set_random_state
from graphgym_srnc.train import source_first
from graphgym_srnc.train.metrics import ExtraScores, scores_of
from graphgym_srnc.train.selection import SELECTIONS, Seen, check


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
        verdict: result of :func:`graphgym_srnc.train.diagnostics.judge`, which the caller computes
            with the final threshold.
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
        # Predictions [2, V] of the target nodes in episode 0, which are not stored. Row 0 is the
        # predicted class, row 1 the most probable known class.
        self.first: Tensor | None = None

    def __repr__(self) -> str:
        scores = self.test or self.val if self.history else {}
        shown = ", ".join(
            f"{name} {scores[name]:.3f}" for name in ("micro_f1", "macro_f1") if name in scores
        )
        return (
            f"RunRecord({self.task}: episode {self.best} of {len(self.history) - 1} by"
            f" {self.selection}{', ' * bool(shown)}{shown})"
        )

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
    """Storage of the state of a run between two episodes.

    A state consists of tensors and plain values in dictionaries, lists and tuples.
    """

    def read(self) -> dict[str, Any] | None:
        """Last state of the same run, or None; the same in all processes."""

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        """Store the state after an episode that is not the last.

        ``state()`` returns the state; the next episode modifies its tensors.
        """


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
    min_agreement: Share = 0.6,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    extra: ExtraScores = ExtraScores(),
) -> RunRecord:
    """Train a method on a task and load the weights of the selected episode into it.

    Several processes of a ``torch.distributed`` group can train together in batches. Each calls
    this function with the same method, task and settings, and obtains the same weights. Only the
    first process calls the callbacks and writes checkpoints.

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
        min_agreement: with ``target_modularity``, the minimum agreement of an episode with episode
            0. It is the share of equal predictions among target nodes that neither predicts as
            unknown.
        callbacks: functions called after each episode with the episode, the method and the task.
        checkpoint: storage of the state of the run after each episode. If it contains a state,
            training resumes from there. The resulting weights and record are identical to those of
            an uninterrupted run, except for times. ``method`` must be new.
        extra: user-defined scores, and the score that selects an episode.

    Returns:
        The record of the run.

    Raises:
        InputError: ``selection`` is unknown, or the task lacks what the criterion or method needs.
        FloatingPointError: a loss term is NaN or infinite.
    """
    check(selection, task)
    method.limit = max_episodes
    allowed = "1 or more, since several processes train together and share batches"
    right = method.batch_size > 0 or parallel.count() == 1
    method.require("batch_size", method.batch_size, right, allowed)
    held_out = bool((task.validation.y[task.val] < task.num_known).any())
    for option, needs in (("correction", "bbse"), ("cut", "share")):
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
        seconds_on_source = time.perf_counter() - begin
    if on_source is not None and (on_source == task.num_known).any():
        blind = source_first.with_found_class(blind, on_source)
    if found is not None:
        method.restore(blind, found["method"])
        record = RunRecord.of(json.loads(found["record"]))
        best_score, best_state, record.first = (
            found[name] for name in ("best_score", "best_state", "first")
        )
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

        train, val, test, classes = evaluate(method, task, blind, extra)
        record.first = first = classes if record.first is None else record.first
        seen = Seen(method, task, blind, val, classes[0], first[0], min_agreement, extra)
        score, figures = SELECTIONS[selection](seen)
        episode = Episode(number, losses | figures, val, test, seconds, train)
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
    record.warnings = list(dict.fromkeys([*about_features, *method.warnings]))
    return record


def evaluate(
    method: Method, task: ShiftTask, blind: ShiftTask, extra: ExtraScores
) -> tuple[dict[str, float], dict[str, float], dict[str, float], Tensor]:
    """Set the unknown-class threshold on validation nodes and score the method after an episode.

    Returns:
        Scores on training, validation and test nodes, and predictions ``[2, V]`` as in
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
    val = scores_of(method, task, on_val, label, extra)
    test = scores_of(method, task, on_test, task.target.y[task.test], extra)
    named = on_target[:, : task.num_known].argmax(1)
    return train, val, test, torch.stack([method.decide(on_target), named])


def predict_sets(method: Method, task: ShiftTask) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores ``[n, K]`` of training, validation, test and all target nodes.

    ``task`` is the task as the method sees it.
    """
    source, validation, target = task.source, task.validation, task.target
    graphs = task.graphs().values()
    whole = {id(graph): method.predict(graph, task.role_of(graph)) for graph in graphs}
    on_source, on_val, on_target = (whole[id(graph)] for graph in (source, validation, target))
    return on_source[task.train], on_val[task.val], on_target[task.test], on_target

"""The only loop over episodes: evaluates, stops, restores the best state, and refuses NaN."""
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

from graphgym_srnc import parallel
from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.resume import random_state, set_random_state
from graphgym_srnc.options import Natural, OneOf, Range, Share, checked
from graphgym_srnc.task import HIDDEN, ShiftTask
from graphgym_srnc.train.metrics import ExtraScores, scores_of
from graphgym_srnc.train.selection import SELECTIONS

IN_PARALLEL = "1 or more, since several processes train together and share batches"
"""What ``batch_size`` has to be where there are several."""


@dataclass
class Episode:
    """One turn: its number (0 = pre-training), loss terms, scores, and seconds of training."""

    number: int
    losses: dict[str, float]
    val: dict[str, float]
    test: dict[str, float]
    seconds: float


@dataclass
class RunRecord:
    """All that a run leaves behind; ``val`` and ``test`` are scores of the selected episode.

    ``score`` is that of the selected episode by ``selection``; None where it has no finite one.
    ``verdict`` is for whoever calls :func:`graphgym_srnc.train.verdict.judge` once the cut is
    final, with ``first``, which is no part of what is stored.
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

    first = None
    """Of each target node in episode 0 the decision and the likeliest known class, ``[2, V]``;
    ``HIDDEN`` of nodes without a score."""

    def __repr__(self) -> str:
        scores = self.test or self.val if self.history else {}
        shown = ", ".join(f"{name} {scores[name]:.3f}" for name in ("micro_f1", "macro_f1")
                          if name in scores)
        return (f"RunRecord({self.task}: episode {self.best} of {len(self.history) - 1} by"
                f" {self.selection}{', ' * bool(shown)}{shown})")

    @property
    def val(self) -> dict[str, float]:
        return self.history[self.best].val

    @property
    def test(self) -> dict[str, float]:
        return self.history[self.best].test

    @classmethod
    def of(cls, fields: dict[str, Any]) -> RunRecord:
        """The record that ``dataclasses.asdict`` made these fields of."""
        return cls(**fields | {"history": [Episode(**episode) for episode in fields["history"]]})


Callback = Callable[[Episode, Method, ShiftTask], None]


class Checkpoint(Protocol):
    """Where the state of a run between two episodes is kept.

    A state is of tensors and plain values, in dictionaries, lists and tuples.
    """

    def read(self) -> dict[str, Any] | None:
        """The last state of this very run, or None; the same in all processes."""

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        """An episode is done and another one follows.

        ``state()`` gives the state, whose tensors the next episode changes.
        """


@checked
@parallel.together()
def fit(method: Method, task: ShiftTask, *, seed: int | None = 0,
        max_episodes: Annotated[int, Range(-1)] = -1, patience: Natural = 0,
        selection: Annotated[str, OneOf(*SELECTIONS)] = "target_val", min_agreement: Share = 0.6,
        callbacks: Sequence[Callback] = (), checkpoint: Checkpoint | None = None,
        extra: ExtraScores = ExtraScores()) -> RunRecord:
    """Train a method on a task; afterwards it holds the weights of the selected episode.

    Several processes of one group of ``torch.distributed`` train together, in batches: each calls
    this with an equal method, task and settings, and gets equal weights. Callbacks are the first
    one's, and it alone writes checkpoints.

    Args:
        method: what to train; it is shown ``task.blind()``.
        task: the scenario; that of ``task.oracle`` for a method which is one.
        seed: seeds the weights and every random draw of training, but not the split; None = torch's
            generator goes on as it is.
        max_episodes: at most so many after episode 0; -1 = as many as the method asks for.
        patience: stop after so many episodes in a row without a better selection score; 0 = never.
            The paper's "while Micro-F1 on validation increases" is 1.
        selection: what the best episode is chosen by: ``target_val``, ``source_val``,
            ``target_modularity`` or ``last``, see :mod:`graphgym_srnc.train.selection`.
        min_agreement: with ``target_modularity``, the least share of the target nodes that neither
            calls unknown on which an episode has to agree with episode 0.
        callbacks: called after each episode with it, the method and the task.
        checkpoint: keeps the state of the run after episodes. If it has one, training goes on from
            there, and weights and record become, but for seconds, those of a run that was never cut
            off, bit for bit; ``method`` has to be a new one.
        extra: scores beside those that every method has, and which of all selects an episode.

    Raises:
        InputError: ``selection`` is unknown, or the task lacks what it or the method needs.
        FloatingPointError: a loss term is NaN or infinite; names method, episode and term.
    """
    rule = SELECTIONS[selection](task, min_agreement, extra)
    right = method.batch_size > 0 or parallel.count() == 1
    method.require("batch_size", method.batch_size, right, IN_PARALLEL)
    held_out = bool((task.validation.y[task.val] < task.num_known).any())
    for option, needs in (("correction", "bbse"), ("cut", "share")):
        chosen = getattr(method, option)
        method.require(option, chosen, held_out or chosen != needs,
                       "another one, since no validation node is of a known class")
    if seed is not None:
        torch.manual_seed(seed)
    record = RunRecord(task=task.name, fingerprint=task.fingerprint(), selection=selection)
    parallel.check_alike("dataset", record.fingerprint)
    blind, best_score, best_state = task.blind(), -math.inf, {}

    found = checkpoint.read() if checkpoint is not None else None
    if found is not None:
        method.restore(blind, found["method"])
        record = RunRecord.of(json.loads(found["record"]))
        best_score, best_state, record.first = (
            found[name] for name in ("best_score", "best_state", "first"))
        set_random_state(found["random"], task.device)

    def state() -> dict[str, Any]:
        return {"method": method.checkpoint(), "record": json.dumps(asdict(record), default=float),
                "best_score": best_score, "best_state": best_state, "first": record.first,
                "random": random_state(task.device)}

    for number in itertools.count(len(record.history)):
        begin = time.perf_counter()
        losses = method.start(blind) if number == 0 else method.episode()
        seconds = time.perf_counter() - begin
        for term, value in losses.items():
            if not math.isfinite(value):
                name = type(method).__name__
                raise FloatingPointError(f"{name}, episode {number}: {term} is {value}")

        val, test, classes = evaluate(method, task, blind, extra, rule.reads_all)
        if record.first is None:
            record.first = classes
        score, figures = rule(method, blind, val, classes[0], record.first[0])
        episode = Episode(number, losses | figures, val, test, seconds)
        record.history.append(episode)
        if selection == "last" or score > best_score or not best_state:
            best_score, record.best = score, number
            record.score = float(score) if math.isfinite(score) else None
            best_state = copy.deepcopy(method.state_dict())

        with parallel.together(False):
            for callback in callbacks if parallel.first() else ():
                callback(episode, method, task)
        if patience and number - record.best >= patience:
            record.stopped = f"no better score by {selection} for {patience} episode(s)"
            break
        # Only after its start a method may know how many episodes it wants.
        if number >= (method.episodes if max_episodes < 0 else min(max_episodes, method.episodes)):
            record.stopped = f"all {number} episode(s) done"
            break
        if checkpoint is not None and parallel.first():
            checkpoint.write(state)

    method.load_state_dict(best_state)
    record.warnings = list(dict.fromkeys(method.warnings))
    return record


def evaluate(method: Method, task: ShiftTask, blind: ShiftTask, extra: ExtraScores,
             reads_all: bool) -> tuple[dict[str, float], dict[str, float], Tensor]:
    """Cut the unknown class on validation and score the method after an episode.

    Returns:
        Scores on validation and on test nodes, and of each target node the decision and the
        likeliest known class, ``[2, V]``: of all where ``reads_all``, else of those that
        :func:`predict_sets` gives.
    """
    label = task.validation.y[task.val]
    if len(label) and method.correction == "bbse":
        held_out = blind.validation, blind.role_of(blind.validation)
        method.learn_confusion(method.uncorrected(*held_out)[task.val], label)
    on_val, on_test, on_target, nodes = predict_sets(method, blind, reads_all)
    if len(label):
        method.calibrate(on_val, label, on_target)

    val = scores_of(method, task, on_val, label, extra)
    test = scores_of(method, task, on_test, task.target.y[task.test], extra)
    classes = torch.full((2, task.target.num_nodes), HIDDEN, device=task.device)
    classes[0, nodes] = method.decide(on_target)
    classes[1, nodes] = on_target[:, :task.num_known].argmax(1)
    return val, test, classes


def predict_sets(method: Method, task: ShiftTask, reads_all: bool = False,
                 ) -> tuple[Tensor, Tensor, Tensor, Tensor | slice]:
    """A method's scores ``[n, K]`` of validation nodes, of test nodes and of the target, and which
    of its nodes these are: all, or the test nodes where some are scored for less than all."""
    target, held_out = task.target, (task.validation, task.role_of(task.validation))
    if method.by_node and not reads_all and len(task.test):
        if held_out[0] is target:
            both = method.predict_at(target, torch.cat([task.val, task.test]))
            on_val, on_test = both.split([len(task.val), len(task.test)])
        else:
            on_val = method.predict_at(held_out[0], task.val, held_out[1])
            on_test = method.predict_at(target, task.test)
        return on_val, on_test, on_test, task.test
    on_target = on_val = method.predict(target)
    if held_out[0] is not target:
        on_val = method.predict(*held_out)
    return on_val[task.val], on_target[task.test], on_target, slice(None)

"""The only loop over episodes: evaluates, selects, stops, restores the best state, and refuses NaN."""
from __future__ import annotations

import copy
import itertools
import json
import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Protocol, Sequence

import torch

from graphgym_srnc import parallel
from graphgym_srnc.backbones import prepare
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.modularity import modularity
from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.training import random_state, set_random_state
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.train.metrics import classification_scores, detection_scores
from graphgym_srnc.train.verdict import agreement, judge

IN_PARALLEL = "1 or more, since several processes train together and share batches"
"""What ``batch_size`` has to be where there are several."""

SELECTIONS = ("target_val", "source_val", "target_modularity", "last")


@dataclass
class Episode:
    """One turn: its number (0 = pre-training), loss terms, scores on validation and test, and seconds of training."""

    number: int
    losses: dict[str, float]
    val: dict[str, float]
    test: dict[str, float]
    seconds: float


@dataclass
class RunRecord:
    """All that a run leaves behind; ``scores`` are those of the selected episode."""

    task: str
    fingerprint: str
    selection: str
    history: list[Episode] = field(default_factory=list)
    best: int = 0
    stopped: str = ""
    warnings: list[str] = field(default_factory=list)
    verdict: dict[str, Any] = field(default_factory=dict)

    @property
    def val(self) -> dict[str, float]:
        return self.history[self.best].val

    @property
    def test(self) -> dict[str, float]:
        return self.history[self.best].test


Callback = Callable[[Episode, Method, ShiftTask], None]


class Checkpoint(Protocol):
    """Where the state of a run between two episodes is kept: tensors and plain values, in dictionaries, lists and tuples."""

    def read(self) -> dict[str, Any] | None:
        """The last state of this very run (method, task and settings), or None; the same in all processes."""

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        """An episode is done and another one follows; ``state()`` gives the state, whose tensors the next episode changes."""


@parallel.together()
def fit(method: Method, task: ShiftTask, *, seed: int | None = 0, max_episodes: int = -1, patience: int = 0, selection: str = "target_val",
        min_agreement: float = 0.6, callbacks: Sequence[Callback] = (), checkpoint: Checkpoint | None = None) -> RunRecord:
    """Train a method on a task; afterwards it holds the weights of the selected episode.

    Several processes of one group of ``torch.distributed`` train together, in batches: each calls this with an equal method, task and
    settings, and gets equal weights. Callbacks are the first one's, and it alone writes checkpoints.

    Args:
        method: what to train; it is shown ``task.blind()`` (of ``task.oracle`` if it asks for that).
        task: the scenario.
        seed: seeds the weights and every random draw of training, but not the split; None = torch's generator goes on as it is.
        max_episodes: at most so many after episode 0; -1 = as many as the method asks for.
        patience: stop after so many episodes in a row without a better selection score; 0 = never. The paper's "while
            Micro-F1 on validation increases" is 1.
        selection: ``target_val`` (Micro-F1 on the validation nodes, as in the paper), ``source_val`` (the same on held-out
            source nodes), ``target_modularity`` (Newman's modularity of the predicted classes on the target graph, which takes no
            label) or ``last``.
        min_agreement: with ``target_modularity``, an episode that agrees with episode 0 (the plain GNN, in SRNC) on a smaller share of
            the target nodes is not selected: modularity is as high for communities that are not the classes.
        callbacks: called after each episode with it, the method and the task.
        checkpoint: keeps the state of the run after episodes. If it has one, training goes on from there, and weights and record
            become, but for seconds, those of a run that was never cut off, bit for bit; ``method`` has to be a new one.

    Raises:
        InputError: ``selection`` is unknown, or the task lacks what it needs.
        FloatingPointError: a loss term is NaN or infinite; names method, episode and term.
    """
    name = type(method).__name__
    if selection not in SELECTIONS:
        raise InputError("train.selection", selection, ", ".join(SELECTIONS))
    if method.oracle:
        if task.oracle is None:
            raise InputError("train.mode", name, f"a method without full class visibility, since {task.name} has no oracle")
        task = task.oracle
    if not 0 <= min_agreement <= 1:
        raise InputError("train.min_agreement", min_agreement, "a share in [0, 1]")
    if selection == "source_val" and not task.source_val.numel():
        raise InputError("train.selection", selection, "a task with held-out source nodes, or target_val, or last")
    if selection == "target_val" and not task.val.numel():
        raise InputError("train.selection", selection, "a task with validation nodes, or target_modularity, or last")
    method.require("batch_size", method.batch_size, method.batch_size > 0 or parallel.count() == 1, IN_PARALLEL)
    if seed is not None:
        torch.manual_seed(seed)
    record = RunRecord(task=task.name, fingerprint=task.fingerprint(), selection=selection)
    parallel.check_alike("dataset", record.fingerprint)
    blind, select = task.blind(), Selector(task, selection, min_agreement)
    best_score, best_state = -math.inf, {}
    found = checkpoint.read() if checkpoint is not None else None
    if found is not None:
        method.restore(blind, found["method"])
        record = _record(found["record"])
        best_score, best_state, select.plain = found["best_score"], found["best_state"], found["plain"]
        set_random_state(found["random"], task.device)

    def state() -> dict[str, Any]:
        return {"method": method.checkpoint(), "record": json.dumps(asdict(record), default=float), "best_score": best_score,
                "best_state": best_state, "plain": select.plain, "random": random_state(task.device)}

    for number in itertools.count(len(record.history)):
        begin = time.perf_counter()
        losses = method.start(blind) if number == 0 else method.episode()
        seconds = time.perf_counter() - begin
        for term, value in losses.items():
            if not math.isfinite(value):
                raise FloatingPointError(f"{name}, episode {number}: {term} is {value}")
        val, test, score, told = select(method, blind)
        episode = Episode(number, losses | told, val, test, seconds)
        record.history.append(episode)
        if selection == "last" or score > best_score:
            best_score, record.best = score, number
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
    on_target = method.predict(blind.target)
    agreed = agreement(select.plain[1], method.decide(on_target), task.num_known)
    record.verdict = judge(method, task, agreed, on_target)._asdict()
    return record


def _record(text: str) -> RunRecord:
    fields = json.loads(text)
    return RunRecord(**fields | {"history": [Episode(**episode) for episode in fields["history"]]})


class Selector:
    """Scores a method after an episode, and says how good a choice the episode is.

    Args:
        task: the scenario.
        selection, min_agreement: see :func:`fit`.
    """

    def __init__(self, task: ShiftTask, selection: str, min_agreement: float) -> None:
        self.task, self.selection, self.min_agreement = task, selection, min_agreement
        # Of each target node in episode 0 the decision and, below, the likeliest known class.
        self.plain: torch.Tensor | None = None

    def __call__(self, method: Method, blind: ShiftTask) -> tuple[dict[str, float], dict[str, float], float, dict[str, float]]:
        """Scores on validation and test, the score to select by, and what is to be told beside the loss terms."""
        task = self.task
        on_target = method.predict(blind.target)
        on_val = on_target if blind.validation is blind.target else method.predict(blind.validation)
        label = task.validation.y[task.val]
        if len(label):
            method.calibrate(on_val[task.val], label)
        val, test = rate(method, task, on_val[task.val], label), rate(method, task, on_target[task.test], task.target.y[task.test])
        prediction = method.decide(on_target)
        if self.plain is None:
            self.plain = torch.stack([prediction, on_target[:, :task.num_known].argmax(1)])
        if self.selection == "source_val":
            on_source = method.predict(blind.source)[task.source_val]
            return val, test, rate(method, task, on_source, task.source.y[task.source_val])["micro_f1"], {}
        if self.selection != "target_modularity":
            return val, test, val.get("micro_f1", -math.inf), {}
        agreed = float((prediction == self.plain[0]).float().mean())
        graph = prepare(blind.target, method.encoder.features)
        found = modularity(prediction, graph.adjacency("raw"), graph.degree)
        return val, test, found if agreed >= self.min_agreement else -math.inf, {"agreement": agreed, "class_modularity": found}


def rate(method: Method, task: ShiftTask, scores: torch.Tensor, label: torch.Tensor) -> dict[str, float]:
    """Every figure of a method's scores ``[n, N(+1)]`` on nodes with labels ``[n]``; none where there is no node."""
    if not len(label):
        return {}
    found = classification_scores(method.decide(scores), label, task.num_known, task.open_set)
    return found | (detection_scores(method.confidence(scores), label == task.num_known) if task.open_set else {})

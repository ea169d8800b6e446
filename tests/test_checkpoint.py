"""Runs that are cut off and go on equal whole ones bit for bit; other files are not used."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
from conftest import make_task
from test_methods import make, some
from torch import Tensor

from graphgym_srnc import methods
from graphgym_srnc.backbones import dgi
from graphgym_srnc.core import environment
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.gym import run as runs
from graphgym_srnc.io import atomic, records, store, tensors
from graphgym_srnc.methods import srnc
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import trainer

TINY = {
    "steps": 2,
    "rounds": 2,
    "enlarging": 0.5,
    "pretrain_steps": 2,
    "cluster_source_steps": 2,
    "cluster_steps": 2,
    "num_clusters": 8,
}
IN_BATCHES = {"batch_size": 6, "fanout": 3}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((name, "gcnconv", {}) for name in methods.names()),
    *(("srnc", kind, {}) for kind in ("gatconv", "sgconv")),
    *((name, "dgi", {}) for name in ("srnc", "pgl", "srnc_plus")),
    ("srnc", "gcnconv", {"cluster_init": "source", "alpha": 0.5, "smoothing": 2}),
    ("srnc", "gcnconv", {"pseudo_labels": "classifier"}),
    ("srnc_plus", "gcnconv", {"spare": 3, "resolution": 1.0, "doubt": 0.0, "rounds": 3}),
    ("srnc", "sageconv", IN_BATCHES),
    ("dann", "gcnconv", IN_BATCHES),
    ("erm", "gcnconv", {"score": "openmax"}),
]
train_infomax = dgi.train_infomax
SHAPES = {"open": {}, "close": {"open_set": False, "two_graphs": True}}


class Kept:
    """A checkpoint in memory: every state it was shown, and the one to go on from, as files."""

    def __init__(self, start: bytes | None = None) -> None:
        self.start, self.states = start, []

    def read(self) -> dict[str, Any] | None:
        if self.start is None:
            return None
        about, values = tensors.parse(self.start)
        return tensors.join(about["state"], values)

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        values: dict[str, Tensor] = {}
        self.states.append(tensors.dump({"state": tensors.split(state(), values)}, values))


def bare(record: trainer.RunRecord) -> dict[str, Any]:
    """A record without seconds."""
    fields = dataclasses.asdict(record)
    for episode in fields["history"]:
        del episode["seconds"]
    return fields


def bits(method: Method) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}


def check_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.dtype == second[name].dtype and torch.equal(value, second[name]), name


def go(
    method: Method, task: ShiftTask, checkpoint: Kept | None, **options: Any
) -> tuple[trainer.RunRecord, list[dict[str, Tensor]]]:
    """Train with weights and prediction noted after each episode."""
    noted = []

    def note(episode: trainer.Episode, method: Method, task: ShiftTask) -> None:
        noted.append(
            bits(method)
            | {"prediction": method.predict(task.target), "random": torch.get_rng_state()}
        )

    record = trainer.fit(method, task, seed=3, callbacks=[note], checkpoint=checkpoint, **options)
    return record, noted


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    """Cluster GNNs begin with three steps."""
    monkeypatch.setattr(srnc, "PRETRAIN_STEPS", 3)


@pytest.mark.parametrize(
    "number, name, kind, options", [(k, *case) for k, case in enumerate(CASES)]
)
def test_cut_off_after_any_episode(monkeypatch, number, name, kind, options):
    task = make_task(**SHAPES["open" if number % 2 else "close"])
    monkeypatch.setattr(
        dgi, "train_infomax", lambda graph, hidden: train_infomax(graph, hidden=hidden, steps=2)
    )

    def new() -> Method:
        return make(name, kind, hidden=4, **some(methods.find(name), TINY) | options)

    whole, kept = new(), Kept()
    record, noted = go(whole, task, kept)
    assert len(kept.states) == len(record.history) - 1 >= 1
    # Nothing of what a run learns before its first episode is learnt again.
    monkeypatch.setattr(dgi, "train_infomax", None)
    monkeypatch.setattr(methods.find(name), "start", None)
    for number, state in enumerate(kept.states):
        torch.manual_seed(100 + number)
        method, again = new(), Kept(state)
        resumed, later = go(method, task, again)
        assert bare(resumed) == bare(record) and len(again.states) == len(kept.states) - number - 1
        for one, other in zip(later, noted[number + 1 :], strict=True):
            check_equal(one, other)
        check_equal(bits(method), bits(whole))
        assert torch.equal(method.predict(task.target), whole.predict(task.target))
        assert method.episodes == whole.episodes


@pytest.mark.parametrize("selection, patience", [("last", 0), ("target_val", 2)])
def test_selection_goes_on(selection, patience):
    options = some(methods.find("srnc"), TINY | {"rounds": 6})
    task, kept, chosen = make_task(), Kept(), {"selection": selection, "patience": patience}
    record, _ = go(make("srnc", hidden=4, **options), task, kept, **chosen)
    for state in kept.states:
        resumed, _ = go(make("srnc", hidden=4, **options), task, Kept(state), **chosen)
        assert bare(resumed) == bare(record)


# ---- the file ----


class Lines(list, runs.Quiet):
    """Messages for the user."""

    def say(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def experiment(tmp_path) -> store.Experiment:
    experiment = store.Experiment(tmp_path, "some", {"train": {"mode": "erm"}})
    experiment.begin(0)
    return experiment


def recorder(
    experiment: store.Experiment, *, seed: int = 0, split: str = "s", share: float = 1.0
) -> runs.Recorder:
    made = runs.Recorder(seed, share, experiment, Lines(), runs.Extras(), True)
    made.split = split
    return made


def test_file(experiment):
    first = recorder(experiment)
    assert first.read() is None and not first.watch, "no file, no word"
    first.write(lambda: {"weights": torch.arange(3.0)})
    again = recorder(experiment)
    again.resume = False
    assert again.read() is None
    again.resume = True
    assert torch.equal(again.read()["weights"], torch.arange(3.0))
    assert again.seconds() > first.before["seconds"]
    assert again.watch == ["seed 0 continues from its checkpoint"]


def test_damaged_files_are_not_used(experiment):
    kept = recorder(experiment)
    kept.write(lambda: {"weights": torch.zeros(2000)})
    whole = kept.path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    foreign = tensors.dump({"key": kept._key(), "state": {"dict": [["a", 1]]}}, {})
    for content in (b"", b"nothing", bytes(flipped), whole[:-1], foreign):
        kept.path.write_bytes(content)
        again = recorder(experiment)
        assert again.read() is None, content[:20]
        (line,) = again.watch
        assert line.startswith("warning") and "Seed 0 starts from" in line


@pytest.mark.parametrize("change", ["config", "split", "seed", "versions"])
def test_files_of_other_runs_are_not_used(experiment, monkeypatch, change):
    recorder(experiment).write(lambda: {})
    options = {}
    if change == "config":
        experiment.digest = "another"
    elif change == "split":
        options["split"] = "another"
    elif change == "seed":
        (experiment.path / "1").mkdir()
        file = experiment.path / "0" / records.CHECKPOINT
        file.rename(experiment.path / "1" / records.CHECKPOINT)
        options["seed"] = 1
    else:
        versions = environment.versions() | {"torch": "9.9"}
        monkeypatch.setattr(environment, "versions", lambda: versions)
    again = recorder(experiment, **options)
    assert again.read() is None and f"different {change})" in again.watch[0]


@pytest.mark.parametrize("share, least, most", [(0.25, 40, 60), (0.0, 0, 0)])
def test_writing_takes_a_share_of_the_time(experiment, monkeypatch, share, least, most):
    """By a clock that an episode moves by one second and a write by half of one."""
    now, writes = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    kept = recorder(experiment, share=share)

    def state() -> dict[str, Any]:
        writes.append(now[0])
        now[0] += 0.5
        return {}

    for _ in range(100):
        now[0] += 1
        kept.write(state)
    assert least <= len(writes) <= most
    assert share == 1 or len(writes) * 0.5 <= share * now[0] + 0.5


def test_a_full_disk_stops_no_run(experiment, monkeypatch):
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    kept = recorder(experiment)
    monkeypatch.setattr(atomic, "write_bytes", full)
    kept.write(lambda: {})
    kept.write(lambda: {})
    assert len(kept.watch) == 1 and "No space left on device" in kept.watch[0]


# ---- the command line ----

WORDS = """--name default synthetic.num_nodes 300 synthetic.num_val 60 synthetic.num_test 100
gnn.dim_inner 8 train.mode srnc srnc.rounds 8 srnc.steps 20 train.checkpoint 1""".split()


@pytest.mark.usefixtures("unchanged_globals")
def test_a_grid_tries_a_run_again_from_its_checkpoint(tmp_path, monkeypatch):
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.sweep.jobs import Job
    from graphgym_srnc.sweep.worker import execute

    cfg = load_config(None, [*WORDS[2:], "srnc.rounds", "2", "srnc.steps", "2"])
    jobs, srnc = [], methods.find("srnc")
    for name in ("whole", "cut"):
        jobs.append(Job(str(tmp_path), name, 0, cfg, {"tensorboard": False}))
    execute(jobs[0])
    with monkeypatch.context() as patch:
        patch.setattr(srnc, "episode", raise_after(srnc.episode, 1))
        with pytest.raises(MemoryError):
            execute(jobs[1])
    whole, cut = tmp_path / "whole" / "0", tmp_path / "cut" / "0"
    atomic.write_text(cut / "error.txt", "why")
    (cut / f".{records.CHECKPOINT}.1.tmp").touch()
    with monkeypatch.context() as patch:
        patch.setattr(srnc, "start", None)
        execute(jobs[1])
    assert record(cut) == record(whole)
    assert {path.name for path in cut.iterdir()} == {path.name for path in whole.iterdir()}
    assert execute(jobs[1]._replace(overwrite=True)) and record(cut) == record(whole)


def raise_after(function: Callable, calls: int) -> Callable:
    """The function, which fails after so many calls."""
    left = iter(range(calls))

    def wrapped(*args: Any) -> Any:
        if next(left, None) is None:
            raise MemoryError
        return function(*args)

    return wrapped


def record(run: Path) -> dict[str, Any]:
    """The result of a run without where it is and what it took."""
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    for episode in result["history"]:
        del episode["seconds"]
    for key in ("seconds", "peak_memory_mib", "config"):
        del result[key]
    return result

"""Runs that are cut off and go on equal whole ones bit for bit; other files are not used."""

from __future__ import annotations

import json
import time
from typing import Any, Callable

import pytest
import torch
from conftest import make_task
from tasks import known_options, tiny_method, without_seconds
from torch import Tensor

from graphgym_srnc import methods
from graphgym_srnc.backbones import dgi
from graphgym_srnc.core import environment
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.gym import run as runs
from graphgym_srnc.io import atomic, records, store, tensors
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import trainer

pytestmark = pytest.mark.usefixtures("hardly_pretrained")

IN_BATCHES = {"batch_size": 6, "fanout": 3}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((name, "gcnconv", {}) for name in methods.names()),
    *(("erm", kind, {}) for kind in ("gatconv", "sgconv")),
    *((name, "dgi", {}) for name in ("srnc", "pgl", "srnc_plus")),
    ("srnc", "gcnconv", {"cluster_init": "source", "alpha": 0.5, "smoothing": 2}),
    ("srnc_plus", "gcnconv", {"spare": 3, "resolution": 1.0, "doubt": 0.0, "rounds": 3}),
    ("srnc", "sageconv", IN_BATCHES),
    ("dann", "gcnconv", IN_BATCHES),
    ("erm", "gcnconv", {"confidence": "openmax"}),
]
train_infomax = dgi.train_infomax
SHAPES = {"open": {}, "close": {"open_set": False, "two_graphs": True}}


class MemoryCheckpoint:
    """A checkpoint in memory: every state it was shown, and the one to go on from, as files."""

    def __init__(self, start: bytes | None = None) -> None:
        self.start = start
        self.states = []

    def read(self) -> dict[str, Any] | None:
        if self.start is None:
            return None
        about, values = tensors.parse(self.start)
        return tensors.join(about["state"], values)

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        values: dict[str, Tensor] = {}
        self.states.append(tensors.dump({"state": tensors.split(state(), values)}, values))


def bits(method: Method) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}


def check_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.dtype == second[name].dtype and torch.equal(value, second[name]), name


def train_and_note(
    method: Method, task: ShiftTask, checkpoint: MemoryCheckpoint | None, **options: Any
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


@pytest.mark.parametrize(
    "number, name, kind, options", [(k, *case) for k, case in enumerate(CASES)]
)
def test_cut_off_after_any_episode(monkeypatch, number, name, kind, options):
    task = make_task(**SHAPES["open" if number % 2 else "close"])
    monkeypatch.setattr(
        dgi, "train_infomax", lambda graph, hidden: train_infomax(graph, hidden=hidden, steps=2)
    )

    def new() -> Method:
        several = known_options(methods.find(name), {"rounds": 2})
        return tiny_method(name, kind, hidden=4, **several | options)

    whole = new()
    kept = MemoryCheckpoint()
    record, noted = train_and_note(whole, task, kept)
    assert len(kept.states) == len(record.history) - 1 >= 1
    # Nothing of what a run learns before its first episode is learnt again.
    monkeypatch.setattr(dgi, "train_infomax", None)
    monkeypatch.setattr(methods.find(name), "start", None)
    for number, state in enumerate(kept.states):
        torch.manual_seed(100 + number)
        method = new()
        again = MemoryCheckpoint(state)
        resumed, later = train_and_note(method, task, again)
        assert (
            without_seconds(resumed) == without_seconds(record)
            and len(again.states) == len(kept.states) - number - 1
        )
        for one, other in zip(later, noted[number + 1 :], strict=True):
            check_equal(one, other)
        check_equal(bits(method), bits(whole))
        assert torch.equal(method.predict(task.target), whole.predict(task.target))
        assert method.episodes == whole.episodes


# ---- the file ----


class Lines(list):
    """Messages for the user."""

    def say(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def experiment(tmp_path) -> store.Experiment:
    experiment = store.Experiment(tmp_path, "some", {"train": {"mode": "erm"}})
    experiment.begin(0)
    return experiment


def recorder(experiment: store.Experiment, split: str = "s", share: float = 1.0) -> runs.Recorder:
    return runs.Recorder(0, share, experiment, Lines(), runs.Extras(), True, split)


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
    foreign = tensors.dump({"key": kept.key(), "state": {"dict": [["a", 1]]}}, {})
    for content in (b"", b"nothing", bytes(flipped), whole[:-1], foreign):
        kept.path.write_bytes(content)
        again = recorder(experiment)
        assert again.read() is None, content[:20]
        (line,) = again.watch
        assert line.startswith("warning") and "Seed 0 starts from" in line


@pytest.mark.parametrize("change", ["config", "split", "seed", "versions"])
def test_files_of_other_runs_are_not_used(experiment, monkeypatch, change):
    recorder(experiment).write(lambda: {})
    again = recorder(experiment, split="another" if change == "split" else "s")
    if change == "config":
        experiment.digest = "another"
    elif change == "seed":
        again.seed = 1
    elif change == "versions":
        versions = environment.versions() | {"torch": "9.9"}
        monkeypatch.setattr(environment, "versions", lambda: versions)
    assert again.read() is None and f"different {change})" in again.watch[0]


def test_writing_takes_a_share_of_the_time(experiment, monkeypatch):
    """By a clock that an episode moves by one second and a write by half of one."""
    now = [0.0]
    writes = []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    kept = recorder(experiment, share=0.25)

    def state() -> dict[str, Any]:
        writes.append(now[0])
        now[0] += 0.5
        return {}

    for _ in range(100):
        now[0] += 1
        kept.write(state)
    assert 40 <= len(writes) <= 60


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
    whole, cut = (Job(str(tmp_path), name, 0, cfg, {"tensorboard": False}) for name in ("a", "b"))
    execute(whole)
    srnc = methods.find("srnc")
    calls = []
    episode = srnc.episode

    def second_fails(*args: Any) -> Any:
        calls.append(args)
        return episode(*args) if len(calls) == 1 else 1 / 0

    with monkeypatch.context() as patch:
        patch.setattr(srnc, "episode", second_fails)
        with pytest.raises(ZeroDivisionError):
            execute(cut)
    places = tmp_path / "a" / "0", tmp_path / "b" / "0"
    atomic.write_text(places[1] / "error.txt", "why")
    (places[1] / f".{records.CHECKPOINT}.1.tmp").touch()
    with monkeypatch.context() as patch:
        patch.setattr(srnc, "start", None)
        execute(cut)
    found = [json.loads((place / "result.json").read_text(encoding="utf-8")) for place in places]
    for result in found:
        for episode in result["history"]:
            del episode["seconds"]
        for key in ("seconds", "peak_memory_mib", "config"):
            del result[key]
    assert found[0] == found[1]
    files = [{path.name for path in place.iterdir()} for place in places]
    assert files[0] == files[1] and records.CHECKPOINT not in files[0]

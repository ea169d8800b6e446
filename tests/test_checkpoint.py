"""Runs that are cut off after any episode and go on are, bit for bit, those that were not; a file that does not fit is not used."""
from __future__ import annotations

import dataclasses
import io
import json
import os
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import torch
from conftest import make_task
from test_methods import make, some
from torch import Tensor

from graphgym_srnc import atomic, methods, store
from graphgym_srnc.backbones import dgi
from graphgym_srnc.methods.base import Method
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.train import trainer

SRC = Path(__file__).parent.parent
TINY = {"steps": 2, "rounds": 2, "enlarging": 0.5, "pretrain_steps": 2, "cluster_pretrain_steps": 3, "cluster_source_steps": 2,
        "cluster_steps": 2, "num_clusters": 8, "samples": 3, "proxy_dim": 8}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((name, "gcnconv", {}) for name in methods.names()), *(("srnc", kind, {}) for kind in ("sageconv", "gatconv", "sgconv", "mlp")),
    *((name, "dgi", {}) for name in ("srnc", "pgl", "g2pxy", "strurw")),
    *(("srnc", "gcnconv", options) for options in (
        {"members": 2, "rounds": 2, "resolutions": [1.0, 2.0]}, {"resolutions": [], "rounds": 1}, {"self_training": 2, "rounds": 1},
        {"cluster_init": "source"}, {"source_posterior": "classifier", "alpha": 0.5}, {"pseudo_labels": "classifier"},
        {"product": 1.0, "calibrated": True, "smoothing": 2})),
    *((name, kind, {"batch_size": 6, "fanout": 3}) for name, kind in (("srnc", "sageconv"), ("dann", "gcnconv"), ("pgl", "gcnconv"))),
    ("srnc", "dgi", {"self_training": 1, "rounds": 1, "resolutions": [1.0, 2.0]}),
    *(("erm", "gcnconv", {"score": score}) for score in ("openmax", "gnnsafe")),
    ("srgnn", "gcnconv", {"target_nodes": 20}), ("dann", "dgi", {"target_nodes": 20}),
]
train_infomax = dgi.train_infomax
SHAPES = {"open": {}, "close": {"open_set": False, "two_graphs": True}}


class Kept:
    """A checkpoint in memory, through the bytes of a file: every state it was shown, and the one to go on from."""

    def __init__(self, start: bytes | None = None) -> None:
        self.start, self.states = start, []

    def read(self) -> dict[str, Any] | None:
        return None if self.start is None else torch.load(io.BytesIO(self.start), weights_only=True)

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        buffer = io.BytesIO()
        torch.save(state(), buffer)
        self.states.append(buffer.getvalue())


def bare(record: trainer.RunRecord) -> dict[str, Any]:
    """A record without seconds."""
    told = dataclasses.asdict(record)
    for episode in told["history"]:
        del episode["seconds"]
    return told


def bits(method: Method) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}


def check_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.dtype == second[name].dtype and torch.equal(value, second[name]), name


def go(method: Method, task: ShiftTask, checkpoint: Kept | None, **options: Any) -> tuple[trainer.RunRecord, list[dict[str, Tensor]]]:
    """Train with weights and prediction noted after each episode."""
    noted = []

    def note(episode: trainer.Episode, method: Method, task: ShiftTask) -> None:
        noted.append(bits(method) | {"prediction": method.predict(task.target), "random": torch.get_rng_state()})

    return trainer.fit(method, task, seed=3, callbacks=[note], checkpoint=checkpoint, **options), noted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name, kind, options", CASES, ids=lambda value: str(value) if isinstance(value, (str, dict)) else None)
def test_cut_off_after_any_episode(monkeypatch, name, kind, options, shape):
    task = make_task(**SHAPES[shape])
    monkeypatch.setattr(dgi, "train_infomax", lambda graph, hidden: train_infomax(graph, hidden=hidden, steps=2))

    def new() -> Method:
        return make(name, kind, hidden=4, **some(methods.find(name), TINY) | options)

    whole, kept = new(), Kept()
    record, noted = go(whole, task, kept)
    assert len(kept.states) == len(record.history) - 1 >= 1
    # Nothing of what a run learns before its first episode is learnt again, cache or no cache.
    monkeypatch.setattr(dgi, "train_infomax", None)
    monkeypatch.setenv("GRAPHGYM_SRNC_CACHE", "off")
    monkeypatch.setattr(methods.find(name), "start", None)
    for number, state in enumerate(kept.states):
        torch.manual_seed(100 + number)
        method, again = new(), Kept(state)
        resumed, later = go(method, task, again)
        assert bare(resumed) == bare(record) and len(again.states) == len(kept.states) - number - 1
        for one, other in zip(later, noted[number + 1:], strict=True):
            check_equal(one, other)
        check_equal(bits(method), bits(whole))
        assert torch.equal(method.predict(task.target), whole.predict(task.target)) and method.episodes == whole.episodes


@pytest.mark.parametrize("name", ["srnc", "erm"])
def test_keeping_a_state_changes_nothing(task, name):
    new = partial(make, name, hidden=4, **some(methods.find(name), TINY))
    (record, noted), (watched, others) = go(new(), task, None), go(new(), task, Kept())
    assert bare(record) == bare(watched)
    for one, other in zip(noted, others, strict=True):
        check_equal(one, other)


@pytest.mark.parametrize("selection, patience", [("last", 0), ("target_modularity", 0), ("target_val", 2)])
def test_selection_goes_on(selection, patience):
    options = some(methods.find("srnc"), TINY | {"rounds": 6})
    task, kept, chosen = make_task(), Kept(), {"selection": selection, "patience": patience}
    record, _ = go(make("srnc", hidden=4, **options), task, kept, **chosen)
    for state in kept.states:
        resumed, _ = go(make("srnc", hidden=4, **options), task, Kept(state), **chosen)
        assert bare(resumed) == bare(record)


def test_any_optimiser_goes_on(task):
    def new() -> Method:
        make_optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)  # noqa: E731
        return methods.find("erm")(make_optimizer=make_optimizer, rounds=3, steps=2)

    kept, whole = Kept(), new()
    go(whole, task, kept)
    method = new()
    go(method, task, Kept(kept.states[1]))
    check_equal(bits(method), bits(whole))


def test_cluster_gnns_of_later_resolutions_wait_in_it(task):
    kept = Kept()
    options = TINY | {"resolutions": [], "rounds": 1, "candidates": 3, "num_clusters": 4}
    record, _ = go(make("srnc", hidden=4, **some(methods.find("srnc"), options)), task, kept)
    waiting = [[probe["resolution"] for probe in Kept(state).read()["method"]["probes"]] for state in kept.states]
    assert len(record.history) == 4 and list(map(len, waiting)) == [2, 2, 1]


# ---- the file ----


@pytest.fixture
def place(tmp_path) -> store.Experiment:
    place = store.Experiment(tmp_path, "some", {"train": {"mode": "erm"}})
    place.begin(0)
    return place


def checkpoint(place: store.Experiment, *, seed: int = 0, split: str = "s", share: float = 1.0, said: list | None = None,
               resume: bool = True) -> Any:
    from graphgym_srnc.runs.checkpoint import Checkpoint
    return Checkpoint(place, seed, "erm", split, share, (said if said is not None else []).append, resume, lambda: {"train": [0.5]})


def test_file_and_generators(place):
    said = []
    assert checkpoint(place, said=said).read() is None and not said, "no file, no word"
    random.seed(1)
    np.random.seed(2)
    np.random.randn()  # half of a pair of draws
    checkpoint(place).write(lambda: {"weights": torch.arange(3.0)})
    drawn = random.random(), np.random.randn(), np.random.rand(3)
    assert checkpoint(place, resume=False).read() is None
    again = checkpoint(place, said=said)
    assert torch.equal(again.read()["weights"], torch.arange(3.0)) and again.found == {"train": [0.5]}
    assert said == ["seed 0 goes on from its checkpoint"]
    assert (random.random(), np.random.randn()) == drawn[:2] and (np.random.rand(3) == drawn[2]).all()


class Code:
    """Unpickled it would run."""

    def __reduce__(self) -> tuple:
        return os.mkdir, ("made-by-a-pickle",)


def test_damaged_files_are_not_used(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = checkpoint(place)
    kept.write(lambda: {"weights": torch.zeros(2000)})
    whole = kept.path.read_bytes()
    foreign, code = io.BytesIO(), io.BytesIO()
    torch.save({"weights": torch.zeros(3)}, foreign)
    torch.save(Code(), code)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    bad = [b"", b"no zip", bytes(flipped), foreign.getvalue(), code.getvalue(), *(whole[:end] for end in range(1, len(whole), 997))]
    for content in bad:
        kept.path.write_bytes(content)
        said = []
        assert checkpoint(place, said=said).read() is None, content[:20]
        assert len(said) == 1 and said[0].startswith("warning") and said[0].endswith("seed 0 starts anew")
    assert not Path("made-by-a-pickle").exists()


@pytest.mark.parametrize("change", ["config", "split", "seed", "code", "versions"])
def test_files_of_other_runs_are_not_used(place, monkeypatch, change):
    from graphgym_srnc.runs import checkpoint as checkpoints
    checkpoint(place).write(lambda: {})
    options, said = {}, []
    if change == "config":
        place.digest = "another"
    elif change == "split":
        options["split"] = "another"
    elif change == "seed":
        (place.path / "1").mkdir()
        (place.path / "0" / store.CHECKPOINT).rename(place.path / "1" / store.CHECKPOINT)
        options["seed"] = 1
    elif change == "code":
        monkeypatch.setattr(checkpoints, "source_digest", lambda *modules: "another")
    else:
        versions = store.environment()["versions"] | {"torch": "9.9"}
        monkeypatch.setattr(store, "environment", lambda: {"versions": versions})
    assert checkpoint(place, said=said, **options).read() is None and f"another {change})" in said[0]


@pytest.mark.parametrize("share, least, most", [(0.02, 3, 5), (0.25, 40, 60), (1.0, 100, 100), (0.0, 0, 0)])
def test_writing_takes_a_share_of_the_time(place, monkeypatch, share, least, most):
    """By a clock that an episode moves by one second and a write by half of one."""
    now, writes = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    kept = checkpoint(place, share=share)

    def state() -> dict[str, Any]:
        writes.append(now[0])
        now[0] += 0.5
        return {}

    for _ in range(100):
        now[0] += 1
        kept.write(state)
    assert least <= len(writes) <= most and (share == 1 or len(writes) * 0.5 <= share * now[0] + 0.5)


def test_a_full_disk_stops_no_run(place, monkeypatch):
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    said = []
    kept = checkpoint(place, said=said)
    monkeypatch.setattr(store, "write_bytes", full)
    kept.write(lambda: {})
    kept.write(lambda: {})
    assert len(said) == 1 and "No space left on device" in said[0]


# ---- the command line ----

WORDS = ["synthetic.num_nodes", "300", "synthetic.num_val", "60", "synthetic.num_test", "100", "gnn.dim_inner", "8", "train.mode", "srnc",
         "srnc.rounds", "8", "srnc.steps", "20", "train.checkpoint", "1"]
KILLED = """
import os, signal, sys, time
import matplotlib.pyplot, torch.utils.tensorboard
from graphgym_srnc.cli.main import main
from graphgym_srnc.gym import runs
from graphgym_srnc.report import embedding, figures
def start(out, *words):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.path.join(sys.argv[1], out + ".txt"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), 1)
        os._exit(main(["run", "--out-dir", os.path.join(sys.argv[1], out), *words, *sys.argv[2:]]))
    return child
def changed(path, last):
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if os.path.exists(path) and os.stat(path).st_mtime_ns != last:
            return os.stat(path).st_mtime_ns
        time.sleep(0.001)
    sys.exit("it ended too soon")
run = os.path.join(sys.argv[1], "cut", "default", "0")
last = None
for episodes, after in (0, 0), (1, 0), (2, 0.002), (2, 0.02), (1, 0.05):
    child = start("cut", "--resume")
    for _ in range(episodes):
        last = changed(os.path.join(run, "checkpoint.pt"), last)
    if not episodes:
        changed(os.path.join(run, "run.json"), None)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
sys.exit(os.waitpid(start("cut", "--resume"), 0)[1] or os.waitpid(start("whole"), 0)[1])
"""
"""A run that is killed as soon as it has a directory, and then several times after so many episodes and seconds; one that is not."""


@pytest.mark.usefixtures("unchanged_globals")
def test_a_grid_tries_a_run_again_from_its_checkpoint(tmp_path, monkeypatch):
    from graphgym_srnc.grid.jobs import Job
    from graphgym_srnc.grid.worker import execute
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.runs import run as runs
    cfg = load_config(None, [*WORDS, "srnc.rounds", "2", "srnc.steps", "2"])
    jobs, srnc = [], methods.find("srnc")
    for name in ("whole", "cut"):
        place = runs.experiment(cfg, name)
        jobs.append(Job(str(tmp_path), name, 0, place.text, place.digest, {}, {"tensorboard": False}))
    execute(jobs[0])
    with monkeypatch.context() as patch:
        patch.setattr(srnc, "update_classifier", raise_after(srnc.update_classifier, 1))
        with pytest.raises(MemoryError):
            execute(jobs[1])
    whole, cut = tmp_path / "whole" / "0", tmp_path / "cut" / "0"
    atomic.write_text(cut / "error.txt", "why")
    (cut / f".{store.CHECKPOINT}.1.tmp").touch()
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
    """The result of a run without what differs from one to the next: where it is, and what it took."""
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    for episode in result["history"]:
        del episode["seconds"]
    return {key: value for key, value in result.items() if key not in ("seconds", "peak_memory_mib", "config")}


def scalars(run: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    accumulator = EventAccumulator(str(run), {"scalars": 0})
    accumulator.Reload()
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]
            if tag != "seconds"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_killed_at_any_moment_and_resumed(tmp_path):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "--figures", *WORDS], env=env,
                          capture_output=True, text=True)
    said = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*.txt")]
    assert done.returncode == 0, f"{done.stderr}{said}"
    whole, cut = tmp_path / "whole" / "default" / "0", tmp_path / "cut" / "default" / "0"
    assert "".join(said).count("seed 0 goes on from its checkpoint") == 4 and "warning" not in "".join(said)
    assert record(cut) == record(whole)
    assert scalars(cut) == scalars(whole), "no step is missing or told twice"
    files = {path.relative_to(whole) for path in whole.rglob("*") if path.is_file() and "tfevents" not in path.name}
    assert files == {path.relative_to(cut) for path in cut.rglob("*") if path.is_file() and "tfevents" not in path.name}
    for path in files:
        assert path.suffix != ".png" or (whole / path).read_bytes() == (cut / path).read_bytes(), path

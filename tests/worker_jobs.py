"""Jobs that worker processes run. Nothing here imports torch, so that a worker starts at once."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import time
from pathlib import Path

from graphgym_srnc.io import store
from graphgym_srnc.sweep import local
from graphgym_srnc.sweep.jobs import Job, Limits


def job(name: str, folder: Path, seed: int = 0) -> Job:
    return Job("", name, seed, None, {"mark": str(folder / f"{name}-{seed}")})


def do_as_named(job: Job) -> str:
    """Does what the name of a job says, and tells in which process."""
    kind = job.name
    mark = Path(job.extras["mark"])
    again = mark.exists()
    mark.touch()
    if kind == "fails":
        raise KeyError("no such thing")
    if kind == "busy":
        raise store.Busy("out_dir", "there", "free")
    if kind == "sleeps" or kind == "sleeps once" and not again:
        time.sleep(60)
    if kind == "killed" or kind == "killed once" and not again:
        print("a last word", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "crashes":
        ctypes.string_at(0)
    if kind == "exits":
        sys.exit(3)
    time.sleep(0.02)
    return f"{os.getpid()}"


def experiment_of(root: str, number: int) -> store.Experiment:
    config = {"seed": 0, "x": number, "dataset": {"format": "synthetic"}}
    return store.Experiment(root, f"toy-x={number}", config, lambda: f"x: {number}\n")


def record_of(number: int, seed: int) -> dict:
    scores = {"micro_f1": random.Random(f"{number} {seed}").random()}
    episode = {"number": 0, "losses": {}, "train": scores, "seconds": 0.1}
    kept = {"val": scores, "test": scores}
    record = {"history": [episode | kept], "selected": 0, "lr": 0.1, "params": 1, "seconds": 0.1}
    record |= dict.fromkeys(("method", "backbone", "task", "split", "selection"), "toy")
    record |= {"hidden_classes": [], "warnings": {}, "held_out": {}, "info": {}}
    record["verdict"] = {"figures": {}, "sentences": {}}
    return record | kept


def store_a_run(job: Job) -> str:
    """Stores a run that takes a moment, and notes that it was done."""
    here = experiment_of(job.out_dir, job.extras["x"])
    with here.claim(job.seed):
        if here.result(job.seed) is None:
            note(job, "pids", str(os.getpid()))
            here.begin(job.seed)
            time.sleep(float(os.environ["TOY_SECONDS"]))
            here.finish(job.seed, record_of(job.extras["x"], job.seed))
            note(job, "done", f"{job.extras['x']} {job.seed}")
    return "done"


def note(job: Job, kind: str, line: str) -> None:
    with open(Path(job.out_dir).with_suffix(f".{kind}"), "a") as file:
        file.write(f"{line}\n")


def noted(root: Path, kind: str) -> list[str]:
    file = root.with_suffix(f".{kind}")
    return file.read_text().splitlines() if file.exists() else []


def run_grid(root: str, settings: int, seeds: int) -> None:
    """Runs what is missing of a grid of settings and seeds; what another process is at is left to
    that."""
    jobs = []
    for number in range(settings):
        missing = experiment_of(root, number).plan(range(seeds), resume=True)
        jobs += [Job(root, f"toy-x={number}", seed, None, {"x": number}) for seed in missing]
    for outcome in local.run(jobs, store_a_run, Limits(), workers=2):
        assert outcome.state in ("done", "busy"), outcome.message
        print(outcome.message, flush=True)

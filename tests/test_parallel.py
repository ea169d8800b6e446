"""Data-parallel training with two processes and gloo, and what happens if one is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from conftest import begun
from tasks import synthetic_task, tiny_method
from torch import multiprocessing

from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods import srnc
from graphgym_srnc.train import trainer

NAMES = ("erm", "coral", "srnc", "mmd")
DRAWN = {"mmd"}
"""Methods whose losses draw more than the nodes of a step: each process draws its own."""

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="torch was built without gloo"
)


def train(name: str) -> dict:
    """A run without dropout and drawn neighbours: processes differ by rounding alone."""
    task = synthetic_task()
    method = tiny_method(name, batch_size=8, fanout=0)
    method.encoder = EncoderSpec(hidden=8, dropout=0.0)
    torch.manual_seed(0)
    # A started process does not have what a fixture changed in this one.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(srnc, "PRETRAIN_STEPS", 10)
        record = trainer.fit(method, task)
    return {
        "losses": [episode.losses for episode in record.history],
        "test": record.test,
        "scores": method.predict(task.blind().target),
        "weights": method.state_dict(),
        "random": torch.get_rng_state(),
    }


def child(rank: int, folder: str, names: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    found = {name: train(name) for name in names}
    with pytest.raises(InputError, match="erm.batch_size"):
        trainer.fit(tiny_method("erm"), synthetic_task())
    with pytest.raises(InputError, match="the same in all processes"):
        trainer.fit(tiny_method("erm", batch_size=8), synthetic_task(seed=rank))
    torch.save(found, f"{folder}/{rank}.pt")


@pytest.mark.slow
def test_two_processes_are_one(tmp_path):
    multiprocessing.spawn(child, (str(tmp_path), NAMES), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    for name in NAMES:
        one = first[name]
        two = second[name]
        alone = train(name)
        assert one["losses"] == two["losses"] and one["test"] == two["test"], name
        assert torch.equal(one["random"], two["random"]), name
        for key, value in one["weights"].items():
            assert torch.equal(value, two["weights"][key]), (name, key)
        for episode, both in zip(alone["losses"], one["losses"], strict=True):
            assert name in DRAWN or both == pytest.approx(episode, rel=1e-3, abs=1e-4), name
        if name not in DRAWN:
            assert one["test"] == pytest.approx(alone["test"], abs=0.02), name
            assert torch.allclose(one["scores"], alone["scores"], atol=1e-3), name


# ---- torchrun, as a user types it ----

RUN = (
    "-m graphgym_srnc run --cfg testing/srnc --out-dir results --no-tensorboard --no-figures "
    "srnc.rounds 8 train.max_episodes 8 train.checkpoint 1"
).split()


def torchrun(folder: Path, *words: str, restarts: int = 0) -> subprocess.Popen:
    """Two processes, which are started again so many times when one of them ends."""
    folder.mkdir(exist_ok=True)
    program = f"-m torch.distributed.run --nproc-per-node 2 --max-restarts {restarts}"
    command = [sys.executable, *program.split(), *RUN]
    return begun([*command, "srnc.batch_size", "16", *words], cwd=folder)


def history(folder: Path) -> list[dict]:
    result = json.loads((folder / "results" / "testing-srnc" / "0" / "result.json").read_text())
    assert result["processes"] == 2
    return [episode | {"seconds": 0} for episode in result["history"]]


@pytest.mark.slow
def test_a_killed_process_is_told_of_and_the_run_goes_on(tmp_path):
    whole = tmp_path / "whole"
    cut = tmp_path / "cut"
    run = torchrun(whole)
    out, err = run.communicate(timeout=300)
    assert run.returncode == 0 and out.count("test Micro-F1") == 1, err

    run = torchrun(cut, "--resume", restarts=1)
    while not (cut / "results" / "testing-srnc" / "0" / "checkpoint.safetensors").exists():
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    workers = psutil.Process(run.pid).children()
    assert len(workers) == 2
    next(worker for worker in workers if worker.environ()["RANK"] == "1").send_signal(
        signal.SIGKILL
    )
    out, err = run.communicate(timeout=300)
    # The first process learns of it from the other's silence, or torchrun stops it before.
    told = "error: process 0 of 2 lost the others", "interrupted: finished runs are kept"
    assert any(text in err for text in told), err
    assert run.returncode == 0 and "seed 0 continues from its checkpoint" in out, out + err
    assert history(cut) == history(whole)

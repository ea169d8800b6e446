"""Training on a pretended device, with the CPU's numbers bit for bit, and on CUDA."""

from __future__ import annotations

import itertools
import sys
from functools import partial
from typing import Any, Callable

import pytest
import torch
from conftest import make_task
from pretend import Pretend, There, device, pretended
from tasks import known_options, tiny_method, without_seconds

from graphgym_srnc import methods
from graphgym_srnc.backbones import BACKBONES, dgi
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods import openwgl, srgnn
from graphgym_srnc.methods.shared import training
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import trainer

pytestmark = pytest.mark.usefixtures("hardly_pretrained")

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
BATCHES = [
    (name, kind, {"batch_size": 40, "fanout": 2})
    for name, kind in (("erm", "gatconv"), ("srnc", "sageconv"), ("pgl", "gcnconv"))
]
FULL = [
    *((name, "gcnconv", {}) for name in methods.names() if name != "iid"),
    *(("erm", kind, {}) for kind in sorted(BACKBONES) if kind != "gcnconv"),
    ("erm", "gcnconv", {"confidence": "odin"}),
]
train_infomax = dgi.train_infomax


@pytest.fixture(autouse=True)
def short_methods(monkeypatch):
    """Infomax learns for two steps."""
    monkeypatch.setattr(dgi, "train_infomax", partial(train_infomax, steps=2))
    monkeypatch.setattr(openwgl, "MAX_EDGES", 20)
    monkeypatch.setattr(srgnn, "KERNEL_DIM", 3)
    monkeypatch.setattr(srgnn, "KERNEL_NODES", 4)


@pytest.fixture
def watched(monkeypatch) -> Callable[[Pretend], None]:
    """A function that tells which device is to note what its program waits for in gradient steps.

    The first step of each call may make what the others find made.
    """
    modes: list[Pretend] = []
    original = training.minimise

    def minimise(model, optimizer, losses, steps, **until):
        if not modes:
            return original(model, optimizer, losses, steps, **until)
        taken = itertools.count()

        def begun():
            modes[-1].noting = next(taken) > 0
            return losses()

        handle = optimizer.register_step_post_hook(
            lambda *args: setattr(modes[-1], "noting", False)
        )
        try:
            return original(model, optimizer, begun, steps, **until)
        finally:
            handle.remove()

    for name, module in list(sys.modules.items()):
        if name.startswith("graphgym_srnc") and getattr(module, "minimise", None) is original:
            monkeypatch.setattr(module, "minimise", minimise)
    return modes.append


def new(name: str, kind: str, options: dict[str, Any]) -> Method:
    return tiny_method(name, kind, hidden=4, **options)


def whole_run(
    name: str, kind: str, options: dict[str, Any], task: ShiftTask
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """The record of a run, and its weights with the scores of all target nodes."""
    method = new(name, kind, options)
    record = trainer.fit(method, task, seed=3)
    state = method.state_dict() | {"scores": method.predict(task.target)}
    extra = torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX
    assert all(state[key].device == task.device for key in state if key != extra)
    return without_seconds(record), [tensor.cpu() for tensor in state.values()]


def check_same(
    name: str, kind: str, options: dict[str, Any], watched: Callable | None = None
) -> list[str]:
    """A run on the pretended device is that on the CPU; gives what made it wait within steps."""
    task = make_task(oracle=False)
    record, tensors = whole_run(name, kind, options, task)
    with pretended() as mode:
        if watched is not None:
            watched(mode)
        other, others = whole_run(name, kind, options, task.to(device()))
    assert other == record
    assert all(torch.equal(one, two) for one, two in zip(tensors, others, strict=True))
    return mode.waits


def ids(value: Any) -> str | None:
    return str(value) if isinstance(value, (str, dict)) else None


@pytest.mark.parametrize("name, kind, options", FULL, ids=ids)
def test_a_full_batch_run_is_the_cpus_and_its_steps_never_wait(watched, name, kind, options):
    assert check_same(name, kind, options, watched) == []


@pytest.mark.parametrize("name, kind, options", BATCHES, ids=ids)
def test_a_run_by_batches_is_the_cpus(name, kind, options):
    check_same(name, kind, options)


def test_a_task_moves_once(tmp_path):
    task = make_task(two_graphs=True)
    digest = task.fingerprint()
    assert task.to("cpu") is task and task.oracle.device == task.device
    with pretended():
        moved = task.to(device())
        assert moved.to(device()) is moved and moved.target is not moved.source
        assert moved.device == moved.oracle.device == device()
        # What roles and the oracle share, they share there too.
        assert moved.oracle.source is moved.source and moved.validation is moved.target
        assert all(isinstance(moved.source[key], There) for key in ("x", "edge_index", "y"))
        assert moved.fingerprint() == digest and moved.blind().target.y.device == device()
        del vars(moved)["_digest"]
        assert moved.fingerprint() == digest
    assert task.source.x.device.type == "cpu" and not isinstance(task.source.x, There)


def test_cuda_is_refused_in_one_line_where_there_is_none(gym, tmp_path, monkeypatch):
    from graphgym_srnc.gym import run as runs

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(runs, "build_task", None)  # before any work
    cfg = gym.load_config(None, ["accelerator", "cuda", "out_dir", str(tmp_path)])
    with pytest.raises(InputError, match="accelerator: torch finds no CUDA") as error:
        runs.run(cfg, 0, runs.experiment(cfg, "one"))
    assert error.value.key == "accelerator" and not list(tmp_path.rglob("*.json"))
    for name in ("auto", "cpu"):
        cfg.accelerator = name
        assert runs.device(cfg.accelerator) == torch.device("cpu")


@on_cuda
@pytest.mark.parametrize("name", ["erm", "srnc", "srnc_plus"])
def test_scores_on_cuda_are_those_of_the_cpu(name):
    """Draws are others, so scores are only alike."""
    scores = []
    long = known_options(methods.find(name), {"steps": 60, "pretrain_steps": 60, "num_clusters": 8})
    for where in ("cpu", "cuda"):
        task = make_task().to(torch.device(where))
        method = tiny_method(name, hidden=16, **long)
        scores.append(trainer.fit(method, task, seed=3).test["micro_f1"])
        assert all(value.device.type == where for value in method.state_dict().values())
    assert scores[1] == pytest.approx(scores[0], abs=0.3)

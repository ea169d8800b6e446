"""Small tasks made in memory, and a GraphGym that each test finds and leaves as it was.

Nothing here imports torch before a test needs it: with ``-n``, the process that only hands out the
tests reads this file, too.
"""

from __future__ import annotations

import contextlib
import csv
import gc
import os
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Sequence

import pytest

from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data

    from graphgym_srnc.core.task import ShiftTask


def refused(key: str, function: Callable[..., Any], *args: Any, **options: Any) -> InputError:
    """The error, on one line, of a function that refuses its arguments."""
    with pytest.raises(InputError) as error:
        function(*args, **options)
    assert key in error.value.key and "\n" not in str(error.value)
    return error.value


def refusal(status: int, capsys: pytest.CaptureFixture) -> str:
    """The one line of a refused command, below notes of keys that it does not read."""
    told = capsys.readouterr().err
    lines = [line for line in told.splitlines() if not line.startswith("note: ")]
    assert status == 2 and len(lines) == 1 and lines[0].startswith("error: "), told
    return lines[0]


def rows(path: str | Path) -> list[dict[str, str]]:
    """The rows of a CSV file by the names of their columns."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files below a folder by their paths in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def stamps(folder: Path, name: str = "*") -> dict[str, int]:
    """When each file of a name below a folder was written, by its path in it."""
    files = (path for path in folder.rglob(name) if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


def environment() -> dict[str, str]:
    """Variables of a process that imports this checkout."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def begun(words: Sequence[str], **options: Any) -> subprocess.Popen:
    """A command in a process of its own, which runs."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, **{"env": environment(), **pipes, **options})


def ended(words: Sequence[str], **options: Any) -> subprocess.CompletedProcess:
    """A command in a process of its own, after its end."""
    options = {"env": environment(), "capture_output": True, "text": True, **options}
    return subprocess.run(words, **options)


SMALL_TASK = (
    "synthetic.num_nodes 300 synthetic.num_val 60 synthetic.num_test 100 gnn.dim_inner 8 "
    "train.max_episodes 1"
).split()

ERM_WORDS = ["train.mode", "erm", "erm.steps", "5", *SMALL_TASK]

NO_PICTURES = ["--no-figures", "--no-tensorboard"]


def program_words(*words: str) -> list[str]:
    return [sys.executable, "-m", "graphgym_srnc", *words]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def within_errors(values: torch.Tensor, exact: torch.Tensor, errors: float = 5.0) -> bool:
    """Whether the mean over draws ``[n, ...]`` is the exact value up to so many standard errors."""
    error = values.std(0) / len(values) ** 0.5
    return bool(
        ((values.mean(0) - exact).abs() <= errors * error + 1e-5 * exact.abs().clamp(min=1)).all()
    )


def make_graph(
    num_nodes: int = 90, num_classes: int = 3, num_features: int = 12, seed: int = 0
) -> Data:
    """A planted partition with features that tell the class."""
    import torch
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % num_classes
    chance = torch.where(y[:, None] == y, 0.15, 0.01)
    edge_index = (torch.rand(num_nodes, num_nodes, generator=generator) < chance).nonzero().T
    x = torch.rand(num_nodes, num_features, generator=generator) + 2 * torch.eye(num_features)[y]
    return Data(x=x, edge_index=edge_index, y=y)


def make_task(
    num_known: int = 2,
    open_set: bool = True,
    unknown_nodes: bool = True,
    two_graphs: bool = False,
    oracle: bool = True,
) -> ShiftTask:
    """A task of 90 nodes a graph; without ``unknown_nodes`` the unknown class stays empty."""
    import torch

    from graphgym_srnc.core.task import ShiftTask

    classes = num_known + int(open_set and unknown_nodes)
    source = make_graph(num_classes=classes)
    target = make_graph(num_classes=classes, seed=1) if two_graphs else source
    order = torch.randperm(90, generator=torch.Generator().manual_seed(0))
    train = torch.cat([order[source.y[order] == c][:5] for c in range(num_known)])
    rest = order if two_graphs else order[~torch.isin(order, train)]
    full = None
    if oracle:
        every = torch.cat([order[source.y[order] == c][:5] for c in range(classes)])
        left = order if two_graphs else order[~torch.isin(order, every)]
        parts = every, left[:25], left[25:], left[25:]
        full = ShiftTask("tiny", source, target, *parts, classes, False)
    parts = train, rest[:25], rest[25:], rest[25:]
    return ShiftTask("tiny", source, target, *parts, num_known, open_set, oracle=full)


MAY_BE_SKIPPED = (
    "no CUDA device here",
    "no published files",
    "no oracle",
    "mlflow is not installed",
)
"""Reasons for which ``.ci/run`` accepts a skipped test: no GPU, no published data set, no oracle of
this kind of shift, or a service that needs an account."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run with ``GRAPHGYM_SRNC_CI`` if a package or a program was missing for some test."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("GRAPHGYM_SRNC_CI") or reporter is None:
        return
    reasons = {str(report.longrepr) for report in reporter.stats.get("skipped", ())}
    refused = sorted(text for text in reasons if not any(part in text for part in MAY_BE_SKIPPED))
    if refused:
        reporter.write_line("\nSkipped, but .ci/run has to run them: " + "; ".join(refused))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


gc.disable()  # imports make little garbage


def pytest_collection_finish() -> None:
    """Leave what all tests import out of later collections of garbage, and have fewer of them."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``-n``, one process runs all fast tests of a file, so what they share is made once."""
    from xdist.scheduler import LoadFileScheduling

    if config.getoption("dist") == "load" and config.getoption("markexpr") == "not slow":
        return LoadFileScheduling(config, log)
    return None  # as ``--dist`` says


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Results depend on threads, and several processes test at once."""
    from graphgym_srnc.core.environment import limited

    with limited(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk():
    """Only a power cut tells files that were flushed from others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def few_steps():
    """In this process, cluster GNNs learn modularity alone for few steps, and forests are small."""
    from graphgym_srnc.methods import srnc
    from graphgym_srnc.methods.shared import forest, label_density

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(srnc, "PRETRAIN_STEPS", 40)
        patch.setattr(label_density, "STEPS", 20)
        patch.setattr(forest, "TREES", 10)
        yield


@pytest.fixture(scope="module")
def hardly_pretrained():
    """Those steps are three, where a test does not look at how good a model is."""
    from graphgym_srnc.methods import srnc
    from graphgym_srnc.methods.shared import label_density

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(srnc, "PRETRAIN_STEPS", 3)
        patch.setattr(label_density, "STEPS", 3)
        yield


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Its draws are the same whichever tests ran before it."""
    import numpy as np
    import torch

    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:  # torch.manual_seed would note this call with its whole stack, for a GPU to come
        torch.default_generator.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@pytest.fixture(scope="session")
def benchmark_of():
    """A function that imports a program of the benchmarks by its name."""
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    yield import_module
    sys.path.remove(folder)


@pytest.fixture
def task() -> ShiftTask:
    """An open-set task with two known classes."""
    return make_task()


@pytest.fixture
def gym():
    """The adapter, with GraphGym's config as an import leaves it, whatever ran before.

    Config and registries are put back afterwards.
    """
    from torch_geometric.graphgym import register
    from torch_geometric.graphgym.config import cfg, set_cfg

    import graphgym_srnc.gym as gym

    registries = {name: value for name, value in vars(register).items() if name.endswith("_dict")}
    saved = {name: dict(value) for name, value in registries.items()}

    def as_imported() -> None:
        cfg.defrost()
        cfg.clear()
        set_cfg(cfg)

    as_imported()
    yield gym
    for name, value in registries.items():
        value.clear()
        value.update(saved[name])
    as_imported()


@pytest.fixture
def few_numbers(monkeypatch) -> None:
    """Discovery tries few numbers of new clusters, each from few starts, and draws a linear map.

    That is for tests which look at none of these.
    """
    from graphgym_srnc.methods.shared.topics import kmeans
    from graphgym_srnc.own.discover import clusters, number

    for module in (clusters, number):
        monkeypatch.setattr(
            module,
            "kmeans",
            lambda unit, count, restarts=3, seed=0: kmeans(unit, count, restarts, seed),
        )
    monkeypatch.setattr(number, "BEYOND", 4)
    monkeypatch.setattr(number, "HALVES", 1)
    monkeypatch.setattr(clusters, "PROJECTION", "pca")


@pytest.fixture
def without_ranges(monkeypatch) -> None:
    """Numbers without features of their ranges."""
    from graphgym_srnc.data import piecewise

    monkeypatch.setattr(piecewise, "LEAST", 10**6)


@pytest.fixture
def without_figures(monkeypatch) -> None:
    """Pages of tests that are not about figures have none but those of runs."""
    monkeypatch.setattr("graphgym_srnc.report.page._curves", lambda *words: iter(()))


@pytest.fixture
def unchanged_globals():
    """A command run in this process leaves torch and GraphGym as they were."""
    import torch
    from torch_geometric.graphgym.config import cfg

    threads = torch.get_num_threads()
    config = cfg.clone()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    cfg.clear()
    cfg.update(config)

"""Faults at every file operation: full disk, lost permission, broken disk, killed process; no loss.

A scenario is done once with its file operations counted, and then again with a fault at each of
them. ``GRAPHGYM_SRNC_FUZZ`` tries all of them, else a sample is tried.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import pytest
import torch
from test_checkpoint import record
from test_grid_cli import inline  # noqa: F401
from test_store import CONFIG, experiment, tree
from test_store import record as result_of

from graphgym_srnc.cli.main import main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import store
from graphgym_srnc.io.settings import digest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.usefixtures("gym", "unchanged_globals"),
]

SAMPLE = 0 if os.environ.get("GRAPHGYM_SRNC_FUZZ") else 19
"""Faults a scenario; 0 = every one."""

ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
FIGURES: Counter[str] = Counter()

TINY = [
    "synthetic.num_nodes",
    "90",
    "synthetic.num_val",
    "20",
    "synthetic.num_test",
    "30",
    "synthetic.labels_per_class",
    "3",
    "synthetic.num_features",
    "20",
    "gnn.dim_inner",
    "4",
    "train.mode",
    "erm",
    "erm.steps",
    "1",
    "erm.rounds",
    "1",
]


class Fault(NamedTuple):
    """What happens at a file operation, or from it on: an ``errno`` or a signal."""

    number: int
    kind: int
    lasting: bool = False

    @property
    def kills(self) -> bool:
        return self.kind in SIGNALS


class File:
    """A file being written, whose operations count; a write that fails has written the half."""

    def __init__(self, file: Any, step: Callable[[Callable[[], Any]], None]) -> None:
        self.file, self.step = file, step

    def write(self, content: Any) -> int:
        def half() -> None:
            self.file.write(content[: len(content) // 2])
            self.file.flush()

        self.step(half)
        return self.file.write(content)

    def flush(self) -> None:
        self.step(lambda: None)
        self.file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *error: Any) -> None:
        self.file.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.file)


@contextlib.contextmanager
def faulty(root: Path, fault: Fault | None) -> Iterator[list[str]]:
    """Count the operations that change files below a folder, and make one of them fail."""
    seen: list[str] = []

    def step(name: str, before: Callable[[], Any] = lambda: None) -> None:
        seen.append(name)
        number = len(seen)
        if fault and (number == fault.number or fault.lasting and number > fault.number):
            before()
            if fault.kills:
                os.kill(os.getpid(), fault.kind)
            else:
                raise OSError(fault.kind, os.strerror(fault.kind), name)

    def inside(path: Any, options: dict[str, Any]) -> bool:
        if isinstance(path, int):
            return False
        below = os.path.abspath(os.fspath(path)).startswith(str(root))
        return below or options.get("dir_fd") is not None

    def counted(name: str, function: Callable) -> Callable:
        def wrapped(path: Any, *rest: Any, **options: Any) -> Any:
            if name == "fsync" or inside(path, options):
                step(name)
            return function(path, *rest, **options)

        return wrapped

    def opened(function: Callable) -> Callable:
        def wrapped(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if isinstance(path, int) or not set(mode) & set("wax+") or not inside(path, {}):
                return function(path, mode, *rest, **options)
            step("open")
            return File(function(path, mode, *rest, **options), lambda half: step("write", half))

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "fsync", "replace", "rename", "mkdir", "rmdir", "unlink", "remove"):
            patch.setattr(os, name, counted(name, getattr(os, name)))
        patch.setattr(builtins, "open", opened(builtins.open))
        patch.setattr(io, "open", opened(io.open))
        yield seen


def faults(count: int, kinds: tuple[int, ...], seed: str) -> list[Fault]:
    """Every fault at every operation, or a sample of them."""
    every = [
        Fault(number, kind, lasting)
        for number in range(1, count + 1)
        for kind in kinds
        for lasting in ((False,) if kind in SIGNALS else (False, True))
    ]
    return random.Random(seed).sample(every, SAMPLE) if 0 < SAMPLE < len(every) else every


def happen(act: Callable[[], Any], root: Path, fault: Fault) -> Any:
    """Do something with a fault; what it returns, or the status of the process that it killed."""
    FIGURES[signal.Signals(fault.kind).name if fault.kills else errno.errorcode[fault.kind]] += 1
    if not fault.kills:
        with faulty(root, fault):
            return act()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            with faulty(root, fault):
                status = act() or 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(scope="module", autouse=True)
def figures(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        lost = FIGURES.pop("lost", 0)
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(FIGURES.items()))
        print(f"\ninjected faults: {FIGURES.total()} ({kinds}); results lost or changed: {lost}")


@contextlib.contextmanager
def losing(fault: Fault) -> Iterator[None]:
    """Count and name a fault after which something is not as it should be."""
    try:
        yield
    except BaseException as error:
        FIGURES["lost"] += 1
        raise AssertionError(f"{fault}: {error}") from error


# ---- the store alone ----


def stored(seed: int) -> dict:
    return result_of([0.5, 0.7 + seed / 100])


def finished(root: Path) -> dict[int, tuple]:
    """What counts of the finished runs below a folder, by seed."""
    results = store.read_results(root / "out" / "toy")
    keys = ("seed", "history", "selected", "digest")
    return {seed: tuple(result[key] for key in keys) for seed, result in results.items()}


def write_runs(root: Path) -> None:
    """New runs, one of them adopted from elsewhere, one that fails and begins again, the table."""
    exp = experiment(root / "out")
    for seed in exp.plan([0, 1, 2, 3], resume=True):
        with exp.claim(seed):
            if seed == 2:
                exp.adopt(2, root / "elsewhere" / "toy" / "2")
            elif seed == 3:
                exp.fail(3, "why\n")
                exp.begin(3, anew=False)
                exp.finish(3, stored(3))
            else:
                exp.begin(seed)
                exp.finish(seed, stored(seed))
    exp.aggregate()


def replace_run(root: Path) -> None:
    exp = experiment(root / "out", train={"mode": "erm", "patience": 5})
    for seed in exp.plan([0], overwrite=True):
        exp.begin(seed)
        exp.finish(seed, stored(seed))


def prepared(root: Path) -> Path:
    for folder, seed in (("out", 0), ("elsewhere", 2)):
        exp = experiment(root / folder)
        exp.begin(seed)
        exp.finish(seed, stored(seed))
    return root


@pytest.mark.parametrize("kinds", [ERRORS, SIGNALS], ids=["errors", "signals"])
def test_the_store_keeps_what_is_finished(tmp_path, kinds):
    with faulty(prepared(tmp_path / "count"), None) as seen:
        write_runs(tmp_path / "count")
    whole = finished(tmp_path / "count")
    assert list(whole) == [0, 1, 2, 3] and len(seen) > 40
    for fault in faults(len(seen), kinds, "store"):
        root = prepared(tmp_path / f"{fault.number}-{fault.kind}-{fault.lasting}")
        before = tree(root / "out" / "toy" / "0"), tree(root / "elsewhere")
        with losing(fault):
            with contextlib.suppress(OSError, InputError):
                happen(lambda root=root: write_runs(root), root, fault)
            assert finished(root).items() <= whole.items()
            kept = tree(root / "out" / "toy" / "0")["result.json"]
            assert (kept, tree(root / "elsewhere")) == (before[0]["result.json"], before[1])
            write_runs(root)
            assert finished(root) == whole
            assert shown(root) == shown(tmp_path / "count")


def shown(root: Path) -> set[str]:
    """Names of all files but hidden ones, which nobody takes for anything, and why a run failed."""
    names = (name for name in tree(root) if not name.endswith("error.txt"))
    return {name for name in names if "/." not in f"/{name}"}


@pytest.mark.parametrize("kinds", [ERRORS, SIGNALS], ids=["errors", "signals"])
def test_overwriting_leaves_the_old_result_or_the_new_one_or_none_that_is_half(tmp_path, kinds):
    with faulty(prepared(tmp_path / "count"), None) as seen:
        replace_run(tmp_path / "count")
    new = digest(CONFIG | {"train": {"mode": "erm", "patience": 5}})
    for fault in faults(len(seen), kinds, "replace"):
        root = prepared(tmp_path / f"{fault.number}-{fault.kind}-{fault.lasting}")
        with losing(fault):
            with contextlib.suppress(OSError, InputError):
                happen(lambda root=root: replace_run(root), root, fault)
            left = store.read_result(root / "out" / "toy" / "0")
            assert left is None or left["digest"] in (digest(CONFIG), new)
            assert left is None or left["history"] == stored(0)["history"]
            replace_run(root)
            assert store.read_result(root / "out" / "toy" / "0")["digest"] == new


# ---- whole commands ----


def run(root: Path) -> int:
    return main(["run", "--repeat", "2", "--resume", "--out-dir", str(root / "out"), *RUN])


def grid(root: Path) -> int:
    return main(
        [
            "grid",
            "--grid",
            str(root / "grid.txt"),
            "--resume",
            "--out-dir",
            str(root / "out"),
            *GRID,
        ]
    )


RUN = ["--name", "default", "--no-figures", "--no-tensorboard", *TINY, "train.checkpoint", "1"]
GRID = ["--name", "g", "--no-tensorboard", "--jobs", "1", *TINY]
COMMANDS = {"run": (run, "default"), "grid": (grid, "g/default-d=4")}


def begun(name: str, root: Path) -> Path:
    """A folder in which the first run is done."""
    root.mkdir()
    (root / "grid.txt").write_text("gnn.dim_inner d [4,8]\n")
    if name == "run":
        main(["run", "--out-dir", str(root / "out"), *RUN])
    else:
        (root / "one.txt").write_text("gnn.dim_inner d [4]\n")
        main(["grid", "--grid", str(root / "one.txt"), "--out-dir", str(root / "out"), *GRID])
    return root


def found(root: Path) -> dict[str, Any]:
    """The finished runs in folders that are not hidden."""
    runs = {str(path.parent.relative_to(root)): path.parent for path in root.rglob("result.json")}
    return {
        name: record(run)
        for name, run in sorted(runs.items())
        if store.read_result(run) is not None and "/." not in f"/{name}"
    }


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("kinds", [ERRORS, SIGNALS], ids=["errors", "signals"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_resumes_after_any_fault(tmp_path, capsys, name, kinds):
    if torch.cuda.is_available() and kinds == SIGNALS:
        pytest.skip("a process that has used a device cannot be forked")
    command, home = COMMANDS[name]
    first = begun(name, tmp_path / "first")
    before = found(first)
    assert len(before) == 1
    with faulty(begun(name, tmp_path / "count"), None) as seen:
        assert command(tmp_path / "count") == 0
    whole = found(tmp_path / "count")
    assert len(whole) == 2
    for fault in faults(len(seen), kinds, name):
        root = tmp_path / f"{fault.number}-{fault.kind}-{fault.lasting}"
        shutil.copytree(first, root)
        kept = (root / "out" / home / "0" / "result.json").read_bytes()
        capsys.readouterr()
        with losing(fault):
            status = happen(lambda root=root: command(root), root, fault)
            err = capsys.readouterr().err
            allowed = (0, 1, 2)
            if fault.kills:
                allowed = (0, -signal.SIGKILL if fault.kind == signal.SIGKILL else 143)
            assert status in allowed, status
            assert "Traceback" not in err and (fault.kills or status == 0 or err), err
            assert (root / "out" / home / "0" / "result.json").read_bytes() == kept
            assert before.items() <= found(root).items() <= whole.items()
            assert command(root) == 0, capsys.readouterr().err
            assert found(root) == whole and shown(root) == shown(tmp_path / "count")


@pytest.mark.parametrize("jump", [366 * 86400.0, -366 * 86400.0])
def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch, jump):
    """By a year at each look, within a run and between two of them."""
    assert run(begun("run", tmp_path / "still")) == 0
    root, now = begun("run", tmp_path / "jumps"), time.time()
    ticks = iter(range(10**9))
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + (next(ticks) % 2) * jump)
        patch.setattr(time, "time_ns", lambda: int((now + (next(ticks) % 2) * jump) * 1e9))
        old = experiment(tmp_path / "locks")
        with old.claim(0), pytest.raises(store.Busy), experiment(tmp_path / "locks").claim(0):
            pass
        for file in root.rglob("*"):
            os.utime(file, (max(now + jump, 0),) * 2)
        assert run(root) == 0
    assert found(root) == found(tmp_path / "still")

"""Faults at every file operation of the store: full disk, broken disk, killed process; no loss.

``benchmarks/faults.py`` does the same to whole commands. A scenario is done once with its file
operations counted, and then again with a fault at each of them. ``GRAPHGYM_SRNC_FUZZ`` tries all of
them, else a sample is tried.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import random
import signal
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import pytest
from test_store import CONFIG, experiment, tree
from test_store import record as result_of

from graphgym_srnc.errors import InputError
from graphgym_srnc.io import store
from graphgym_srnc.io.settings import digest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
]

SAMPLE = 0 if os.environ.get("GRAPHGYM_SRNC_FUZZ") else 19
"""Faults a scenario; 0 = every one."""

ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)
SIGNALS = (signal.SIGKILL, signal.SIGTERM)


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


@contextlib.contextmanager
def losing(fault: Fault) -> Iterator[None]:
    """Name a fault after which something is not as it should be."""
    try:
        yield
    except BaseException as error:
        raise AssertionError(f"{fault}: {error}") from error


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
        with exp.claim(seed, overwrite=True):
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

"""Faults at each file operation of the store: what is finished stays, and the rest is run again.

``benchmarks/faults.py`` does the same to whole commands, and kills them.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import itertools
import os
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import contents
from stored import new_experiment, run_record

from graphgym_srnc.errors import InputError
from graphgym_srnc.io import records, store

pytestmark = pytest.mark.slow

CHANGED = {"mode": "erm", "patience": 5}


@contextlib.contextmanager
def failing(number: int = 0, error: int = 0, lasting: bool = False) -> Iterator[list[str]]:
    """Count the operations that change files, and make one of them fail, or all from it on."""
    seen: list[str] = []

    def counted(name: str, function: Callable) -> Callable:
        def wrapped(*args: Any, **options: Any) -> Any:
            reads = name == "open of a file" and not {*"wax+"} & {*"".join(map(str, args[1:2]))}
            if not reads:
                seen.append(name)
                if number and (len(seen) == number or lasting and len(seen) > number):
                    raise OSError(error, os.strerror(error), name)
            return function(*args, **options)

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "fsync", "replace", "rename", "mkdir", "rmdir", "unlink", "remove"):
            patch.setattr(os, name, counted(name, getattr(os, name)))
        for module in (builtins, io):
            patch.setattr(module, "open", counted("open of a file", module.open))
        yield seen


def finished(root: Path) -> dict[int, tuple]:
    """What counts of the finished runs below a folder, by seed."""
    found = records.read_results(root / "out" / "toy")
    return {seed: (result["digest"], result["history"]) for seed, result in found.items()}


def store_run(exp: store.Experiment, seed: int) -> None:
    exp.begin(seed)
    exp.finish(seed, run_record([0.5, 0.7 + seed / 100]))


def write_runs(root: Path) -> None:
    """New runs, one of them adopted from elsewhere, one that fails and begins again, the table."""
    exp = new_experiment(root / "out")
    for seed in exp.plan([0, 1, 2, 3], resume=True):
        with exp.claim(seed):
            if seed == 2:
                exp.adopt(2, root / "elsewhere" / "toy" / "2", "s0")
            elif seed == 3:
                exp.begin(3)
                exp.fail(3, "why\n")
                exp.begin(3, anew=False)
                exp.finish(3, run_record([0.5]))
            else:
                store_run(exp, seed)
    exp.aggregate()


def replace_run(root: Path) -> None:
    exp = new_experiment(root / "out", train=CHANGED)
    for seed in exp.plan([0], overwrite=True):
        with exp.claim(seed, overwrite=True):
            store_run(exp, seed)


@pytest.mark.parametrize("act", [write_runs, replace_run], ids=["write", "replace"])
def test_the_store_keeps_what_is_finished(tmp_path, act):
    def prepared(name: str) -> Path:
        for folder, seed in (("out", 0), ("elsewhere", 2)):
            store_run(new_experiment(tmp_path / name / folder), seed)
        return tmp_path / name

    with failing() as seen:
        act(prepared("count"))
    whole = finished(tmp_path / "count")
    assert len(seen) > 20
    errors = itertools.cycle((errno.ENOSPC, errno.EACCES, errno.EIO))
    lasts = itertools.cycle((False, True))
    for number, lasting in zip(range(1, len(seen) + 1, 7), lasts):  # all of them take minutes
        root = prepared(f"{number}-{lasting}")
        before = finished(root)
        elsewhere = contents(root / "elsewhere")
        with failing(number, next(errors), lasting), contextlib.suppress(OSError, InputError):
            act(root)
        place = (number, seen[number - 1], lasting)
        left = finished(root)
        if act is write_runs:
            assert before.items() <= left.items() <= whole.items(), place
        for seed in left:
            assert left[seed] in (before.get(seed), whole[seed]), place
        assert contents(root / "elsewhere") == elsewhere, place
        act(root)
        assert finished(root) == whole, place

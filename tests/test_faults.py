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
from test_store import CONFIG, experiment, record, tree

from graphgym_srnc.errors import InputError
from graphgym_srnc.io import records
from graphgym_srnc.io.settings import digest

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


def stored(seed: int) -> dict:
    return record([0.5, 0.7 + seed / 100])


def finished(root: Path) -> dict[int, tuple]:
    """What counts of the finished runs below a folder, by seed."""
    keys = ("seed", "history", "selected", "digest")
    found = records.read_results(root / "out" / "toy")
    return {seed: tuple(result[key] for key in keys) for seed, result in found.items()}


def write_runs(root: Path) -> None:
    """New runs, one of them adopted from elsewhere, one that fails and begins again, the table."""
    exp = experiment(root / "out")
    for seed in exp.plan([0, 1, 2, 3], resume=True):
        with exp.claim(seed):
            if seed == 2:
                exp.adopt(2, root / "elsewhere" / "toy" / "2")
                continue
            exp.begin(seed)
            if seed == 3:
                exp.fail(3, "why\n")
                exp.begin(3, anew=False)
            exp.finish(seed, stored(seed))
    exp.aggregate()


def replace_run(root: Path) -> None:
    exp = experiment(root / "out", train=CHANGED)
    for seed in exp.plan([0], overwrite=True):
        with exp.claim(seed, overwrite=True):
            exp.begin(seed)
            exp.finish(seed, stored(seed))


@pytest.mark.parametrize("act", [write_runs, replace_run], ids=["write", "replace"])
def test_the_store_keeps_what_is_finished(tmp_path, act):
    def prepared(name: str) -> Path:
        for folder, seed in (("out", 0), ("elsewhere", 2)):
            exp = experiment(tmp_path / name / folder)
            exp.begin(seed)
            exp.finish(seed, stored(seed))
        return tmp_path / name

    with failing() as seen:
        act(prepared("count"))
    whole = finished(tmp_path / "count")
    assert len(seen) > 20
    errors = itertools.cycle((errno.ENOSPC, errno.EACCES, errno.EIO))
    lasts = itertools.cycle((False, True))
    for number, lasting in zip(range(1, len(seen) + 1, 7), lasts):  # all of them take minutes
        root = prepared(f"{number}-{lasting}")
        before, elsewhere = finished(root), tree(root / "elsewhere")
        with failing(number, next(errors), lasting), contextlib.suppress(OSError, InputError):
            act(root)
        place = number, seen[number - 1], lasting
        left = finished(root)
        if act is write_runs:
            assert before.items() <= left.items() <= whole.items(), place
        assert {found[3] for found in left.values()} <= {
            digest(CONFIG),
            digest(CONFIG | {"train": CHANGED}),
        }, place
        assert tree(root / "elsewhere") == elsewhere, place
        act(root)
        assert finished(root) == whole, place

"""What ``kill -9`` leaves of every command that writes, and what two commands at once do.

    python benchmarks/kills.py                     # 150 kills of each command, 5 of each pair
    python benchmarks/kills.py kills --trials 20   # one part, fewer of each

A command is killed at its operations on files, one after another, and by turns at a random moment.
Afterwards each file must be the old one or the new one, and the same command must work and leave
what it leaves undisturbed. Two commands begin at the same moment, in one folder; each file must be
one that some order of the two leaves. ``grid.py kill`` ends the worker processes of a grid.
"""
from __future__ import annotations

import functools
import itertools
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, Callable

import _commands as commands
from faults import Table, faulty, restore, saved, serve

COUNTS = {"kills": 150, "pairs": 5}

OUTCOMES = {"kills": ("killed", "done", "WRONG"), "pairs": ("refused", "both", "WRONG")}
"""Killed, or done before that; a command of two that was refused, or both were done."""

PAIRS = {
    "run": ["run", "--cfg", "own", "--name", "mine", "--out-dir", "out", "--overwrite",
            "--no-figures", "dataset.name", "own", *commands.OWN],
    "grid": ["grid", "--cfg", "own", "--grid", "grid.txt", "--name", "g", "--out-dir", "out",
             "--resume", "--jobs", "1", "--no-tensorboard", "dataset.name", "own", *commands.OWN],
    "predict": commands.WRITING["predict"],
    "discover": commands.WRITING["discover"],
    "data make": ["data", "make", "tables/nodes.csv", "tables/edges.csv", "--text", "title",
                  "--max-words", "60", "--out", "own", "--overwrite"],
    "compare": ["compare", "out", "--out", "table.csv", "--overwrite"],
}
"""Commands that read or replace what the others do: the graph, the run, its outputs."""


def fork(act: Callable[[], int]) -> int:
    """A process without output that does something; its number."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        status = act()
    finally:
        os._exit(status)


def ended(child: int) -> int:
    """The exit status of a process, less than 0 if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def undisturbed(words: list[str], root: Path) -> tuple[dict[str, str], int, float]:
    """What a command leaves, how many operations on files it does, and its seconds."""
    with faulty(root) as seen:
        begin = time.monotonic()
        end = commands.run(words)
    assert end.status == 0, (words, end)
    return commands.contents(root), len(seen), time.monotonic() - begin


def kills(table: Table, trials: int, seed: int, root: Path) -> None:
    """Kill each command so many times."""
    first = saved(root)
    before = commands.contents(root)
    for name, words in commands.WRITING.items():
        commands.run(words)  # what it caches is there from now on
        restore(first, root)
        after, length, seconds = undisturbed(words, root)
        restore(first, root)
        for number in range(trials):
            draw = random.Random(f"{seed} kills {name} {number}")
            if number % 2:
                what, status = f"after {(late := draw.uniform(0, seconds)):.3f} s", 0
                child = fork(lambda words=words: commands.run(words).status)
                time.sleep(late)
                os.kill(child, signal.SIGKILL)
                status = ended(child)
            else:
                place = 1 + (number // 2 * length // max(1, trials // 2)) % length
                what = f"at operation {place} of {length}"
                status = ended(fork(functools.partial(_killed_at, place, words, root)))
            table.add(name, number, *_look(words, root, before, after, what, status))
            restore(first, root)


def _killed_at(place: int, words: list[str], root: Path) -> int:
    def act(now: int, name: str, half: Callable[[], Any]) -> None:
        if now == place:
            half()
            os.kill(os.getpid(), signal.SIGKILL)

    with faulty(root, act):
        return commands.run(words).status


def _look(words: list[str], root: Path, before: dict[str, str], after: dict[str, str], what: str,
          status: int) -> tuple[str, str]:
    now = commands.contents(root)
    why = commands.lost(before, _restored(now, before), after)
    again = commands.run(words)
    if not why and again.status:
        why = f"it does not work again: {again.err[-300:]}"
    if not why and commands.contents(root) != after:
        why = f"another outcome: {commands.lost(after, commands.contents(root), after)}"
    damaged = commands.run(["check", "out"])
    if not why and damaged.status:
        why = f"check: {damaged.out[:300]}"
    if why:
        return "WRONG", f"{what}: {why}"
    return "killed" if status < 0 else "done", ""


def _restored(now: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """A folder that was killed between its two renames counts as there: whoever comes next brings
    it back, and :func:`_look` runs the command again."""
    return {**{name: before[name] for name in commands.FOLDERS if name in before}, **now}


def pairs(table: Table, trials: int, seed: int, root: Path) -> None:
    """Start two commands at once, each pair so many times."""
    first = saved(root)
    before = commands.contents(root)
    for one, other in itertools.combinations_with_replacement(PAIRS, 2):
        states = [before]
        for order in ([one], [other], [one, other], [other, one]):
            for name in order:
                commands.run(PAIRS[name])
                states.append(commands.contents(root))
            restore(first, root)
        for number in range(trials):
            draw = random.Random(f"{seed} pairs {one} {other} {number}")
            children = []
            for name in (one, other):
                children.append(fork(functools.partial(_told, PAIRS[name], root / f".{name}")))
                time.sleep(draw.choice((0, 0, draw.uniform(0, 0.1))))
            status = [ended(child) for child in children]
            table.add(f"{one}, {other}", number, *_judge(root, states, status))
            restore(first, root)


def _told(words: list[str], file: Path) -> int:
    """Run a command; its exit status, 70 where it ends as none should."""
    end = commands.run(words)
    if end.wrong:
        file.with_suffix(".err").write_text(end.wrong, encoding="utf-8")
    return 70 if end.wrong else end.status


def _judge(root: Path, states: list[dict[str, str]], status: list[int]) -> tuple[str, str]:
    errors = [path.read_text(encoding="utf-8") for path in root.glob(".*.err")]
    now, why = commands.contents(root), "; ".join(errors)
    for name in sorted({*now}.union(*states)):
        allowed = {state.get(name) for state in states}
        if not why and now.get(name) not in allowed and not name.endswith(".txt"):
            why = f"{name} is {'another one' if name in now else 'gone'}"
    damaged = commands.run(["check", "out"])
    if not why and damaged.status:
        why = f"check: {damaged.out[:300]}"
    if why:
        return "WRONG", f"status {status}: {why}"
    return "refused" if any(status) else "both", ""


PARTS = {"kills": kills, "pairs": pairs}


def main(argv: list[str] | None = None) -> int:
    return serve(__doc__, PARTS, COUNTS, lambda part: Table(OUTCOMES[part]), argv)


if __name__ == "__main__":
    sys.exit(main())

"""Progress of runs and of their gradient steps: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Iterator, TextIO

from rich import progress as rich_progress
from rich.console import Console

if TYPE_CHECKING:
    from typing_extensions import Self

EVERY = 10.0
"""Minimum number of seconds between two plain lines."""

_phases: list[list[int]] = []
"""Nested phases: number of steps done, and number of all steps."""

_displays: list[_Display] = []
"""Displays that print a line now and then as steps are done; bars refresh themselves."""


def steps(count: int) -> Iterator[int]:
    """Yield the numbers ``0 .. count - 1`` of the steps of a phase, which displays show."""
    own = [0, count]
    _phases.append(own)
    try:
        for number in range(count):
            own[0] = number
            for display in _displays:
                display.tick()
            yield number
    finally:
        _phases.remove(own)


class _Display:
    """Context manager that shows lines of text, and a bar if the output is a terminal.

    ``str()`` of it is the current state on one line; the bar reads it at each refresh.

    Args:
        total: number of runs.
        out: where to write (default: stdout).
    """

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self.total, self.out, self.done = total, out or sys.stdout, 0
        self.begin = self.last_line = time.monotonic()
        self.bar: rich_progress.Progress | None = None

    def __enter__(self) -> Self:
        if self.out.isatty():
            self.bar = rich_progress.Progress(
                rich_progress.TextColumn("{task.fields[state]}", markup=False),
                rich_progress.BarColumn(),
                rich_progress.MofNCompleteColumn(),
                rich_progress.TimeElapsedColumn(),
                rich_progress.TimeRemainingColumn(),
                console=Console(file=self.out),
                transient=True,
            )
            self.bar.add_task("", total=None, state=self)
            self.bar.start()
        _displays.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _displays.remove(self)
        if self.bar is not None:
            self.bar.stop()

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self.bar is None:
            print(line, file=self.out, flush=True)
        else:
            self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def tick(self) -> None:
        """Print the state if there is no bar and the last state is ``EVERY`` seconds old."""
        now = time.monotonic()
        if self.bar is None and str(self) and now - self.last_line > EVERY:
            self.say(f"{self}, {now - self.begin:.0f} s")
            self.last_line = now

    def _move(self, done: int, total: int) -> None:
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done, total=total)
        self.tick()


class RunProgress(_Display):
    """Progress of runs one after another, and of their episodes."""

    name = status = ""

    def __str__(self) -> str:
        run = f"run {self.done + 1} of {self.total}, " * (self.total > 1)
        step = "".join(f", step {done} of {count}" for done, count in _phases[-1:])
        return f"{run}{self.name}: {self.status}{step}" if self.status else ""

    def start(self, name: str, status: str) -> None:
        """Begin a run, or another part of a command."""
        self.doing(status)
        self.name, self.begin = name, time.monotonic()
        if self.bar is not None:
            self.bar.reset(self.bar.task_ids[0])

    def doing(self, status: str) -> None:
        """Show what the run does until the next episode is done."""
        self.tick()
        self.status = status

    def episode(self, number: int, most: int, text: str) -> None:
        """End an episode, of at most ``most`` after episode 0."""
        self.status = f"episode {number} of {most} done, {text}"
        self._move(number + 1, most + 1)

    def finish(self, line: str) -> None:
        """End the run; its line stays on the screen."""
        self.done, self.status = self.done + 1, ""
        self.say(line)


class GridProgress(_Display):
    """Progress of parallel runs."""

    failed = 0

    def __str__(self) -> str:
        return f"{self.done} of {self.total} runs, {self.failed} failed"

    def __exit__(self, *error: object) -> None:
        super().__exit__()
        if self.bar is None and self.done:
            self.say(f"{self}, {time.monotonic() - self.begin:.0f} s")

    def finish(self, line: str, failed: bool = False) -> None:
        """End a run; only the line of a failed run stays on the screen."""
        self.done, self.failed = self.done + 1, self.failed + failed
        if failed:
            self.say(line)
        self._move(self.done, self.total)

    def skip(self, number: int) -> None:
        """Reduce the number of runs."""
        self.total -= number
        self._move(self.done, self.total)

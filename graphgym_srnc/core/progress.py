"""Progress of runs and of their gradient steps: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Iterator, TextIO

from rich import progress as rich_progress
from rich.console import Console
from rich.table import Column

from graphgym_srnc.core.text import tell, width

if TYPE_CHECKING:
    from typing_extensions import Self

EVERY = 10.0  # minimum number of seconds between two plain lines
BAR = 10  # width of the bar
CLOCK = 25  # width of share and times beside it

_displays: list[_Display] = []


def steps(count: int) -> Iterator[int]:
    """Yield the numbers ``0 .. count - 1`` of the steps of a phase, which displays show."""
    for number in range(count):
        for display in _displays:
            display.step(number, count)
        yield number


def doing(status: str, until: float) -> None:
    """Begin a part of a run on all displays; after it, the share ``until`` of the run is done."""
    for display in _displays:
        display.doing(status, until)


class _Display:
    """Context manager that shows its ``str()``, and a bar if ``out`` (stdout) is a terminal."""

    part = 0.0  # share of the current run that is done
    last_end = 0.0  # when the last run ended

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self.total = total
        self.out = out or sys.stdout
        self.done = 0
        self.begin = self.last_line = time.monotonic()
        self.bar: rich_progress.Progress | None = None

    def __enter__(self) -> Self:
        if self.out.isatty():
            # A fixed width, so that the bar stays where it is.
            room = max(width() - BAR - CLOCK - 2, 10)
            state = Column(no_wrap=True, overflow="ellipsis", width=room)
            clock = Column(no_wrap=True, width=CLOCK)
            self.bar = rich_progress.Progress(
                rich_progress.TextColumn("{task.fields[state]}", markup=False, table_column=state),
                rich_progress.BarColumn(bar_width=BAR),
                rich_progress.TextColumn("{task.fields[state].clock}", table_column=clock),
                console=Console(file=self.out, width=width()),
                transient=True,
            )
            self.bar.add_task("", total=1.0, state=self)
            self.bar.start()
        _displays.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _displays.remove(self)
        if self.bar is not None:
            self.bar.stop()

    @property
    def share(self) -> float:
        """Share of all runs that is done."""
        return min((self.done + self.part) / max(self.total, 1), 1.0)

    @property
    def clock(self) -> str:
        """Share and time, and the estimated time left once a run has ended.

        The parts of a run take unknown shares of its time, so runs that ended give the estimate.
        """
        now = time.monotonic()
        text = f"{100 * self.share:.0f} %, {_time(now - self.begin)}"
        if not 0 < self.done < self.total:
            return text
        of_a_run = (self.last_end - self.begin) / self.done
        left = of_a_run * (self.total - self.done) - (now - self.last_end)
        return f"{text}, {_time(left)} left" if left > 0 else text

    def count_run(self) -> None:
        """Take note of the end of a run."""
        self.done = self.done + 1
        self.last_end = time.monotonic()

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self.bar is None:
            tell(line, self.out)
        else:
            self.bar.console.print(line, markup=False, highlight=False)

    def step(self, number: int, count: int) -> None:
        """Take note of a step of a phase."""
        self.tick()

    def doing(self, status: str, until: float = 0.0) -> None:
        """Take note of a part of the current run."""

    def tick(self) -> None:
        """Move the bar, or print the state if the last one is ``EVERY`` seconds old."""
        now = time.monotonic()
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.share)
        elif str(self) and self.share < 1 and now - self.last_line > EVERY:
            self.say(f"{self} ({self.clock})")
            self.last_line = now


class RunProgress(_Display):
    """Progress of runs one after another, and of their parts and episodes; it never goes back."""

    status = ""
    low = high = 0.0  # shares of the run at the begin and the end of its current part

    def __str__(self) -> str:
        if self.status and self.total > 1:
            return f"run {self.done + 1}/{self.total}, {self.status}"
        return self.status

    def doing(self, status: str, until: float = 0.0) -> None:
        """Begin a part of the run, at whose end the share ``until`` of the run is done."""
        self.status = status
        self.low = self.part = self.high
        self.high = max(self.low, until)
        self.tick()

    def step(self, number: int, count: int) -> None:
        """Count a step; each phase of a part moves the bar on from where the part began."""
        self.part = max(self.part, self.low + (self.high - self.low) * (number + 1) / count)
        self.tick()

    def episode(self, number: int, most: int, text: str = "") -> None:
        """End an episode, of at most ``most`` after episode 0, and begin the next one."""
        # One part is before episode 0, and one after the last.
        self.high = max(self.part, (number + 1) / (most + 3))
        now = f"episode {number + 1} of {most}" if number < most else "judging the predictions"
        self.doing(f"{now} ({text})" if text else now, (number + 2) / (most + 3))

    def finish(self, line: str) -> None:
        """End the run; its line stays on the screen."""
        self.count_run()
        self.status = ""
        self.low = self.high = self.part = 0.0
        self.say(line)


class GridProgress(_Display):
    """Progress of parallel runs."""

    failed = 0

    def __str__(self) -> str:
        return f"{self.done} of {self.total} runs, {self.failed} failed"

    def __exit__(self, *error: object) -> None:
        super().__exit__()
        if self.bar is None and self.done:
            self.say(f"{self} ({self.clock})")

    def finish(self, line: str, failed: bool = False) -> None:
        """End a run; only the line of a failed run stays on the screen."""
        self.count_run()
        self.failed = self.failed + failed
        if failed:
            self.say(line)
        self.tick()

    def skip(self, number: int) -> None:
        """Reduce the number of runs."""
        self.total -= number
        self.tick()


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

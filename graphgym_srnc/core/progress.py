"""How far the runs are, and the gradient steps in them: bars on a terminal, a line now and then
elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Iterator, TextIO

EVERY, LIVELY = 10.0, 0.5
"""Seconds between two plain lines of progress, and between two looks at the steps for a bar."""

_phases: list[list[float]] = []
"""Of each phase that goes on, one within another: steps done, their number, when it began."""


def steps(count: int) -> Iterator[int]:
    """The numbers ``0 .. count - 1`` of the steps of a long phase, which :func:`phase` tells of."""
    own = [0, count, time.monotonic()]
    _phases.append(own)
    try:
        for number in range(count):
            own[0] = number
            yield number
    finally:
        _phases.remove(own)


def phase() -> str:
    """``, step 20 of 80, about 30 s left in this part`` where a phase goes on, else nothing."""
    with contextlib.suppress(IndexError):  # the phase may end meanwhile in its own thread
        done, count, begin = _phases[-1]
        left = (time.monotonic() - begin) / max(done, 1) * (count - done)
        text = f", step {done:.0f} of {count:.0f}"
        return text + (f", about {left:.0f} s left in this part" if done else "")
    return ""


class _Display:
    """Lines of text, with bars below them if the output is a terminal; use it as a context.

    Args:
        total: number of runs.
        out: where to write.
    """

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self.total, self.out = total, out or sys.stdout
        self.done, self.begin = 0, time.monotonic()
        self._bars: Any = None

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self._bars is None:
            print(line, file=self.out, flush=True)
        else:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _start_bars(self, *columns: Any) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self._bars = Progress(*columns, console=Console(file=self.out), transient=True)
        self._runs = self._bars.add_task("runs", total=self.total, note="")
        self._bars.start()


class RunProgress(_Display):
    """Progress over runs that follow each other, and over the episodes of each."""

    def __enter__(self) -> RunProgress:
        self.status, self._stop = "", threading.Event()
        if self.out.isatty():
            from rich import progress

            self._start_bars(
                progress.SpinnerColumn(),
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
            )
            self._bars.update(self._runs, visible=self.total > 1)
            self._episodes = self._bars.add_task("", total=None, visible=False)
        # Pre-training is one long call, so only another thread can tell that it goes on.
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._bars is not None:
            self._bars.stop()

    def start(self, name: str, status: str) -> None:
        """A run begins, or another part of a command."""
        self.name, self.status, self.begin = name, status, time.monotonic()
        if self._bars is not None:
            text = f"{name}: {status}"
            self._bars.reset(self._episodes, description=text, total=None, visible=True)

    def doing(self, status: str) -> None:
        """What the run does now, until the next episode is done."""
        self.status = status

    def episode(self, number: int, most: int, text: str) -> None:
        """An episode of the run is done, of at most so many after episode 0."""
        self.status = f"episode {number} of {most} done, {text}"
        if self._bars is not None:
            self._bars.update(
                self._episodes,
                description=f"{self.name}: {text}",
                completed=number + 1,
                total=most + 1,
            )

    def finish(self, line: str) -> None:
        """The run is done; its line stays on the screen."""
        self.done, self.status = self.done + 1, ""
        self.say(line)
        if self._bars is not None:
            self._bars.update(self._runs, completed=self.done)
            self._bars.update(self._episodes, visible=False)

    def _tick(self) -> None:
        while not self._stop.wait(EVERY if self._bars is None else LIVELY):
            if self.status and self._bars is not None:
                text = f"{self.name}: {self.status}{phase()}"
                self._bars.update(self._episodes, description=text)
            elif self.status:
                run = f"run {self.done + 1} of {self.total}, " * (self.total > 1)
                self.say(
                    f"{run}{self.name}: {self.status}{phase()}, "
                    f"{time.monotonic() - self.begin:.0f} s"
                )


class GridProgress(_Display):
    """Progress over runs that go on side by side."""

    def __enter__(self) -> GridProgress:
        self.failed, self.first_end, self.last_line = 0, 0.0, self.begin
        if self.out.isatty():
            from rich import progress

            self._start_bars(
                progress.TextColumn("runs {task.fields[note]}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._bars is not None:
            self._bars.stop()
        elif self.done:
            self.say(self._state())

    def finish(self, line: str, failed: bool = False) -> None:
        """A run ended; only a failure has its line stay on the screen."""
        self.done, self.failed = self.done + 1, self.failed + failed
        self.first_end = self.first_end or time.monotonic()
        if failed:
            self.say(line)
        if self._bars is not None:
            note = f"({self.failed} failed)" if self.failed else ""
            self._bars.update(self._runs, completed=self.done, note=note)
        elif time.monotonic() - self.last_line > EVERY:
            self.say(self._state())
            self.last_line = time.monotonic()

    def skip(self, number: int) -> None:
        """So many of the runs are not to be made."""
        self.total -= number
        if self._bars is not None:
            self._bars.update(self._runs, total=self.total)

    def _state(self) -> str:
        now = time.monotonic()
        state = f"{self.done} of {self.total} runs, {self.failed} failed, {now - self.begin:.0f} s"
        # The first run waits for its worker to start, so it tells little about the others.
        if 1 < self.done < self.total:
            left = (now - self.first_end) / (self.done - 1) * (self.total - self.done)
            state += f", about {left:.0f} s left"
        return state

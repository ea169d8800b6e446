"""Progress of runs and of their gradient steps: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Iterator, TextIO

EVERY, LIVELY = 10.0, 0.5
"""Seconds between two plain lines, and between two updates of a bar."""

_phases: list[list[float]] = []
"""Nested phases: number of steps done, number of all steps, and time of the start."""


def steps(count: int) -> Iterator[int]:
    """Yield the numbers ``0 .. count - 1`` of the steps of a phase, which :func:`phase` shows."""
    own = [0, count, time.monotonic()]
    _phases.append(own)
    try:
        for number in range(count):
            own[0] = number
            yield number
    finally:
        _phases.remove(own)


def phase() -> str:
    """Text such as ``, step 20 of 80, about 30 s left in this part``; empty without a phase."""
    with contextlib.suppress(IndexError):  # the phase may end in another thread
        done, count, begin = _phases[-1]
        left = (time.monotonic() - begin) / max(done, 1) * (count - done)
        text = f", step {done:.0f} of {count:.0f}"
        return text + (f", about {left:.0f} s left in this part" if done else "")
    return ""


class _Display:
    """Context manager that shows lines of text, and bars if the output is a terminal.

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
    """Progress of runs one after another, and of their episodes."""

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
        # Pre-training is one long call, so its progress is shown by another thread.
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._bars is not None:
            self._bars.stop()

    def start(self, name: str, status: str) -> None:
        """Begin a run, or another part of a command."""
        self.name, self.status, self.begin = name, status, time.monotonic()
        if self._bars is not None:
            text = f"{name}: {status}"
            self._bars.reset(self._episodes, description=text, total=None, visible=True)

    def doing(self, status: str) -> None:
        """Show what the run does until the next episode is done."""
        self.status = status

    def episode(self, number: int, most: int, text: str) -> None:
        """End an episode, of at most ``most`` after episode 0."""
        self.status = f"episode {number} of {most} done, {text}"
        if self._bars is not None:
            self._bars.update(
                self._episodes,
                description=f"{self.name}: {text}",
                completed=number + 1,
                total=most + 1,
            )

    def finish(self, line: str) -> None:
        """End the run; its line stays on the screen."""
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
    """Progress of parallel runs."""

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
        """End a run; only the line of a failed run stays on the screen."""
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
        """Reduce the number of runs."""
        self.total -= number
        if self._bars is not None:
            self._bars.update(self._runs, total=self.total)

    def _state(self) -> str:
        now = time.monotonic()
        state = f"{self.done} of {self.total} runs, {self.failed} failed, {now - self.begin:.0f} s"
        # The first run includes the start of its worker, so the estimate leaves it out.
        if 1 < self.done < self.total:
            left = (now - self.first_end) / (self.done - 1) * (self.total - self.done)
            state += f", about {left:.0f} s left"
        return state

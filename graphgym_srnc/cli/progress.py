"""How far the runs are: bars on a terminal, a line now and then elsewhere."""
from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, TextIO

EVERY = 10.0
"""Seconds between two plain lines of progress."""


class Progress:
    """Progress over runs and episodes; use it as a context.

    Args:
        total: number of runs.
        out: where to write; bars are drawn only if it is a terminal.
    """

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self.total, self.out = total, out or sys.stdout
        self.status, self.begun, self.done = "", time.monotonic(), 0
        self._bars: Any = None
        self._stop = threading.Event()

    def __enter__(self) -> Progress:
        if self.out.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                SpinnerColumn,
                TextColumn,
                TimeElapsedColumn,
            )
            from rich.progress import Progress as Bars
            self._bars = Bars(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                              console=Console(file=self.out), transient=True)
            self._runs = self._bars.add_task("runs", total=self.total)
            self._episodes = self._bars.add_task("", total=None, visible=False)
            self._bars.start()
        else:
            # Pre-training is one long call, so only another thread can tell that it goes on.
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        if self._bars is not None:
            self._bars.stop()
        else:
            self._thread.join()

    def start(self, name: str) -> None:
        """A run begins."""
        self.name, self.status, self.begun = name, "pre-training", time.monotonic()
        if self._bars is not None:
            self._bars.reset(self._episodes, description=f"{name}: pre-training", total=None, visible=True)

    def episode(self, number: int, most: int, text: str) -> None:
        """An episode of the run is done, of at most so many after episode 0."""
        self.status = f"episode {number} of {most} done, {text}"
        if self._bars is not None:
            self._bars.update(self._episodes, description=f"{self.name}: {text}", completed=number + 1, total=most + 1)

    def finish(self, line: str) -> None:
        """The run is done; its line stays on the screen."""
        self.done, self.status = self.done + 1, ""
        self.say(line)
        if self._bars is not None:
            self._bars.update(self._runs, completed=self.done)
            self._bars.update(self._episodes, visible=False)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self._bars is not None:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=self.out, flush=True)

    def _tick(self) -> None:
        while not self._stop.wait(EVERY):
            if self.status:
                self.say(f"run {self.done + 1} of {self.total}, {self.name}: {self.status}, {time.monotonic() - self.begun:.0f} s")


class Runs:
    """Progress over runs that go on side by side; use it as a context.

    Args:
        total: number of runs.
        out: where to write; a bar is drawn only if it is a terminal, else a line now and then.
    """

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self.total, self.out = total, out or sys.stdout
        self.done = self.failed = 0
        self.begun = self.told = time.monotonic()
        self.first = 0.0
        self._bar: Any = None

    def __enter__(self) -> Runs:
        if self.out.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bars
            self._bar = Bars(TextColumn("runs {task.fields[note]}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                             TextColumn("left"), TimeRemainingColumn(), console=Console(file=self.out), transient=True)
            self._task = self._bar.add_task("", total=self.total, note="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self.done:
            self.say(self._state())

    def finish(self, line: str, failed: bool = False) -> None:
        """A run ended; only a failure has its line stay on the screen."""
        self.done, self.failed = self.done + 1, self.failed + failed
        self.first = self.first or time.monotonic()
        if failed:
            self.say(line)
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, note=f"({self.failed} failed)" if self.failed else "")
        elif time.monotonic() - self.told > EVERY:
            self.say(self._state())
            self.told = time.monotonic()

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=self.out, flush=True)

    def _state(self) -> str:
        now = time.monotonic()
        state = f"{self.done} of {self.total} runs, {self.failed} failed, {now - self.begun:.0f} s"
        # The first run waits for its worker to start, so it tells little about the others.
        left = (now - self.first) / (self.done - 1) * (self.total - self.done) if self.done > 1 else 0
        return state + (f", about {left:.0f} s left" if left else "")

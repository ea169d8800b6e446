"""Runs on this machine: worker processes that stay warm, each with one run at a time."""
from __future__ import annotations

import contextlib
import faulthandler
import gc
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
from collections import deque
from multiprocessing.connection import Connection, wait
from typing import Iterator, Sequence

from graphgym_srnc import store
from graphgym_srnc.grid.jobs import Execute, Job, Limits, Outcome

LOOK_EVERY = 0.2
"""Seconds between two looks at what the workers take."""

LAST = 4000
"""Characters of the output of a dead worker that are told."""


def run(jobs: Sequence[Job], execute: Execute, limits: Limits, workers: int = 1) -> Iterator[Outcome]:
    """Run jobs in worker processes; see :data:`graphgym_srnc.grid.jobs.Executor`.

    A worker imports what it needs once and then takes run after run. One that dies, that is out of memory or out of time is replaced by
    a new one, in which its run is tried again as often as ``limits`` says.

    Args:
        jobs: what to run.
        execute: runs one of them; a function that a new process can import.
        limits: what each run may take.
        workers: number of processes.
    """
    todo, pool = deque((job, 1) for job in jobs), []
    try:
        while todo or pool:
            while todo and len(pool) < workers:
                pool.append(_Worker(execute))
                pool[-1].begin(*todo.popleft())
            wait([worker.pipe for worker in pool], LOOK_EVERY)
            for worker in list(pool):
                end = worker.look(limits)
                if end is None:
                    continue
                state, seconds, story = end
                job, tries = worker.job, worker.tries
                if state == "lost":
                    pool.remove(worker)
                    if tries <= limits.retries:
                        todo.appendleft((job, tries + 1))
                        continue
                    state = "failed"
                elif todo:
                    worker.begin(*todo.popleft())
                else:
                    pool.remove(worker)
                    worker.kill()
                yield Outcome(job, state, seconds, story, tries)
    finally:
        for worker in pool:
            worker.kill()


class _Worker:
    """A process, and the run that it is at.

    Each has a pipe of its own. One that all share would be left torn or locked by a process that is killed at a bad moment.
    """

    def __init__(self, execute: Execute) -> None:
        # Threads of torch do not survive a fork; a spawned process inherits nothing else that could change a number either.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        handle, self.path = tempfile.mkstemp(prefix="graphgym-srnc-")
        self.output = open(handle, encoding="utf-8", errors="replace")
        self.process = context.Process(target=_serve, args=(theirs, self.path))
        self.process.start()
        theirs.close()
        self._send(execute)

    def begin(self, job: Job, tries: int) -> None:
        """Give it a run; its time begins when the process is ready for it."""
        self.job, self.tries, self.begun = job, tries, 0.0
        self._send(job)

    def look(self, limits: Limits) -> tuple[str, float, str] | None:
        """State, seconds and story of its run if that has ended; ``lost`` if the process has, by itself or because it took too much."""
        # A process that ends between two lines has told all that it had to tell before the first.
        alive = self.process.is_alive()
        with contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                told = self.pipe.recv()
                if told is not None:
                    return told
                self.begun = time.monotonic()
        seconds = time.monotonic() - self.begun if self.begun else 0.0
        if not alive:
            story = self._obituary()
            self.kill()
            return "lost", seconds, story
        if limits.seconds and seconds > limits.seconds:
            self.kill()
            return "lost", seconds, f"out of time: more than {limits.seconds:g} s"
        if limits.memory_mib and self.begun and self._memory() > limits.memory_mib:
            self.kill()
            return "lost", seconds, f"out of memory: more than {limits.memory_mib:g} MiB"
        return None

    def kill(self) -> None:
        """End the process, whatever it is at."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.output.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _send(self, message: object) -> None:
        # A process that is dead already is found so by the next look.
        with contextlib.suppress(OSError):
            self.pipe.send(message)

    def _memory(self) -> float:
        import psutil
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.process.pid).memory_info().rss / 2 ** 20
        return 0.0

    def _obituary(self) -> str:
        code = self.process.exitcode
        story = f"its process died with exit status {code}" + " (killed, perhaps by the system for want of memory)" * (code == -9)
        output = self.output.read()[-LAST:].strip()
        return f"{story}; the end of its output:\n{output}\n{story}" if output else story


def _serve(pipe: Connection, output: str) -> None:
    """The life of a worker: take a run, say that it begins, say how it ended.

    What runs print goes to a file, so that it does not run into the progress, and is told if the process dies.
    """
    threading.Thread(target=_follow_parent, daemon=True).start()
    # Ctrl-C reaches all processes of a terminal; what becomes of the workers is for the parent to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    with contextlib.suppress(OSError):
        # Both processes have it open, so that nothing is left of it whatever becomes of them; not every system can do that.
        os.unlink(output)
    for stream in (1, 2):
        os.dup2(file, stream)
    faulthandler.enable(2)
    # Before the first import that reads them: else each worker would start as many threads as there are cores.
    for library in ("OMP", "MKL", "OPENBLAS"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    with contextlib.suppress(EOFError):
        execute = pipe.recv()
        # What was imported stays; without it the collection after each run is a matter of milliseconds.
        gc.freeze()
        while True:
            job = pipe.recv()
            os.ftruncate(file, 0)
            pipe.send(None)
            pipe.send(_timed(execute, job))


def _follow_parent() -> None:
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _timed(execute: Execute, job: Job) -> tuple[str, float, str]:
    """State, seconds and story of a run. Errors are told as text here, since not every exception survives the way between processes."""
    begin = time.monotonic()
    try:
        state, story = "done", execute(job)
    except store.Busy as error:
        state, story = "busy", str(error)
    except Exception:
        state, story = "failed", traceback.format_exc()
    return state, time.monotonic() - begin, story

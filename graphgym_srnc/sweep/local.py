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
from collections import deque
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Generator, Iterator, Sequence

from graphgym_srnc.core import environment
from graphgym_srnc.sweep.jobs import Execute, Executor, Job, Limits, Outcome, attempt

POLL_SECONDS = 0.2  # seconds between two looks at the time of the workers
OUTPUT_CHARACTERS = 4000  # how much of the output of a dead worker is shown


@contextlib.contextmanager
def warm(execute: Execute, limits: Limits, workers: int = 1) -> Iterator[Executor]:
    """An executor whose workers stay for the next call, with the arguments of ``run``."""
    idle: list[_Worker] = []
    try:
        yield lambda jobs: run(jobs, execute, limits, min(workers, len(jobs)), idle)
    finally:
        for worker in idle:
            worker.kill()


def run(
    jobs: Sequence[Job],
    execute: Execute,
    limits: Limits,
    workers: int = 1,
    idle: list[_Worker] | None = None,
) -> Generator[Outcome, None, None]:
    """Run jobs in worker processes; see ``jobs.Executor``.

    A worker imports ``execute`` once and then takes run after run. A new one replaces a worker that
    died or ran out of time, and repeats its run. Workers of ``idle`` are used before new ones are
    started, and workers without a run are left there; None = they end.
    """
    waiting = deque((job, 1) for job in jobs)
    pool: list[_Worker] = []
    spare = [] if idle is None else idle
    try:
        while waiting or pool:
            while waiting and len(pool) < workers:
                pool.append(spare.pop() if spare else _Worker())
                pool[-1].start(execute, *waiting.popleft())
            wait([worker.pipe for worker in pool], POLL_SECONDS)

            for worker in list(pool):
                outcome = worker.poll(limits)
                if outcome is None:
                    continue
                if worker.is_dead:
                    pool.remove(worker)
                    if outcome.attempts <= limits.retries:
                        waiting.appendleft((outcome.job, outcome.attempts + 1))
                        continue
                elif waiting:
                    worker.start(execute, *waiting.popleft())
                else:
                    pool.remove(worker)
                    spare.append(worker)
                yield outcome
    finally:
        for worker in pool + (spare if idle is None else []):
            worker.kill()


class _Worker:
    """A process and its run.

    Each has its own pipe: a killed process could leave a shared one torn or locked.
    """

    def __init__(self) -> None:
        # Threads of torch do not survive a fork; a spawned process inherits nothing else that could
        # change a number either.
        context = multiprocessing.get_context("spawn")
        self.pipe, its_pipe = context.Pipe()
        handle, self.path = tempfile.mkstemp(prefix="graphgym-srnc-")
        self.output = open(handle, encoding="utf-8", errors="replace")
        self.process = context.Process(target=_serve, args=(its_pipe, self.path, os.getcwd()))
        with environment.outside():
            self.process.start()
        its_pipe.close()
        self.is_dead = False

    def start(self, execute: Execute, job: Job, number: int) -> None:
        """Send it a run. The time of this attempt begins when the process is ready."""
        self.job = job
        self.number = number
        self.begin: float | None = None
        with contextlib.suppress(OSError):  # the next poll notices a dead process
            self.pipe.send((execute, job))

    def poll(self, limits: Limits) -> Outcome | None:
        """The outcome of its run if that has ended.

        Then ``is_dead`` says whether the process has ended too, by itself or at the time limit.
        """
        # First, so that a process that ends meanwhile has sent all that it had to send.
        alive = self.process.is_alive()
        with contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                message = self.pipe.recv()
                if message is not None:
                    state, text = message
                    return Outcome(self.job, state, text, self.number)
                self.begin = time.monotonic()

        if not alive:
            code = self.process.exitcode
            reason = f"its process died with exit status {code}"
            if code == -9:
                reason += " (killed, perhaps by the system for want of memory)"
            output = self.output.read()[-OUTPUT_CHARACTERS:].strip()
            if output:
                reason = f"{reason}; the end of its output:\n{output}\n{reason}"
        elif self.begin and 0 < limits.seconds < time.monotonic() - self.begin:
            reason = f"out of time: more than {limits.seconds:g} s"
        else:
            return None
        self.kill()
        return Outcome(self.job, "failed", reason, self.number)

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.is_dead = True
        self.pipe.close()
        self.output.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def _serve(pipe: Connection, output: str, folder: str) -> None:
    """Serve runs in a worker process: take one, send None when it begins, send how it ended.

    The file ``output`` takes what runs print. It is shown if the process dies. Relative paths of
    configs are below ``folder``.
    """
    os.chdir(folder)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Ctrl-C reaches all processes of a terminal; the parent decides what becomes of the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    with contextlib.suppress(OSError):
        # Both processes have it open, so that it vanishes with them; not every system allows this.
        os.unlink(output)
    for stream in (1, 2):
        os.dup2(file, stream)
    faulthandler.enable(2)
    environment.own()
    with contextlib.suppress(EOFError):
        with environment.uncollected():
            execute, job = pipe.recv()
        # Imports stay, so that the collection after each run takes milliseconds.
        gc.freeze()
        while True:
            os.ftruncate(file, 0)
            pipe.send(None)
            pipe.send(attempt(partial(execute, job)))
            execute, job = pipe.recv()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)

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
from typing import Iterator, Sequence

from graphgym_srnc.core import environment
from graphgym_srnc.sweep.jobs import Attempt, Execute, Executor, Job, Limits, Outcome, attempt

POLL_SECONDS = 0.2
"""Seconds between two looks at what the workers take."""

OUTPUT_CHARACTERS = 4000
"""How much of the output of a dead worker is shown."""


@contextlib.contextmanager
def warm(execute: Execute, limits: Limits, workers: int = 1) -> Iterator[Executor]:
    """An executor whose workers stay for the next call; the arguments are those of :func:`run`."""
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
) -> Iterator[Outcome]:
    """Run jobs in worker processes; see :data:`graphgym_srnc.sweep.jobs.Executor`.

    A worker imports what it needs once and then takes run after run. One that dies, that is out of
    memory or out of time is replaced by a new one, in which its run is tried again.

    Args:
        jobs: what to run.
        execute: runs one of them; a function that a new process can import.
        limits: what each run may take.
        workers: number of processes.
        idle: workers to take before new ones are started, and where those that have nothing more to
            do are left; None = they end.
    """
    waiting, pool = deque(map(Attempt, jobs)), []
    try:
        while waiting or pool:
            while waiting and len(pool) < workers:
                pool.append(idle.pop() if idle else _Worker(execute))
                pool[-1].begin(waiting.popleft())
            wait([worker.pipe for worker in pool], POLL_SECONDS)

            for worker in list(pool):
                outcome = worker.poll(limits)
                if outcome is None:
                    continue

                if worker.is_dead:
                    pool.remove(worker)
                    if outcome.attempts <= limits.retries:
                        waiting.appendleft(Attempt(outcome.job, outcome.attempts + 1))
                        continue
                elif waiting:
                    worker.begin(waiting.popleft())
                else:
                    pool.remove(worker)
                    if idle is None:
                        worker.kill()
                    else:
                        idle.append(worker)
                yield outcome
    finally:
        for worker in pool:
            worker.kill()


class _Worker:
    """A process, and the run that it is at.

    Each has a pipe of its own. One that all share would be left torn or locked by a process that is
    killed at a bad moment.
    """

    def __init__(self, execute: Execute) -> None:
        # Threads of torch do not survive a fork; a spawned process inherits nothing else that could
        # change a number either.
        context = multiprocessing.get_context("spawn")
        self.pipe, its_pipe = context.Pipe()
        handle, self.path = tempfile.mkstemp(prefix="graphgym-srnc-")
        self.output = open(handle, encoding="utf-8", errors="replace")
        self.process = context.Process(target=_serve, args=(its_pipe, self.path))
        with _uninterrupted():
            self.process.start()
        its_pipe.close()
        self.is_dead = False
        self._send(execute)

    def begin(self, attempt: Attempt) -> None:
        """Give it a run; its time begins when the process is ready for it."""
        self.attempt = attempt
        self._send(attempt.job)

    def poll(self, limits: Limits) -> Outcome | None:
        """The outcome of its run if that has ended.

        Afterwards ``is_dead`` says whether the process has ended too, by itself or because the run
        took more than ``limits``.
        """
        # A process that ends between two lines has sent all that it had to send before the first.
        alive = self.process.is_alive()
        with contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                message = self.pipe.recv()
                if message is not None:
                    return self.attempt.outcome(*message)
                self.attempt = self.attempt._replace(begin=time.monotonic())

        begun, seconds = self.attempt.begin is not None, self.attempt.seconds
        if not alive:
            reason = self._cause_of_death()
        elif self.attempt.is_late(limits):
            reason = f"out of time: more than {limits.seconds:g} s"
        elif begun and 0 < limits.memory_mib < self._memory():
            reason = f"out of memory: more than {limits.memory_mib:g} MiB"
        else:
            return None
        self.kill()
        return self.attempt.outcome("failed", seconds, reason)

    def kill(self) -> None:
        """End the process, whatever it is at."""
        self.process.kill()
        self.process.join()
        self.is_dead = True
        self.pipe.close()
        self.output.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _send(self, message: object) -> None:
        # The next poll finds out that a process is dead.
        with contextlib.suppress(OSError):
            self.pipe.send(message)

    def _memory(self) -> float:
        """Resident memory in MiB."""
        import psutil

        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.process.pid).memory_info().rss / 2**20
        return 0.0

    def _cause_of_death(self) -> str:
        code = self.process.exitcode
        cause = f"its process died with exit status {code}"
        cause += " (killed, perhaps by the system for want of memory)" * (code == -9)
        output = self.output.read()[-OUTPUT_CHARACTERS:].strip()
        return f"{cause}; the end of its output:\n{output}\n{cause}" if output else cause


def _serve(pipe: Connection, output: str) -> None:
    """What a worker process does: take a run, send None when it begins, send how it ended.

    What runs print goes to the file ``output``: it must not run into the progress, and it is shown
    if the process dies.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Ctrl-C reaches all processes of a terminal; the parent decides what becomes of the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    with contextlib.suppress(OSError):
        # Both processes have it open, so that nothing is left of it whatever becomes of them; not
        # every system can do that.
        os.unlink(output)
    for stream in (1, 2):
        os.dup2(file, stream)
    faulthandler.enable(2)
    # Before the first import that reads them: else each worker would start a thread for each core.
    for library in ("OMP", "MKL", "OPENBLAS"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")

    with contextlib.suppress(EOFError):
        with environment.uncollected():
            execute = pipe.recv()
        # What was imported stays; so the collection after each run takes milliseconds.
        gc.freeze()
        while True:
            job = pipe.recv()
            os.ftruncate(file, 0)
            pipe.send(None)
            pipe.send(attempt(partial(execute, job)))


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back in this block, and for good in processes that start in it.

    They would print a traceback if it came while they import.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)

"""Runs on this machine: worker processes that stay warm, each with one run at a time."""
from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
import traceback
from concurrent.futures import TimeoutError as Late
from functools import partial
from typing import Iterator, Sequence

from graphgym_srnc.grid.jobs import MEMORY_EXIT, Execute, Job, Limits, Outcome

WATCH_EVERY = 0.2
"""Seconds between two looks of a worker at its memory and its parent."""


def run(jobs: Sequence[Job], execute: Execute, limits: Limits, workers: int = 1) -> Iterator[Outcome]:
    """Run jobs in worker processes; see :data:`graphgym_srnc.grid.jobs.Executor`.

    A worker imports the package once and then takes run after run. One that dies, that is out of memory or out of time is replaced;
    its run is tried again as often as ``limits`` says.

    Args:
        jobs: what to run.
        execute: runs one of them; a function that a new process can import.
        limits: what each run may take.
        workers: number of processes.
    """
    from pebble import ProcessPool
    from pebble.common import ProcessExpired

    ended: queue.SimpleQueue = queue.SimpleQueue()
    # Threads of torch do not survive a fork; a spawned process inherits nothing else that could change a number either.
    pool = ProcessPool(workers, context=multiprocessing.get_context("spawn"), initializer=_guard, initargs=(os.getpid(), limits.memory_mib))

    def start(job: Job, tries: int) -> None:
        future = pool.schedule(_timed, args=[execute, job], timeout=limits.seconds or None)
        future.add_done_callback(partial(_put, ended, job, tries))

    try:
        for job in jobs:
            start(job, 1)
        left = len(jobs)
        while left:
            job, tries, future = ended.get()
            error = future.exception()
            if isinstance(error, (Late, ProcessExpired)) and tries <= limits.retries:
                start(job, tries + 1)
                continue
            left -= 1
            if error is None:
                yield Outcome(job, *future.result(), tries)
            elif isinstance(error, Late):
                yield Outcome(job, "failed", limits.seconds, f"out of time: more than {limits.seconds:g} s", tries)
            elif isinstance(error, ProcessExpired):
                yield Outcome(job, "failed", 0.0, _obituary(error.exitcode, limits), tries)
            else:
                yield Outcome(job, "failed", 0.0, "".join(traceback.format_exception(error)), tries)
    finally:
        pool.stop()
        pool.join()


def _put(ended: queue.SimpleQueue, job: Job, tries: int, future: object) -> None:
    ended.put((job, tries, future))


def _timed(execute: Execute, job: Job) -> tuple[str, float, str]:
    """State, seconds and story of a run. Errors are told as text here, since not every exception survives the way between processes."""
    from graphgym_srnc.store import Busy
    begin = time.monotonic()
    try:
        state, story = "done", execute(job)
    except Busy as error:
        state, story = "busy", str(error)
    except Exception:
        state, story = "failed", traceback.format_exc()
    return state, time.monotonic() - begin, story


def _guard(parent: int, memory_mib: float) -> None:
    """End this process when it outgrows its memory, or when its parent is gone."""
    import psutil
    process = psutil.Process()

    def watch() -> None:
        while True:
            time.sleep(WATCH_EVERY)
            if os.getppid() != parent:
                os._exit(1)
            if memory_mib and process.memory_info().rss > memory_mib * 2 ** 20:
                os._exit(MEMORY_EXIT)

    threading.Thread(target=watch, daemon=True).start()


def _obituary(exitcode: int | None, limits: Limits) -> str:
    if exitcode == MEMORY_EXIT:
        return f"out of memory: more than {limits.memory_mib:g} MiB"
    return f"its process died with exit status {exitcode}" + " (killed, perhaps by the system for want of memory)" * (exitcode == -9)

"""What passes between a grid and whoever runs it: plain data, for any process or machine."""

from __future__ import annotations

import time
import traceback
from typing import Any, Callable, Iterator, NamedTuple, Sequence

from graphgym_srnc.io import store


class Job(NamedTuple):
    """One run.

    Args:
        out_dir: the directory of the grid's experiments.
        name: the experiment, a directory in it.
        seed: the seed, a directory in that.
        config: the whole config as yaml.
        digest: the digest of the config, see ``store.Experiment``.
        varied: the settings in which the runs of this grid differ, by key.
        extras: what is written beside the record, as keywords of ``runs.run.Extras``.
        overwrite: run it even if it is finished.
        trust: whether its data may run code, see ``data.untrusted.trusted``.
        data_seed: the seed whose task tells whether two machines have the same data.
    """

    out_dir: str
    name: str
    seed: int
    config: str
    digest: str
    varied: dict[str, Any]
    extras: dict[str, Any]
    overwrite: bool = False
    trust: bool = False
    data_seed: int = 0


class Limits(NamedTuple):
    """What a run may take.

    Args:
        seconds: wall time of one attempt; 0 = no limit.
        memory_mib: resident memory of the process that runs it; 0 = no limit.
        retries: how often a run is tried again after its process died or a limit was hit; a run
            that raised an error is not, since it would raise it again.
    """

    seconds: float = 0.0
    memory_mib: float = 0.0
    retries: int = 1


class Outcome(NamedTuple):
    """What became of a run.

    Args:
        job: the run.
        state: ``done``, ``failed``, or ``busy`` where another process is at it.
        seconds: wall time of the last attempt.
        message: why it failed, with the traceback; else its line for the reader.
        attempts: how many attempts it took.
    """

    job: Job
    state: str
    seconds: float = 0.0
    message: str = ""
    attempts: int = 1


class Attempt(NamedTuple):
    """One attempt to run a job.

    Args:
        job: the run.
        number: 1 for the first attempt.
        begin: when it began, by ``time.monotonic``; None while it waits.
    """

    job: Job
    number: int = 1
    begin: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds since it began; 0 while it waits."""
        return 0.0 if self.begin is None else time.monotonic() - self.begin

    def is_late(self, limits: Limits) -> bool:
        """Whether it is out of time."""
        return 0 < limits.seconds < self.seconds

    def outcome(self, state: str, seconds: float, message: str) -> Outcome:
        """The outcome if this attempt is the last one."""
        return Outcome(self.job, state, seconds, message, self.number)


Execute = Callable[[Job], str]
"""Runs a job in the calling process, stores its record, and returns a line about it; raises
``store.Busy`` or what went wrong."""

DataOf = Callable[[Job], tuple[str, str]]
"""What the data of a job are called everywhere, and the fingerprint of its task of ``data_seed`` in
the calling process."""

Executor = Callable[[Sequence[Job]], Iterator[Outcome]]
"""Runs jobs, in about their order, and yields each outcome as it comes; closing the iterator stops
what still runs."""


def attempt(run: Callable[[], str]) -> tuple[str, float, str]:
    """Call a function that does a run; return state, seconds and message of its outcome.

    Errors become text here, since not every exception survives the way between processes.
    """
    begin = time.monotonic()
    try:
        state, message = "done", run()
    except store.Busy as error:
        state, message = "busy", str(error)
    except Exception:
        state, message = "failed", traceback.format_exc()
    return state, time.monotonic() - begin, message

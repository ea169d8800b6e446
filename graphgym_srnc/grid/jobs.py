"""What passes between a grid and whoever runs it: plain data, fit for another process or machine."""
from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Sequence


class Job(NamedTuple):
    """One run.

    Args:
        out_dir: the directory of the grid's experiments.
        name: the experiment, a directory in it.
        seed: the seed, a directory in that.
        config: the whole config as yaml.
        digest: the digest of the config, see ``store.Experiment``.
        varied: the settings in which the runs of this grid differ, by key.
        extras: what is written beside the record, as keywords of ``gym.runs.Extras``.
        overwrite: run it even if it is finished.
    """

    out_dir: str
    name: str
    seed: int
    config: str
    digest: str
    varied: dict[str, Any]
    extras: dict[str, Any]
    overwrite: bool = False


class Limits(NamedTuple):
    """What a run may take.

    Args:
        seconds: wall time of one try; 0 = no limit.
        memory_mib: resident memory of the process that runs it; 0 = no limit.
        retries: how often a run is tried again after its process died or a limit was hit; a run that raised an error is not, since it
            would raise it again.
    """

    seconds: float = 0.0
    memory_mib: float = 0.0
    retries: int = 1


class Outcome(NamedTuple):
    """What became of a run.

    Args:
        job: the run.
        state: ``done``, ``failed``, or ``busy`` where another process is at it.
        seconds: wall time of the last try.
        story: why it failed, with the traceback; else its line for the reader.
        tries: how many tries it took.
    """

    job: Job
    state: str
    seconds: float = 0.0
    story: str = ""
    tries: int = 1


Execute = Callable[[Job], str]
"""Runs a job in the calling process, stores its record, and returns a line about it; raises ``store.Busy`` or what went wrong."""

Executor = Callable[[Sequence[Job], Execute, Limits], Iterator[Outcome]]
"""Runs jobs, in about their order, and tells each outcome as it comes; closing the iterator stops what still runs."""

MEMORY_EXIT = 77
"""Exit status of a worker that outgrew ``Limits.memory_mib``."""

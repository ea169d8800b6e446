"""What passes between a grid and its executor: plain data, for any process or machine."""

from __future__ import annotations

import traceback
from typing import Any, Callable, Generator, NamedTuple, Sequence

from graphgym_srnc.io import store


class Job(NamedTuple):
    """One run, stored in ``<out_dir>/<name>/<seed>``."""

    out_dir: str
    name: str
    seed: int
    cfg: Any  # config whose out_dir is that of the plan
    extras: dict[str, Any]  # keywords of gym.run.Extras
    overwrite: bool = False  # whether a finished run is run again
    trust: bool = False  # whether its data may run code


class Limits(NamedTuple):
    """Limits of a run; 0 = no limit.

    A run is repeated if its process died or ran out of time, but not after an error.
    """

    seconds: float = 0.0  # of one attempt
    retries: int = 1


class Outcome(NamedTuple):
    """How a run ended."""

    job: Job
    state: str  # done, failed, or busy if another process holds the run
    message: str = ""  # the traceback of a failure, else a line about the run
    attempts: int = 1


# Runs a job in the calling process, stores its record, and returns a line about it, or raises.
Execute = Callable[[Job], str]
# Runs jobs and yields each outcome as it comes. Closing the generator stops what still runs.
Executor = Callable[[Sequence[Job]], Generator[Outcome, None, None]]


def attempt(run: Callable[[], str]) -> tuple[str, str]:
    """Call a function that does a run; return state and message of its outcome.

    Errors become text here, since not every exception survives the way between processes.
    """
    try:
        return "done", run()
    except store.Busy as error:
        return "busy", str(error)
    except Exception:
        return "failed", traceback.format_exc()

"""Runs of a grid: data first, then every run until it is done or has failed, then aggregates."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Sequence

from graphgym_srnc import shifts
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.io import store
from graphgym_srnc.sweep.jobs import Executor, Job, Outcome
from graphgym_srnc.sweep.plan import Cell

WAIT_SECONDS = 2.0
"""Seconds between two tries of runs that another process holds."""


def prepare_data(cells: Sequence[Cell]) -> None:
    """Download and process each data set once, before the workers start.

    Raises:
        InputError: A task cannot be built, or finished runs used other data.
    """
    from graphgym_srnc.gym.prepare import check_data, prepare

    configs, names = [cell.cfg for cell in cells], [cell.experiment.name for cell in cells]
    fingerprints = prepare(configs, names)
    for cell in cells:
        check_data(cell.cfg, cell.experiment, cell.missing, fingerprints)
    shifts.forget()


def execute(
    jobs: Sequence[Job], cells: Sequence[Cell], executor: Executor, progress: GridProgress
) -> list[Outcome]:
    """Run jobs until each is done or has failed; return the failures.

    Runs that another process holds are waited for, and run here if it leaves them unfinished.

    Raises:
        InputError: The reason of a failure cannot be written, for example on a full disk.
    """
    experiments = {cell.experiment.name: cell.experiment for cell in cells}
    for experiment in experiments.values():
        experiment.clear()

    failures: list[Outcome] = []
    waited = False
    while jobs:
        held = []
        with contextlib.closing(executor(jobs)) as outcomes:
            for outcome in outcomes:
                job, line = outcome.job, outcome.message
                if outcome.state == "busy":
                    held.append(job)
                    continue
                if outcome.state == "failed":
                    failures.append(outcome)
                    text = f"try {outcome.attempts}: {line}\n"
                    experiment = experiments[job.name]
                    with contextlib.suppress(store.Busy, store.Kept), experiment.claim(job.seed):
                        experiment.fail(job.seed, text)
                    line = f"seed {job.seed}: FAILED: {line.strip().splitlines()[-1]}"
                progress.finish(f"{job.name}, {line}", outcome.state == "failed")
        jobs = held
        if held:
            if not waited:
                progress.say(f"waiting for another process, which runs {len(held)} of these runs")
            waited = True
            time.sleep(WAIT_SECONDS)
    return failures


def aggregate(cells: Sequence[Cell], tensorboard: bool) -> int:
    """Write the aggregates of each experiment if possible; return the number of finished runs."""
    from graphgym_srnc.plots import events

    done = 0
    try:
        for cell in cells:
            results = cell.experiment.aggregate(cell.cfg.round)
            done += len(results)
            if tensorboard:
                events.write_aggregate(cell.experiment.path, results)
    except OSError as error:
        print(f"warning: the aggregate agg/ was not updated: {error}", file=sys.stderr)
    return done

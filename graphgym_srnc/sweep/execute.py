"""Runs of a sweep: data first, then every run until it is done or has failed, then aggregates."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Sequence

from graphgym_srnc import shifts
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.data import untrusted
from graphgym_srnc.gym.prepare import check_data, prepare
from graphgym_srnc.io import store
from graphgym_srnc.plots import events
from graphgym_srnc.sweep.jobs import Executor, Job, Outcome
from graphgym_srnc.sweep.plan import Cell

WAIT_SECONDS = 2.0
"""Seconds between two tries of runs that another process holds."""


def prepare_data(cells: Sequence[Cell]) -> None:
    """Download and process each data set once, before the workers start.

    Raises:
        InputError: A task cannot be built, or finished runs used other data.
    """
    fingerprints = prepare([(cell.cfg, cell.experiment.name) for cell in cells])
    for cell in cells:
        check_data(cell.cfg, cell.experiment, cell.missing, fingerprints)
    shifts.forget()


def jobs_of(cell: Cell, figures: bool, overwrite: bool, tensorboard: bool) -> list[Job]:
    """The missing runs of an experiment. They trust their data if this process does."""
    cfg, experiment, seeds, missing, _ = cell
    common: dict[str, Any] = {
        "overwrite": overwrite,
        "trust": untrusted.is_trusted(),
        "data_seed": min({*seeds} - {*missing}, default=seeds[0]),
    }
    jobs = []
    for seed in missing:
        extras = {"tensorboard": tensorboard, "figures": figures and seed == seeds[0]}
        jobs.append(Job(cfg.out_dir, experiment.name, seed, cfg, extras, **common))
    return jobs


def execute(
    cells: Sequence[Cell],
    executor: Executor,
    progress: GridProgress,
    *,
    figures: bool = False,
    overwrite: bool = False,
    tensorboard: bool = False,
) -> list[Outcome]:
    """Run what is missing until each run is done or has failed; return the failures.

    Runs that another process holds are waited for, and run here if it leaves them unfinished.

    Args:
        cells: The experiments.
        executor: Runs jobs.
        progress: Shows finished runs.
        figures: Whether to draw figures of the first seed of each experiment.
        overwrite: Whether to run finished runs again.
        tensorboard: Whether to write events.

    Raises:
        InputError: The reason of a failure cannot be written, for example on a full disk.
    """
    experiments = {cell.experiment.name: cell.experiment for cell in cells}
    for experiment in experiments.values():
        experiment.clear()
    jobs = [job for cell in cells for job in jobs_of(cell, figures, overwrite, tensorboard)]

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

"""Every missing run of a grid, by whoever runs it, until each is done or has failed."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Mapping, Protocol, Sequence

from graphgym_srnc import shifts
from graphgym_srnc.io import store
from graphgym_srnc.sweep.jobs import Executor, Job, Outcome
from graphgym_srnc.sweep.plan import Cell

WAIT_SECONDS = 2.0
"""Seconds until runs that another process held are tried again."""

Experiments = Mapping[str, store.Experiment]


class Progress(Protocol):
    """Shows how far a grid is."""

    def finish(self, line: str, failed: bool = False) -> None:
        """A run has ended."""

    def say(self, line: str) -> None:
        """Something that the user should know."""


def prepare_data(cells: Sequence[Cell]) -> None:
    """Download and process each data set once, before the workers start; refuse finished runs that
    were made of other data.

    Raises:
        InputError: a task cannot be made, or a finished run of the same config has another split.
    """
    from graphgym_srnc.gym.prepare import check_data, prepare

    configs, names = [cell.cfg for cell in cells], [cell.experiment.name for cell in cells]
    fingerprints = prepare(configs, names, forget=False)
    for cell in cells:
        check_data(cell.cfg, cell.experiment, cell.missing, fingerprints)
    shifts.forget()


def execute(
    jobs: Sequence[Job], cells: Sequence[Cell], executor: Executor, progress: Progress
) -> list[Outcome]:
    """Run jobs until each is done or has failed; returns the failures.

    Runs that another process holds are waited for, and done here if it leaves them unfinished.

    Raises:
        InputError: why a run failed could not be written, as on a full disk, where all others would
            fail too.
    """
    experiments = {cell.experiment.name: cell.experiment for cell in cells}
    for experiment in experiments.values():
        experiment.clear()

    failures = []
    while jobs:
        held = []
        with contextlib.closing(executor(jobs)) as outcomes:
            for outcome in outcomes:
                job = outcome.job
                if outcome.state == "busy":
                    held.append(job)
                    continue
                line = outcome.message
                if outcome.state == "failed":
                    failures.append(outcome)
                    _write_error(outcome, experiments[job.name])
                    line = f"seed {job.seed}: FAILED: {line.strip().splitlines()[-1]}"
                progress.finish(f"{job.name}, {line}", outcome.state == "failed")
        if held:
            progress.say(f"waiting for another process, which runs {len(held)} of these runs")
        jobs = _wait_for(held, experiments, progress)
    return failures


def _write_error(outcome: Outcome, experiment: store.Experiment) -> None:
    seed, text = outcome.job.seed, f"try {outcome.attempts}: {outcome.message}\n"
    with contextlib.suppress(store.Busy, store.Kept), experiment.claim(seed):
        experiment.fail(seed, text)


def _wait_for(held: list[Job], experiments: Experiments, progress: Progress) -> list[Job]:
    """Wait until one of some runs that other processes hold is free and not finished; returns the
    free ones, and after them those that are still held."""
    free: list[Job] = []
    while held and not free:
        time.sleep(WAIT_SECONDS)
        for job in list(held):
            experiment = experiments[job.name]
            with contextlib.suppress(store.Busy):
                try:
                    with experiment.claim(job.seed, job.overwrite) as result:
                        pass
                except store.Kept:
                    result = None  # the worker will say why
                held.remove(job)
                if result is None:
                    free.append(job)
                else:
                    progress.finish(f"{job.name}, seed {job.seed}: done by another process")
    return free + held


def aggregate(cells: Sequence[Cell], tensorboard: bool) -> int:
    """Renew the aggregates of each experiment, if they can be written; returns the number of
    finished runs in them."""
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

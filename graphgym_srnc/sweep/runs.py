"""From settings to finished runs. All configs and data are checked before the first run."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from graphgym_srnc import shifts
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.data import untrusted
from graphgym_srnc.errors import Collected, InputError
from graphgym_srnc.gym import load_config, run
from graphgym_srnc.gym.prepare import check_data, prepare
from graphgym_srnc.io import atomic, records, store
from graphgym_srnc.io.config_files import Settings
from graphgym_srnc.plots import events
from graphgym_srnc.sweep import space
from graphgym_srnc.sweep.jobs import Executor, Job, Outcome


class Cell(NamedTuple):
    """One experiment of a sweep: config, folder, seeds, seeds still to run."""

    cfg: run.CfgNode
    experiment: store.Experiment
    seeds: range
    missing: list[int]


def cell(
    cfg: run.CfgNode,
    out_dir: Path,
    name: str,
    seeds: range,
    resume: bool = False,
    overwrite: bool = False,
) -> Cell:
    """An experiment of a config, see ``store.Experiment.plan``; nothing is written yet."""
    cfg.out_dir = str(out_dir)
    experiment = run.experiment(cfg, name)
    return Cell(cfg, experiment, seeds, experiment.plan(seeds, resume, overwrite))


def cells(
    settings: Sequence[space.Setting],
    base: Settings,
    base_name: str,
    overrides: Sequence[Any],
    out_dir: Path,
    repeat: int,
    resume: bool = False,
    overwrite: bool = False,
) -> list[Cell]:
    """The experiments of a grid, each checked; nothing is written or deleted yet.

    ``base`` has the settings of a config file, and ``overrides`` config keys and values,
    alternately; a setting of the grid goes first.
    """
    planned: list[Cell] = []
    problems = Collected()
    seen: dict[tuple[str, str], str] = {}
    for setting in settings:
        source: Settings | str = base
        words = list(overrides)
        for key, _, value in setting:
            if key == space.BASE_KEY:
                source = str(value)
            else:
                words += key, list(value) if isinstance(value, tuple) else value
        before = len(problems.errors)
        with problems.step():
            cfg = load_config(source, words)
        if len(problems.errors) > before:
            continue
        name = space.name(base_name, setting)
        found = cell(cfg, out_dir, name, store.seeds(cfg.seed, repeat), resume, overwrite)

        text = ", ".join(f"{point.key} {point.value}" for point in setting)
        for kind, mark in (("names", name.casefold()), ("configs", found.experiment.digest)):
            other = seen.setdefault((kind, mark), text)
            if other is not text:
                raise InputError.plain(
                    "grid",
                    f"the settings {other!r} and {text!r} have the same {kind[:-1]}",
                    "Remove one of them",
                )
        planned.append(found)
    # A key is wrong in many settings of a grid, and is reported once.
    problems.errors = list({error.key: error for error in reversed(problems.errors)}.values())[::-1]
    problems.check()
    return planned


def write_plan(cells: Sequence[Cell]) -> None:
    """Write which runs a grid has into its folder, so that a comparison tells what is missing."""
    plan = {cell.experiment.name: [*cell.seeds] for cell in cells}
    folder = cells[0].experiment.out_dir
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / records.PLAN, json.dumps(plan) + "\n")


def prepare_data(cells: Sequence[Cell]) -> None:
    """Download and process each data set once, and refuse to add to runs on other data."""
    fingerprints = prepare([(cell.cfg, cell.experiment.name) for cell in cells])
    for cell in cells:
        check_data(cell.cfg, cell.experiment, cell.missing, fingerprints)
    shifts.forget()


def jobs_of(cell: Cell, figures: bool, overwrite: bool, tensorboard: bool) -> list[Job]:
    """The missing runs of an experiment. They trust their data if this process does."""
    cfg = cell.cfg
    name = cell.experiment.name
    trust = untrusted.is_trusted()
    jobs = []
    for seed in cell.missing:
        extras = {"tensorboard": tensorboard, "figures": figures and seed == cell.seeds[0]}
        jobs.append(Job(cfg.out_dir, name, seed, cfg, extras, overwrite, trust))
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

    A run that another process holds is left to it. ``figures`` are of each first seed.
    """
    experiments = {cell.experiment.name: cell.experiment for cell in cells}
    jobs = [job for cell in cells for job in jobs_of(cell, figures, overwrite, tensorboard)]

    failures: list[Outcome] = []
    with contextlib.closing(executor(jobs)) as outcomes:
        for outcome in outcomes:
            job = outcome.job
            line = outcome.message
            if outcome.state == "busy":
                progress.say(f"{job.name}, seed {job.seed}: left to another process")
                progress.skip(1)
                continue
            if outcome.state == "failed":
                failures.append(outcome)
                text = f"try {outcome.attempts}: {line}\n"
                experiment = experiments[job.name]
                with contextlib.suppress(InputError), experiment.claim(job.seed):
                    experiment.fail(job.seed, text)
                line = f"seed {job.seed}: FAILED: {line.strip().splitlines()[-1]}"
            progress.finish(f"{job.name}, {line}", outcome.state == "failed")
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

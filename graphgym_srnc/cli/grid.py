"""``graphgym-srnc grid``: run all combinations of a base config and a grid file in parallel."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Sequence

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.words import told
from graphgym_srnc.core import environment
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.core.text import counted, seeds
from graphgym_srnc.gym import load_config
from graphgym_srnc.io import config_files, store
from graphgym_srnc.io.atomic import refuse_links
from graphgym_srnc.io.settings import difference
from graphgym_srnc.report import compare, render, sentences, tables
from graphgym_srnc.report.frame import ORACLE, collect
from graphgym_srnc.report.statistics import LEAST_BLOCKS, least_pairs
from graphgym_srnc.sweep import local, runs, space, worker
from graphgym_srnc.sweep.jobs import Executor, Limits, Outcome

if TYPE_CHECKING:
    from graphgym_srnc.gym.config import CfgNode


def main(args: argparse.Namespace) -> int:
    """Run all missing runs; return 1 if a run failed.

    Raises:
        InputError: the grid file, a config, the data or the place for results is not as it must be;
            no run has started then.
        KeyboardInterrupt: Ctrl-C; what is finished is kept.
    """
    arguments.check_least(args, jobs=0, time_limit=0, retries=0, ray_cpus=0, ray_gpus=0)
    file = config_files.find(args.grid, "grid", ".txt")
    settings = space.settings(space.read(file))
    # A grid would keep a thousand models; a user who wants them overrides this.
    overrides = ["train.save_model", "false", *args.overrides]
    base_cfg = load_config(args.settings, overrides)
    base = arguments.default_name(args.cfg, args.overrides, base_cfg.dataset.format)
    folder = args.name or f"{base}_grid_{file.stem}"
    store.check_name(folder)
    out_dir = Path(args.out_dir or base_cfg.out_dir) / folder
    refuse_links(out_dir)
    cells = runs.cells(
        settings,
        args.settings,
        arguments.base_name(args.cfg),
        overrides,
        out_dir,
        args.repeat,
        args.resume,
        args.overwrite,
    )
    workers = args.jobs or environment.cores()
    missing = sum(len(cell.missing) for cell in cells)
    where = f"{workers} at a time" if args.executor == "local" else "on the cluster"
    print(f"{out_dir}: {_counts(cells)}; {missing} to run, {where}")
    for cell in cells:
        for text in cell.experiment.warnings:
            print(f"warning: {text}")
    if args.dry_run:
        arguments.remark([cell.cfg for cell in cells])
        _print_plan(cells, base_cfg, args.overrides)
        return 0
    if missing:
        runs.prepare_data(cells)
    runs.write_plan(cells)
    arguments.remark([cell.cfg for cell in cells])
    failures = _run(cells, args, workers, missing)
    if failures:
        hint = "See error.txt in their folders; --resume tries them again."
        print(f"{len(failures)} runs failed. {hint}", file=sys.stderr)
        return 1
    return 0


def _counts(cells: Sequence[runs.Cell]) -> str:
    """The numbers of settings, runs and finished runs."""
    total = sum(len(cell.seeds) for cell in cells)
    finished = total - sum(len(cell.missing) for cell in cells)
    text = f"{counted(len(cells), 'setting')}, {counted(total, 'run')}"
    return f"{text}, {finished} of them finished" if finished else text


def _print_plan(cells: Sequence[runs.Cell], base: CfgNode, overrides: Sequence[str]) -> None:
    """Print each setting, and how many seeds a comparison of them needs."""
    print("all runs:", *overrides or ["the settings below only"])
    for cell in cells:
        changed = difference(base, cell.cfg).items()
        changes = ", ".join(f"{key} {new}" for key, (_, new) in changed) or "the base config"
        left = len(cell.missing)
        print(f"{cell.experiment.name}: {changes}; {seeds(cell.seeds)}, {left} to run")
    methods = {(cell.cfg.train.mode, cell.cfg.gnn.layer_type) for cell in cells}
    rivals = len([mode for mode, _ in methods if mode != ORACLE])
    if rivals > 1:
        least = max(least_pairs(rivals - 1, "wilcoxon", 0.05), LEAST_BLOCKS)
        test = "for p ≤ 0.05 (Wilcoxon's test, Holm's correction)"
        print(f"compare: {rivals} rows need at least {least} seeds each {test}")


def _run(
    cells: Sequence[runs.Cell], args: argparse.Namespace, workers: int, missing: int
) -> list[Outcome]:
    """Run what is missing, print the table of what is finished, and return the failures."""
    tensorboard = not args.no_tensorboard
    try:
        with _executor(args, workers) as executor, GridProgress(missing) as progress:
            failures = runs.execute(
                cells,
                executor,
                progress,
                figures=args.figures,
                overwrite=args.overwrite,
                tensorboard=tensorboard,
            )
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept; --resume runs the others") from error
    finally:
        finished = runs.aggregate(cells, tensorboard)
    if finished:
        out_dir = cells[0].experiment.out_dir
        table = compare.table(collect([out_dir], records=False))
        render.show(tables.grids(table), told(sentences.remarks(table)), sys.stdout)
        commands = ("graphgym-srnc compare", "graphgym-srnc report", "tensorboard --logdir")
        print("more: " + "; ".join(f"{command} {out_dir}" for command in commands))
    return failures


def _executor(args: argparse.Namespace, workers: int) -> AbstractContextManager[Executor]:
    limits = Limits(args.time_limit, args.retries)
    if args.executor == "local":
        return local.warm(worker.execute, limits, workers)
    from graphgym_srnc.sweep import on_ray

    run = partial(
        on_ray.run,
        execute=worker.execute,
        limits=limits,
        address=args.ray_address,
        cpus=args.ray_cpus,
        gpus=args.ray_gpus,
    )
    return nullcontext(run)

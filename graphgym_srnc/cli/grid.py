"""``graphgym-srnc grid``: run all combinations of a base config and a grid file in parallel."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from graphgym_srnc.cli import arguments
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
from graphgym_srnc.sweep.jobs import Executor, Limits


def main(args: argparse.Namespace) -> int:
    """Run all missing runs; return 1 if a run failed.

    Raises:
        InputError: the grid file, a config, the data or the place for results is not as it must be;
            no run has started then.
        KeyboardInterrupt: Ctrl-C; what is finished is kept.
    """
    arguments.check_least(args, jobs=0, time_limit=0, retries=0, ray_cpus=0, ray_gpus=0)
    file = config_files.find(args.grid, "--grid", ".txt")
    settings = space.settings(space.read(file))
    # A grid would keep a thousand models; a user who wants them overrides this.
    overrides = ["train.save_model", "false", *args.overrides]
    base_cfg = load_config(args.settings, overrides)
    base = arguments.default_name(args.cfg, args.overrides, base_cfg.dataset.format)
    folder = args.name or f"{base}_grid_{file.stem}"
    store.check_name(folder)
    out_dir = Path(args.out_dir or base_cfg.out_dir) / folder
    refuse_links(out_dir)
    places = settings, args.settings, arguments.base_name(args.cfg), overrides, out_dir
    cells = runs.cells(*places, args.repeat, args.resume, args.overwrite)
    total = sum(len(cell.seeds) for cell in cells)
    missing = sum(len(cell.missing) for cell in cells)
    done = f", {total - missing} of them finished" if missing < total else ""
    workers = args.jobs or environment.cores()
    where = f"{workers} at a time" if args.executor == "local" else "on the cluster"
    count = f"{counted(len(cells), 'setting')}, {counted(total, 'run')}{done}"
    print(f"{out_dir}: {count}; {missing} to run, {where}")
    for text in [text for cell in cells for text in cell.experiment.warnings]:
        print(f"warning: {text}")
    if not args.dry_run and missing:
        runs.prepare_data(cells)
    arguments.remark([cell.cfg for cell in cells])
    if args.dry_run:
        print("all runs:", *args.overrides or ["the settings below only"])
        for cell in cells:
            changed = difference(base_cfg, cell.cfg).items()
            changes = ", ".join(f"{key} {new}" for key, (_, new) in changed) or "the base config"
            name, left = cell.experiment.name, len(cell.missing)
            print(f"{name}: {changes}; {seeds(cell.seeds)}, {left} to run")
        methods = {(cell.cfg.train.mode, cell.cfg.gnn.layer_type) for cell in cells}
        if (rivals := len([mode for mode, _ in methods if mode != ORACLE])) > 1:
            least = max(least_pairs(rivals - 1, "wilcoxon", 0.05), LEAST_BLOCKS)
            test = "for p ≤ 0.05 (Wilcoxon's test, Holm's correction)"
            print(f"compare: {rivals} rows need at least {least} seeds each {test}")
        return 0

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
        table = compare.table(collect([out_dir], records=False))
        render.show(tables.grids(table), sentences.remarks(table), sys.stdout)
        commands = "graphgym-srnc compare", "graphgym-srnc report", "tensorboard --logdir"
        print("more: " + "; ".join(f"{command} {out_dir}" for command in commands))
    if failures:
        hint = "See error.txt in their folders; --resume tries them again."
        print(f"{len(failures)} runs failed. {hint}", file=sys.stderr)
    return min(len(failures), 1)


def _executor(args: argparse.Namespace, workers: int) -> AbstractContextManager[Executor]:
    limits = Limits(args.time_limit, args.retries)
    if args.executor == "local":
        return local.warm(worker.execute, limits, workers)
    from graphgym_srnc.sweep import on_ray

    resources = {"address": args.ray_address, "cpus": args.ray_cpus, "gpus": args.ray_gpus}
    return nullcontext(partial(on_ray.run, execute=worker.execute, limits=limits, **resources))

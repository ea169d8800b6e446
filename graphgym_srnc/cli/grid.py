"""``graphgym-srnc grid``: a base config, a grid file, and every run that they ask for, side by side."""
from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from graphgym_srnc.cli.run import base_name

if TYPE_CHECKING:
    from typing import Callable, Iterator, Mapping, Sequence

    from graphgym_srnc.grid.jobs import Job, Outcome
    from graphgym_srnc.grid.plan import Cell
    from graphgym_srnc.store import Experiment, Result

WAIT = 2.0
"""Seconds until runs that another process held are tried again."""

EPILOG = """\
A line of the grid file is a config key, its alias and a list of values; an empty line starts another space:
    gnn.layer_type  l  ['gcnconv','sageconv']
    srnc.rounds     T  [2,3]
The key cfg varies the base config itself. Results go to <out-dir>/<base>_grid_<grid>/, one folder an experiment. Settings for all runs
come last, as words by turns. Ctrl-C keeps what is done; --resume goes on."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("grid", help="run every combination of a grid file, in parallel", epilog=EPILOG, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter,
                                   usage="graphgym-srnc grid --grid FILE [options] [key value ...]")
    parser.add_argument("--cfg", metavar="FILE|NAME", help="the base config, as for `run`")
    parser.add_argument("--grid", metavar="FILE|NAME", required=True, help="a grid file, or a shipped one such as grids/open_set")
    parser.add_argument("--repeat", type=int, default=1, metavar="R", help="seeds of each setting (default: 1)")
    parser.add_argument("--dry-run", action="store_true", help="list the runs, how each differs from the base, and stop")
    parser.add_argument("--sample", type=int, metavar="N", help="draw N settings at random instead of all")
    parser.add_argument("--sample-alias", default="", metavar="A,B", help="aliases whose values are compared on the same draws of the rest")
    parser.add_argument("--sample-seed", type=int, default=0, metavar="S", help="seeds the draw (default: 0)")
    present = parser.add_mutually_exclusive_group()
    present.add_argument("--resume", action="store_true", help="run only what has no finished result")
    present.add_argument("--overwrite", action="store_true", help="run all and replace what is there")
    parser.add_argument("--out-dir", metavar="DIR", help="directory of all results (default: out_dir of the base config)")
    parser.add_argument("--name", help="directory of this grid in it (default: <base>_grid_<grid>)")
    parser.add_argument("--figures", action="store_true", help="draw confusion matrix and embeddings for the first seed of each setting")
    parser.add_argument("--no-tensorboard", action="store_true", help="write no TensorBoard events")
    where = parser.add_argument_group("where the runs are done")
    where.add_argument("--executor", choices=("local", "ray"), default="local", help="processes here, or a Ray cluster (default: local)")
    where.add_argument("--jobs", type=int, default=0, metavar="N", help="local processes (default: one for each core)")
    where.add_argument("--time-limit", type=float, default=0, metavar="S", help="seconds of one try of a run; 0 = no limit (default: 0)")
    where.add_argument("--memory-limit", type=float, default=0, metavar="MIB", help="memory of a run's process; 0 = no limit (default: 0)")
    where.add_argument("--retries", type=int, default=1, metavar="K",
                       help="tries again of a run whose process died or hit a limit (default: 1)")
    where.add_argument("--ray-address", default="auto", metavar="ADDRESS", help="the cluster (default: the one that this machine is in)")
    where.add_argument("--ray-cpus", type=float, default=1, metavar="C", help="CPUs of a run on the cluster (default: 1)")
    where.add_argument("--ray-gpus", type=float, default=0, metavar="G", help="GPUs of a run on the cluster (default: 0)")
    parser.set_defaults(overrides=[])


def main(args: argparse.Namespace) -> int:
    """Run what is missing; 1 if a run failed.

    Raises:
        InputError: the grid file, a config, the data or the place for results is not as it must be; no run has started then.
        KeyboardInterrupt: Ctrl-C; what is finished is kept.
    """
    from graphgym_srnc import store
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.grid import plan, space
    from graphgym_srnc.gym import load_config
    for option, value, least in (("--repeat", args.repeat, 1), ("--jobs", args.jobs, 0), ("--time-limit", args.time_limit, 0),
                                 ("--memory-limit", args.memory_limit, 0), ("--retries", args.retries, 0)):
        if value < least:
            raise InputError(option, value, f"{least} or more")
    file = plan.find(args.grid)
    spaces = space.read(file)
    aliases = [alias for alias in args.sample_alias.split(",") if alias]
    if aliases and args.sample is None:
        raise InputError("--sample-alias", args.sample_alias, "nothing without --sample")
    settings = space.settings(spaces) if args.sample is None else space.sample(spaces, args.sample, args.sample_seed, aliases)
    base = base_name(args.cfg)
    folder = args.name or f"{base}_grid_{file.stem}"
    store.check_name(folder)
    # A thousand runs would keep a thousand models; who wants them says so after this.
    args.overrides = ["train.save_model", "false", *args.overrides]
    plain = load_config(args.cfg, args.overrides)
    out_dir = Path(args.out_dir or plain.out_dir) / folder
    cells = plan.cells(settings, args.cfg, base, args.overrides, out_dir, args.repeat, args.resume, args.overwrite)
    workers = args.jobs or _cores()
    finished = dict(store.experiments(out_dir))
    _announce(cells, out_dir, workers if args.executor == "local" else 0, finished)
    if args.dry_run:
        for cell in cells:
            changes = ", ".join(f"{key} {new}" for key, (_, new) in store.difference(plain, cell.cfg).items()) or "the base config"
            print(f"{cell.place.name}: {changes}; seeds {cell.seeds[0]} to {cell.seeds[-1]}, {len(cell.missing)} to run")
        return 0
    if args.resume:
        adopted = plan.adopt(cells, out_dir, finished)
        if adopted:
            print(f"{adopted} runs of the same config and seed were finished under another name and are taken over")
    if args.executor == "local" and any(cell.missing for cell in cells):
        _prepare(cells)
    for cell in cells:
        cell.place.clear()
    todo = plan.jobs(cells, {"tensorboard": not args.no_tensorboard}, args.figures, args.overwrite)
    try:
        failed = _run(todo, cells, _executor(args, workers))
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept, --resume runs the others") from error
    finally:
        done = _aggregate(cells, not args.no_tensorboard)
    if done:
        _show(out_dir)
    if failed:
        print(f"{len(failed)} runs failed; why is in error.txt in their directories, --resume tries them again", file=sys.stderr)
    return min(len(failed), 1)


def _announce(cells: Sequence[Cell], out_dir: Path, workers: int, finished: Mapping[str, Mapping[int, Result]]) -> None:
    from graphgym_srnc import store
    from graphgym_srnc.grid.plan import estimate, span
    missing = sum(len(cell.missing) for cell in cells)
    every = sum(len(cell.seeds) for cell in cells)
    others = store.experiments(out_dir.parent)
    known = [result for _, results in [*finished.items(), *others] for result in results.values()]
    print(f"{out_dir}: {len(cells)} settings, {every} runs" + (f", of which {every - missing} are done" if missing < every else ""))
    seconds, unknown = estimate(cells, known, workers or 1)
    if missing:
        about = f"about {span(seconds)}{'' if workers else ' of computing'}, judged by finished runs of the same method and data"
        told = [about] * (unknown < missing)
        told += [f"how long {unknown} of them take is not known, since none like them is finished"] * bool(unknown)
        where = f"{workers} at a time" if workers else "on the cluster"
        print(f"{missing} to run, {where}: {', '.join(told)}", flush=True)


def _prepare(cells: Sequence[Cell]) -> None:
    """Download and process each data set once, before the workers start; refuse finished runs that were made of other data.

    Raises:
        InputError: a task cannot be made, or a finished run of the same config has another split.
    """
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.runs.prepare import data_key, prepare
    fingerprints = prepare([cell.cfg for cell in cells], [cell.place.name for cell in cells])
    for cell in cells:
        now, finished = fingerprints.get(data_key(cell.cfg)), cell.place.result(cell.seeds[0])
        if now and finished and finished["split"] != now and cell.seeds[0] not in cell.missing:
            raise InputError("out_dir", str(cell.place.path), "another --name, or --overwrite, since its runs were made of other data"
                             f" (split of seed {cell.seeds[0]}: {finished['split'][:12]} there, {now[:12]} now)")


def _executor(args: argparse.Namespace, workers: int) -> Callable[[Sequence[Job]], Iterator[Outcome]]:
    from graphgym_srnc.grid.jobs import Limits
    from graphgym_srnc.grid.worker import execute
    limits = Limits(args.time_limit, args.memory_limit, args.retries)
    if args.executor == "ray":
        from graphgym_srnc.grid import on_ray
        return lambda jobs: on_ray.run(jobs, execute, limits, address=args.ray_address, cpus=args.ray_cpus, gpus=args.ray_gpus)
    from graphgym_srnc.grid import local
    return lambda jobs: local.run(jobs, execute, limits, min(workers, len(jobs)))


def _run(todo: list[Job], cells: Sequence[Cell], execute: Callable[[Sequence[Job]], Iterator[Outcome]]) -> list[Outcome]:
    """Run jobs until each is done or has failed; returns the failures.

    Raises:
        InputError: why a run failed could not be written, as on a full disk, where all others would fail too.
    """
    from graphgym_srnc.cli.progress import Runs
    from graphgym_srnc.store import Busy
    places = {cell.place.name: cell.place for cell in cells}
    failed = []
    with Runs(len(todo)) as progress:
        while todo:
            held = []
            with contextlib.closing(execute(todo)) as outcomes:
                for outcome in outcomes:
                    job = outcome.job
                    if outcome.state == "busy":
                        held.append(job)
                        continue
                    if outcome.state == "failed":
                        failed.append(outcome)
                        with contextlib.suppress(Busy), places[job.name].claim(job.seed):
                            places[job.name].fail(job.seed, f"try {outcome.tries}: {outcome.story}\n")
                    progress.finish(f"{job.name}, {_line(outcome)}", outcome.state == "failed")
            if held:
                progress.say(f"another process is at {len(held)} of these runs; waiting for it")
            todo = []
            while held and not todo:
                time.sleep(WAIT)
                for job in [job for job in held if _free(places[job.name], job.seed)]:
                    held.remove(job)
                    if job.overwrite or places[job.name].result(job.seed) is None:
                        todo.append(job)
                    else:
                        progress.finish(f"{job.name}, seed {job.seed}: done by another process")
            todo += held
    return failed


def _show(out_dir: Path) -> None:
    """What the results come to, the settings chosen on validation."""
    from graphgym_srnc.report import compare, render
    from graphgym_srnc.report.read import collect
    render.show(compare.table(collect([out_dir]).runs), sys.stdout)
    print(f"more: graphgym-srnc compare {out_dir}; graphgym-srnc report {out_dir}; tensorboard --logdir {out_dir}")


def _free(place: Experiment, seed: int) -> bool:
    from graphgym_srnc.store import Busy
    try:
        with place.claim(seed):
            return True
    except Busy:
        return False


def _aggregate(cells: Sequence[Cell], tensorboard: bool) -> int:
    """Renew the aggregates of each setting; returns the number of finished runs in them."""
    from graphgym_srnc.watch import events
    done = 0
    try:
        for cell in cells:
            results = cell.place.aggregate(cell.cfg.round)
            done += len(results)
            if tensorboard:
                events.write_aggregate(cell.place.path, results)
    except OSError as error:
        print(f"agg/ is not renewed: {error}", file=sys.stderr)
    return done


def _line(outcome: Outcome) -> str:
    if outcome.state == "done":
        return outcome.story
    last = outcome.story.strip().splitlines()[-1]
    return f"seed {outcome.job.seed}: FAILED: {last}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

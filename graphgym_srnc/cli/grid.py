"""``graphgym-srnc grid``: run all combinations of a base config and a grid file in parallel."""

from __future__ import annotations

import argparse
import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Sequence

from graphgym_srnc.cli import arguments

if TYPE_CHECKING:
    from yacs.config import CfgNode

    from graphgym_srnc.sweep.jobs import Executor
    from graphgym_srnc.sweep.plan import Cell
    from graphgym_srnc.sweep.space import Setting

EPILOG = """\
Each line of the grid file holds a config key, a short alias and a list of values. An empty line
starts a second search space:
    gnn.layer_type  l  ['gcnconv','sageconv']
    srnc.rounds     T  [2,3]
The key `cfg` varies the base config itself. Results are written to <out-dir>/<base>_grid_<grid>/,
one folder per experiment. Give settings for all runs last, as config keys and their values.
Ctrl-C keeps finished runs; repeat the command with --resume to run the others."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "grid",
        help="run all combinations of a grid file in parallel",
        epilog=EPILOG,
        description="Run all combinations of settings in a grid file, in parallel.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="graphgym-srnc grid --grid FILE [options] [key value ...]",
    )
    add = partial(arguments.add_option, parser)
    add("--cfg", "FILE|NAME", None, "set the base config, as for `run`")
    parser.add_argument(
        "--grid",
        metavar="FILE|NAME",
        required=True,
        help="read this grid file, or a shipped one such as grids/open_set",
    )
    add("--repeat", "R", 1, "run R seeds of each setting (default: 1)")
    add(
        "--dry-run",
        None,
        False,
        "list the runs and what each changes in the base config, then stop",
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="draw N settings at random (default: run all of them)",
    )
    add("--sample-seed", "S", 0, "seed the random draw of --sample (default: 0)")
    arguments.add_present(
        parser,
        "run only the runs without a finished result",
        "run all runs again and replace their results",
    )
    add("--out-dir", "DIR", None, "write results below DIR (default: out_dir of the config)")
    add("--name", None, None, "name the folder of this grid (default: <base>_grid_<grid>)")
    text = "draw the confusion matrix and the embeddings for the first seed of each setting"
    add("--figures", None, False, f"{text} (default: no figures)")
    add("--no-tensorboard", None, False, "write no TensorBoard event files")
    arguments.add_trust(parser)

    group = parser.add_argument_group("where to run")
    group.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="run on this machine, or on a Ray cluster (default: local)",
    )
    arguments.add_limits(group)
    add = partial(arguments.add_option, group)
    text = "connect to the Ray cluster at ADDRESS (default: the one this machine belongs to)"
    add("--ray-address", "ADDRESS", "auto", text)
    add("--ray-cpus", "C", 1.0, "reserve C CPUs of the cluster for each run (default: 1)")
    add("--ray-gpus", "G", 0.0, "reserve G GPUs of the cluster for each run (default: 0)")
    parser.set_defaults(overrides=[])


def main(args: argparse.Namespace) -> int:
    """Run all missing runs; return 1 if a run failed.

    Raises:
        InputError: the grid file, a config, the data or the place for results is not as it must be;
            no run has started then.
        KeyboardInterrupt: Ctrl-C; what is finished is kept.
    """
    from graphgym_srnc.core import environment
    from graphgym_srnc.core.progress import GridProgress
    from graphgym_srnc.io import store
    from graphgym_srnc.io.atomic import refuse_links
    from graphgym_srnc.sweep import execute, plan, space

    arguments.check_least(
        args, repeat=1, jobs=0, time_limit=0, memory_limit=0, retries=0, ray_cpus=0, ray_gpus=0
    )
    file = space.find(args.grid)
    settings = _settings(args, file)
    _glance(args, settings)
    with environment.uncollected():
        from graphgym_srnc.gym import load_config
    # A grid would keep a thousand models; a user who wants them overrides this.
    overrides = ["train.save_model", "false", *args.overrides]
    base_cfg = load_config(args.cfg, overrides)
    base = arguments.default_name(args.cfg, args.overrides, base_cfg.dataset.format)
    folder = args.name or f"{base}_grid_{file.stem}"
    store.check_name(folder)
    out_dir = Path(args.out_dir or base_cfg.out_dir) / folder
    refuse_links("out_dir", out_dir)
    cells = plan.cells(
        settings,
        args.cfg,
        arguments.base_name(args.cfg),
        overrides,
        out_dir,
        args.repeat,
        args.resume,
        args.overwrite,
    )
    total = sum(len(cell.seeds) for cell in cells)
    missing = sum(len(cell.missing) for cell in cells)
    done = f", {total - missing} of them finished" if missing < total else ""
    workers = args.jobs or environment.cores()
    where = f"{workers} at a time" if args.executor == "local" else "on the cluster"
    print(f"{out_dir}: {len(cells)} settings, {total} runs{done}; {missing} to run, {where}")
    for text in [text for cell in cells for text in cell.experiment.warnings]:
        print(f"warning: {text}")
    if args.dry_run:
        _list(cells, base_cfg)
        return 0

    if args.executor == "local" and any(cell.missing for cell in cells):
        execute.prepare_data(cells)
    arguments.remark([cell.cfg for cell in cells])
    tensorboard = not args.no_tensorboard
    jobs = plan.jobs(cells, {"tensorboard": tensorboard}, args.figures, args.overwrite)
    try:
        with _executor(args, workers, cells) as executor, GridProgress(len(jobs)) as progress:
            failures = execute.execute(jobs, cells, executor, progress)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept; --resume runs the others") from error
    finally:
        finished = execute.aggregate(cells, tensorboard)
    if finished:
        _show(out_dir)
    if failures:
        print(
            f"{len(failures)} runs failed. See error.txt in their folders; --resume tries them "
            "again.",
            file=sys.stderr,
        )
    return min(len(failures), 1)


def _settings(args: argparse.Namespace, file: Path) -> list[Setting]:
    """Settings of the grid file, all of them or a sample."""
    from graphgym_srnc.sweep import space

    spaces = space.read(file)
    if args.sample is not None:
        return space.sample(spaces, args.sample, args.sample_seed)
    return space.settings(spaces)


def _glance(args: argparse.Namespace, settings: Sequence[Setting]) -> None:
    """Check the names of configs, methods and shifts before slow imports."""
    from graphgym_srnc.sweep.space import BASE_KEY

    points = dict.fromkeys(point for setting in settings for point in setting)
    for base in [args.cfg, *(point.value for point in points if point.key == BASE_KEY)]:
        arguments.read_config(base, args.overrides)
    for point in points:
        if point.key != BASE_KEY:
            arguments.read_config(None, [point.key, point.value])


def _list(cells: Sequence[Cell], base: CfgNode) -> None:
    """Print each experiment of a grid and how it differs from the base config."""
    from graphgym_srnc.core.text import seeds
    from graphgym_srnc.io.settings import difference

    for cell in cells:
        changed = difference(base, cell.cfg).items()
        changes = ", ".join(f"{key} {new}" for key, (_, new) in changed) or "the base config"
        name, missing = cell.experiment.name, len(cell.missing)
        print(f"{name}: {changes}; {seeds(cell.seeds)}, {missing} to run")
    arguments.remark([cell.cfg for cell in cells])


@contextlib.contextmanager
def _executor(args: argparse.Namespace, workers: int, cells: Sequence[Cell]) -> Iterator[Executor]:
    from graphgym_srnc.sweep import local, plan
    from graphgym_srnc.sweep.worker import data_of, execute

    limits = arguments.limits(args)
    if args.executor == "local":
        with local.warm(execute, limits, workers) as executor:
            yield executor
        return

    from graphgym_srnc.sweep import on_ray

    yield partial(
        on_ray.run,
        execute=execute,
        limits=limits,
        address=args.ray_address,
        cpus=args.ray_cpus,
        gpus=args.ray_gpus,
        data_of=data_of,
        known=plan.known_data(cells),
    )


def _show(out_dir: Path) -> None:
    """Print the table of all results, with settings chosen on validation."""
    from graphgym_srnc.report import compare, render
    from graphgym_srnc.report.frame import collect

    render.show_comparison(compare.table(collect([out_dir], records=False).runs), sys.stdout)
    print(
        f"more: graphgym-srnc compare {out_dir}; graphgym-srnc report {out_dir}; "
        f"tensorboard --logdir {out_dir}"
    )

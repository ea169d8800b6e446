"""``graphgym-srnc run``: one config over several seeds, from the yaml to the table."""
from __future__ import annotations

import argparse
import contextlib
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yacs.config import CfgNode

    from graphgym_srnc.store import Experiment

EPILOG = """\
Settings come last, as words by turns: graphgym-srnc run --cfg paper/open_set/cora-srnc --repeat 10 gnn.dim_inner 64 train.patience 1
Results go to <out-dir>/<name>/; a finished run is kept unless --overwrite is given. After Ctrl-C, or a crash, --resume goes
on, inside the run that was cut off as well.
`graphgym-srnc options` lists every key."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("run", help="train and score a config over several seeds", epilog=EPILOG, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter,
                                   usage="graphgym-srnc run [options] [key value ...]")
    parser.add_argument("--cfg", metavar="FILE|NAME", help="a yaml file, or the name of a shipped one such as paper/open_set/cora-srnc;"
                        " without it the embedded default runs")
    parser.add_argument("--repeat", type=int, default=1, metavar="R",
                        help="number of run, with seeds cfg.seed, cfg.seed + 1, ... (default: 1)")
    present = parser.add_mutually_exclusive_group()
    present.add_argument("--resume", action="store_true", help="run only the seeds that have no finished result, one that was cut off from"
                         " its checkpoint, then renew the table")
    present.add_argument("--overwrite", action="store_true", help="run all seeds and replace what is there")
    parser.add_argument("--out-dir", metavar="DIR", help="directory of all results (default: cfg.out_dir)")
    parser.add_argument("--name", help="directory of this experiment in it (default: the name of the yaml file)")
    parser.add_argument("--figures", action=argparse.BooleanOptionalAction, default=None,
                        help="draw confusion matrix and embeddings for every seed, or for none (default: for the first seed)")
    parser.add_argument("--figure-every", type=int, default=0, metavar="K",
                        help="draw every K-th episode too, not only the first and the selected one")
    parser.add_argument("--map", choices=("pca", "tsne"), default="pca", help="how embeddings are drawn in two dimensions (default: pca)")
    parser.add_argument("--no-tensorboard", action="store_true", help="write no TensorBoard events")
    parser.set_defaults(overrides=[])


def main(args: argparse.Namespace) -> int:
    """Run what is missing, store it, print the table.

    Raises:
        InputError: the config, the data or the place for results is not as it must be; nothing was written then.
        KeyboardInterrupt: Ctrl-C; the finished runs and their table are kept.
        ProcessLost: another of the processes that ``torchrun`` started has ended.
    """
    from graphgym_srnc import parallel
    with parallel.processes():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from graphgym_srnc import parallel
    from graphgym_srnc.cli.progress import Progress
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.report import table
    from graphgym_srnc.runs import run
    from graphgym_srnc.train.trainer import IN_PARALLEL
    cfg = load_config(args.cfg, args.overrides)
    if parallel.count() > 1 and not cfg.get(cfg.train.mode, {}).get("batch_size"):
        raise InputError(f"{cfg.train.mode}.batch_size", 0, IN_PARALLEL)
    if args.repeat < 1:
        raise InputError("--repeat", args.repeat, "1 or more")
    if args.figure_every < 0:
        raise InputError("--figure-every", args.figure_every, "0 or more")
    cfg.out_dir = args.out_dir or cfg.out_dir
    experiment = run.experiment(cfg, args.name or base_name(args.cfg))
    seeds = range(cfg.seed, cfg.seed + args.repeat)
    todo = json.loads(parallel.from_first(lambda: json.dumps(experiment.plan(seeds, args.resume, args.overwrite)).encode()))
    if not parallel.first():
        for seed in todo:
            run.run(cfg, seed, experiment, resume=args.resume)
        return 0
    print(f"{experiment.path}: {cfg.train.mode} on {cfg.dataset.format}/{cfg.dataset.name}, {cfg.gnn.layer_type}, seeds "
          f"{seeds[0]} to {seeds[-1]}" + (f", of which {len(seeds) - len(todo)} are done" if len(todo) < len(seeds) else ""), flush=True)
    try:
        with Progress(len(todo)) if todo else contextlib.nullcontext() as progress:
            for seed in todo:
                figures = seed == seeds[0] if args.figures is None else args.figures
                progress.start(f"seed {seed}")
                with experiment.claim(seed):
                    result = run.run(cfg, seed, experiment, progress,
                                      run.Extras(not args.no_tensorboard, figures, args.figure_every, args.map), args.resume)
                progress.finish(table.line(result))
                for warning in result["warnings"]:
                    progress.say(f"warning: seed {seed}: {warning}")
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept, --resume goes on with the others") from error
    finally:
        _table(experiment, cfg, args.no_tensorboard)
    return 0


def base_name(cfg_file: str | None) -> str:
    last = (cfg_file or "default").replace("\\", "/").rsplit("/", 1)[-1]
    return last.removesuffix(".yaml").removesuffix(".yml")


def _table(experiment: Experiment, cfg: CfgNode, no_tensorboard: bool) -> None:
    from graphgym_srnc.report import table
    from graphgym_srnc.watch import events
    results = experiment.aggregate(cfg.round)
    if results:
        if not no_tensorboard:
            events.write_aggregate(experiment.path, results)
        rows = [table.summarise(experiment.name, results, experiment.out_dir)]
        table.write(experiment.path, rows)
        table.show(rows, sys.stdout)

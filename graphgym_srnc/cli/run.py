"""``graphgym-srnc run``: train and evaluate one config over several seeds."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Sequence

from graphgym_srnc.cli import arguments

if TYPE_CHECKING:
    from yacs.config import CfgNode

    from graphgym_srnc.io.store import Experiment

EPILOG = """\
Give config keys and their values last:
    graphgym-srnc run --cfg paper/open_set/cora-srnc --repeat 10 gnn.dim_inner 64 train.patience 1
Results are written to <out-dir>/<name>/. Finished runs are kept unless you give --overwrite.
After Ctrl-C or a crash, repeat the command with --resume: an interrupted run continues from its
checkpoint. `graphgym-srnc options` lists every config key."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "run",
        help="train and evaluate a config over several seeds",
        epilog=EPILOG,
        description="Train and evaluate one config over several seeds.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="graphgym-srnc run [options] [key value ...]",
    )
    add = parser.add_argument
    add(
        "--cfg",
        metavar="FILE|NAME",
        help="read this yaml file, or a shipped config such as paper/open_set/cora-srnc (default:"
        " the package's default config)",
    )
    add(
        "--repeat",
        type=int,
        default=1,
        metavar="R",
        help="run R seeds, counted from `seed` of the config (default: 1)",
    )
    arguments.add_present(
        parser,
        "run only the seeds without a finished result; continue an interrupted one from"
        " its checkpoint",
        "run all seeds again and replace their results",
    )
    add("--out-dir", metavar="DIR", help="write results below DIR (default: out_dir of the config)")
    add(
        "--name",
        help="name the folder of this experiment (default: the config's name, plus the"
        " settings of data, shift and method given on the command line)",
    )
    add(
        "--figures",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="draw the confusion matrix and the embeddings for every seed, or for none (default:"
        " for the first seed only)",
    )
    add(
        "--figure-every",
        type=int,
        default=0,
        metavar="K",
        help="also draw every K-th episode; 0 = only the first and the selected one (default: 0)",
    )
    add(
        "--map",
        choices=("pca", "tsne"),
        default="pca",
        help="project embeddings to two dimensions with this method (default: pca)",
    )
    add("--no-tensorboard", action="store_true", help="write no TensorBoard event files")
    arguments.add_trust(parser)
    parser.set_defaults(overrides=[])


def main(args: argparse.Namespace) -> None:
    """Run the missing seeds, store the results and print the table.

    Raises:
        InputError: the config, the data or the place for results is not as it must be; nothing was
            written then.
        KeyboardInterrupt: Ctrl-C; the finished runs and their table are kept.
        ProcessLost: another of the processes that ``torchrun`` started has ended.
    """
    from graphgym_srnc.core import environment

    arguments.check_least(args, repeat=1, figure_every=0)
    settings = arguments.read_config(args.cfg, args.overrides)
    with environment.uncollected():
        from graphgym_srnc.core import parallel
    with parallel.processes():
        _main(args, settings)


def _main(args: argparse.Namespace, settings: dict[str, Any]) -> None:
    from graphgym_srnc.core import parallel, text
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.gym import load_config, run
    from graphgym_srnc.gym.prepare import check_data, choose_batches
    from graphgym_srnc.io import store
    from graphgym_srnc.train.trainer import IN_PARALLEL

    cfg = load_config(settings, args.overrides)
    batches = choose_batches(cfg, [*settings, *args.overrides[::2]])
    if parallel.count() > 1 and not cfg.get(cfg.train.mode, {}).get("batch_size"):
        raise InputError(f"{cfg.train.mode}.batch_size", 0, IN_PARALLEL)
    seeds = store.seeds(cfg.seed, args.repeat)
    cfg.out_dir = args.out_dir or cfg.out_dir
    experiment = run.experiment(
        cfg, args.name or arguments.default_name(args.cfg, args.overrides, cfg.dataset.format)
    )

    def plan() -> bytes:
        missing = experiment.plan(seeds, args.resume, args.overwrite)
        if missing:
            check_data(cfg, experiment, missing, {})
        return json.dumps(missing).encode()

    missing = json.loads(parallel.from_first(plan))
    if not parallel.first():
        for seed in missing:
            if parallel.from_first(bytes):
                run.run(cfg, seed, experiment, resume=args.resume)
        return
    arguments.remark([cfg])
    if batches:
        print(f"note: {batches}", file=sys.stderr)
    for warning in experiment.warnings:
        print(f"warning: {warning}", flush=True)
    done = len(seeds) - len(missing)
    data = cfg.dataset.format == "file" and cfg.file.path or cfg.dataset.name
    print(
        f"{experiment.path}: {text.method_name(cfg.train.mode, cfg.gnn.layer_type)} on "
        f"{text.clean(f'{cfg.dataset.format}/{data}'.rstrip('/'))}, {text.seeds(seeds)}"
        + (f", {done} of them finished" if done else ""),
        flush=True,
    )
    try:
        _run_all(args, cfg, experiment, missing)
    except KeyboardInterrupt as error:
        kept = "finished runs are kept; --resume runs the others"
        raise KeyboardInterrupt(kept) from error
    finally:
        _show_table(experiment, cfg, args.no_tensorboard)
    _show_next(experiment, cfg)


def _run_all(
    args: argparse.Namespace, cfg: CfgNode, experiment: Experiment, missing: Sequence[int]
) -> None:
    from graphgym_srnc.core import parallel
    from graphgym_srnc.core.progress import RunProgress
    from graphgym_srnc.gym import run
    from graphgym_srnc.report import summary

    if not missing:
        return
    with RunProgress(len(missing)) as progress:
        for seed in missing:
            figures = seed == cfg.seed if args.figures is None else args.figures
            extras = run.Extras(not args.no_tensorboard, figures, args.figure_every, args.map)
            progress.start(f"seed {seed}", "starting")
            with experiment.claim(seed, args.overwrite) as found:
                parallel.from_first(partial(bytes, found is None))  # whether the others run it
                result = found or run.run(cfg, seed, experiment, progress, extras, args.resume)
            progress.finish(summary.line(result) + ", done by another process" * bool(found))
            for warning in result["warnings"]:
                progress.say(f"warning: seed {seed}: {warning}")


def _show_next(experiment: Experiment, cfg: CfgNode) -> None:
    """Print commands for the next steps."""
    place, folder = (shlex.quote(str(path)) for path in (experiment.path, experiment.out_dir))
    lines = [f"graphgym-srnc report {folder}  # all tables and figures as one page"]
    if cfg.train.save_model and cfg.train.mode not in ("standard", "iid"):
        lines.append(f"graphgym-srnc predict {place} --out predictions.csv  # class of each node")
        figures = [
            (result.get("verdict") or {}).get("figures", {})
            for result in experiment.results().values()
        ]
        if any(of_run.get("unknown_share") for of_run in figures):
            lines.append(
                f"graphgym-srnc discover {place} --out discovery.html"
                "  # clusters of the unknown nodes"
            )
    print("next:", *lines, sep="\n  ")


def _show_table(experiment: Experiment, cfg: CfgNode, no_tensorboard: bool) -> None:
    from graphgym_srnc.plots import events
    from graphgym_srnc.report import summary

    results = experiment.aggregate(cfg.round)
    if results:
        if not no_tensorboard:
            events.write_aggregate(experiment.path, results)
        rows = [summary.summarise(experiment.name, results, experiment.out_dir)]
        summary.write(experiment.path, rows)
        summary.show(rows, sys.stdout)

"""``graphgym-srnc run``: train and evaluate one config over several seeds."""

from __future__ import annotations

import argparse
import json
import shlex
import sys

from graphgym_srnc.cli import arguments
from graphgym_srnc.core import parallel, text
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.data import files
from graphgym_srnc.gym import load_config, run
from graphgym_srnc.gym.config import CfgNode, data_root
from graphgym_srnc.gym.prepare import check_data, choose_batches
from graphgym_srnc.io import store
from graphgym_srnc.io.store import Experiment
from graphgym_srnc.plots import events
from graphgym_srnc.report import render, summary
from graphgym_srnc.report.names import method_name


@parallel.processes()
def main(args: argparse.Namespace) -> None:
    """Run the missing seeds, store the results and print the table.

    Raises:
        InputError: the config, the data or the place for results is not as it must be; nothing was
            written then.
        KeyboardInterrupt: Ctrl-C; the finished runs and their table are kept.
        ProcessLost: another of the processes that ``torchrun`` started has ended.
    """
    cfg = load_config(args.settings, args.overrides)
    batches = choose_batches(cfg, [*args.settings, *args.overrides[::2]])
    seeds = store.seeds(cfg.seed, args.repeat)
    cfg.out_dir = args.out_dir or cfg.out_dir
    experiment = run.experiment(
        cfg, args.name or arguments.default_name(args.cfg, args.overrides, cfg.dataset.format)
    )
    data = cfg.dataset.format == "file" and cfg.file.path or cfg.dataset.name
    shift = cfg.get(cfg.dataset.format, {})
    graphs = f"{shift['source']} to {shift['target']}" if "target" in shift else data

    def plan() -> bytes:
        if cfg.dataset.format == "file":
            key = "file.path" if cfg.file.path else "dataset.name"
            files.locate(data, data_root(cfg.dataset.dir), key)
        missing = experiment.plan(seeds, args.resume, args.overwrite)
        if missing:
            check_data(cfg, experiment, missing, {})
        return json.dumps(missing).encode()

    missing = json.loads(parallel.from_first(plan))
    if parallel.rank():
        for seed in missing:
            run.run(cfg, seed, experiment, resume=args.resume)
        return
    arguments.remark([cfg])
    if batches:
        text.tell(f"note: {batches}", sys.stderr)
    for warning in experiment.warnings:
        text.tell(f"warning: {warning}")
    done = len(seeds) - len(missing)
    print(
        f"{experiment.path}: {method_name(cfg.train.mode, cfg.gnn.layer_type)} on "
        f"{text.clean(f'{cfg.dataset.format}/{graphs}'.rstrip('/'))}, {text.seeds(seeds)}"
        + (f", {done} of them finished" if done else ""),
        flush=True,
    )
    left = list(missing)
    try:
        _run_all(args, cfg, experiment, left)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept; --resume runs the others") from error
    finally:
        if results := experiment.aggregate(cfg.round):
            if not args.no_tensorboard:
                events.write_aggregate(experiment.path, results)
            summary.write(experiment.path, [summary.summarise(experiment.name, results)])
        # With --overwrite, seeds that are left still have the results of an earlier command.
        shown = {seed: result for seed, result in results.items() if seed not in left}
        if shown and (not left or left != missing):
            rows = [summary.summarise(experiment.name, shown)]
            render.show([summary.grid(rows)], summary.notes(rows), sys.stdout)

    # Commands for the next steps.
    place, folder = (shlex.quote(str(path)) for path in (experiment.path, experiment.out_dir))
    print("next:")
    if any(result["test"] for result in results.values()):
        print(f"  graphgym-srnc report {folder}  # all tables and figures as one page")
    if cfg.train.save_model and cfg.train.mode != "iid":
        out = arguments.unused("predictions.csv")
        print(f"  graphgym-srnc predict {place} --out {out}  # class of each node")
        found = [result.get("verdict") or {} for result in results.values()]
        if any(verdict.get("figures", {}).get("unknown_share") for verdict in found):
            out = arguments.unused("discovery.html")
            print(f"  graphgym-srnc discover {place} --out {out}  # the unknown nodes")


def _run_all(
    args: argparse.Namespace, cfg: CfgNode, experiment: Experiment, left: list[int]
) -> None:
    """Run the seeds that are left, and take each from the list when it is finished."""
    with RunProgress(len(left)) as progress:
        for seed in list(left):
            figures = seed == cfg.seed if args.figures is None else args.figures
            extras = run.Extras(not args.no_tensorboard, figures, bool(args.figures), pdf=args.pdf)
            progress.doing("starting")
            result = run.run(cfg, seed, experiment, progress, extras, args.resume, args.overwrite)
            left.remove(seed)
            progress.finish(summary.line(result))

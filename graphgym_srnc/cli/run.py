"""``graphgym-srnc run``: train and evaluate one config over several seeds."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Mapping, Sequence

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.words import told
from graphgym_srnc.core import parallel, text
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.data import folder
from graphgym_srnc.gym import load_config, run
from graphgym_srnc.gym.build import own_graph
from graphgym_srnc.gym.config import CfgNode
from graphgym_srnc.gym.prepare import check_data, choose_batches
from graphgym_srnc.io import store
from graphgym_srnc.io.records import Result
from graphgym_srnc.io.store import Experiment
from graphgym_srnc.plots import events
from graphgym_srnc.report import held_out, render, summary
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
    name = args.name or arguments.default_name(args.cfg, args.overrides, cfg.dataset.format)
    experiment = run.experiment(cfg, name)
    missing = json.loads(parallel.from_first(lambda: _plan(args, cfg, experiment, seeds)))
    if parallel.rank():
        for seed in missing:
            run.run(cfg, seed, experiment, resume=args.resume)
        return

    arguments.remark([cfg])
    if batches:
        text.tell(f"note: {batches}", sys.stderr)
    for warning in experiment.warnings:
        text.tell(f"warning: {warning}")
    print(_headline(cfg, experiment, seeds, missing), flush=True)
    left = list(missing)
    try:
        _run_all(args, cfg, experiment, left)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept; --resume runs the others") from error
    finally:
        results = experiment.aggregate(cfg.round)
        if results:
            _write_summary(args, experiment, results)
        # With --overwrite, seeds that are left still have the results of an earlier command.
        shown = {seed: result for seed, result in results.items() if seed not in left}
        if shown and (not left or left != missing):
            _show(cfg, experiment, shown)
    print("next:")
    for command in _next_commands(args, cfg, experiment, results):
        print(f"  {command}")


def _plan(
    args: argparse.Namespace, cfg: CfgNode, experiment: Experiment, seeds: Sequence[int]
) -> bytes:
    """The seeds to run, after a check of the data."""
    arguments.check_data([cfg])
    if cfg.dataset.format == "file":
        own_graph(cfg)
    missing = experiment.plan(seeds, args.resume, args.overwrite)
    if missing:
        check_data(cfg, experiment, missing, {})
    return json.dumps(missing).encode()


def _headline(
    cfg: CfgNode, experiment: Experiment, seeds: Sequence[int], missing: Sequence[int]
) -> str:
    """What is run and where results go."""
    shift = cfg.get(cfg.dataset.format, {})
    graphs = shift.get("path") or cfg.dataset.name
    if "target" in shift:
        graphs = f"{shift['source']} to {shift['target']}"
    data = text.clean(f"{cfg.dataset.format}/{graphs}".rstrip("/"))
    method = method_name(cfg.train.mode, cfg.gnn.layer_type)
    done = len(seeds) - len(missing)
    finished = f", {done} of them finished" if done else ""
    return f"{experiment.path}: {method} on {data}, {text.seeds(seeds)}{finished}"


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
            progress.finish(*told([summary.line(result)]))


def _write_summary(
    args: argparse.Namespace, experiment: Experiment, results: Mapping[int, Result]
) -> None:
    """Write the scores of all finished runs together."""
    if not args.no_tensorboard:
        events.write_aggregate(experiment.path, results)
    summary.write(experiment.path, [summary.summarise(experiment.name, results)], told)


def _show(cfg: CfgNode, experiment: Experiment, results: Mapping[int, Result]) -> None:
    """Print the scores of finished runs, and warnings."""
    rows = [summary.summarise(experiment.name, results)]
    tested = any(result["test"] for result in results.values())
    first = results[min(results)]
    own = held_out.lines(first)
    if own:
        own += held_out.since_labels(first, folder.parent(own_graph(cfg)))
    for line in told(own):
        text.tell(line)
    # Without test scores the table would be empty.
    grids = [summary.grid(rows)] if tested or not own else []
    render.show(grids, told(summary.notes(rows)), sys.stdout)
    warning = held_out.on_better(first)
    if warning:
        text.tell(warning)


def _next_commands(
    args: argparse.Namespace, cfg: CfgNode, experiment: Experiment, results: Mapping[int, Result]
) -> list[str]:
    """Commands that show or use the results, with comments."""
    place, out_dir = (shlex.quote(str(path)) for path in (experiment.path, experiment.out_dir))
    commands = []
    if any(result["test"] or result["held_out"] for result in results.values()):
        commands.append(f"graphgym-srnc report {out_dir}  # all tables and figures as one page")
    if not cfg.train.save_model or cfg.train.mode == "iid":
        return commands
    out = arguments.unused("predictions.csv")
    command = f"graphgym-srnc predict {place} --out {out}"
    purpose = "class of each node"
    if any(map(held_out.lacks_sample, results.values())):
        command += f" --sample {arguments.unused('sample.csv')}"
        purpose += ", and random nodes to label, whose labels show the accuracy"
    commands.append(f"{command}  # {purpose}")
    if cfg.dataset.format == "file" and cfg.file.open_set or _finds_unknown(results):
        out = arguments.unused("discovery.html")
        command = f"graphgym-srnc discover {place}{_since(cfg)} --out {out}"
        commands.append(f"{command}  # candidates for new classes")
    others = held_out.alternatives(results[min(results)]) if results else []
    return commands + [_command_of(args, experiment, other) for other in others]


def _since(cfg: CfgNode) -> str:
    """The option that compares with the run whose nodes got labels, if it is still there."""
    if cfg.dataset.format != "file":
        return ""
    earlier = folder.parent(own_graph(cfg)).get("run", "")
    return f" --since {shlex.quote(earlier)}" if earlier and Path(earlier).is_dir() else ""


def _finds_unknown(results: Mapping[int, Result]) -> bool:
    """Whether a run predicts a node as unknown."""
    figures = [result["verdict"]["figures"] for result in results.values()]
    return any(found.get("unknown_share") for found in figures)


def _command_of(
    args: argparse.Namespace, experiment: Experiment, other: held_out.Alternative
) -> str:
    """The command of this run with some other settings, under another name."""
    given = dict(zip(args.overrides[::2], args.overrides[1::2])) | other.settings
    words = ["graphgym-srnc", "run"]
    for option, value in (("--cfg", args.cfg), ("--out-dir", args.out_dir)):
        words += [option, value] if value else []
    words += ["--name", f"{experiment.name}-{other.ending}"]
    words += ["--repeat", str(args.repeat)] if args.repeat > 1 else []
    for key, value in given.items():
        words += [key, value]
    return f"{shlex.join(words)}  # {other.purpose}"

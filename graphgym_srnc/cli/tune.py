"""``graphgym-srnc tune``: search hyperparameters with the same budget for every method."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
from pathlib import Path

import optuna

from graphgym_srnc.cli import arguments
from graphgym_srnc.core import environment
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.core.text import aligned, counted
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import load_config
from graphgym_srnc.io import store
from graphgym_srnc.sweep import chosen, local, search
from graphgym_srnc.sweep.jobs import Limits
from graphgym_srnc.sweep.study import Study
from graphgym_srnc.sweep.worker import execute

REPORTED = 10  # seeds below it are reserved for reporting


def main(args: argparse.Namespace) -> int:
    """Run the missing trials and choose settings; return 1 if all trials of a method failed.

    Raises:
        InputError: An option, a config, the data or the place for results does not suit, or Optuna
            is not installed. No run has started then.
        KeyboardInterrupt: Ctrl-C. Finished runs are kept.
    """
    arguments.check_least(args, trials=1, jobs=0, time_limit=0, retries=0)
    study = _study(args)
    chosen.check_place(study)
    search.check(study.arms, study.blocks, study.seeds[0])
    print(
        f"{study.folder}: {counted(len(study.arms), 'method')}, {study.trials} trials each on "
        f"seeds {study.seeds[0]} to {study.seeds[-1]} of {counted(len(study.blocks), 'task')}, "
        f"at most {study.most_runs} runs; optuna {optuna.__version__}"
    )
    for arm in study.arms:
        few = f", all {arm.size} settings" if arm.size < study.trials else ""
        keys = "; ".join(f"{key} {', '.join(map(str, arm.space[key]))}" for key in arm.space)
        print(f"{arm.name}: from {arm.base or 'the default config'}{few}; {keys}", flush=True)
    arguments.remark([arm.config(study.blocks[0]) for arm in study.arms])
    if args.dry_run:
        return 0

    limits = Limits(args.time_limit, args.retries)
    try:
        with (
            arguments.writing("out_dir", str(study.folder)),
            local.warm(execute, limits, args.jobs or environment.cores()) as runs,
            GridProgress(study.most_runs) as progress,
        ):
            study.run(runs, progress)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept; repeat the command to continue") from error
    with arguments.writing("out_dir", str(study.folder)):
        rows, sentences, grid = chosen.write(study)
    about = "default, best: mean selection score in % of the unchanged config and the chosen trial"
    print(aligned(rows) + about, *sentences, sep="\n")
    if grid:
        print(f"next, on other seeds: graphgym-srnc grid --grid {grid} --repeat 10")
    lost = [row[0] for row in rows[1:] if row[-1] == "-"]
    if lost:
        hint = "See error.txt in the folders of their runs."
        print(f"Every trial failed for {', '.join(lost)}. {hint}", file=sys.stderr)
    return min(len(lost), 1)


def _study(args: argparse.Namespace) -> Study:
    """Build the study of a command line.

    Raises:
        InputError: Names an option or a config key.
    """
    blocks = list(map(_block, args.block)) or [[]]
    base = load_config(args.cfg, args.overrides)
    selection = ["train.selection", args.selection or base.train.selection]
    # A search would keep a thousand models; a user who wants them overrides this.
    words = ["train.save_model", "false", *args.overrides, *selection]
    names = [word.strip() for word in (args.methods or "").split(",") if word.strip()]
    name = arguments.default_name(args.cfg, args.overrides, base.dataset.format) + "_tune"
    store.check_name(args.name or name)
    return Study(
        Path(args.out_dir or base.out_dir) / (args.name or name),
        search.arms(args.cfg, names, words),
        blocks,
        _seeds(args.seeds),
        args.trials,
        not args.no_pruning,
        args.overwrite,
    )


def _block(text: str) -> list[str]:
    with contextlib.suppress(ValueError):  # a quotation mark without another
        words = shlex.split(text)
        private = [key for key in words[::2] if key == "seed" or key.startswith("train.")]
        if words and not len(words) % 2 and not private:
            return words
    raise InputError.plain(
        "--block",
        f"{text!r} does not describe a task",
        "Give config keys and their values, without seed and train.*",
    )


def _seeds(text: str) -> range:
    found = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", text.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
    if not REPORTED <= first <= last <= store.LAST_SEED or last - first >= store.MOST_SEEDS:
        raise InputError.plain(
            "--seeds",
            f"{text!r} is not a range of seeds from {REPORTED} upwards",
            "Write FIRST-LAST, such as 100-102; reported results use seeds 0 to 9",
        )
    return range(first, last + 1)

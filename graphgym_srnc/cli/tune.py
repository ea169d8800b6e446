"""``graphgym-srnc tune``: search hyperparameters with the same budget for every method."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from graphgym_srnc.cli import arguments
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from graphgym_srnc.sweep.study import Study

REPORTED = 10
"""Seeds below it are reserved for reporting."""

EPILOG = """\
Each method starts from its own config if one lies beside --cfg: paper/close_set/citation/cmd lies
beside .../erm. Trial 0 is that config, unchanged. Keys that you set at the end of the command are
not searched. After Ctrl-C or a crash, repeat the command to continue; raise --trials to add trials:
    graphgym-srnc tune --cfg paper/close_set/citation/erm --methods erm,cmd,a2gnn --trials 20
    graphgym-srnc grid --grid results/citation-erm_tune/tuned.txt --repeat 10"""


OPTIONS = """
--cfg FILE|NAME  set the base config, as for `run`
--methods A,B  tune these methods (default: the method of the config)
--trials N=20  try N settings per method, including the config as it is
--seeds A-B=100-102  run each trial on these seeds; do not report results on them
--selection RULE  select episodes and settings with this rule, see train.selection (default: that of
    --cfg)
--sampler tpe|random=tpe  propose settings with Optuna's TPE or at random
--search-seed S=0  seed the sampler
--no-pruning  run all seeds of every trial (default: stop a trial whose first seed scores less than
    the median of the completed trials)
--dry-run  list the search space of each method, then stop
--overwrite  run all trials again and replace their results
--out-dir DIR  write results below DIR (default: out_dir of the config)
--name NAME  name the folder of this study (default: <base>_tune)
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    text = (
        "Search hyperparameters with the same budget for every method. Validation scores alone\n"
        "choose the settings. Needs Optuna: pip install 'graphgym-srnc[tune]'."
    )
    options = OPTIONS + arguments.TRUST
    parser = arguments.add_command(subparsers, "tune", text, options, EPILOG, takes_keys=True)
    parser.add_argument(
        "--block",
        action="append",
        default=[],
        metavar="'KEY VALUE ...'",
        help="describe a task by config keys and values; repeat it to average scores over several"
        " tasks (default: the task of --cfg)",
    )
    arguments.add_options(parser.add_argument_group("where to run"), arguments.LIMITS)


def main(args: argparse.Namespace) -> int:
    """Run the missing trials and choose settings; return 1 if all trials of a method failed.

    Raises:
        InputError: An option, a config, the data or the place for results does not suit, or Optuna
            is not installed. No run has started then.
        KeyboardInterrupt: Ctrl-C. Finished runs are kept.
    """
    from importlib.util import find_spec

    arguments.check_least(args, trials=1, jobs=0, time_limit=0, memory_limit=0, retries=0)
    if find_spec("optuna") is None:
        hint = "Install it with: pip install 'graphgym-srnc[tune]'"
        raise InputError.plain("tune", "the package optuna is not installed", hint)

    import optuna

    from graphgym_srnc.core import environment
    from graphgym_srnc.core.progress import GridProgress
    from graphgym_srnc.core.text import aligned, counted
    from graphgym_srnc.sweep import chosen, local, search
    from graphgym_srnc.sweep.worker import execute

    study, sampler = _study(args), f"{args.sampler}, optuna {optuna.__version__}"
    chosen.check_place(study)
    search.check(study.arms, study.blocks, study.seeds[0])
    print(
        f"{study.folder}: {counted(len(study.arms), 'method')}, {study.trials} trials each on "
        f"seeds {study.seeds[0]} to {study.seeds[-1]} of {counted(len(study.blocks), 'task')}, "
        f"at most {study.most_runs} runs; {sampler}"
    )
    for arm in study.arms:
        few = f", all {arm.size} settings" * (arm.size < study.trials)
        keys = "; ".join(f"{key} {', '.join(map(str, arm.space[key]))}" for key in arm.space)
        print(f"{arm.name}: from {arm.base or 'the default config'}{few}; {keys}", flush=True)
    arguments.remark([arm.config(study.blocks[0]) for arm in study.arms])
    if args.dry_run:
        return 0

    try:
        with (
            arguments.writing("out_dir", str(study.folder)),
            local.warm(execute, arguments.limits(args), args.jobs or environment.cores()) as runs,
            GridProgress(study.most_runs) as progress,
        ):
            study.run(runs, progress)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept; repeat the command to continue") from error
    with arguments.writing("out_dir", str(study.folder)):
        rows, sentences, grid = chosen.write(study, sampler)
    print(aligned(rows), *sentences, sep="\n")
    if grid:
        print(f"next, on other seeds: graphgym-srnc grid --grid {grid} --repeat 10")
    lost = [row[0] for row in rows[1:] if row[-1] == "-"]
    if lost:
        print(
            f"Every trial failed for {', '.join(lost)}. See error.txt in the folders of their "
            "runs.",
            file=sys.stderr,
        )
    return min(len(lost), 1)


def _study(args: argparse.Namespace) -> Study:
    """Build the study of a command line.

    Raises:
        InputError: Names an option or a config key.
    """
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.io import store
    from graphgym_srnc.sweep import search
    from graphgym_srnc.sweep.study import Study

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
        args.sampler,
        args.search_seed,
        not args.no_pruning,
        args.overwrite,
    )


def _block(text: str) -> list[str]:
    with contextlib.suppress(ValueError):  # a quotation mark without another
        words = shlex.split(text)
        private = [key for key in words[::2] if key == "seed" or key.startswith("train.")]
        if words and not len(words) % 2 and not private:
            return words
    hint = "Give config keys and their values, without seed and train.*"
    raise InputError.plain("--block", f"{text!r} does not describe a task", hint)


def _seeds(text: str) -> range:
    from graphgym_srnc.io import store

    found = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", text.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
    if not REPORTED <= first <= last <= store.LAST_SEED or last - first >= store.MOST_SEEDS:
        message = f"{text!r} is not a range of seeds from {REPORTED} upwards"
        hint = "Write FIRST-LAST, such as 100-102; reported results use seeds 0 to 9"
        raise InputError.plain("--seeds", message, hint)
    return range(first, last + 1)

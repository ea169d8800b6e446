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


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "tune",
        help="search hyperparameters with the same budget for every method",
        description="Search hyperparameters with the same budget for every method.\nValidation"
        " scores alone choose the settings.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="graphgym-srnc tune --cfg FILE|NAME [options] [key value ...]",
    )
    add = parser.add_argument
    add("--cfg", metavar="FILE|NAME", help="set the base config, as for `run`")
    add(
        "--methods",
        default="",
        metavar="A,B",
        help="tune these methods (default: the method of the config)",
    )
    add(
        "--trials",
        type=int,
        default=20,
        metavar="N",
        help="try N settings per method, including the config as it is (default: 20)",
    )
    add(
        "--seeds",
        default="100-102",
        metavar="A-B",
        help="run each trial on these seeds; do not report results on them (default: 100-102)",
    )
    add(
        "--block",
        action="append",
        default=[],
        metavar="'KEY VALUE ...'",
        help="describe a task by config keys and values; repeat it to average scores over several"
        " tasks (default: the task of --cfg)",
    )
    add(
        "--selection",
        metavar="RULE",
        help="select episodes and settings with this rule, see train.selection (default: that of"
        " --cfg)",
    )
    add(
        "--sampler",
        choices=("auto", "tpe", "random"),
        default="auto",
        help="propose settings with this sampler (default: auto, which is Optuna's TPE if it is"
        " installed, else random)",
    )
    add("--search-seed", type=int, default=0, metavar="S", help="seed the sampler (default: 0)")
    add(
        "--no-pruning",
        action="store_true",
        help="run all seeds of every trial (default: stop a trial that is in the worse half after"
        " its first seed)",
    )
    add("--dry-run", action="store_true", help="list the search space of each method, then stop")
    add("--overwrite", action="store_true", help="run all trials again and replace their results")
    add(
        "--out-dir",
        metavar="DIR",
        help="write results below DIR (default: out_dir of the base config)",
    )
    add("--name", help="name the folder of this study (default: <base>_tune)")
    arguments.add_trust(parser)
    arguments.add_limits(parser.add_argument_group("where to run"))
    parser.set_defaults(overrides=[])


def main(args: argparse.Namespace) -> int:
    """Run the missing trials and choose settings; return 1 if all trials of a method failed.

    Raises:
        InputError: an option, a config, the data or the place for results is not as it must be; no
            run has started then.
        KeyboardInterrupt: Ctrl-C; what is finished is kept.
    """
    from graphgym_srnc.core.progress import GridProgress
    from graphgym_srnc.core.text import aligned, counted
    from graphgym_srnc.sweep import arm, chosen, local, sampler
    from graphgym_srnc.sweep.worker import execute

    arguments.check_least(args, trials=1, jobs=0, time_limit=0, memory_limit=0, retries=0)
    name, propose = sampler.find(args.sampler)
    study = _study(args, propose)
    chosen.check_place(study)
    arm.check(study.arms, study.blocks, study.seeds[0])

    print(
        f"{study.folder}: {counted(len(study.arms), 'method')}, {study.trials} trials each on "
        f"seeds {study.seeds[0]} to {study.seeds[-1]} of {counted(len(study.blocks), 'task')}, "
        f"at most {study.most_runs} runs; {name}",
        flush=True,
    )
    for one in study.arms:
        size = sampler.size(one.space)
        few = f", all {size} settings" * (size < study.trials)
        print(
            f"{one.name}: from {one.base or 'the default config'}{few}; "
            + "; ".join(
                f"{key} {', '.join(map(str, values))}" for key, values in one.space.items()
            ),
            flush=True,
        )
    arguments.remark([one.config(study.blocks[0]) for one in study.arms])
    if args.dry_run:
        return 0

    try:
        with (
            local.warm(execute, arguments.limits(args), args.jobs or arguments.cores()) as runs,
            GridProgress(study.most_runs) as progress,
        ):
            study.run(runs, progress)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept; repeat the command to continue") from error
    with arguments.writing("out_dir", str(study.folder)):
        grid = chosen.write(study, name)
    print(aligned(chosen.table(study.arms)), *chosen.sentences(study.arms), sep="\n")
    if grid:
        print(f"next, on other seeds: graphgym-srnc grid --grid {grid} --repeat 10")
    lost = [one.name for one in study.arms if one.best() is None]
    if lost:
        print(
            f"Every trial failed for {', '.join(lost)}. See error.txt in the folders of their "
            "runs.",
            file=sys.stderr,
        )
    return min(len(lost), 1)


def _study(args: argparse.Namespace, propose: object) -> Study:
    """The study of a command line.

    Raises:
        InputError: names an option or a key of the config.
    """
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.io import store
    from graphgym_srnc.sweep import arm
    from graphgym_srnc.sweep.study import Study

    blocks = list(map(_block, args.block)) or [[]]
    base = load_config(args.cfg, args.overrides)
    selection = ["train.selection", args.selection or base.train.selection]
    # As in a grid: who wants a thousand models says so after this.
    words = ["train.save_model", "false", *args.overrides, *selection]
    names = [word.strip() for word in args.methods.split(",") if word.strip()]
    folder = (
        args.name or arguments.default_name(args.cfg, args.overrides, base.dataset.format) + "_tune"
    )
    store.check_name(folder)
    return Study(
        Path(args.out_dir or base.out_dir) / folder,
        arm.make(args.cfg, names, words),
        blocks,
        _seeds(args.seeds),
        args.trials,
        propose,
        args.search_seed,
        not args.no_pruning,
        args.overwrite,
    )


def _block(text: str) -> list[str]:
    from graphgym_srnc.core.errors import InputError

    with contextlib.suppress(ValueError):  # a quotation mark without another
        words = shlex.split(text)
        if (
            words
            and not len(words) % 2
            and not any(key == "seed" or key.startswith("train.") for key in words[::2])
        ):
            return words
    raise InputError.plain(
        "--block",
        f"{text!r} does not describe a task",
        "Give config keys and their values, without seed and train.*",
    )


def _seeds(text: str) -> range:
    from graphgym_srnc.core.errors import InputError
    from graphgym_srnc.io import store

    found = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", text.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
    if not REPORTED <= first <= last <= store.LAST_SEED or last - first >= store.MOST_SEEDS:
        hint = (
            f"Write FIRST-LAST, such as 100-102; seeds 0 to {REPORTED - 1} are reserved for "
            "reporting"
        )
        message = f"{text!r} is not a range of seeds from {REPORTED} upwards"
        raise InputError.plain("--seeds", message, hint)
    return range(first, last + 1)

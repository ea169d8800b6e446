"""Do stored runs come out equal in all digits? Repeats them with the code at hand.

    python benchmarks/unchanged.py results --per-method 2 --jobs 2

Every result below the folder is found. Of each method and each of its settings up to so many runs
are repeated, on as many data sets as there are, from the configs in their records. Exit status 1 if
a number differs or a run fails.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections import Counter
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.core.text import markdown
from graphgym_srnc.gym import load_config, run
from graphgym_srnc.io import store
from graphgym_srnc.io.legacy import UNRECORDED, modern
from graphgym_srnc.io.settings import digest, flatten
from graphgym_srnc.sweep import local, plan
from graphgym_srnc.sweep.jobs import Limits
from graphgym_srnc.sweep.worker import execute

COMPARED = ("fingerprint", "selected", "history", "val", "test", "warnings")
"""What of a record must be equal, seconds of the history apart; figures of the verdict too."""

ADDED = ("known_accuracy", "known_recall", "hs", "oscr")
"""Scores that older records lack."""

ABSENT = "absent"


class Stored(NamedTuple):
    """A run to repeat: its directory, and its record."""

    path: Path
    result: store.Result


def find(root: Path) -> Iterator[Stored]:
    """The finished runs below a folder, by path; those of several processes are left out."""
    for file in sorted(root.rglob("result.json")):
        result = store.read_result(file.parent)
        if result is not None and result.get("processes", 1) == 1:
            yield Stored(file.parent, result)


def choose(runs: Sequence[Stored], number: int) -> list[Stored]:
    """Up to so many runs of each method and setting, the data sets taking turns."""
    groups: dict[str, dict[str, list[Stored]]] = {}
    for stored in runs:
        config = flatten(stored.result["config"])
        block = config["dataset.format"]
        of_data = {key for key in config if key.startswith(f"{block}.")}
        of_data |= {"dataset.format", "dataset.name"}
        data = digest({key: config[key] for key in of_data - {f"{block}.split_seed"}})
        setting = digest({key: config[key] for key in config.keys() - of_data})
        groups.setdefault(setting, {}).setdefault(data, []).append(stored)
    turns = (chain.from_iterable(zip_longest(*by_data.values())) for by_data in groups.values())
    return [stored for turn in turns for stored in islice(filter(None, turn), number)]


def cell(stored: Stored, name: str, out_dir: str) -> plan.Cell:
    """The run as the one seed of an experiment of the grid.

    Raises:
        InputError: its config is none of the code at hand.
    """
    values = flatten(modern(stored.result["config"]))
    if os.environ.get("GRAPHGYM_SRNC_DATA"):
        del values["dataset.dir"]
    values |= {"seed": stored.result["seed"], "out_dir": out_dir}
    values |= {"train.save_model": False, "train.checkpoint": 0.0}
    cfg = load_config(None, [word for item in values.items() for word in item], stored=True)
    seeds = range(cfg.seed, cfg.seed + 1)
    return plan.Cell(cfg, run.experiment(cfg, name), seeds, list(seeds))


def compared(result: store.Result) -> dict[str, Any]:
    """The part of a record that must be equal."""
    found = {key: result[key] for key in COMPARED if key in result}
    found["history"] = [
        {key: value for key, value in episode.items() if key != "seconds"}
        for episode in result["history"]
    ]
    if result.get("verdict"):
        found["verdict"] = result["verdict"]["figures"]
    return found


def difference(old: Any, new: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """The first place in which two trees differ, with both values; NaN equals NaN.

    A score that the older one lacks is no difference.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [
            (f"{place}.{key}", old.get(key, ABSENT), new.get(key, ABSENT))
            for key in dict.fromkeys([*old, *new])
            if (key in new or key not in UNRECORDED) and (key in old or key not in ADDED)
        ]
    elif isinstance(old, list) and isinstance(new, list):
        pairs = [
            (f"{place}[{i}]", *pair)
            for i, pair in enumerate(zip_longest(old, new, fillvalue=ABSENT))
        ]
    else:
        both_nan = all(isinstance(value, float) and math.isnan(value) for value in (old, new))
        return None if both_nan or old == new else (place.lstrip("."), old, new)
    found = (difference(*values, place) for place, *values in pairs)
    return next(filter(None, found), None)


def gap(old: dict[str, float], new: dict[str, float]) -> float:
    """The largest difference of a score that both have."""
    return max((abs(old[name] - new[name]) for name in old.keys() & new.keys()), default=0.0)


def repeat(runs: Sequence[Stored], jobs: int) -> dict[Path, str]:
    """Repeat runs; returns what differs, by directory, empty where nothing does."""
    verdicts: dict[Path, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        cells: list[plan.Cell] = []
        by_name = {str(number): stored for number, stored in enumerate(runs)}
        for name, stored in by_name.items():
            try:
                cells.append(cell(stored, name, folder))
            except InputError as error:
                verdicts[stored.path] = str(error)
        outcomes = local.run(plan.jobs(cells, {"tensorboard": False}), execute, Limits(), jobs)
        with GridProgress(len(cells)) as progress:
            for outcome in outcomes:
                path, result = by_name[outcome.job.name]
                verdicts[path] = outcome.message.strip().splitlines()[-1]
                if outcome.state == "done":
                    new = store.read_result(Path(folder, outcome.job.name, str(outcome.job.seed)))
                    old, new = compared(result), compared(new)
                    found = difference(old, {key: new.get(key, ABSENT) for key in old})
                    verdicts[path] = (
                        ""
                        if found is None
                        else (
                            "{}: {!r} there, {!r} now; ".format(*found)
                            + f"test scores differ by {gap(old['test'], new['test']):.2g} at most"
                        )
                    )
                progress.finish(f"{path}: {verdicts[path]}", bool(verdicts[path]))
    return verdicts


def main(words: Sequence[str] | None = None) -> int:
    """Find, repeat, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder of stored results")
    parser.add_argument(
        "--per-method",
        type=int,
        default=1,
        metavar="N",
        help="runs of each method and setting (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="J",
        help="processes at a time (default: %(default)s)",
    )
    args = parser.parse_args(words)
    runs = choose(list(find(args.folder)), args.per_method)
    if not runs:
        parser.error(f"{args.folder}: no finished run")
    verdicts = repeat(runs, args.jobs)

    every = Counter(stored.result["method"] for stored in runs)
    differing = Counter(stored.result["method"] for stored in runs if verdicts[stored.path])
    counts = [
        (method, number, number - differing[method], differing[method])
        for method, number in sorted(every.items())
    ]
    counts.append(("all", *map(sum, list(zip(*counts))[1:])))
    print(markdown([("method", "runs", "equal", "differing"), *(map(str, row) for row in counts)]))
    for path, text in verdicts.items():
        if text:
            print(f"{path}: {text}")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())

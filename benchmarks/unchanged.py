"""Do stored runs come out equal in all digits? Repeats them with the code at hand.

    python benchmarks/unchanged.py results --per-method 2 --jobs 2

Every result below the folder is found. Of each method and each of its settings up to so many runs
are repeated, on as many data sets as there are, from the configs in their records. Exit status 1 if
a number differs or a run fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

from graphgym_srnc.io import records
from graphgym_srnc.io.settings import digest, flatten

COMPARED = ("fingerprint", "selected", "history", "val", "test", "verdict", "warnings")
"""What of a record must be equal, except for seconds."""


class Stored(NamedTuple):
    """A run to repeat: its directory, and its record."""

    path: Path
    result: records.Result


def find(root: Path) -> Iterator[Stored]:
    """The finished runs below a folder, by path; those of several processes are left out."""
    for file in sorted(root.rglob("result.json")):
        with contextlib.suppress(ValueError):  # a record of any version, as far as it is whole
            result = json.loads(file.read_bytes())
            if result.get("processes", 1) == 1:
                yield Stored(file.parent, result)


def choose(runs: Sequence[Stored], number: int) -> list[Stored]:
    """Up to so many runs of each method and setting, alternating between data sets."""
    groups: dict[str, dict[str, list[Stored]]] = {}
    for stored in runs:
        config = flatten(stored.result["config"])
        block = config["dataset.format"]
        of_data = {key for key in config if key.startswith((f"{block}.", "dataset."))}
        data = digest({key: config[key] for key in of_data - {f"{block}.split_seed"}})
        setting = digest({key: config[key] for key in config.keys() - of_data})
        groups.setdefault(setting, {}).setdefault(data, []).append(stored)
    by_setting = (
        chain.from_iterable(zip_longest(*by_data.values())) for by_data in groups.values()
    )
    return [stored for one in by_setting for stored in islice(filter(None, one), number)]


def repeat(stored: Stored) -> str:
    """Run a stored config and seed again; what differs, empty if nothing does."""
    from graphgym_srnc.gym import load_config, run

    values = flatten(stored.result["config"])
    if os.environ.get("GRAPHGYM_SRNC_DATA"):
        del values["dataset.dir"]
    values |= {"seed": stored.result["seed"], "train.save_model": False, "train.checkpoint": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        words = [word for item in (values | {"out_dir": folder}).items() for word in item]
        try:
            cfg = load_config(None, words, stored=True)
            place = run.experiment(cfg, "again")
            run.run(cfg, cfg.seed, place, extras=run.Extras(False))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        new = place.result(cfg.seed)
    found = difference(compared(stored.result), compared(new))
    return "{}: {!r} there, {!r} now".format(*found) if found else ""


def compared(result: records.Result) -> dict[str, Any]:
    """What of a record must be equal."""
    return {key: result.get(key) for key in COMPARED}


def difference(old: Any, new: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """The first place in which two trees differ, with both values; NaN equals NaN."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [key for key in dict.fromkeys([*old, *new]) if key != "seconds"]
        pairs = [(f"{place}.{key}", old.get(key, "absent"), new.get(key, "absent")) for key in keys]
    elif isinstance(old, list) and isinstance(new, list):
        both = zip_longest(old, new, fillvalue="absent")
        pairs = [(f"{place}[{i}]", *pair) for i, pair in enumerate(both)]
    else:
        both_nan = all(isinstance(value, float) and math.isnan(value) for value in (old, new))
        return None if both_nan or old == new else (place.lstrip("."), old, new)
    return next(filter(None, (difference(*pair, at) for at, *pair in pairs)), None)


def main(words: Sequence[str] | None = None) -> int:
    """Find, repeat, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    option = parser.add_argument
    option("folder", type=Path, metavar="DIR", help="a folder of stored results")
    option("--per-method", type=int, default=1, metavar="N", help="runs of each method and setting")
    option("--jobs", type=int, default=1, metavar="J", help="processes at a time (default: 1)")
    args = parser.parse_args(words)
    runs = choose(list(find(args.folder)), args.per_method)
    if not runs:
        parser.error(f"{args.folder}: no finished run")
    equal, every = Counter(), Counter(stored.result["method"] for stored in runs)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=spawn) as pool:
        for stored, text in zip(
            runs, map(repeat, runs) if args.jobs == 1 else pool.map(repeat, runs)
        ):
            equal[stored.result["method"]] += not text
            print(f"{stored.path}: {text or 'equal'}", flush=True)
    for method, number in sorted(every.items()):
        print(f"{method}: {equal[method]} of {number} equal")
    return int(equal.total() < len(runs))


if __name__ == "__main__":
    sys.exit(main())

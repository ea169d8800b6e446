"""Stored results as records and as one pandas frame with a row per run.

A folder of results may come from a stranger. Links are not followed, and a record counts only if
every value that a report shows has the expected type.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Hashable, Iterable, Mapping, NamedTuple

import pandas

from graphgym_srnc.core import environment
from graphgym_srnc.core.text import clean, counted, listed, plain
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic, records, stats
from graphgym_srnc.io.settings import flatten

# The method that knows the masked classes. It is shown, but not ranked, and never chosen.
ORACLE = "iid"
COSTS = ("seconds", "peak_memory_mib", "params")  # costs of a run. Each is a metric of every split
NAMED = ("method", "backbone", "task")  # names in a record that are not keys of its config
# Columns of a run beside its experiment, scores and config.
RUN = ("seed", *NAMED, "split", "selection", "selected", *COSTS, "warnings")
SCORES = tuple(f"{split}_" for split in stats.SPLITS)  # prefixes of the columns of scores
STUDY = re.compile(r"tuned\.(log|lock|json)")  # files that only the folder of a study has


class Failure(NamedTuple):
    """Why a run has no readable result."""

    kind: str  # failed, unfinished or unreadable
    reason: str


@dataclass
class Experiment:
    """The content of an experiment's folder."""

    path: Path
    name: str = ""  # path below the folder that all experiments share
    seeds: set[int] = field(default_factory=set)  # of its finished runs
    results: dict[int, records.Result] = field(default_factory=dict)  # their records, if wanted
    failures: dict[str, Failure] = field(default_factory=dict)  # by name of the run's folder


@dataclass
class Collection:
    """The results in some folders."""

    folders: list[Path]  # absolute
    experiments: list[Experiment] = field(default_factory=list)  # by name, also without a result
    every: pandas.DataFrame = field(default_factory=pandas.DataFrame)  # all runs, see results
    unreadable: dict[Path, str] = field(default_factory=dict)  # results and folders, and why
    studies: list[Path] = field(default_factory=list)  # of tune, whose trials are left out
    plans: dict[Path, dict[str, list[int]]] = field(default_factory=dict)  # seeds of grids

    @functools.cached_property
    def runs(self) -> pandas.DataFrame:
        """The runs, each combination of config, seed and split once."""
        return self.every.drop_duplicates(["digest", "split", "seed"])

    @property
    def notes(self) -> list[str]:
        """Sentences about runs with the config, seed and split of another one, and about trials."""
        out = self._missing()
        left_out = self.every.drop(self.runs.index)
        if len(left_out):
            places = listed(left_out["experiment"].unique().tolist(), 3)
            same = "the config, seed and split of another run, which counts once"
            out.append(f"skipped {counted(len(left_out), 'run')} of {places} with {same}")
        if self.studies:
            places = listed([clean(study.name) for study in self.studies], 3)
            out.append(f"left out the trials of tune in {places}. To see them, give that folder")
        return out

    def _missing(self) -> list[str]:
        """How many runs of unfinished grids are missing."""
        finished = {one.path: one.seeds for one in self.experiments}
        out = []
        for folder, plan in self.plans.items():
            total = sum(map(len, plan.values()))
            missing = sum(
                len({*own} - finished.get(folder / name, set())) for name, own in plan.items()
            )
            if missing:
                place = clean(folder.name)
                out.append(
                    f"{place}: {missing} of {counted(total, 'run')} missing; resume the grid"
                )
        return out

    def remarks(self) -> list[str]:
        """Sentences about the runs that were left out, and :attr:`notes`."""
        out = []
        if self.unreadable:
            path, reason = next(iter(self.unreadable.items()))
            such = f"such as {clean(str(path))}: {clean(reason)}"
            out.append(f"skipped {len(self.unreadable)} unreadable result(s), {such}")
        every = Counter(of.kind for one in self.experiments for of in one.failures.values())
        for kind in ("failed", "unfinished"):
            if every[kind]:
                out.append(f"skipped {every[kind]} {kind} run(s)")
        return out + self.notes


def results(*folders: str | os.PathLike[str], config: bool = False) -> pandas.DataFrame:
    """All finished runs in and below some folders as a frame with one row per run.

    Columns are ``experiment``, ``seed``, ``method``, ``backbone``, ``task``, ``split`` (runs with
    an equal one are comparable), ``selection``, ``selected`` (the episode), ``seconds``,
    ``peak_memory_mib``, ``params``, ``warnings`` (their number, with those of the diagnostics),
    then the scores as ``val_micro_f1``, ``test_micro_f1``, ..., as fractions.

    Args:
        folders: experiments, folders of them, or folders of such folders. Trials of ``tune`` are
            left out, unless you give the folder of their study.
        config: also add a column for each key of the configs, such as ``optim.base_lr``.

    Raises:
        InputError: a folder does not exist, or none contains a result.
    """
    runs = collect(folders, records=False).every.drop_duplicates(["experiment", "seed"])
    runs = runs.sort_values(["experiment", "seed"], kind="stable")
    scores = [name for split in SCORES[1:] for name in runs if name.startswith(split)]
    keys = config_keys(runs) if config else []
    # From lists, pandas infers the type of each column.
    return pandas.DataFrame(runs[["experiment", *RUN, *scores, *keys]].to_dict("list"))


def config_keys(runs: pandas.DataFrame) -> list[str]:
    """The columns of a frame of runs that are keys of configs."""
    own = {"experiment", *RUN, "digest", "masked", "texts"}
    return [name for name in runs if name not in own and not name.startswith(SCORES)]


def distinct_warnings(
    runs: Iterable[tuple[Hashable, Mapping[str, str]]],
) -> list[tuple[str, list[Any]]]:
    """Each kind of warning once, with the labels of the runs that gave it.

    Args:
        runs: label and :func:`graphgym_srnc.io.records.warnings_of` of each run.
    """
    found: dict[str, tuple[list[str], list[Any]]] = {}
    for label, warnings in runs:
        for kind, text in warnings.items():
            texts, labels = found.setdefault(kind, ([], []))
            texts.append(text)
            labels.append(label)
    out = []
    for texts, labels in found.values():
        several = len({*texts}) > 1
        out.append((f"for example: {texts[0]}" if several else texts[0], labels))
    return out


def score_column(metric: str, split: str) -> str:
    """The column of a metric on a split."""
    return metric if metric in COSTS else f"{split}_{metric}"


def collect(folders: Iterable[str | os.PathLike], records: bool = True) -> Collection:
    """Read all runs in and below some folders, but trials of a study only of one that is given.

    Args:
        folders: experiments, folders of them, or folders of such folders.
        records: whether to keep the records too. They need most of the memory, and a comparison
            needs only the frame.

    Raises:
        InputError: a folder does not exist, or none contains a result.
    """
    given = list(map(str, folders))
    found = Collection([Path(os.path.abspath(folder)) for folder in given])
    experiments: dict[Path, Experiment] = {}
    rows: list[tuple[Experiment, dict[str, Any]]] = []
    with environment.uncollected():
        for place in _run_folders(given, found):
            path = Path(os.path.abspath(place))
            experiment = experiments.setdefault(path.parent, Experiment(path.parent))
            read = _read(path)
            if isinstance(read, Failure):
                experiment.failures[plain(path.name)] = read
                if read.kind == "unreadable":
                    found.unreadable[place] = read.reason
                continue
            result, row = read
            experiment.seeds.add(result["seed"])
            if records:
                experiment.results[result["seed"]] = result
            rows.append((experiment, row))
    found.experiments = [*experiments.values()]
    if not rows:
        message = f"{', '.join(given)} contains no finished run (<seed>/result.json)"
        message = "; ".join([message, *found.remarks()])
        raise InputError.plain("folders", message)
    base = os.path.commonpath([one.path.parent for one in found.experiments])
    for one in found.experiments:
        one.name = plain(os.path.relpath(one.path, base))
    found.experiments.sort(key=lambda one: one.name)
    found.every = _frame([{"experiment": one.name} | row for one, row in rows])
    return found


def _frame(rows: Iterable[dict[str, Any]]) -> pandas.DataFrame:
    """A frame of runs, in which a key that a config does not have is NaN."""
    frame = pandas.DataFrame(rows, dtype=object)
    frame = frame.reindex(columns=list(dict.fromkeys([*frame, *RUN, "masked", "dataset.name"])))
    scores = {name: float for name in frame if name.startswith(SCORES)}
    return frame.astype(scores).copy()  # in few blocks, which is faster to use


def _run_folders(given: Iterable[str], found: Collection) -> Iterable[Path]:
    """The folder of each run."""

    def note(error: OSError) -> None:
        found.unreadable[Path(error.filename)] = f"cannot be read ({error.strerror})"

    for folder in given:
        if not os.path.isdir(folder):
            raise InputError.plain("folders", f"the folder {folder} does not exist")
        for place, below, files in os.walk(folder, onerror=note):
            below[:] = sorted(name for name in below if not name.startswith("."))
            if place != folder and "trials" in below and any(map(STUDY.fullmatch, files)):
                below.remove("trials")
                found.studies.append(Path(place))
            if records.PLAN in files:
                _read_plan(Path(os.path.abspath(place)), found)
            if {"run.json", "result.json"} & {*files}:
                yield Path(place)


def _read_plan(folder: Path, found: Collection) -> None:
    """Add the runs that a grid has planned; a plan that is none is unreadable."""
    file = folder / records.PLAN
    try:
        plan = json.loads(atomic.content(file))
        found.plans[folder] = {str(name): [*map(int, seeds)] for name, seeds in plan.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        found.unreadable[file] = "is damaged"


def _read(directory: Path) -> tuple[records.Result, dict[str, Any]] | Failure:
    """The record of a run, in which names are plain, and its row; or why there is none."""
    if (directory / "result.json").is_symlink():
        return Failure("unreadable", "its result.json is a symbolic link")
    try:
        result = records.load_result(directory)
        result |= {key: plain(result[key]) for key in NAMED}
        return result, _row(result)
    except FileNotFoundError:
        return _failure(directory)
    except (records.Unreadable, RecursionError) as error:
        return Failure("unreadable", f"its result.json {error}")


def _row(result: records.Result) -> dict[str, Any]:
    """A run as a row of the frame: its facts, its scores and its config."""
    train = result["history"][result["selected"]]["train"]
    row = {key: result[key] for key in (*RUN, "digest") if key not in (*COSTS, "warnings")}
    row |= {key: result[key] for key in COSTS if _is_score(result.get(key))}
    row["texts"] = records.warnings_of(result)
    row["warnings"] = len(row["texts"])
    row["masked"] = _hashable(result["info"].get("unseen")) or None
    test = result["test"]
    if "unknown_recall" not in test:  # all that scores of known classes hide
        share = result["verdict"]["figures"].get("test_unknown_share")
        test = {"unknown_share": share} | test
    val = _on_held_out(result["held_out"]) | result["val"]
    for split, part in zip(stats.SPLITS, (train, val, test)):
        if "known_accuracy" not in part and "micro_f1" in part:  # no node can be unknown
            part = {"closed_accuracy": part["micro_f1"]} | part
        found = ((f"{split}_{clean(name)}", value) for name, value in part.items())
        row |= {key: float(value) for key, value in found if _is_score(value)}
    for key, value in flatten(result["config"]).items():
        if key not in row and not key.startswith(SCORES):
            row[key] = _hashable(value)
    return row


def _on_held_out(found: Mapping[str, Any]) -> dict[str, float]:
    """Scores on labels that a method held out in turn, which stand for validation nodes."""
    if not found:
        return {}
    share = found["as_known"]["accuracy"]
    return {"closed_accuracy": found["accuracy"], "micro_f1": share, "known_accuracy": share}


def _is_score(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return str(value) if isinstance(value, dict) else value


def _failure(directory: Path) -> Failure:
    """Why a run has no result: the last line of its error, if it left one."""
    file = directory / "error.txt"
    if file.is_symlink() or not file.is_file():
        return Failure("unfinished", "no result yet: interrupted, or still running")
    with atomic.opened(file) as error:
        error.seek(max(0, file.stat().st_size - 10_000))
        lines = error.read().decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "failed and left no message")
    return Failure("failed", plain(last)[:300])

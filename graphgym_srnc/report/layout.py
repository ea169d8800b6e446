"""Rows and columns of a comparison by keys of configs, and settings chosen on validation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.text import LAYERS, METHODS, clean, method_name
from graphgym_srnc.io.settings import is_volatile
from graphgym_srnc.report import statistics
from graphgym_srnc.report.paper import Published
from graphgym_srnc.report.read import COSTS, NAMED, Run

LESS = frozenset({"unknown_fpr95", "loss", *COSTS})
"""Metrics of which less is better."""

ORACLE = "iid"
"""The method that sees the masked classes: shown beside the others, not ranked with them."""

ALL = "all"
"""Stands for all keys of settings that vary."""

PAPER = "paper"
"""The key of a run's row in the paper's table."""

PLAIN = (*NAMED, PAPER, "train.mode", "gnn.layer_type", "dataset.name")
"""Keys whose values speak for themselves; values of others are printed as ``key=value``."""

Place = tuple[str, str]
"""Label of a row and label of a column."""


@dataclass(frozen=True)
class Setting:
    """The setting chosen for a row on a column."""

    values: dict[str, Any]  # of the keys in which the settings differ
    tried: int  # how many settings there are
    fewer: int  # how many of them have fewer runs than the others, and so were not to choose from
    validation: float  # mean score of this one; NaN if none was needed and there is none

    def __str__(self) -> str:
        return ", ".join(f"{key}={_text(value)}" for key, value in self.values.items())


class Layout(NamedTuple):
    """Where runs stand in a table."""

    by: tuple[str, ...]  # keys that tell the rows apart
    rows: list[str]  # labels in the order of print
    columns: list[str]
    runs: dict[Place, list[Run]]  # those of the chosen setting
    settings: dict[Place, Setting]  # the chosen ones
    pooled: set[str]  # keys in which runs of one cell still differ

    def of_row(self, row: str) -> list[Run]:
        """The runs of a row on all columns."""
        return [run for place, runs in self.runs.items() if place[0] == row for run in runs]


def arrange(
    runs: Sequence[Run],
    by: Sequence[str],
    columns: Sequence[str],
    select: Sequence[str],
    metric: str,
    published: Published | None,
) -> Layout:
    """Sort runs into cells, and keep those of the best setting of each.

    Args:
        runs: at least one.
        by, columns, select, published: as in :func:`graphgym_srnc.report.compare.table`.
        metric: whose mean on validation chooses.

    Raises:
        InputError: an unknown key, or settings without validation scores.
    """
    default = ("method", "backbone")
    if published:
        runs = [
            replace(run, facts=run.facts | {PAPER: _paper_row(run, published, default)})
            for run in runs
        ]
        default = (PAPER,)
    keys = _Keys(runs)
    by = tuple(by) or default
    columns = tuple(columns) or tuple(
        key for key in ("task", *keys.within_a_task()) if key not in by
    )
    selected = [key for key in select if key != ALL]
    for option, given in (("--by", by), ("--columns", columns), ("--select", selected)):
        keys.check(option, given)
    searched = {*selected, *(keys.settings if ALL in select else ())} - {*by, *columns}

    chosen, settings = {}, {}
    for place, group in _groups(runs, by, columns).items():
        settings[place], chosen[place] = _choose(group, searched, metric, place)
    pooled = set().union(*(_varying(group, keys.settings | keys.data) for group in chosen.values()))
    return Layout(
        by, _ordered(chosen, 0, published), _ordered(chosen, 1, published), chosen, settings, pooled
    )


class _Keys:
    """The keys of some runs, and which of them may tell settings and data apart."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs, self.known = runs, set().union(*(run.facts for run in runs))
        formats = {str(run.facts.get("dataset.format")) for run in runs}
        free = {
            key
            for key in self.known - {*NAMED, PAPER, "seed"}
            if not key.endswith(".split_seed") and not is_volatile(key)
        }
        self.data = {
            key
            for key in free
            if key in ("dataset.name", "dataset.format") or key.split(".")[0] in formats
        }
        self.settings = free - self.data

    def within_a_task(self) -> list[str]:
        """Keys of the data that vary among runs of one task, so that its name does not say all."""
        tasks: dict[str, list[Run]] = {}
        for run in self.runs:
            tasks.setdefault(run.facts["task"], []).append(run)
        return sorted(set().union(*(_varying(runs, self.data) for runs in tasks.values())))

    def check(self, option: str, given: Sequence[str]) -> None:
        """Raise an InputError that names the keys that vary if a given one is unknown."""
        for key in given:
            if key not in self.known:
                free = self.settings | self.data
                allowed = [*NAMED, *sorted(_varying(self.runs, free) or free)]
                raise InputError(option, key, f"{', '.join(allowed)}, or another key of the config")


def _varying(runs: Sequence[Run], keys: Iterable[str]) -> set[str]:
    """Keys that have two values; a run of another method has no such key, which is no value."""
    # Runs of one digest differ in none of the others.
    apart = [*{run.digest: run for run in runs}.values()]
    found = set()
    for key in keys:
        of = runs if key in (*NAMED, PAPER) or is_volatile(key) else apart
        if len({run.facts[key] for run in of if key in run.facts}) > 1:
            found.add(key)
    return found


def _paper_row(run: Run, published: Published, keys: Sequence[str]) -> str:
    """The row of the paper's table, or a label by some keys."""
    known = any(wanted["method"] == run.facts["method"] for wanted in published.rows.values())
    return published.row_of(run.facts) or _label(keys, run) + " (beyond the paper)" * known


def _groups(
    runs: Sequence[Run], by: Sequence[str], columns: Sequence[str]
) -> dict[Place, list[Run]]:
    """Runs by the labels of their row and column, in the order in which they were found."""
    row_labels, column_labels = _labels(runs, by), _labels(runs, columns)
    groups: dict[Place, list[Run]] = {}
    for run in runs:
        place = row_labels[_values(run, by)], column_labels[_values(run, columns)]
        groups.setdefault(place, []).append(run)
    return groups


def _labels(runs: Sequence[Run], keys: Sequence[str]) -> dict[tuple, str]:
    """A label for each combination of values, as brief as they stay distinct."""
    first = {_values(run, keys): run for run in reversed(runs)}
    for brief in (True, False):
        labels = {values: _label(keys, run, brief) for values, run in first.items()}
        if len(set(labels.values())) == len(labels):
            return labels
    return {
        values: f"{label} ({number})" for number, (values, label) in enumerate(labels.items(), 1)
    }


def _label(keys: Sequence[str], run: Run, brief: bool = False) -> str:
    """The values of the keys that a run has; ``brief``: without the shift before a data set."""
    parts, both = [], {"method", "backbone"} <= {*keys}
    for key in (key for key in keys if key in run.facts and not (both and key == "backbone")):
        text = _text(run.facts[key])
        if both and key == "method":
            text = method_name(text, run.facts["backbone"])
        elif key in ("method", "train.mode"):
            text = METHODS.get(text, text)
        elif key in ("backbone", "gnn.layer_type"):
            text = LAYERS.get(text, text)
        elif brief and key == "task" and run.facts.get("dataset.format") != "synthetic":
            text = text.removeprefix(f"{run.facts.get('dataset.format')}/")
        parts.append(text if key in PLAIN else f"{key.rpartition('.')[2]}={text}")
    return "/".join(parts) or "-"


def _values(run: Run, keys: Sequence[str]) -> tuple:
    return tuple(run.facts.get(key) for key in keys)


def _text(value: Any) -> str:
    return clean(str(list(value) if isinstance(value, tuple) else value))


def _choose(
    runs: Sequence[Run], keys: Iterable[str], metric: str, place: Place
) -> tuple[Setting, list[Run]]:
    """Of the settings with the most runs, the best one by mean validation score alone."""
    varying = sorted(_varying(runs, keys))
    settings: dict[tuple, list[Run]] = {}
    for run in runs:
        settings.setdefault(_values(run, varying), []).append(run)
    most = max(map(len, settings.values()))
    full = {values: group for values, group in settings.items() if len(group) == most}
    scores = {
        values: statistics.mean(run.scores["val"].get(metric, math.nan) for run in group)
        for values, group in full.items()
    }
    if len(full) > 1 and any(map(math.isnan, scores.values())):
        message = (
            f"{' on '.join(place)} has settings that differ in {', '.join(varying)} and "
            f"have no validation score ({metric}) to choose by"
        )
        hint = "Show these keys with --by or --columns, or give --select without keys"
        raise InputError.plain("--select", message, hint)
    best = (min if metric in LESS else max)(scores, key=scores.__getitem__)
    fewer = len(settings) - len(full)
    return Setting(dict(zip(varying, best)), len(settings), fewer, scores[best]), full[best]


def _ordered(
    chosen: Mapping[Place, list[Run]], axis: int, published: Published | None
) -> list[str]:
    """Labels of rows (axis 0) or columns (1): the oracle, those of the paper, others as found."""
    first = {place[axis]: runs[0] for place, runs in reversed(chosen.items())}

    def rank(label: str) -> tuple[bool, float]:
        facts, entries, entry = first[label].facts, (), None
        if published is not None:
            entries = published.columns if axis else published.rows
            entry = published.column_of(facts) if axis else published.row_of(facts)
        position = list(entries).index(entry) if entry else math.inf
        return axis == 1 or facts["method"] != ORACLE, position

    return sorted(dict.fromkeys(place[axis] for place in chosen), key=rank)

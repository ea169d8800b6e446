"""Rows, columns and settings of a comparison: which runs each of its cells shows."""

from __future__ import annotations

import math
import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import pandas
from pandas import DataFrame

from graphgym_srnc import shifts
from graphgym_srnc.core.text import clean
from graphgym_srnc.errors import InputError
from graphgym_srnc.io.settings import is_volatile
from graphgym_srnc.io.stats import mean
from graphgym_srnc.report.frame import COSTS, NAMED, ORACLE, config_keys, score_column
from graphgym_srnc.report.names import LAYERS, method_name, title
from graphgym_srnc.report.paper import Published

LESS = frozenset({"unknown_fpr95", "loss", *COSTS})  # metrics of which a lower value is better
# Scores that may be high although a model finds no node of an unknown class.
DECISIONS = frozenset("micro_f1 macro_f1 macro_recall known_accuracy known_recall".split())
SHARE = "unknown_share"  # of test nodes predicted as unknown, of runs that cannot score them
ALL = "all"  # stands for all keys of settings that vary
# Keys of a run: its row and its column in the table of the paper.
PAPER = "paper"
PAPER_COLUMN = "paper column"
# What follows the name of a row whose method is in the paper, but not with its settings.
SMOOTHED = " with smoothing"
OTHER_SETTINGS = ", not the paper's settings"
# Keys whose values are printed without the key.
PLAIN = (*NAMED, PAPER, "config", "train.mode", "gnn.layer_type", "dataset.name")
Place = tuple[str, str]  # label of a row and label of a column


class Arranged(NamedTuple):
    """The runs of the best settings.

    A unit is one observation: the split and seed of a run, or its set of masked classes where the
    runs of a column differ in it.
    """

    runs: DataFrame  # with the columns row, column and unit
    by: tuple[str, ...]  # keys of the rows
    chosen: dict[Place, dict[str, Any]]  # the chosen setting of each cell, see compare.CELL
    pooled: set[str]  # keys in which runs of one cell still differ
    left_out: int  # number of runs of the oracle in cells of other methods


def arrange(
    runs: DataFrame,
    by: Sequence[str],
    columns: Sequence[str],
    select: Sequence[str],
    metric: str,
    published: Published | None,
) -> Arranged:
    """Assign runs to cells and choose the best setting of each; see ``compare.table``."""
    default: tuple[str, ...] = ("method", "backbone")
    keys = config_keys(runs)
    free = {key for key in keys if not key.endswith(".split_seed") and not is_volatile(key)}
    if published:
        runs = _beside(runs, published)
        default = (PAPER,)
    by = tuple(by) or default
    runs = runs.assign(config=_configs(runs))
    data = _keys_of_data(runs, free)
    read = _without_ignored(runs, data)
    named, columns = _columns(runs, read, data, by, columns)
    selected = [key for key in select if key != ALL]
    known = {*keys, *NAMED, "config", "seed", *default}
    allowed = ", ".join([*NAMED, "config", *sorted(_varying(runs, free) or free)])
    for option, given in (("by", by), ("columns", columns), ("select", selected)):
        _check_keys(option, given, known, allowed)
    of_methods = free - data if ALL in select else set()
    searched = {*selected, *of_methods} - {*by, *columns}

    runs = runs.assign(row=_labels(runs, by), column=_labels(named, columns))
    # A mean or a choice over the oracle and other methods would credit them with its knowledge.
    of_oracle = runs["method"] == ORACLE
    is_left_out = of_oracle & ~of_oracle.groupby([runs["row"], runs["column"]]).transform("all")
    chosen = {}
    best = []
    for place, group in runs[~is_left_out].groupby(["row", "column"], sort=False):
        chosen[place], of_best = _choose(group, searched, metric, place)
        best.append(of_best)
    pooled = set().union(*(_varying(read.loc[cell.index], free) for cell in best))
    runs = pandas.concat(best)
    runs = runs.assign(unit=_units(runs))
    return Arranged(runs, by, chosen, pooled, int(is_left_out.sum()))


def _configs(runs: DataFrame) -> pandas.Series:
    """The name of the config of each run, which also names the method where a grid varies it."""
    names = map(_config_name, runs["experiment"], runs["dataset.name"])
    configs = pandas.Series([*names], runs.index, dtype=object)
    mixed = runs["method"].groupby(configs).transform("nunique") > 1
    mixed &= configs != runs["method"]
    return configs.mask(mixed, configs + " with " + runs["method"])


def _keys_of_data(runs: DataFrame, keys: set[str]) -> set[str]:
    """The keys that say what a run was trained on."""
    formats = {str(name) for name in runs["dataset.format"]}
    of_shifts = {key for key in keys if key.split(".")[0] in formats}
    return of_shifts | keys & {"dataset.name", "dataset.format"}


def _columns(
    runs: DataFrame, read: DataFrame, data: set[str], by: Sequence[str], given: Sequence[str]
) -> tuple[DataFrame, Sequence[str]]:
    """The given columns, or the task and keys of the data that vary within one.

    Returns the runs with the values that name their columns, and the keys of the columns.
    """
    if given:
        return runs, given
    within = {task: _varying(of, data) for task, of in read.groupby("task")}
    varying = set().union(*within.values())
    named = read.copy()
    for task, own in within.items():  # a column names no key that is constant in its task
        named.loc[named["task"] == task, sorted(varying - own)] = math.nan
    columns = [key for key in ("task",) if key not in by]
    for key in sorted(varying - {*by}):
        if _numbered(named, [*columns, key]).max() > _numbered(named, columns).max():
            columns.append(key)
    return named, columns


def _check_keys(option: str, keys: Iterable[str], known: set[str], allowed: str) -> None:
    """Refuse a key that no run has."""
    for key in keys:
        if key == "cfg":
            raise InputError.plain(
                option, "cfg is the base config of a grid and no key of a run", "Use config"
            )
        if key not in known:
            raise InputError(option, key, f"{allowed}, or another key of the config")


def _units(runs: DataFrame) -> pandas.Series:
    """The unit of each run, see :class:`Arranged`."""
    masked = runs["masked"].map(lambda of: "" if of is None or of != of else str(of))
    several = masked.groupby(runs["column"]).transform("nunique") > 1
    return masked.where(several & (masked != ""), runs["split"] + " " + runs["seed"].astype(str))


def _beside(runs: DataFrame, published: Published) -> DataFrame:
    """The runs with their row and column in the paper's table, or a row of their own."""
    places = {}
    for run in runs.drop_duplicates("digest").to_dict("records"):
        facts = {key: value for key, value in run.items() if value == value}
        own = method_name(run["method"], run["backbone"])
        if own in published.numbers:
            own += SMOOTHED if facts.get(f"{run['method']}.smoothing") else OTHER_SETTINGS
        places[run["digest"]] = (published.row_of(facts) or own, published.column_of(facts) or "")
    beside = DataFrame([*runs["digest"].map(places)], runs.index, [PAPER, PAPER_COLUMN])
    return runs.join(beside)


def _config_name(experiment: str, data: Any) -> str:
    """``erm-corrected`` of ``default-cfg=erm_corrected-s=acmv9`` and ``citation-erm-corrected``."""
    folder = experiment.replace("\\", "/").rpartition("/")[2]
    found = re.search(r"-cfg=([^-]+)", folder)
    name = found[1].replace("_", "-") if found else re.sub(r"-\w+=.*", "", folder)
    return name.removeprefix(f"{str(data).casefold()}-")


def _without_ignored(runs: DataFrame, data: Iterable[str]) -> DataFrame:
    """The runs with NaN for keys of data that their shift ignores."""
    read = runs.copy()
    formats = runs["dataset.format"]
    for key in data:
        block = key.split(".")[0]
        if block != "dataset":
            read[key] = runs[key].mask(formats != block)
    # The shifts of this package name in the task the data set that they read.
    names = zip(runs["dataset.name"], runs["task"])
    unread = pandas.Series([f"/{name}" not in task for name, task in names], runs.index)
    read["dataset.name"] = runs["dataset.name"].mask(formats.isin(shifts.own_names()) & unread)
    return read


def _varying(runs: DataFrame, keys: Iterable[str]) -> set[str]:
    """Keys with two values; a missing key is no value."""
    apart = runs.drop_duplicates("digest")  # runs of one digest differ in seeds and paths alone
    found = set()
    for key in keys:
        values = (runs if is_volatile(key) else apart)[key]
        if len({value for value in values if value == value}) > 1:
            found.add(key)
    return found


def _numbered(runs: DataFrame, keys: Sequence[str]) -> pandas.Series:
    """A number of each run for its values of some keys, from 0 in the order of the runs."""
    if not keys:
        return pandas.Series(0, runs.index)
    return runs.groupby(list(keys), dropna=False, sort=False).ngroup()


def _labels(runs: DataFrame, keys: Sequence[str]) -> pandas.Series:
    """A label of each run for its values of some keys, as short as labels stay distinct."""
    # A method of one backbone has the same name whether the backbone is a key of the rows or not.
    alone = runs.groupby("method")["backbone"].nunique() == 1
    number = _numbered(runs, keys)
    read = [*dict.fromkeys([*keys, "method", "backbone", "dataset.format"])]
    first = runs.loc[~number.duplicated(), read].to_dict("records")
    labels = [_label(keys, run, alone[run["method"]], brief=True) for run in first]
    if len(set(labels)) < len(labels):
        labels = [_label(keys, run, alone[run["method"]], brief=False) for run in first]
    return number.map(dict(zip(number.unique(), labels)))


def _label(keys: Sequence[str], run: Mapping[str, Any], is_alone: bool, brief: bool) -> str:
    """The values of the keys that a run has; ``brief``: without the shift before a data set."""
    parts = []
    both = {"method", "backbone"} <= {*keys}
    for key in keys:
        if run[key] != run[key] or both and key == "backbone":
            continue
        text = as_text(run[key])
        if key in ("method", "train.mode"):
            text = method_name(text, run["backbone"]) if both or is_alone else title(text)
        elif key in ("backbone", "gnn.layer_type"):
            text = LAYERS.get(text, text)
        elif brief and key == "task" and run["dataset.format"] != "synthetic":
            text = text.removeprefix(f"{run['dataset.format']}/")
        parts.append(text if key in PLAIN else f"{key.rpartition('.')[2]} {text}")
    return ", ".join(parts) or "-"


def as_text(value: Any) -> str:
    """A value of a config as it is printed."""
    return clean(str(list(value) if isinstance(value, tuple) else value))


def _choose(
    runs: DataFrame, keys: Iterable[str], metric: str, place: Place
) -> tuple[dict[str, Any], DataFrame]:
    """Of the settings with the most runs, the one with the best mean validation score."""
    varying = sorted(_varying(runs, keys))
    settings = [runs]
    if varying:
        settings = [own for _, own in runs.groupby(varying, dropna=False, sort=False)]
    most = max(map(len, settings))
    full = [own for own in settings if len(own) == most]
    column = score_column(metric, "val")
    scores = [mean(own[column]) if column in own else math.nan for own in full]
    if len(full) > 1 and any(map(math.isnan, scores)):
        raise InputError.plain(
            "select",
            (
                f"{' on '.join(place)} has settings that differ in {', '.join(varying)} and "
                f"have no validation score ({metric}) to choose by"
            ),
            code="no_choice",
        )
    validation = (min if metric in LESS else max)(scores)
    chosen = full[scores.index(validation)]
    values = {key: chosen[key].iloc[0] for key in varying}
    text = ", ".join(
        f"{key.rpartition('.')[2]} {as_text(value if value == value else None)}"
        for key, value in values.items()
    )
    facts = {
        "validation": validation,
        "tried": len(settings),
        "fewer": len(settings) - len(full),
        "setting": text,
        "keys": " ".join(varying),
    }
    return facts, chosen

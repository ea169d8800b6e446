"""Comparison of runs: rows and columns by keys, settings chosen on validation, tests and ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Any, Hashable, Iterable, Mapping, NamedTuple, Sequence

import pandas
from pandas import DataFrame

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.text import LAYERS, METHODS, clean, method_name
from graphgym_srnc.io import store
from graphgym_srnc.io.settings import is_volatile
from graphgym_srnc.report import statistics
from graphgym_srnc.report.frame import COSTS, NAMED, config_keys, score_column
from graphgym_srnc.report.paper import TABLES, Published, data_name

LESS = frozenset({"unknown_fpr95", "loss", *COSTS})
"""Metrics of which a lower value is better."""

ORACLE = "iid"
"""The method that knows the masked classes. It is shown, but not ranked."""

ALL = "all"
"""Stands for all keys of settings that vary."""

POOLED = "all columns"
"""Stands for a column in which the pairs of all columns are tested together."""

PAPER, PAPER_COLUMN = "paper", "paper column"
"""Keys of a run: its row and its column in the table of the paper."""

PLAIN = (*NAMED, PAPER, "train.mode", "gnn.layer_type", "dataset.name")
"""Keys whose values are printed without the key."""

CELL = tuple(
    "metric split row column runs mean std median low high best tied pairs_best p_best rank"
    " validation tried fewer setting paper_mean paper_std against pairs difference wins p"
    " p_holm".split()
)
"""Columns of :attr:`Table.cells`.

``runs`` to ``high`` describe the scores of a cell: their number, mean, population standard
deviation, median and interval of the mean. ``best`` and ``tied`` mark the best cell of a column and
those without a significant difference from it, on ``pairs_best`` pairs with the corrected
``p_best``. ``rank`` is the mean rank of the row. ``validation`` to ``setting`` describe the chosen
setting. ``against`` to ``p_holm`` compare the cell with that of the row ``against``.
"""

Place = tuple[str, str]
"""Label of a row and label of a column."""


@dataclass(frozen=True)
class Setting:
    """The setting chosen for a row on a column."""

    values: dict[str, Any]  # of the keys in which the settings differ
    tried: int  # number of settings
    fewer: int  # number of them with fewer runs than others, which could not be chosen
    validation: float  # mean score of this one; NaN = not needed and absent

    def __str__(self) -> str:
        return ", ".join(f"{key}={_text(value)}" for key, value in self.values.items())


class Ranking(NamedTuple):
    """Mean ranks over blocks, which are splits with a seed, or masked sets, on a column."""

    ranks: dict[str, float]  # by row, 1 = best
    blocks: int
    friedman: float  # p of Friedman's test over them
    difference: float  # Nemenyi's critical difference
    cliques: list[list[str]]  # rows without a significant difference


@dataclass(frozen=True)
class Table:
    """Every number of a comparison."""

    metrics: tuple[str, ...]
    split: str
    alpha: float
    test: str
    against: str | None  # the row that others are compared with
    selector: str  # the metric that chose settings
    by: tuple[str, ...]  # keys of the rows
    rows: list[str]  # labels in the order of print
    columns: list[str]
    runs: DataFrame  # runs of the chosen settings, with their row, column and unit
    settings: dict[Place, Setting]
    pooled: set[str]  # keys in which runs of one cell still differ
    published: Published | None  # the paper's table beside ours
    oracles: set[str]  # rows that know the masked classes: neither ranked nor marked
    cells: DataFrame  # columns CELL; a line per metric, row and column (or POOLED)
    rankings: dict[str, Ranking]  # by metric, if two rows have a block in common

    def of(self, metric: str) -> dict[Place, Any]:
        """The cells of a metric by row and column, as named tuples."""
        found = self.cells[self.cells.metric == metric]
        return {(cell.row, cell.column): cell for cell in found.itertuples(index=False)}

    @property
    def cautions(self) -> list[str]:
        """Warnings about our data beside the paper's table."""
        names = {data_name({"dataset.name": name}) for name in self.runs["dataset.name"]}
        cautions = self.published.cautions if self.published else {}
        return [text for name, text in cautions.items() if name in names]


def table(
    runs: DataFrame,
    metrics: Sequence[str] = (),
    split: str = "test",
    by: Sequence[str] = (),
    columns: Sequence[str] = (),
    select: Sequence[str] = (ALL,),
    against: str | None = None,
    test: str = "wilcoxon",
    paper: str | None = None,
    alpha: float = 0.05,
    intervals: bool = False,
) -> Table:
    """Compare runs.

    A key is one of the config, or ``method``, ``backbone``, ``task``, or, with ``paper``,
    ``paper``: the matching row of the paper's table. Keys of the data are selected over only if
    ``select`` names them.

    Args:
        runs: :attr:`graphgym_srnc.report.frame.Collection.runs`.
        metrics: scores on that split, or ``COSTS``; default: those of the paper's table, or
            Micro-F1.
        split: ``test``, ``val`` or ``train``.
        by: keys of the rows; default: method and backbone.
        columns: keys of the columns; default: the task, and keys of the data that vary within one.
        select: keys over which the best setting of each cell is chosen, by the mean validation
            score of the first metric that is no cost; ``all``: all keys that vary; none: pool the
            runs of all settings.
        against: the row to compare the others with, or the ``train.mode`` of one row.
        test: one of ``statistics.TESTS``.
        paper: one of ``paper.TABLES``, to show its numbers beside ours.
        alpha: level of the tests; intervals have the level 1 - alpha.
        intervals: whether to bootstrap an interval for each mean.

    Raises:
        InputError: an unknown metric, split, key, row, test or table; no pairs with the chosen row;
            settings without validation scores.
    """
    published = _looked_up("--paper", paper, TABLES) if paper else None
    _looked_up("--split", split, dict.fromkeys(store.SPLITS))
    _looked_up("--test", test, statistics.TESTS)
    if not 0 < alpha < 1:
        raise InputError("--alpha", alpha, "more than 0, less than 1")
    metrics = tuple(dict.fromkeys(metrics or (published.metrics if published else ("micro_f1",))))
    known = [name for name in runs.dropna(axis=1, how="all") if name in COSTS]
    known += [name.removeprefix(f"{split}_") for name in runs if name.startswith(f"{split}_")]
    for metric in metrics:
        if metric not in known:
            raise InputError("--metric", metric, f"{', '.join(sorted(known))} on {split} nodes")
    selector = next((metric for metric in metrics if metric not in COSTS), "micro_f1")

    runs, by, settings, pooled = _arranged(runs, by, columns, select, selector, published)
    rows, labels = (_ordered(runs, axis, published) for axis in ("row", "column"))
    oracles = {row for row, of in runs.groupby("row").method if set(of) == {ORACLE}}
    against = _row(against, rows, runs)
    cells: list[dict[str, Any]] = []
    rankings: dict[str, Ranking] = {}
    for metric in metrics:
        scored = _Scored(
            runs, metric, split, test, alpha, [row for row in rows if row not in oracles]
        )
        found = scored.cells(1 - alpha if intervals else None, published)
        if ranking := scored.ranking():
            rankings[metric] = ranking
        for column in labels:
            scored.mark(found, column)
        for column in [*labels, *[POOLED] * (len(labels) > 1)] if against is not None else []:
            scored.compare(found, against, column)
        for place, setting in settings.items():
            if place in found:
                own = setting.validation, setting.tried, setting.fewer, str(setting)
                found[place] |= dict(zip(("validation", "tried", "fewer", "setting"), own))
        for place in ((row, column) for row in rows for column in [*labels, POOLED]):
            if place in found:
                rank = ranking.ranks.get(place[0]) if ranking else None
                facts = {"metric": metric, "split": split, "row": place[0], "column": place[1]}
                cells.append(facts | {"rank": rank} | found[place])
    frame = DataFrame(cells, columns=list(CELL), dtype=object)
    if against is not None and frame.p.isna().all():
        raise InputError.plain(
            "--against",
            f"{against} shares fewer than 2 splits with every other row",
            "Choose another row; only runs with the same split and seed form a pair",
        )
    return Table(
        metrics,
        split,
        alpha,
        test,
        against,
        selector,
        by,
        rows,
        labels,
        runs,
        settings,
        pooled,
        published,
        oracles,
        frame,
        rankings,
    )


def _looked_up(option: str, name: str, allowed: Mapping[str, Any]) -> Any:
    if name not in allowed:
        raise InputError(option, name, ", ".join(allowed))
    return allowed[name]


def _row(against: str | None, rows: Sequence[str], runs: DataFrame) -> str | None:
    """The row with a label, or the only row of a method."""
    if against is None or against in rows:
        return against
    found = [row for row, of in runs.groupby("row").method if set(of) == {against}]
    if len(found) != 1:
        message = f"{against!r} is not the name of exactly one row"
        raise InputError.plain("--against", message, f"The rows are {' | '.join(rows)}")
    return found[0]


class _Scored:
    """The scores of one metric, by row, then by block: a column, a split and a seed.

    Tests, intervals and ranks count units: a pair of split and seed, or the set of masked classes
    where the runs of a column differ in it.
    """

    def __init__(
        self, runs: DataFrame, metric: str, split: str, test: str, alpha: float, ranked: list[str]
    ) -> None:
        self.metric, self.test, self.alpha, self.ranked = metric, test, alpha, ranked
        self.is_test = split == "test"
        self.best = min if metric in LESS else max
        score = score_column(metric, split)
        self.runs = runs.dropna(subset=[score]).rename(columns={score: "score"})
        self.runs["score"] = self.runs["score"].astype(float)
        self.groups = dict(iter(self.runs.groupby(["row", "column"], sort=False)))
        self.units: dict[Hashable, Hashable] = dict(
            zip(zip(*(runs[name] for name in ("column", "split", "seed"))), runs["unit"])
        )
        self.scores: dict[str, dict[Hashable, float]] = {}
        for (row, _), group in self.groups.items():
            pairs: dict[Hashable, list[float]] = {}
            for *block, value in zip(
                group["column"], group["split"], group["seed"], group["score"]
            ):
                pairs.setdefault(tuple(block), []).append(value)
            means = {block: statistics.mean(values) for block, values in pairs.items()}
            self.scores.setdefault(row, {}).update(means)

    def on(self, row: str, column: str) -> dict[Hashable, float]:
        """The scores of a row on a column."""
        scores = self.scores.get(row, {}).items()
        return {block: value for block, value in scores if column in (block[0], POOLED)}

    def cells(self, confidence: float | None, published: Published | None) -> dict[Place, Any]:
        """What the scores of each cell say by themselves."""
        found = {}
        for place, group in self.groups.items():
            values = group["score"].tolist()
            cell = dict(zip(("mean", "std"), statistics.mean_std(values)))
            cell |= {"runs": len(values), "median": median(values), "best": 0, "tied": 0}
            cell["pairs_best"] = 0
            if confidence:
                independent = statistics.by_unit(self.on(*place), self.units)
                ends = statistics.bootstrap_interval(independent, confidence)
                cell |= dict(zip(("low", "high"), ends))
            beside = set(zip(group[PAPER], group[PAPER_COLUMN])) if published else set()
            if published and self.is_test and len(beside) == 1:
                score = published.find(*beside.pop()).get(self.metric) or ()
                percent = [None if value is None else round(value / 100, 6) for value in score]
                cell |= dict(zip(("paper_mean", "paper_std"), percent))
            found[place] = cell
        return found

    def mark(self, cells: dict[Place, Any], column: str) -> None:
        """Mark the best cell of a column and those without a significant difference from it."""
        means = {row: cells[row, column]["mean"] for row in self.ranked if (row, column) in cells}
        if len(means) < 2:
            return
        best = self.best(means, key=means.__getitem__)
        cells[best, column]["best"] = 1
        gaps = {
            row: statistics.paired(self.on(best, column), self.on(row, column), self.units)
            for row in means
            if row != best
        }
        p = statistics.holm([statistics.p_value(gap, self.test) for gap in gaps.values()])
        for (row, gap), value in zip(gaps.items(), p):
            tied = int(value > self.alpha)
            cells[row, column] |= {"pairs_best": len(gap), "p_best": value, "tied": tied}

    def compare(self, cells: dict[Place, Any], against: str, column: str) -> None:
        """Compare the other rows with a chosen one on a column, or on all."""
        ours, found = self.on(against, column), {}
        for row in (row for row in self.ranked if row != against):
            gaps = statistics.paired(self.on(row, column), ours, self.units)
            found[row] = {
                "against": against,
                "pairs": len(gaps),
                "difference": statistics.mean(gaps),
                "wins": sum(gap < 0 if self.metric in LESS else gap > 0 for gap in gaps),
                "p": statistics.p_value(gaps, self.test),
            }
        corrected = statistics.holm([one["p"] for one in found.values()])
        for (row, one), p in zip(found.items(), corrected):
            cells.setdefault((row, column), {}).update(one, p_holm=p)

    def ranking(self) -> Ranking | None:
        """Ranks on the blocks that rows have in common; None if no two rows have any."""
        ranked = {row: self.scores[row] for row in self.ranked if self.scores.get(row)}
        rows, common = statistics.common_blocks(ranked)
        if len(rows) < 2:
            return None
        # A masked set is a block of its column.
        units = {block: (block[0], self.units[block]) for block in common}
        blocks = list(dict.fromkeys(units.values()))
        scores = {}
        for row in rows:
            own = {block: ranked[row][block] for block in common}
            scores[row] = dict(zip(blocks, statistics.by_unit(own, units)))
        ranks = statistics.mean_ranks(scores, blocks, self.metric in LESS)
        difference, cliques = statistics.critical_difference(ranks, len(blocks), self.alpha)
        friedman = statistics.friedman(scores, blocks)
        return Ranking(ranks, len(blocks), friedman, difference, cliques)


def _arranged(
    runs: DataFrame,
    by: Sequence[str],
    columns: Sequence[str],
    select: Sequence[str],
    metric: str,
    published: Published | None,
) -> tuple[DataFrame, tuple[str, ...], dict[Place, Setting], set[str]]:
    """The runs of the best settings with their row, column and unit; the keys of the rows; the
    chosen settings; the keys in which runs of one cell still differ."""
    default: tuple[str, ...] = ("method", "backbone")
    if published:
        runs, default = _beside(runs, published), (PAPER,)
    formats = {str(name) for name in runs["dataset.format"]}
    free = {
        key
        for key in config_keys(runs)
        if not key.endswith(".split_seed") and not is_volatile(key)
        if key not in (PAPER, PAPER_COLUMN)
    }
    data = {
        key
        for key in free
        if key in ("dataset.name", "dataset.format") or key.split(".")[0] in formats
    }
    by = tuple(by) or default
    if not columns:
        tasks = (of for _, of in runs.groupby("task"))
        within = sorted(set().union(*(_varying(of, data) for of in tasks)))
        columns = [key for key in ("task", *within) if key not in by]
    chosen = [key for key in select if key != ALL]
    known = {*config_keys(runs), *NAMED, "seed"} - {PAPER_COLUMN}
    for option, given in (("--by", by), ("--columns", columns), ("--select", chosen)):
        for key in given:
            if key not in known:
                allowed = ", ".join([*NAMED, *sorted(_varying(runs, free) or free)])
                raise InputError(option, key, f"{allowed}, or another key of the config")
    keys = {*chosen, *(free - data if ALL in select else ())} - {*by, *columns}

    runs = runs.assign(row=_labels(runs, by), column=_labels(runs, columns))
    settings, best, pooled = {}, [], set()
    for place, group in runs.groupby(["row", "column"], sort=False):
        settings[place], of_best = _choose(group, keys, metric, place)
        best.append(of_best)
        pooled |= _varying(of_best, free)
    # Kept by place, so that the first run of a row decides where it stands.
    runs = pandas.concat(best)
    several = runs.groupby("column").masked.transform(lambda of: len({*map(_none, of)}) > 1)
    pairs = zip(runs["split"], runs["seed"])
    runs["unit"] = [
        masked if differ and _none(masked) else pair
        for masked, differ, pair in zip(runs["masked"], several, pairs)
    ]
    return runs, by, settings, pooled


def _beside(runs: DataFrame, published: Published) -> DataFrame:
    """The runs with their row and column in the paper's table, or a row of their own."""
    places = {}
    for run in runs.drop_duplicates("digest").to_dict("records"):
        facts = {key: value for key, value in run.items() if _none(value) is not None}
        row = published.row_of(facts)
        if row is None:
            is_known = any(own["method"] == run["method"] for own in published.rows.values())
            row = _label(("method", "backbone"), run) + " (beyond the paper)" * is_known
        places[run["digest"]] = row, published.column_of(facts) or ""
    beside = [places[digest] for digest in runs["digest"]]
    return runs.assign(
        **{PAPER: [row for row, _ in beside], PAPER_COLUMN: [column for _, column in beside]}
    )


def _varying(runs: DataFrame, keys: Iterable[str]) -> set[str]:
    """Keys with two values; a missing key is no value."""
    apart = runs.drop_duplicates("digest")  # runs of one digest differ in seeds and paths alone
    return {
        key
        for key in keys
        if len({x for x in (runs if is_volatile(key) else apart)[key] if x == x}) > 1
    }


def _none(value: Any) -> Any:
    """A value of a frame, None where it is missing."""
    return value if value == value else None


def _values(runs: DataFrame, keys: Sequence[str]) -> list[tuple]:
    if not keys:
        return [()] * len(runs)
    return [tuple(map(_none, values)) for values in zip(*(runs[key] for key in keys))]


def _labels(runs: DataFrame, keys: Sequence[str]) -> list[str]:
    """A label of each run for its values of some keys, as short as labels stay distinct."""
    values = _values(runs, keys)
    numbers = {value: len(values) - 1 - i for i, value in enumerate(reversed(values))}
    first = {value: runs.iloc[number] for value, number in numbers.items()}
    for brief in (True, False):
        labels = {value: _label(keys, run, brief) for value, run in first.items()}
        if len(set(labels.values())) == len(labels):
            break
    else:
        labels = {
            value: f"{label} ({number})" for number, (value, label) in enumerate(labels.items(), 1)
        }
    return [labels[value] for value in values]


def _label(keys: Sequence[str], run: Mapping[str, Any], brief: bool = False) -> str:
    """The values of the keys that a run has; ``brief``: without the shift before a data set."""
    parts, both = [], {"method", "backbone"} <= {*keys}
    for key in keys:
        if run[key] != run[key] or both and key == "backbone":
            continue
        text = _text(run[key])
        if both and key == "method":
            text = method_name(text, run["backbone"])
        elif key in ("method", "train.mode"):
            text = METHODS.get(text, text)
        elif key in ("backbone", "gnn.layer_type"):
            text = LAYERS.get(text, text)
        elif brief and key == "task" and run["dataset.format"] != "synthetic":
            text = text.removeprefix(f"{run['dataset.format']}/")
        parts.append(text if key in PLAIN else f"{key.rpartition('.')[2]}={text}")
    return "/".join(parts) or "-"


def _text(value: Any) -> str:
    return clean(str(list(value) if isinstance(value, tuple) else value))


def _choose(
    runs: DataFrame, keys: Iterable[str], metric: str, place: Place
) -> tuple[Setting, DataFrame]:
    """Of the settings with the most runs, the one with the best mean validation score."""
    varying = sorted(_varying(runs, keys))
    settings: dict[tuple, list[int]] = {}
    for number, values in enumerate(_values(runs, varying)):
        settings.setdefault(values, []).append(number)
    most = max(map(len, settings.values()))
    full = {values: runs.iloc[own] for values, own in settings.items() if len(own) == most}
    score = score_column(metric, "val")
    scores = {
        values: statistics.mean(of[score]) if score in of else math.nan
        for values, of in full.items()
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


def _ordered(runs: DataFrame, axis: str, published: Published | None) -> list[str]:
    """Labels of rows or columns: the oracle, those of the paper in its order, others as found."""
    first = runs.drop_duplicates(axis)
    key, entries = {
        "row": (PAPER, list(published.rows) if published else []),
        "column": (PAPER_COLUMN, list(published.columns) if published else []),
    }[axis]

    def rank(run: Mapping[str, Any]) -> tuple[bool, float]:
        entry = run.get(key)
        position = entries.index(entry) if entry in entries else math.inf
        return axis == "column" or run["method"] != ORACLE, position

    return [run[axis] for run in sorted(first.to_dict("records"), key=rank)]

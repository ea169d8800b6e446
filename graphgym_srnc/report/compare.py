"""Comparison of runs: rows and columns by keys, settings chosen on validation, tests and ranks."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from statistics import median
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import pandas
from pandas import DataFrame

from graphgym_srnc.core.text import LAYERS, METHODS, clean, method_name
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import stats
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

BLOCK = ("column", "unit", "split", "seed")
"""Keys of a block. A unit is one observation: the split and seed of a run, or its set of masked
classes where the runs of a column differ in it. Tests, intervals and ranks count units."""


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
    by: tuple[str, ...]  # keys of the rows
    rows: list[str]  # labels in the order of print
    columns: list[str]
    runs: DataFrame  # runs of the chosen settings, with their row, column and unit
    pooled: set[str]  # keys in which runs of one cell still differ
    published: Published | None  # the paper's table beside ours
    cells: DataFrame  # columns CELL; a line per metric, row and column (or POOLED); NaN = absent
    rankings: dict[str, Ranking]  # by metric, if two rows have a block in common

    def of(self, metric: str) -> dict[Place, Any]:
        """The cells of a metric by row and column, as named tuples."""
        found = self.cells[self.cells.metric == metric]
        return {(cell.row, cell.column): cell for cell in found.itertuples(index=False)}

    @functools.cached_property
    def oracles(self) -> set[str]:
        """Rows that know the masked classes: neither ranked nor marked."""
        return _rows_of(self.runs, ORACLE)

    @property
    def selector(self) -> str:
        """The metric that chose settings."""
        return _selector(self.metrics)

    @property
    def chosen(self) -> list[Any]:
        """A cell, as a named tuple, for each row and column with a choice of settings."""
        found = self.cells[self.cells["tried"] > 1].drop_duplicates(["row", "column"])
        return list(found.itertuples(index=False))

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
    _looked_up("--split", split, dict.fromkeys(stats.SPLITS))
    _looked_up("--test", test, statistics.TESTS)
    if not 0 < alpha < 1:
        raise InputError("--alpha", alpha, "more than 0, less than 1")
    metrics = tuple(dict.fromkeys(metrics or (published.metrics if published else ("micro_f1",))))
    known = [name for name in runs.dropna(axis=1, how="all") if name in COSTS]
    known += [name.removeprefix(f"{split}_") for name in runs if name.startswith(f"{split}_")]
    for metric in metrics:
        if metric not in known:
            raise InputError("--metric", metric, f"{', '.join(sorted(known))} on {split} nodes")
    runs, by, chosen, pooled = _arranged(runs, by, columns, select, _selector(metrics), published)
    rows, labels = (_ordered(runs, axis, published) for axis in ("row", "column"))
    against = _row(against, rows, runs)
    ranked = [row for row in rows if row not in _rows_of(runs, ORACLE)]
    tested = [*labels, *[POOLED] * (len(labels) > 1 and against is not None)]
    cells: list[dict[str, Any]] = []
    ranks: dict[str, Ranking] = {}
    for metric in metrics:
        scores = _Scores(runs, metric, split, test, alpha)
        found = scores.cells(1 - alpha if intervals else None, published)
        for column in labels:
            scores.mark(found, ranked, column)
        if against is not None:
            for column in tested:
                scores.compare(found, ranked, against, column)
        ranking = scores.ranking(ranked)
        ranks |= {metric: ranking} if ranking else {}
        for place in itertools.product(rows, tested):
            rank = ranking.ranks.get(place[0]) if ranking else None
            facts = dict(zip(CELL, (metric, split, *place))) | {"rank": rank}
            cells.append(facts | chosen.get(place, {}) | found.get(place, {}))
    frame = DataFrame(cells, columns=[*CELL, "second"], dtype=object)
    if against is not None and frame["p"].isna().all():
        raise InputError.plain(
            "--against",
            f"{against} shares fewer than 2 splits with every other row",
            "Choose another row; only runs with the same split and seed form a pair",
        )
    shown = metrics, split, alpha, test, against, by, rows, labels, runs, pooled, published
    return Table(*shown, frame, ranks)


def _selector(metrics: Sequence[str]) -> str:
    return next((metric for metric in metrics if metric not in COSTS), "micro_f1")


def _looked_up(option: str, name: str, allowed: Mapping[str, Any]) -> Any:
    if name not in allowed:
        raise InputError(option, name, ", ".join(allowed))
    return allowed[name]


def _row(against: str | None, rows: Sequence[str], runs: DataFrame) -> str | None:
    """The row with a label, or the only row of a method."""
    if against is None or against in rows:
        return against
    found = _rows_of(runs, against)
    if len(found) != 1:
        message = f"{against!r} is not the name of exactly one row"
        raise InputError.plain("--against", message, f"The rows are {' | '.join(rows)}")
    return found.pop()


def _rows_of(runs: DataFrame, method: str) -> set[str]:
    """The rows that contain only runs of a method."""
    return {row for row, of in runs.groupby("row")["method"] if set(of) == {method}}


class _Scores:
    """The scores of one metric: ``means`` has a column per row and a line per block."""

    def __init__(self, runs: DataFrame, metric: str, split: str, test: str, alpha: float) -> None:
        self.metric, self.split, self.test, self.alpha = metric, split, test, alpha
        score = score_column(metric, split)
        runs = runs.dropna(subset=[score])
        self.runs = runs.assign(score=runs[score].astype(float))
        means = self.runs.groupby([*BLOCK, "row"], sort=False)["score"].agg(statistics.mean)
        blocks = means.index.droplevel("row").drop_duplicates()
        self.means = means.unstack("row").reindex(blocks)

    def cells(
        self, confidence: float | None, published: Published | None
    ) -> dict[Place, dict[str, Any]]:
        """Each cell with the numbers that depend on no other cell."""
        found = {}
        for place, group in self.runs.groupby(["row", "column"], sort=False):
            values = group["score"].tolist()
            mean, std = statistics.mean_std(values)
            cell = {"runs": len(values), "mean": mean, "std": std, "median": median(values)}
            cell |= {"best": 0, "tied": 0, "pairs_best": 0}
            if confidence:
                own = self.means.loc[[place[1]], place[0]].dropna()
                units = own.groupby(level="unit", sort=False).agg(statistics.mean)
                ends = statistics.bootstrap_interval(units.tolist(), confidence)
                cell["low"], cell["high"] = ends
            if published and self.split == "test":
                beside = set(zip(group[PAPER], group[PAPER_COLUMN]))
                score = published.find(*beside.pop()).get(self.metric) if len(beside) == 1 else None
                for key, value in score._asdict().items() if score else ():
                    cell[f"paper_{key}"] = None if value is None else round(value / 100, 6)
            found[place] = cell
        return found

    def tests(
        self, ranked: list[str], against: str, column: str
    ) -> Iterable[tuple[str, list[float], float, float]]:
        """Each other row with its differences per unit, p, and p with Holm's correction.

        Args:
            ranked: the rows.
            against: the row that is subtracted.
            column: a column, or ``POOLED``.
        """
        scores = self.means.reindex(columns=list({**dict.fromkeys(ranked), against: None}))
        if column != POOLED:
            scores = scores[scores.index.get_level_values("column") == column]
        gaps = {row: statistics.gaps(scores, row, against) for row in ranked if row != against}
        p = [statistics.p_value(gap, self.test) for gap in gaps.values()]
        return zip(gaps, gaps.values(), p, statistics.holm(p))

    def mark(self, cells: dict[Place, dict[str, Any]], ranked: list[str], column: str) -> None:
        """Mark the best cell of a column and those without a significant difference from it."""
        means = {row: cells[row, column]["mean"] for row in ranked if (row, column) in cells}
        if len(means) < 2:
            return
        best, second, *_ = sorted(means, key=means.__getitem__, reverse=self.metric not in LESS)
        cells[best, column]["best"] = cells[second, column]["second"] = 1
        for row, gap, _, p in self.tests(list(means), best, column):
            tied = int(p > self.alpha)
            cells[row, column] |= {"pairs_best": len(gap), "p_best": p, "tied": tied}

    def compare(
        self, cells: dict[Place, dict[str, Any]], ranked: list[str], against: str, column: str
    ) -> None:
        """Compare the other rows with a chosen one on a column, or on all."""
        for row, gap, p, corrected in self.tests(ranked, against, column):
            wins = sum(one < 0 if self.metric in LESS else one > 0 for one in gap)
            facts = {"against": against, "pairs": len(gap), "difference": statistics.mean(gap)}
            facts |= {"wins": wins, "p": p, "p_holm": corrected}
            cells.setdefault((row, column), {}).update(facts)

    def ranking(self, ranked: list[str]) -> Ranking | None:
        """Ranks on the blocks that rows have in common; None if no two rows have any."""
        common = statistics.common_blocks(self.means.reindex(columns=ranked))
        if common.shape[1] < 2:
            return None
        units = common.groupby(level=["column", "unit"], sort=False).agg(statistics.mean)
        ranks = statistics.mean_ranks(units, self.metric in LESS)
        nemenyi = statistics.critical_difference(ranks, len(units), self.alpha)
        return Ranking(ranks, len(units), statistics.friedman(units), *nemenyi)


def _arranged(
    runs: DataFrame,
    by: Sequence[str],
    columns: Sequence[str],
    select: Sequence[str],
    metric: str,
    published: Published | None,
) -> tuple[DataFrame, tuple[str, ...], dict[Place, dict[str, Any]], set[str]]:
    """The runs of the best settings with their row, column and unit; the keys of the rows; the
    chosen settings; the keys in which runs of one cell still differ."""
    default: tuple[str, ...] = ("method", "backbone")
    keys = config_keys(runs)
    free = {key for key in keys if not key.endswith(".split_seed") and not is_volatile(key)}
    if published:
        runs, default = _beside(runs, published), (PAPER,)
    formats = {str(name) for name in runs["dataset.format"]}
    data = {key for key in free if key.split(".")[0] in formats}
    data |= free & {"dataset.name", "dataset.format"}
    by = tuple(by) or default
    if not columns:
        within = set().union(*(_varying(of, data) for _, of in runs.groupby("task")))
        columns = [key for key in ("task", *sorted(within)) if key not in by]
    selected = [key for key in select if key != ALL]
    for option, given in (("--by", by), ("--columns", columns), ("--select", selected)):
        for key in given:
            if key not in (*keys, *NAMED, "seed", *default):
                allowed = ", ".join([*NAMED, *sorted(_varying(runs, free) or free)])
                raise InputError(option, key, f"{allowed}, or another key of the config")
    searched = {*selected, *(free - data if ALL in select else ())} - {*by, *columns}

    runs = runs.assign(row=_labels(runs, by), column=_labels(runs, columns))
    chosen, best, pooled = {}, [], set()
    for place, group in runs.groupby(["row", "column"], sort=False):
        chosen[place], of_best = _choose(group, searched, metric, place)
        best.append(of_best)
        pooled |= _varying(of_best, free)
    runs = pandas.concat(best)
    masked = runs["masked"].map(lambda of: "" if of is None or of != of else str(of))
    several = masked.groupby(runs["column"]).transform("nunique") > 1
    units = masked.where(several & (masked != ""), runs["split"] + " " + runs["seed"].astype(str))
    return runs.assign(unit=units), by, chosen, pooled


def _beside(runs: DataFrame, published: Published) -> DataFrame:
    """The runs with their row and column in the paper's table, or a row of their own."""
    places = {}
    for run in runs.drop_duplicates("digest").to_dict("records"):
        facts = {key: value for key, value in run.items() if value == value}
        row = published.row_of(facts)
        if row is None:
            is_known = any(own["method"] == run["method"] for own in published.rows.values())
            row = _label(("method", "backbone"), run) + " (beyond the paper)" * is_known
        places[run["digest"]] = row, published.column_of(facts) or ""
    rows, columns = zip(*runs["digest"].map(places))
    return runs.assign(**{PAPER: rows, PAPER_COLUMN: columns})


def _varying(runs: DataFrame, keys: Iterable[str]) -> set[str]:
    """Keys with two values; a missing key is no value."""
    apart = runs.drop_duplicates("digest")  # runs of one digest differ in seeds and paths alone
    return {
        key
        for key in keys
        if len({x for x in (runs if is_volatile(key) else apart)[key] if x == x}) > 1
    }


def _numbered(runs: DataFrame, keys: Sequence[str]) -> pandas.Series:
    """A number of each run for its values of some keys, from 0 in the order of the runs."""
    if not keys:
        return pandas.Series(0, runs.index)
    return runs.groupby(list(keys), dropna=False, sort=False).ngroup()


def _labels(runs: DataFrame, keys: Sequence[str]) -> pandas.Series:
    """A label of each run for its values of some keys, as short as labels stay distinct."""
    number = _numbered(runs, keys)
    first = runs[~number.duplicated()].to_dict("records")
    for brief in (True, False):
        labels = [_label(keys, run, brief) for run in first]
        if len(set(labels)) == len(labels):
            break
    else:
        labels = [f"{label} ({place})" for place, label in enumerate(labels, 1)]
    return number.map(dict(zip(number.unique(), labels)))


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
) -> tuple[dict[str, Any], DataFrame]:
    """Of the settings with the most runs, the one with the best mean validation score."""
    varying = sorted(_varying(runs, keys))
    setting = _numbered(runs, varying)
    counts = setting.value_counts()
    full = counts.index[counts == counts.max()].sort_values()
    validation = runs.get(score_column(metric, "val"), pandas.Series(math.nan, runs.index))
    scores = {one: statistics.mean(validation[setting == one]) for one in full}
    if len(full) > 1 and any(map(math.isnan, scores.values())):
        message = (
            f"{' on '.join(place)} has settings that differ in {', '.join(varying)} and "
            f"have no validation score ({metric}) to choose by"
        )
        hint = "Show these keys with --by or --columns, or give --select without keys"
        raise InputError.plain("--select", message, hint)
    best = (min if metric in LESS else max)(scores, key=scores.__getitem__)
    chosen = runs[setting == best]
    values = ((key, chosen[key].iloc[0]) for key in varying)
    text = ", ".join(f"{key}={_text(value if value == value else None)}" for key, value in values)
    facts = {"tried": len(counts), "fewer": len(counts) - len(full)}
    return facts | {"validation": scores[best], "setting": text}, chosen


def _ordered(runs: DataFrame, axis: str, published: Published | None) -> list[str]:
    """Labels of rows or columns: the oracle, those of the paper in its order, others as found."""
    key = PAPER if axis == "row" else PAPER_COLUMN
    entries = list(published.rows if axis == "row" else published.columns) if published else []

    def rank(run: Mapping[str, Any]) -> tuple[bool, float]:
        known = run.get(key) in entries
        is_first = axis == "row" and run["method"] == ORACLE
        return not is_first, entries.index(run[key]) if known else math.inf

    return [run[axis] for run in sorted(runs.drop_duplicates(axis).to_dict("records"), key=rank)]

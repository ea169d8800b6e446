"""Comparison of runs: the numbers of each cell, paired tests and ranks."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from pandas import DataFrame

from graphgym_srnc.errors import InputError
from graphgym_srnc.io import stats
from graphgym_srnc.report import statistics
from graphgym_srnc.report.arrange import (
    ALL,
    DECISIONS,
    LESS,
    PAPER,
    PAPER_COLUMN,
    SHARE,
    Place,
    arrange,
)
from graphgym_srnc.report.frame import COSTS, ORACLE, Collection, score_column
from graphgym_srnc.report.names import method_name
from graphgym_srnc.report.paper import TABLES, Published

CELL = tuple(
    "metric split row column runs failed unfinished unreadable mean std median low high best tied"
    " pairs_best p_best_holm rank validation tried fewer setting keys paper_mean paper_std against"
    " pairs difference difference_low difference_high wins p p_holm".split()
)
"""Columns of :attr:`Table.cells`.

``runs`` to ``high`` describe the scores of a cell: their number, the numbers of runs without a
result, mean, standard deviation, median and interval of the mean. ``best`` marks the
best cells of a column among rows on the same splits, see ``statistics.common_blocks``, but none of
:func:`columns_of_known` and :func:`blind`.
``tied`` marks those without a significant difference from it, where a test on ``pairs_best`` pairs,
at least ``statistics.LEAST_BLOCKS``, with the corrected ``p_best_holm`` could have found one.
``rank`` is the mean rank of the row in its column. ``validation`` to ``keys`` describe the chosen
setting.
``against`` to ``p_holm`` compare the cell with that of the row ``against``; ``difference_low`` and
``difference_high`` are the ends of the interval of the mean difference, without a correction.
"""

# Keys of a block. Tests, intervals and ranks count units, see ``arrange.Arranged``.
AUTO = "auto"
"""The split that :func:`scored_split` chooses."""

BLOCK = ["column", "unit", "split", "seed"]
Cells = dict[Place, dict[str, Any]]  # values of columns of CELL by row and column; none = absent


class Ranking(NamedTuple):
    """Mean ranks over the blocks of one column, which are splits with a seed, or masked sets.

    Splits of several graphs are never blocks of one test, because they are not exchangeable.
    """

    ranks: dict[str, float]  # by row, 1 = best
    blocks: int
    difference: float  # Nemenyi's critical difference; NaN of few blocks


class Lost(NamedTuple):
    """Runs of an experiment without a result."""

    experiment: str
    place: Place | None  # of the other runs; None if the table shows none of them
    kind: str  # see ``frame.Failure``
    seeds: list[int]
    runs: int  # number of all runs of the experiment, finished or not


@dataclass(frozen=True)
class Table:
    """Every number of a comparison."""

    metrics: tuple[str, ...]
    selector: str  # the metric that chose settings
    split: str
    alpha: float
    test: str
    against: str | None  # the row that others are compared with
    intervals: bool  # whether they are wanted
    by: tuple[str, ...]  # keys of the rows
    rows: list[str]  # labels in the order of print
    columns: list[str]
    runs: DataFrame  # runs of the chosen settings, with their row, column and unit
    pooled: set[str]  # keys in which runs of one cell still differ
    left_out: int  # number of runs of the oracle that are left out
    lost: list[Lost]
    published: Published | None  # the paper's table beside ours
    cells: DataFrame  # columns CELL; a line per metric, row and column; NaN = absent
    rankings: dict[tuple[str, str], Ranking]  # by metric and column with two common blocks
    ddof: int = 0  # see ``stats.DEVIATIONS``

    def of(self, metric: str) -> dict[Place, Any]:
        """The cells of a metric by row and column, as named tuples."""
        found = self.cells[self.cells.metric == metric]
        return {(cell.row, cell.column): cell for cell in found.itertuples(index=False)}

    @functools.cached_property
    def oracles(self) -> set[str]:
        """Rows that know the masked classes: neither ranked nor marked."""
        return _rows_of(self.runs, ORACLE)

    def mean_ranks(self, metric: str) -> dict[str, float]:
        """Mean rank, over the columns, of each row that is ranked in all of them.

        There is none unless :func:`has_mean` says so.
        """
        found = [own.ranks for (name, _), own in self.rankings.items() if name == metric]
        rows = [row for row in self.rows if found and all(row in ranks for ranks in found)]
        own = rows if has_mean(self.runs) else ()
        return {row: stats.mean(ranks[row] for ranks in found) for row in own}

    @property
    def chosen(self) -> list[Any]:
        """A cell, as a named tuple, for each row and column with a choice of settings."""
        found = self.cells[self.cells["tried"] > 1].drop_duplicates(["row", "column"])
        return list(found.itertuples(index=False))


def table(
    found: Collection,
    metrics: Sequence[str] = (),
    split: str = AUTO,
    by: Sequence[str] = (),
    columns: Sequence[str] = (),
    select: Sequence[str] = (ALL,),
    against: str | None = None,
    test: str = "wilcoxon",
    paper: str | None = None,
    alpha: float = 0.05,
    intervals: bool = False,
    ddof: int = 0,
) -> Table:
    """Compare the finished runs of a collection.

    A key is one of the config, or ``method``, ``backbone``, ``task``, or, with ``paper``,
    ``paper``: the matching row of the paper's table. Keys of the data are selected over only if
    ``select`` names them. Rows are sorted by the first metric, the best first, after an oracle.

    Args:
        found: result of :func:`graphgym_srnc.report.frame.collect`.
        metrics: scores on that split, or ``COSTS``; default: those of the paper's table, or
            :func:`default_metrics`.
        split: ``test``, ``val`` or ``train``; ``auto`` is ``test``, or ``val`` if all runs are on
            your own graphs and none has a test score.
        by: keys of the rows; default: method and backbone.
        columns: keys of the columns; default: the task, and keys of the data that vary within one.
        select: keys over which the best setting of each cell is chosen, by the mean validation
            score of the first metric that is no cost; ``all``: all keys that vary; none: pool the
            runs of all settings.
        against: the row to compare the others with; a ``train.mode`` for its only row, or its plain
            one, such as GCN for ``erm``; or, with one key of rows, a value of it.
        test: one of ``statistics.TESTS``.
        paper: one of ``paper.TABLES``, to show its numbers beside ours.
        alpha: level of the tests; intervals have the level 1 - alpha.
        intervals: whether to compute an interval for each mean.
        ddof: 0 or 1, the standard deviation of ``stats.DEVIATIONS``.

    Raises:
        InputError: an unknown metric, key or row; no pairs with the chosen row; settings without
            validation scores; a level or a deviation that is none.
    """
    _check_level(alpha, ddof)
    split = scored_split(found.runs, split)
    published = TABLES.get(paper or "")
    metrics = _metrics(metrics, found.runs, split, published)
    selector = next((metric for metric in metrics if metric not in COSTS), "micro_f1")
    arranged = arrange(found.runs, by, columns, select, selector, published)
    runs = arranged.runs
    scores = {metric: _Scores(runs, metric, split, test, alpha) for metric in metrics}
    oracles = _rows_of(runs, ORACLE)
    rows = _sorted_rows(scores[metrics[0]], runs, oracles)
    against = _row_of(against, rows, runs)
    ranked = [row for row in rows if row not in oracles]
    places = [*itertools.product(rows, runs["column"].unique())]
    lost = _lost(found, runs)
    lines = []
    rankings: dict[tuple[str, str], Ranking] = {}
    for metric, own in scores.items():
        cells = {place: dict(arranged.chosen.get(place, {})) for place in places}
        own.describe(cells, intervals, ddof)
        _count_lost(cells, lost)
        rivals = _rivals(ranked, runs, metric, split)
        own.mark(cells, rivals)
        rankings |= own.rank(cells, rivals)
        if against is not None:
            own.compare(cells, ranked, against)
        if published and split == "test":
            _add_published(cells, runs, published, metric)
        lines += [dict(zip(CELL, (metric, split, *place))) | cells[place] for place in places]
    frame = DataFrame(lines, columns=list(CELL), dtype=object)
    _check_pairs(frame, against)
    return Table(
        metrics=metrics,
        selector=selector,
        split=split,
        alpha=alpha,
        test=test,
        against=against,
        intervals=intervals,
        by=arranged.by,
        rows=rows,
        columns=[*runs["column"].unique()],
        runs=runs,
        pooled=arranged.pooled,
        left_out=arranged.left_out,
        lost=lost,
        published=published,
        cells=frame,
        rankings=rankings,
        ddof=ddof,
    )


def _check_level(alpha: float, ddof: int) -> None:
    """Refuse a level and a deviation that are none."""
    if ddof not in (0, 1):
        raise InputError("ddof", ddof, "0 or 1")
    if not 0 < alpha < 1:
        raise InputError("alpha", alpha, "more than 0, less than 1")


def scored_split(runs: DataFrame, split: str = AUTO) -> str:
    """A split, if one is given, else ``val`` for runs on own graphs without test scores."""
    if split != AUTO:
        return split
    is_tested = "test_micro_f1" in runs and runs["test_micro_f1"].notna().any()
    is_own = runs["dataset.format"].eq("file").all()
    return "val" if is_own and not is_tested else "test"


def _metrics(
    given: Sequence[str], runs: DataFrame, split: str, published: Published | None
) -> tuple[str, ...]:
    """The given or the default metrics, each of which some run has on the split."""
    usual = published.metrics if published else default_metrics(runs, split)
    metrics = tuple(dict.fromkeys(given or usual))
    known = [name for name in runs.dropna(axis=1, how="all") if name in COSTS]
    known += [name.removeprefix(f"{split}_") for name in runs if name.startswith(f"{split}_")]
    for metric in metrics:
        if metric not in known:
            allowed = f"{', '.join(sorted(known))} on {split} nodes"
            raise InputError(
                "metrics", metric, allowed, code="test_metric" if split == "test" else ""
            )
    return metrics


def _row_of(name: str | None, rows: Sequence[str], runs: DataFrame) -> str | None:
    """The row that a user means by its label or its method."""
    if name is None or name in rows:
        return name
    found = _rows_of(runs, name)
    found = found & {method_name(name, "gcnconv")} or found  # the plain row of several
    if len(found) != 1:
        raise InputError("against", name, " | ".join(sorted(found) or rows))
    return found.pop()


def _check_pairs(cells: DataFrame, against: str | None) -> None:
    """Refuse a row to compare with, if there is one, that has pairs with no other row."""
    if against is not None and cells["p"].isna().all():
        raise InputError.plain(
            "against",
            f"{against} shares fewer than 2 splits with every other row",
            "Choose another row; only runs with the same split and seed form a pair",
        )


def _rivals(
    ranked: Sequence[str], runs: DataFrame, metric: str, split: str
) -> dict[str, list[str]]:
    """The rows that compete on each column.

    A row does not where its runs recognise no unknown node, nor on the columns of
    :func:`columns_of_known`. Nothing competes by the share of predictions.
    """
    unfair = blind(runs, split) if metric in DECISIONS else set()
    no_contest = () if metric in COSTS else columns_of_known(runs)
    rivals = {}
    for column in runs["column"].unique():
        is_open = metric != SHARE and column not in no_contest
        rivals[column] = [row for row in ranked if is_open and (row, column) not in unfair]
    return rivals


def default_metrics(runs: DataFrame, split: str) -> list[str]:
    """Micro-F1, and beside it what it hides of unknown classes.

    That is HS, or the recall of unknown nodes in runs without it. Runs without an unknown node have
    the share of nodes predicted as unknown, and first, on your own graphs, the accuracy before any
    node is predicted as unknown: thresholds of methods differ.
    """
    scored = runs.dropna(axis=1, how="all").columns
    beside = [name for name in ("hs", "unknown_recall") if f"{split}_{name}" in scored]
    shares = [name for name in (SHARE,) if f"{split}_{name}" in scored]
    names = ("closed_accuracy", "known_accuracy")
    is_own = runs["dataset.format"].eq("file").all()
    if is_own and not beside and all(f"{split}_{name}" in scored for name in names):
        return ["closed_accuracy", "micro_f1", *shares]
    return ["micro_f1", *beside[:1], *shares]


def blind(runs: DataFrame, split: str) -> set[Place]:
    """The cells whose runs recognise no node of an unknown class."""
    score = f"{split}_unknown_recall"
    recall = runs.reindex(columns=["row", "column", score])
    most = recall.groupby(["row", "column"], sort=False)[score].max()
    return {*most.index[most == 0]}


def _lost(found: Collection, runs: DataFrame) -> list[Lost]:
    """The runs without a result."""
    out = []
    for one in found.experiments:
        if not one.failures:
            continue
        own = runs.loc[runs["experiment"] == one.name, ["row", "column"]].drop_duplicates()
        place = tuple(own.iloc[0]) if len(own) == 1 else None
        kinds: dict[str, list[int]] = {}
        for name, failure in one.failures.items():
            if name.isdecimal():
                kinds.setdefault(failure.kind, []).append(int(name))
        total = len(one.seeds) + len(one.failures)
        out += [Lost(one.name, place, kind, sorted(of), total) for kind, of in kinds.items()]
    return out


def _count_lost(cells: Cells, lost: Iterable[Lost]) -> None:
    """Add the numbers of runs without a result to their cells."""
    for one in lost:
        if one.place and "runs" in cells[one.place]:
            cells[one.place][one.kind] += len(one.seeds)


def has_mean(runs: DataFrame) -> bool:
    """Whether columns have a mean, of scores and of ranks.

    They do not if kinds of shift differ, only some runs have masked classes, or columns are own
    graphs, whose labels are of different classes.
    """
    is_masked = runs["masked"].notna()
    is_own = runs["dataset.format"].eq("file") & ~is_masked
    same = runs["dataset.format"].nunique() == is_masked.nunique() == 1
    return same and not (is_own.any() and runs["column"].nunique() > 1)


def columns_of_known(runs: DataFrame) -> list[str]:
    """The columns whose runs have an unknown class, but no test node of it."""
    scores = runs.reindex(columns=["test_known_accuracy", "test_unknown_recall"]).notna()
    is_of_known = scores["test_known_accuracy"] & ~scores["test_unknown_recall"]
    found = is_of_known.groupby(runs["column"]).all()
    return [*found.index[found]]


def _rows_of(runs: DataFrame, method: str) -> set[str]:
    """The rows that contain only runs of a method."""
    return {row for row, of in runs.groupby("row")["method"] if set(of) == {method}}


def _sorted_rows(scores: _Scores, runs: DataFrame, oracles: set[str]) -> list[str]:
    """Labels of the rows: oracles, then others from the best to the worst."""
    # Columns differ in difficulty, so a row is judged by its distance to the mean of each column.
    means = scores.means.groupby(level="column").mean()
    heights = means.sub(means.mean(axis=1), axis=0).mean() * (1 if scores.metric in LESS else -1)
    heights = heights.round(statistics.DECIMALS)  # ties are sorted by name
    rows = runs["row"].unique()
    return sorted(rows, key=lambda row: (row not in oracles, heights.get(row, math.inf), row))


def _add_published(cells: Cells, runs: DataFrame, published: Published, metric: str) -> None:
    """Add the paper's number where all runs of a cell stand beside the same one."""
    for place, beside in runs.groupby(["row", "column"])[[PAPER, PAPER_COLUMN]]:
        found = beside.drop_duplicates().to_numpy().tolist()
        score = published.find(*found[0]).get(metric) if len(found) == 1 else None
        for key, value in score._asdict().items() if score else ():
            if value is not None:
                cells[place][f"paper_{key}"] = round(value / 100, 6)


class _Scores:
    """The scores of one metric: ``means`` has a column per row and a line per block."""

    def __init__(self, runs: DataFrame, metric: str, split: str, test: str, alpha: float) -> None:
        self.metric = metric
        self.test = test
        self.alpha = alpha
        score = score_column(metric, split)
        runs = runs.dropna(subset=[score])
        self.runs = runs.assign(score=runs[score].astype(float))
        means = self.runs.groupby([*BLOCK, "row"], sort=False)["score"].agg(stats.mean)
        blocks = means.index.droplevel("row").drop_duplicates()
        self.means = means.unstack("row").reindex(blocks)

    def describe(self, cells: Cells, intervals: bool, ddof: int) -> None:
        """Add the numbers that depend on no other cell."""
        for place, own in self.runs.groupby(["row", "column"])["score"]:
            mean, std = stats.mean_std(own.tolist(), ddof)
            cells[place] |= dict.fromkeys(("failed", "unfinished", "unreadable", "best", "tied"), 0)
            cells[place] |= {"runs": len(own), "mean": mean, "std": std, "median": own.median()}
        for row, own in self.means.items() if intervals else ():
            units = own.dropna().groupby(level=["column", "unit"], sort=False).agg(stats.mean)
            for column, values in units.groupby(level="column"):
                ends = statistics.interval(values.tolist(), 1 - self.alpha)
                cells[row, column] |= dict(zip(("low", "high"), ends))

    def tests(
        self, ranked: Sequence[str], against: str, column: str
    ) -> Iterable[tuple[str, list[float], float, float]]:
        """Each row but one, with its differences to that per unit, p, and Holm's corrected p."""
        scores = self.on(column, [*ranked, against])
        gaps = {row: statistics.gaps(scores, row, against) for row in ranked if row != against}
        p = [statistics.p_value(gap, self.test) for gap in gaps.values()]
        return zip(gaps, gaps.values(), p, statistics.holm(p))

    def mark(self, cells: Cells, rivals: Mapping[str, Sequence[str]]) -> None:
        """Mark the best cell of each column and those without a significant difference from it.

        Args:
            cells: what :meth:`describe` has made.
            rivals: rows that compete, by column.
        """
        for column, rows in rivals.items():
            scored = [row for row in rows if "mean" in cells[row, column]]
            # The mean of a row on fewer or other splits may be higher because they are easier.
            common = statistics.common_blocks(self.on(column, scored))
            fair = {row: cells[row, column]["mean"] for row in common}
            if len(fair) < 2:
                continue
            best = (min if self.metric in LESS else max)(fair, key=fair.__getitem__)
            for row, mean in fair.items():
                cells[row, column]["best"] = int(round(mean - fair[best], statistics.DECIMALS) == 0)
            found = list(self.tests(scored, best, column))
            family = sum(p == p for _, _, p, _ in found)
            needed = statistics.least_pairs(family, self.test, self.alpha)
            for row, gap, _, p in found:
                is_testable = len(gap) >= max(needed, statistics.LEAST_BLOCKS)
                tied = int(is_testable and p > self.alpha)
                cells[row, column] |= {"pairs_best": len(gap), "p_best_holm": p, "tied": tied}

    def compare(self, cells: Cells, ranked: Sequence[str], against: str) -> None:
        """Compare the other rows with a chosen one on each column."""
        for column in {column: None for _, column in cells}:
            for row, gap, p, corrected in self.tests(ranked, against, column):
                wins = sum(one < 0 if self.metric in LESS else one > 0 for one in gap)
                ends = statistics.interval(gap, 1 - self.alpha)
                facts = against, len(gap), stats.mean(gap), *ends, wins, p, corrected
                cells[row, column] |= dict(zip(CELL[CELL.index("against") :], facts))

    def on(self, column: str, rows: Sequence[str]) -> DataFrame:
        """``means`` on a column, of these rows."""
        own = self.means[self.means.index.get_level_values("column") == column]
        return own.reindex(columns=list(dict.fromkeys(rows)))

    def rank(
        self, cells: Cells, rivals: Mapping[str, Sequence[str]]
    ) -> dict[tuple[str, str], Ranking]:
        """Add the ranks on the common blocks of each column on which two rows have two of them."""
        rankings = {}
        for column, rows in rivals.items():
            common = statistics.common_blocks(self.on(column, rows))
            units = common.groupby(level="unit", sort=False).agg(stats.mean)
            if min(units.shape) < 2:
                continue
            ranks = statistics.mean_ranks(units, self.metric in LESS)
            for row, rank in ranks.items():
                cells[row, column]["rank"] = rank
            difference = math.nan
            if len(units) >= statistics.LEAST_BLOCKS:
                difference = statistics.critical_difference(len(ranks), len(units), self.alpha)
            rankings[self.metric, column] = Ranking(ranks, len(units), difference)
        return rankings

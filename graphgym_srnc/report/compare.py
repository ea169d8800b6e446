"""Runs of many experiments as one table: spread, paired tests, ranks, the paper's numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Hashable, Mapping, Sequence

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import store
from graphgym_srnc.report import statistics
from graphgym_srnc.report.layout import ALL, LESS, ORACLE, Layout, Place, Setting, arrange
from graphgym_srnc.report.paper import TABLES, Published, Score, data_name
from graphgym_srnc.report.read import COSTS, Pair, Run

POOLED = "all columns"
"""Stands for a column where the pairs of all of them are tested at once."""


@dataclass(frozen=True)
class Cell:
    """The runs of one setting of a row on a column, by one metric, as fractions."""

    values: dict[Pair, float]  # mean score on each split and seed
    units: dict[Pair, Hashable]  # what each of them belongs to, see statistics.paired
    runs: int  # how many scores there are
    mean: float
    std: float  # of the population
    median: float
    interval: tuple[float, float] | None = None  # of the mean, by bootstrap, if asked for
    paper: Score | None = None  # what the paper has here
    best: bool = False  # of its column
    second: bool = False  # by the mean
    pairs: int = 0  # units in common with the best one: splits and seeds, or masked sets
    p: float = math.nan  # of the test on them, Holm-corrected; NaN for the best and where pairs < 2
    tied: bool = False  # whether that p is above alpha

    @property
    def mark(self) -> str:
        """``best``, ``tied`` or nothing."""
        return "best" if self.best else "tied" if self.tied else ""


@dataclass(frozen=True)
class Comparison:
    """A row less the chosen one, on the splits and seeds that both have."""

    pairs: int  # how many units these are
    difference: float  # mean over them, as a fraction
    wins: int  # on how many the row is the better one
    p: float  # of the paired test
    holm: float = math.nan  # p corrected over the rows of the column


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over blocks, which are splits with a seed, or masked sets, on a column."""

    ranks: dict[str, float]  # by row, 1 = best
    blocks: int
    friedman: float  # p of Friedman's test over them
    difference: float  # Nemenyi's critical difference
    cliques: list[list[str]]  # rows that it cannot tell apart


@dataclass(frozen=True)
class Table:
    """Every number of a comparison."""

    metrics: tuple[str, ...]
    split: str
    alpha: float
    test: str
    against: str | None  # the row that others are compared with
    selector: str  # the metric by which settings were chosen
    layout: Layout  # rows and columns with their runs
    rows: list[str]  # labels in the order of print
    columns: list[str]
    settings: dict[Place, Setting]  # the chosen ones, by row and column
    published: Published | None  # the paper's table beside ours
    oracles: set[str]  # rows that see the masked classes: neither ranked nor marked
    cells: dict[tuple[str, str, str], Cell]  # by metric, row and column, where there are runs
    rankings: dict[str, Ranking]  # by metric, where two rows have a block in common
    comparisons: dict[tuple[str, str, str], Comparison]  # by metric, row and column, or POOLED

    @property
    def cautions(self) -> list[str]:
        """What must be said of our data beside the paper's table."""
        names = {data_name(run.facts) for runs in self.layout.runs.values() for run in runs}
        cautions = self.published.cautions if self.published else {}
        return [text for name, text in cautions.items() if name in names]


def table(
    runs: Sequence[Run],
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
    ``paper``: the row of the paper's table that the run stands beside. Keys of the data are never
    selected over unless ``select`` names them.

    Args:
        runs: at least one.
        metrics: any that some run has on that split, or one of ``COSTS``; default: the paper
            table's, else Micro-F1.
        split: ``test``, ``val`` or ``train``.
        by: keys of the rows; default: method and backbone.
        columns: keys of the columns; default: the task, and what varies in the data of a task.
        select: keys over which the best setting of each row and column is chosen, by the mean
            validation score of the first metric that is no cost; ``all``: all that vary; none: runs
            of all settings are pooled.
        against: the row that the others are compared with, or the ``train.mode`` of one.
        test: one of ``statistics.TESTS``.
        paper: one of ``paper.TABLES``, to put its numbers beside ours.
        alpha: level of the tests; intervals have a level of 1 - alpha.
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
    present = set().union(*(run.scores[split] for run in runs))
    for metric in metrics:
        if metric not in present:
            raise InputError("--metric", metric, f"{', '.join(sorted(present))} on {split} nodes")
    selector = next((metric for metric in metrics if metric not in COSTS), "micro_f1")
    layout = arrange(runs, by, columns, select, selector, published)
    oracles = {
        row
        for row in layout.rows
        if all(run.facts["method"] == ORACLE for run in layout.of_row(row))
    }
    ranked = [row for row in layout.rows if row not in oracles]
    against = _row(against, layout)

    confidence = 1 - alpha if intervals else None
    units = {
        column: _units(
            [run for place, group in layout.runs.items() if place[1] == column for run in group]
        )
        for column in layout.columns
    }
    cells = {
        (metric, *place): cell
        for metric in metrics
        for place, group in layout.runs.items()
        if (cell := _cell(group, metric, split, units[place[1]], confidence, published))
    }
    for metric, column in itertools.product(metrics, layout.columns):
        rivals = {
            row: cells[metric, row, column] for row in ranked if (metric, row, column) in cells
        }
        cells |= {
            (metric, row, column): cell
            for row, cell in _marked(rivals, metric in LESS, test, alpha).items()
        }

    blocks = {
        (column, *pair): (column, unit)
        for column, own in units.items()
        for pair, unit in own.items()
    }
    rankings, comparisons = {}, {}
    for metric in metrics:
        scores = {row: _blocks(cells, metric, row, layout.columns) for row in layout.rows}
        ranking = _ranking({row: scores[row] for row in ranked}, blocks, metric in LESS, alpha)
        rankings |= {metric: ranking} if ranking else {}
        if against is not None:
            ours = scores.pop(against)
            rivals = {row: scores[row] for row in ranked if row != against}
            comparisons |= _comparisons(metric, ours, rivals, blocks, layout.columns, test)
    if against is not None and all(math.isnan(one.p) for one in comparisons.values()):
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
        layout,
        layout.rows,
        layout.columns,
        layout.settings,
        published,
        oracles,
        cells,
        rankings,
        comparisons,
    )


def _looked_up(option: str, name: str, allowed: Mapping[str, Any]) -> Any:
    if name not in allowed:
        raise InputError(option, name, ", ".join(allowed))
    return allowed[name]


def _row(against: str | None, layout: Layout) -> str | None:
    """The row of a name, which may be the method of one row alone."""
    if against is None or against in layout.rows:
        return against
    found = [
        row
        for row in layout.rows
        if {run.facts["method"] for run in layout.of_row(row)} == {against}
    ]
    if len(found) != 1:
        message = f"{against!r} is not the name of exactly one row"
        raise InputError.plain("--against", message, f"The rows are {' | '.join(layout.rows)}")
    return found[0]


def _units(runs: Sequence[Run]) -> dict[Pair, Hashable]:
    """What tests count once, by pair: the pair, or the masked set where runs differ in that."""
    several = len({run.masked for run in runs}) > 1
    return {run.pair: run.masked if several and run.masked else run.pair for run in runs}


def _cell(
    runs: Sequence[Run],
    metric: str,
    split: str,
    units: dict[Pair, Hashable],
    confidence: float | None,
    published: Published | None,
) -> Cell | None:
    """The scores of runs; None where no run has the metric."""
    pairs: dict[Pair, list[float]] = {}
    for run in runs:
        if metric in run.scores[split]:
            pairs.setdefault(run.pair, []).append(run.scores[split][metric])
    values = [run.scores[split][metric] for run in runs if metric in run.scores[split]]
    if not values:
        return None
    paper = None
    if published and split == "test":
        beside = {(published.row_of(run.facts), published.column_of(run.facts)) for run in runs}
        paper = published.find(*beside.pop()).get(metric) if len(beside) == 1 else None
    means = {pair: statistics.mean(scores) for pair, scores in pairs.items()}
    units = {pair: units[pair] for pair in means}
    independent = statistics.by_unit(means, units)
    interval = statistics.bootstrap_interval(independent, confidence) if confidence else None
    return Cell(
        means, units, len(values), *statistics.mean_std(values), median(values), interval, paper
    )


def _marked(cells: Mapping[str, Cell], less: bool, test: str, alpha: float) -> dict[str, Cell]:
    """The cells of a column with the best one and those that are not told apart from it marked."""
    if len(cells) < 2:
        return dict(cells)
    best = (min if less else max)(cells, key=lambda row: cells[row].mean)
    gaps = {
        row: statistics.paired(cells[best].values, cell.values, cell.units)
        for row, cell in cells.items()
        if row != best
    }
    p = statistics.holm([statistics.p_value(values, test) for values in gaps.values()])
    marked = {
        row: replace(cells[row], pairs=len(values), p=value, tied=value > alpha)
        for (row, values), value in zip(gaps.items(), p)
    }
    rest = {row: cell for row, cell in cells.items() if row != best}
    second = (min if less else max)(rest, key=lambda row: rest[row].mean)
    marked[second] = replace(marked[second], second=True)
    return {best: replace(cells[best], best=True)} | marked


def _blocks(
    cells: Mapping[tuple[str, str, str], Cell], metric: str, row: str, columns: Sequence[str]
) -> dict[Hashable, float]:
    """The scores of a row on all columns, by column, split and seed."""
    return {
        (column, *pair): value
        for column in columns
        if (metric, row, column) in cells
        for pair, value in cells[metric, row, column].values.items()
    }


def _ranking(
    scores: Mapping[str, Mapping[Hashable, float]],
    units: Mapping[Hashable, Hashable],
    less: bool,
    alpha: float,
) -> Ranking | None:
    """Ranks on the blocks that rows have in common; None where no two rows have any."""
    rows, common = statistics.common_blocks({row: own for row, own in scores.items() if own})
    if len(rows) < 2:
        return None
    blocks = list(dict.fromkeys(units[pair] for pair in common))
    scores = {
        row: dict(
            zip(blocks, statistics.by_unit({pair: scores[row][pair] for pair in common}, units))
        )
        for row in rows
    }
    ranks = statistics.mean_ranks(scores, blocks, less)
    return Ranking(
        ranks,
        len(blocks),
        statistics.friedman(scores, blocks),
        *statistics.critical_difference(ranks, len(blocks), alpha),
    )


def _comparisons(
    metric: str,
    chosen: Mapping[Hashable, float],
    others: Mapping[str, Mapping[Hashable, float]],
    units: Mapping[Hashable, Hashable],
    columns: Sequence[str],
    test: str,
) -> dict[tuple[str, str, str], Comparison]:
    """Each of the others less the chosen row, in each column and over all of them."""
    found = {}
    for name in [*columns, *[POOLED] * (len(columns) > 1)]:
        ours = {block: score for block, score in chosen.items() if name in (block[0], POOLED)}
        tested = {}
        for row, theirs in others.items():
            gaps = statistics.paired(theirs, ours, units)
            wins = sum(gap < 0 if metric in LESS else gap > 0 for gap in gaps)
            p = statistics.p_value(gaps, test)
            tested[row] = Comparison(len(gaps), statistics.mean(gaps), wins, p)
        corrected = statistics.holm([one.p for one in tested.values()])
        found |= {
            (metric, row, name): replace(one, holm=p)
            for (row, one), p in zip(tested.items(), corrected)
        }
    return found

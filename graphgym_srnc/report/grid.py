"""A comparison as tables of text, which every format prints: names of metrics, figures, marks."""

from __future__ import annotations

import math
from typing import Callable, NamedTuple, Sequence

from graphgym_srnc.report.compare import POOLED, Cell, Table
from graphgym_srnc.report.paper import Score
from graphgym_srnc.report.read import COSTS
from graphgym_srnc.report.statistics import mean
from graphgym_srnc.report.table import HEADS

NAMES = HEADS | {
    "unknown_aupr": "unknown AUPR",
    "unknown_fpr95": "unknown FPR95",
    "hs": "HS",
    "known_accuracy": "known accuracy",
    "known_recall": "known recall",
    "oscr": "OSCR",
    "acc": "ACC",
    "nmi": "NMI",
    "peak_memory_mib": "peak MiB",
    "params": "parameters",
}
"""Metrics as they are printed."""

ABSENT = "-"


class Box(NamedTuple):
    """What stands in a cell."""

    text: str
    small: str = ""  # what stands below it in small letters
    mark: str = ""  # best of its column, tied with the best, better, worse or nothing
    second: bool = False  # whether it is the second best of its column


class Grid(NamedTuple):
    """A table; the first box of a row is its head."""

    title: str
    head: list[str]
    rows: list[list[Box]]


class Column(NamedTuple):
    """A column of means: the data that it is of, its own head, and a box a row."""

    group: str
    head: str
    boxes: list[Box]


def name(metric: str) -> str:
    """A metric as it is printed."""
    return NAMES.get(metric, metric)


def title(table: Table, metric: str) -> str:
    """A metric with its split and unit."""
    return name(metric) if metric in COSTS else f"{name(metric)} on {table.split}, %"


def row_head(table: Table) -> str:
    """What tells the rows apart."""
    by = table.layout.by
    return "method" if by[0] in ("method", "paper", "train.mode") else ", ".join(by)


def figure(metric: str, value: float, form: str = ".1f") -> str:
    """A score in %, or a cost as it is."""
    return ABSENT if math.isnan(value) else format(value if metric in COSTS else 100 * value, form)


def spread(metric: str, cell: Cell) -> str:
    """Mean ± standard deviation; one run has none."""
    std = f" ± {figure(metric, cell.std)}" if cell.runs > 1 else ""
    return f"{figure(metric, cell.mean)}{std}"


def interval(metric: str, cell: Cell) -> str:
    """The ends of the interval of a mean, where there are several runs."""
    ends = cell.interval if cell.interval and cell.runs > 1 else ()
    return " to ".join(figure(metric, end) for end in ends)


def published(score: Score) -> str:
    """A score of the paper, which is in % and may lack its deviation."""
    return " ± ".join(str(value) for value in score if value is not None)


def mean_columns(table: Table, metrics: Sequence[str]) -> list[Column]:
    """Ours and the paper's means by data set; with several, their mean; the mean rank."""
    columns = []
    cells = {
        (metric, column): [table.cells.get((metric, row, column)) for row in table.rows]
        for column in table.columns
        for metric in metrics
    }
    for (metric, column), own in cells.items():
        ours = [
            Box(spread(metric, cell), mark=cell.mark, second=cell.second) if cell else Box(ABSENT)
            for cell in own
        ]
        columns.append(Column(column, name(metric), ours))
        if any(cell and cell.paper for cell in own):
            theirs = [Box(published(cell.paper) if cell and cell.paper else ABSENT) for cell in own]
            columns.append(Column(column, "paper", theirs))
    for metric in metrics if len(table.columns) > 1 else ():
        every = zip(*(cells[metric, column] for column in table.columns))
        means = [
            figure(metric, mean(cell.mean for cell in own)) if all(own) else ABSENT for own in every
        ]
        columns.append(Column("mean", name(metric), list(map(Box, means))))
    for metric in metrics:
        if metric in table.rankings:
            columns.append(
                Column("rank", name(metric), [Box(rank(table, metric, row)) for row in table.rows])
            )
    return columns


def rank(table: Table, metric: str, row: str) -> str:
    """The mean rank of a row."""
    ranks = table.rankings[metric].ranks
    return f"{ranks[row]:.1f}" if row in ranks else ABSENT


def grids(table: Table) -> list[Grid]:
    """For each metric its means, its medians and, on demand, its intervals and differences."""
    return [grid for metric in table.metrics for grid in _grids(table, metric)]


def _grids(table: Table, metric: str) -> list[Grid]:
    def median(row: str, column: str) -> str:
        cell = table.cells.get((metric, row, column))
        return f"{figure(metric, cell.median)} ({cell.runs})" if cell else ABSENT

    def ends(row: str, column: str) -> str:
        cell = table.cells.get((metric, row, column))
        return cell and interval(metric, cell) or ABSENT

    def difference(row: str, column: str) -> str:
        one = table.comparisons.get((metric, row, column))
        if one is None or one.pairs < 2:
            return ABSENT
        return f"{figure(metric, one.difference, '+.1f')} ({one.holm:.2g}), n {one.pairs}"

    def grid(
        what: str,
        text: Callable[[str, str], str],
        rows: Sequence[str] = table.rows,
        last: Sequence[str] = (),
    ) -> Grid:
        columns = [*table.columns, *last]
        boxes = [[Box(row), *(Box(text(row, column)) for column in columns)] for row in rows]
        return Grid(f"{title(table, metric)}, {what}", [row_head(table), *columns], boxes)

    columns = mean_columns(table, [metric])
    heads = [column.group if column.head == name(metric) else column.head for column in columns]
    by_row = zip(table.rows, *(column.boxes for column in columns))
    rows = [[Box(row), *boxes] for row, *boxes in by_row]
    out = [
        Grid(f"{title(table, metric)}, mean ± std", [row_head(table), *heads], rows),
        grid("median (runs)", median),
    ]
    if any(cell.interval for cell in table.cells.values()):
        out.append(grid(f"{100 * (1 - table.alpha):g} % bootstrap interval of the mean", ends))
    if table.against is not None:
        tested = [row for row in table.rows if (metric, row, table.columns[0]) in table.comparisons]
        out.append(
            grid(
                f"difference to {table.against} (p), n pairs",
                difference,
                tested,
                [POOLED] * (len(table.columns) > 1),
            )
        )
    return out

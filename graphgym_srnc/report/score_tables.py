"""The tables of a page that show a comparison: means, settings, tests, the paper's numbers."""

from __future__ import annotations

from graphgym_srnc.report.compare import POOLED, Cell, Comparison, Table
from graphgym_srnc.report.grid import (
    ABSENT,
    Box,
    Grid,
    figure,
    interval,
    published,
    rank,
    row_head,
    spread,
    title,
)
from graphgym_srnc.report.layout import LESS


def means(table: Table, metric: str) -> Grid:
    """Mean and spread with interval and number of runs, and the mean rank."""
    ranked, rows = metric in table.rankings, []
    for row in table.rows:
        cells = [table.cells.get((metric, row, column)) for column in table.columns]
        ranks = [Box(rank(table, metric, row))] if ranked else []
        if any(cells):
            rows.append([Box(row), *map(_mean, [metric] * len(cells), cells), *ranks])
    head = [row_head(table), *table.columns, *["mean rank"] * ranked]
    return Grid(title(table, metric), head, rows)


def _mean(metric: str, cell: Cell | None) -> Box:
    if cell is None:
        return Box(ABSENT)
    ends = interval(metric, cell)
    return Box(
        spread(metric, cell), f"{ends}, n {cell.runs}" if ends else f"n {cell.runs}", cell.mark
    )


def settings(table: Table) -> Grid:
    """The setting of each cell for which there was a choice."""
    rows = []
    for (row, column), setting in table.settings.items():
        if setting.tried > 1:
            fewer = f" ({setting.fewer} with fewer runs left out)" if setting.fewer else ""
            validation = figure(table.metrics[0], setting.validation)
            rows.append(
                list(map(Box, (row, column, f"{setting.tried}{fewer}", validation, str(setting))))
            )
    return Grid("", [row_head(table), "data", "settings tried", "validation", "chosen"], rows)


def tests(table: Table, metric: str) -> Grid:
    """Difference of each row to the chosen one, with p and how often it was the better one."""
    columns, rows = [*table.columns, *[POOLED] * (len(table.columns) > 1)], []
    for row in table.rows:
        found = [table.comparisons.get((metric, row, column)) for column in columns]
        if any(found):
            rows.append([Box(row), *(_difference(metric, one, table.alpha) for one in found)])
    caption = f"{title(table, metric)}: difference to {table.against}"
    return Grid(caption, [row_head(table), *columns], rows)


def _difference(metric: str, one: Comparison | None, alpha: float) -> Box:
    if one is None or one.pairs < 2:
        return Box(ABSENT)
    better = (one.difference > 0) != (metric in LESS)
    mark = ("better" if better else "worse") if one.holm <= alpha else ""
    return Box(
        figure(metric, one.difference, "+.1f"),
        f"p = {one.holm:.2g}, better in {one.wins} of {one.pairs}",
        mark,
    )


def beside_paper(table: Table, metric: str) -> Grid:
    """Ours, the paper's and the difference, in the columns that the paper has."""
    cells = {
        place[1:]: cell for place, cell in table.cells.items() if place[0] == metric and cell.paper
    }
    columns = [column for column in table.columns if any(place[1] == column for place in cells)]
    rows = []
    for row in table.rows:
        found = [cells.get((row, column)) for column in columns]
        if any(found):
            rows.append([Box(row), *(box for cell in found for box in _beside(metric, cell))])
    heads = [head for column in columns for head in (f"{column}, here", "paper", "difference")]
    return Grid(title(table, metric), [row_head(table), *heads], rows)


def _beside(metric: str, cell: Cell | None) -> list[Box]:
    if cell is None:
        return [Box(ABSENT)] * 3
    difference = f"{100 * cell.mean - cell.paper.mean:+.1f}"
    return [Box(spread(metric, cell)), Box(published(cell.paper)), Box(difference)]

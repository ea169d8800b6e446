"""Tables of a comparison, and the remarks below them."""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable, NamedTuple, Sequence

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.report.compare import LESS, POOLED, Ranking, Table
from graphgym_srnc.report.frame import COSTS
from graphgym_srnc.report.statistics import TESTS, mean

METRICS = {
    "micro_f1": "Micro-F1",
    "macro_f1": "Macro-F1",
    "macro_recall": "macro recall",
    "unknown_recall": "unknown recall",
    "unknown_precision": "unknown precision",
    "unknown_auroc": "unknown AUROC",
    "unknown_aupr": "unknown AUPR",
    "unknown_fpr95": "unknown FPR95",
    "known_accuracy": "known accuracy",
    "known_recall": "known recall",
    "hs": "HS",
    "oscr": "OSCR",
    "seconds": "seconds",
    "peak_memory_mib": "peak MiB",
    "params": "parameters",
    "acc": "ACC",
    "nmi": "NMI",
}
"""Metrics and their printed names, in the order of print."""

ABSENT = "-"

SIGNS = {"best": "*", "tied": "°"}
"""Marks of a cell in plain text."""


class Box(NamedTuple):
    """Content of a cell."""

    text: str
    small: str = ""  # what is printed below it in small letters
    mark: str = ""  # best of its column, tied with the best, better, worse or nothing
    second: bool = False  # whether it is the second best of its column


class Grid(NamedTuple):
    """A table. The first box of a row is its head; ``groups`` names what each column belongs to."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Box]]
    groups: Sequence[str] = ()
    right: bool = False  # whether all columns but the first are aligned on the right


def boxes(*texts: Any) -> list[Box]:
    """A row of plain cells."""
    return [Box(str(text)) for text in texts]


def name(metric: str) -> str:
    """Printed name of a metric."""
    return METRICS.get(metric, metric)


def title(table: Table, metric: str) -> str:
    """A metric with its split and unit."""
    return name(metric) if metric in COSTS else f"{name(metric)} on {table.split}, %"


def row_head(table: Table) -> str:
    """Head of the column of row labels."""
    return "method" if table.by[0] in ("method", "paper", "train.mode") else ", ".join(table.by)


def figure(metric: str, value: float, form: str = ".1f") -> str:
    """A score in %, or a cost as it is."""
    return ABSENT if math.isnan(value) else format(value if metric in COSTS else 100 * value, form)


def spread(metric: str, cell: Any) -> str:
    """Mean ± standard deviation; a single run has none."""
    std = f" ± {figure(metric, cell.std)}" if cell.runs > 1 else ""
    return f"{figure(metric, cell.mean)}{std}"


def interval(metric: str, cell: Any) -> str:
    """Both ends of the interval of a mean; empty without one."""
    ends = "" if math.isnan(cell.low) else f"{figure(metric, cell.low)} to "
    return ends and ends + figure(metric, cell.high)


def published(cell: Any) -> str:
    """The paper's score in %, which may have no deviation."""
    values = (cell.paper_mean, cell.paper_std)
    return " ± ".join(str(round(100 * x, 4)) for x in values if x == x) or ABSENT


def mark(cell: Any) -> str:
    """``best``, ``tied`` or nothing."""
    return "best" if cell.best == 1 else "tied" if cell.tied == 1 else ""


def rank(table: Table, metric: str, row: str) -> str:
    """The mean rank of a row."""
    ranks = table.rankings[metric].ranks
    return f"{ranks[row]:.1f}" if row in ranks else ABSENT


def means(table: Table, metrics: Sequence[str]) -> Grid:
    """Means by data set with the paper's, their mean over data sets, and the mean rank."""
    columns: list[tuple[str, str, list[Box]]] = []
    found = {metric: table.of(metric) for metric in metrics}
    for column, metric in itertools.product(table.columns, metrics):
        own = [found[metric][row, column] for row in table.rows]
        marked = [Box(spread(metric, c), mark=mark(c), second=c.second == 1) for c in own]
        columns.append((column, name(metric), marked))
        if any(cell.paper_mean == cell.paper_mean for cell in own):
            columns.append((column, "paper", boxes(*map(published, own))))
    for metric in metrics if len(table.columns) > 1 else ():
        every = (
            mean(found[metric][row, column].mean for column in table.columns) for row in table.rows
        )
        columns.append(("mean", name(metric), boxes(*(figure(metric, one) for one in every))))
    for metric in metrics:
        if metric in table.rankings:
            ranks = boxes(*(rank(table, metric, row) for row in table.rows))
            columns.append(("rank", name(metric), ranks))
    groups, heads, bodies = zip(*columns)
    rows = [[Box(row), *own] for row, *own in zip(table.rows, *bodies)]
    return Grid("", [row_head(table), *heads], rows, ["", *groups])


def grids(table: Table) -> list[Grid]:
    """For each metric its means, its medians and, on demand, its intervals and differences."""
    return [grid for metric in table.metrics for grid in _grids(table, metric)]


def _grids(table: Table, metric: str) -> list[Grid]:
    def middle(cell: Any) -> Box:
        return Box(f"{figure(metric, cell.median)} ({cell.runs})" if cell.runs > 0 else ABSENT)

    def ends(cell: Any) -> Box:
        return Box(interval(metric, cell) or ABSENT)

    def difference(cell: Any) -> Box:
        gap = f"{figure(metric, cell.difference, '+.1f')} ({cell.p_holm:.2g}), n {cell.pairs}"
        return Box(gap if cell.pairs >= 2 else ABSENT)

    own, head = means(table, [metric]), name(metric)
    heads = [group if one == head else one for group, one in zip(own.groups, own.head)]
    out = [
        Grid(f"{title(table, metric)}, mean ± std", heads, own.rows),
        _pivot(table, metric, ", median (runs)", middle),
    ]
    if table.cells["low"].notna().any():
        what = f", {100 * (1 - table.alpha):g} % bootstrap interval of the mean"
        out.append(_pivot(table, metric, what, ends))
    if table.against is not None:
        what = f", difference to {table.against} (p), n pairs"
        out.append(_pivot(table, metric, what, difference, is_test=True))
    return out


def _pivot(
    table: Table, metric: str, what: str, box: Callable[[Any], Box], is_test: bool = False
) -> Grid:
    """A metric by row and column; a test has a column for all data, and no row of the oracle."""
    cells, rows, columns = table.of(metric), table.rows, table.columns
    if is_test:
        rows = [row for row in rows if row not in table.oracles and row != table.against]
        columns = [*columns, *[POOLED] * (len(columns) > 1)]
    body = [[Box(row), *(box(cells[row, column]) for column in columns)] for row in rows]
    return Grid(title(table, metric) + what, [row_head(table), *columns], body)


# Tables of the page, whose cells have two lines.


def page_means(table: Table, metric: str) -> Grid:
    """Mean and spread with interval and number of runs, and the mean rank."""

    def box(cell: Any) -> Box:
        ends = interval(metric, cell)
        small = f"{ends}, n {cell.runs}" if ends else f"n {cell.runs}"
        return Box(spread(metric, cell), small if cell.runs > 0 else "", mark(cell))

    grid = _pivot(table, metric, "", box)
    rows = [row for row in grid.rows if any(cell.text != ABSENT for cell in row[1:])]
    if metric in table.rankings:
        rows = [[*row, Box(rank(table, metric, row[0].text))] for row in rows]
        grid = grid._replace(head=[*grid.head, "mean rank"])
    return grid._replace(rows=rows)


def page_tests(table: Table, metric: str) -> Grid:
    """Difference of each row to the chosen one, with p and how often it was better."""

    def box(cell: Any) -> Box:
        if not cell.pairs >= 2:
            return Box(ABSENT)
        better = "better" if (cell.difference > 0) != (metric in LESS) else "worse"
        small = f"p = {cell.p_holm:.2g}, better in {cell.wins} of {cell.pairs}"
        significant = cell.p_holm <= table.alpha
        return Box(figure(metric, cell.difference, "+.1f"), small, better if significant else "")

    return _pivot(table, metric, f": difference to {table.against}", box, is_test=True)


def page_paper(table: Table, metric: str) -> Grid:
    """Ours, the paper's and the difference, for rows and columns that the paper has."""
    cells = {place: cell for place, cell in table.of(metric).items() if cell.paper_mean > 0}
    rows, columns = (dict.fromkeys(labels) for labels in zip(*cells))
    body = []
    for row in rows:
        line = [row]
        for cell in (cells.get((row, column)) for column in columns):
            gap = f"{100 * (cell.mean - cell.paper_mean):+.1f}" if cell else ABSENT
            line += [spread(metric, cell), published(cell), gap] if cell else [ABSENT] * 3
        body.append(boxes(*line))
    heads = [head for column in columns for head in (f"{column}, here", "paper", "difference")]
    return Grid(title(table, metric), [row_head(table), *heads], body)


def page_settings(table: Table) -> Grid:
    """The setting of each cell for which there was a choice."""
    rows = []
    for cell in table.chosen:
        validation = figure(table.metrics[0], cell.validation)
        rows.append(boxes(cell.row, cell.column, _tried(cell, ""), validation, cell.setting))
    return Grid("", [row_head(table), "data", "settings tried", "validation", "chosen"], rows)


def _tried(cell: Any, noun: str = " settings") -> str:
    fewer = f" ({cell.fewer} with fewer runs left out)" if cell.fewer else ""
    return f"{cell.tried}{noun}{fewer}"


# Sentences.


def remarks(
    table: Table,
    best: str = SIGNS["best"],
    tied: str = SIGNS["tied"],
    settings: bool = True,
) -> list[str]:
    """Notes on marks, tests, ranks, warnings and chosen settings.

    Args:
        table: the printed comparison.
        best, tied: how the marks look.
        settings: whether to list the setting of each cell for which there was a choice.
    """
    out = ["Mean ± population standard deviation over runs (n in the divisor)."]
    if (table.cells["best"] == 1).any():
        out.append(
            f"{best}: the best mean of a column; {tied}: no significant difference from"
            f" it, p > {table.alpha:g} ({TESTS[table.test]} on common splits and seeds,"
            " Holm's correction over the rows of a column)."
        )
    pairs = table.runs.drop_duplicates(["row", "column", "split", "seed"])
    if pairs.duplicated(["row", "column", "unit"]).any():
        out.append(
            "Tests, intervals and ranks use one mean per set of masked classes: there, n is"
            " the number of such sets."
        )
    out += _on_tests(table)
    out += [_on_ranks(metric, ranking) for metric, ranking in table.rankings.items()]
    if table.oracles:
        out.append(f"{', '.join(sorted(table.oracles))}: the oracle, neither ranked nor marked.")
    if table.pooled:
        out.append(f"Some cells pool runs that differ in {', '.join(sorted(table.pooled))}.")
    for row in table.rows:
        warned = table.runs.loc[table.runs["row"] == row, "warnings"] > 0
        if warned.any():
            counts = f"{warned.sum()} of {len(warned)}"
            out.append(f"{row}: {counts} runs gave a warning; see result.json.")
    if table.published:
        out.append(f"paper: {table.published.title}, in %, mean ± standard deviation.")
    out += table.cautions
    if table.chosen:
        out.append(
            f"Settings are chosen for each row and column by the mean {name(table.selector)}"
            " on validation, among the settings with the most runs:"
        )
    for cell in table.chosen if settings else ():
        score = "" if math.isnan(cell.validation) else f", validation {100 * cell.validation:.1f}"
        out.append(f"{cell.row} on {cell.column}: best of {_tried(cell)}{score}: {cell.setting}")
    return out


def _on_tests(table: Table) -> list[str]:
    """Limits of the paired tests, and how to read differences."""
    out, cells = [], table.cells
    beside = (cells["best"] == 0) & ~cells["row"].isin(table.oracles) & (len(table.rows) > 1)
    pairs = cells.loc[beside, "pairs_best"].tolist()
    if any(count < 2 for count in pairs):
        out.append(
            "A row that shares fewer than 2 splits and seeds with the best one is not tested"
            " and has no mark."
        )
    pairs += cells["pairs"].dropna().tolist()
    few = any(count >= 2 and 2.0 ** (1 - count) > table.alpha for count in pairs)
    if table.test == "wilcoxon" and few:
        needed = 1 + math.ceil(-math.log2(table.alpha))
        out.append(
            f"Wilcoxon's p is at least 2^(1-n) for n pairs: with fewer than {needed} pairs,"
            f" no difference can be significant at {table.alpha:g}."
        )
    if table.against is not None:
        pooled = " Pairs of one column share its data, so p over all columns is too small."
        out.append(
            f"Difference to {table.against}: mean over pairs, in brackets the two-sided p"
            f" ({TESTS[table.test]}, Holm's correction over the rows of a column), n pairs."
            + pooled
            * (len(table.columns) > 1)
        )
    return out


def _on_ranks(metric: str, ranking: Ranking) -> str:
    over = (
        f"Rank by {name(metric)}: mean over {counted(ranking.blocks, 'split')} that all"
        " ranked rows have."
    )
    if ranking.blocks < 2:
        return f"{over} Ranks of one split cannot be tested."
    best = min(ranking.ranks, key=ranking.ranks.__getitem__)
    clique = next((clique for clique in ranking.cliques[:1] if best in clique), [best])
    near = ", ".join(row for row in clique if row != best)
    found = f"{best} differs significantly from all others"
    if near:
        found = f"no significant difference from {best}: {near}"
    p = "" if math.isnan(ranking.friedman) else f" Friedman's test: p = {ranking.friedman:.2g}."
    return f"{over}{p} Nemenyi's critical difference: {ranking.difference:.2f}; {found}."


def findings(table: Table) -> list[str]:
    """The best row of each column by the first metric, and rows that may be as good."""
    metric, out = table.metrics[0], []
    for column in table.columns:
        found = table.of(metric).items()
        cells = {row: cell for (row, of), cell in found if of == column and cell.runs == cell.runs}
        shown = {
            row: f"{spread(metric, cell)} over {counted(cell.runs, 'run')}"
            for row, cell in cells.items()
        }
        best = next((row for row, cell in cells.items() if cell.best == 1), None)
        if best is None:
            out += [f"{column}: {row} has {text}." for row, text in shown.items()]
            continue
        sign = -1 if metric in LESS else 1
        above = [row for row, cell in cells.items() if sign * (cell.mean - cells[best].mean) > 0]
        rest = {row: cell for row, cell in cells.items() if row not in (best, *above)}
        few = [row for row, cell in rest.items() if 2.0 ** (1 - cell.pairs_best) > table.alpha]
        tied = [row for row, cell in rest.items() if cell.tied == 1 and row not in few]
        parts = {
            "the oracle is above it: ": above,
            "no significant difference: ": tied,
            "too few common runs for a test: ": few,
        }
        others = (text + listed(rows) for text, rows in parts.items() if rows)
        out.append("; ".join([f"{column}: {best} is best with {shown[best]}", *others]) + ".")
    return out

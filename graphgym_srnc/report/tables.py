"""Tables of a comparison, and the remarks below them."""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable, NamedTuple, Sequence

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.report.compare import POOLED, Ranking, Table
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
    mark: str = ""  # best of its column, tied with the best, or nothing
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


def published(cell: Any) -> str:
    """The paper's score in %, which may have no deviation."""
    values = (cell.paper_mean, cell.paper_std)
    return " ± ".join(str(round(100 * x, 4)) for x in values if x == x) or ABSENT


def mark(cell: Any) -> str:
    """``best``, ``tied`` or nothing."""
    return "best" if cell.best == 1 else "tied" if cell.tied == 1 else ""


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
            ranks = table.rankings[metric].ranks
            texts = (f"{ranks[row]:.1f}" if row in ranks else ABSENT for row in table.rows)
            columns.append(("rank", name(metric), boxes(*texts)))
    groups, heads, bodies = zip(*columns)
    rows = [[Box(row), *own] for row, *own in zip(table.rows, *bodies)]
    return Grid("", [row_head(table), *heads], rows, ["", *groups])


def grids(table: Table) -> list[Grid]:
    """For each metric its means, its medians and, on demand, its intervals and differences."""
    return [grid for metric in table.metrics for grid in grids_of(table, metric)]


def grids_of(table: Table, metric: str) -> list[Grid]:
    """The tables of one metric."""
    cells, above, has_intervals = (
        table.of(metric),
        title(table, metric),
        table.cells["low"].notna().any(),
    )

    def pivot(what: str, text: Callable[[Any], str], rows: list[str], columns: list[str]) -> Grid:
        body = [[row, *(text(cells[row, column]) for column in columns)] for row in rows]
        return Grid(above + what, [row_head(table), *columns], [boxes(*line) for line in body])

    def middle(cell: Any) -> str:
        return f"{figure(metric, cell.median)} ({cell.runs})" if cell.runs > 0 else ABSENT

    def interval(cell: Any) -> str:
        ends = f"{figure(metric, cell.low)} to {figure(metric, cell.high)}"
        return ABSENT if math.isnan(cell.low) else ends

    def difference(cell: Any) -> str:
        gap = f"{figure(metric, cell.difference, '+.1f')} ({cell.p_holm:.2g}), n {cell.pairs}"
        return gap if cell.pairs >= 2 else ABSENT

    own, head = means(table, [metric]), name(metric)
    heads = [group if one == head else one for group, one in zip(own.groups, own.head)]
    out = [
        Grid(f"{above}, mean ± std", heads, own.rows),
        pivot(", median (runs)", middle, table.rows, table.columns),
    ]
    if has_intervals:
        what = f", {100 * (1 - table.alpha):g} % bootstrap interval of the mean"
        out.append(pivot(what, interval, table.rows, table.columns))
    if table.against is not None:
        what = f", difference to {table.against} (p), n pairs"
        rivals = [row for row in table.rows if row not in {*table.oracles, table.against}]
        columns = [*table.columns, *[POOLED] * (len(table.columns) > 1)]
        out.append(pivot(what, difference, rivals, columns))
    return out


# Sentences.


def remarks(table: Table, best: str = SIGNS["best"], tied: str = SIGNS["tied"]) -> list[str]:
    """Notes on marks, tests, ranks, warnings and chosen settings.

    Args:
        table: the printed comparison.
        best, tied: how the marks look.
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
    for cell in table.chosen:
        fewer = f" ({cell.fewer} with fewer runs left out)" if cell.fewer else ""
        score = "" if math.isnan(cell.validation) else f", validation {100 * cell.validation:.1f}"
        best_of = f"best of {cell.tried} settings{fewer}{score}"
        out.append(f"{cell.row} on {cell.column}: {best_of}: {cell.setting}")
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
    cells = table.of(metric)
    for column in table.columns:
        ranked = {row: cells[row, column] for row in table.rows if row not in table.oracles}
        tied = [row for row, cell in ranked.items() if cell.tied == 1]
        for row, cell in ranked.items():
            if cell.best == 1:
                text = f"{spread(metric, cell)} over {counted(cell.runs, 'run')}"
                near = f"; no significant difference: {listed(tied)}" if tied else ""
                out.append(f"{column}: {row} is best with {text}{near}.")
    return out

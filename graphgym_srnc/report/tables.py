"""Tables of a comparison."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple, Sequence

from graphgym_srnc.core.text import listed
from graphgym_srnc.io.stats import mean
from graphgym_srnc.report.arrange import SHARE
from graphgym_srnc.report.compare import Ranking, Table, has_mean
from graphgym_srnc.report.frame import COSTS

# Metrics and their printed names, in the order of print.
METRICS = {
    "micro_f1": "Micro-F1",
    "macro_f1": "Macro-F1",
    "macro_recall": "macro recall",
    "unknown_recall": "unknown recall",
    "unknown_precision": "unknown precision",
    "unknown_auroc": "unknown AUROC",
    "unknown_aupr": "unknown AUPR",
    "unknown_fpr95": "unknown FPR95",
    "closed_accuracy": "closed-set accuracy",
    "known_accuracy": "known accuracy",
    "known_recall": "known recall",
    "hs": "HS",
    "oscr": "OSCR",
    SHARE: "predicted as unknown",
    "seconds": "seconds",
    "peak_memory_mib": "peak MiB",
    "params": "parameters",
    "acc": "ACC",
    "nmi": "NMI",
}

ABSENT = "-"


class Box(NamedTuple):
    """Content of a cell."""

    text: str
    mark: str = ""  # best of its column, tied with the best, or nothing


class Grid(NamedTuple):
    """A table. The first box of a row is its head."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Box]]
    kind: str = ""  # means, intervals, differences or settings
    groups: Sequence[tuple[str, int]] = ()  # titles above the columns, with their number

    def flat(self) -> Grid:
        """The same without groups: their titles are in the head."""
        above = [f"{title}: " for title, columns in self.groups for _ in range(columns)]
        head = list(map("{}{}".format, ["", *above], self.head)) if above else self.head
        return self._replace(head=head, groups=())


def boxes(*texts: Any) -> list[Box]:
    """A row of plain cells."""
    return [Box(str(text)) for text in texts]


def name(metric: str) -> str:
    """Printed name of a metric."""
    return METRICS.get(metric, metric)


def is_share(metric: str) -> bool:
    """Whether a metric is printed in %. The unit of a user's own metric is unknown."""
    return metric in METRICS and metric not in COSTS


def unit(metric: str) -> str:
    """What follows the name of a metric in a title."""
    return "" if metric in COSTS else ", %" if is_share(metric) else " (not in %)"


def title(table: Table, *metrics: str) -> str:
    """Metrics with their split, and with their unit if they share it."""
    text = listed([*map(name, metrics)])
    text = text[0].upper() + text[1:]
    if not {*metrics} <= {*COSTS}:
        text += f" on {table.split}"
    units = {*map(unit, metrics)}
    return text + units.pop() if len(units) == 1 else text


def heading(table: Table, *metrics: str) -> str:
    """Metrics with their split and unit, and what their cells show."""
    text = title(table, *metrics)
    if not (table.cells["runs"] > 1).any():
        return text
    return f"{text}, mean ± std" + (" (n - 1)" if table.ddof else "")


def percent(table: Table) -> str:
    """The level of the intervals."""
    return f"{100 * (1 - table.alpha):g} %"


def row_head(table: Table) -> str:
    """Head of the column of row labels."""
    return "method" if table.by[0] in ("method", "paper", "train.mode") else ", ".join(table.by)


def figure(metric: str, value: float, sign: str = "") -> str:
    """A score in %, or a cost or a user's own score as it is."""
    if math.isnan(value):
        return ABSENT
    form = ".0f" if metric == "params" else ".1f" if metric in METRICS else ".4g"
    return format(100 * value if is_share(metric) else value, sign + form)


def spread(metric: str, cell: Any) -> str:
    """Mean ± standard deviation; a single run has none."""
    if not cell.runs > 0:
        return ABSENT
    std = f" ± {figure(metric, cell.std)}" if cell.runs > 1 else ""
    return f"{figure(metric, cell.mean)}{std}"


def grids(table: Table, is_joined: bool = False) -> list[Grid]:
    """All tables: those of :func:`grids_of`, then settings.

    Args:
        table: a comparison.
        is_joined: whether all metrics are in one table, as they are if there is one column.
    """
    several = not is_joined and len(table.columns) > 1
    parts = [(metric,) for metric in table.metrics] if several else [table.metrics]
    means = itertools.chain(*(grids_of(table, *part) for part in parts))
    every = [*means, choices(table)]
    return [grid for grid in every if grid.rows]


def grids_of(table: Table, *metrics: str) -> list[Grid]:
    """Means and, on demand, intervals and differences, with a group of columns for each metric."""
    above = heading(table, *metrics)
    out = [_joined(table, metrics, above, [means(table, of) for of in metrics])]
    if table.cells.loc[table.cells["metric"].isin(metrics), "low"].notna().any():
        above = f"{title(table, *metrics)}, Student's {percent(table)} interval of the mean"
        out.append(_joined(table, metrics, above, [intervals(table, of) for of in metrics]))
    if table.against is not None:
        above = f"{title(table, *metrics)}, difference to {table.against}"
        out.append(_joined(table, metrics, above, [differences(table, of) for of in metrics]))
    return out


def _joined(table: Table, metrics: Sequence[str], above: str, found: Sequence[Grid]) -> Grid:
    """The columns of tables with the same rows beside each other.

    The only column of a comparison is named above, and the metrics in the head.
    """
    if len(found) == 1:
        return found[0]._replace(title=above)
    parts = zip(*(grid.rows for grid in found))
    rows = [[own[0][0], *itertools.chain(*(part[1:] for part in own))] for own in parts]
    head = [found[0].head[0], *itertools.chain(*(grid.head[1:] for grid in found))]
    names = [*map(name, metrics)]
    if len({*map(unit, metrics)}) > 1:
        names = [name(metric) + unit(metric) for metric in metrics]
    if len(table.columns) == 1:
        (column,) = table.columns
        own = iter(names)
        head = [next(own) if text == column else text.replace(f"{column}, ", "") for text in head]
        return Grid(f"{column}: {above}", head, rows, found[0].kind)
    groups = [*zip(names, (len(grid.head) - 1 for grid in found))]
    return Grid(above, head, rows, found[0].kind, groups)


def _grid(table: Table, metric: str, rows: Sequence[str], text: Any, kind: str) -> Grid:
    """A table of what ``text`` says of the cells of some rows."""
    cells = table.of(metric)
    texts = [boxes(row, *(text(cells[row, column]) for column in table.columns)) for row in rows]
    return Grid("", [row_head(table), *table.columns], texts, kind)


def intervals(table: Table, metric: str) -> Grid:
    """The interval of each mean."""

    def text(cell: Any) -> str:
        ends = figure(metric, cell.low), figure(metric, cell.high)
        return ABSENT if math.isnan(cell.low) else " to ".join(ends)

    return _grid(table, metric, table.rows, text, "intervals")


def differences(table: Table, metric: str) -> Grid:
    """Mean paired differences to a row with their interval, p and, if it varies, n."""
    several = pair_counts(table) is None

    def text(cell: Any) -> str:
        if not cell.pairs >= 2:
            return ABSENT
        numbers = (cell.difference, cell.difference_low, cell.difference_high)
        centre, low, high = (figure(metric, value, "+") for value in numbers)
        text = f"{centre} [{low}, {high}] ({cell.p_holm:.2g})"
        return f"{text}, n {cell.pairs}" if several else text

    rivals = [row for row in table.rows if row not in {*table.oracles, table.against}]
    return _grid(table, metric, rivals, text, "differences")


def pair_counts(table: Table) -> int | None:
    """The number of pairs of every difference; None if differences differ in it."""
    counts = {pairs for pairs in table.cells["pairs"].dropna() if pairs >= 2}
    return counts.pop() if len(counts) == 1 else None


def means(table: Table, metric: str) -> Grid:
    """Means by data set with the paper's, their mean over data sets, and the mean rank."""
    cells = table.of(metric)
    columns = {}
    number = "" if run_counts(table) else " ({})"
    for column in table.columns:
        own = [cells[row, column] for row in table.rows]
        texts = [spread(metric, c) + number.format(c.runs) if c.runs > 0 else ABSENT for c in own]
        marks = ("best" if c.best == 1 else "tied" if c.tied == 1 else "" for c in own)
        columns[column] = list(map(Box, texts, marks))
        if any(cell.paper_mean == cell.paper_mean for cell in own):
            columns[f"{column}, paper"] = boxes(*map(published, own))
    if len(table.columns) > 1 and is_averaged(table):
        every = (mean(cells[row, column].mean for column in table.columns) for row in table.rows)
        columns["mean"] = boxes(*(figure(metric, value) for value in every))
    ranks = table.mean_ranks(metric)
    if ranks:
        shown = (f"{ranks[row]:.1f}" if row in ranks else ABSENT for row in table.rows)
        columns["rank"] = boxes(*shown)
    rows = [[Box(row), *own] for row, *own in zip(table.rows, *columns.values())]
    return Grid("", [row_head(table), *columns], rows, "means")


def is_averaged(table: Table) -> bool:
    """Whether a mean over columns is meaningful, and no row lacks a column."""
    return has_mean(table.runs) and bool(table.cells["runs"].notna().all())


def published(cell: Any) -> str:
    """The paper's score in %, which may have no deviation."""
    values = (cell.paper_mean, cell.paper_std)
    return " ± ".join(str(round(100 * x, 4)) for x in values if x == x) or ABSENT


def run_counts(table: Table) -> int | None:
    """The number of runs of every cell; None if cells differ in it."""
    counts = set(table.cells["runs"].dropna())
    return counts.pop() if len(counts) == 1 else None


def choices(table: Table) -> Grid:
    """The setting chosen for each row and column."""
    rows = []
    for cell in table.chosen:
        fewer = f" ({cell.fewer} with fewer runs left out)" if cell.fewer else ""
        of = f"{cell.tried} settings{fewer}"
        score = figure(table.selector, cell.validation)
        rows.append(boxes(cell.row, cell.column, of, score, cell.setting))
    heads = [row_head(table), "column", "best of", f"validation {name(table.selector)}", "setting"]
    above = "Settings chosen on validation, among those with the most runs"
    return Grid(above, heads, rows, "settings")


def tested_ranks(table: Table, metric: str) -> dict[str, Ranking]:
    """The rankings of a metric, by column, with enough rows and blocks for a test."""
    return {
        column: ranking
        for (name, column), ranking in table.rankings.items()
        if name == metric and len(ranking.ranks) > 2 and not math.isnan(ranking.difference)
    }

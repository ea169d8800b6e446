"""Tables of a comparison, and the remarks below them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any, Callable, NamedTuple, Sequence

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.report.arrange import OTHER_SETTINGS
from graphgym_srnc.report.compare import Ranking, Table, columns_of_known, is_one_kind
from graphgym_srnc.report.frame import COSTS, distinct_warnings
from graphgym_srnc.report.paper import CLOSE_SET, SYNTHETIC
from graphgym_srnc.report.statistics import LEAST_BLOCKS, TESTS, least_p, mean

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

ABSENT = "-"

KNOWN_ONLY = (
    "no test node is of an unknown class, so the scores measure known classes only. A node"
    " predicted as unknown counts as an error. With file.num_unseen 1, a labelled class of your own"
    " graph is hidden, so that both are scored."
)


class Box(NamedTuple):
    """Content of a cell."""

    text: str
    mark: str = ""  # best of its column, tied with the best, or nothing


class Grid(NamedTuple):
    """A table. The first box of a row is its head."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Box]]
    groups: Sequence[tuple[str, int]] = ()  # titles above the columns, with their number


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


def title(table: Table, metric: str) -> str:
    """A metric with its split and unit."""
    return name(metric) + f" on {table.split}" * (metric not in COSTS) + unit(metric)


def heading(table: Table, metric: str) -> str:
    """A metric with its split and unit, and what its cells show."""
    return title(table, metric) + ", mean ± std" * bool((table.cells["runs"] > 1).any())


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
    """For each metric its means and, on demand, its intervals and differences; then tests of ranks
    and settings.

    Args:
        table: a comparison.
        is_joined: whether the means of all metrics are one table, the first.
    """
    found = [grids_of(table, metric) for metric in table.metrics]
    if is_joined and len(found) > 1:
        found = [[joined(table)], *(others for _, *others in found)]
    is_marked = bool(_rank_marks(table, table.metrics[0]))  # then the legend has the tests
    more = [choices(table)] if is_marked else [rank_tests(table), choices(table)]
    every = [*itertools.chain(*found), *more]
    return [grid for grid in every if grid.rows]


def joined(table: Table) -> Grid:
    """The means of all metrics, with a group of columns for each metric."""
    found = [means(table, metric) for metric in table.metrics]
    parts = zip(*(grid.rows for grid in found))
    rows = [[own[0][0], *itertools.chain(*(part[1:] for part in own))] for own in parts]
    head = [row_head(table), *itertools.chain(*(grid.head[1:] for grid in found))]
    names = listed([*map(name, table.metrics)])
    above = f"{names[0].upper()}{names[1:]} on {table.split} nodes"
    pairs = zip(table.metrics, found)
    groups = [(name(metric) + unit(metric), len(grid.head) - 1) for metric, grid in pairs]
    return Grid(above, head, rows, groups)


def grids_of(table: Table, metric: str) -> list[Grid]:
    """The tables of one metric."""
    cells, above = table.of(metric), title(table, metric)

    def made(what: str, text: Callable[[Any], str], rows: Sequence[str]) -> Grid:
        body = [boxes(row, *(text(cells[row, column]) for column in table.columns)) for row in rows]
        return Grid(above + what, [row_head(table), *table.columns], body)

    def interval(cell: Any) -> str:
        ends = figure(metric, cell.low), figure(metric, cell.high)
        return ABSENT if math.isnan(cell.low) else " to ".join(ends)

    counts = {cell.pairs for cell in cells.values() if cell.pairs >= 2}

    def difference(cell: Any) -> str:
        if not cell.pairs >= 2:
            return ABSENT
        family = sum(cells[row, cell.column].p >= 0 for row in table.rows)
        is_testable = family * least_p(cell.pairs, table.test) <= table.alpha
        p = f"{cell.p_holm:.2g}" if is_testable else ABSENT
        n = f", n {cell.pairs}" * (len(counts) > 1)
        return f"{figure(metric, cell.difference, '+')} ({p}){n}"

    out = [means(table, metric)]
    wide = table.cells.loc[(table.cells["metric"] == metric) & table.cells["low"].notna(), "row"]
    if len(wide):
        what = f", {100 * (1 - table.alpha):g} % bootstrap interval of the mean"
        out.append(made(what, interval, [row for row in table.rows if row in {*wide}]))
    if table.against is not None:
        rivals = [row for row in table.rows if row not in {*table.oracles, table.against}]
        n = f"n {counts.pop()} pairs" if len(counts) == 1 else "n pairs"
        what = f", difference to {table.against} (Holm-corrected p), {n}"
        out.append(made(what, difference, rivals))
    return out


def means(table: Table, metric: str) -> Grid:
    """Means by data set with the paper's, their mean over data sets, and the mean rank."""
    cells, columns = table.of(metric), {}
    number = " ({})" * (run_counts(table) is None)
    for column in table.columns:
        own = [cells[row, column] for row in table.rows]
        texts = [spread(metric, c) + number.format(c.runs) * (c.runs > 0) for c in own]
        marks = ("best" if c.best == 1 else "tied" if c.tied == 1 else "" for c in own)
        columns[column] = list(map(Box, texts, marks))
        if any(cell.paper_mean == cell.paper_mean for cell in own):
            columns[f"{column}, paper"] = boxes(*map(published, own))
    if len(table.columns) > 1 and is_averaged(table):
        every = (mean(cells[row, column].mean for column in table.columns) for row in table.rows)
        columns["mean"] = boxes(*(figure(metric, value) for value in every))
    if ranks := table.mean_ranks(metric):
        texts = [f"{ranks[row]:.1f}" if row in ranks else ABSENT for row in table.rows]
        beside = _rank_marks(table, metric)
        columns["rank"] = [Box(text, beside.get(row, "")) for row, text in zip(table.rows, texts)]
    rows = [[Box(row), *own] for row, *own in zip(table.rows, *columns.values())]
    return Grid(heading(table, metric), [row_head(table), *columns], rows)


def _rank_marks(table: Table, metric: str) -> dict[str, str]:
    """The marks of mean ranks by Nemenyi's test, if they are of a single column."""
    if len(table.columns) > 1 or not (tested := tested_ranks(table, metric)):
        return {}
    (found,) = tested.values()
    best = min(found.ranks.values())
    near = {row: rank for row, rank in found.ranks.items() if rank - best < found.difference}
    return {row: "best" if rank == best else "tied" for row, rank in near.items()}


def is_averaged(table: Table) -> bool:
    """Whether a mean over columns is meaningful: one kind of shift, and no row lacks a column."""
    return is_one_kind(table.runs) and bool(table.cells["runs"].notna().all())


def published(cell: Any) -> str:
    """The paper's score in %, which may have no deviation."""
    values = (cell.paper_mean, cell.paper_std)
    return " ± ".join(str(round(100 * x, 4)) for x in values if x == x) or ABSENT


def run_counts(table: Table) -> int | None:
    """The number of runs of every cell; None if cells differ in it."""
    counts = set(table.cells["runs"].dropna())
    return counts.pop() if len(counts) == 1 else None


# Sentences.


def legend(table: Table, best: str, tied: str) -> list[str]:
    """What the numbers and marks in the tables of means are.

    Args:
        table: the printed comparison.
        best, tied: how the marks look.
    """
    runs = run_counts(table)
    over = counted(runs, "run") if runs else "runs, whose number is in brackets"
    out = [f"Mean ± population standard deviation over {over} (n in the divisor)."]
    if runs == 1:
        more = f" For tests, add --resume --repeat {LEAST_BLOCKS} to each command `run`."
        out = ["One run per cell." + more * (len(table.rows) > 1)]
    if (table.cells["best"] == 1).any():
        out.append(_on_marks(table, best, tied))
    elif len({*table.rows} - table.oracles) > 1 and not on_known(table):
        out.append("No row is marked as the best, since rows have different splits.")
    pairs = table.runs.drop_duplicates(["row", "column", "split", "seed"])
    if pairs.duplicated(["row", "column", "unit"]).any():
        out.append(
            "Tests, intervals and ranks use one mean per set of masked classes: there, n is"
            " the number of such sets."
        )
    if len(table.columns) > 1 and is_averaged(table):
        out.append("mean: over the columns, unweighted.")
    if table.mean_ranks(table.metrics[0]):
        several = ", then over the columns" * (len(table.columns) > 1)
        text = f"Rank: mean over the splits of a column that all ranked rows have{several}."
        if _rank_marks(table, table.metrics[0]):
            near = f"{best}: the best rank. {tied}: no significant difference from it"
            text += f" {near} (Nemenyi's test, which has less power than the tests of means)."
            for metric in table.metrics:
                for found in tested_ranks(table, metric).values():
                    p, cd = f"p = {found.friedman:.2g}", f"{found.difference:.2f}"
                    over = f"over {found.blocks} splits"
                    text += f" {name(metric)}: Friedman's {p}, critical difference {cd} {over}."
        out.append(text)
    return out


def remarks(table: Table, best: str = "*", tied: str = "°", warnings: bool = True) -> list[str]:
    """The :func:`legend`, then notes on tests and rows, and warnings.

    Args:
        table: the printed comparison.
        best, tied: how the marks look.
        warnings: whether to add the warnings of the runs, and :func:`on_known`.
    """
    out = legend(table, best, tied) + on_known(table) * warnings
    if not is_one_kind(table.runs):
        several = table.runs["dataset.format"].nunique() > 1
        why = "kinds of shift differ" if several else "only some runs have hidden classes"
        out.append(f"No mean over the columns, neither of scores nor of ranks: {why}.")
    elif len(table.columns) > 1 and not is_averaged(table):
        out.append("No mean over the columns: some rows lack a column.")
    if table.against is not None:
        out.append(
            f"Difference to {table.against}: mean over pairs, in brackets the two-sided p"
            f" ({TESTS[table.test]}, Holm's correction over the rows of a column; {ABSENT}: too"
            " few pairs to test), n pairs."
        )
    if any(math.isnan(ranking.difference) for ranking in table.rankings.values()):
        few = f"Fewer than {LEAST_BLOCKS} splits are too few for Friedman's and Nemenyi's tests"
        out.append(f"{few} of ranks, whose p-values would be inaccurate.")
    if table.oracles:
        out.append(f"{', '.join(sorted(table.oracles))}: the oracle, neither ranked nor marked.")
    if table.left_out:
        count = counted(table.left_out, "run")
        out.append(f"Left out: {count} of the oracle, whose rows also have other methods.")
    if varying := sorted({key for cell in table.chosen for key in cell.keys.split()}):
        by = " ".join([*table.by, *varying])
        of_config = "Each config has a row of its own with --by config"
        out.append(f"{of_config}, and each setting with --by {by}.")
    if table.pooled:
        out.append(f"Some cells pool runs that differ in {', '.join(sorted(table.pooled))}.")
    if table.implied:
        keys = ", ".join(table.implied)
        out.append(f"Columns with other values of the keys in their names also differ in {keys}.")
    if table.published:
        out.append(f"paper: {table.published.title}, in %, mean ± standard deviation.")
        keys = listed(sorted(set().union(*table.published.variants.values())))
        others = [row for row in table.rows if row.endswith(OTHER_SETTINGS)]
        out += [f"{row}: no row of the paper has the same {keys}." for row in others]
        if table.published is CLOSE_SET and (table.runs["dataset.name"] == "arxiv_like").any():
            out.append(SYNTHETIC)
    if warnings:
        for text, rows in distinct_warnings(zip(table.runs["row"], table.runs["texts"])):
            of = ", ".join(f"{row}: {count}" for row, count in Counter(rows).items())
            every = counted(len(table.runs), "run")
            out.append(f"Warning in {len(rows)} of {every} ({of}): {text}")
    return out


def on_known(table: Table) -> list[str]:
    """A note on the columns whose runs have an unknown class, but no test node of it."""
    found = columns_of_known(table.runs)
    unmarked = " No row is marked as the best." * (len(table.rows) > 1)
    return [f"{listed(found)}: {KNOWN_ONLY}{unmarked}"] * bool(found)


def choices(table: Table) -> Grid:
    """The setting chosen for each row and column."""
    rows = []
    for cell in table.chosen:
        fewer = f" ({cell.fewer} with fewer runs left out)" if cell.fewer else ""
        of, score = f"{cell.tried} settings{fewer}", figure(table.selector, cell.validation)
        rows.append(boxes(cell.row, cell.column, of, score, cell.setting))
    heads = [row_head(table), "column", "best of", f"validation {name(table.selector)}", "setting"]
    return Grid("Settings chosen on validation, among those with the most runs", heads, rows)


def tested_ranks(table: Table, metric: str) -> dict[str, Ranking]:
    """The rankings of a metric, by column, with enough rows and blocks for a test."""
    return {
        column: ranking
        for (name, column), ranking in table.rankings.items()
        if name == metric and len(ranking.ranks) > 2 and not math.isnan(ranking.difference)
    }


def rank_tests(table: Table) -> Grid:
    """Friedman's and Nemenyi's tests of the ranks in each column, which never pool columns."""
    rows = []
    for metric in table.metrics:
        for column, found in tested_ranks(table, metric).items():
            best, *others = sorted(found.ranks, key=found.ranks.__getitem__)
            limit = found.ranks[best] + found.difference
            near = ", ".join(row for row in others if found.ranks[row] < limit)
            facts = f"{found.friedman:.2g}", f"{found.difference:.2f}", best, near or "none"
            rows.append(boxes(column, name(metric), found.blocks, *facts))
    heads = ["column", "score", "splits", "Friedman's p", "critical difference", "best rank"]
    title = "Tests of ranks, which have less power than the pairwise tests of the marks"
    return Grid(title, [*heads, "no significant difference (Nemenyi)"], rows)


def _untested(table: Table, column: str) -> tuple[list[Any], int]:
    """Cells that no test can tell from the best one of their column; the number of pairs needed."""
    cells = table.cells[(table.cells["column"] == column) & table.cells["pairs_best"].notna()]
    others = cells[cells["best"] == 0].groupby("metric").size()
    tests = max([1, *others])  # that Holm's correction counts
    few = 1 + math.ceil(math.log2(tests / table.alpha)) if table.test == "wilcoxon" else 2
    needed = max(few, LEAST_BLOCKS)
    tested = (cells[["best", "tied"]] == 1).any(axis=1) | (cells["p_best"] <= table.alpha)
    return list(cells[~tested].itertuples()), needed


def _on_marks(table: Table, best: str, tied: str) -> str:
    """What the marks mean, and which rows are not tested against the best one."""
    found: dict[int, list[str]] = {}
    limits: dict[int, set[int]] = {}
    others = table.cells[table.cells["pairs_best"].notna() & (table.cells["best"] == 0)]
    for column in table.columns:
        cells, needed = _untested(table, column)
        alike = others.loc[others["column"] == column, "pairs_best"].nunique() == 1
        is_whole = alike and len(cells) == (others["column"] == column).sum()
        for cell in cells:
            place = column if is_whole else f"{cell.row} on {column}"
            found.setdefault(cell.pairs_best, []).append(place)
            limits.setdefault(cell.pairs_best, set()).add(needed)
    fewer = " among rows with the same splits" * (run_counts(table) is None)
    text = f"{best}: the best mean of a column{fewer}."
    is_any = len(others) > sum(map(len, found.values()))
    if is_any:
        tested = {*others["pairs_best"]} - {*found} or {*others["pairs_best"]}
        number = " to ".join(map(str, sorted({min(tested), max(tested)})))
        text += (
            f" {tied}: no significant difference from it, p > {table.alpha:g}"
            f" ({TESTS[table.test]} on {number} common splits and seeds, Holm's correction over the"
            f" rows of a column). Every {'tested ' * bool(found)}row without a mark differs"
            " significantly."
        )
    for count, places in found.items():
        limit = " or ".join(map(str, sorted(limits[count])))
        pairs = f"{counted(count, 'pair')}, and a test needs {limit}"
        rows = listed(list(dict.fromkeys(places)), 3)
        text += f" Not tested: {f'{rows} ({pairs})' if is_any or len(found) > 1 else pairs}."
    return text


def findings(table: Table) -> list[str]:
    """The best mean of each column by the first metric, and rows that may be as good."""
    metric, out = table.metrics[0], []
    cells = table.of(metric)
    for column in table.columns:
        ranked = {row: cells[row, column] for row in table.rows if row not in table.oracles}
        tied = [row for row, cell in ranked.items() if cell.tied == 1]
        others = [cell for cell in ranked.values() if cell.best == 0]
        few = [cell.pairs_best for cell in _untested(table, column)[0] if cell.metric == metric]
        for row, cell in ranked.items():
            if cell.best == 1:
                text = f"{spread(metric, cell)} over {counted(cell.runs, 'run')}"
                near = f"; no significant difference: {listed(tied)}" if tied else ""
                if others and all(other.p_best <= table.alpha for other in others):
                    near = "; all other rows differ significantly"
                among = " of the rows with the same splits" * (run_counts(table) is None)
                text = f"{column}: {row} has the best mean{among}, {text}{near}."
                if few and len(few) == len(others):
                    text += f" Not tested: too few pairs of runs ({max(few)})."
                out.append(text)
        if not any(cell.best == 1 for cell in ranked.values()):  # see on_known
            means = [
                f"{row} {spread(metric, cell)}" for row, cell in ranked.items() if cell.runs > 0
            ]
            out += [f"{column}: {listed(means, 4)}."] * bool(means)
    return out + on_known(table)

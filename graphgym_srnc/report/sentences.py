"""Sentences about a comparison: legend, notes below its tables, warnings and findings."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Iterable, Sequence

from pandas import DataFrame

from graphgym_srnc.core.text import counted, listed, seeds
from graphgym_srnc.io.stats import DEVIATIONS
from graphgym_srnc.report.arrange import DECISIONS, OTHER_SETTINGS, SHARE, Place
from graphgym_srnc.report.compare import (
    Lost,
    Ranking,
    Table,
    blind,
    columns_of_known,
    why_not_averaged,
)
from graphgym_srnc.report.frame import distinct_warnings
from graphgym_srnc.report.paper import CLOSE_SET, DETAILS, SYNTHETIC, reasons
from graphgym_srnc.report.statistics import LEAST_BLOCKS, TESTS, least_pairs
from graphgym_srnc.report.tables import (
    ABSENT,
    is_averaged,
    name,
    pair_counts,
    percent,
    rank_marks,
    run_counts,
    spread,
    tested_ranks,
)

KNOWN_ONLY = (
    "no test node is of an unknown class, so the scores measure known classes only. A node"
    " predicted as unknown counts as an error. With `num_unseen=1` and `num_test=100`, a"
    " labelled class of your own graph is hidden, so that both are scored."
)
ON_VAL = (
    "Scores on val are those of validation nodes, or of labels that SRNC+ held out in turn; then it"
    " learns more labels than methods with validation nodes do. In closed-set accuracy each method"
    " chooses among the known classes; in Micro-F1, “unknown” is wrong for a known class. The best"
    " of several settings is too optimistic on val; keep labels for a test to compare."
    " Columns of graphs with other labels are not comparable."
)
BELOW_CHANCE = (
    "unknown AUROC is below chance (50 %). The ranking of nodes by P(unknown) is wrong, so no"
    " threshold is right."
)

MEANINGS = {
    "hs": "harmonic mean of known accuracy and unknown recall.",
    SHARE: "share of the test nodes.",
}

# What happened to runs without a result.
LOST = {"failed": "failed", "unfinished": "did not finish", "unreadable": "cannot be read"}


def legend(table: Table, best: str, tied: str) -> list[str]:
    """What the numbers and marks in the tables of means are.

    Args:
        table: the printed comparison.
        best, tied: how the marks look.
    """
    out = [_on_spread(table), *_on_marks(table, best, tied)]
    if table.oracles:
        labels = "trained with labels that other rows lack; neither ranked nor marked"
        out.append(f"{listed(sorted(table.oracles))}: the oracle, {labels}.")
    if table.published:
        out.append(f"paper: Zhu et al. (2022), {table.published.title}, in %, mean ± std.")
    out += on_blind(table) + on_lost(table)
    out += [f"{name(key)}: {text}" for key, text in MEANINGS.items() if key in table.metrics]
    pairs = table.runs.drop_duplicates(["row", "column", "split", "seed"])
    if pairs.duplicated(["row", "column", "unit"]).any():
        out.append(
            "Tests, intervals and ranks use one mean per set of masked classes: there, n is"
            " the number of such sets."
        )
    if len(table.columns) > 1 and is_averaged(table):
        out.append("mean: over the columns, unweighted.")
    return out + _on_ranks(table, best, tied)


def _on_spread(table: Table) -> str:
    """What the deviations are, or that there are none."""
    runs = run_counts(table)
    if runs != 1:
        over = counted(runs, "run") if runs else "runs, whose number is in brackets"
        return f"std: {DEVIATIONS[table.ddof]} over {over}."
    if len(table.rows) == 1:
        return "One run per cell."
    needed = least_runs(table, _competitors(table))
    return f"One run per cell. For tests, run {needed} seeds of each experiment."


def _competitors(table: Table) -> int:
    """The number of rows that are no oracle."""
    return len({*table.rows} - table.oracles)


def _on_ranks(table: Table, best: str, tied: str) -> list[str]:
    """What the ranks are, and their tests if there is one column."""
    if not table.mean_ranks(table.metrics[0]):
        return []
    text = "Rank: mean over the splits of a column that all ranked rows have"
    text += ", then over the columns." if len(table.columns) > 1 else "."
    if rank_marks(table, table.metrics[0]):
        near = f"{best}: the best rank. {tied}: no significant difference from it"
        text += f" {near} (Nemenyi's test, which has less power than the tests of means)."
        for metric in table.metrics:
            for found in tested_ranks(table, metric).values():
                tests = f"Friedman's p = {found.friedman:.2g}, critical difference"
                text += f" {name(metric)}: {tests} {found.difference:.2f}"
                text += f" over {found.blocks} splits."
    return [text]


def remarks(table: Table, best: str = "*", tied: str = "°", warnings: bool = True) -> list[str]:
    """The :func:`legend`, then notes on tests and rows, and warnings.

    Args:
        table: the printed comparison.
        best, tied: how the marks look.
        warnings: whether to add the warnings of the runs, and :func:`on_known`.
    """
    out = legend(table, best, tied) + on_differences(table)
    if table.split == "val" and (table.runs["dataset.format"] == "file").any():
        out.append(ON_VAL)
    if warnings:
        out += on_known(table)
    out += on_chance(table) + _on_missing_numbers(table) + _on_settings(table) + _on_paper(table)
    if warnings:
        out += _on_warnings(table)
    return out


def _on_missing_numbers(table: Table) -> list[str]:
    """Why there is no interval, mean over columns or test of ranks, and what was left out."""
    out = []
    low = table.cells.loc[table.cells["runs"] > 0, "low"]
    if low.notna().any() and low.isna().any():
        out.append("An interval needs at least 2 runs.")
    why = why_not_averaged(table.runs)
    if why:
        out.append(f"No mean over the columns, neither of scores nor of ranks: {why}.")
    elif len(table.columns) > 1 and not is_averaged(table):
        out.append("No mean over the columns: some rows lack a column.")
    if any(math.isnan(ranking.difference) for ranking in table.rankings.values()):
        few = f"Fewer than {LEAST_BLOCKS} splits are too few for Friedman's and Nemenyi's tests"
        out.append(f"{few} of ranks, whose p-values would be inaccurate.")
    if table.left_out:
        count = counted(table.left_out, "run")
        out.append(f"Left out: {count} of the oracle, whose rows also have other methods.")
    return out


def _on_settings(table: Table) -> list[str]:
    """In which settings the runs of cells and columns differ."""
    out = []
    varying = sorted({key for cell in table.chosen for key in cell.keys.split()})
    if varying:
        keys = f"by {' '.join([*table.by, *varying])} (each setting)"
        if "config" not in table.by:
            keys = f"by config (each config), or {keys}"
        out.append(f"To see other settings, give them rows: {keys}.")
    if table.pooled:
        out.append(f"Some cells pool runs that differ in {', '.join(sorted(table.pooled))}.")
    if table.implied:
        keys = ", ".join(table.implied)
        out.append(f"Columns with other values of the keys in their names also differ in {keys}.")
    return out


def _on_paper(table: Table) -> list[str]:
    """Which rows stand beside no row of the paper, and why numbers may differ from its."""
    if not table.published:
        return []
    keys = listed(sorted(set().union(*table.published.variants.values())))
    others = [row for row in table.rows if row.endswith(OTHER_SETTINGS)]
    out = [f"{row}: no row of the paper has the same {keys}." for row in others]
    beside = [row for row in table.rows if row in table.published.numbers]
    for text, rows in reasons(beside).items():
        out.append(f"{listed(rows)} beside the paper: {text} See {DETAILS}.")
    if table.published is CLOSE_SET and (table.runs["dataset.name"] == "arxiv_like").any():
        out.append(SYNTHETIC)
    return out


def _on_warnings(table: Table) -> list[str]:
    """The warnings of the runs, with their numbers by row."""
    out = []
    every = counted(len(table.runs), "run")
    for text, rows in distinct_warnings(zip(table.runs["row"], table.runs["texts"])):
        of = ", ".join(f"{row}: {count}" for row, count in Counter(rows).items())
        out.append(f"Warning in {len(rows)} of {every} ({of}): {text}")
    return out


def on_known(table: Table) -> list[str]:
    """A note on the columns whose runs have an unknown class, but no test node of it."""
    found = columns_of_known(table.runs)
    if not found:
        return []
    text = f"{listed(found)}: {KNOWN_ONLY}"
    return [f"{text} No row is marked as the best." if len(table.rows) > 1 else text]


def on_blind(table: Table) -> list[str]:
    """A note on rows that do not compete because they recognise no node of an unknown class."""
    found = [_place(table, place) for place in sorted(blind(table.runs, table.split))]
    scores = listed([name(metric) for metric in table.metrics if metric in DECISIONS])
    if not found or not scores or len(table.rows) == 1:
        return []
    why = "unknown recall 0, so neither ranked nor marked as the best"
    return [f"{listed(found)}: {why} ({scores})."]


def on_chance(table: Table) -> list[str]:
    """A note on rows whose confidence ranks nodes of unknown classes above those of known ones."""
    score = f"{table.split}_unknown_auroc"
    runs = table.runs.reindex(columns=["row", "column", score])
    means = runs.groupby(["row", "column"], sort=False)[score].mean()
    found = [_place(table, place) for place in means.index[means < 0.5]]
    return [f"{listed(found)}: {BELOW_CHANCE}"] if found else []


def on_lost(table: Table) -> list[str]:
    """Notes on runs without a result."""
    out: list[str] = []
    absent: dict[str, list[Lost]] = {}
    for one in table.lost:
        if one.place is None:
            absent.setdefault(one.kind, []).append(one)
            continue
        count = f"{len(one.seeds)} of {counted(one.runs, 'run')} {LOST[one.kind]}"
        mean = "its mean is over the others"
        out.append(f"{_place(table, one.place)}: {count} ({seeds(one.seeds)}); {mean}.")
    for kind, every in absent.items():
        count = counted(sum(len(one.seeds) for one in every), "run")
        names = listed([one.experiment for one in every], 3)
        out.append(f"Not in the tables: {count} of {names} {LOST[kind]}.")
    return out


def _place(table: Table, place: Place) -> str:
    """A row, and its column if there are several."""
    return place[0] if len(table.columns) == 1 else " on ".join(place)


def on_differences(table: Table) -> list[str]:
    """What the numbers in the table of differences are."""
    if table.against is None:
        return []
    tested = table.cells[table.cells["p"] >= 0].groupby(["metric", "column"], sort=False).size()
    family = counted(int(tested.iloc[0]), "row") if tested.nunique() == 1 else "rows"
    n = pair_counts(table)
    test = f"{TESTS[table.test]}, Holm's correction over the {family} of a column"
    if table.test == "wilcoxon":
        test += f"; {ABSENT}: too few pairs for p ≤ {table.alpha:g}"
    return [
        f"Difference to {table.against}: mean over {counted(n, 'pair') if n else 'n pairs'}, in"
        f" square brackets Student's {percent(table)} interval (not corrected for the number of"
        f" rows), in parentheses the two-sided p ({test})."
    ]


def nemenyi(table: Table, ranking: Ranking) -> str:
    """Nemenyi's test of a column, with its level and the number of blocks."""
    return f"Nemenyi's test, α = {table.alpha:g}, over {counted(ranking.blocks, 'split')}"


def least_runs(table: Table, rows: int) -> int:
    """The number of runs from which a test can show differences between a number of rows."""
    return max(LEAST_BLOCKS, least_pairs(rows - 1, table.test, table.alpha))


def _undecided(table: Table, column: str) -> tuple[list[Any], int]:
    """Cells of a column with too few pairs to compare them with the best; the pairs needed."""
    others = _tested(table)
    others = others[others["column"] == column]
    cells = others[~_is_decided(others, table)].itertuples()
    most = max([1, *others.groupby("metric").size()])
    return list(cells), least_runs(table, 1 + most)


def _tested(table: Table) -> DataFrame:
    """The cells that were compared with the best of their column."""
    return table.cells[table.cells["pairs_best"].notna() & (table.cells["best"] == 0)]


def _is_decided(cells: DataFrame, table: Table) -> Any:
    """Whether the test of each cell had enough pairs."""
    return (cells["tied"] == 1) | (cells["p_best_holm"] <= table.alpha)


def _on_marks(table: Table, best: str, tied: str) -> list[str]:
    """What the marks mean, and which rows have too few pairs for a mark."""
    if not (table.cells["best"] == 1).any():
        none = "No row is marked as the best: no two competing rows have common splits."
        return [none] if _competitors(table) > 1 and not on_known(table) else []
    among = "" if run_counts(table) else " among rows with the same splits"
    text = f"{best}: the best mean of a column{among}."
    others = _tested(table)
    decided = others[_is_decided(others, table)]
    if len(decided):
        how = (
            f"(two-sided {TESTS[table.test]} on {_ends(decided['pairs_best'])} common splits and"
            " seeds, Holm's correction over the rows of a column)"
        )
        is_tied = (decided["tied"] == 1).any()
        if is_tied:
            text += f" {tied}: no significant difference from it, p > {table.alpha:g} {how}."
        text += _on_undecided(table, is_any_decided=True)
        if (decided["p_best_holm"] <= table.alpha).any():
            if is_tied:
                text += " Every other tested row without a mark differs significantly."
            else:
                text += " Every other tested row differs significantly,"
                text += f" p ≤ {table.alpha:g} {how}."
        return [text]
    return [text + _on_undecided(table, is_any_decided=False)]


def _on_undecided(table: Table, is_any_decided: bool) -> str:
    """The rows with too few pairs for a test."""
    found = [_undecided(table, column) for column in table.columns]
    cells = [cell for own, _ in found for cell in own]
    if not cells:
        return ""
    places = [_place(table, (cell.row, cell.column)) for cell in cells]
    if len(table.metrics) > 1:
        places = [f"{place} by {name(cell.metric)}" for place, cell in zip(places, cells)]
    rows = listed(places, 3) if is_any_decided or len(places) == 1 else "all others"
    pairs = _ends(cell.pairs_best for cell in cells)
    needed = _ends(needed for own, needed in found if own)
    return f" Undecided: {rows} (pairs: {pairs}, needed: {needed})."


def _ends(numbers: Iterable[int]) -> str:
    """``2 to 9`` of 2, 9 and numbers between them."""
    every = sorted({*numbers})
    return f"{every[0]} to {every[-1]}" if len(every) > 1 else str(every[0])


def findings(table: Table) -> list[str]:
    """The best mean of each column by the first metric, and rows that may be as good."""
    out = []
    cells = table.of(table.metrics[0])
    for column in table.columns:
        ranked = [cells[row, column] for row in table.rows if row not in table.oracles]
        best = [cell for cell in ranked if cell.best == 1]
        out += [_finding(table, cell, ranked) for cell in best]
        scored = [cell for cell in ranked if cell.runs > 0]
        if scored and not best:  # see on_known
            means = [f"{cell.row} {spread(cell.metric, cell)}" for cell in scored]
            out.append(f"{column}: {listed(means, 4)}.")
    return out + on_known(table) + on_blind(table) + on_lost(table) + on_chance(table)


def _finding(table: Table, best: Any, ranked: Sequence[Any]) -> str:
    """How the best cell of a column differs from the others."""
    others = [cell for cell in ranked if cell.best == 0]
    tied = [cell.row for cell in ranked if cell.tied == 1]
    among = "" if run_counts(table) else " of the rows with the same splits"
    score = f"{spread(best.metric, best)} over {counted(best.runs, 'run')}"
    text = f"{best.column}: {best.row} has the best mean{among}, {score}"
    if others and all(other.p_best_holm <= table.alpha for other in others):
        text += "; all other rows differ significantly"
    elif tied:
        text += f"; no significant difference: {listed(tied)}"
    cells, _ = _undecided(table, best.column)
    few = [cell.pairs_best for cell in cells if cell.metric == best.metric]
    if few and len(few) == sum(other.pairs_best >= 0 for other in others):
        return f"{text}. Too few pairs of runs for a test ({max(few)})."
    return f"{text}."

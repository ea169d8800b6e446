"""Sentences about a comparison: legend, notes below its tables, warnings and findings."""

from __future__ import annotations

from collections import Counter
from typing import Any, Sequence

from graphgym_srnc.core.text import counted, listed, seeds
from graphgym_srnc.io.stats import DEVIATIONS
from graphgym_srnc.report.arrange import DECISIONS, Place
from graphgym_srnc.report.compare import (
    Ranking,
    Table,
    blind,
    columns_of_known,
)
from graphgym_srnc.report.frame import distinct_warnings
from graphgym_srnc.report.paper import DETAILS
from graphgym_srnc.report.statistics import LEAST_BLOCKS, TESTS, least_pairs
from graphgym_srnc.report.tables import (
    name,
    pair_counts,
    percent,
    run_counts,
    spread,
)

KNOWN_ONLY = (
    "no test node is of an unknown class, so the scores measure known classes only. A node"
    " predicted as unknown counts as an error. With `num_unseen=1` and `num_test=100`, a"
    " labelled class of your own graph is hidden, so that both are scored. If every class has"
    " labels, set `open_set=False`."
)
ON_VAL = (
    "Scores on val are those of validation nodes, or of labels that SRNC+ held out in turn; then it"
    " learns more labels than methods with validation nodes do. In closed-set accuracy each method"
    " chooses among the known classes; in Micro-F1, “unknown” is wrong for a known class. The best"
    " of several settings is too optimistic on val; keep labels for a test to compare."
    " Columns of graphs with other labels are not comparable."
)
# What happened to runs without a result.
LOST = {"failed": "failed", "unfinished": "did not finish", "unreadable": "are unreadable"}


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
    pairs = table.runs.drop_duplicates(["row", "column", "split", "seed"])
    if pairs.duplicated(["row", "column", "unit"]).any():
        out.append(
            "Tests, intervals and ranks use one mean per set of masked classes: there, n is"
            " the number of such sets."
        )
    if table.mean_ranks(table.metrics[0]):
        out.append("Rank: mean over the splits that all ranked rows have, then over the columns.")
    return out


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
    if table.left_out:
        count = counted(table.left_out, "run")
        out.append(f"Left out: {count} of the oracle, whose rows also have other methods.")
    if table.pooled:
        out.append(f"Some cells pool runs that differ in {', '.join(sorted(table.pooled))}.")
    if table.published:
        out.append(f"Why numbers may differ from the paper's: {DETAILS}.")
    if warnings:
        out += _on_warnings(table)
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


def on_lost(table: Table) -> list[str]:
    """Notes on runs without a result."""
    out = []
    for kind, what in LOST.items():
        found = [
            f"{_place(table, one.place) if one.place else one.experiment}"
            f" ({len(one.seeds)} of {counted(one.runs, 'run')}, {seeds(one.seeds)})"
            for one in table.lost
            if one.kind == kind
        ]
        if found:
            out.append(f"Runs that {what}: {listed(found, 5)}. Means are over the others.")
    return out


def _place(table: Table, place: Place) -> str:
    """A row, and its column if there are several."""
    return place[0] if len(table.columns) == 1 else " on ".join(place)


def on_differences(table: Table) -> list[str]:
    """What the numbers in the table of differences are."""
    if table.against is None:
        return []
    n = pair_counts(table)
    return [
        f"Difference to {table.against}: mean over {counted(n, 'pair') if n else 'n pairs'}, in"
        f" square brackets Student's {percent(table)} interval (not corrected for the number of"
        f" rows), in parentheses the two-sided p ({TESTS[table.test]}, Holm's correction over the"
        " rows of a column)."
    ]


def nemenyi(table: Table, ranking: Ranking) -> str:
    """Nemenyi's test of a column, with its level and the number of blocks."""
    return f"Nemenyi's test, α = {table.alpha:g}, over {counted(ranking.blocks, 'split')}"


def least_runs(table: Table, rows: int) -> int:
    """The number of runs from which a test can show differences between a number of rows."""
    return max(LEAST_BLOCKS, least_pairs(rows - 1, table.test, table.alpha))


def _on_marks(table: Table, best: str, tied: str) -> list[str]:
    """What the marks mean, or why there are none."""
    if not (table.cells["best"] == 1).any():
        none = "No row is marked as the best: no two competing rows have common splits."
        return [none] if _competitors(table) > 1 and not on_known(table) else []
    needed = least_runs(table, _competitors(table))
    return [
        f"{best}: the best mean of a column among rows with the same splits. {tied}: no significant"
        f" difference from it, p > {table.alpha:g} (two-sided {TESTS[table.test]} on common splits"
        " and seeds, Holm's correction over the rows of a column). A row without a mark differs"
        f" significantly, or has fewer than {needed} splits and seeds in common with it."
    ]


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
    return out + on_known(table) + on_blind(table) + on_lost(table)


def _finding(table: Table, best: Any, ranked: Sequence[Any]) -> str:
    """How the best cell of a column differs from the others."""
    others = [cell for cell in ranked if cell.best == 0]
    tied = [cell.row for cell in others if cell.tied == 1]
    differ = [cell for cell in others if cell.p_best_holm <= table.alpha]
    score = f"{spread(best.metric, best)} over {counted(best.runs, 'run')}"
    text = f"{best.column}: {best.row} has the best mean of the rows with the same splits, {score}"
    if others and len(differ) == len(others):
        return f"{text}; all other rows differ significantly."
    if tied:
        return f"{text}; no significant difference: {listed(tied)}."
    return f"{text}. Too few pairs of runs for a test." if others and not differ else f"{text}."

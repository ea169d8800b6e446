"""Sentences about a comparison: legend, notes below its tables, warnings and findings."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Iterable

from graphgym_srnc.core.text import counted, listed, seeds
from graphgym_srnc.report.arrange import DECISIONS, OTHER_SETTINGS, SHARE, Place
from graphgym_srnc.report.compare import (
    Lost,
    Ranking,
    Table,
    blind,
    columns_of_known,
    is_one_kind,
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
    " predicted as unknown counts as an error. With file.num_unseen 1, a labelled class of your own"
    " graph is hidden, so that both are scored."
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
    runs = run_counts(table)
    over = counted(runs, "run") if runs else "runs, whose number is in brackets"
    out = [f"std: population standard deviation over {over} (n in the divisor)."]
    rivals = len({*table.rows} - table.oracles)
    if runs == 1:
        needed = least_runs(table, rivals)
        more = f" For tests, add --resume --repeat {needed} to each command `run`."
        out = ["One run per cell." + more * (len(table.rows) > 1)]
    if (table.cells["best"] == 1).any():
        out.append(_on_marks(table, best, tied))
    elif rivals > 1 and not on_known(table):
        out.append("No row is marked as the best: no two competing rows have common splits.")
    if table.oracles:
        labels = "trained with labels that other rows lack; neither ranked nor marked"
        out.append(f"{listed(sorted(table.oracles))}: the oracle, {labels}.")
    if table.published:
        out.append(f"paper: Zhu et al. (2022), {table.published.title}, in %, mean ± std.")
    out += on_blind(table) + on_lost(table)
    shown = (metric for metric in MEANINGS if metric in table.metrics)
    out += [f"{name(metric)}: {MEANINGS[metric]}" for metric in shown]
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
        if rank_marks(table, table.metrics[0]):
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
    out = legend(table, best, tied) + on_differences(table) + on_known(table) * warnings
    out += on_chance(table)
    if table.intervals and table.cells.loc[table.cells["runs"] > 0, "low"].isna().any():
        out.append("An interval needs at least 2 runs.")
    if not is_one_kind(table.runs):
        several = table.runs["dataset.format"].nunique() > 1
        why = "kinds of shift differ" if several else "only some runs have hidden classes"
        out.append(f"No mean over the columns, neither of scores nor of ranks: {why}.")
    elif len(table.columns) > 1 and not is_averaged(table):
        out.append("No mean over the columns: some rows lack a column.")
    if any(math.isnan(ranking.difference) for ranking in table.rankings.values()):
        few = f"Fewer than {LEAST_BLOCKS} splits are too few for Friedman's and Nemenyi's tests"
        out.append(f"{few} of ranks, whose p-values would be inaccurate.")
    if table.left_out:
        count = counted(table.left_out, "run")
        out.append(f"Left out: {count} of the oracle, whose rows also have other methods.")
    if varying := sorted({key for cell in table.chosen for key in cell.keys.split()}):
        by = " ".join([*table.by, *varying])
        of_config = "--by config (each config), or " * ("config" not in table.by)
        out.append(f"To see other settings, give them rows: {of_config}--by {by} (each setting).")
    if table.pooled:
        out.append(f"Some cells pool runs that differ in {', '.join(sorted(table.pooled))}.")
    if table.implied:
        keys = ", ".join(table.implied)
        out.append(f"Columns with other values of the keys in their names also differ in {keys}.")
    if table.published:
        keys = listed(sorted(set().union(*table.published.variants.values())))
        others = [row for row in table.rows if row.endswith(OTHER_SETTINGS)]
        out += [f"{row}: no row of the paper has the same {keys}." for row in others]
        beside = [row for row in table.rows if row in table.published.numbers]
        for text, rows in reasons(beside).items():
            out.append(f"{listed(rows)} beside the paper: {text} See {DETAILS}.")
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
    runs = table.runs.reindex(columns=["row", "column", score := f"{table.split}_unknown_auroc"])
    means = runs.groupby(["row", "column"], sort=False)[score].mean()
    found = listed([_place(table, place) for place in means.index[means < 0.5]])
    return [f"{found}: {BELOW_CHANCE}"] * bool(found)


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
    few = f"; {ABSENT}: too few pairs for p ≤ {table.alpha:g}" * (table.test == "wilcoxon")
    return [
        f"Difference to {table.against}: mean over {counted(n, 'pair') if n else 'n pairs'}, in"
        f" square brackets Student's {percent(table)} interval (not corrected for the number of"
        f" rows), in parentheses the two-sided p ({TESTS[table.test]}, Holm's correction over the"
        f" {family} of a column{few})."
    ]


def nemenyi(table: Table, ranking: Ranking) -> str:
    """Nemenyi's test of a column, with its level and the number of blocks."""
    return f"Nemenyi's test, α = {table.alpha:g}, over {counted(ranking.blocks, 'split')}"


def least_runs(table: Table, rows: int) -> int:
    """The number of runs from which a test can show differences between a number of rows."""
    return max(LEAST_BLOCKS, least_pairs(rows - 1, table.test, table.alpha))


def _undecided(table: Table, column: str) -> tuple[list[Any], int]:
    """Cells of a column with too few pairs to compare them with the best; the pairs needed."""
    cells = table.cells[(table.cells["column"] == column) & table.cells["pairs_best"].notna()]
    others = cells[cells["best"] == 0].groupby("metric").size()
    decided = (cells[["best", "tied"]] == 1).any(axis=1) | (cells["p_best_holm"] <= table.alpha)
    return list(cells[~decided].itertuples()), least_runs(table, 1 + max([1, *others]))


def _on_marks(table: Table, best: str, tied: str) -> str:
    """What the marks mean, and which rows have too few pairs for a mark."""
    others = table.cells[table.cells["pairs_best"].notna() & (table.cells["best"] == 0)]
    decided = others[(others["tied"] == 1) | (others["p_best_holm"] <= table.alpha)]["pairs_best"]
    found = [_undecided(table, column) for column in table.columns]
    open_cells = [cell for cells, _ in found for cell in cells]
    fewer = " among rows with the same splits" * (run_counts(table) is None)
    text, rest = f"{best}: the best mean of a column{fewer}.", ""
    if len(decided):
        how = (
            f"(two-sided {TESTS[table.test]} on {_ends(decided)} common splits and seeds, Holm's"
            " correction over the rows of a column)"
        )
        if (others["p_best_holm"] <= table.alpha).any():
            rest = f" Every other tested row differs significantly, p ≤ {table.alpha:g} {how}."
        if (others["tied"] == 1).any():
            text += f" {tied}: no significant difference from it, p > {table.alpha:g} {how}."
            rest = rest and " Every other tested row without a mark differs significantly."
    if open_cells:
        several = len(table.metrics) > 1
        places = [
            _place(table, (cell.row, cell.column)) + f" by {name(cell.metric)}" * several
            for cell in open_cells
        ]
        rows = listed(places, 3) if len(decided) or len(places) == 1 else "all others"
        pairs = _ends([cell.pairs_best for cell in open_cells])
        needed = _ends([needed for cells, needed in found if cells])
        text += f" Undecided: {rows} (pairs: {pairs}, needed: {needed})."
    return text + rest


def _ends(numbers: Iterable[int]) -> str:
    """``2 to 9`` of 2, 9 and numbers between them."""
    every = sorted({*numbers})
    return " to ".join(map(str, dict.fromkeys((every[0], every[-1]))))


def findings(table: Table) -> list[str]:
    """The best mean of each column by the first metric, and rows that may be as good."""
    metric, out = table.metrics[0], []
    cells = table.of(metric)
    for column in table.columns:
        ranked = {row: cells[row, column] for row in table.rows if row not in table.oracles}
        tied = [row for row, cell in ranked.items() if cell.tied == 1]
        others = [cell for cell in ranked.values() if cell.best == 0]
        few = [cell.pairs_best for cell in _undecided(table, column)[0] if cell.metric == metric]
        for row, cell in ranked.items():
            if cell.best == 1:
                text = f"{spread(metric, cell)} over {counted(cell.runs, 'run')}"
                near = f"; no significant difference: {listed(tied)}" if tied else ""
                if others and all(other.p_best_holm <= table.alpha for other in others):
                    near = "; all other rows differ significantly"
                among = " of the rows with the same splits" * (run_counts(table) is None)
                text = f"{column}: {row} has the best mean{among}, {text}{near}."
                if few and len(few) == sum(other.pairs_best >= 0 for other in others):
                    text += f" Too few pairs of runs for a test ({max(few)})."
                out.append(text)
        if not any(cell.best == 1 for cell in ranked.values()):  # see on_known
            means = [
                f"{row} {spread(metric, cell)}" for row, cell in ranked.items() if cell.runs > 0
            ]
            out += [f"{column}: {listed(means, 4)}."] * bool(means)
    return out + on_known(table) + on_blind(table) + on_lost(table) + on_chance(table)

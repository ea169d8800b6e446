"""Results in sentences: remarks below a comparison, and its findings."""

from __future__ import annotations

import math
from datetime import datetime, timezone

from graphgym_srnc.core.text import LAYERS, METHODS, counted, listed, seeds
from graphgym_srnc.report import grid
from graphgym_srnc.report.compare import Ranking, Table
from graphgym_srnc.report.layout import LESS, Setting
from graphgym_srnc.report.read import Collection
from graphgym_srnc.report.statistics import TESTS

SIGNS = {"": "", "best": "*", "tied": "°"}
"""Marks of a cell in plain text."""


def remarks(
    table: Table, best: str = SIGNS["best"], tied: str = SIGNS["tied"], settings: bool = True
) -> list[str]:
    """Notes on marks, tests, ranks, warnings and chosen settings.

    Args:
        table: what is printed.
        best, tied: how the marks look.
        settings: whether to tell the setting of each cell for which there was a choice.
    """
    out = ["Mean ± population standard deviation over runs (n in the divisor)."]
    if any(cell.best for cell in table.cells.values()):
        out.append(
            f"{best}: the best mean of a column; {tied}: no significant difference from"
            f" it, p > {table.alpha:g} ({TESTS[table.test]} on common splits and seeds,"
            " Holm's correction over the rows of a column)."
        )
    if any(len(set(cell.units.values())) < len(cell.units) for cell in table.cells.values()):
        out.append(
            "Tests, intervals and ranks use one mean per set of masked classes: there, n is"
            " the number of such sets."
        )
    out += _on_tests(table)
    out += [_on_ranks(metric, ranking) for metric, ranking in table.rankings.items()]
    if table.oracles:
        out.append(f"{', '.join(sorted(table.oracles))}: the oracle, neither ranked nor marked.")
    if table.layout.pooled:
        out.append(f"Some cells pool runs that differ in {', '.join(sorted(table.layout.pooled))}.")
    for row in table.rows:
        warned = [run.warned for run in table.layout.of_row(row)]
        told = f"{row}: {sum(warned)} of {len(warned)} runs gave a warning; see result.json."
        out += [told] * any(warned)
    if table.published:
        out.append(f"paper: {table.published.title}, in %, mean ± standard deviation.")
    out += table.cautions
    chosen = {place: setting for place, setting in table.settings.items() if setting.tried > 1}
    if chosen:
        chosen_by = grid.name(table.selector)
        out.append(
            f"Settings are chosen for each row and column by the mean {chosen_by}"
            " on validation, among the settings with the most runs:"
        )
    return out + [
        f"{row} on {column}: {_on_setting(setting)}"
        for (row, column), setting in chosen.items()
        if settings
    ]


def _on_tests(table: Table) -> list[str]:
    """Limits of the paired tests, and how to read differences."""
    out = []
    pairs = [
        cell.pairs
        for (_, row, _), cell in table.cells.items()
        if not cell.best and row not in table.oracles and len(table.rows) > 1
    ]
    if any(count < 2 for count in pairs):
        out.append(
            "A row that shares fewer than 2 splits and seeds with the best one is not tested"
            " and has no mark."
        )
    pairs += [one.pairs for one in table.comparisons.values()]
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
    best = min(ranking.ranks, key=ranking.ranks.__getitem__)
    clique = next((clique for clique in ranking.cliques[:1] if best in clique), [best])
    near = ", ".join(row for row in clique if row != best)
    found = f"{best} differs significantly from all others"
    if near:
        found = f"no significant difference from {best}: {near}"
    p = "" if math.isnan(ranking.friedman) else f" Friedman's test: p = {ranking.friedman:.2g}."
    over = (
        f"Rank by {grid.name(metric)}: mean over {counted(ranking.blocks, 'split')} that all"
        " ranked rows have."
    )
    if ranking.blocks < 2:
        return f"{over} Ranks of one split cannot be tested."
    return f"{over}{p} Nemenyi's critical difference: {ranking.difference:.2f}; {found}."


def _on_setting(setting: Setting) -> str:
    fewer = f" ({setting.fewer} with fewer runs left out)" if setting.fewer else ""
    score = "" if math.isnan(setting.validation) else f", validation {100 * setting.validation:.1f}"
    return f"best of {setting.tried} settings{fewer}{score}: {setting}"


def summary(found: Collection) -> list[str]:
    """What was run."""
    results = [result for own in found.results.values() for result in own.values()]
    methods, data, encoders = (
        sorted({names.get(result[key], result[key]) for result in results})
        for key, names in (("method", METHODS), ("task", {}), ("backbone", LAYERS))
    )
    times = [moment for experiment in found.experiments for moment in experiment.times]
    first, last = (
        datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M")
        for moment in (min(times), max(times))
    )
    minutes = sum(result["seconds"] for result in results) / 60
    return [
        f"This page shows {counted(len(found.runs), 'finished run')} of"
        f" {counted(len(found.results), 'experiment')}: {counted(len(methods), 'method')}"
        f" ({listed(methods)}) on {counted(len(data), 'data set')} ({listed(data)}), with"
        f" {counted(len(encoders), 'backbone')} ({listed(encoders)}).",
        "A run trains one method once. Its seed determines the initial weights. Unless the config"
        " fixes the split, the seed also determines which classes are hidden and which nodes are"
        f" labelled. The runs have {seeds(result['seed'] for result in results)}; runs on the same"
        " split are compared in pairs.",
        f"Results were written {f'from {first} to {last}' if first < last else f'on {first}'}"
        " (UTC).",
        f"All runs together took {minutes / 60:.1f} hours."
        if minutes >= 90
        else f"All runs together took {minutes:.1f} minutes.",
    ]


def findings(table: Table) -> list[str]:
    """The best row of each column by the first metric, and rows that may be as good."""
    metric, out = table.metrics[0], []
    for column in table.columns:
        cells = {
            row: table.cells[metric, row, column]
            for row in table.rows
            if (metric, row, column) in table.cells
        }
        told = {
            row: f"{grid.spread(metric, cell)} over {counted(cell.runs, 'run')}"
            for row, cell in cells.items()
        }
        best = next((row for row, cell in cells.items() if cell.best), None)
        if best is None:
            out += [f"{column}: {row} has {text}." for row, text in told.items()]
            continue
        sign = -1 if metric in LESS else 1
        above = [row for row, cell in cells.items() if sign * cell.mean > sign * cells[best].mean]
        few = [
            row
            for row, cell in cells.items()
            if row not in (best, *above) and 2.0 ** (1 - cell.pairs) > table.alpha
        ]
        tied = [row for row, cell in cells.items() if cell.tied and row not in few]
        parts = {
            "the oracle is above it: ": above,
            "no significant difference: ": tied,
            "too few common runs for a test: ": few,
        }
        others = (text + listed(rows) for text, rows in parts.items() if rows)
        out.append("; ".join([f"{column}: {best} is best with {told[best]}", *others]) + ".")
    return out

"""Results as one self-contained HTML page: tables with tests, charts, warnings, settings.

Results may come from a stranger. Their text is escaped, only PNG files of limited size are
included, and links are not followed. All prose is in the template ``page.html``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from graphgym_srnc.core.text import counted, plain, seeds
from graphgym_srnc.report import compare, html, pictures, summary, tables
from graphgym_srnc.report.frame import Collection

CONFIGS = 100
"""Maximum number of experiments whose whole config is on the page."""

DEFAULT = ("micro_f1", "macro_recall", "unknown_recall", "unknown_precision", "unknown_auroc")
"""Scores that are compared by default, if they exist."""


def render(
    found: Collection,
    metrics: Sequence[str] = (),
    against: str | None = None,
    paper: str | None = None,
) -> str:
    """The page of all finished runs.

    Args:
        found: result of :func:`graphgym_srnc.report.frame.collect`.
        metrics: scores to compare; default: those of ``DEFAULT`` that exist.
        against: the row that the others are tested against; default: the one with the best mean
            rank.
        paper: one of ``paper.TABLES`` to show beside ours.

    Raises:
        InputError: an unknown metric, row or table; no pairs with the chosen row.
    """
    metrics = metrics or [metric for metric in DEFAULT if f"test_{metric}" in found.runs]
    names = [plain(folder.name or folder) for folder in found.folders]
    row = against or _best(compare.table(found.runs, metrics, paper=paper))
    table = compare.table(found.runs, metrics, against=row, paper=paper, intervals=True)
    experiments = [experiment for experiment in found.experiments if experiment.results]
    rows = {one.name: summary.summarise(one.name, one.results) for one in experiments}
    experiments.sort(key=lambda one: (one.first["task"], -rows[one.name].get("micro_f1", 0)))
    return html.fill(
        Path(__file__).with_name("page.html"),
        **pictures.galleries(table, found),
        title=plain(f"Node classification under shift: {', '.join(names)}"),
        tables=tables,
        summary=summary,
        table=table,
        picked=against is None,
        found=found,
        experiments=experiments,
        rows=[rows[one.name] for one in experiments],
        whole=experiments[:CONFIGS],
        drawn=tables.name(table.selector),
        runs=counted(len(found.runs), "finished run"),
        count=counted(len(experiments), "experiment"),
        seeds=seeds(found.runs["seed"]),
        selections=sorted({plain(rule) for rule in found.runs["selection"]}),
        of_a_kind=pictures.OF_A_KIND,
    )


def _best(table: compare.Table) -> str | None:
    """The row with the best mean rank, if ranks can be tested."""
    ranking = table.rankings.get(table.metrics[0])
    if ranking is None or ranking.blocks < 2:
        return None
    return min(ranking.ranks, key=ranking.ranks.__getitem__)

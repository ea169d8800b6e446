"""Results as one HTML page that needs nothing beside it: tables with their tests, charts, warnings,
settings.

Results may be a stranger's: their text is escaped, pictures are taken only where they are PNG files
of sane size, and no link is followed. The template ``page.html`` holds the prose that is the same
on every page.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Mapping, Sequence

from graphgym_srnc.core.text import METHODS, plain
from graphgym_srnc.report import (
    compare,
    grid,
    html,
    pictures,
    run_tables,
    score_tables,
    sentences,
    statistics,
)
from graphgym_srnc.report.paper import TABLES
from graphgym_srnc.report.read import COSTS, Collection, Experiment, Run

CONFIGS = 100
"""Experiments whose whole config is on the page."""

MEANING = {
    "micro_f1": "share of test nodes with the correct class, also called accuracy. “unknown” is"
    " correct for a node of an unseen class.",
    "macro_recall": "share of correct predictions in each class, averaged over classes: a small"
    " class counts as much as a large one. The paper calls it Macro-F1.",
    "macro_f1": "F1 of each class (the harmonic mean of its recall and precision), averaged over"
    " classes.",
    "unknown_recall": "share of the nodes of unseen classes that are predicted as unknown.",
    "unknown_precision": "share of the nodes predicted as unknown that belong to an unseen class.",
    "unknown_auroc": "probability that a node of an unseen class has a lower confidence than a node"
    " of a known class, for any threshold; 50 % is random.",
    "unknown_aupr": "average precision of finding nodes of unseen classes, over all thresholds.",
    "unknown_fpr95": "share of the nodes of unseen classes that are accepted as known at the"
    " threshold that accepts 95 % of the known nodes; lower is better.",
    "known_accuracy": "share of the nodes of known classes with the correct class.",
    "known_recall": "share of correct predictions in each known class, averaged over classes"
    " (OS*).",
    "hs": "harmonic mean of known accuracy and unknown recall: high only if both are high.",
    "oscr": "probability that a node of a known class has the correct class and a higher confidence"
    " than a node of an unseen class, for any threshold.",
    "seconds": "wall-clock time of a run; lower is better.",
    "peak_memory_mib": "peak memory of a run; lower is better.",
    "params": "number of trainable weights; lower is better.",
}
"""What scores mean, to somebody who has not met them."""

DEFAULT = ("micro_f1", "macro_recall", "unknown_recall", "unknown_precision", "unknown_auroc")
"""Scores to compare, where there are such."""

SELECTION = {
    "target_val": "the one with the best Micro-F1 on labelled validation nodes of the target",
    "source_val": "the one with the best Micro-F1 on held-out labelled nodes of the source",
    "target_modularity": "the one whose predicted classes have the best modularity on the target,"
    " which needs no label",
    "last": "the last one",
}
"""Which episode counts, by ``train.selection``."""


def render(
    found: Collection,
    metrics: Sequence[str] = (),
    against: str | None = None,
    title: str = "",
    paper: str | None = None,
    about: Mapping[str, str] | None = None,
) -> str:
    """The page of all finished runs.

    Args:
        found: what :func:`graphgym_srnc.report.read.collect` gives.
        metrics: scores to compare; default: those of ``DEFAULT`` that there are.
        against: the row that the others are tested against; default: the one with the best mean
            rank.
        title: of the page; default: the names of the folders.
        paper: one of ``paper.TABLES`` to put beside ours, or ``none``; default: the one that most
            runs stand beside.
        about: a sentence on each method and shift, by name.

    Raises:
        InputError: an unknown metric, row or table; no pairs with the chosen row.
    """
    published = None if paper == "none" else paper or fitting(found.runs)
    scored = {metric for run in found.runs for metric in run.scores["test"]}
    metrics = metrics or [metric for metric in DEFAULT if metric in scored]
    table = compare.table(found.runs, metrics, paper=published, intervals=True)
    tested = _tested(found.runs, table, against, published)
    score = next((metric for metric in table.metrics if metric not in COSTS), "micro_f1")
    experiments = [experiment for experiment in found.experiments if experiment.results]
    recorded = {
        metric
        for own in found.results.values()
        for result in own.values()
        for metric in result["test"]
    }
    names = [plain(folder.name or folder) for folder in found.folders]
    again = [
        "graphgym-srnc",
        "report",
        *names,
        "--metric",
        *table.metrics,
        *(["--paper", paper] if paper else []),
        *(["--against", against] if against else []),
    ]
    return html.fill(
        Path(__file__).with_name("page.html"),
        **pictures.galleries(table, found, score),
        title=plain(title or f"Node classification under shift: {', '.join(names)}"),
        summary=sentences.summary(found),
        findings=sentences.findings(table),
        notes=sentences.remarks(table, "Bold", "underlined", settings=False),
        about=_about(experiments, about or {}),
        selections=_selections(experiments),
        meanings=_meanings({*table.metrics, *recorded}, table.metrics),
        scores=score_tables,
        runs=run_tables,
        table=table,
        tested=tested,
        found=found,
        experiments=experiments,
        whole=experiments[:CONFIGS],
        picked=against is None,
        recorded=[metric for metric in MEANING if metric in recorded],
        beside=dict.fromkeys(metric for (metric, *_), cell in table.cells.items() if cell.paper),
        drawn=grid.name(score),
        first=grid.title(table, table.metrics[0]),
        names=list(map(grid.name, table.metrics)),
        test=statistics.TESTS[table.test],
        again=shlex.join(again),
        most=pictures.MOST,
        of_a_kind=pictures.OF_A_KIND,
    )


def fitting(runs: Sequence[Run]) -> str | None:
    """The table of the paper that most runs stand beside, if any do."""
    fits = {
        name: sum(
            {*table.metrics} <= run.scores["test"].keys()
            and table.row_of(run.facts) is not None
            and table.column_of(run.facts) is not None
            for run in runs
        )
        for name, table in TABLES.items()
    }
    best = max(fits, key=fits.__getitem__)
    return best if fits[best] else None


def _tested(
    runs: Sequence[Run], table: compare.Table, against: str | None, published: str | None
) -> compare.Table | None:
    """The comparison tested against a row, by default the one with the best mean rank, if any."""
    if against is None:
        ranking = next(iter(table.rankings.values()), None)
        if ranking is None or ranking.blocks < 2:
            return None
        against = min(ranking.ranks, key=ranking.ranks.__getitem__)
    return compare.table(runs, table.metrics, against=against, paper=published)


def _about(
    experiments: Sequence[Experiment], about: Mapping[str, str]
) -> dict[str, list[tuple[str, str]]]:
    """The sentences on the methods and shifts that the experiments have."""
    used = {
        "Methods": {experiment.first["method"] for experiment in experiments},
        "Kinds of shift": {
            experiment.first["config"]["dataset"]["format"] for experiment in experiments
        },
    }
    return {
        head: [
            (METHODS.get(name, name), plain(about[name])) for name in sorted(own) if name in about
        ]
        for head, own in used.items()
    }


def _selections(experiments: Sequence[Experiment]) -> list[str]:
    """Which episode of a run counts."""
    used = {
        (result["selection"], result["config"].get("metric_best", "auto"))
        for experiment in experiments
        for result in experiment.results.values()
    }
    return sorted(
        {
            SELECTION.get(rule, plain(rule)).replace(
                "Micro-F1",
                "Micro-F1" if score in ("auto", "accuracy", "micro_f1") else plain(score),
            )
            for rule, score in used
        }
    )


def _meanings(shown: set[str], compared: Sequence[str]) -> list[tuple[str, str]]:
    """Names of scores with their meaning; those without one last, if they are compared."""
    metrics = [
        *(metric for metric in MEANING if metric in shown),
        *(metric for metric in compared if metric not in MEANING),
    ]
    return [(grid.name(metric), MEANING.get(metric, "")) for metric in metrics]

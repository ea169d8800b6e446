"""Results as one self-contained HTML page: tables with tests, charts, warnings, settings.

Results may come from a stranger. Their text is escaped, only PNG files of limited size are
included, and links are not followed. All prose is in the template ``page.html``.
"""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

import pandas

from graphgym_srnc.core.text import LAYERS, METHODS, counted, listed, plain, seeds
from graphgym_srnc.report import compare, html, pictures, summary, tables
from graphgym_srnc.report.frame import COSTS, Collection, Experiment
from graphgym_srnc.report.paper import TABLES
from graphgym_srnc.report.statistics import TESTS

CONFIGS = 100
"""Maximum number of experiments whose whole config is on the page."""

DEFAULT = ("micro_f1", "macro_recall", "unknown_recall", "unknown_precision", "unknown_auroc")
"""Scores that are compared by default, if they exist."""


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
        found: result of :func:`graphgym_srnc.report.frame.collect`.
        metrics: scores to compare; default: those of ``DEFAULT`` that exist.
        against: the row that the others are tested against; default: the one with the best mean
            rank.
        title: title of the page; default: the names of the folders.
        paper: one of ``paper.TABLES`` to show beside ours, or ``none``; default: the one that
            matches most runs.
        about: a sentence on each method and shift, by name.

    Raises:
        InputError: an unknown metric, row or table; no pairs with the chosen row.
    """
    published = None if paper == "none" else paper or fitting(found.runs)
    metrics = metrics or [metric for metric in DEFAULT if f"test_{metric}" in found.runs]
    table = compare.table(found.runs, metrics, paper=published, intervals=True)
    experiments = [experiment for experiment in found.experiments if experiment.results]
    results = [result for own in found.results.values() for result in own.values()]
    recorded = {metric for result in results for metric in result["test"]}
    score = next((metric for metric in table.metrics if metric not in COSTS), "micro_f1")
    names = [plain(folder.name or folder) for folder in found.folders]
    words = ["graphgym-srnc", "report", *names, "--metric", *table.metrics]
    words += ["--paper", paper] if paper else []
    words += ["--against", against] if against else []
    return html.fill(
        Path(__file__).with_name("page.html"),
        **pictures.galleries(table, found, score),
        title=plain(title or f"Node classification under shift: {', '.join(names)}"),
        tables=tables,
        summary=summary,
        table=table,
        tested=_tested(found.runs, table, against, published),
        picked=against is None,
        found=found,
        experiments=experiments,
        whole=experiments[:CONFIGS],
        recorded=[metric for metric in tables.METRICS if metric in recorded],
        beside=list(dict.fromkeys(table.cells.loc[table.cells["paper_mean"].notna(), "metric"])),
        drawn=tables.name(score),
        test=TESTS[table.test],
        again=shlex.join(words),
        facts=_facts(found, results),
        about=_about(experiments, about or {}),
        most=pictures.MOST,
        of_a_kind=pictures.OF_A_KIND,
    )


def fitting(runs: pandas.DataFrame) -> str | None:
    """The table of the paper that matches most runs, if one matches any."""
    counts = runs["digest"].value_counts()
    fits = dict.fromkeys(TABLES, 0)
    for run in runs.drop_duplicates("digest").to_dict("records"):
        facts = {key: value for key, value in run.items() if value == value}
        for name, table in TABLES.items():
            is_scored = all(f"test_{metric}" in facts for metric in table.metrics)
            if is_scored and table.row_of(facts) and table.column_of(facts):
                fits[name] += counts[run["digest"]]
    best = max(fits, key=fits.__getitem__)
    return best if fits[best] else None


def _tested(
    runs: pandas.DataFrame, table: compare.Table, against: str | None, published: str | None
) -> compare.Table | None:
    """The comparison with tests against a row, by default the one with the best mean rank."""
    if against is None:
        ranking = next(iter(table.rankings.values()), None)
        if ranking is None or ranking.blocks < 2:
            return None
        against = min(ranking.ranks, key=ranking.ranks.__getitem__)
    return compare.table(runs, table.metrics, against=against, paper=published)


def _facts(found: Collection, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The numbers and names of the first paragraphs."""

    def named(key: str, noun: str, names: Mapping[str, str]) -> str:
        values = sorted({names.get(result[key], result[key]) for result in results})
        return f"{counted(len(values), noun)} ({listed(values)})"

    times = [moment for experiment in found.experiments for moment in experiment.times]
    usual = ("auto", "accuracy", "micro_f1")
    chosen = {(one["selection"], one["config"].get("metric_best", "auto")) for one in results}
    return {
        "runs": counted(len(found.runs), "finished run"),
        "experiments": counted(len(found.results), "experiment"),
        "methods": named("method", "method", METHODS),
        "data": named("task", "data set", {}),
        "backbones": named("backbone", "backbone", LAYERS),
        "seeds": seeds(result["seed"] for result in results),
        "times": [
            datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M")
            for moment in (min(times), max(times))
        ],
        "minutes": sum(result["seconds"] for result in results) / 60,
        # Only the rules that compare scores depend on the metric.
        "selections": sorted(
            {
                (plain(rule), "Micro-F1" if score in usual else plain(score))
                if rule.endswith("_val")
                else (plain(rule), "")
                for rule, score in chosen
            }
        ),
    }


def _about(
    experiments: Iterable[Experiment], about: Mapping[str, str]
) -> dict[str, list[tuple[str, str]]]:
    """The sentences on the methods and shifts of the experiments."""
    used: dict[str, set[str]] = {"Methods": set(), "Kinds of shift": set()}
    for experiment in experiments:
        used["Methods"].add(experiment.first["method"])
        used["Kinds of shift"].add(experiment.first["config"]["dataset"]["format"])
    return {
        head: [
            (METHODS.get(name, name), plain(about[name])) for name in sorted(own) if name in about
        ]
        for head, own in used.items()
    }

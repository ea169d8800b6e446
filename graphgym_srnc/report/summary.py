"""Tables of runs: the summary of an experiment, the runs of a page, and the shift of a task."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence, TextIO

import yaml

from graphgym_srnc.core.text import (
    clean,
    counted,
    escape_markdown,
    method_name,
    plain,
    seeds,
)
from graphgym_srnc.core.text import to_csv as csv_of
from graphgym_srnc.io import atomic, records
from graphgym_srnc.report import render
from graphgym_srnc.report.frame import Experiment
from graphgym_srnc.report.statistics import mean_std
from graphgym_srnc.report.tables import ABSENT, METRICS, Box, Grid, boxes, name

SCORES = tuple(METRICS)[: tuple(METRICS).index("seconds")]
"""Scores of a summary."""

SHOWN = (*SCORES[:5], "unknown_auroc")
"""Scores of a printed summary, beside a user's own."""

SELECTED = {
    "target_val": "",  # the line says its validation score
    "source_val": ", best on held-out source nodes",
    "target_modularity": ", best by modularity",
    "last": ", the last",
}
"""Why an episode is the selected one, by ``train.selection``."""

Row = dict[str, Any]


def summarise(name: str, results: Mapping[int, records.Result]) -> Row:
    """The scores of an experiment, ``<metric>`` and ``<metric>_std``, as fractions.

    Args:
        name: name of the experiment.
        results: its finished runs by seed, at least one.
    """
    every = list(results.values())
    row: Row = {
        "name": name,
        "method": clean(every[0].get("method", "")),
        "backbone": clean(every[0].get("backbone", "")),
        "runs": len(every),
        "warned": sum(bool(result.get("warnings")) for result in every),
    }
    if sentences := verdicts(results):
        row["verdict"] = sentences
    # In open-set shift without unknown test nodes there is a score of known nodes, but no recall.
    tests = [result.get("test", {}) for result in every]
    if all("known_accuracy" in test and "unknown_recall" not in test for test in tests):
        is_own = every[0].get("config", {}).get("dataset", {}).get("format") == "file"
        row["untested"] = "no test node is of an unknown class: scores measure known classes only."
        row["untested"] += " If every class has labels, set file.open_set False." * is_own
    for metric in dict.fromkeys((*SCORES, *own_scores(every))):
        if values := [test[metric] for test in tests if metric in test]:
            row[metric], row[f"{metric}_std"] = mean_std(values)
    return row


def own_scores(results: Iterable[records.Result]) -> list[str]:
    """Names of a user's own metrics (``custom_metrics``) among the test scores, sorted."""
    found = {
        name
        for result in results
        for name in result.get("test", {})
        if name in result.get("config", {}).get("custom_metrics", ())
    }
    return sorted(found - {*SCORES})


def verdicts(results: Mapping[int, records.Result]) -> list[str]:
    """The topics of verdicts, with the number of runs and the sentence of the first one."""
    found: dict[str, list[str]] = {}
    for _, result in sorted(results.items()):
        for kind, sentence in (result.get("verdict") or {}).get("sentences", {}).items():
            found.setdefault(clean(kind), []).append(clean(sentence))
    runs = counted(len(results), "run")
    return [f"{kind}, {len(texts)} of {runs}: {texts[0]}" for kind, texts in found.items()]


def line(result: records.Result) -> str:
    """A run in one line."""
    test = {key: f"{100 * value:.1f}" for key, value in result["test"].items()}
    text = (
        f"seed {result['seed']}: kept episode {result['selected']} of"
        f" {len(result['history']) - 1}{SELECTED.get(result.get('selection', ''), '')} (validation"
        f" {100 * result['val']['micro_f1']:.1f} %): test Micro-F1 {test['micro_f1']}"
    )
    if "macro_recall" in test:  # GraphGym's own training may be asked for other metrics
        text += f", macro recall {test['macro_recall']}"
    if "unknown_recall" in test:
        text += f", unknown recall {test['unknown_recall']}, precision {test['unknown_precision']}"
    if "hs" in test:
        text += f", HS {test['hs']}"
    for metric in own_scores([result]):
        text += f", {clean(metric)} {result['test'][metric]:.4g}"
    return f"{text}, {result['seconds']:.1f} s"


def notes(rows: Sequence[Row]) -> list[str]:
    """Notes on the spread, warnings and verdicts."""
    spread = ", mean ± population standard deviation over runs (n in the divisor)"
    out = ["Test scores in %" + spread * any(row["runs"] > 1 for row in rows) + "."]
    out += [f"{row['name']}: {row['untested']}" for row in rows if "untested" in row]
    out += [
        f"{row['name']}: {row['warned']} of {counted(row['runs'], 'run')} gave a warning, stored in"
        f" {row['name']}/<seed>/result.json."
        for row in rows
        if row["warned"]
    ]
    return out + [f"{row['name']}: {text}" for row in rows for text in row.get("verdict", ())]


def grid(rows: Sequence[Row]) -> Grid:
    """The printed columns of a summary, without scores that no row has."""
    scored = dict.fromkeys(key for row in rows for key in row if f"{key}_std" in row)
    own = [key for key in scored if key not in SCORES]
    shown = [key for key in SHOWN if key in scored]

    def score(row: Row, key: str) -> str:
        if key not in row:
            return ABSENT
        # The unit of a user's own metric is unknown.
        factor, form = (1, ".4g") if key in own else (100, ".1f")
        std = f" ± {factor * row[f'{key}_std']:{form}}" if row["runs"] > 1 else ""
        return f"{factor * row[key]:{form}}{std}"

    def line(row: Row) -> list[Box]:
        facts = row["name"], method_name(row["method"], row["backbone"]), row["runs"]
        return boxes(*facts, *(score(row, key) for key in (*shown, *own)))

    heads = [*map(name, shown), *(f"{key} (not in %)" for key in own)]
    return Grid("", ["experiment", "method", "runs", *heads], list(map(line, rows)))


def to_markdown(rows: Sequence[Row]) -> str:
    """A Markdown table with its notes below."""
    below = "".join(f"{escape_markdown(note)}\n" for note in notes(rows))
    return render.markdown_table(grid(rows)) + below


def to_csv(rows: Sequence[Row]) -> str:
    """All numbers as fractions, in full precision."""
    keys = dict.fromkeys(key for row in rows for key in row if key not in ("untested", "verdict"))
    return csv_of([keys, *([row.get(key) for key in keys] for row in rows)])


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write ``summary.csv`` and ``summary.md`` into a directory."""
    atomic.write_text(path / "summary.csv", to_csv(rows))
    atomic.write_text(path / "summary.md", to_markdown(rows))


def show(rows: Sequence[Row], out: TextIO) -> None:
    """Print a summary."""
    render.show([grid(rows)], notes(rows), out)


def show_shift(summary: Mapping[str, Any], out: TextIO | None = None) -> None:
    """Print the description of a task that ``data.describe.describe`` returns."""
    facts = {"task": summary["name"]} | {
        key.replace("_", " "): value
        for key, value in summary["info"].items()
        if key not in ("cleaned", "unread") and value != []
    }
    graphs, labels = summary["graphs"], summary["labels"]
    sizes = [
        boxes(key.replace("_", " "), *(_size(graph[key]) for graph in graphs.values()))
        for key in next(iter(graphs.values()))
    ]
    sides = ("source", "target")
    totals = {side: max(sum(count[side] for count in labels.values()), 1) for side in sides}
    classes = [
        boxes(name, *(x for s in sides for x in (count[s], f"{100 * count[s] / totals[s]:.1f}")))
        for name, count in labels.items()
    ]
    grids = [
        Grid("", [], [boxes(*fact) for fact in facts.items()]),
        Grid("graph", ["", *graphs], sizes),
        Grid("split", [], [boxes(*split) for split in summary["splits"].items()]),
        Grid("labels", ["class", "train", "%", "target", "%"], classes),
    ]
    lines = [*summary["notes"], *(f"warning: {text}" for text in summary["warnings"])]
    render.show(grids, lines, out or sys.stdout)


def _size(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


# Tables of the page.


def warnings(experiments: Sequence[Experiment]) -> Grid:
    """The warnings of each experiment, with their seeds."""
    rows = []
    for experiment in experiments:
        given: dict[str, list[int]] = {}
        for seed, result in sorted(experiment.results.items()):
            for warning in result["warnings"]:
                given.setdefault(plain(warning)[:300], []).append(seed)
        rows += [boxes(experiment.name, text, seeds(those)) for text, those in given.items()]
    return Grid("", ["experiment", "warning", "runs"], rows)


def failures(experiments: Sequence[Experiment]) -> Grid:
    """Runs without a result."""
    rows = [boxes(one.name, seed, why) for one in experiments for seed, why in one.failures.items()]
    return Grid("", ["experiment", "seed", "what happened"], rows)


def settings(experiments: Sequence[Experiment]) -> Grid:
    """The keys that differ between experiments that have them."""
    configs = {experiment.name: experiment.settings for experiment in experiments}
    varying = {key for key, values in _values(configs.values()).items() if len(values) > 1}
    rows = [
        boxes(name, "; ".join(f"{key} {_value(of[key])}" for key in of if key in varying))
        for name, of in configs.items()
    ]
    return Grid("", ["experiment", "settings"], rows)


def provenance(experiments: Sequence[Experiment]) -> Grid:
    """Versions and machines of all runs."""
    results = [result for one in experiments for result in one.results.values()]
    known = _values(
        result["versions"] | {key: result.get(key) for key in ("commit", "platform", "threads")}
        for result in results
    )
    rows = [boxes(plain(key), "; ".join(sorted(values))) for key, values in known.items()]
    return Grid("", ["what", "value in all runs"], rows)


def yaml_of(experiment: Experiment) -> str:
    """The config of an experiment, as ``graphgym-srnc run --cfg`` reads it."""
    return yaml.safe_dump(experiment.settings, default_flow_style=None, sort_keys=False, width=110)


def _values(facts: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """The values of each key as text."""
    values: dict[str, set[str]] = {}
    for own in facts:
        for key, value in own.items():
            values.setdefault(key, set()).add(_value(value))
    return values


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return plain(", ".join(map(str, value))) or "none"
    return "none" if value is None or value == "" else plain(value)

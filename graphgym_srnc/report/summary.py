"""Tables of runs: the summary of an experiment, the runs of a page, and the shift of a task."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from graphgym_srnc.core.text import clean, counted, listed, plain, seeds
from graphgym_srnc.core.text import to_csv as csv_of
from graphgym_srnc.io import atomic, records
from graphgym_srnc.io.stats import DEVIATIONS, mean_std
from graphgym_srnc.report import render
from graphgym_srnc.report.frame import Experiment, distinct_warnings
from graphgym_srnc.report.names import method_name
from graphgym_srnc.report.sentences import KNOWN_ONLY
from graphgym_srnc.report.tables import ABSENT, METRICS, Grid, boxes, figure, name

SCORES = tuple(METRICS)[: tuple(METRICS).index("seconds")]  # scores of a summary
SHOWN = (*SCORES[:5], "unknown_auroc")  # scores of a printed summary, beside a user's own

NO_TEST_LABELS = "no test node has a label"
KEEP_LABELS = "; with `num_test=100`, your own graph keeps 100 labels"  # if it is one graph

Row = dict[str, Any]


def summarise(name: str, results: Mapping[int, records.Result], ddof: int = 0) -> Row:
    """The scores of an experiment, ``<metric>`` and ``<metric>_std``, as fractions.

    Args:
        name: name of the experiment.
        results: its finished runs by seed, at least one.
        ddof: see ``stats.DEVIATIONS``.
    """
    every = [result for _, result in sorted(results.items())]
    runs = counted(len(every), "run")
    texts = [records.warnings_of(one) for one in every]
    row: Row = {
        "name": name,
        "task": clean(every[0]["task"]),
        "method": clean(every[0]["method"]),
        "backbone": clean(every[0]["backbone"]),
        "runs": len(every),
        "warned": sum(map(bool, texts)),
        "notes": [],
        "warnings": [
            f"warning in {len(those)} of {runs}: {text}" if len(every) > 1 else f"warning: {text}"
            for text, those in distinct_warnings(enumerate(texts))
        ],
    }
    # In open-set shift without unknown test nodes there is a score of known nodes, but no recall.
    tests = [result["test"] for result in every]
    if all("known_accuracy" in test and "unknown_recall" not in test for test in tests):
        row["notes"] = [KNOWN_ONLY]
    if not any(tests):
        is_own = every[0]["config"]["dataset"]["format"] == "file"
        row["notes"] = [NO_TEST_LABELS + (KEEP_LABELS if is_own else "")]
    for metric in dict.fromkeys((*SCORES, *own_scores(every))):
        values = [test[metric] for test in tests if metric in test]
        if values:
            row[metric], row[f"{metric}_std"] = mean_std(values, ddof)
    return row


def own_scores(results: Iterable[records.Result]) -> list[str]:
    """Names of a user's own metrics (``custom_metrics``) among the test scores, sorted."""
    found: set[str] = set()
    for result in results:
        found |= {*result["config"].get("custom_metrics", ())} & {*result["test"]}
    return sorted(found - {*SCORES})


def line(result: records.Result) -> str:
    """A run in one line."""
    test = result["test"]
    shown = "micro_f1 macro_recall unknown_recall unknown_precision hs"
    rules = {
        "last": "the last, by `selection`",
        "source_val": "the best on source",
        "target_val": "the best",
    }
    rule = rules.get(result["selection"], f"by {result['selection']}")
    first = result["history"][0]["losses"]
    validation = "no validation nodes"
    if "micro_f1" in result["val"]:
        validation = f"validation {100 * result['val']['micro_f1']:.1f} %"
    elif result["held_out"]:  # the share that ``held_out.accuracy`` prints
        validation = f"held-out labels {100 * result['held_out']['accuracy']:.1f} % right"
    elif "held_out_accuracy" in first:
        validation = f"held-out labels {100 * first['held_out_accuracy']:.1f} % right"
    text = (
        f"seed {result['seed']}: kept episode {result['selected']} of"
        f" {len(result['history']) - 1}, {rule} ({validation}): "
    )
    scored = [metric for metric in shown.split() if metric in test]
    scored += own_scores([result])
    scores = [f"{clean(name(metric))} {figure(metric, test[metric])}" for metric in scored]
    if scores:
        text += f"test {', '.join(scores)}, "
    elif not result["held_out"]:
        text += "no test node has a label, "
    text += f"{result['seconds']:.1f} s"
    classes = list(map(plain, result["hidden_classes"]))
    if classes:
        text += f"; hidden: {', '.join(classes)}"
    found = records.warnings_of(result)
    if found:
        text += f"; {counted(len(found), 'warning')}"
    return text


def notes(rows: Sequence[Row], warnings: bool = True, ddof: int = 0) -> list[str]:
    """Notes on the spread and on scores that do not exist, and warnings."""
    out = []
    if any("micro_f1" in row for row in rows):
        several = any(row["runs"] > 1 for row in rows)
        spread = f", mean ± {DEVIATIONS[ddof]} over runs"
        out.append(f"Test scores in %{spread}." if several else "Test scores in %.")
    found: dict[str, list[str]] = {}
    for row in rows:
        for note in [*row["notes"], *(row["warnings"] if warnings else ())]:
            found.setdefault(note, []).append(row["name"])
    for note, names in found.items():
        out.append(f"{listed(names, 3)}: {note}" if len(rows) > 1 else note)
    return out


def grid(rows: Sequence[Row]) -> Grid:
    """The printed columns of a summary, without scores that no row has."""
    scored = dict.fromkeys(key for row in rows for key in row if f"{key}_std" in row)
    shown = {key: name(key) for key in SHOWN if key in scored}
    # The unit of a user's own metric is unknown.
    shown |= {key: f"{key} (not in %)" for key in scored if key not in SCORES}
    facts = ["experiment", "method", "runs"]
    if len({row["task"] for row in rows}) > 1:
        facts.insert(1, "task")
    lines = []
    for row in rows:
        about = {"experiment": row["name"], "task": row["task"], "runs": row["runs"]}
        about["method"] = method_name(row["method"], row["backbone"])
        lines.append(boxes(*map(about.get, facts), *(_score(row, key) for key in shown)))
    return Grid("", [*facts, *shown.values()], lines)


def _score(row: Row, key: str) -> str:
    """A mean score, with its deviation if there are several runs."""
    if key not in row:
        return ABSENT
    text = figure(key, row[key])
    return f"{text} ± {figure(key, row[f'{key}_std'])}" if row["runs"] > 1 else text


def to_csv(rows: Sequence[Row]) -> str:
    """All numbers as fractions, in full precision."""
    keys = dict.fromkeys(key for row in rows for key in row if key not in ("notes", "warnings"))
    return csv_of([keys, *([row.get(key) for key in keys] for row in rows)])


def write(path: Path, rows: Sequence[Row], told: render.Told = list) -> None:
    """Write ``summary.csv`` and ``summary.md`` into a directory.

    ``told`` words the options in sentences for the reader, see ``errors.in_words``.
    """
    below = "".join(f"{render.MARKDOWN.escape(note)}\n" for note in told(notes(rows)))
    atomic.write_text(path / "summary.csv", to_csv(rows))
    atomic.write_text(path / "summary.md", render.markdown_table(grid(rows)) + below)


def show_shift(summary: Mapping[str, Any]) -> None:
    """Print the description of a task that ``data.describe.describe`` returns."""
    facts = {"task": summary["name"]} | {
        key.replace("_", " "): value
        for key, value in summary["info"].items()
        if key not in ("cleaned", "unread") and value != []
    }
    graphs = summary["graphs"]
    sizes = []
    for key in next(iter(graphs.values())):
        values = [graph[key] for graph in graphs.values()]
        texts = [f"{value:,}" if isinstance(value, int) else f"{value:.3f}" for value in values]
        sizes.append(boxes(key.replace("_", " "), *texts))
    grids = [
        Grid("", [], [boxes(*fact) for fact in facts.items()]),
        Grid("graphs", ["", *graphs], sizes),
        Grid("split", [], [boxes(key, f"{n:,}") for key, n in summary["splits"].items()]),
        _labels(summary),
    ]
    lines = [*summary["notes"], *(f"warning: {text}" for text in summary["warnings"])]
    render.show(grids, lines, sys.stdout)


def label_columns(summary: Mapping[str, Any]) -> dict[str, str]:
    """Heads of the counts of labels in the description of a task.

    With one graph, training labels are some of its labels.
    """
    if len(summary["graphs"]) == 1:
        return {"target": "labelled", "source": "of these for training"}
    return {"source": "training", "target": "target"}


def _labels(summary: Mapping[str, Any]) -> Grid:
    """Labels of each class, and their share of all labels."""
    heads = ["class"]
    rows = [[name] for name in summary["labels"]]
    for side, head in label_columns(summary).items():
        heads += [head, "%"]
        counts = [count[side] for count in summary["labels"].values()]
        total = max(sum(counts), 1)
        for row, count in zip(rows, counts):
            row += [f"{count:,}", f"{100 * count / total:.1f}"]
    return Grid("labels", heads, [boxes(*row) for row in rows])


# Tables of the page.


def warnings(experiments: Sequence[Experiment], told: render.Told = list) -> Grid:
    """The warnings of each experiment, with their seeds; see :func:`write` for ``told``."""
    rows = []
    for one in experiments:
        given = ((seed, records.warnings_of(of)) for seed, of in sorted(one.results.items()))
        found = distinct_warnings(given)
        rows += [boxes(one.name, *told([text]), seeds(those)) for text, those in found]
    return Grid("", ["experiment", "warning", "runs"], rows)


def hidden_classes(experiments: Sequence[Experiment]) -> Grid:
    """The classes that splits hide, with the seeds of their runs."""
    found: dict[tuple[str, str], set[int]] = {}
    for result in (result for one in experiments for result in one.results.values()):
        named = ", ".join(map(plain, result["hidden_classes"]))
        if named:
            found.setdefault((result["task"], named), set()).add(result["seed"])
    rows = [boxes(task, named, seeds(those)) for (task, named), those in sorted(found.items())]
    return Grid("", ["task", "hidden classes", "runs"], rows)


def failures(experiments: Sequence[Experiment]) -> Grid:
    """Runs without a result."""
    rows = [boxes(one.name, seed, *of) for one in experiments for seed, of in one.failures.items()]
    return Grid("", ["experiment", "seed", "state", "what happened"], rows)


def provenance(experiments: Sequence[Experiment]) -> Grid:
    """Versions and machines of all runs."""
    values: dict[str, set[str]] = {}
    for result in (result for one in experiments for result in one.results.values()):
        more = {key: result.get(key) for key in ("commit", "platform", "threads")}
        for key, value in (result["versions"] | more).items():
            values.setdefault(plain(key), set()).add(plain(value or "none"))
    rows = [boxes(key, "; ".join(sorted(own))) for key, own in values.items()]
    return Grid("", ["what", "value in all runs"], rows)

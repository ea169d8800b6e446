"""Mean and standard deviation over the runs of an experiment, as text, CSV and Markdown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence, TextIO

from graphgym_srnc.core.text import (
    LAYERS,
    METHODS,
    aligned,
    clean,
    counted,
    escape_markdown,
    markdown,
)
from graphgym_srnc.core.text import to_csv as csv_of
from graphgym_srnc.io import atomic, store
from graphgym_srnc.report.statistics import mean_std

if TYPE_CHECKING:
    from rich.table import Table

METRICS = (
    "micro_f1",
    "macro_f1",
    "macro_recall",
    "unknown_recall",
    "unknown_precision",
    "unknown_auroc",
    "unknown_aupr",
    "unknown_fpr95",
    "known_accuracy",
    "known_recall",
    "hs",
    "oscr",
)
NAMES = ("name", "method", "backbone", "runs")
HEADS = {
    "name": "experiment",
    "method": "method",
    "backbone": "backbone",
    "runs": "runs",
    "micro_f1": "Micro-F1",
    "macro_f1": "Macro-F1",
    "macro_recall": "macro recall",
    "unknown_recall": "unknown recall",
    "unknown_precision": "unknown precision",
    "unknown_auroc": "unknown AUROC",
    "drop": "ΔF1",
}
TEXTS = ("untested", "verdict")
"""Parts of a row that are notes below the table and no columns of it."""

NOTE = "Test scores in %"
SPREAD = ", mean ± population standard deviation over runs (n in the divisor)"

SELECTED = {
    "target_val": ", best on validation",
    "source_val": ", best on held-out source nodes",
    "target_modularity": ", best by modularity",
    "last": ", the last",
}
"""Why an episode is the selected one, by ``train.selection``."""

Row = dict[str, Any]


def summarise(
    name: str, results: Mapping[int, store.Result], out_dir: str | os.PathLike | None = None
) -> Row:
    """``<metric>`` and ``<metric>_std`` as fractions, and ``drop``, the distance to the IID oracle.

    The distance is the mean, over runs on the same split, of the oracle's Micro-F1 minus ours; it
    is absent where no finished oracle (method ``iid``) of the same splits lies in ``out_dir``. An
    oracle of the same backbone goes first, then one with more of our splits.

    Args:
        name: the experiment's name.
        results: its finished runs by seed, at least one.
        out_dir: where to look for the oracle.
    """
    first = next(iter(results.values()))
    row: Row = {
        "name": name,
        "method": clean(first.get("method", "")),
        "backbone": clean(first.get("backbone", "")),
        "runs": len(results),
        "warned": sum(bool(result.get("warnings")) for result in results.values()),
    }
    sentences = verdicts(results)
    if sentences:
        row["verdict"] = sentences
    # In open-set shift without unknown test nodes there is a score of known nodes, but no recall.
    tests = [result.get("test", {}) for result in results.values()]
    if all("known_accuracy" in test and "unknown_recall" not in test for test in tests):
        is_own = first.get("config", {}).get("dataset", {}).get("format") == "file"
        row["untested"] = "no test node is of an unknown class: scores measure known classes only."
        row["untested"] += " If every class has labels, set file.open_set False." * is_own
    for metric in dict.fromkeys((*METRICS, *own_scores(results.values()))):
        values = [
            result["test"][metric]
            for result in results.values()
            if metric in result.get("test", {})
        ]
        if values:
            row[metric], row[f"{metric}_std"] = mean_std(values)
    if out_dir is not None and row["method"] != "iid":
        row |= _drop(results, out_dir)
    return row


def own_scores(results: Iterable[store.Result]) -> list[str]:
    """The names of a user's own metrics (``custom_metrics``) among the test scores, sorted."""
    found = {
        name
        for result in results
        for name in result.get("test", {})
        if name in result.get("config", {}).get("custom_metrics", ())
    }
    return sorted(found - {*METRICS})


def verdicts(results: Mapping[int, store.Result]) -> list[str]:
    """What verdicts speak of: in how many runs, and the sentence of the first of them."""
    found: dict[str, list[str]] = {}
    for _, result in sorted(results.items()):
        for kind, sentence in (result.get("verdict") or {}).get("sentences", {}).items():
            found.setdefault(clean(kind), []).append(clean(sentence))
    return [
        f"{kind}, {_of(len(sentences), len(results))}: {sentences[0]}"
        for kind, sentences in found.items()
    ]


def _of(some: int, runs: int) -> str:
    return f"{some} of {counted(runs, 'run')}"


def line(result: store.Result) -> str:
    """A run in one line."""
    test = {key: f"{100 * value:.1f}" for key, value in result["test"].items()}
    why = SELECTED.get(result.get("selection"), "")
    text = (
        f"seed {result['seed']}: kept episode {result['selected']} of"
        f" {len(result['history']) - 1}{why} (validation"
        f" {100 * result['val']['micro_f1']:.1f}): test Micro-F1 {test['micro_f1']}"
    )
    if "macro_recall" in test:  # GraphGym's own training may be asked for other metrics
        text += f", macro recall {test['macro_recall']}"
    if "unknown_recall" in test:
        text += f", unknown recall {test['unknown_recall']}, precision {test['unknown_precision']}"
    if "hs" in test:
        text += f", HS {test['hs']}"
    for name in own_scores([result]):
        text += f", {clean(name)} {result['test'][name]:.4g}"
    return f"{text}, {result['seconds']:.1f} s"


def _drop(results: Mapping[int, store.Result], out_dir: str | os.PathLike) -> Row:
    """The mean distance to the best fitting oracle in a folder of experiments, if there is one."""
    candidates = []
    scored = [result for result in results.values() if "micro_f1" in result.get("test", {})]
    for name, others in store.experiments(out_dir):
        oracle = {
            other.get("split"): other
            for other in others.values()
            if other.get("method") == "iid" and "micro_f1" in other.get("test", {})
        }
        pairs = [
            (oracle[result.get("split")], result)
            for result in scored
            if result.get("split") in oracle
        ]
        if pairs:
            same = pairs[0][0].get("backbone") == pairs[0][1].get("backbone")
            candidates.append((not same, -len(pairs), clean(name), pairs))
    if not candidates:
        return {}
    _, _, name, pairs = min(candidates, key=lambda candidate: candidate[:3])
    drop, std = mean_std(
        [iid["test"]["micro_f1"] - result["test"]["micro_f1"] for iid, result in pairs]
    )
    return {"drop": drop, "drop_std": std, "drop_pairs": len(pairs), "oracle": name}


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader of the table must know: the spread, the oracle, the warnings, the verdicts."""
    out = [NOTE + SPREAD * any(row["runs"] > 1 for row in rows) + "."]
    for row in (row for row in rows if "oracle" in row):
        below = (
            ". Below 0 it outperforms the oracle, a plain GNN trained without the shift"
            if row["drop"] < 0
            else ""
        )
        out.append(
            f"{row['name']}: ΔF1 is Micro-F1 of {row['oracle']} minus its own on"
            f" {counted(row['drop_pairs'], 'common split')}{below}."
        )
    out += [f"{row['name']}: {row['untested']}" for row in rows if "untested" in row]
    out += [
        f"{row['name']}: {_of(row['warned'], row['runs'])} gave a warning, stored in"
        f" {row['name']}/<seed>/result.json."
        for row in rows
        if row["warned"]
    ]
    return out + [
        f"{row['name']}: {sentence}" for row in rows for sentence in row.get("verdict", ())
    ]


def to_text(rows: Sequence[Row]) -> str:
    """An aligned plain table."""
    return aligned(_lines(rows))


def to_markdown(rows: Sequence[Row]) -> str:
    """A Markdown table with its notes below."""
    lines = [list(map(escape_markdown, line)) for line in _lines(rows)]
    return markdown(lines) + "\n" + "".join(f"{escape_markdown(note)}\n" for note in notes(rows))


def to_csv(rows: Sequence[Row]) -> str:
    """All figures as fractions, in full precision."""
    keys = list(dict.fromkeys(key for row in rows for key in row if key not in TEXTS))
    return csv_of([keys, *([row.get(key) for key in keys] for row in rows)])


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write ``summary.csv`` and ``summary.md`` into a directory."""
    atomic.write_text(path / "summary.csv", to_csv(rows))
    atomic.write_text(path / "summary.md", to_markdown(rows))


def show(rows: Sequence[Row], out: TextIO) -> None:
    """Print the table: on a terminal with rules, on its side where too narrow; else plain."""
    if not out.isatty():
        print(to_text(rows), *notes(rows), sep="\n", file=out)
        return
    from rich.console import Console

    console, lines = Console(file=out), _lines(rows)
    if sum(max(map(len, column)) + 3 for column in zip(*lines)) >= console.width:
        lines = list(zip(*lines))
    console.print(ruled(lines))
    for note in notes(rows):
        console.print(note, markup=False, highlight=False)


def ruled(
    lines: Sequence[Sequence[str]], title: str = "", bold: str = "\n", right: bool = False
) -> Table:
    """Lines of cells as a table of Rich, without markup.

    Args:
        lines: the first is the head, which does not show if it is empty.
        title: what stands above.
        bold: the end of cells that are bold.
        right: whether all columns but the first end at their right edge.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title) if title else None, title_justify="left", show_header=any(lines[0])
    )
    for number, head in enumerate(lines[0]):
        table.add_column(Text(head), justify="right" if right and number else "left")
    for line in lines[1:]:
        table.add_row(*(Text(cell, style="bold" if cell.endswith(bold) else "") for cell in line))
    return table


def _lines(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Head and rows as text, in the order of ``HEADS``; no column of scores that no row has."""
    own = {
        key: f"{key} (not in %)"
        for row in rows
        for key in row
        if f"{key}_std" in row and key not in (*METRICS, *HEADS)
    }
    heads = {
        key: head
        for key, head in (HEADS | own).items()
        if key in NAMES or any(f"{key}_std" in row for row in rows)
    }
    return [
        list(heads.values()),
        *([_shown(row, key, 1 if key in own else 100) for key in heads] for row in rows),
    ]


def _shown(row: Row, key: str, factor: float = 100) -> str:
    """A cell; one run has no spread, and of a user's own metric nobody knows the unit."""
    value, form = row.get(key, "-"), ".1f" if factor == 100 else ".4g"
    if f"{key}_std" in row:
        spread = f" ± {factor * row[f'{key}_std']:{form}}" if row["runs"] > 1 else ""
        return f"{factor * value:{form}}{spread}"
    return {"method": METHODS, "backbone": LAYERS}.get(key, {}).get(value, str(value))

"""Mean and standard deviation over the runs of an experiment, as text, a terminal's table, CSV and Markdown."""
from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any, Mapping, Sequence, TextIO

from graphgym_srnc import atomic, store
from graphgym_srnc.report.statistics import mean_std
from graphgym_srnc.text import aligned, clean, escape_markdown, guarded, markdown

METRICS = ("micro_f1", "macro_f1", "macro_recall", "unknown_recall", "unknown_precision", "unknown_auroc", "unknown_aupr", "unknown_fpr95")
HEADS = {"name": "experiment", "method": "method", "backbone": "backbone", "runs": "runs", "micro_f1": "Micro-F1", "macro_f1": "Macro-F1",
         "macro_recall": "macro recall", "unknown_recall": "unknown recall", "unknown_precision": "unknown precision",
         "unknown_auroc": "unknown AUROC", "drop": "ΔF1"}
NOTE = "Test scores in %, mean ± population standard deviation over runs (n in the divisor)."

Row = dict[str, Any]


def summarise(name: str, results: Mapping[int, store.Result], out_dir: str | os.PathLike | None = None) -> Row:
    """One row for an experiment: ``<metric>`` and ``<metric>_std`` as fractions, and ``drop``, its distance to the IID oracle.

    The distance is the mean, over runs on the same split, of the oracle's Micro-F1 minus ours; it is absent where no finished
    oracle (method ``iid``) of the same splits lies in ``out_dir``. An oracle of the same backbone goes first, then one with more
    of our splits.

    Args:
        name: the experiment's name.
        results: its finished runs by seed, at least one.
        out_dir: where to look for the oracle.
    """
    first = next(iter(results.values()))
    row: Row = {"name": name, "method": clean(first.get("method", "")), "backbone": clean(first.get("backbone", "")), "runs": len(results),
                "warned": sum(bool(result.get("warnings")) for result in results.values())}
    said = verdicts(results)
    if said:
        row["verdict"] = said
    for metric in METRICS:
        values = [result["test"][metric] for result in results.values() if metric in result.get("test", {})]
        if values:
            row[metric], row[f"{metric}_std"] = mean_std(values)
    if out_dir is not None and row["method"] != "iid":
        row |= _drop(results, out_dir)
    return row


def verdicts(results: Mapping[int, store.Result]) -> list[str]:
    """What the verdicts of an experiment's runs speak of: in how many runs, and the sentence of the first of them."""
    told: dict[str, list[str]] = {}
    for _, result in sorted(results.items()):
        for kind, sentence in (result.get("verdict") or {}).get("sentences", {}).items():
            told.setdefault(clean(kind), []).append(clean(sentence))
    return [f"{kind}, {len(mine)} of {len(results)} run(s): {mine[0]}" for kind, mine in told.items()]


def line(result: store.Result) -> str:
    """A run in one line."""
    test = {key: f"{100 * value:.1f}" for key, value in result["test"].items()}
    told = (f"seed {result['seed']}: episode {result['selected']} of {len(result['history']) - 1}, "
            f"val {100 * result['val']['micro_f1']:.1f}, test micro-F1 {test['micro_f1']}, macro recall {test['macro_recall']}")
    if "unknown_recall" in test:
        told += f", unknown recall {test['unknown_recall']}, precision {test['unknown_precision']}"
    return f"{told}, {result['seconds']:.1f} s"


def _drop(results: Mapping[int, store.Result], out_dir: str | os.PathLike) -> Row:
    candidates, scored = [], [result for result in results.values() if "micro_f1" in result.get("test", {})]
    for name, others in store.experiments(out_dir):
        oracle = {other.get("split"): other for other in others.values()
                  if other.get("method") == "iid" and "micro_f1" in other.get("test", {})}
        pairs = [(oracle[result.get("split")], result) for result in scored if result.get("split") in oracle]
        if pairs:
            same = pairs[0][0].get("backbone") == pairs[0][1].get("backbone")
            candidates.append((not same, -len(pairs), clean(name), pairs))
    if not candidates:
        return {}
    _, _, name, pairs = min(candidates, key=lambda candidate: candidate[:3])
    drop, std = mean_std([iid["test"]["micro_f1"] - result["test"]["micro_f1"] for iid, result in pairs])
    return {"drop": drop, "drop_std": std, "drop_pairs": len(pairs), "oracle": name}


def cells(row: Row) -> list[str]:
    """A row as text, in the order of ``HEADS``."""
    return [f"{100 * row[key]:.1f} ± {100 * row[f'{key}_std']:.1f}" if f"{key}_std" in row else str(row.get(key, "-")) for key in HEADS]


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader of the table must know: the spread, the oracle, the warnings, the verdicts."""
    out = [NOTE]
    out += [f"{row['name']}: ΔF1 is Micro-F1 of {row['oracle']} minus its own on {row['drop_pairs']} common split(s)."
            for row in rows if "oracle" in row]
    out += [f"{row['name']}: {row['warned']} of {row['runs']} run(s) gave a warning, see result.json." for row in rows if row["warned"]]
    out += [f"{row['name']}: {sentence}." for row in rows for sentence in row.get("verdict", ())]
    return out


def to_text(rows: Sequence[Row]) -> str:
    """An aligned plain table."""
    return aligned([list(HEADS.values()), *map(cells, rows)])


def to_markdown(rows: Sequence[Row]) -> str:
    """A Markdown table with its notes below."""
    lines = [list(map(escape_markdown, line)) for line in (HEADS.values(), *map(cells, rows))]
    return markdown(lines) + "\n" + "".join(f"{escape_markdown(note)}\n" for note in notes(rows))


def to_csv(rows: Sequence[Row]) -> str:
    """All figures as fractions, in full precision."""
    keys = list(dict.fromkeys(key for row in rows for key in row if key != "verdict"))
    out = io.StringIO()
    writer = csv.DictWriter(out, keys, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: guarded(row.get(key)) for key in keys} for row in rows)
    return out.getvalue()


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write ``summary.csv`` and ``summary.md`` into a directory."""
    atomic.write_text(path / "summary.csv", to_csv(rows))
    atomic.write_text(path / "summary.md", to_markdown(rows))


def show(rows: Sequence[Row], out: TextIO) -> None:
    """Print the table: with rules on a terminal, on its side where that is too narrow; plain elsewhere."""
    if not out.isatty():
        print(to_text(rows), *notes(rows), sep="\n", file=out)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    lines = [list(HEADS.values()), *map(cells, rows)]
    console = Console(file=out)
    if sum(max(map(len, column)) + 3 for column in zip(*lines)) >= console.width:
        lines = [list(column) for column in zip(*lines)]
    table = Table()
    for head in lines[0]:
        table.add_column(Text(head))
    for line in lines[1:]:
        table.add_row(*map(Text, line))
    console.print(table)
    for note in notes(rows):
        console.print(note, markup=False, highlight=False)

"""Statistics in GraphGym's layout: ``stats.json`` of each split of a run, and ``agg/`` over runs.

Each file has one JSON object per line, an episode each. All of them follow from the results.
"""

from __future__ import annotations

import json
import math
from typing import Any, Iterable, Mapping, Sequence

SPLITS = ("train", "val", "test")
# Scores that are shares, from 0 to 1.
SHARES = (
    "micro_f1 macro_f1 macro_recall unknown_recall unknown_precision known_accuracy known_recall hs"
    " unknown_auroc unknown_aupr unknown_fpr95 oscr"
).split()
# GraphGym's ``loss`` is the term of that name, else the cross-entropy on source labels.
LOSSES = ("loss", "source", "classifier_source")
DEVIATIONS = (
    "population standard deviation (n in the divisor)",
    "sample standard deviation (n - 1 in the divisor)",
)
"""Standard deviations by ``ddof``, what is subtracted from n in the divisor."""
Row = dict[str, float]


def of_experiment(results: Mapping[int, Mapping[str, Any]], digits: int) -> dict[str, str]:
    """The files of an experiment and of its runs, by their paths in its directory.

    GraphGym's ``agg_runs`` wants as many lines of each seed. A run that stopped early keeps the
    weights of its selected episode, so that episode's line is repeated, with ``held`` = 1.
    """
    histories = [result["history"] for result in results.values()]
    length = max(map(len, histories))
    # Means over seeds need the same keys on all lines.
    terms = sorted({term for history in histories for one in history for term in one["losses"]})
    files: dict[str, str] = {}
    for split in SPLITS:
        rows = {seed: _rows(result, split, length, terms) for seed, result in results.items()}
        selected = [
            row for seed in rows for row in rows[seed] if row["epoch"] == results[seed]["selected"]
        ]
        files |= {f"{seed}/{split}/stats.json": _lines(rows[seed]) for seed in rows}
        means = (_mean_std(episode, digits) for episode in zip(*rows.values()))
        files[f"agg/{split}/stats.json"] = _lines(means)
        files[f"agg/{split}/best.json"] = _lines([_mean_std(selected, digits)] if selected else [])
    return files


def _rows(result: Mapping[str, Any], split: str, length: int, terms: Sequence[str]) -> list[Row]:
    """GraphGym's figures of a split in ``length`` episodes; an episode without scores has none."""
    history = result["history"]
    rows = []
    for number in range(length):
        episode = history[number if number < len(history) else result["selected"]]
        losses = episode["losses"]
        scores = episode[split]
        if not scores:
            continue
        row: Row = {"epoch": number}
        if split == "train":
            row["loss"] = next((losses[term] for term in LOSSES if term in losses), math.nan)
        row |= {
            "lr": result["lr"],
            "params": result["params"],
            "time_iter": episode["seconds"],
            "held": int(number >= len(history)),
            "accuracy": scores.get("micro_f1", math.nan),
            **scores,
        }
        if split == "train":
            row |= {term: losses.get(term, math.nan) for term in terms if term not in row}
        rows.append(row)
    return rows


def _mean_std(rows: Sequence[Row], digits: int) -> Row:
    """The mean and the population standard deviation of each figure that all rows have."""
    out: Row = {"epoch": rows[0]["epoch"]}
    for key in rows[0]:
        if key != "epoch" and all(key in row for row in rows):
            centre, std = mean_std([row[key] for row in rows])
            out[key] = round(centre, digits)
            out[f"{key}_std"] = round(std, digits)
    return out


def mean(values: Iterable[float]) -> float:
    """The mean; NaN of no values."""
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def mean_std(values: Sequence[float], ddof: int = 0) -> tuple[float, float]:
    """Mean and one of :data:`DEVIATIONS` (default: GraphGym's); NaN of at most ``ddof`` values."""
    centre = mean(values)
    squares = math.fsum((value - centre) ** 2 for value in values)
    divisor = len(values) - ddof
    return centre, math.sqrt(squares / divisor) if divisor > 0 else math.nan


def _lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)

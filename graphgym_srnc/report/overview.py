"""Every figure of results: label distributions, training curves, scores over swept keys."""

from __future__ import annotations

import itertools
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from graphgym_srnc.core.text import method_name
from graphgym_srnc.io import store
from graphgym_srnc.io.settings import flatten, is_volatile
from graphgym_srnc.plots import curves, shift
from graphgym_srnc.plots.events import image, write_events
from graphgym_srnc.plots.style import save
from graphgym_srnc.report.layout import LESS
from graphgym_srnc.report.table import HEADS

Runs = Mapping[int, store.Result]
"""The records of an experiment by seed."""


def draw_all(
    results: Mapping[str, Runs], folder: str | os.PathLike, metric: str = "micro_f1"
) -> list[Path]:
    """Draw all figures of some results, as PNG and PDF, and as images for TensorBoard.

    Args:
        results: finished runs by experiment and seed.
        folder: where the figures go.
        metric: the score to draw.

    Returns:
        What was written, but for the events.
    """
    folder = Path(folder)
    labels = (
        (_file("labels", caption), shift.figure(summary))
        for caption, summary in label_counts(results).items()
    )
    drawn = itertools.chain(figures_of(results, metric), labels)
    paths = [
        save(figure, folder / f"{name}.{kind}") for name, figure in drawn for kind in ("png", "pdf")
    ]
    if paths:
        images = [(image(f"figures/{path.stem}", path.read_bytes()), 0) for path in paths[::2]]
        write_events(folder, images)
    return paths


def label_counts(results: Mapping[str, Runs]) -> dict[str, dict[str, Any]]:
    """By task and seed, name and ``labels`` of each task whose records have such counts."""
    found: dict[str, dict[str, Any]] = {}
    seen = set()
    for runs in results.values():
        task, labels = _first(runs)["task"], _first(runs).get("labels")
        if task not in seen and _are_counts(labels):
            seen.add(task)
            found[f"{task}, seed {min(runs)}"] = {"name": task, "labels": labels}
    return found


def _are_counts(labels: Any) -> bool:
    return (
        isinstance(labels, dict)
        and bool(labels)
        and all(
            isinstance(count, dict)
            and all(isinstance(count.get(side), int) for side in ("source", "target"))
            for count in labels.values()
        )
    )


def figures_of(
    results: Mapping[str, Runs], metric: str = "micro_f1"
) -> Iterator[tuple[str, Figure]]:
    """Name and figure of all there is to draw of experiments, data set by data set."""
    score, order = HEADS.get(metric, metric), _best_first(results, metric)
    for data, experiments in _grouped(results, _data_names(results)).items():
        panels: dict[str, dict[str, curves.Curve]] = {"validation": {}, "test": {}}
        for method, sweep in _by_method(experiments, order).items():
            best = max(sweep, key=lambda runs: _mean(runs, "val", metric))
            for title, block in (("validation", "val"), ("test", "test")):
                panels[title][method] = _by_episode(curves.history(best, block, metric))
        yield _file("curves", data), curves.curves_figure(panels, f"{score} (%)", data)
    tasks = {name: _first(runs)["task"] for name, runs in results.items()}
    for data, experiments in _grouped(results, tasks).items():
        swept: dict[str, dict[str, curves.Curve]] = defaultdict(dict)
        for method, sweep in _by_method(experiments, order).items():
            for key in _varied(sweep):
                curve = _over(sweep, key, metric)
                if len(curve[0]) > 1:
                    swept[key][method] = curve
        for key, found in swept.items():
            figure = curves.sensitivity_figure(found, key, f"test {score} (%)", data)
            yield _file("sensitivity", data, key), figure


def _grouped(results: Mapping[str, Runs], groups: Mapping[str, str]) -> dict[str, dict[str, Runs]]:
    found: dict[str, dict[str, Runs]] = defaultdict(dict)
    for name in sorted(results, key=lambda name: groups[name]):
        found[groups[name]][name] = results[name]
    return found


def _data_names(results: Mapping[str, Runs]) -> dict[str, str]:
    """The data of each experiment: its task, and those keys of data set and shift that differ
    between experiments on that task."""
    tasks, keys = {}, defaultdict(lambda: defaultdict(set))
    for name, runs in results.items():
        config, task = _config(runs), _first(runs)["task"]
        blocks = ("dataset", config["dataset.format"])
        own = {key: str(value) for key, value in config.items() if key.split(".")[0] in blocks}
        tasks[name] = task, own
        for key, value in own.items():
            keys[task][key].add(value)
    return {
        name: ", ".join(
            [task, *(f"{key}={value}" for key, value in own.items() if len(keys[task][key]) > 1)]
        )
        for name, (task, own) in tasks.items()
    }


def _best_first(results: Mapping[str, Runs], metric: str) -> list[str]:
    """Methods by their mean test score, so that all legends have one order."""
    scores: dict[str, list[float]] = defaultdict(list)
    for runs in results.values():
        scores[_label(runs)].append(_mean(runs, "test", metric))
    sign = 1 if metric in LESS else -1
    return sorted(scores, key=lambda label: (sign * np.mean(scores[label]), label))


def _label(runs: Runs) -> str:
    return method_name(_first(runs)["method"], _first(runs)["backbone"])


def _by_method(experiments: Mapping[str, Runs], order: Sequence[str]) -> dict[str, list[Runs]]:
    """Experiments by method and network, in some order; each config once."""
    found: dict[str, dict[str, Runs]] = defaultdict(dict)
    for runs in experiments.values():
        found[_label(runs)].setdefault(_first(runs)["digest"], runs)
    return {method: list(found[method].values()) for method in order if method in found}


def _varied(experiments: Sequence[Runs]) -> list[str]:
    """The keys that have several numbers in experiments of one method."""
    configs = [_config(runs) for runs in experiments]
    return [
        key
        for key in sorted(set().union(*configs))
        if len({config.get(key) for config in configs if _is_number(config.get(key))}) > 1
    ]


def _over(experiments: Sequence[Runs], key: str, metric: str) -> curves.Curve:
    """The score over a key with all others fixed: most values, then best on validation."""
    slices: dict[str, dict[float, Runs]] = defaultdict(dict)
    for runs in experiments:
        config = _config(runs)
        value = config.pop(key, None)
        if _is_number(value):
            slices[repr(sorted(config.items(), key=str))][value] = runs
    chosen = max(
        slices.values(),
        key=lambda by_value: (
            len(by_value),
            max(_mean(runs, "val", metric) for runs in by_value.values()),
        ),
    )
    values = sorted(chosen)
    scores = [
        [[result["test"].get(metric, np.nan)] for result in chosen[value].values()]
        for value in values
    ]
    bands = [curves.band(100 * np.array(of_value)) for of_value in scores]
    return values, *(np.concatenate(part) for part in zip(*bands))


def _by_episode(scores: np.ndarray) -> curves.Curve:
    mean, low, high = curves.band(100 * scores)
    finite = np.isfinite(mean)
    return np.flatnonzero(finite), mean[finite], low[finite], high[finite]


def _config(runs: Runs) -> dict[str, Any]:
    """The config without places, and without seeds, which name draws and no amounts."""
    return {
        key: value
        for key, value in flatten(_first(runs)["config"]).items()
        if not is_volatile(key) and not key.endswith("seed")
    }


def _first(runs: Runs) -> store.Result:
    return next(iter(runs.values()))


def _mean(runs: Runs, block: str, metric: str) -> float:
    return float(np.mean([result[block].get(metric, -np.inf) for result in runs.values()]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _file(*words: str) -> str:
    return "-".join(re.sub(r"[^\w.=]+", "-", word).strip("-.") for word in words)

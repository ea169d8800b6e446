"""The tables of a page that show runs: data, experiments, warnings, settings, versions."""

from __future__ import annotations

import shlex
from typing import Any, Iterable, Mapping, Sequence

import yaml

from graphgym_srnc.core.text import LAYERS, METHODS, plain, seeds
from graphgym_srnc.io import store
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.report.grid import ABSENT, Box, Grid, name
from graphgym_srnc.report.read import Experiment
from graphgym_srnc.report.statistics import mean, mean_std
from graphgym_srnc.report.table import verdicts

SHOWN = 5
"""Different warnings of an experiment that are shown."""

VARIES = "varies with the seed"


def data(experiments: Sequence[Experiment]) -> Grid:
    """What each task says of itself, where it is the same in all of its runs."""
    tasks: dict[str, list[store.Result]] = {}
    for experiment in experiments:
        tasks.setdefault(experiment.first["task"], []).extend(experiment.results.values())
    rows = []
    for task, results in sorted(tasks.items()):
        known = _values(flatten(result["info"]) for result in results)
        told = {
            key: values
            for key, values in known.items()
            if key != "split_seed" and values not in ({"0"}, {"none"})
        }
        facts = [
            f"{key.replace('_', ' ')}: {min(values) if len(values) == 1 else VARIES}"
            for key, values in told.items()
        ]
        splits = len({result["split"] for result in results})
        rows.append(
            _row(
                task,
                results[0]["config"]["dataset"]["format"],
                splits,
                len(results),
                plain("; ".join(facts)),
            )
        )
    return Grid("", ["data", "shift", "splits", "runs", "details"], rows)


def experiments(found: Sequence[Experiment], metrics: Sequence[str]) -> Grid:
    """A row for each experiment, with all its scores."""
    rows = []
    for experiment in found:
        first, results = experiment.first, list(experiment.results.values())
        row = _row(
            experiment.name,
            METHODS.get(first["method"], first["method"]),
            LAYERS.get(first["backbone"], first["backbone"]),
            first["task"],
        )
        row.append(Box(str(len(results)), seeds(experiment.results)))
        for metric in metrics:
            values = [result["test"][metric] for result in results if metric in result["test"]]
            centre, std = mean_std(values)
            spread = f" ± {100 * std:.1f}" if len(values) > 1 else ""
            row.append(Box(f"{100 * centre:.1f}{spread}" if values else ABSENT))
        rows.append([*row, Box(f"{mean(result['seconds'] for result in results):.1f}")])
    heads = [
        "experiment",
        "method",
        "backbone",
        "data",
        "runs",
        *map(name, metrics),
        "seconds per run",
    ]
    return Grid("", heads, rows)


def warnings(experiments: Sequence[Experiment]) -> Grid:
    """The warnings of each experiment, with the seeds that gave them."""
    rows = []
    for experiment in experiments:
        given: dict[str, list[int]] = {}
        for seed, result in sorted(experiment.results.items()):
            for warning in result["warnings"]:
                given.setdefault(plain(warning)[:300], []).append(seed)
        texts = [f"{text} ({seeds(those)})" for text, those in given.items()]
        more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
        warned = sum(bool(result["warnings"]) for result in experiment.results.values())
        if texts:
            rows.append(
                _row(
                    experiment.name,
                    f"{warned} of {len(experiment.results)}",
                    "; ".join(texts[:SHOWN] + more),
                )
            )
    return Grid("", ["experiment", "runs", "warnings"], rows)


def judged(experiments: Sequence[Experiment]) -> Grid:
    """The verdicts on each experiment, where there are any."""
    sentences = {experiment.name: verdicts(experiment.results) for experiment in experiments}
    rows = [
        _row(title, " ".join(plain(sentence)[:400] for sentence in own))
        for title, own in sentences.items()
        if own
    ]
    return Grid("", ["experiment", "diagnostics"], rows)


def failures(experiments: Sequence[Experiment]) -> Grid:
    """Runs without a result."""
    rows = [
        _row(experiment.name, seed, why)
        for experiment in experiments
        for seed, why in experiment.failures.items()
    ]
    return Grid("", ["experiment", "seed", "what happened"], rows)


def settings(experiments: Sequence[Experiment]) -> Grid:
    """What tells experiments apart: keys with two values among those that have the key."""
    configs = {experiment.name: flatten(experiment.settings) for experiment in experiments}
    varying = {key for key, values in _values(configs.values()).items() if len(values) > 1}
    rows = []
    for title, config in configs.items():
        values = (f"{key} {_value(value)}" for key, value in config.items() if key in varying)
        rows.append(_row(title, "; ".join(values)))
    return Grid("", ["experiment", "settings"], rows)


def provenance(experiments: Sequence[Experiment]) -> Grid:
    """What all runs say of their environment."""
    known = _values(
        {
            **result["versions"],
            "commit of graphgym-srnc": result.get("commit"),
            "platform": result.get("platform"),
            "threads": result.get("threads"),
        }
        for experiment in experiments
        for result in experiment.results.values()
    )
    rows = [_row(plain(key), "; ".join(sorted(values))) for key, values in known.items()]
    return Grid("", ["what", "value in all runs"], rows)


def yaml_of(experiment: Experiment) -> str:
    """The config of an experiment, as ``graphgym-srnc run --cfg`` reads it."""
    return yaml.safe_dump(experiment.settings, default_flow_style=None, sort_keys=False, width=110)


def command(experiment: Experiment) -> str:
    """The command that repeats the runs of an experiment with its config in a file of its name."""
    file, first = plain(experiment.path.name), min(experiment.results)
    words = [
        "graphgym-srnc",
        "run",
        "--cfg",
        f"{file}.yaml",
        "--name",
        file,
        "--repeat",
        str(max(experiment.results) - first + 1),
    ]
    return shlex.join([*words, *(["seed", str(first)] if first else [])])


def _row(*texts: Any) -> list[Box]:
    return [Box(str(text)) for text in texts]


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

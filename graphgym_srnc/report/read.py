"""Reads folders of results: experiments with their records, runs to compare, what was passed over.

Results may be a stranger's: no link is followed, and a record counts only if all that is shown of
it is of its kind.
"""

from __future__ import annotations

import functools
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Hashable, Iterable, Mapping

from graphgym_srnc.core import environment
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.text import clean, plain
from graphgym_srnc.io import store
from graphgym_srnc.io.legacy import modern_result
from graphgym_srnc.io.settings import VOLATILE, flatten, is_volatile, shared_text

COSTS = ("seconds", "peak_memory_mib", "params")
"""What a run costs; any split has them as metrics."""

NAMED = ("method", "backbone", "task")
"""Facts of a record that are no keys of its config."""

Pair = tuple[str, int]
"""Fingerprint of the split, and training seed."""


@dataclass(frozen=True)
class Run:
    """What a comparison needs of a record."""

    facts: dict[str, Any]  # its config with dotted keys and lists as tuples, and those of NAMED
    scores: dict[str, dict[str, float]]  # by split, then by metric; finite ones, as fractions
    pair: Pair  # what another run must have equal to be compared with it
    digest: str  # of its config, without seeds and places
    masked: Hashable  # the classes that its split masks
    warned: bool  # whether it gave a warning


@dataclass
class Experiment:
    """What lies in the directory of an experiment."""

    name: str  # its path below the folder asked for; no two have the same
    path: Path
    results: dict[int, store.Result] = field(default_factory=dict)  # of finished runs, by seed
    failures: dict[str, str] = field(default_factory=dict)  # why a run's directory has no result
    times: list[float] = field(default_factory=list)  # when results were written, s since 1970

    @property
    def first(self) -> store.Result:
        """The record of the lowest seed."""
        return self.results[min(self.results)]

    @property
    def settings(self) -> dict[str, Any]:
        """Its config without places and seeds of training."""
        return _without_volatile(self.first["config"])


@dataclass
class Collection:
    """The results in some folders, which are given by their absolute paths."""

    folders: list[Path]
    experiments: list[Experiment] = field(default_factory=list)  # by name, also without a result
    runs: list[Run] = field(default_factory=list)  # as found; each config, seed and split once
    unreadable: list[Path] = field(default_factory=list)  # results and folders
    unfinished: int = 0  # runs without a result
    repeated: int = 0  # runs of the same config, seed and split as another

    @property
    def results(self) -> dict[str, dict[int, store.Result]]:
        """The records by experiment and seed, of experiments that have any."""
        return {one.name: one.results for one in self.experiments if one.results}

    def unlisted(self, error: OSError) -> None:
        """Note a folder that could not be listed."""
        self.unreadable.append(Path(error.filename))

    def remarks(self) -> list[str]:
        """Sentences on what was passed over."""
        skipped = [
            f"{len(self.unreadable)} unreadable result(s), such as {clean(str(path))}"
            + (f", which {clean(str(problem))}" if problem else "")
            for path in self.unreadable[:1]
            for problem in [store.problem_of(path.parent)]
        ]
        skipped += [f"{self.unfinished} unfinished run(s)"] * bool(self.unfinished)
        if self.repeated:
            skipped.append(
                f"{self.repeated} run(s) that repeat the config, seed and split of another"
            )
        return [f"skipped {what}" for what in skipped]


@environment.uncollected()
def collect(folders: Iterable[str | os.PathLike], records: bool = True) -> Collection:
    """All runs in and below some folders: experiments, folders of them, or folders of such folders.

    Args:
        folders: where to look.
        records: whether to keep the records too; ten thousand of them are most of the memory, and a
            comparison needs the runs alone.

    Raises:
        InputError: a folder is not there, or none holds a result.
    """
    given = list(map(str, folders))
    found = Collection([Path(os.path.abspath(folder)) for folder in given])
    experiments: dict[Path, Experiment] = {}
    known: set[tuple[str, Pair]] = set()
    for folder, root in zip(given, found.folders):
        if not root.is_dir():
            raise InputError.plain("DIR", f"the folder {folder} does not exist")
        for place, below, files in os.walk(folder, onerror=found.unlisted):
            below[:] = sorted(name for name in below if not name.startswith("."))
            if not {"run.json", "result.json"} & {*files}:
                continue

            path = Path(os.path.abspath(place))
            experiment = experiments.get(path.parent)
            if experiment is None:
                base = root.parent if len(given) > 1 or path.parent == root else root
                name = plain(os.path.relpath(path.parent, base))
                experiment = experiments[path.parent] = Experiment(name, path.parent)
            record = _read(path)
            if record is None:
                experiment.failures[plain(path.name)] = _failure(path)
                found.unfinished += "result.json" not in files
                found.unreadable += [Path(place, "result.json")] * ("result.json" in files)
                continue

            result, run = record
            if records:
                experiment.results[result["seed"]] = result
            experiment.times.append((path / "result.json").stat().st_mtime)
            found.repeated += (run.digest, run.pair) in known
            if (run.digest, run.pair) not in known:
                known.add((run.digest, run.pair))
                found.runs.append(run)
    if not found.runs:
        message = "; ".join(
            [f"{', '.join(given)} contains no finished run (<seed>/result.json)", *found.remarks()]
        )
        raise InputError.plain("DIR", message)
    found.experiments = sorted(experiments.values(), key=lambda experiment: experiment.name)
    _make_distinct(found.experiments)
    return found


def _read(directory: Path) -> tuple[store.Result, Run] | None:
    """The record of a run in both forms; None of a link, a torn file or a foreign one."""
    file = directory / "result.json"
    result = store.read_result(directory) if file.is_file() and not file.is_symlink() else None
    if result is None:
        return None
    result = {"info": {}, "selection": "unknown", "versions": {}} | result
    try:
        if not _is_sound(result):
            return None
        result = modern_result(result)
        result |= {key: plain(result[key]) for key in NAMED}
        config, facts = _config(result["config"])
        return result | {"config": config}, _run(result, facts)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        return None


def _is_sound(result: store.Result) -> bool:
    """Whether what reports show is of its kind; ``store.read_result`` has looked at the scores."""
    _check_text({key: value for key, value in result.items() if key not in ("history", "config")})
    kinds = {
        "val": dict,
        "test": dict,
        "info": dict,
        "versions": dict,
        "warnings": list,
        "selection": str,
        "split": str,
        "seed": int,
        "seconds": (int, float),
    }
    return (
        isinstance(result["config"]["dataset"]["format"], str)
        and all(isinstance(result[key], kind) for key, kind in kinds.items())
        and all(
            isinstance(episode[split], dict)
            for episode in result["history"]
            for split in store.SPLITS
        )
    )


def _config(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Hashable]]:
    """A config, and its values by dotted key; what runs of an experiment have in common is one."""
    own = {key: config[key] for key in VOLATILE & config.keys()}
    _check_text(own)
    shared, facts = _shared(shared_text(config))
    return {key: shared.get(key, value) for key, value in config.items()}, facts | _dotted(own)


@functools.lru_cache(1024)
def _shared(text: str) -> tuple[dict[str, Any], dict[str, Hashable]]:
    config = json.loads(text)
    _check_text(config)
    return config, _dotted(config)


def _dotted(config: Mapping[str, Any]) -> dict[str, Hashable]:
    return {key: _hashable(value) for key, value in flatten(config).items()}


def _check_text(part: Mapping[str, Any]) -> None:
    """Have text that is no Unicode raise here instead of in a figure."""
    json.dumps(part, ensure_ascii=False).encode()


def _run(result: store.Result, facts: dict[str, Hashable]) -> Run:
    costs = {key: result.get(key) for key in COSTS}
    parts = {
        "train": result["history"][result["selected"]]["train"],
        "val": result["val"],
        "test": result["test"],
    }
    scores = {
        split: {
            clean(key): float(value) for key, value in (costs | part).items() if _is_score(value)
        }
        for split, part in parts.items()
    }
    pair = result["split"], result["seed"]
    return Run(
        facts | {key: result[key] for key in NAMED},
        scores,
        pair,
        result["digest"],
        _hashable(result["info"].get("unseen")),
        bool(result["warnings"]),
    )


def _is_score(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return str(value) if isinstance(value, dict) else value


def _failure(directory: Path) -> str:
    """Why a run has no readable result: the last line of its error, if it left one."""
    file = directory / "error.txt"
    if (directory / "result.json").exists():
        reason = store.problem_of(directory) or "is not what this program writes"
        return f"its result.json {reason}"
    if file.is_symlink() or not file.is_file():
        return "no result yet: interrupted, or still running"
    with open(file, "rb") as error:
        error.seek(max(0, file.stat().st_size - 10_000))
        lines = error.read().decode(errors="replace").split("\n")
    return next(
        (plain(line)[:300] for line in reversed(lines) if line.strip()),
        "failed and left no message",
    )


def _without_volatile(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    return {
        key: _without_volatile(value, f"{prefix}{key}.") if isinstance(value, Mapping) else value
        for key, value in config.items()
        if not is_volatile(f"{prefix}{key}")
    }


def _make_distinct(experiments: Iterable[Experiment]) -> None:
    """Add a number where two have one name."""
    seen: dict[str, int] = {}
    for experiment in experiments:
        seen[experiment.name] = seen.get(experiment.name, 0) + 1
        experiment.name += f" ({seen[experiment.name]})" * (seen[experiment.name] > 1)

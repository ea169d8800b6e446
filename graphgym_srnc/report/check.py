"""Looks over folders: every run, record, model, checkpoint, aggregate, picture and event file, and
the graph folders among them."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple

import yaml

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.text import counted
from graphgym_srnc.data import folder
from graphgym_srnc.gym import checkpoint
from graphgym_srnc.gym.model import FILE as MODEL
from graphgym_srnc.io import stats, store
from graphgym_srnc.io.seal import is_edited
from graphgym_srnc.io.settings import difference, flatten, plain_yaml
from graphgym_srnc.report import intact
from graphgym_srnc.train import model

KINDS = ("damaged", "newer", "older", "foreign", "unfinished")
"""What may be wrong: numbers were changed or lost, another version wrote it that this one does not
read, or another program, or whoever wrote it was stopped."""


EVENTS, PICTURE, GRAPH = "event file", "picture", "graph folder"


class Finding(NamedTuple):
    """What is wrong with a file or a directory: one of ``KINDS``, and why."""

    path: Path
    kind: str
    reason: str


class Report(NamedTuple):
    """All findings, and how much was looked at, by noun."""

    findings: list[Finding]
    seen: Counter[str]

    def summary(self) -> str:
        """One line."""
        kinds = Counter(finding.kind for finding in self.findings)
        parts = [counted(self.seen[noun], noun) for noun in ("experiment", "run", "model")]
        parts += [
            counted(self.seen[noun], noun) for noun in (EVENTS, PICTURE, GRAPH) if self.seen[noun]
        ]
        return f"{', '.join(parts)}: " + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS)


def check(root: str | os.PathLike) -> Report:
    """Look at everything in and below a folder.

    Raises:
        InputError: there is no such folder, or no run and no graph folder in it.
    """
    if not Path(root).is_dir():
        raise InputError.plain("DIR", f"the folder {root} does not exist")
    report = Report([], Counter())
    homes = set()
    for place, below, files in os.walk(
        root,
        onerror=lambda error: report.findings.append(
            Finding(Path(error.filename), "damaged", f"cannot be read ({error.strerror})")
        ),
    ):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if {"run.json", "result.json"} & {*files}:
            homes.add(Path(place).absolute().parent)
        if folder.MARKER in files:
            report.seen[GRAPH] += 1
            report.findings.extend(_graph(Path(place)))
    if not homes and not report.seen[GRAPH]:
        message = f"{root} contains no experiment (<seed>/run.json) and no folder of data make"
        raise InputError.plain("DIR", message)
    for home in sorted(homes):
        report.seen["experiment"] += 1
        report.findings.extend(_experiment(home, report.seen))
    return report


def _experiment(home: Path, seen: Counter[str]) -> Iterator[Finding]:
    results: dict[int, store.Result] = {}
    is_open = False
    for path in sorted(home.iterdir()):
        name = path.name
        if path.is_symlink():
            yield Finding(path, "foreign", "is a symbolic link, which this program does not follow")
        elif name.startswith(".") and name.endswith((".new", ".old", ".tmp")):
            yield Finding(path, "unfinished", "was left by a process that was stopped")
        elif path.is_dir() and name.isdecimal():
            seen["run"] += 1
            yield from _run(path, seen)
            result = store.read_result(path)
            if result is None:
                is_open = True
            else:
                results[result["seed"]] = result
    yield from _config(home / "config.yaml", results)
    yield from _aggregates(home, results, is_open)
    yield from _shown(home, results, seen)


def _graph(path: Path) -> Iterator[Finding]:
    for name in folder.changed(path):
        yield Finding(path / name, "damaged", "is damaged or was edited: its checksum is wrong")


def _shown(
    home: Path,
    results: Mapping[int, store.Result],
    seen: Counter[str],
) -> Iterator[Finding]:
    """What is only looked at: pictures and event files, of runs and of all together."""
    for path in sorted(home.rglob("*")):
        place = path.relative_to(home)
        noun = EVENTS if "tfevents" in path.name else PICTURE if path.suffix == ".png" else ""
        hidden = any(part.startswith(".") for part in place.parts)
        if not noun or hidden or path.is_symlink() or not path.is_file():
            continue
        seen[noun] += 1
        wrong = (intact.events if noun == EVENTS else intact.picture)(path.read_bytes())
        done = not place.parts[0].isdecimal() or int(place.parts[0]) in results
        if wrong:
            yield Finding(path, "damaged" if done or wrong != intact.TORN else "unfinished", wrong)


def _run(run: Path, seen: Counter[str]) -> Iterator[Finding]:
    names = {path.name for path in run.iterdir()}
    if not names & {"run.json", "result.json"}:
        yield Finding(run, "foreign", "was not written by this program")
        return
    for path in run.rglob("*"):
        if path.is_symlink():
            yield Finding(path, "foreign", "is a symbolic link, which this program does not follow")
        elif path.name.startswith(".") and path.name.endswith(".tmp"):
            yield Finding(path, "unfinished", "was left by a process that was stopped")

    problem, result = store.problem_of(run), store.read_result(run)
    if problem is not None:
        kind = "newer" if isinstance(problem, store.Newer) else "damaged"
        yield Finding(run / "result.json", kind, str(problem))
    elif result is None:
        yield Finding(
            run,
            "unfinished",
            "failed, see its error.txt"
            if "error.txt" in names
            else "has no result: it was stopped or is still running",
        )
    if not _is_sound_begin(run / "run.json", result):
        yield Finding(run / "run.json", "damaged", "is not what this program writes")
    if MODEL in names:
        seen["model"] += 1
        yield from _model(run / MODEL, result)
    if store.CHECKPOINT in names:
        yield from _checkpoint(run / store.CHECKPOINT)


def _is_sound_begin(path: Path, result: store.Result | None) -> bool:
    try:
        begin = json.loads(path.read_bytes())
        digests = {begin["digest"]} if result is None else {result["digest"]}
        return str(begin["seed"]) == path.parent.name and begin["digest"] in digests
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _model(path: Path, result: store.Result | None) -> Iterator[Finding]:
    try:
        facts = model.facts_of(path)
    except InputError as error:
        ages = {"by newer version": "newer", "its format is": "older"}
        kind = next((kind for text, kind in ages.items() if text in error.message), "damaged")
        yield Finding(path, kind, error.message.removeprefix(f"{path} ").removesuffix("."))
        return
    if result and any(facts.get(key) != result[key] for key in ("method", "digest", "split")):
        yield Finding(path, "foreign", "is the model of another run")


def _checkpoint(path: Path) -> Iterator[Finding]:
    try:
        _, key = checkpoint.unpack(path.read_bytes())
        number = int(key["format"])
    except Exception:  # torch has no error of its own for a file that it did not write
        reason = "is not a complete checkpoint; --resume starts the run from the beginning"
        yield Finding(path, "damaged", reason)
        return
    if number > checkpoint.FORMAT:
        yield Finding(path, "newer", f"was written by a newer version (format {number})")


def _config(path: Path, results: Mapping[int, store.Result]) -> Iterator[Finding]:
    """What ``config.yaml`` says of keys that the records have too must be the same."""
    try:
        text = path.read_text(encoding="utf-8")
        written = flatten(plain_yaml(text))
    except (OSError, ValueError, AttributeError) as error:
        yield Finding(path, "damaged", f"cannot be read ({' '.join(str(error).split())})")
        return
    if is_edited(text):
        yield Finding(path, "damaged", "is damaged: its checksum is wrong")
        return
    wrong = []
    for result in results.values():
        # All values as text, as they are in the file.
        stored = flatten(plain_yaml(yaml.safe_dump(result["config"])))
        wrong.append(difference({key: written.get(key) for key in stored}, stored))
    if wrong and all(wrong):
        key = next(iter(wrong[0]))
        yield Finding(path, "damaged", f"differs from the config in the records ({key})")


def _aggregates(
    home: Path,
    results: Mapping[int, store.Result],
    is_open: bool,
) -> Iterator[Finding]:
    """Whatever follows from the records must be there, unless some (``is_open``) are not."""
    expected: dict[str, set[str]] = {}
    for digest in {result["digest"] for result in results.values()}:
        group = {seed: result for seed, result in results.items() if result["digest"] == digest}
        digits = next(iter(group.values()))["config"].get("round", 4)
        files = stats.of_experiment(group, int(digits))
        for seed, result in group.items():
            files_of_run = {f"{seed}/{name}": text for name, text in stats.of_run(result).items()}
            for name, text in files_of_run.items():
                expected.setdefault(name, set()).add(text)
        for name, text in files.items():
            expected.setdefault(name, set()).add(text)
    for name, texts in sorted(expected.items()):
        path = home / name
        if path.is_file() and path.read_bytes() not in {text.encode() for text in texts}:
            yield Finding(
                path,
                "unfinished" if is_open else "damaged",
                "does not match the records; --resume writes it again",
            )
        elif not path.is_file():
            yield Finding(path, "unfinished", "is missing; --resume writes it again")

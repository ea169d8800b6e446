"""``graphgym-srnc check``: verify the checksums of a folder of results or graphs."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from graphgym_srnc.cli import arguments
from graphgym_srnc.errors import InputError

KINDS = ("damaged", "newer", "unfinished")
"""What may be wrong with a file or folder, see ``docs/reference/results-folder.md``."""


class Finding(NamedTuple):
    """What is wrong with a file or a folder: one of ``KINDS``, and why."""

    path: Path
    kind: str
    reason: str


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    text = (
        "Verify the checksums of stored results. The command reads every file that a SHA256SUMS\n"
        "lists, every record, checkpoint and graph folder of `data make`, in DIR and below. It\n"
        "changes nothing. The exit status is 1 if a file is damaged."
    )
    options = "folder DIR  folder of an experiment, a folder of experiments, or a graph folder"
    arguments.add_command(subparsers, "check", text, options)


def main(args: argparse.Namespace) -> int:
    """Print a line for each finding, and a summary; 1 if anything is damaged.

    Raises:
        InputError: there is no such folder, or no run and no graph folder in it.
    """
    from graphgym_srnc.core.text import clean, counted

    findings, seen = check(args.folder)
    for path, kind, reason in findings:
        print(clean(f"{kind}: {path} {reason}"))
    kinds = Counter(finding.kind for finding in findings)
    looked_at = ", ".join(counted(number, noun) for noun, number in seen.items())
    print(f"{looked_at}: " + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS))
    return int(kinds["damaged"] > 0)


def check(root: str) -> tuple[list[Finding], Counter[str]]:
    """All findings in and below a folder, and how much was looked at, by noun.

    Raises:
        InputError: there is no such folder, or no run and no graph folder in it.
    """
    from graphgym_srnc.data import folder as graphs
    from graphgym_srnc.io import checksums

    if not Path(root).is_dir():
        raise InputError.plain("DIR", f"the folder {root} does not exist")
    findings: list[Finding] = []
    seen: Counter[str] = Counter(experiment=0, run=0, file=0)

    def unlisted(error: OSError) -> None:
        reason = f"cannot be read ({error.strerror})"
        findings.append(Finding(Path(error.filename), "damaged", reason))

    experiments = set()
    for place, below, files in os.walk(root, onerror=unlisted):
        path = Path(place)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if "run.json" in files or "result.json" in files:
            experiments.add(path.absolute().parent)
            seen["run"] += 1
            findings += _run(path, files)
        if graphs.MARKER in files:
            seen["graph folder"] += 1
            reason = "is damaged or was edited: its checksum is wrong"
            findings += [Finding(path / name, "damaged", reason) for name in graphs.changed(path)]
        if checksums.FILE in files and ("result.json" in files or "run.json" not in files):
            seen["file"] += len(_listed(path))
            problems = checksums.verify(path)
            findings += [Finding(path / name, "damaged", problem) for name, problem in problems]
    reason = "has no checksums yet: its runs were stopped or are still running. --resume completes"
    for home in sorted(experiments):
        seen["experiment"] += 1
        if not (home / checksums.FILE).exists():
            findings.append(Finding(home, "unfinished", f"{reason} it"))
    if not experiments and not seen["graph folder"]:
        message = f"{root} contains no experiment (<seed>/run.json) and no folder of data make"
        raise InputError.plain("DIR", message)
    return findings, seen


def _run(run: Path, files: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with a run, its checksums apart."""
    from graphgym_srnc.io import store, tensors

    try:
        store.load_result(run)
    except FileNotFoundError:
        failed = "failed, see its error.txt"
        stopped = "has no result: it was stopped or is still running"
        yield Finding(run, "unfinished", failed if "error.txt" in files else stopped)
    except store.Unreadable as problem:
        kind = "newer" if isinstance(problem, store.Newer) else "damaged"
        yield Finding(run / "result.json", kind, str(problem))
    if store.CHECKPOINT in files:
        try:
            tensors.read(run / store.CHECKPOINT)
        except (OSError, ValueError) as error:
            reason = f"is not used ({error}); --resume starts the run from the beginning"
            yield Finding(run / store.CHECKPOINT, "damaged", reason)


def _listed(folder: Path) -> dict[str, str]:
    from graphgym_srnc.io import checksums

    try:
        return checksums.read(folder)
    except ValueError:  # verify tells it
        return {}

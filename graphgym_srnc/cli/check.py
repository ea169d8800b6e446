"""``graphgym-srnc check``: verify the checksums of a folder of results or graphs."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Iterator, NamedTuple

from graphgym_srnc.errors import InputError

KINDS = ("damaged", "foreign", "unfinished")
"""What may be wrong with a file or folder, see ``docs/reference/results-folder.md``."""

LEFTOVERS = (".new", ".old", ".tmp")
"""How hidden names end that a stopped process may leave."""


class Finding(NamedTuple):
    """What is wrong with a file or a folder: one of ``KINDS``, and why."""

    path: Path
    kind: str
    reason: str


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "check",
        help="verify the checksums of stored results",
        allow_abbrev=False,
        description="Verify the checksums of stored results. The command reads every file that a"
        " SHA256SUMS lists, every record, checkpoint and graph folder of `data make`, in DIR"
        " and below. It changes nothing. The exit status is 1 if a file is damaged.",
    )
    parser.add_argument(
        "folder",
        metavar="DIR",
        help="folder of an experiment, a folder of experiments, or a graph folder",
    )


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
    parts = [counted(seen[noun], noun) for noun in ("experiment", "run", "file")]
    parts += [counted(seen["graph folder"], "graph folder")] * bool(seen["graph folder"])
    print(f"{', '.join(parts)}: " + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS))
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
    seen: Counter[str] = Counter()

    def unlisted(error: OSError) -> None:
        reason = f"cannot be read ({error.strerror})"
        findings.append(Finding(Path(error.filename), "damaged", reason))

    experiments = set()
    for place, below, files in os.walk(root, onerror=unlisted):
        path = Path(place)
        left = [name for name in [*below, *files] if name[0] == "." and name.endswith(LEFTOVERS)]
        reason = "was left by a process that was stopped"
        findings += [Finding(path / name, "unfinished", reason) for name in sorted(left)]
        below[:] = sorted(name for name in below if not name.startswith("."))
        if {"run.json", "result.json"} & {*files}:
            experiments.add(path.absolute().parent)
            seen["run"] += 1
            findings += _run(path, {*files})
        if graphs.MARKER in files:
            seen["graph folder"] += 1
            reason = "is damaged or was edited: its checksum is wrong"
            findings += [Finding(path / name, "damaged", reason) for name in graphs.changed(path)]
        if checksums.FILE in files and ("result.json" in files or "run.json" not in files):
            seen["file"] += len(_listed(path))
            problems = checksums.verify(path)
            findings += [Finding(path / name, "damaged", problem) for name, problem in problems]
    for home in sorted(experiments):
        seen["experiment"] += 1
        findings += _experiment(home)
    if not experiments and not seen["graph folder"]:
        message = f"{root} contains no experiment (<seed>/run.json) and no folder of data make"
        raise InputError.plain("DIR", message)
    return findings, seen


def _experiment(home: Path) -> Iterator[Finding]:
    from graphgym_srnc.io import checksums

    for path in sorted(home.rglob("*")):
        if path.is_symlink():
            yield Finding(path, "foreign", "is a symbolic link, which this program does not follow")
    for path in sorted(home.iterdir()):
        begun = {"run.json", "result.json"} & {*os.listdir(path)} if path.is_dir() else set()
        if path.name.isdecimal() and path.is_dir() and not begun:
            yield Finding(path, "foreign", "was not written by this program")
    if not (home / checksums.FILE).exists():
        reason = "has no checksums yet: its runs were stopped or are still running"
        yield Finding(home, "unfinished", f"{reason}. --resume completes it")


def _run(run: Path, names: set[str]) -> Iterator[Finding]:
    """What is wrong with a run, its checksums apart."""
    from graphgym_srnc.io import store, tensors

    try:
        store.load_result(run)
    except FileNotFoundError:
        failed = "failed, see its error.txt"
        stopped = "has no result: it was stopped or is still running"
        yield Finding(run, "unfinished", failed if "error.txt" in names else stopped)
    except store.Unreadable as problem:
        yield Finding(run / "result.json", "damaged", str(problem))
    except OSError:
        pass  # of a listed file, which is verified as such
    if store.CHECKPOINT in names:
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

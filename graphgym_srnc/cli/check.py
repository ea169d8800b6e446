"""``graphgym-srnc check``: verify the checksums of a folder of results or graphs."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Iterator, Sequence

from graphgym_srnc.core.text import clean, counted
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import checksums, records, tensors


def main(args: argparse.Namespace) -> int:
    """Print a line for each finding, and a summary; 1 if anything is damaged.

    Raises:
        InputError: there is no such folder, or no run and no graph folder in it.
    """
    if not Path(args.folder).is_dir():
        raise InputError.plain("DIR", f"the folder {args.folder} does not exist")
    seen: Counter[str] = Counter(experiment=0, run=0)
    kinds: Counter[str] = Counter()
    for path, kind, reason in _findings(args.folder, seen):
        kinds[kind] += 1
        print(clean(f"{kind}: {path} {reason}"))
    if not seen.total():
        found = f"{args.folder} contains no experiment (<seed>/run.json) and no graph folder"
        raise InputError.plain("DIR", found, "Give a folder of results or of data make")
    looked_at = ", ".join(counted(number, noun) for noun, number in seen.items())
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ("damaged", "failed", "unfinished"))
    print(f"{looked_at}: {counts}")
    return int(kinds["damaged"] > 0)


def _findings(root: str, seen: Counter[str]) -> Iterator[tuple[Path, str, str]]:
    """Files and folders, whether damaged, failed or unfinished, and why; ``seen`` counts all."""
    unlisted: list[OSError] = []
    experiments = set()
    for place, below, files in os.walk(root, onerror=unlisted.append):
        path = Path(place)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if "run.json" in files or "result.json" in files:
            home = path.absolute().parent
            study = home.parents[1] if home.parent.name == "trials" else home
            # The trials of a study have no checksums of their own beside those of each run.
            experiments.add(study if any(study.glob("tuned.*")) else home)
            seen["run"] += 1
            yield from _run(path, files)
        if checksums.FILE in files and "edges.csv" in files:
            seen["graph folder"] += 1
        if checksums.FILE in files and ("result.json" in files or "run.json" not in files):
            for name, problem in checksums.verify(path):
                yield path / name, "damaged", problem
    for error in unlisted:
        yield Path(error.filename), "damaged", f"cannot be read ({error.strerror})"
    for home in sorted(experiments):
        seen["experiment"] += 1
        if not (home / checksums.FILE).exists():
            reason = "has no checksums yet: its runs failed, were stopped or are still running"
            yield home, "unfinished", f"{reason}. Repeat its command (run and grid: with --resume)"


def _run(run: Path, files: Sequence[str]) -> Iterator[tuple[Path, str, str]]:
    """What is wrong with a run, its checksums apart."""
    try:
        records.load_result(run)
    except FileNotFoundError:
        if "error.txt" in files:
            yield run, "failed", "has no result, see its error.txt"
        else:
            yield run, "unfinished", "has no result: it was stopped or is still running"
    except records.Unreadable as problem:
        yield run / "result.json", "damaged", str(problem)
    except OSError:
        pass  # of a listed file, which is verified as such
    if records.CHECKPOINT in files:
        try:
            tensors.read(run / records.CHECKPOINT)
        except (OSError, ValueError) as error:
            reason = f"is not used ({error}); --resume starts the run from the beginning"
            yield run / records.CHECKPOINT, "damaged", reason

"""Records of finished runs: a ``result.json`` in the directory of each, checked when it is read."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path
from typing import Any, Mapping

from graphgym_srnc.core.text import plain
from graphgym_srnc.errors import InputError, did_you_mean
from graphgym_srnc.io import atomic, checksums
from graphgym_srnc.io.atomic import write_text
from graphgym_srnc.io.settings import digest
from graphgym_srnc.io.stats import SHARES, SPLITS

Result = dict[str, Any]

LONGEST = 600  # maximum length of a warning in letters
MOST_WARNINGS = 1000  # of a run; it has a few of them
LARGEST = 1e150  # of a stored figure, whose square is still a number
FORMAT = 2  # of records; no other one is read
CHECKPOINT = "checkpoint.safetensors"  # in the directory of a run until its result is there
LOG = "logging.log"  # opened by GraphGym's ``main.py`` before the run is made

# Files that the checksums of a run list: all but hidden ones, and what changes later.
LISTED = re.compile(
    rf"(?!(?:.*/)?\.|.*\\|{checksums.FILE}|{CHECKPOINT}|{LOG}|error\.txt|\w+/stats\.json).+"
)

# Files of a graph folder.
OF_GRAPH = re.compile(r"(nodes|edges|features|labels|split|words|answers|recipe|parent)\.\w+")
PLAN = "planned.json"  # in the folder of a grid: seeds of its runs by name of their experiment


# Types of what a record holds.
KINDS: dict[str, type] = {
    "seed": int,
    "selected": int,
    "method": str,
    "backbone": str,
    "task": str,
    "split": str,
    "selection": str,
    "hidden_classes": list,
    "warnings": dict,
    "verdict": dict,
    "held_out": dict,
    "val": dict,
    "test": dict,
    "info": dict,
    "versions": dict,
}


class Unreadable(ValueError):
    """A record cannot be used. The message is a predicate, for example 'is damaged'."""


def write_record(run: Path, record: Mapping[str, Any]) -> None:
    """Write the checksums of all files of a run, and last its record, which finishes it."""
    text = json.dumps(record, indent=1) + "\n"
    (run / "result.json").unlink(missing_ok=True)
    paths = [path for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
    names = [path.relative_to(run).as_posix() for path in paths]
    listed = [name for name in names if LISTED.fullmatch(name) and name.isprintable()]
    checksums.write(run, listed, {"result.json": text.encode()})
    write_text(run / "result.json", text)


def load_result(run: Path) -> Result:
    """The record of a finished run, or FileNotFoundError, OSError or Unreadable."""
    content = atomic.content(run / "result.json")
    try:
        expected = checksums.read(run).get("result.json")
    except (FileNotFoundError, ValueError) as error:
        raise Unreadable(f"cannot be verified: {checksums.FILE} is missing or damaged") from error
    if checksums.of(content) != expected:
        raise Unreadable("is damaged or was edited: its checksum is wrong")
    try:
        result = json.loads(content)
        is_ours = (
            result["digest"] == digest(result["config"])
            and result["format"] == FORMAT
            and str(result["seed"]) == run.name
            and _is_sound(result)
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        is_ours = False
    if not is_ours:
        raise Unreadable(f"is not what this program writes in format {FORMAT} for this seed")
    return result


def read_result(run: Path) -> Result | None:
    """The record of a finished run; None where there is none or it cannot be used."""
    with contextlib.suppress(FileNotFoundError, Unreadable):
        return load_result(run)
    return None


def warnings_of(result: Result) -> dict[str, str]:
    """All warnings of a run by code: those of its training, then those of its diagnostics.

    The record of a model that is not in the folder of its run may have none.
    """
    found = {**result.get("warnings", {}), **result.get("verdict", {}).get("sentences", {})}
    return {plain(code): plain(text)[:LONGEST] for code, text in found.items()}


def read_results(path: Path) -> dict[int, Result]:
    """The finished runs in the directory of an experiment, by seed."""
    results = {seed: read_result(path / str(seed)) for seed in seeds_of(path)}
    return {seed: result for seed, result in results.items() if result is not None}


def finished_run(path: Path) -> tuple[Path, Result]:
    """The directory of a finished run and its record; of an experiment that of the lowest seed.

    Raises:
        InputError: there is none, or it is damaged. The next seed does not replace a damaged one.
    """
    for run in (path, *(path / str(seed) for seed in seeds_of(path))):
        try:
            return run, load_result(run.absolute())
        except FileNotFoundError:
            continue
        except Unreadable as error:
            raise InputError.plain(
                "path",
                f"{run / 'result.json'} {error}",
                "Give the folder of another seed",
                "damaged",
            ) from error
    hint = "Give the folder of a finished run or experiment, or a model file"
    usual = path.parent / "results" / path.name
    if usual.is_dir():
        hint = f"Did you mean {usual}?"
    elif not path.exists() and path.parent.is_dir():
        others = [child.name for child in path.parent.iterdir() if child.is_dir()]
        hint = did_you_mean(path.name, others, hint)
    raise InputError.plain("path", f"{path} contains no finished run", hint)


def seeds_of(path: Path) -> list[int]:
    """The seeds of the runs in the directory of an experiment, sorted."""
    names = [child.name for child in path.iterdir()] if path.is_dir() else []
    return sorted(int(name) for name in names if name.isdecimal() and name == str(int(name)))


def is_part(path: Path) -> bool:
    """Whether a file belongs to results, whose checksums list it, or to a graph folder."""
    is_of_graph = OF_GRAPH.fullmatch(path.name) and any(path.parent.glob("edges.*"))
    is_list = path.name in (checksums.FILE, PLAN)
    return bool(is_of_graph) or is_list or checksums.listed(path) is not None


def _is_sound(result: Result) -> bool:
    """Whether all that aggregates, tables and pages show is of its kind."""
    history = result["history"]
    verdict = result["verdict"]
    held_out = result["held_out"]
    scores = [result["val"], result["test"]]
    scores += [episode[split] for episode in history for split in SPLITS]
    figures = [*scores, verdict["figures"], *(episode["losses"] for episode in history)]
    numbers = [result["lr"], result["params"], result["seconds"]]
    numbers += [episode["seconds"] for episode in history]
    numbers += [value for part in figures for value in part.values()]
    shares = [part[name] for part in scores for name in SHARES if name in part]
    if held_out:
        judged = [held_out, held_out["as_known"], *held_out["alone"].values()]
        shares += [part[name] for part in judged for name in ("accuracy", "low", "high")]

    # Text that is not Unicode raises here and not in a figure.
    shown = {key: value for key, value in result.items() if key != "history"}
    json.dumps(shown, ensure_ascii=False).encode()
    return (
        all(isinstance(result[key], kind) for key, kind in KINDS.items())
        and isinstance(result["config"]["dataset"]["format"], str)
        and 0 <= result["selected"] < len(history)
        and len(warnings_of(result)) <= MOST_WARNINGS
        and all(map(_is_figure, numbers))
        and all(0 <= share <= 1 for share in shares)
    )


def _is_figure(value: Any) -> bool:
    """Whether a value is a number that a table can square and sum; NaN and infinity may be."""
    if isinstance(value, float):
        return not LARGEST < abs(value) < math.inf
    return isinstance(value, int) and abs(value) < 2**63

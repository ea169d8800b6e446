"""Run directories in GraphGym's own layout, written atomically; a finished result is never lost by accident.

``<out_dir>/<name>/config.yaml``, ``<name>/<seed>/result.json`` (the whole record), ``<name>/<seed>/{train,val,test}/stats.json``
and ``<name>/agg/{train,val,test}/{stats,best}.json``. All but ``result.json`` follows from it and can be written again.
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from graphgym_srnc import __version__
from graphgym_srnc.atomic import write_text
from graphgym_srnc.errors import InputError

Result = dict[str, Any]

FORMAT = 1
SPLITS = ("train", "val", "test")
CHECKPOINT = "checkpoint.pt"
"""What a run can go on from, in its directory until its result is."""

LOSSES = ("loss", "source", "classifier_source")
"""What GraphGym's ``loss`` is: the term of that name, else the cross-entropy on source labels."""

VOLATILE = frozenset({"seed", "out_dir", "run_dir", "cfg_dest", "print", "params", "share", "tensorboard_each_run", "tensorboard_agg",
                      "dataset.dir", "train.save_model", "train.checkpoint"})
"""Config keys, or whole blocks, that may differ between the runs of one experiment."""


class Busy(InputError):
    """Another process is at a run."""


class Experiment:
    """The runs of one config, one directory per seed.

    Args:
        out_dir: the directory of all experiments.
        name: the name of this one, a plain file name.
        config: every setting, as nested dictionaries.
        text: the same as it is to be written to ``config.yaml``.

    Raises:
        InputError: the name is not a plain file name, or the place cannot be written to.
    """

    def __init__(self, out_dir: str | os.PathLike, name: str, config: Mapping[str, Any], text: str = "") -> None:
        check_name(name)
        self.out_dir, self.name, self.text = Path(out_dir), name, text
        self.path = self.out_dir / name
        self.config = json.loads(json.dumps(config, default=str))
        self.digest = digest(self.config)
        self._replaced: list[int] = []
        _check_place(self.path)

    def plan(self, seeds: Sequence[int], resume: bool = False, overwrite: bool = False) -> list[int]:
        """The seeds to run, in order; nothing is written or deleted yet.

        Args:
            seeds: the seeds asked for.
            resume: leave out the seeds that are finished.
            overwrite: run all; each old result goes when its successor has begun.

        Raises:
            InputError: results are there and neither flag is given, they belong to another config and ``overwrite`` is not
                given, or a directory was not written by this program.
        """
        if min(seeds) < 0:
            raise InputError("seed", min(seeds), "0 or more")
        found, finished = self._seeds(), self.results()
        other = {seed: result for seed, result in finished.items() if result["digest"] != self.digest}
        if overwrite:
            self._replaced = sorted(other)
            return list(seeds)
        if other:
            raise InputError("out_dir", str(self.path), "another --name, or --overwrite, since it holds results of another config ("
                             + _told(next(iter(other.values()))["config"], self.config) + ")")
        foreign = [seed for seed in seeds if seed in found and not (self.path / str(seed) / "run.json").is_file()]
        if foreign:
            raise InputError("out_dir", str(self.path / str(foreign[0])),
                             "another --name, or --overwrite, since this program did not write that directory")
        present = [seed for seed in seeds if seed in found]
        if present and not resume:
            state = "finished" if any(seed in finished for seed in present) else "half-written"
            raise InputError("out_dir", str(self.path), f"--resume to run only what is missing, --overwrite to run all again, or another"
                             f" --name, since it holds {state} runs (seeds {', '.join(map(str, present))})")
        return [seed for seed in seeds if seed not in finished]

    def begin(self, seed: int, anew: bool = True) -> Path:
        """Make the empty directory of a run, or go on in the one that it has, and return it.

        Raises:
            InputError: it cannot be made.
        """
        run, new = self.path / str(seed), self.path / f".{seed}.new"
        try:
            if not anew:
                for left in (run / "error.txt", *run.glob(".*.tmp")):
                    left.unlink(missing_ok=True)
                return run
            self.clear()
            self._remove(seed)
            shutil.rmtree(new, ignore_errors=True)
            write_text(new / "run.json", json.dumps({"seed": seed, "digest": self.digest}) + "\n")
            self._write_config()
            # At once, so that whatever happens no directory lies there of which it is not known whose it is.
            os.replace(new, run)
        except OSError as error:
            raise InputError("out_dir", str(self.path), f"a directory that can be written to ({error.strerror})") from error
        return run

    def clear(self) -> None:
        """Remove the results of other configs that :meth:`plan` was told to overwrite."""
        for seed in self._replaced:
            self._remove(seed)
        self._replaced = []

    @contextlib.contextmanager
    def claim(self, seed: int) -> Iterator[None]:
        """Hold a run against other processes that would start it; the system frees it when the process ends, however that may be.

        Raises:
            Busy: another process holds it.
        """
        from filelock import FileLock, Timeout
        # Inside the experiment, since GraphGym's agg_batch takes whatever lies beside one for another.
        path = self.path / ".locks" / str(seed)
        made = [folder for folder in path.parents if not folder.exists()]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path, blocking=False)
            lock.acquire()
        except Timeout as error:
            raise Busy("out_dir", str(self.path / str(seed)), "a run that no other process is at") from error
        except OSError as error:
            raise InputError("out_dir", str(self.path), f"a directory that can be written to ({error.strerror})") from error
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if {child.name for child in self.path.iterdir()} == {path.parent.name}:
                    # Nothing came of it: leave no trace. A process that waits for the removed file sees that and opens a new one.
                    path.unlink()
                    for folder in made:
                        folder.rmdir()
            lock.release()

    def adopt(self, seed: int, found: Path) -> None:
        """Take over a finished run of just this config from the directory of another experiment; the original stays.

        Raises:
            InputError: it is no such run.
        """
        result = read_result(found)
        if result is None or result["digest"] != self.digest:
            raise InputError("out_dir", str(found), f"a finished run of the config of {self.name}")
        new = self.path / f".{seed}.new"
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(found, new)
        self._write_config()
        self._remove(seed)
        os.replace(new, self.path / str(seed))

    def fail(self, seed: int, story: str) -> None:
        """Leave in the directory of a run why it has no result; the next try removes it.

        Raises:
            InputError: it cannot be written.
        """
        run = self.path / str(seed)
        if read_result(run) is None:
            if not (run / "run.json").is_file():
                self.begin(seed)
            try:
                write_text(run / "error.txt", story)
            except OSError as error:
                raise InputError("out_dir", str(run), f"a directory that can be written to ({error.strerror})") from error

    def finish(self, seed: int, result: Result) -> Result:
        """Write all that a run leaves behind, ``result.json`` last, and return it as it is read back.

        Args:
            seed: the seed of the run.
            result: at least ``history`` (per episode ``number``, ``losses``, ``train``, ``val``, ``test``, ``seconds``),
                ``selected``, ``lr`` and ``params``.
        """
        run = self.path / str(seed)
        result = {"format": FORMAT, "seed": seed, "digest": self.digest, **result, **environment(), "config": self.config}
        terms = _terms([result])
        for split in SPLITS:
            write_text(run / split / "stats.json", _lines(_rows(result, split, len(result["history"]), terms)), durable=False)
        write_text(run / "result.json", json.dumps(result, indent=1, default=_plain) + "\n")
        self._forget(seed)
        return read_result(run)

    def result(self, seed: int) -> Result | None:
        """The finished run of this config with a seed, or None."""
        result = read_result(self.path / str(seed))
        return result if result is not None and result["digest"] == self.digest else None

    def results(self) -> dict[int, Result]:
        """The finished runs by seed, whatever their config; half-written ones are left out."""
        return read_results(self.path)

    def aggregate(self, digits: int = 4) -> dict[int, Result]:
        """Write ``agg/`` over all finished runs of this config, and return them.

        GraphGym's ``agg_runs`` wants as many lines of each seed. A run that stopped early goes on to use the weights of its
        selected episode, so that episode's line is repeated, with ``held`` = 1, up to the longest run.

        Args:
            digits: decimals, GraphGym's ``cfg.round``.
        """
        results = {seed: result for seed, result in self.results().items() if result["digest"] == self.digest}
        length = max((len(result["history"]) for result in results.values()), default=0)
        terms = _terms(results.values())
        for seed in results:
            self._forget(seed)
        for split in SPLITS if results else ():
            rows = {seed: _rows(result, split, length, terms) for seed, result in results.items()}
            for seed, lines in rows.items():
                _renew(self.path / str(seed) / split / "stats.json", _lines(lines))
            best = [line for seed, lines in rows.items() for line in lines if line["epoch"] == results[seed]["selected"]]
            _renew(self.path / "agg" / split / "stats.json", _lines(_mean_std(turn, digits) for turn in zip(*rows.values())))
            _renew(self.path / "agg" / split / "best.json", _lines([_mean_std(best, digits)] if best else []))
        return results

    def _seeds(self) -> list[int]:
        return _seeds(self.path)

    def _remove(self, seed: int) -> None:
        # Under another name first: what a crash leaves of it is no run then.
        run, old = self.path / str(seed), self.path / f".{seed}.old"
        shutil.rmtree(old, ignore_errors=True)
        if run.exists():
            os.replace(run, old)
            shutil.rmtree(old)

    def _forget(self, seed: int) -> None:
        """Remove the checkpoint of a finished run, also one that a crash has left; nothing hangs on it."""
        with contextlib.suppress(OSError):
            (self.path / str(seed) / CHECKPOINT).unlink(missing_ok=True)

    def _write_config(self) -> None:
        path = self.path / "config.yaml"
        if not path.is_file() or path.read_bytes() != self.text.encode():
            write_text(path, self.text)


def check_name(name: str) -> None:
    """Refuse a name that is not a plain file name, or that GraphGym keeps for itself.

    Raises:
        InputError: it is empty, hidden, ``agg``, too long, or holds a separator or a control character.
    """
    if not name or name.startswith(".") or name == "agg" or len(name) > 200 or any(c in '/\\:*?"<>|' or not c.isprintable() for c in name):
        raise InputError("name", name, "a plain file name other than 'agg', of at most 200 characters")


def digest(config: Mapping[str, Any]) -> str:
    """SHA-256 of a config without its ``VOLATILE`` keys: equal for all runs of one experiment."""
    kept = {key: value for key, value in flatten(config).items() if not _volatile(key)}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def read_result(run: Path) -> Result | None:
    """The record of a finished run, or None where ``result.json`` is absent, torn or not what it says it is."""
    try:
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    try:
        whole = result["format"] == FORMAT and str(result["seed"]) == run.name and result["digest"] == digest(result["config"])
        return result if whole and _is_sound(result) else None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _is_sound(result: Result) -> bool:
    """Whether all that aggregates and tables are made of is of its kind, as far as it is there."""
    history = result["history"]
    scores = [part.get(split, {}) for part in (result, *history) for split in SPLITS]
    numbers = [result["lr"], result["params"], *(part.get("seconds", 0.0) for part in (result, *history)),
               *(value for part in (*scores, *(episode["losses"] for episode in history)) for value in part.values())]
    texts = [*(result.get(key, "") for key in ("method", "backbone", "split")),
             *(result.get("verdict") or {}).get("sentences", {}).values()]
    return (0 <= result["selected"] < len(history) and isinstance(result["selected"], int) and isinstance(result.get("warnings", []), list)
            and all(isinstance(value, float) or isinstance(value, int) and abs(value) < 2 ** 63 for value in numbers)
            and all(isinstance(text, str) for text in texts))


def read_results(path: Path) -> dict[int, Result]:
    """The finished runs in the directory of an experiment, by seed."""
    results = {seed: read_result(path / str(seed)) for seed in _seeds(path)}
    return {seed: result for seed, result in results.items() if result is not None}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one JSON object per line; none where there is no such file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def experiments(out_dir: str | os.PathLike) -> Iterator[tuple[str, dict[int, Result]]]:
    """Name and finished runs of each experiment in a directory, by name."""
    root = Path(out_dir)
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        results = read_results(path)
        if results:
            yield path.name, results


def _renew(path: Path, text: str) -> None:
    """Write a file that can be made again, unless it is there as it should be."""
    if not path.is_file() or path.read_bytes() != text.encode():
        write_text(path, text, durable=False)


def reset_peak_memory() -> None:
    """Let :func:`peak_memory` begin anew, where the system can (Linux); elsewhere it stays that of the whole process."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> float | None:
    """The largest resident set of this process since :func:`reset_peak_memory`, in MiB; None where the system does not tell."""
    with contextlib.suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 2 ** 10
    if os.name != "posix":
        return None
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2 ** 20 if sys.platform == "darwin" else 2 ** 10)


@functools.cache
def environment() -> dict[str, Any]:
    """Versions of Python and the packages that make the numbers, and the git commit of this package where there is one."""
    versions = {"python": platform.python_version(), "graphgym-srnc": __version__}
    for package in ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {"versions": versions, "commit": _commit(), "platform": platform.platform()}


def _commit() -> str | None:
    def git(*words: str) -> str:
        here = str(Path(__file__).parent)
        return subprocess.run(["git", "-C", here, *words], capture_output=True, text=True, check=True, timeout=10).stdout

    try:
        # A package installed inside somebody else's repository is not of its commit.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*").strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _check_place(path: Path) -> None:
    if path.is_symlink() or any(child.is_symlink() for child in (path / str(seed) for seed in _seeds(path))):
        raise InputError("out_dir", str(path), "a real directory, no link")
    place = path.absolute()
    while not place.exists():
        place = place.parent
    try:
        if not place.is_dir():
            raise NotADirectoryError(20, "Not a directory")
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise InputError("out_dir", str(path), f"a directory that can be written to ({error.strerror}: {place})") from error


def _seeds(path: Path) -> list[int]:
    names = [child.name for child in path.iterdir()] if path.is_dir() else []
    return sorted(int(name) for name in names if name.isdecimal() and name == str(int(name)))


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Old and new value of each key in which two configs differ, those apart that may differ between the runs of one experiment."""
    old, new = flatten(old), flatten(new)
    return {key: (old.get(key), new.get(key)) for key in sorted(old | new) if old.get(key) != new.get(key) and not _volatile(key)}


def _told(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    changes = difference(old, new)
    told = [f"{key}: {there!r} there, {now!r} now" for key, (there, now) in list(changes.items())[:3]]
    return "; ".join(told + [f"{len(changes) - 3} more"] * (len(changes) > 3))


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one with dotted keys."""
    flat = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _volatile(key: str) -> bool:
    return key in VOLATILE or key.split(".")[0] in VOLATILE


def _terms(results: Any) -> list[str]:
    # Means over seeds need the same keys on all lines.
    return sorted({term for result in results for episode in result["history"] for term in episode["losses"]})


def _rows(result: Result, split: str, length: int, terms: Sequence[str]) -> list[dict[str, float]]:
    history, rows = result["history"], []
    for number in range(length):
        episode = history[number if number < len(history) else result["selected"]]
        losses, scores = episode["losses"], episode.get(split)
        if not scores:
            continue
        row = {"epoch": number}
        if split == "train":
            row["loss"] = next((losses[term] for term in LOSSES if term in losses), math.nan)
        row |= {"lr": result["lr"], "params": result["params"], "time_iter": episode.get("seconds", math.nan),
                "held": int(number >= len(history))}
        row |= {"accuracy": scores.get("micro_f1", math.nan), **scores}
        if split == "train":
            row |= {term: losses.get(term, math.nan) for term in terms if term not in row}
        rows.append(row)
    return rows


def _mean_std(rows: Sequence[Mapping[str, float]], digits: int) -> dict[str, float]:
    out: dict[str, float] = {"epoch": rows[0]["epoch"]}
    for key in rows[0]:
        if key != "epoch" and all(key in row for row in rows):
            mean = math.fsum(row[key] for row in rows) / len(rows)
            out[key] = round(mean, digits)
            out[f"{key}_std"] = round(math.sqrt(math.fsum((row[key] - mean) ** 2 for row in rows) / len(rows)), digits)
    return out


def _lines(rows: Any) -> str:
    return "".join(json.dumps(row, default=_plain) + "\n" for row in rows)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)

"""Run directories in GraphGym's own layout; a finished result is never lost by accident.

``<out_dir>/<name>/config.yaml``, ``<name>/<seed>/result.json`` (the whole record),
``<name>/<seed>/{train,val,test}/stats.json`` and ``<name>/agg/{train,val,test}/{stats,best}.json``.

Both kinds of folders have a ``SHA256SUMS``, see :mod:`.checksums`. That of a run lists the record,
which is written last, the model, figures and events. That of an experiment lists ``config.yaml``
and the statistics, which follow from the records; it is removed when a run begins.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from graphgym_srnc.core import environment
from graphgym_srnc.core.text import listed
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import checksums, stats
from graphgym_srnc.io.atomic import discard, refuse_links, regular, write_text
from graphgym_srnc.io.records import (
    CHECKPOINT,
    FORMAT,
    LOG,
    Result,
    Unreadable,
    load_result,
    problem_of,
    read_result,
    read_results,
    seeds_of,
    write_record,
)
from graphgym_srnc.io.settings import difference, digest

DAMAGED = "result.json.damaged"
"""What a record that cannot be read is kept as when its run is made again."""

MOST_SEEDS, LAST_SEED = 100_000, 2**32 - 1
"""How many runs an experiment may be asked for, and the last seed that numpy takes."""

PARTS = {
    "run.json": (r"\w+\.json", r"\w+\.safetensors", "error.txt", LOG, checksums.FILE),
    "../run.json": (".*",),
    "*/run.json": (r"config\.yaml", r"summary\.\w+", "agg", "mean", checksums.FILE),
    "tuned.json": (r"tuned(\.\w+)?", checksums.FILE),
    "../tuned.json": (r"\w+\.yaml",),
    "edges.*": (r"(nodes|edges|features|labels|split|words|answers|recipe)\.\w+",),
}
"""Files of a run, an experiment, a study and a graph folder: what such a folder contains, seen from
the file, and the names of its files."""

RETRY = "Choose another --name, or add --overwrite to replace it"
"""Advice of an error about results that must not be replaced."""


class Busy(InputError):
    """Another process is working on a run."""


class Kept(InputError):
    """A run's directory holds what must not be replaced."""


class Experiment:
    """The runs of one config, one directory per seed.

    Args:
        out_dir: the directory of all experiments.
        name: the name of this one, a plain file name.
        config: every setting, as nested dictionaries.
        text: the same as it is to be written to ``config.yaml``.

    Raises:
        InputError: the name is not a plain file name, or its directory cannot be written to.
    """

    def __init__(
        self, out_dir: str | os.PathLike, name: str, config: Mapping[str, Any], text: str = ""
    ) -> None:
        check_name(name)
        self.out_dir, self.name, self.text = Path(out_dir), name, text
        self.path = self.out_dir / name
        self.config = json.loads(json.dumps(config, default=str))
        self.digest = digest(self.config)
        self.warnings: list[str] = []
        self._replaced: list[int] = []
        _check_writable(self.path)

    def plan(
        self, seeds: Sequence[int], resume: bool = False, overwrite: bool = False
    ) -> list[int]:
        """The seeds to run, in order; nothing is written or deleted yet.

        ``warnings`` then names the records that cannot be read.

        Args:
            seeds: the seeds asked for.
            resume: leave out the seeds that are finished.
            overwrite: run all; each old result goes when its successor has begun.

        Raises:
            InputError: results are there and neither flag is given, they belong to another config
                and ``overwrite`` is not given, or this program did not write a directory.
        """
        if min(seeds) < 0:
            raise InputError("seed", min(seeds), "0 or more")
        finished, damaged = {}, {}
        for seed in seeds_of(self.path):
            try:
                finished[seed] = load_result(self.path / str(seed))
            except FileNotFoundError:
                pass
            except Unreadable as problem:
                damaged[seed] = problem
        self.warnings = [
            self._warning(seed, problem, seed in seeds)
            for seed, problem in damaged.items()
            if not (overwrite and seed in seeds)
        ]
        other = [seed for seed in finished if finished[seed]["digest"] != self.digest]
        self._check_config()
        if overwrite:
            self._replaced = other
            return list(seeds)
        if other:
            self._refuse_other(finished[other[0]])
        present = sorted({*seeds} & {*seeds_of(self.path)})
        for seed in {*present} - {*finished}:
            self._check_origin(seed)
        if present and not resume:
            state = "damaged" if damaged.keys() & {*present} else "half-written"
            state = "finished" if finished.keys() & {*present} else state
            raise _present(self.path, state, present)
        return [seed for seed in seeds if seed not in finished]

    def begin(self, seed: int, anew: bool = True) -> Path:
        """Make the empty directory of a run, or go on in the one that it has, and return it.

        Raises:
            InputError: it cannot be made.
        """
        run, new = self.path / str(seed), self.path / f".{seed}.new"
        self._check_links(seed)
        with _writing(self.path):
            if not anew:
                for leftover in (run / "error.txt", run / checksums.FILE, *run.glob(".*.tmp")):
                    leftover.unlink(missing_ok=True)
                self._keep_damaged(run, run)
                return run
            self.clear()
            discard(new)
            write_text(new / "run.json", json.dumps({"seed": seed, "digest": self.digest}) + "\n")
            self._keep_damaged(run, new)
            if run.is_dir() and [child.name for child in run.iterdir()] == [LOG]:
                os.replace(run / LOG, new / LOG)
            self._remove(seed)
            self._write_config()
            # At once, so that whatever happens no directory lies there of unknown origin.
            os.replace(new, run)
        return run

    def clear(self) -> None:
        """Remove the results of other configs that :meth:`plan` was told to overwrite."""
        for seed in self._replaced:
            # Another process may have put one of this config in its place.
            if (read_result(self.path / str(seed)) or {}).get("digest") != self.digest:
                self._remove(seed)
        self._replaced = []

    @contextlib.contextmanager
    def claim(self, seed: int, overwrite: bool = False) -> Iterator[Result | None]:
        """Hold a run against other processes; the system frees it when this process ends.

        Since :meth:`plan` others may have changed it, so that it is looked at again.

        Args:
            seed: the seed of the run.
            overwrite: whether what is there may be replaced, whatever it is.

        Yields:
            The result that is there and has to stay; None where the run is to be made.

        Raises:
            Busy: another process holds it.
            Kept: its directory holds what neither belongs to this experiment nor may be replaced.
        """
        from filelock import FileLock, Timeout

        # Inside the experiment, since GraphGym's agg_batch takes what lies beside one for another.
        path = self.path / ".locks" / str(seed)
        made = [folder for folder in path.parents if not folder.exists()]
        self._check_links(seed)
        with _writing(self.path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path, blocking=False)
            try:
                lock.acquire()
            except Timeout as error:
                message = f"another process is running {self.path / str(seed)}"
                raise Busy.plain("out_dir", message) from error
        try:
            yield None if overwrite else self._look_again(seed)
        finally:
            with contextlib.suppress(OSError):
                if os.listdir(self.path) == [path.parent.name]:  # nothing came of it
                    path.unlink()
                    for folder in made:
                        folder.rmdir()
            lock.release()

    def adopt(self, seed: int, finished: Path) -> None:
        """Copy a finished run of just this config from the directory of another experiment.

        Raises:
            InputError: it is no such run.
        """
        if (read_result(finished) or {}).get("digest") != self.digest:
            message = f"{finished} is not a finished run of the config of {self.name}"
            raise InputError.plain("out_dir", message)
        self._check_links(seed)
        new = self.path / f".{seed}.new"
        discard(new)
        shutil.copytree(finished, new)
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
            with _writing(run):
                write_text(run / "error.txt", story)

    def finish(self, seed: int, result: Result) -> Result:
        """Write the record of a run and return it; :meth:`aggregate` writes the statistics.

        Args:
            seed: the seed of the run.
            result: at least ``history`` (per episode ``number``, ``losses``, ``train``, ``val``,
                ``test``, ``seconds``), ``selected``, ``lr`` and ``params``.
        """
        run = self.path / str(seed)
        result = {"format": FORMAT, "seed": seed, "digest": self.digest, **result}
        result |= {**environment.facts(), "config": self.config}
        result = json.loads(json.dumps(result, default=_plain))
        write_record(run, result)
        (run / CHECKPOINT).unlink(missing_ok=True)
        return result

    def result(self, seed: int) -> Result | None:
        """The finished run of this config with a seed, or None."""
        result = read_result(self.path / str(seed))
        return result if result and result["digest"] == self.digest else None

    def results(self) -> dict[int, Result]:
        """The finished runs by seed, whatever their config."""
        return read_results(self.path)

    def aggregate(self, digits: int = 4) -> dict[int, Result]:
        """Write ``agg/`` over all finished runs of this config, and return them.

        Args:
            digits: decimals, GraphGym's ``cfg.round``.
        """
        refuse_links("out_dir", self.path, "agg", "mean")
        if not seeds_of(self.path):
            return {}
        from filelock import FileLock

        lock = self.path / ".locks" / "agg"
        lock.parent.mkdir(exist_ok=True)
        with FileLock(lock):
            found = self.results()
            results = {seed: found[seed] for seed in found if found[seed]["digest"] == self.digest}
            files = stats.of_experiment(results, digits) if results else {}
            stale = [name for name, lines in files.items() if not self._has(name, lines)]
            if stale:
                (self.path / checksums.FILE).unlink(missing_ok=True)
            for name in stale:
                write_text(self.path / name, files[name])
            if files:
                checksums.write(self.path, ["config.yaml", *files])
        return results

    def _check_config(self) -> None:
        """Refuse a config of the user in the place of ours, which may be the one that is read."""
        file = self.path / "config.yaml"
        with contextlib.suppress(OSError):  # an error is reported when the file is written
            ours = seeds_of(self.path) or (self.path / ".locks").exists()
            if not ours and regular(file).is_file():
                message = f"this program did not write {file}"
                raise Kept.plain("out_dir", message, "Choose another --name")

    def _check_links(self, seed: int) -> None:
        """Refuse links among the names that a run writes; others may have made one meanwhile."""
        names = (str(seed), f".{seed}.new", f".{seed}.old", ".locks", "config.yaml")
        refuse_links("out_dir", self.path, *names)

    def _look_again(self, seed: int) -> Result | None:
        """The finished run of this config, if it is there; refuses what must not be replaced."""
        run = self.path / str(seed)
        if not run.exists():
            return None
        try:
            result = load_result(run)
        except (FileNotFoundError, Unreadable):
            self._check_origin(seed)
            return None
        if result["digest"] != self.digest:
            self._refuse_other(result)
        return result

    def _check_origin(self, seed: int) -> None:
        if not (self.path / str(seed) / "run.json").is_file():
            message = f"this program did not write {self.path / str(seed)}"
            raise Kept.plain("out_dir", message, RETRY)

    def _refuse_other(self, result: Result) -> None:
        found = difference(result["config"], self.config).items()
        changes = [f"{key}: {there!r} before, {now!r} now" for key, (there, now) in found]
        message = f"{self.path} contains results of another config ({listed(changes, 3)})"
        raise Kept.plain("out_dir", message, RETRY)

    def _warning(self, seed: int, problem: Unreadable, is_asked: bool) -> str:
        outcome = f"Seed {seed} is left out of the results."
        if is_asked:
            outcome = f"Seed {seed} is run again, and the old file is kept as {DAMAGED}."
        return f"{self.path / str(seed) / 'result.json'} {problem}. {outcome}"

    def _keep_damaged(self, run: Path, directory: Path) -> None:
        """Copy a record that cannot be read: all but a bit of it may be of use to somebody."""
        record = run / "result.json"
        if record.is_file() and problem_of(run):
            shutil.copy2(record, directory / DAMAGED)

    def _remove(self, seed: int) -> None:
        # Under another name first: what a crash leaves of it is no run then.
        run, old = self.path / str(seed), self.path / f".{seed}.old"
        discard(old)
        if run.exists():
            (self.path / checksums.FILE).unlink(missing_ok=True)
            os.replace(run, old)
            shutil.rmtree(old)

    def _has(self, name: str, text: str) -> bool:
        """Whether a file is there as it should be."""
        path = self.path / name
        return path.is_file() and path.read_bytes() == text.encode()

    def _write_config(self) -> None:
        """Begin to change the experiment: its checksums go until it is aggregated."""
        (self.path / checksums.FILE).unlink(missing_ok=True)
        if not self._has("config.yaml", self.text):
            write_text(self.path / "config.yaml", self.text)


def check_name(name: str) -> None:
    """Refuse a name that is not a plain file name, or that GraphGym keeps for itself.

    Raises:
        InputError: it is empty, hidden, ``agg``, too long, or has a separator or control character.
    """
    plain = re.fullmatch(r'[^./\\:*?"<>|][^/\\:*?"<>|]{0,199}', name) and name.isprintable()
    if not plain or name == "agg":
        allowed = "a plain file name other than 'agg', of at most 200 characters"
        raise InputError("name", name, allowed)


def seeds(first: int, repeat: int) -> range:
    """The seeds of an experiment, ``repeat`` of them.

    Raises:
        InputError: they are too many, or not all of them are seeds.
    """
    if not 1 <= repeat <= MOST_SEEDS:
        raise InputError("--repeat", repeat, f"1 to {MOST_SEEDS}")
    if not 0 <= first <= LAST_SEED + 1 - repeat:
        raise InputError("seed", first, f"0 to {LAST_SEED + 1 - repeat}, the first of {repeat}")
    return range(first, first + repeat)


def refuse_finished(out_dir: str, name: str, seeds: Sequence[int]) -> None:
    """Refuse seeds of an experiment that have a record.

    Raises:
        InputError: the name is not a plain file name, or some of the seeds are finished.
    """
    check_name(name)
    path = Path(out_dir) / name
    if finished := [seed for seed in seeds if (path / str(seed) / "result.json").is_file()]:
        raise _present(path, "finished", finished)


def is_part(path: Path) -> bool:
    """Whether a file or folder is (part of) a run, an experiment, a study or a graph folder."""

    def has(folder: Path, sign: str) -> bool:
        return any(glob.iglob(sign, root_dir=folder))

    return (
        path.is_dir()
        and any(has(path, sign) for sign in PARTS)
        or any(
            re.fullmatch("|".join(names), path.name) and has(path.parent, sign)
            for sign, names in PARTS.items()
        )
    )


def _present(path: Path, state: str, seeds: Sequence[int]) -> InputError:
    message = f"{path} contains {state} runs (seeds {', '.join(map(str, seeds))})"
    hint = "Add --resume to run only the missing seeds, --overwrite to run all again"
    return InputError.plain("out_dir", message, f"{hint}, or choose another --name")


def _check_writable(path: Path) -> None:
    """Refuse the directory of an experiment that is a link or that nothing can be written to."""
    refuse_links("out_dir", path)
    folder = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    with _writing(path):
        tempfile.TemporaryFile(dir=folder).close()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Report an error of the disk as an error of ``out_dir``."""
    try:
        yield
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror})"
        raise InputError.plain("out_dir", message) from error


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)

"""Run directories in GraphGym's own layout; a finished result is never lost by accident.

``<out_dir>/<name>/config.yaml``, ``<name>/<seed>/result.json`` (the whole record),
``<name>/<seed>/{train,val,test}/stats.json`` and ``<name>/agg/{train,val,test}/{stats,best}.json``.

Both kinds of folders have a ``SHA256SUMS``, see ``checksums``. That of a run lists the record,
which is written last, the model, figures and events. That of an experiment lists ``config.yaml``
and the statistics, which follow from the records; it is removed when a run begins.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from graphgym_srnc.core import environment
from graphgym_srnc.core.text import listed
from graphgym_srnc.core.text import seeds as in_words
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import checksums, records, stats
from graphgym_srnc.io.atomic import discard, refuse_links, write_text
from graphgym_srnc.io.records import Result
from graphgym_srnc.io.settings import difference, digest

MOST_SEEDS = 100_000  # maximum number of runs of an experiment
LAST_SEED = 2**32 - 1  # the last one that numpy takes


class Busy(InputError):
    """Another process is working on a run."""


class Experiment:
    """The runs of one config, one directory per seed.

    ``config`` has every setting as nested dictionaries, and ``text`` returns the same for
    ``config.yaml``, which takes longer than all else of an experiment that is only planned.
    """

    def __init__(
        self,
        out_dir: str | os.PathLike,
        name: str,
        config: Mapping[str, Any],
        text: Callable[[], str] = str,
    ) -> None:
        check_name(name)
        self.out_dir = Path(out_dir)
        self.name = name
        self.text = functools.cache(text)
        self.path = self.out_dir / name
        self.config = json.loads(json.dumps(config, default=str))
        self.digest = digest(self.config)
        self.warnings: list[str] = []
        refuse_links(self.path)
        absolute = self.path.absolute()
        folder = next(place for place in (absolute, *absolute.parents) if place.exists())
        with self._writing():
            tempfile.TemporaryFile(dir=folder).close()

    def plan(
        self, seeds: Sequence[int], resume: bool = False, overwrite: bool = False
    ) -> list[int]:
        """The seeds to run, in order; nothing is written or deleted yet.

        ``resume`` leaves out finished seeds, and ``overwrite`` runs all. Without them results that
        are there are refused, as is what belongs to another config or to somebody else.
        ``warnings`` then names the records that cannot be read.
        """
        present = records.seeds_of(self.path)
        file = self.path / "config.yaml"
        if not present and not (self.path / ".locks").exists() and file.is_file():
            raise InputError.plain("out_dir", f"this program did not write {file}", code="foreign")
        finished = self._finished(present, seeds, overwrite)
        for seed, result in finished.items():
            if result["digest"] != self.digest and not (overwrite and seed in seeds):
                self._refuse_other(result, "other_config_stays" if overwrite else "other_config")
        if overwrite:
            return list(seeds)
        for seed in {*present} & {*seeds} - {*finished}:
            self._check_origin(seed)
        if not resume:
            refuse_present(self.path, seeds)
        return [seed for seed in seeds if seed not in finished]

    def _finished(
        self, present: Sequence[int], seeds: Sequence[int], overwrite: bool
    ) -> dict[int, Result]:
        """The records of finished runs, with ``warnings`` of those that cannot be read."""
        self.warnings = []
        finished = {}
        for seed in present:
            try:
                finished[seed] = records.load_result(self.path / str(seed))
            except FileNotFoundError:
                pass
            except records.Unreadable as problem:
                if seed not in seeds or not overwrite:
                    file = self.path / str(seed) / "result.json"
                    outcome = "is run again" if seed in seeds else "is left out of the results"
                    self.warnings.append(f"{file} {problem}. Seed {seed} {outcome}.")
        return finished

    def begin(self, seed: int, anew: bool = True) -> Path:
        """Make the empty directory of a run, or go on in the one that it has, and return it."""
        run = self.path / str(seed)
        with self._writing():
            if not anew:
                for leftover in (run / "error.txt", run / checksums.FILE, *run.glob(".*.tmp")):
                    leftover.unlink(missing_ok=True)
                return run
            if not run.is_dir() or {path.name for path in run.iterdir()} != {records.LOG}:
                self._remove(seed)
            self._change({"config.yaml": self.text()})
            write_text(run / "run.json", json.dumps({"seed": seed, "digest": self.digest}) + "\n")
        return run

    @contextlib.contextmanager
    def claim(self, seed: int, overwrite: bool = False) -> Iterator[Result | None]:
        """Hold a run against other processes; the system frees it when this process ends.

        Yields the result that has come since ``plan`` and has to stay, or None. ``overwrite``
        lets anything be replaced. Raises Busy if another process holds the run.
        """
        from filelock import FileLock, Timeout

        # Inside the experiment, since GraphGym's agg_batch takes what lies beside one for another.
        path = self.path / ".locks" / str(seed)
        made = [folder for folder in path.parents if not folder.exists()]
        refuse_links(self.path, str(seed), f".{seed}.new", f".{seed}.old", ".locks", "config.yaml")
        with self._writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path, blocking=False)
            try:
                lock.acquire()
            except Timeout as error:
                raise Busy.plain(
                    "out_dir", f"another process is running {self.path / str(seed)}"
                ) from error
        try:
            result = None if overwrite else records.read_result(self.path / str(seed))
            if result and result["digest"] != self.digest:
                self._refuse_other(result)
            if not result and not overwrite:
                self._check_origin(seed)
            yield result
        finally:
            with contextlib.suppress(OSError):
                if os.listdir(self.path) == [path.parent.name]:  # nothing came of it
                    path.unlink()
                    for folder in made:
                        folder.rmdir()
            lock.release()

    def adopt(self, seed: int, finished: Path, split: str) -> None:
        """Copy a finished run of just this config and split from another directory."""
        result = records.read_result(finished)
        if not result or result["digest"] != self.digest:
            raise InputError.plain(
                "out_dir", f"{finished} is not a finished run of the config of {self.name}"
            )
        if split != result["split"]:
            splits = f"split {result['split'][:12]} there, {split[:12]} here"
            raise InputError.plain(
                "dataset.dir",
                f"seed {seed} of {self.name} used other data ({splits})",
                "Copy the same data to every machine",
            )
        new = self.path / f".{seed}.new"
        discard(new)
        shutil.copytree(finished, new)
        self._change({"config.yaml": self.text()})
        self._remove(seed)
        os.replace(new, self.path / str(seed))

    def fail(self, seed: int, story: str) -> None:
        """Leave in the directory of a run why it has no result; the next try removes it."""
        run = self.path / str(seed)
        if records.read_result(run) is None:
            if not (run / "run.json").is_file():
                self.begin(seed)
            with self._writing():
                write_text(run / "error.txt", story)

    def finish(self, seed: int, result: Result) -> Result:
        """Write the record of a run and return it; ``aggregate`` writes the statistics.

        A result has at least ``history`` (per episode ``number``, ``losses``, ``train``, ``val``,
        ``test``, ``seconds``), ``selected``, ``lr`` and ``params``.
        """
        run = self.path / str(seed)
        record = {"format": records.FORMAT, "seed": seed, "digest": self.digest} | result
        record |= environment.facts() | {"config": self.config}
        result = json.loads(json.dumps(record, default=_plain))
        records.write_record(run, result)
        (run / records.CHECKPOINT).unlink(missing_ok=True)
        return result

    def result(self, seed: int) -> Result | None:
        """The finished run of this config with a seed, or None."""
        result = records.read_result(self.path / str(seed))
        return result if result and result["digest"] == self.digest else None

    def aggregate(self, digits: int = 4) -> dict[int, Result]:
        """Write ``agg/`` over all finished runs of this config, and return them."""
        refuse_links(self.path, "agg", "mean")
        if not records.seeds_of(self.path):
            return {}
        from filelock import FileLock

        lock = self.path / ".locks" / "agg"
        lock.parent.mkdir(exist_ok=True)
        with FileLock(lock):
            found = records.read_results(self.path).items()
            results = {seed: result for seed, result in found if result["digest"] == self.digest}
            if results:
                files = stats.of_experiment(results, digits)
                self._change({"config.yaml": self.text(), **files})
                checksums.write(self.path, ["config.yaml", *files])
        return results

    def _check_origin(self, seed: int) -> None:
        """Refuse the directory of a run that somebody else made."""
        run = self.path / str(seed)
        names = [path.name for path in run.iterdir()] if run.is_dir() else []
        others = [name for name in names if name[0] != "." and name != records.LOG]
        if others and "run.json" not in names:
            raise InputError.plain(
                "out_dir", f"this program did not write {run}", code="other_config"
            )

    def _refuse_other(self, result: Result, code: str = "other_config") -> None:
        found = difference(result["config"], self.config).items()
        changes = [f"{key}: {there!r} before, {now!r} now" for key, (there, now) in found]
        raise InputError.plain(
            "out_dir",
            f"{self.path} contains results of another config ({listed(changes, 3)})",
            code=code,
        )

    def _remove(self, seed: int) -> None:
        # Under another name first: what a crash leaves of it is no run then.
        run = self.path / str(seed)
        old = self.path / f".{seed}.old"
        discard(old)
        if run.exists():
            (self.path / checksums.FILE).unlink(missing_ok=True)
            os.replace(run, old)
            shutil.rmtree(old)

    def _change(self, files: Mapping[str, str]) -> None:
        """Write files that are not there as they should be; the checksums go until they are."""
        (self.path / checksums.FILE).unlink(missing_ok=True)
        for name, text in files.items():
            path = self.path / name
            if not path.is_file() or path.read_bytes() != text.encode():
                write_text(path, text)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Report an error of the disk as an error of ``out_dir``."""
        try:
            yield
        except OSError as error:
            raise InputError.plain(
                "out_dir", f"{self.path} cannot be written ({error.strerror})"
            ) from error


def _plain(value: Any) -> Any:
    """A value that JSON does not know: a tensor or array as lists, another one as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def check_name(name: str) -> None:
    """Refuse a name that is not a plain file name, or that GraphGym keeps for itself."""
    plain = re.fullmatch(r'[^./\\:*?"<>|][^/\\:*?"<>|]{0,199}', name) and name.isprintable()
    if not plain or name == "agg":
        raise InputError(
            "name", name, "a plain file name other than 'agg', of at most 200 characters"
        )


def seeds(first: int, repeat: int) -> range:
    """The seeds of an experiment, ``repeat`` of them."""
    if not 1 <= repeat <= MOST_SEEDS:
        raise InputError("repeat", repeat, f"1 to {MOST_SEEDS}")
    if not 0 <= first <= LAST_SEED + 1 - repeat:
        raise InputError("seed", first, f"0 to {LAST_SEED + 1 - repeat}, the first of {repeat}")
    return range(first, first + repeat)


def refuse_present(path: Path, seeds: Sequence[int]) -> None:
    """Refuse seeds of an experiment that have a directory."""
    present = [seed for seed in seeds if (path / str(seed)).exists()]
    if present:
        raise InputError.plain(
            "out_dir", f"{path} contains runs ({in_words(present)})", code="runs_exist"
        )

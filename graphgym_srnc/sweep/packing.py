"""A finished run as the files of its directory, which travel from the node that made them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Mapping

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import atomic, store
from graphgym_srnc.sweep.jobs import Job

MAX_MIB = 256
"""What the files of a run may hold to be sent."""


def pack(directory: Path) -> dict[str, bytes]:
    """The files of a run by relative path; links are left out.

    Raises:
        InputError: they are too large to be sent.
    """
    found = sorted(directory.rglob("*"))
    paths = [path for path in found if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in paths) / 2**20
    if size > MAX_MIB:
        message = f"it wrote {size:.0f} MiB of files; a cluster accepts at most {MAX_MIB} MiB"
        raise InputError.plain("run", message)
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def unpack(job: Job, files: Mapping[str, bytes]) -> None:
    """Store a run that came as files by relative path, unless it is stored already.

    Raises:
        store.Busy: another process is at it.
        InputError: a path leads elsewhere, or the files are not those of a finished run of the
            job's config.
    """
    from graphgym_srnc.gym import parse_config, run

    for name in files:
        if not all(map(_is_plain, name.split("/"))):
            message = f"{name!r} is not a file in the folder of {job.name}, seed {job.seed}"
            raise InputError.plain("path", message)

    cfg = parse_config(job.config)
    cfg.out_dir = job.out_dir
    experiment = run.experiment(cfg, job.name)
    with (
        tempfile.TemporaryDirectory() as folder,
        experiment.claim(job.seed, job.overwrite) as finished,
    ):
        directory = Path(folder, str(job.seed))
        for name, content in files.items():
            atomic.write_bytes(directory / name, content, durable=False)
        result = store.read_result(directory)
        if result is not None:
            # Equal but for the folders, which were those of the node; were it another config, its
            # digest would differ.
            store.write_record(directory, result | {"config": experiment.config})
        if finished is None:
            experiment.adopt(job.seed, directory)


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and name.isprintable() and not set(name) & set('\\:*?"<>|')

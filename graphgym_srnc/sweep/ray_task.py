"""What a node of a Ray cluster does with a job; it shares no file system with the driver."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
import threading
from pathlib import Path
from typing import Iterator

from graphgym_srnc import __version__
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.sweep import packing
from graphgym_srnc.sweep.jobs import DataOf, Execute, Job, attempt

DATA_DIR = "GRAPHGYM_SRNC_DATA"
"""Environment variable that holds the folder of data sets."""

POLL_SECONDS = 0.2
"""Seconds between two looks of a worker at its memory."""


def work(
    execute: Execute, job: Job, memory_mib: float, data_dir: str, data_of: DataOf | None = None
) -> Iterator[tuple]:
    """Run a job on a node: yield the node's name, its version of this package and its data, then
    state, seconds and message of the outcome, and the files of the run.

    Args:
        execute: runs the job.
        job: the run.
        memory_mib: memory at which the process ends itself; 0 = no limit.
        data_dir: the folder of data sets on the driver.
        data_of: tells the data of the job on this node; None = the driver does not ask.
    """
    yield platform.node(), __version__, _data(data_of, job, data_dir)
    files: dict[str, bytes] = {}

    def run() -> str:
        temporary = tempfile.TemporaryDirectory(prefix="graphgym-srnc-")
        with temporary as folder, _memory_limit(memory_mib):
            message = execute(job._replace(out_dir=folder, config=_local(job.config, data_dir)))
            files.update(packing.pack(Path(folder, job.name, str(job.seed))))
        return message

    state, seconds, message = attempt(run)
    yield state, seconds, message, files


def check_same(data: dict[str, tuple[str, str]], node: str, name: str, split: str) -> None:
    """Refuse the data of a node that are not those of another, and note those of the first.

    Args:
        data: fingerprint, and who has it, by what data are called; grows.
        node, name, split: what a node has.

    Raises:
        InputError: runs on it would be of other data.
    """
    expected, who = data.setdefault(name, (split, f"node {node}"))
    if split != expected:
        message = (
            f"the data on node {node} (split {split[:12]}) differ from those of {who} "
            f"(split {expected[:12]})"
        )
        raise InputError.plain("dataset.dir", message, "Copy the same data to every node")


def _data(data_of: DataOf | None, job: Job, data_dir: str) -> tuple[str, str] | None:
    """What a node has of the data of a job; None where they cannot be read, as the run will say."""
    if data_of is not None:
        with contextlib.suppress(Exception):
            return data_of(job._replace(config=_local(job.config, data_dir)))
    return None


def _local(config: str, data_dir: str) -> str:
    """A config with this node's own folder of data sets, if the node has one and the config has the
    driver's, ``data_dir``."""
    node_dir = os.environ.get(DATA_DIR)
    if not node_dir or node_dir == data_dir:
        return config
    from graphgym_srnc.gym.config import dump_config, parse_config

    cfg = parse_config(config)
    if cfg.dataset.dir == data_dir:
        cfg.dataset.dir = node_dir
    return dump_config(cfg)


@contextlib.contextmanager
def _memory_limit(mib: float) -> Iterator[None]:
    """End this process if it outgrows its memory meanwhile."""
    import psutil

    process, over = psutil.Process(), threading.Event()

    def watch() -> None:
        while not over.wait(POLL_SECONDS):
            if process.memory_info().rss > mib * 2**20:
                os._exit(1)

    if mib:
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()

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
from graphgym_srnc.grid import packing
from graphgym_srnc.grid.jobs import Execute, Job, attempt

DATA_DIR = "GRAPHGYM_SRNC_DATA"
"""Environment variable that holds the folder of data sets."""

POLL_SECONDS = 0.2
"""Seconds between two looks of a worker at its memory."""


def work(execute: Execute, job: Job, memory_mib: float, data_dir: str) -> Iterator[tuple]:
    """Run a job on a node: yield the node's name and its version of this package at once, then
    state, seconds and message of the outcome, and the files of the run.

    Args:
        execute: runs the job.
        job: the run.
        memory_mib: memory at which the process ends itself; 0 = no limit.
        data_dir: the folder of data sets on the driver.
    """
    yield platform.node(), __version__
    files: dict[str, bytes] = {}

    def run() -> str:
        temporary = tempfile.TemporaryDirectory(prefix="graphgym-srnc-")
        with temporary as folder, _memory_limit(memory_mib):
            message = execute(job._replace(out_dir=folder, config=_local(job.config, data_dir)))
            files.update(packing.pack(Path(folder, job.name, str(job.seed))))
        return message

    state, seconds, message = attempt(run)
    yield state, seconds, message, files


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
            if process.memory_info().rss > mib * 2 ** 20:
                os._exit(1)

    if mib:
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()

"""The folder of downloads and parsed graphs in the user's cache, and a lock of what is made."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator

FOLDER = "GRAPHGYM_SRNC_CACHE"
"""Environment variable with the cache folder."""

WAIT = 600.0
"""Seconds after which a process no longer waits for another one that makes the same files."""


def cache_folder() -> Path:
    """Folder of parsed graphs, and of downloads if the data folder is read-only."""
    if chosen := os.environ.get(FOLDER):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphgym_srnc"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, which is removed afterwards, against processes that make the same files.

    The lock only saves work: if there can be none, or none within ten minutes, the caller goes on
    without it.
    """
    from filelock import FileLock

    lock = FileLock(path, timeout=WAIT)
    with contextlib.suppress(OSError, NotImplementedError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        if lock.is_locked:
            with contextlib.suppress(OSError):  # a process that waits for it makes a new one
                path.unlink()
            lock.release()

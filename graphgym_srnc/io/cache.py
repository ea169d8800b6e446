"""The folder of downloads and parsed graphs in the user's cache, and a lock of what is made."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Iterator

FOLDER = "GRAPHGYM_SRNC_CACHE"
"""Environment variable with the cache folder."""

WAIT = 600.0
"""Seconds after which a process no longer waits for another one that makes the same files."""

SILENT = 3.0
"""Seconds of them after which it reports that it waits."""


def cache_folder() -> Path:
    """Folder of parsed graphs, and of downloads if the data folder is read-only."""
    if chosen := os.environ.get(FOLDER):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphgym_srnc"


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file, which is removed afterwards, against other processes that make ``what``.

    The lock only saves work: if there can be none, or none within ten minutes, the caller goes on
    without it.
    """
    from filelock import FileLock, Timeout

    lock, held = FileLock(path, timeout=min(SILENT, WAIT)), False
    with contextlib.suppress(OSError, NotImplementedError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            minutes = f"{WAIT / 60:.0f} minutes"
            text = f"waiting at most {minutes} for another process that makes {what} ({path})"
            print(text, file=sys.stderr, flush=True)
            lock.acquire(WAIT - SILENT)
        held = True
    try:
        yield
    finally:
        if held:
            # A process that waits for the removed file makes a new one.
            with contextlib.suppress(OSError):
                path.unlink()
            lock.release()

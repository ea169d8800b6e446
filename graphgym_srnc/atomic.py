"""Writing a file whole or not at all: after a crash it holds its old content or all of the new."""
from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator


def write_bytes(path: Path, content: bytes, durable: bool = True) -> None:
    """Write a file whole or not at all.

    Without ``durable`` that holds for a crash of the process alone: it saves the wait for the disk
    where a file can be made again.
    """
    with replacing(path, durable) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str, durable: bool = True) -> None:
    """:func:`write_bytes` of UTF-8 text."""
    write_bytes(path, text.encode(), durable)


@contextlib.contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """The name of a temporary file beside ``path``, which takes its place at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if durable:
            _to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable and os.name == "posix":
        _to_disk(path.parent)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

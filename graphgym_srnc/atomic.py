"""Writing a file whole or not at all, after a crash it holds its old content or all of the new; and
a seal by which a change of it is seen."""
from __future__ import annotations

import contextlib
import os
from hashlib import sha256
from mmap import mmap
from pathlib import Path
from typing import BinaryIO, Iterator

SEAL = b"sha256:"
"""What a seal begins with; 64 hexadecimal digits follow."""


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


def seal(archive: BinaryIO) -> None:
    """Give a zip archive, as torch writes them, a SHA-256 of all its bytes as its comment.

    The checksums within an archive cover its files, but neither their sizes nor their places.

    Args:
        archive: open to read and write, without a comment.
    """
    archive.seek(-2, os.SEEK_END)  # the length of the comment
    archive.write((len(SEAL) + 64).to_bytes(2, "little"))
    archive.seek(0)
    digest = sha256()
    while block := archive.read(2 ** 20):
        digest.update(block)
    archive.write(SEAL + digest.hexdigest().encode())


def check_seal(archive: bytes | mmap) -> bool:
    """Whether a zip archive has a seal; older versions set none.

    Raises:
        ValueError: a bit of it has changed since it was sealed.
    """
    digest = len(archive) - 64
    end = digest - len(SEAL)
    if end < 0 or archive[end:digest] != SEAL:
        return False
    with memoryview(archive) as view:
        if sha256(view[:end]).hexdigest().encode() != archive[digest:]:
            raise ValueError("it is damaged, a checksum is wrong")
    return True


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

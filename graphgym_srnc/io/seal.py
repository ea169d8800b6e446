"""A seal of zip archives, as torch writes them, and a last line of settings, by which any change is
seen."""

from __future__ import annotations

import os
from hashlib import sha256
from mmap import mmap
from typing import BinaryIO

SEAL = b"sha256:"
"""What a seal begins with; 64 hexadecimal digits follow."""

SIGNATURE = "# sha256 "
"""What the last line of settings begins with that this program wrote."""


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
    while block := archive.read(2**20):
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


def signed(text: str) -> str:
    """Settings, yaml or a grid file, with a last line by which :func:`is_edited` knows them."""
    return f"{text}{SIGNATURE}{sha256(text.encode()).hexdigest()}\n"


def is_edited(text: str) -> bool:
    """Whether settings were changed since they were signed; those without a signature were not."""
    body, mark, digest = text.rpartition(SIGNATURE)
    return bool(mark) and sha256(body.encode()).hexdigest() != digest.strip()

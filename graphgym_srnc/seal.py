"""A seal of zip archives, as torch writes them, by which any change of their bytes is seen."""
from __future__ import annotations

import os
from hashlib import sha256
from mmap import mmap
from typing import BinaryIO

SEAL = b"sha256:"
"""What a seal begins with; 64 hexadecimal digits follow."""


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

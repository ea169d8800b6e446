"""Checksums of the files of a folder, as ``sha256sum`` writes and checks them."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path
from typing import Iterable, Iterator, Mapping

from graphgym_srnc.io.atomic import content, opened, write_text

FILE = "SHA256SUMS"  # name of the file with a checksum for each listed file of its folder
# A checksum and a path inside the folder.
LINE = re.compile(r"([0-9a-f]{64}) [ *](?!/)((?!\.\.(?:/|$)|.*/\.\.(?:/|$)).+)")


def of(content: bytes) -> str:
    """The SHA-256 of some bytes in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def of_file(path: Path) -> str:
    """The SHA-256 of a file, which is read in blocks."""
    digest = hashlib.sha256()
    with opened(path) as file:
        for block in iter(lambda: file.read(2**20), b""):
            digest.update(block)
    return digest.hexdigest()


def write(folder: Path, names: Iterable[str], coming: Mapping[str, bytes] = {}) -> None:
    """List the checksums of files in a folder; ``coming`` are files that are written later."""
    sums = {name: of_file(folder / name) for name in names}
    sums |= {name: of(content) for name, content in coming.items()}
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    write_text(folder / FILE, text)


def read(folder: Path) -> dict[str, str]:
    """The listed checksums by path; a damaged list is a ValueError."""
    lines = content(folder / FILE).decode("utf-8").splitlines()
    found = [LINE.fullmatch(line) for line in lines]
    sums = {match[2]: match[1] for match in found if match}
    if len(sums) < len(lines) or not lines:
        raise ValueError(f"{FILE} is damaged")
    return sums


def verify(folder: Path) -> Iterator[tuple[str, str]]:
    """The path and the problem of each listed file that is no longer as it was written."""
    try:
        sums = read(folder)
    except ValueError:
        yield FILE, "is damaged"
        return
    for name, expected in sums.items():
        try:
            if of_file(folder / name) != expected:
                yield name, "is damaged or was edited: its checksum is wrong"
        except OSError as error:
            yield name, f"cannot be read ({error.strerror}), but {FILE} lists it"


def listed(path: Path) -> str | None:
    """The checksum of a file in the list of its folder, or of the folder above, if it has one."""
    path = path.absolute()
    for folder in path.parents[:2]:
        with contextlib.suppress(OSError, ValueError):
            sums = read(folder)
            if path.relative_to(folder).as_posix() in sums:
                return sums[path.relative_to(folder).as_posix()]
    return None


def is_edited(path: Path) -> bool:
    """Whether a file has another checksum than it was written with."""
    expected = listed(path)
    return expected is not None and of_file(path) != expected

"""Files: written whole or not at all, so are folders, and read only where they are regular files.

After a crash a file holds its old content or all of the new.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO, Callable, Iterator

from graphgym_srnc.errors import InputError


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """``write_bytes`` of UTF-8 text."""
    write_bytes(path, text.encode())


def regular(path: Path) -> Path:
    """The path, or an OSError for a pipe or a device, which can keep a reader for ever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path


def opened(path: Path) -> BinaryIO:
    """A file opened for reading, or an OSError for a pipe or a device.

    It stays the same file, whatever takes its place in the folder meanwhile.
    """
    # A pipe without a writer would block otherwise.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return open(handle, "rb")
    except OSError:
        os.close(handle)
        raise


def content(path: Path) -> bytes:
    """The content of a file, see :func:`opened`."""
    with opened(path) as file:
        return file.read()


def refuse_links(folder: Path, *names: str) -> None:
    """Refuse a folder of results that is a symbolic link or contains one, at any depth.

    Writing through a link would change a file elsewhere. ``names`` limits the check to these.
    """
    roots = [folder] if folder.is_symlink() or not names else [folder / name for name in names]
    for place, folders, files in itertools.chain(*map(os.walk, roots)):
        roots += [Path(place, name) for name in (*folders, *files)]
    for path in filter(Path.is_symlink, roots):
        raise InputError.plain(
            "out_dir",
            f"{path} is a symbolic link",
            "Replace the link by a real folder, or choose another place",
        )


def discard(path: Path) -> None:
    """Remove a file, a folder or a link if it exists; what a link leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The name of a temporary file beside ``path``, which takes its place at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        temporary.touch(exist_ok=False)  # so that it is no link to another file
        yield temporary
        _to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        _to_disk(path.parent)


@contextlib.contextmanager
def replacing_folder(path: Path, check: Callable[[], None]) -> Iterator[Path]:
    """A new folder beside ``path``, which takes its place at the end by two renames.

    If the process is killed between them, ``restore`` puts the old one back. ``check`` raises
    if what is in the place must stay; it is called first, and before the place is taken.
    """
    restore(path)
    check()
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    discard(new)
    try:
        new.mkdir()
        yield new
        for written in (*new.iterdir(), new) if os.name == "posix" else ():
            _to_disk(written)
        check()
        if path.exists():
            os.replace(path, _old(path))
        os.replace(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        restore(path)


def restore(path: Path) -> None:
    """Bring back a folder that another process was replacing when it was killed."""
    with contextlib.suppress(OSError, ValueError):  # a path without a name
        old = _old(path)
        if path.exists():
            discard(old)
        elif old.is_dir() and not old.is_symlink():
            os.replace(old, path)


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.srnc-old")


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Networks that authors publish as MATLAB files: found on disk or downloaded, then checked."""
from __future__ import annotations

import tempfile
from http.client import HTTPException
from pathlib import Path
from typing import Any, Mapping, NamedTuple
from urllib.request import urlopen

import scipy.io
from torch_geometric.data import Data

from graphgym_srnc.atomic import regular
from graphgym_srnc.cache import cache_folder, locked
from graphgym_srnc.data import home, limits, untrusted
from graphgym_srnc.errors import InputError

LIMIT = 64 * 2 ** 20
"""Largest download in bytes; the files have about one million."""


class Source(NamedTuple):
    """Files of one benchmark.

    Args:
        family: their folder below the data folder.
        url: the folder that they are downloaded from, at one fixed commit.
        names: those of the files, without ``.mat``.
        read: reads a file, and caches the graph by its name, size and time of change.
    """

    family: str
    url: str
    names: tuple[str, ...]
    read: Any


def load(source: Source, name: str, root: str = "", key: str = "name") -> Data:
    """The network of a file in the data folder, or of the downloaded one.

    Raises:
        InputError: unknown name; the file is absent and cannot be downloaded, or is another one;
            names ``key``.
    """
    member = name.lower()
    if member not in source.names:
        raise InputError(key, name, ", ".join(source.names))
    homes = home.homes(source.family, root)
    data = _present(source, member, homes)
    if data is None:
        # One process downloads, and others wait for its file.
        with locked(cache_folder() / f"{source.family}-{member}.lock", f"the files of {member}"):
            data = _present(source, member, homes) or _download(source, member, homes, key)
    return data


def matrices(file: Path, key: str,
             shapes: Mapping[str, tuple[int, int] | None]) -> dict[str, Any]:
    """The matrices of a file, dense or of ``scipy.sparse``, by name; others are None.

    ``scipy.io.loadmat`` parses MATLAB's format and unpickles nothing.

    Args:
        file: the file.
        key: what errors name.
        shapes: those of the matrices to read; None = any.

    Raises:
        InputError: no MATLAB file, or a matrix is not of numbers or not of its shape.
    """
    with untrusted.reading(file, "a readable MATLAB file", key):
        limits.check_file(regular(file))
        fields = dict.fromkeys(name for name, *_ in scipy.io.whosmat(file))
        loaded = scipy.io.loadmat(file, variable_names=[*shapes])
        read = {name: untrusted.sparse_matrix(value) for name, value in loaded.items()}
    for field, shape in shapes.items():
        fields[field] = value = read.get(field)
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        right = shape is None or getattr(value, "shape", None) == shape
        if value is None or not right or kind not in "biuf":
            found = "missing" if value is None else f"{value.dtype} of shape {value.shape}"
            wanted = "a matrix of numbers" if shape is None else f"numbers of shape {shape}"
            raise InputError.plain(f"{key}: {field}", f"the matrix is {found}", f"Give {wanted}")
    return fields


def _present(source: Source, member: str, homes: list[Path]) -> Data | None:
    """The network of the first file that is there."""
    for file in (folder / f"{member}.mat" for folder in homes):
        if file.is_file():
            state = file.stat()
            return source.read(file, state.st_size, state.st_mtime_ns)
    return None


def _download(source: Source, member: str, homes: list[Path], key: str) -> Data:
    with tempfile.TemporaryDirectory(prefix="graphgym_srnc-") as folder:
        file = Path(folder) / f"{member}.mat"
        try:
            with urlopen(source.url + file.name, timeout=30) as answer:
                file.write_bytes(answer.read(LIMIT))
        except (OSError, HTTPException) as error:
            wanted = ", ".join(f"{name}.mat" for name in source.names)
            message = (f"{member!r} cannot be downloaded from {source.url} "
                       f"({type(error).__name__})")
            hint = f"Put these files into {homes[0]}: {wanted}"
            raise InputError.plain(key, message, hint) from error
        data = source.read.__wrapped__(file)  # only a file that is what it should be is kept
        home.keep(Path(folder), homes)
    return data

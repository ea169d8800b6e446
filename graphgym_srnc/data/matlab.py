"""Networks that authors publish as MATLAB files: found on disk or downloaded, then checked."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any, Callable, Collection, Mapping
from urllib.request import urlopen

import scipy.io
from torch_geometric.data import Data

from graphgym_srnc.data import home, limits, untrusted
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import regular

LIMIT = 64 * 2**20
"""Largest download in bytes; the files have about one million."""

Read = Callable[[Path], Data]


def load(
    family: str, url: str, names: Collection[str], read: Read, name: str, root: str, key: str
) -> Data:
    """The network of a file in the data folder, or of the downloaded one.

    Args:
        family, url: the folder of the files below the data folder, and where they are published.
        names: those of the files, without ``.mat``.
        read: reads a file, or raises an error.
        name, root: the network, and the data folder.
        key: what errors name.
    """
    member = name.lower()
    if member not in names:
        raise InputError(key, name, ", ".join(names))
    homes = home.homes(family, root)
    for file in (folder / f"{member}.mat" for folder in homes):
        if file.is_file():
            state = file.stat()
            return cached(read, file, state.st_size, state.st_mtime_ns)
    with tempfile.TemporaryDirectory(prefix="graphgym_srnc-") as folder:
        file = Path(folder) / f"{member}.mat"
        try:
            with urlopen(url + file.name, timeout=30) as answer:
                file.write_bytes(answer.read(LIMIT))
        except (OSError, HTTPException) as error:
            message = f"{name!r} cannot be downloaded from {url} ({type(error).__name__})"
            wanted = ", ".join(f"{name}.mat" for name in names)
            hint = f"Put these files into {homes[0]}: {wanted}"
            raise InputError.plain(key, message, hint) from error
        data = read(file)  # only a file that is what it should be is kept
        home.keep(Path(folder), homes)
    return data


@lru_cache(maxsize=4)
def cached(read: Read, file: Path, size: int, changed: int) -> Data:
    """The network in a file; size and time of change tell files of one name apart."""
    return read(file)


def matrices(file: Path, key: str, shapes: Mapping[str, tuple[int, int] | None]) -> dict[str, Any]:
    """The matrices of a file, dense or sparse, by name: those of some shapes, or None for others.

    A shape of None is any shape. ``scipy.io.loadmat`` unpickles nothing.
    """
    with reading(file, "a readable MATLAB file", key):
        limits.check_file(regular(file))
        found: dict[str, Any] = dict.fromkeys(name for name, *_ in scipy.io.whosmat(file))
        loaded = scipy.io.loadmat(file, variable_names=[*shapes])
        found |= {name: untrusted.sparse_matrix(loaded.get(name)) for name in shapes}
    for name, shape in shapes.items():
        value = found[name]
        if value is None or value.dtype.kind not in "biuf" or shape not in (None, value.shape):
            is_now = "missing" if value is None else f"{value.dtype} of shape {value.shape}"
            hint = f"Give a matrix of numbers of {f'shape {shape}' if shape else 'any shape'}"
            raise InputError.plain(f"{key}: {name}", f"the matrix is {is_now}", hint)
    return found

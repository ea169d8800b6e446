"""Reading strangers' files: no pickled code runs, no index leads outside its memory, and no header
makes us allocate more than there is."""
from __future__ import annotations

import math
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Collection, Iterator

import numpy as np
import psutil
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from graphgym_srnc.atomic import regular

DATA_CLASSES = (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage)
"""What a saved ``Data`` consists of beside tensors."""


@contextmanager
def tensors_only(*classes: type) -> Iterator[None]:
    """Within it ``torch.load(weights_only=True)`` also reads ``Data``, or other given classes.

    It also looks at the indices of sparse tensors, which torch otherwise trusts.
    """
    with (torch.serialization.safe_globals([*(classes or DATA_CLASSES)]),
          torch.sparse.check_sparse_tensor_invariants()):
        yield


PACKED, UNPACKED = 100, 2 ** 30
"""A compressed array may take this many times its bytes in the file, or this many bytes."""

SPARSE = ("format", "shape", "data", "indices", "indptr", "row", "col", "offsets", "blocksize")
"""Arrays of a matrix that SciPy saved."""


def array(file: Path) -> np.ndarray:
    """The plain array of a ``.npy``.

    Raises:
        Exception: it is none, see :func:`reason`.
    """
    with open(regular(file), "rb") as opened:
        _check_header(opened, file.stat().st_size)
        opened.seek(0)
        return np.load(opened, allow_pickle=False)


def arrays(file: Path, wanted: Collection[str]) -> dict[str, np.ndarray | None]:
    """The plain arrays of a ``.npz``; those that are not ``wanted`` stay unread and are None.

    Raises:
        Exception: one of the wanted is none, see :func:`reason`.
    """
    with zipfile.ZipFile(regular(file)) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        found = dict.fromkeys(names)
        for name in found.keys() & {*wanted}:
            _check_member(archive, f"{name}.npy")
            with archive.open(f"{name}.npy") as member:
                found[name] = np.lib.format.read_array(member, allow_pickle=False)
        return found


def sparse_npz(file: Path) -> sp.spmatrix:
    """The matrix of a ``.npz`` that SciPy saved.

    Raises:
        Exception: it is none, see :func:`reason`.
    """
    with zipfile.ZipFile(regular(file)) as archive:
        for name in {*archive.namelist()} & {f"{part}.npy" for part in SPARSE}:
            _check_member(archive, name)
    return sparse_matrix(sp.load_npz(file))


def dense(matrix: sp.spmatrix) -> np.ndarray:
    """A sparse matrix as an array.

    Raises:
        ValueError: no memory of this machine could hold it.
    """
    _check_size(math.prod(matrix.shape) * matrix.dtype.itemsize)
    return matrix.toarray()


def sparse_matrix(matrix: Any) -> sp.spmatrix:
    """The matrix after its indices were checked, which SciPy otherwise trusts.

    Raises:
        ValueError: they lead outside the matrix.
    """
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


def _check_member(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse an array of an archive by its header and its packed size, before it is unpacked."""
    info = archive.getinfo(name)
    if info.file_size > max(UNPACKED, PACKED * info.compress_size):
        raise ValueError(f"{name} unpacks {info.compress_size:,} bytes to {info.file_size:,}; save "
                         "it uncompressed if that is right")
    with archive.open(name) as member:
        _check_header(member, info.file_size)


def _check_header(opened: IO[bytes], size: int) -> None:
    """Refuse an array that is larger than what the ``size`` bytes of its file can hold."""
    npy = np.lib.format
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(opened)
    if version not in read:
        raise ValueError(f"an array of format {version}")
    shape, _, dtype = read[version](opened)
    needed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or not dtype.hasobject and needed > size - opened.tell():
        raise ValueError(f"its header says {shape} {dtype}, which is more than the file has")
    _check_size(needed)


def _check_size(size: int) -> None:
    memory = psutil.virtual_memory().total
    if size > memory:
        raise ValueError(f"{size / 2 ** 30:,.1f} GiB, and this machine has {memory / 2 ** 30:,.1f}")


def reason(error: Exception) -> str:
    """What a library says is wrong with a file, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

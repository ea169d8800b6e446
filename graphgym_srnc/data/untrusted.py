"""Read untrusted files: pickled code never runs, and indices of matrices are checked."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, Collection, Iterable, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, GlobalStorage

from graphgym_srnc.data import limits
from graphgym_srnc.errors import reading
from graphgym_srnc.io.atomic import opened

DATA_CLASSES = (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, BaseStorage)  # of a saved Data
HINT = "If you trust the author of these files, read them with `trust`"
WORD = 4  # bytes that a number takes at least once it is read: features become float32

_TRUST: ContextVar[bool] = ContextVar("trust", default=False)
is_trusted = _TRUST.get  # whether it is called within ``trusted``


@contextmanager
def trusted(trust: bool = True) -> Iterator[None]:
    """Within it, in this thread, a reader of a data set may run code that its files contain.

    Only ``--trust`` on the command line and this function allow that, no config or stored record.
    """
    before = _TRUST.set(trust)
    try:
        yield
    finally:
        _TRUST.reset(before)


@contextmanager
def tensors_only() -> Iterator[None]:
    """Within it ``torch.load(weights_only=True)`` reads ``DATA_CLASSES`` and checks indices."""
    with (
        torch.serialization.safe_globals([*DATA_CLASSES]),
        torch.sparse.check_sparse_tensor_invariants(),
    ):
        yield


def load(file: Path) -> Any:
    """The graph, tensors or plain values that ``torch.save`` wrote to an untrusted file."""
    hint = (
        "Save a Data or a dict of tensors with torch.save, without NumPy arrays and words. Of a "
        "HeteroData, join the nodes of one type by torch_geometric.transforms.AddMetaPaths, and "
        "save the homogeneous Data"
    )
    with reading(file, "a readable file of torch.save", hint=hint):
        with opened(file) as source:
            if zipfile.is_zipfile(source):
                with zipfile.ZipFile(source) as archive:  # torch checks neither sizes nor checksums
                    limits.check(file, sum(member.file_size for member in archive.infolist()))
                    damaged = archive.testzip()
                    if damaged is not None:
                        raise ValueError(f"the checksum of {damaged} is wrong")
            source.seek(0)
            with tensors_only(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch tells that sparse CSR tensors are new
                return torch.load(source, weights_only=True, map_location="cpu")


def array(file: Path, mapped: bool = False) -> np.ndarray:
    """The plain array of a ``.npy``, perhaps left on disk; call it within ``reading``."""
    with opened(file) as source:
        needed = _check_header(source, os.fstat(source.fileno()).st_size)
        if mapped:
            return np.load(file, allow_pickle=False, mmap_mode="c")
        limits.check(file, needed)
        source.seek(0)
        return np.load(source, allow_pickle=False)


def arrays(file: Path, wanted: Collection[str] | None = None) -> dict[str, np.ndarray | None]:
    """The plain arrays of a ``.npz``; those that are not ``wanted`` stay unread and are None."""
    with opened(file) as source:
        _check_headers(source, file, wanted)
        with np.load(source, allow_pickle=False) as found:
            wants = {*found} if wanted is None else {*wanted}
            return {name: found[name] if name in wants else None for name in found}


def sparse_npz(file: Path) -> sp.spmatrix:
    """The matrix of a ``.npz`` that SciPy saved, which fits into memory once it is dense."""
    with opened(file) as source:
        _check_headers(source, file)
        matrix = sparse_matrix(sp.load_npz(source))
    check_dense([matrix], file)
    return matrix


def check_dense(values: Iterable[Any], file: Path) -> None:
    """Check the memory of sparse matrices and of expanded tensors before they are made dense."""
    needed = (math.prod(value.shape) * max(WORD, value.dtype.itemsize) for value in values)
    limits.check(file, sum(needed))


def dense(matrix: Any) -> np.ndarray:
    """A matrix as an array."""
    return matrix.toarray() if sp.issparse(matrix) else matrix


def sparse_matrix(matrix: Any) -> sp.spmatrix:
    """The matrix, after a check of its indices, which SciPy trusts; an array is returned as is."""
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


def _check_headers(source: IO[bytes], file: Path, wanted: Collection[str] | None = None) -> None:
    """Check the header and the size of some arrays of a ``.npz``, and go back to its begin."""
    needed = 0
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            if wanted is None or info.filename.removesuffix(".npy") in wanted:
                with archive.open(info) as member:
                    needed += max(info.file_size, _check_header(member, info.file_size))
    limits.check(file, needed)
    source.seek(0)


def _check_header(source: IO[bytes], size: int) -> int:
    """Memory of an array, which is refused if the ``size`` bytes of its file hold another one."""
    version = "{}_{}".format(*np.lib.format.read_magic(source))
    shape, _, dtype = getattr(np.lib.format, f"read_array_header_{version}")(source)
    count = math.prod(shape)
    if dtype.hasobject:
        raise ValueError("an array holds Python objects or words instead of numbers")
    # Less is wrong as well: of an archive that is not read to its end no checksum is compared.
    if count * dtype.itemsize != size - source.tell():
        raise ValueError(f"its header says {shape} {dtype}, but the file holds something else")
    return count * max(WORD, dtype.itemsize)

"""Reading untrusted files: no pickled code runs, indices stay inside their matrices, and a file's
content takes no more memory than :mod:`limits` allows."""

from __future__ import annotations

import math
import os
import sys
import threading
import warnings
import zipfile
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, Collection, Iterable, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from graphgym_srnc.core.errors import InputError, reading
from graphgym_srnc.data import limits
from graphgym_srnc.io.atomic import regular

DATA_CLASSES = (
    Data,
    DataEdgeAttr,
    DataTensorAttr,
    GlobalStorage,
    HeteroData,
    BaseStorage,
    NodeStorage,
    EdgeStorage,
)
"""What a saved ``Data`` or ``HeteroData`` consists of beside tensors."""

HINT = "If you trust the author of these files, read them with --trust"
"""Advice in errors of :func:`no_code`."""

_TRUST: ContextVar[bool] = ContextVar("trust", default=False)
is_trusted = _TRUST.get
"""Whether this is called within :func:`trusted`."""

_LOCK, _REFUSING = threading.Lock(), threading.Event()
_add_once = cache(sys.addaudithook)  # a hook stays until the process ends
_TORCH_SWITCH = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


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
def no_code() -> Iterator[None]:
    """Within it, unless :func:`trusted`, no code in a file that a foreign reader reads is run.

    A pickle runs code by the classes and functions that it names. CPython raises an audit event
    before it looks one up, and before it runs a text (PEP 578), in ``pickle``, NumPy, pandas and
    joblib. Both are refused here, in all threads. Arrays of numbers, and pickles of numbers, texts,
    lists and dictionaries, name nothing. ``torch.load`` may read tensors only, so that ogb's own
    files are read too.

    Raises:
        UnpicklingError: the reader asks for what is refused.
    """
    if is_trusted():
        yield
        return
    with _LOCK:
        _add_once(_refuse_code)
        before = os.environ.get(_TORCH_SWITCH)
        os.environ[_TORCH_SWITCH] = "1"
        _REFUSING.set()
        try:
            yield
        finally:
            _REFUSING.clear()
            os.environ.pop(_TORCH_SWITCH)
            os.environ.update({_TORCH_SWITCH: before} if before is not None else {})


@contextmanager
def tensors_only() -> Iterator[None]:
    """Within it ``torch.load(weights_only=True)`` reads ``DATA_CLASSES`` and checks indices."""
    with (
        torch.serialization.safe_globals([*DATA_CLASSES]),
        torch.sparse.check_sparse_tensor_invariants(),
    ):
        yield


SPARSE = (
    "format",
    "_is_array",
    "shape",
    "data",
    "indices",
    "indptr",
    "row",
    "col",
    "coords",
    "offsets",
)
"""Arrays of a matrix that SciPy saved."""

WORD = 4
"""Bytes that a number takes at least once it is read: features become float32."""


def load(file: Path, key: str = "path") -> Any:
    """The graph, tensors or plain values that ``torch.save`` wrote to an untrusted file.

    Raises:
        InputError: it is damaged, too large or contains something else; names ``key`` or the file.
    """
    hint = "Save a Data, a HeteroData or a dict of tensors with torch.save, and nothing else"
    with reading(file, "a readable file of torch.save", key, hint):
        if zipfile.is_zipfile(regular(file)):
            _check_archive(file, file.name, file.stat().st_size)
        with tensors_only(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch tells that sparse CSR tensors are new
            return torch.load(file, weights_only=True, map_location="cpu")


def array(file: Path, mapped: bool = False) -> np.ndarray:
    """The plain array of a ``.npy``, perhaps left on disk; call it within :func:`reading`."""
    with open(regular(file), "rb") as opened:
        needed = _check_header(opened, file.stat().st_size)
    if not mapped:
        limits.check(file, needed, file.stat().st_size)
    return np.load(file, allow_pickle=False, mmap_mode="c" if mapped else None)


def arrays(file: Path, wanted: Collection[str]) -> dict[str, np.ndarray | None]:
    """The plain arrays of a ``.npz``; those that are not ``wanted`` stay unread and are None."""
    _check_arrays(file, wanted)
    with np.load(file, allow_pickle=False) as found:
        return {name: found[name] if name in wanted else None for name in found}


def sparse_npz(file: Path) -> sp.spmatrix:
    """The matrix of a ``.npz`` that SciPy saved, which fits into memory once it is dense."""
    _check_arrays(file, SPARSE)
    matrix = sparse_matrix(sp.load_npz(file))
    check_dense([matrix], file)
    return matrix


def check_dense(values: Iterable[Any], file: Path) -> None:
    """Check the memory of sparse matrices and of expanded tensors before they are made dense."""
    needed = sum(math.prod(value.shape) * max(WORD, value.dtype.itemsize) for value in values)
    limits.check(file, needed, file.stat().st_size)


def dense(matrix: Any) -> np.ndarray:
    """A matrix as an array."""
    return matrix.toarray() if sp.issparse(matrix) else matrix


def sparse_matrix(matrix: Any) -> sp.spmatrix:
    """The matrix, after a check of its indices, which SciPy trusts; an array is returned as is."""
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


def _refuse_code(event: str, arguments: tuple) -> None:
    """An audit hook: refuse what :func:`no_code` says."""
    if not _REFUSING.is_set() or event not in ("pickle.find_class", "exec") or is_trusted():
        return
    if event == "pickle.find_class":
        raise UnpicklingError(f"a pickle that needs {'.'.join(map(str, arguments))}")
    # Imports run code as well, and not that of data.
    caller = sys._getframe(1).f_globals.get("__name__", "")
    if caller.startswith(("torch_geometric.", "ogb.")):
        raise UnpicklingError(f"text that {caller} runs as code")


def _check_archive(opened: Path | IO[bytes], name: str, size: int) -> None:
    """Check the unpacked size and the checksums of a zip archive; torch checks neither."""
    with zipfile.ZipFile(opened) as archive:
        limits.check(name, sum(member.file_size for member in archive.infolist()), size)
        if (member := archive.testzip()) is not None:
            raise InputError.plain(name, f"it is damaged: the checksum of {member} is wrong")


def _check_arrays(file: Path, wanted: Collection[str]) -> None:
    """Check the headers and the unpacked size of some arrays of a ``.npz``."""
    needed = 0
    with zipfile.ZipFile(regular(file)) as archive:
        for info in archive.infolist():
            if info.filename.removesuffix(".npy") in wanted:
                with archive.open(info) as member:
                    needed += max(info.file_size, _check_header(member, info.file_size))
    limits.check(file, needed, file.stat().st_size)


def _check_header(opened: IO[bytes], size: int) -> int:
    """Memory of an array, which is refused if the ``size`` bytes of its file hold another one."""
    version = "{}_{}".format(*np.lib.format.read_magic(opened))
    shape, _, dtype = getattr(np.lib.format, f"read_array_header_{version}")(opened)
    count = math.prod(shape)
    # Less is wrong as well: of an archive that is not read to its end no checksum is compared.
    if count * dtype.itemsize != size - opened.tell():
        raise ValueError(f"its header says {shape} {dtype}, but the file holds something else")
    return count * max(WORD, dtype.itemsize)

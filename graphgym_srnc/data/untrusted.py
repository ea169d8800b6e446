"""Reading strangers' files: no pickled code runs, no index leads outside its memory, and no header
makes us allocate more than there is."""
from __future__ import annotations

import io
import math
import os
import sys
import threading
import zipfile
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, Collection, Iterator

import numpy as np
import psutil
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from graphgym_srnc.atomic import regular
from graphgym_srnc.seal import check_seal

DATA_CLASSES = (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage)
"""What a saved ``Data`` consists of beside tensors."""

HINT = "If you trust the author of these files, read them with --trust"
"""Advice in errors of :func:`no_code`."""

_TRUST: ContextVar[bool] = ContextVar("trust", default=False)
_LOCK, _REFUSING = threading.Lock(), threading.Event()
_TORCH_SWITCH = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


@contextmanager
def trusted(trust: bool = True) -> Iterator[None]:
    """Within it, in this thread, a reader of a data set may run code that its files hold.

    That is for a person to say, of files whose maker they trust: ``--trust`` on the command line,
    or this from Python. No config and no stored record can.
    """
    before = _TRUST.set(trust)
    try:
        yield
    finally:
        _TRUST.reset(before)


def is_trusted() -> bool:
    """Whether this is called within :func:`trusted`."""
    return _TRUST.get()


@contextmanager
def no_code() -> Iterator[None]:
    """Within it, but for :func:`trusted`, no code of a file that a foreign reader reads is run.

    A pickle runs code by the classes and functions that it names. CPython announces each of them
    before it is looked up, and each text before it is run (PEP 578), whichever library asks for it:
    ``pickle``, NumPy, pandas, joblib. Here both are refused, in all threads. Arrays of numbers and
    pickles of numbers, texts, lists and dictionaries name nothing and are read. ``torch.load`` is
    held to tensors, so that ogb's own files, which it reads as pickles, are read as well.

    Raises:
        UnpicklingError: where the reader asks for what is refused.
    """
    if is_trusted():
        yield
        return
    with _LOCK:
        _add_hook()
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
def tensors_only(*classes: type) -> Iterator[None]:
    """Within it ``torch.load(weights_only=True)`` also reads ``Data``, or other given classes.

    It also looks at the indices of sparse tensors, which torch otherwise trusts.
    """
    with (torch.serialization.safe_globals([*(classes or DATA_CLASSES)]),
          torch.sparse.check_sparse_tensor_invariants()):
        yield


class Damaged(ValueError):
    """A file is not what was written."""


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


def saved(content: bytes, device: str | None = None) -> tuple[Any, bool]:
    """What ``torch.save`` wrote, tensors and plain values alone, and whether it was sealed.

    Torch compares no checksum. An archive without a seal has those of its files.

    Args:
        content: of the file.
        device: where tensors go; None = where each was.

    Raises:
        Exception: of some kind, where the content is damaged or something else.
    """
    is_sealed = check_seal(content)
    if not is_sealed and zipfile.ZipFile(io.BytesIO(content)).testzip() is not None:
        raise Damaged("it is damaged: a checksum is wrong")
    with torch.sparse.check_sparse_tensor_invariants():
        found = torch.load(io.BytesIO(content), weights_only=True, map_location=device)
    return found, is_sealed


def check_archive(file: Path) -> None:
    """Compare the checksums of a zip archive, as ``torch.save`` writes them, which torch does not.

    Raises:
        Damaged: one is wrong.
    """
    if zipfile.is_zipfile(regular(file)):
        with zipfile.ZipFile(file) as archive:
            name = archive.testzip()
        if name is not None:
            raise Damaged(f"it is damaged: the checksum of {name} is wrong")


def sparse_matrix(matrix: Any) -> sp.spmatrix:
    """The matrix after its indices were checked, which SciPy otherwise trusts.

    Raises:
        ValueError: they lead outside the matrix.
    """
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


@cache
def _add_hook() -> None:
    """Once, since a hook stays until the process ends."""
    sys.addaudithook(_refuse_code)


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


def _check_member(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse an array of an archive by its header and its packed size, before it is unpacked."""
    info = archive.getinfo(name)
    if info.file_size > max(UNPACKED, PACKED * info.compress_size):
        raise ValueError(f"{name} unpacks from {info.compress_size:,} bytes to "
                         f"{info.file_size:,}; if that is right, save it uncompressed")
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
    # Less is wrong as well: of an archive that is not read to its end no checksum is compared.
    if min(shape, default=0) < 0 or not dtype.hasobject and needed != size - opened.tell():
        raise ValueError(f"its header says {shape} {dtype}, but the file holds something else")
    _check_size(needed)


def _check_size(size: int) -> None:
    memory = psutil.virtual_memory().total
    if size > memory:
        raise ValueError(f"it needs {size / 2 ** 30:,.1f} GiB of memory; this machine has "
                         f"{memory / 2 ** 30:,.1f}")


def reason(error: Exception) -> str:
    """What a library says is wrong with a file, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

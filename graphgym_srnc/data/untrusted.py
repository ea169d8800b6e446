"""Reading strangers' files: no pickled code runs, no index leads outside its memory, and no header
makes us allocate more than there is."""
from __future__ import annotations

import io
import math
import os
import re
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

from graphgym_srnc.atomic import regular
from graphgym_srnc.data import limits
from graphgym_srnc.errors import InputError
from graphgym_srnc.seal import check_seal

DATA_CLASSES = (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, HeteroData, BaseStorage,
                NodeStorage, EdgeStorage)
"""What a saved ``Data`` or ``HeteroData`` consists of beside tensors."""

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
def tensors_only() -> Iterator[None]:
    """Within it ``torch.load(weights_only=True)`` also reads ``DATA_CLASSES``.

    It also looks at the indices of sparse tensors, which torch otherwise trusts.
    """
    with (torch.serialization.safe_globals([*DATA_CLASSES]),
          torch.sparse.check_sparse_tensor_invariants()):
        yield


class Damaged(ValueError):
    """A file is not what was written."""


SPARSE = ("format", "shape", "data", "indices", "indptr", "row", "col", "offsets", "blocksize")
"""Arrays of a matrix that SciPy saved."""

WORD = 4
"""Bytes that a number takes at least once it is read: features become float32."""


@contextmanager
def reading(file: Path, kind: str, key: str = "path") -> Iterator[None]:
    """Turn any error of a library that reads a file into one of ours.

    Raises:
        InputError: the file is not of this kind.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each library has errors of its own
        message = f"{file.name} is not {kind} ({reason(error)})"
        raise InputError.plain(key, message) from error


def load(file: Path, key: str = "path") -> Any:
    """The graph, tensors or plain values that ``torch.save`` wrote to a stranger's file.

    Args:
        file: the file.
        key: what errors name.

    Raises:
        InputError: it is damaged, too large or holds something else.
    """
    try:
        if zipfile.is_zipfile(regular(file)):
            with zipfile.ZipFile(file) as archive:
                _check_archive(archive, file, file.stat().st_size)
        with tensors_only(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch tells that sparse CSR tensors are new
            return torch.load(file, weights_only=True, map_location="cpu")
    except InputError:
        raise
    except Exception as error:  # torch has no error of its own for a file that is none of its own
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        message = f"{file.name} cannot be read"
        message += f": it contains {foreign[1]}" if foreign else ""
        message += f": {error}" * isinstance(error, Damaged)
        hint = "Save a Data, a HeteroData or a dict of tensors with torch.save, and nothing else"
        raise InputError.plain(key, message, hint) from error


def array(file: Path, mapped: bool = False) -> np.ndarray:
    """The plain array of a ``.npy``, or one that is left on disk.

    Raises:
        Exception: it is none, see :func:`reason`.
    """
    with open(regular(file), "rb") as opened:
        needed = _check_header(opened, file.stat().st_size)
    if not mapped:
        limits.check(file, needed, file.stat().st_size)
    return np.load(file, allow_pickle=False, mmap_mode="c" if mapped else None)


def arrays(file: Path, wanted: Collection[str]) -> dict[str, np.ndarray | None]:
    """The plain arrays of a ``.npz``; those that are not ``wanted`` stay unread and are None.

    Raises:
        Exception: one of the wanted is none, see :func:`reason`.
    """
    with zipfile.ZipFile(regular(file)) as archive:
        found = {name.removesuffix(".npy"): None for name in archive.namelist()}
        names = [name for name in found if name in wanted]
        _check_members(archive, names, file)
        for name in names:
            with archive.open(f"{name}.npy") as member:
                found[name] = np.lib.format.read_array(member, allow_pickle=False)
        return found


def sparse_npz(file: Path) -> sp.spmatrix:
    """The matrix of a ``.npz`` that SciPy saved, which fits into memory once it is dense.

    Raises:
        Exception: it is none, see :func:`reason`.
    """
    with zipfile.ZipFile(regular(file)) as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
        _check_members(archive, names & {*SPARSE}, file)
    matrix = sparse_matrix(sp.load_npz(file))
    check_dense([matrix], file)
    return matrix


def check_dense(values: Iterable[Any], file: Path) -> None:
    """Check the memory of a file's matrices and tensors before they are made dense.

    A tensor may be larger than the file too, if its rows are one row in memory.

    Raises:
        InputError: see :func:`limits.check`.
    """
    needed = sum(math.prod(value.shape) * max(WORD, value.dtype.itemsize) for value in values)
    limits.check(file, needed, file.stat().st_size)


def dense(matrix: Any) -> np.ndarray:
    """A matrix as an array."""
    return matrix.toarray() if sp.issparse(matrix) else matrix


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
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _check_archive(archive, "file", len(content))
    with torch.sparse.check_sparse_tensor_invariants():
        found = torch.load(io.BytesIO(content), weights_only=True, map_location=device)
    return found, is_sealed


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


def _check_archive(archive: zipfile.ZipFile, file: Path | str, size: int) -> None:
    """Check the unpacked size and the checksums of a zip archive; torch checks neither."""
    limits.check(file, sum(member.file_size for member in archive.infolist()), size)
    if (name := archive.testzip()) is not None:
        raise Damaged(f"it is damaged: the checksum of {name} is wrong")


def _check_members(archive: zipfile.ZipFile, names: Collection[str], file: Path) -> None:
    """Check the headers and the unpacked size of some arrays of an archive."""
    needed = 0
    for info in (archive.getinfo(f"{name}.npy") for name in names):
        with archive.open(info) as member:
            needed += max(info.file_size, _check_header(member, info.file_size))
    limits.check(file, needed, file.stat().st_size)


def _check_header(opened: IO[bytes], size: int) -> int:
    """Memory of an array, which is refused if the ``size`` bytes of its file hold another one."""
    npy = np.lib.format
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(opened)
    if version not in read:
        raise ValueError(f"an array of format {version}")
    shape, _, dtype = read[version](opened)
    count = math.prod(shape)
    # Less is wrong as well: of an archive that is not read to its end no checksum is compared.
    wrong = not dtype.hasobject and count * dtype.itemsize != size - opened.tell()
    if min(shape, default=0) < 0 or wrong:
        raise ValueError(f"its header says {shape} {dtype}, but the file holds something else")
    return count * max(WORD, dtype.itemsize)


def reason(error: Exception) -> str:
    """What a library says is wrong with a file, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

"""Reading strangers' files: no pickled code runs, and no index leads outside its memory."""
from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

DATA_CLASSES = (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage)
"""What a saved ``Data`` consists of beside tensors."""

HINT = "--trust reads them all the same: only if you trust whoever made these files"
"""What a refusal of :func:`no_code` advises."""

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


def arrays(file: Path) -> dict[str, np.ndarray]:
    """The plain arrays of a ``.npz``."""
    with np.load(file, allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


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
        raise UnpicklingError(f"a pickle that asks for {'.'.join(map(str, arguments))}")
    # Imports run code as well, and not that of data.
    caller = sys._getframe(1).f_globals.get("__name__", "")
    if caller.startswith(("torch_geometric.", "ogb.")):
        raise UnpicklingError(f"text that {caller} runs as code")


def reason(error: Exception) -> str:
    """What a library says is wrong with a file, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

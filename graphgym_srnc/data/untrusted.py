"""Reading strangers' files: no pickled code runs, and no index leads outside its memory."""
from __future__ import annotations

import io
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from graphgym_srnc import atomic

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


def saved(content: bytes, device: str | None = None) -> tuple[Any, bool]:
    """What ``torch.save`` wrote, tensors and plain values alone, and whether it was sealed.

    Torch compares no checksum. An archive without a seal has those of its files.

    Args:
        content: of the file.
        device: where tensors go; None = where each was.

    Raises:
        Exception: of some kind, where the content is damaged or something else.
    """
    is_sealed = atomic.check_seal(content)
    if not is_sealed and zipfile.ZipFile(io.BytesIO(content)).testzip() is not None:
        raise ValueError("it is damaged, a checksum is wrong")
    with torch.sparse.check_sparse_tensor_invariants():
        found = torch.load(io.BytesIO(content), weights_only=True, map_location=device)
    return found, is_sealed


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


def reason(error: Exception) -> str:
    """What a library says is wrong with a file, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

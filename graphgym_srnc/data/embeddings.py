"""Features ``[V, D]`` of a model of texts or nodes, in a file of their own."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import torch

from graphgym_srnc.data import untrusted
from graphgym_srnc.data.cleaning import strided
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io import atomic

KEY = "embeddings"
NAMES = ("x", "embeddings", "embedding", "node_features", "features", "arr_0")  # of one of several


def read(file: Path, ids: Sequence[str], nodes: int) -> np.ndarray:
    """Features ``[nodes, D]`` of an ``.npy``, ``.npz``, ``.pt`` or ``.parquet``.

    They are in the order of the nodes, except that a column of ``ids`` of a ``.parquet`` decides.
    """
    with reading(file, "a readable file of plain numbers", KEY):
        if file.suffix == ".parquet":
            value = _of_table(file, ids)
        elif file.suffix == ".npz":
            value = _of_npz(file)
        elif file.suffix in (".pt", ".pth"):
            value = _one_of(untrusted.load(file))
        else:
            value = untrusted.array(file)
    return checked(value, nodes, KEY, f"{file}")


def checked(value: Any, nodes: int, key: str, what: str = "it") -> np.ndarray:
    """Finite numbers ``[nodes, D]`` of an array, a tensor or a matrix of SciPy; names ``key``."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = strided(value).float().numpy()
    array = np.asarray(untrusted.dense(value))
    fits = array.ndim == 2 and len(array) == nodes and array.dtype.kind in "fiub"
    if not fits or not np.isfinite(array).all():
        raise InputError.plain(
            key,
            f"{what} holds {array.dtype} {array.shape}",
            f"Give finite numbers, one row for each of the {nodes} nodes",
        )
    return array.astype(float)


def _one_of(value: Any) -> Any:
    """The features of a mapping of arrays, or the value itself."""
    if not hasattr(value, "keys"):
        return value
    names = [*value.keys()]
    usual = [name for name in NAMES if name in names] or names
    if len(usual) > 1 and usual == names:
        raise ValueError(f"it holds several arrays: {', '.join(map(str, names))}")
    return value[usual[0]]


def _of_npz(file: Path) -> Any:
    arrays = untrusted.arrays(file, ())
    if {"format", "shape"} <= {*arrays}:  # of scipy.sparse.save_npz
        return untrusted.sparse_npz(file)
    return _one_of(untrusted.arrays(file))


def _of_table(file: Path, ids: Sequence[str]) -> np.ndarray:
    import pandas

    from graphgym_srnc.data.features import texts, values

    frame = pandas.read_parquet(io.BytesIO(atomic.content(file)))
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index()
    for name in frame:
        own = pandas.Index(texts(frame[name]))
        if own.is_unique and {*own} >= {*ids}:
            frame = frame.drop(columns=name).iloc[own.get_indexer(pandas.Index(ids))]
            break
    rows = frame.to_numpy(dtype=object)
    return np.array([np.concatenate([*map(values, row)]) for row in rows], dtype=float)

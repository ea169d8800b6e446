"""Reading a graph from tables of text or NumPy arrays: edges, features, labels and a split."""
from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.utils import index_to_mask

from graphgym_srnc.atomic import regular
from graphgym_srnc.data.untrusted import array, dense, reason, sparse_npz
from graphgym_srnc.errors import InputError

SUFFIXES = (".csv", ".tsv", ".txt")
"""Kinds of text tables."""


def read(edges: Path, features: Path, labels: Path | None, split: Path | None,
         mapped: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a graph, and class names if labels are words.

    Args:
        edges: a table of two node numbers a line, or ``.npy`` ``[2, E]``.
        features: a table with a line a node, ``.npy``, or a matrix saved by SciPy as ``.npz``.
        labels: a table of labels, or of nodes and labels, or ``.npy``; None = no labels.
        split: a table of nodes and ``train``, ``val`` or ``test``, which need not exist.
        mapped: leave features on disk, a ``.npy`` of float32.

    Raises:
        InputError: a file cannot be read or is not what it should be.
    """
    x = _mapped(features) if mapped else _features(features)
    y, names = (None, ()) if labels is None else _labels(labels, len(x))
    pairs = _array(edges) if edges.suffix == ".npy" else _numbers(edges, np.int64, 2).T
    masks = {} if split is None or not split.exists() else _masks(split, len(x))
    return {"x": x, "y": y, "edge_index": pairs, **masks}, names


def _features(file: Path) -> np.ndarray:
    if file.suffix == ".npy":
        return _array(file)
    if file.suffix != ".npz":
        return _numbers(file, np.float32, None)
    try:
        return dense(sparse_npz(file))
    except Exception as error:
        message = f"{file.name} is not a matrix of scipy.sparse.save_npz ({reason(error)})"
        raise InputError.plain("features", message) from error


def _mapped(file: Path) -> torch.Tensor:
    """Features left on disk; whoever scales or reads them sees so by the attribute ``mapped``."""
    hint, array = "Save float32 features [V, F] as .npy in C order", None
    try:
        if file.suffix == ".npy":
            array = np.load(regular(file), allow_pickle=False, mmap_mode="c")
    except Exception as error:
        message = f"{file.name} cannot be read ({reason(error)})"
        raise InputError.plain("mapped", message, hint) from error
    right = array is not None and array.dtype == np.float32 and array.ndim == 2
    if not right or not array.flags.c_contiguous:
        found = "" if array is None else f": it holds {array.dtype} {array.shape}"
        message = f"the features of {file.name} cannot stay on disk{found}"
        raise InputError.plain("mapped", message, hint)
    x = torch.from_numpy(array)
    x.mapped = True  # type: ignore[attr-defined]
    return x


def _labels(file: Path, num_nodes: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels ``[V]``, -1 where there is none, and class names if they are words."""
    if file.suffix == ".npy":
        return _array(file), ()
    rows = _rows(file, keep_empty=True)
    if rows and [cell.strip().lower() for cell in rows[0]] in (["node", "label"], ["label"]):
        rows = rows[1:]

    if any(len(row) > 1 for row in rows):
        text = [""] * num_nodes
        for row in filter(None, rows):
            if len(row) != 2 or not _is_node(row[0], num_nodes):
                message = f"{file.name} has the line {','.join(row)!r}"
                hint = f"Write lines of a node from 0 to {num_nodes - 1} and its label"
                raise InputError.plain("labels", message, hint)
            text[int(row[0])] = row[1].strip()
    else:
        text = [row[0].strip() if row else "" for row in rows]

    try:
        numbers = [int(label or -1) for label in text]
        if any(label and label != str(number) for label, number in zip(text, numbers)):
            raise ValueError("a name such as 007")
        return np.array(numbers), ()
    except ValueError:
        names = sorted({label for label in text if label not in ("", "-1")})
        number = {label: i for i, label in enumerate(names)}
        return np.array([number.get(label, -1) for label in text]), tuple(names)


def _masks(file: Path, num_nodes: int) -> dict[str, torch.Tensor]:
    """The masks ``[V]`` of those parts of a split that have a node."""
    nodes: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    for row in _rows(file):
        if row[0].strip() == "node":
            continue
        if len(row) != 2 or row[1] not in nodes or not _is_node(row[0], num_nodes):
            hint = f"Write lines of a node from 0 to {num_nodes - 1} and train, val or test"
            raise InputError.plain(file.name, f"it has the line {','.join(row)!r}", hint)
        nodes[row[1]].append(int(row[0]))
    return {f"{part}_mask": index_to_mask(torch.tensor(ids), num_nodes)
            for part, ids in nodes.items() if ids}


def _array(file: Path) -> np.ndarray:
    try:
        return array(file)
    except Exception as error:
        message = f"{file.name} is not a readable .npy of plain numbers ({reason(error)})"
        raise InputError.plain("path", message) from error


def _is_node(text: str, num_nodes: int) -> bool:
    return text.strip().isdecimal() and len(text) < 20 and int(text) < num_nodes


def _numbers(file: Path, dtype: type, columns: int | None) -> np.ndarray:
    """A table of numbers; a first line of words is a header."""
    rows = _rows(file)
    for skip in (0, 1):
        try:
            table = np.array(rows[skip:]).astype(dtype)
        except ValueError:
            continue
        if table.ndim == 2 and columns in (None, table.shape[1]):
            return table
    hint = ("Write a table of numbers with as many columns on each line" if columns is None
            else f"Write lines of {columns} node numbers")
    raise InputError.plain("path", f"{file.name} is not a table of numbers", hint)


def _rows(file: Path, keep_empty: bool = False) -> list[list[str]]:
    """The cells of each line; empty lines are left out unless ``keep_empty``."""
    try:
        lines = regular(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{file.name} is not a readable text file ({error})"
        raise InputError.plain("path", message) from error
    sample = next((line for line in lines if line.strip()), "")
    delimiter = next((mark for mark in ",;\t" if mark in sample), None)
    if delimiter is None:
        one_cell = keep_empty and file.suffix != ".txt"  # a class name may hold spaces
        rows = [[line] if one_cell else line.split() for line in lines]
    else:
        try:
            rows = list(csv.reader(lines, delimiter=delimiter))
        except csv.Error as error:
            raise InputError.plain("path", f"{file.name} is not a table ({error})") from error
    return [row for row in rows if keep_empty or row]

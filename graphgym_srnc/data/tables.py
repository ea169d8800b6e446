"""A graph folder: edges, features, labels and a split, as tables of text or NumPy arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch

from graphgym_srnc.data import labels as label_words
from graphgym_srnc.data import read as text_tables
from graphgym_srnc.data import untrusted
from graphgym_srnc.data.read import tell
from graphgym_srnc.errors import InputError, reading


def read(
    edges: Path, features: Path, labels: Path | None, split: Path | None, mapped: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a graph, and class names if labels are words.

    Edges are pairs of node numbers, labels are one a node or pairs of node and label, and a split,
    which need not exist, has pairs of node and part. Arrays are ``.npy``, and features may be a
    ``.npz`` of SciPy. ``mapped`` features stay on disk, and ``x.mapped`` is true.
    """
    x: Any
    if mapped:
        x = torch.from_numpy(_array(features, mapped))
        x.mapped = True
    elif features.suffix == ".npy":
        x = np.atleast_1d(_array(features))
    else:
        with reading(features, "a matrix of scipy.sparse.save_npz", "features"):
            x = untrusted.dense(untrusted.sparse_npz(features))
    parts: list[str] = []
    if split is not None and split.exists():
        parts = _by_node(text_tables.cells(split), len(x), split.name, "part")
        parts = [part.lower() for part in parts]
        label_words.check_parts(parts, range(len(x)), split.name)
    found = [part for part in label_words.PARTS if part in parts]
    masks = {f"{part}_mask": torch.tensor([own == part for own in parts]) for part in found}
    held = [part in label_words.PARTS[1:] for part in parts]
    y, classes = (None, ()) if labels is None else _labels(labels, len(x), held)
    return {"x": x, "y": y, "edge_index": _edges(edges, len(x)), **masks}, classes


def _labels(file: Path, num_nodes: int, held: list[bool]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels ``[V]``, -1 for none, and class names if they are words; see ``labels.cleaned``."""
    if file.suffix == ".npy":
        return _array(file), ()
    rows = text_tables.cells(file, blank=True)
    if rows.shape[1] > 1:
        cells = _by_node(rows, num_nodes, file.name, "label")
    else:
        cells = [*rows[0]][rows[0][0].lower() in label_words.COLUMNS :]
        if len(cells) == num_nodes + 1:  # pandas may have written the name 0
            odd = cells.pop(0 if cells[-1] or cells[0] == "0" else -1)
            tell(*[f"{file}: the first line, {odd}, is read as a header"] * bool(odd))
    words, notes = label_words.cleaned(cells, str(file), held)
    tell(*(note for note in notes if not note.startswith("!")))  # data make has printed others
    numbers = label_words.as_numbers(words)
    if numbers is not None:
        return np.array(numbers), ()
    classes = sorted({*words} - {""})
    return pandas.Index(classes, dtype=object).get_indexer(words), tuple(classes)


def _edges(file: Path, num_nodes: int) -> np.ndarray:
    """Pairs of node numbers ``[2, E]``."""
    if file.suffix == ".npy":
        return _array(file)
    rows = text_tables.cells(file)
    if rows.shape[1] != 2:
        message = f"it has {rows.shape[1]} columns"
        raise InputError.plain(file.name, message, "Write two node numbers on each line")
    if [*rows.iloc[0]] == ["0", "1"]:  # pandas writes such a header, too
        tell(f"{file}: the first line, 0,1, is read as a link")
    elif not rows.iloc[0].str.fullmatch(r"-?[\d.]+").any():
        rows = rows.iloc[1:]
    ids = pandas.RangeIndex(num_nodes).map(str)
    pairs = np.array([ids.get_indexer(rows[column]) for column in rows])
    if (pairs < 0).any():
        wrong = rows.to_numpy().T[pairs < 0][0]
        hint = f"Use node numbers from 0 to {num_nodes - 1}"
        raise InputError.plain(file.name, f"it has the node {wrong!r}", hint)
    return pairs


def _by_node(rows: pandas.DataFrame, num_nodes: int, file: str, what: str) -> list[str]:
    """The word of each node ``[V]`` by lines of a node number and a word, empty without a line."""
    rows = rows.iloc[int(not rows.iloc[0, 0].isdecimal()) :]  # without a header
    rows = rows[(rows != "").any(axis=1)].drop_duplicates()
    nodes = pandas.RangeIndex(num_nodes).map(str).get_indexer(rows[0])
    strange = rows[(nodes < 0) | (rows.shape[1] != 2)]
    if len(strange):
        node, *words = strange.iloc[0]
        hint = f"Write lines of a node number from 0 to {num_nodes - 1} and its {what}"
        raise InputError.plain(file, f"it has the {what} {','.join(words)!r} of node {node}", hint)
    if rows[0].duplicated().any():
        node = rows[0][rows[0].duplicated()].iloc[0]
        both = " and ".join(map(repr, rows[1][rows[0] == node]))
        raise InputError.plain(file, f"node {node} has two {what}s: {both}", "Give it one")
    words = pandas.Series([*rows[1]], nodes, dtype=object)
    return [*words.reindex(range(num_nodes), fill_value="")]


def _array(file: Path, mapped: bool = False) -> np.ndarray:
    hint = "Save float32 features [V, F] as .npy in C order" * mapped
    with reading(file, "a readable .npy of plain numbers", "mapped" if mapped else "path", hint):
        array = untrusted.array(file, mapped)
    if mapped and (array.dtype != np.float32 or array.ndim != 2 or not array.flags.c_contiguous):
        found = f"{file.name} contains {array.dtype} {array.shape}"
        raise InputError.plain("mapped", found, hint)
    return array

"""A graph from tables of text or NumPy arrays: edges, features, labels and a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch

from graphgym_srnc.data import frames, untrusted
from graphgym_srnc.data import labels as label_words
from graphgym_srnc.data import read as text_tables
from graphgym_srnc.data.read import NAMELESS, is_counter, tell
from graphgym_srnc.errors import InputError, reading


def read(
    edges: Path, features: Path, labels: Path | None, split: Path | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a graph, and class names if labels are words.

    Tables have two columns of node numbers; a line a node of features; labels, or nodes and labels;
    and nodes and ``train``, ``val`` or ``test``. The split need not exist. Arrays are ``.npy``, and
    features also a ``.npz`` of SciPy.
    """
    x: Any
    if features.suffix == ".npy":
        x = np.atleast_1d(_array(features))
    elif features.suffix == ".npz":
        with reading(features, "a matrix of scipy.sparse.save_npz", "features"):
            x = untrusted.dense(untrusted.sparse_npz(features))
    else:
        x = _features(features)
    parts: list[str] = []
    if split is not None and split.exists():
        rows = text_tables.cells(split)
        parts = _by_node(rows, len(x), split.name, "part").str.lower().tolist()
        frames.check_parts(parts, range(len(x)), split.name)
    found = [part for part in frames.PARTS if part in parts]
    masks = {f"{part}_mask": torch.tensor([own == part for own in parts]) for part in found}
    held = [part in frames.PARTS[1:] for part in parts]
    y, classes = (None, ()) if labels is None else _labels(labels, len(x), held)
    return {"x": x, "y": y, "edge_index": _edges(edges, len(x)), **masks}, classes


def _features(file: Path) -> np.ndarray:
    """Features ``[V, F]`` of a text table."""
    rows, notes = text_tables.cells(file), list[str]()
    first = rows.iloc[0]
    words = first[pandas.to_numeric(first, errors="coerce").isna()].str.lower()
    is_named = first[0] == "" or not words.isin(label_words.EMPTY | {""}).all()
    if text_tables.is_header(rows, is_named, str(file), notes):
        rows = rows.iloc[1:]
        if NAMELESS.fullmatch(first[0]):
            if not is_counter(rows[0]) or len(first) == 1:
                message = "its first column has no name and does not count the nodes from 0"
                raise InputError.plain(file.name, message, "Name it, or remove it")
            notes.append(f"{file}: the first column, which counts the nodes, is no feature")
            rows = rows.drop(columns=0)
    tell(*notes)
    with reading(file, "a table of numbers", file.name, "Write a number into each cell"):
        if wrong := next((cell for _, row in rows.items() for cell in row if "_" in cell), ""):
            raise ValueError(f"{wrong!r} is not a number")  # to Python, 1_0 is 10
        return np.array(rows, dtype=np.float64)


def _labels(file: Path, num_nodes: int, held: list[bool]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels ``[V]``, -1 for none, and class names if they are words; see ``labels.cleaned``."""
    if file.suffix == ".npy":
        return _array(file), ()
    rows = text_tables.cells(file, blank=True)
    if rows.shape[1] > 1:
        cells = [*_by_node(rows, num_nodes, file.name, "label")]
    else:
        cells = [*rows[0]][rows[0][0].lower() in frames.LABELS :]
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
    ids, notes = pandas.RangeIndex(num_nodes).map(str), list[str]()
    links = text_tables.table(file, notes, ids)
    pairs, unknown = frames.connected(links, frames.ends(links, (), ids, file.name), ids)
    if unknown:
        hint = f"Use node numbers from 0 to {num_nodes - 1}"
        raise InputError.plain(file.name, f"it has the node {next(iter(unknown))!r}", hint)
    tell(*notes)
    return pairs


def _by_node(rows: pandas.DataFrame, num_nodes: int, file: str, what: str) -> pandas.Series:
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
    return pandas.Series([*rows[1]], nodes, dtype=object).reindex(range(num_nodes), fill_value="")


def _array(file: Path) -> np.ndarray:
    with reading(file, "a readable .npy of plain numbers", "path"):
        return untrusted.array(file)

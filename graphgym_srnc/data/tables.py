"""A graph from tables of text or NumPy arrays: edges, features, labels and a split."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch

from graphgym_srnc.core.errors import InputError, reading
from graphgym_srnc.data import frames, untrusted
from graphgym_srnc.data import labels as label_words
from graphgym_srnc.data import read as text_tables
from graphgym_srnc.data.read import NAMELESS, is_counter, tell


def read(
    edges: Path, features: Path, labels: Path | None, split: Path | None, mapped: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a graph, and class names if labels are words.

    Args:
        edges: a table with two columns of node numbers, or ``.npy`` ``[2, E]``.
        features: a table with a line a node, ``.npy``, or a matrix saved by SciPy as ``.npz``.
        labels: a table of labels, or of nodes and labels, or ``.npy``; None = no labels.
        split: a table of nodes and ``train``, ``val`` or ``test``, which need not exist.
        mapped: leave features on disk, a ``.npy`` of float32; ``x.mapped`` is then true.
    """
    x: Any = _array(features, mapped) if mapped else _features(features, edges)
    if mapped:
        x = torch.from_numpy(x)
        x.mapped = True
    masks = {} if split is None or not split.exists() else _masks(split, len(x))
    known = sum(masks.values(), torch.zeros(len(x), dtype=torch.bool)).tolist()
    y, classes = (None, ()) if labels is None else _labels(labels, len(x), known)
    return {"x": x, "y": y, "edge_index": _edges(edges, len(x)), **masks}, classes


def _features(file: Path, edges: Path) -> np.ndarray:
    if file.suffix == ".npy":
        return np.atleast_1d(_array(file))
    if file.suffix == ".npz":
        with reading(file, "a matrix of scipy.sparse.save_npz", "features"):
            return untrusted.dense(untrusted.sparse_npz(file))
    rows = text_tables.cells(file)
    first = rows.iloc[0]
    words = first[pandas.to_numeric(first, errors="coerce").isna()].str.lower()
    is_header = first[0] == "" or not words.isin(label_words.EMPTY | {""}).all()
    if [*first] == [*map(str, range(len(first)))]:  # as pandas numbers its columns
        is_header = False
        with contextlib.suppress(InputError):  # the links need as many nodes as there are lines
            is_header = _edges(edges, len(rows) - 1).max(initial=0) < len(rows) - 1
            tell(
                f"{file}: the first line, {','.join(first)[:20]}, is read as a "
                f"{'header' if is_header else 'node'}"
            )
    if is_header:
        rows = rows.iloc[1:]
        if NAMELESS.fullmatch(first[0]):
            if not is_counter(rows[0]) or len(first) == 1:
                raise InputError.plain(
                    file.name,
                    "its first column has no name and does not count the nodes from 0",
                    "Name it, or remove it",
                )
            tell(f"{file}: the first column, which counts the nodes, is no feature")
            rows = rows.drop(columns=0)
    with reading(file, "a table of numbers", file.name, "Write a number into each cell"):
        return np.array(rows, dtype=np.float64)


def _labels(file: Path, num_nodes: int, in_split: list[bool]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels ``[V]``, -1 where there is none, and class names if they are words.

    In a given split, ``unknown`` is the unknown class, as ``discover --labels-out`` writes it.
    """
    if file.suffix == ".npy":
        return _array(file), ()
    rows = text_tables.cells(file, blank=True)
    if rows.shape[1] > 1:
        cells = [*_by_node(rows, num_nodes, file.name, "label")]
    else:
        cells = [*rows[0]][rows[0][0].lower() in frames.LABELS :]
        if len(cells) == num_nodes + 1 and cells[-1] == "" and cells[0] != "0":
            cells.pop()
        elif len(cells) == num_nodes + 1:  # pandas may have written the name 0
            tell(f"{file}: the first line, {cells.pop(0)}, is read as a header")
    is_unknown = [cell == "unknown" and part for cell, part in zip(cells, in_split)]
    words, notes = label_words.cleaned(
        ["" if unknown else cell for cell, unknown in zip(cells, is_unknown)], str(file)
    )
    words = ["unknown" if unknown else word for word, unknown in zip(words, is_unknown)]
    for note in notes:
        if not note.startswith("!"):  # data make has already printed these
            tell(note)
    classes = sorted({*words} - {""})
    if all(len(name) < 19 and name.isdecimal() and name == str(int(name)) for name in classes):
        return np.array([int(word or -1) for word in words]), ()
    return pandas.Index(classes, dtype=object).get_indexer(words), tuple(classes)


def _edges(file: Path, num_nodes: int) -> np.ndarray:
    """Pairs of node numbers ``[2, E]``."""
    if file.suffix == ".npy":
        return _array(file)
    ids = pandas.Index([*map(str, range(num_nodes))], dtype=object)
    links = text_tables.links(file, {*ids}, notes := [])
    pairs, unknown = frames.connected(links, frames.ends(links, (), ids, file.name), ids)
    if unknown:
        raise InputError.plain(
            file.name,
            f"it has the node {next(iter(unknown))!r}",
            f"Use node numbers from 0 to {num_nodes - 1}",
        )
    for note in notes:
        tell(note)
    return pairs


def _masks(file: Path, num_nodes: int) -> dict[str, torch.Tensor]:
    """The masks ``[V]`` of those parts of a split that have a node."""
    parts = _by_node(text_tables.cells(file), num_nodes, file.name, "part").str.lower()
    wrong = parts[~parts.isin([*frames.PARTS, ""])]
    if len(wrong):
        raise InputError.plain(
            file.name,
            f"node {wrong.index[0]} has the part {wrong.iloc[0]!r}",
            f"Use {', '.join(frames.PARTS)}, or nothing",
        )
    return {
        f"{part}_mask": torch.tensor((parts == part).tolist())
        for part in frames.PARTS
        if (parts == part).any()
    }


def _by_node(rows: pandas.DataFrame, num_nodes: int, file: str, what: str) -> pandas.Series:
    """The word of each node ``[V]`` by lines of a node number and a word, empty without a line."""
    rows = rows.iloc[int(not rows.iloc[0, 0].isdecimal()) :]  # without a header
    rows = rows[(rows != "").any(axis=1)].drop_duplicates()
    nodes = pandas.Index([*map(str, range(num_nodes))], dtype=object).get_indexer(rows[0])
    strange = rows[(nodes < 0) | (rows.shape[1] != 2)]
    if len(strange):
        node, *words = strange.iloc[0]
        hint = f"Write lines of a node number from 0 to {num_nodes - 1} and its {what}"
        raise InputError.plain(file, f"it has the {what} {','.join(words)!r} of node {node}", hint)
    twice = rows[rows[0].duplicated(keep=False)]
    if len(twice):
        node = twice[0].iloc[0]
        words = twice[1][twice[0] == node]
        raise InputError.plain(
            file, f"node {node} has two {what}s: {' and '.join(map(repr, words))}", "Give it one"
        )
    words = pandas.Series([*rows[1]], index=nodes, dtype=object)
    return words.reindex(range(num_nodes), fill_value="")


def _array(file: Path, mapped: bool = False) -> np.ndarray:
    hint = "Save float32 features [V, F] as .npy in C order" * mapped
    with reading(file, "a readable .npy of plain numbers", "mapped" if mapped else "path", hint):
        array = untrusted.array(file, mapped)
    if mapped and (array.dtype != np.float32 or array.ndim != 2 or not array.flags.c_contiguous):
        raise InputError.plain(
            "mapped",
            f"{file.name} contains {array.dtype} {array.shape}",
            "Save float32 features [V, F] as .npy in C order",
        )
    return array

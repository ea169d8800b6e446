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
from graphgym_srnc.errors import InputError
from graphgym_srnc.task import HIDDEN


def read(edges: Path, features: Path, labels: Path | None, split: Path | None,
         mapped: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a graph, and class names if labels are words.

    Args:
        edges: a table with two columns of node numbers, or ``.npy`` ``[2, E]``.
        features: a table with a line a node, ``.npy``, or a matrix saved by SciPy as ``.npz``.
        labels: a table of labels, or of nodes and labels, or ``.npy``; None = no labels.
        split: a table of nodes and ``train``, ``val`` or ``test``, which need not exist.
        mapped: leave features on disk, a ``.npy`` of float32.

    Raises:
        InputError: a file cannot be read or is not what it should be.
    """
    rows = None if labels is None or labels.suffix == ".npy" else _labels(labels)
    x = _mapped(features) if mapped else _features(features, edges, rows)
    y, names = (None, ()) if labels is None else (
        (_array(labels), ()) if rows is None else _numbered(rows, len(x), labels))
    pairs = _array(edges) if edges.suffix == ".npy" else _edges(edges, len(x))
    masks = {} if split is None or not split.exists() else _masks(split, len(x))
    return {"x": x, "y": y, "edge_index": pairs, **masks}, names


def _features(file: Path, edges: Path, labels: pandas.Series | None) -> np.ndarray:
    if file.suffix == ".npy":
        return _array(file)
    if file.suffix == ".npz":
        with untrusted.reading(file, "a matrix of scipy.sparse.save_npz", "features"):
            return untrusted.dense(untrusted.sparse_npz(file))
    rows = text_tables.cells(file)
    first = rows.iloc[0].tolist()
    is_header = pandas.to_numeric(pandas.Series(first), errors="coerce").isna().any()
    if first == [str(column) for column in range(len(first))]:  # as pandas numbers its columns
        is_header = len(rows) not in _counts_of_nodes(file, edges, labels)
        if is_header:
            tell(f"{file}: the first line, {','.join(first)[:20]}, is read as a header")
    if is_header:
        rows = text_tables.with_header(rows.iloc[1:], [*range(len(first))], file.name)
        if NAMELESS.fullmatch(first[0]):
            if not is_counter(rows[0]) or len(first) == 1:
                raise InputError.plain(file.name, "its first column has no name and does not count "
                                       "the nodes from 0", "Name it, or remove it")
            tell(f"{file}: the first column, which counts the nodes, is no feature")
            rows = rows.drop(columns=0)
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError as error:
        message = f"it is not a table of numbers ({str(error)[:100]})"
        hint = "Write a table of numbers with as many columns on each line"
        raise InputError.plain(file.name, message, hint) from error


def _counts_of_nodes(features: Path, edges: Path, labels: pandas.Series | None) -> set[int]:
    """How many nodes the other files of a graph seem to have."""
    found = set() if labels is None else {len(labels) if labels.index.name is None
                                          else 1 + max(labels.index, default=0)}
    if (names := features.parent / "nodes.csv").is_file():
        found.add(len(text_tables.table(names)))
    pairs = (_array(edges) if edges.suffix == ".npy" else pandas.to_numeric(
        text_tables.cells(edges, ragged=True).stack(), errors="coerce").dropna().to_numpy())
    return found or {1 + int(pairs.max(initial=0))}


def _mapped(file: Path) -> torch.Tensor:
    """Features left on disk; whoever scales or reads them sees so by the attribute ``mapped``."""
    array = _array(file, mapped=True)
    if array.dtype != np.float32 or array.ndim != 2 or not array.flags.c_contiguous:
        message = (f"the features of {file.name} cannot stay on disk: it holds {array.dtype} "
                   f"{array.shape}")
        raise InputError.plain("mapped", message, "Save float32 features [V, F] as .npy in C order")
    x = torch.from_numpy(array)
    x.mapped = True  # type: ignore[attr-defined]
    return x


def _labels(file: Path) -> pandas.Series:
    """Labels of all nodes, or by node number, in which case the index is called ``node``."""
    rows = text_tables.cells(file, blank=True)
    if rows.shape[1] > 1:
        return _by_node(rows, file.name, "label")
    cells = rows[0]
    has_header = cells.iloc[0].lower() in frames.LABELS
    return cells.iloc[int(has_header):].reset_index(drop=True)


def _numbered(rows: pandas.Series, num_nodes: int,
              file: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels ``[V]``, -1 where there is none, and class names if they are words."""
    if rows.index.name is not None:
        _check_nodes(rows.index, num_nodes, file.name, "label")
        rows = rows.reindex(range(num_nodes), fill_value="")
    elif len(rows) == num_nodes + 1:
        if rows.iloc[-1] == "" and rows.iloc[0] != "0":  # pandas may have written the name 0
            rows = rows.iloc[:-1]
        else:
            tell(f"{file}: the first line, {rows.iloc[0]}, is read as a header")
            rows = rows.iloc[1:]
    words, notes = label_words.cleaned(rows.tolist(), str(file))
    for note in notes:
        if not note.startswith("!"):  # data make has told these
            tell(note)
    names = {*words} - {""}
    if all(name.isdecimal() and name == str(int(name)) and len(name) < 19 for name in names):
        return np.array([int(word or HIDDEN) for word in words]), ()
    number = {name: place for place, name in enumerate(sorted(names))}
    return np.array([number.get(word, HIDDEN) for word in words]), tuple(number)


def _edges(file: Path, num_nodes: int) -> np.ndarray:
    """Pairs of node numbers ``[2, E]``."""
    ids = pandas.Index([*map(str, range(num_nodes))], dtype=object)
    notes: list[str] = []
    links = text_tables.links(file, {*ids}, notes)
    pairs, unknown = frames.connected(links, frames.ends(links, (), ids, file.name), ids)
    for note in notes:
        tell(note)
    if unknown:
        message = f"it has the node {next(iter(unknown))!r}"
        raise InputError.plain(file.name, message, f"Use node numbers from 0 to {num_nodes - 1}")
    return pairs


def _masks(file: Path, num_nodes: int) -> dict[str, torch.Tensor]:
    """The masks ``[V]`` of those parts of a split that have a node."""
    parts = _by_node(text_tables.cells(file), file.name, "part").str.lower()
    wrong = parts[~parts.isin([*frames.PARTS, ""])]
    if len(wrong):
        raise InputError.plain(file.name, f"node {wrong.index[0]} has the part {wrong.iloc[0]!r}",
                               f"Use {', '.join(frames.PARTS)}, or nothing")
    _check_nodes(parts.index, num_nodes, file.name, "part")
    parts = parts.reindex(range(num_nodes), fill_value="")
    return {f"{part}_mask": torch.tensor((parts == part).tolist())
            for part in frames.PARTS if (parts == part).any()}


def _by_node(rows: pandas.DataFrame, file: str, what: str) -> pandas.Series:
    """The second cell of lines of a node and a word, by node number."""
    if rows.shape[1] == 2 and not rows.iloc[0, 0].isdecimal():
        rows = rows.iloc[1:]
    rows = rows[(rows != "").any(axis=1)].drop_duplicates()
    wrong = rows[~rows[0].str.fullmatch(r"\d{1,18}", na=False)] if rows.shape[1] == 2 else rows
    if len(wrong) or not len(rows):
        line = ",".join(rows.iloc[0] if not len(wrong) else wrong.iloc[0]) if len(rows) else ""
        raise InputError.plain(file, f"it has the line {line!r}",
                               f"Write lines of a node number and its {what}")
    words = rows[1].set_axis(rows[0].astype("int64").rename("node"))
    twice = words.index[words.index.duplicated()]
    if len(twice):
        raise InputError.plain(file, f"node {twice[0]} has two {what}s: "
                               f"{' and '.join(map(repr, words.loc[[twice[0]]]))}", "Give it one")
    return words


def _check_nodes(nodes: pandas.Index, num_nodes: int, file: str, what: str) -> None:
    if len(nodes) and nodes.max() >= num_nodes:
        raise InputError.plain(file, f"it has a {what} of node {nodes.max()}",
                               f"Use node numbers from 0 to {num_nodes - 1}")


def _array(file: Path, mapped: bool = False) -> np.ndarray:
    with untrusted.reading(file, "a readable .npy of plain numbers", "mapped" * mapped or "path"):
        return untrusted.array(file, mapped)

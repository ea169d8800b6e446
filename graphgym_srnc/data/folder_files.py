"""A graph folder: edges, features, labels and a split, as tables of text or NumPy arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Collection, Mapping

import numpy as np
import pandas
import torch

from graphgym_srnc.core.task import CHOSEN_MASK, DRAWN_MASK
from graphgym_srnc.core.text import tell_once
from graphgym_srnc.data import dates, untrusted
from graphgym_srnc.data import edges as links
from graphgym_srnc.data import labels as label_words
from graphgym_srnc.data import read as text_tables
from graphgym_srnc.data.names import dates_of
from graphgym_srnc.errors import InputError, reading


def read(
    edges: Path, features: Path, labels: Path | None, split: Path | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a graph, and class names if labels are words.

    Edges are ``.npy`` or a table of two node numbers, labels ``.npy`` or a table of node and label,
    the split, which need not exist, a table of node and part. Every table has a header. Features
    are ``.npy`` or a ``.npz`` of SciPy.
    """
    if features.suffix == ".npy":
        x = np.atleast_1d(_array(features))
    else:
        with reading(features, "a matrix of scipy.sparse.save_npz", "features"):
            x = untrusted.dense(untrusted.sparse_npz(features))
    parts: list[str] = []
    if split is not None and split.exists():
        parts = [part.lower() for part in _by_node(split, len(x), "part")]
        label_words.check_parts(parts, range(len(x)), split.name)
    found = [part for part in label_words.PARTS if part in parts]
    masks = {f"{part}_mask": torch.tensor([own == part for own in parts]) for part in found}
    found_origins = origins(labels.parent if labels else None)
    chosen = of_origin(found_origins, *label_words.CHOSEN)
    if chosen:
        masks[CHOSEN_MASK] = torch.zeros(len(x), dtype=torch.bool)
        masks[CHOSEN_MASK][sorted(chosen)] = True
    held = [part in label_words.PARTS[1:] for part in parts]
    y, classes = (None, ()) if labels is None else _labels(labels, len(x), held)
    sampled = of_origin(found_origins, label_words.SAMPLED)
    drawn = None
    if labels is not None and y is not None:
        drawn = _drawn(labels.parent, y, chosen, sampled)
    if drawn is not None:
        masks[DRAWN_MASK] = torch.from_numpy(drawn)
    return {"x": x, "y": y, **_edges(edges, len(x)), **masks}, classes


def _drawn(
    folder: Path, label: np.ndarray, chosen: Collection[int], sampled: Collection[int]
) -> np.ndarray | None:
    """See ``dates.drawn``; None without dates."""
    known = dates_of(folder, len(label))
    return None if known is None else dates.drawn(known, label >= 0, chosen, sampled)


def origins(folder: Path | None) -> dict[int, str]:
    """Origins by node of the labels of a graph folder that are not from the table."""
    file = folder / "labels.csv" if folder else None
    rows = text_tables.table(file) if file and file.is_file() else pandas.DataFrame()
    if "origin" not in rows:
        return {}
    found = zip(map(int, rows["node"]), rows["origin"])
    return {node: origin for node, origin in found if origin != label_words.GIVEN}


def of_origin(found: Mapping[int, str], *wanted: str) -> set[int]:
    """Nodes whose label is of one of these origins, of the :func:`origins` of a folder."""
    return {node for node, origin in found.items() if origin in wanted}


def _labels(file: Path, num_nodes: int, held: list[bool]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels ``[V]``, -1 for none, and class names if they are words; see ``labels.cleaned``."""
    if file.suffix == ".npy":
        return _array(file), ()
    # Which labels are alike, data make has printed.
    words, notes, _ = label_words.cleaned(_by_node(file, num_nodes, "label"), str(file), held)
    for note in notes:
        tell_once(note)
    numbers = label_words.as_numbers(words)
    if numbers is not None:
        return np.array(numbers), ()
    classes = sorted({*words} - {""})
    return pandas.Index(classes, dtype=object).get_indexer(words), tuple(classes)


def _edges(file: Path, num_nodes: int) -> dict[str, np.ndarray]:
    """Pairs of node numbers ``[2, E]``, and the weights of a third column of a table."""
    if file.suffix == ".npy":
        return {"edge_index": _array(file)}
    rows = _rows(file, "two node numbers", "weight")
    ends = pandas.concat([rows[column] for column in [*rows][:2]])
    found = {"edge_index": _numbers(ends, num_nodes, file.name).reshape(2, -1)}
    if "weight" in rows:
        weights = pandas.to_numeric(rows["weight"], errors="coerce")
        found["edge_weight"] = weights.to_numpy(dtype=np.float32)
    return found


def _by_node(file: Path, num_nodes: int, what: str) -> list[str]:
    """The word of each node ``[V]`` by lines of a node number and a word, empty without a line."""
    rows = _rows(file, f"a node number and its {what}", "origin").iloc[:, :2].drop_duplicates()
    node, word = rows.columns
    twice = rows[node].duplicated()
    if twice.any():
        first = rows[node][twice].iloc[0]
        both = " and ".join(map(repr, rows[word][rows[node] == first]))
        raise InputError.plain(file.name, f"node {first} has two {what}s: {both}", "Give it one")
    words = pandas.Series([*rows[word]], _numbers(rows[node], num_nodes, file.name), dtype=object)
    return [*words.reindex(range(num_nodes), fill_value="")]


def _rows(file: Path, what: str, also: str) -> pandas.DataFrame:
    """A table of two columns and perhaps ``also``, the first of which has no number as its name."""
    rows = text_tables.table(file)
    if (
        rows.shape[1] < 2
        or [*rows][2:] not in ([], [also])
        or not rows.columns[0]
        or rows.columns[0].isdecimal()
    ):
        raise InputError.plain(
            file.name,
            f"its first line is {','.join(rows)[:80]!r}",
            f"Write a header, and {what} on each line below",
        )
    return rows


def _numbers(cells: pandas.Series, num_nodes: int, file: str) -> np.ndarray:
    """Node numbers that were written as text."""
    numbers = links.places(cells, map(str, range(num_nodes)))
    if (numbers < 0).any():
        raise InputError.plain(
            file,
            f"it has the node {cells[numbers < 0].iloc[0]!r}",
            f"Use node numbers from 0 to {num_nodes - 1}",
        )
    return numbers


def _array(file: Path) -> np.ndarray:
    with reading(file, "a readable .npy of plain numbers"):
        return untrusted.array(file)

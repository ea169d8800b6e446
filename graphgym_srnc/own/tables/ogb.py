"""A folder as the package ogb unpacks it: links, features, labels and a split as packed CSV."""
from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas
import scipy.sparse as sp

from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import read
from graphgym_srnc.text import listed

PARTS = {"train": "train", "valid": "val", "test": "test"}
"""Names of parts there and here."""

READ = {"edge", "node-feat", "node-label", "num-node-list", "num-edge-list"}


def read_folder(path: Path) -> tuple[Graph, list[str]]:
    """A graph, and what of the folder is not read, in words.

    Read are ``raw/edge``, ``raw/node-feat`` and ``raw/node-label``, the one folder in ``split``,
    and names of nodes and classes in ``mapping``, all ``.csv.gz`` without headers. A label ``nan``
    is a node without one.

    Raises:
        InputError: a file is absent or not what it should be.
    """
    features = _numbers(path / "raw/node-feat.csv.gz")
    num_nodes = len(features)
    edges = _whole(path / "raw/edge.csv.gz", num_nodes, columns=2).T
    labels = _labels(path, num_nodes)
    unread = sorted({file.name for file in (path / "raw").iterdir()
                     if file.name.partition(".")[0] not in READ})
    notes = [f"not read: {listed(unread)}; edge weights are not used"] if unread else []
    return Graph(edges, sp.csr_matrix(features), (), _ids(path, num_nodes), None, labels,
                 _split(path, num_nodes, labels)), notes


def _labels(path: Path, num_nodes: int) -> list[str]:
    file = path / "raw/node-label.csv.gz"
    found = _numbers(file, finite=False)
    if found.shape != (num_nodes, 1) or (found % 1 > 0).any():
        message = f"the labels have the shape {found.shape}, or some are not whole numbers"
        hint = f"Give one class, a whole number or nan, for each of {num_nodes} nodes"
        raise InputError.plain(file.name, message, hint)
    names = _mapping(path, "labelidx2*.csv.gz")
    return ["" if label != label or label < 0 else names.get(int(label), str(int(label)))
            for label in found[:, 0].tolist()]


def _ids(path: Path, num_nodes: int) -> list[str]:
    names = _mapping(path, "nodeidx2*.csv.gz")
    ids = [names.get(node, "") for node in range(num_nodes)]
    fit = all(ids) and len(set(ids)) == num_nodes
    return ids if fit else list(map(str, range(num_nodes)))


def _split(path: Path, num_nodes: int, labels: list[str]) -> list[str] | None:
    """The part of each node with a label."""
    folders = sorted(folder for folder in path.glob("split/*") if folder.is_dir())
    if len(folders) > 1:
        names = listed([folder.name for folder in folders])
        raise InputError.plain("split", f"there are several splits: {names}", "Keep one folder")
    parts = [""] * num_nodes
    for name, part in PARTS.items() if folders else ():
        for node in _whole(folders[0] / f"{name}.csv.gz", num_nodes, columns=1)[:, 0].tolist():
            parts[node] = part if labels[node] else ""
    return parts if folders else None


def _mapping(path: Path, pattern: str) -> dict[int, str]:
    """What numbers are called, by the first two columns of a file with a header, if there is one.
    """
    file = next(iter(sorted(path.glob(f"mapping/{pattern}"))), None)
    rows = read.lines(file)[1:] if file is not None else []
    return {int(row[0]): row[1] for row in rows if len(row) > 1 and row[0].isdecimal() and row[1]}


def _whole(file: Path, num_nodes: int, columns: int) -> np.ndarray:
    """Node numbers ``[n, columns]``."""
    numbers = _numbers(file)
    inside = (numbers >= 0) & (numbers < num_nodes) & (numbers % 1 == 0)
    if numbers.shape[1] != columns or not inside.all():
        message = (f"it has {numbers.shape[1]} column(s) with values from {numbers.min()} to "
                   f"{numbers.max()}")
        raise InputError.plain(file.name, message,
                               f"Give {columns} column(s) of node ids below {num_nodes}")
    return numbers.astype(np.int64)


def _numbers(file: Path, finite: bool = True) -> np.ndarray:
    """The numbers of a file without a header, ``[n, columns]``."""
    text = read.text(file)
    try:
        numbers = pandas.read_csv(io.StringIO(text), header=None, dtype=np.float64).to_numpy()
    except ValueError as error:  # pandas' own errors are such
        cause = str(error).partition("\n")[0]
        raise InputError.plain(file.name, f"it is not a table of numbers ({cause})",
                               "Give equally many numbers on each line") from error
    if finite and not np.isfinite(numbers).all():
        raise InputError.plain(file.name, "a cell holds no finite number", "Give numbers only")
    return numbers

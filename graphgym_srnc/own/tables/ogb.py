"""A folder as the package ogb unpacks it: links, features, labels and a split as packed CSV."""
from __future__ import annotations

import io
from pathlib import Path
from typing import Collection

import numpy as np
import pandas
import scipy.sparse as sp
import torch

from graphgym_srnc.data import cleaning, read
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.task import HIDDEN
from graphgym_srnc.text import counted, listed

PARTS = {"train": "train", "valid": "val", "test": "test"}
READ = {"edge", "node-feat", "node-label", "num-node-list", "num-edge-list"}


def read_folder(path: Path) -> tuple[Graph, list[str]]:
    """Read a graph, and say what is not read.

    The files have no header: ``raw/edge``, ``raw/node-feat`` and ``raw/node-label``, of which -1
    or nan is no label, the only folder in ``split``; and names in ``mapping``.

    Raises:
        InputError: a file is missing or invalid.
    """
    features = _numbers(path / "raw/node-feat.csv.gz")
    nodes = range(len(features))
    edges = _ids(path / "raw/edge.csv.gz", nodes, columns=2).T
    for kind, count in (("node", len(nodes)), ("edge", edges.shape[1])):
        file = path / f"raw/num-{kind}-list.csv.gz"
        if file.exists() and _numbers(file).tolist() != [[count]]:
            message = f"it does not say {count:,}, the number of lines of {kind}s"
            raise InputError.plain(file.name, message, "Give a complete folder of one graph")
    file = path / "raw/node-label.csv.gz"
    y = torch.tensor(_numbers(file, finite=False))
    classes = cleaning.labels(y, len(nodes), file.name).tolist()
    names = _names(path, "labelidx2*", {*classes} - {HIDDEN})
    labels = [names.get(label, "") for label in classes]
    split, notes = _split(path, nodes, labels)
    unread = sorted({file.name for file in (path / "raw").iterdir()
                     if file.name.partition(".")[0] not in READ})
    notes += [f"not read: {listed(unread)}"] if unread else []
    ids = [*_names(path, "nodeidx2*", nodes).values()]
    return Graph(edges, sp.csr_matrix(features), (), ids, None, labels, split), notes


def _split(path: Path, nodes: range, labels: list[str]) -> tuple[list[str] | None, list[str]]:
    """The part of each node with a label, and what was left out; None if there is no split."""
    folders = sorted(folder for folder in path.glob("split/*") if folder.is_dir())
    if len(folders) > 1:
        names = listed([folder.name for folder in folders])
        raise InputError.plain("split", f"there are several splits: {names}", "Keep one folder")
    parts, bare = [""] * len(nodes), 0
    for name, part in PARTS.items() if folders else ():
        for node in _ids(folders[0] / f"{name}.csv.gz", nodes, columns=1)[:, 0].tolist():
            if parts[node]:
                raise InputError.plain(f"{name}.csv.gz", f"the split contains node {node} twice",
                                       "Put each node into one part")
            parts[node], bare = part, bare + (not labels[node])
    parts = [part if label else "" for part, label in zip(parts, labels)]
    notes = [f"split: {counted(bare, 'node')} without a label left out"] if bare else []
    return (parts if folders else None), notes


def _names(path: Path, pattern: str, numbers: Collection[int]) -> dict[int, str]:
    """Names of some numbers, by a file of ``mapping`` if each of them has its own name there."""
    names = plain = {number: str(number) for number in numbers}
    for file in sorted(path.glob(f"mapping/{pattern}.csv.gz"))[:1]:
        columns = read.table(file).to_numpy().T
        known = dict(zip(columns[0], columns[:2][-1]))
        names = {number: known.get(text, "") for number, text in plain.items()}
    return names if len({*names.values()} - {""}) == len(names) else plain


def _ids(file: Path, nodes: range, columns: int) -> np.ndarray:
    """Node numbers ``[n, columns]``."""
    numbers = _numbers(file)
    inside = (numbers >= 0) & (numbers < len(nodes)) & (numbers % 1 == 0)
    if numbers.shape[1] != columns or not inside.all():
        message = (f"it has {numbers.shape[1]} column(s) with values from {numbers.min()} to "
                   f"{numbers.max()}")
        raise InputError.plain(file.name, message,
                               f"Give {columns} column(s) of node ids below {len(nodes)}")
    return numbers.astype(np.int64)


def _numbers(file: Path, finite: bool = True) -> np.ndarray:
    """The numbers of a file without a header, ``[n, columns]``."""
    try:
        text = io.StringIO(read.text(file))
        numbers = pandas.read_csv(text, header=None, dtype=np.float64).to_numpy()
    except InputError:
        raise
    except ValueError as error:  # pandas' own errors are such
        cause = str(error).partition("\n")[0]
        raise InputError.plain(file.name, f"it is not a table of numbers ({cause})",
                               "Give equally many numbers on each line") from error
    if finite and not np.isfinite(numbers).all():
        raise InputError.plain(file.name, "a cell holds no finite number", "Give numbers only")
    return numbers

"""A folder as the package ogb unpacks it: links, features, labels and a split as packed CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable

import pandas
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.data import cleaning, limits, read
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import regular

PARTS = {"train": "train", "valid": "val", "test": "test"}
READ = {"edge", "node-feat", "node-label", "num-node-list", "num-edge-list"}


def read_folder(path: Path) -> tuple[Graph, list[str]]:
    """Read a graph, and say what is not read.

    The files have no header: ``raw/edge``, ``raw/node-feat`` and ``raw/node-label``, in which -1
    or nan is no label, the only folder in ``split``; and names in ``mapping``.
    """
    raw = path / "raw"
    given = Data(
        x=_numbers(raw / "node-feat.csv.gz", float), edge_index=_numbers(raw / "edge.csv.gz", int).T
    )
    x, edges = cleaning.features_and_edges(given, "node-feat.csv.gz, edge.csv.gz")
    for kind, count in (("node", len(x)), ("edge", edges.size(1))):
        file = raw / f"num-{kind}-list.csv.gz"
        if file.exists() and _numbers(file, int).tolist() != [[count]]:
            message = f"it does not say {count:,}, the number of lines"
            raise InputError.plain(file.name, message, "Give a complete folder of one graph")
    y = cleaning.labels(_numbers(raw / "node-label.csv.gz", float), len(x), "node-label.csv.gz")
    names = _names(path, "labelidx2*", y[y >= 0].unique().tolist())
    labels = [names.get(label, "") for label in y.tolist()]
    split, bare = _split(path, labels)
    notes = [f"split: {counted(bare, 'node')} without a label left out"] if bare else []
    unread = {file.name for file in raw.iterdir() if file.name.partition(".")[0] not in READ}
    notes += [f"not read: {listed(sorted(unread))}"] if unread else []
    ids = [*_names(path, "nodeidx2*", range(len(x))).values()]
    features = sp.csr_matrix(x.numpy())
    return Graph(edges.numpy(), features, (), ids, None, labels, split), notes


def _split(path: Path, labels: list[str]) -> tuple[list[str] | None, int]:
    """The part of each node with a label, or None, and the number of nodes without a label."""
    folders = [folder for folder in path.glob("split/*") if folder.is_dir()]
    if not folders:
        return None, 0
    nodes = {
        part: _numbers(folders[0] / f"{name}.csv.gz", int)[:, 0].numpy()
        for name, part in PARTS.items()
    }
    parts = pandas.concat([pandas.Series(part, ids) for part, ids in nodes.items()])
    wrong = parts.index.duplicated() | ~parts.index.isin(range(len(labels)))
    message = f"it contains {len(folders)} folders" if len(folders) > 1 else ""
    if wrong.any():
        message = f"it contains node {parts.index[wrong.argmax()]} twice, or there is no such node"
    if message:
        raise InputError.plain("split", message, "Give one split, with each node in one part")
    found = parts.reindex(range(len(labels)), fill_value="")
    split = [part if label else "" for part, label in zip(found, labels)]
    return split, len(parts) - sum(map(bool, split))


def _names(path: Path, pattern: str, numbers: Iterable[int]) -> dict[int, str]:
    """Names of some numbers, by a file of ``mapping`` if each of them has its own name there."""
    names = plain = {number: str(number) for number in numbers}
    for file in sorted(path.glob(f"mapping/{pattern}.csv.gz"))[:1]:
        columns = read.table(file).to_numpy().T
        known = dict(zip(columns[0], columns[:2][-1]))
        names = {number: known.get(text, "") for number, text in plain.items()}
    return names if len({*names.values()} - {""}) == len(names) else plain


def _numbers(file: Path, dtype: type) -> torch.Tensor:
    """The numbers of a file without a header, ``[n, columns]``."""
    with reading(file, "a table of numbers", file.name):
        limits.check_file(regular(file))
        return torch.tensor(pandas.read_csv(file, header=None, dtype=dtype).to_numpy())

"""The text files of the DBLP four-area data set: authors, papers, terms and conferences."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import read
from graphgym_srnc.own.tables.hetero import Hetero, Nodes

TYPES = ("author", "paper", "term", "conf")
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
"""Copies differ, and so do files of one copy."""

Numbers = dict[str, dict[str, int]]
"""By type, the number of each node by its id."""


def read_folder(folder: Path) -> tuple[Hetero, list[str]]:
    """The graph in a folder, and what was left out, in words.

    Cells lie between tabs: an id and a name in ``author.txt``, ``paper.txt``, ``term.txt`` and
    ``conf.txt``; two ids in ``paper_author.txt``, ``paper_term.txt`` and ``paper_conf.txt``; an id,
    a label and perhaps a name in ``*_label.txt``. Files may lack.

    Raises:
        InputError: there are no links, a line lacks cells, an id is there twice or has two labels.
    """
    hetero, left_out = Hetero({}, {}), []
    for kind in TYPES:
        if (folder / f"{kind}.txt").is_file():
            ids, names = map(list, zip(*(row[:2] for row in _rows(folder / f"{kind}.txt"))))
            hetero.nodes[kind] = Nodes(ids, names, texts=names if kind == "paper" else None)
    numbers = {kind: read.numbers_of(nodes.ids, f"{kind}.txt")
               for kind, nodes in hetero.nodes.items()}
    for kind in numbers:
        left_out += _connect_papers(hetero, kind, numbers, folder / f"paper_{kind}.txt")
        left_out += _label(hetero, kind, numbers, folder / f"{kind}_label.txt")
    if not hetero.links:
        raise InputError.plain("data make dblp", f"{folder} contains no links of papers", "Give a "
                               "folder with paper.txt and, e.g., author.txt and paper_author.txt")
    return hetero, left_out


def _connect_papers(hetero: Hetero, kind: str, numbers: Numbers, file: Path) -> list[str]:
    if not file.is_file() or "paper" not in numbers:
        return []
    rows = _rows(file)
    pairs = [(numbers["paper"].get(row[0], -1), numbers[kind].get(row[1], -1)) for row in rows]
    known = np.array([pair for pair in pairs if min(pair) >= 0], dtype=np.int64).reshape(-1, 2).T
    shape = (len(numbers["paper"]), len(numbers[kind]))
    hetero.connect("paper", kind, sp.csr_matrix((np.ones(known.shape[1]), known), shape=shape))
    unknown = len(rows) - known.shape[1]
    return [f"{file.name}: {unknown} links to unknown ids left out"] * (unknown > 0)


def _label(hetero: Hetero, kind: str, numbers: Numbers, file: Path) -> list[str]:
    if not file.is_file():
        return []
    labels, unknown = [""] * len(numbers[kind]), 0
    for id, label, *_ in _rows(file):
        number = numbers[kind].get(id)
        if number is None:
            unknown += 1
        elif labels[number] not in ("", label):
            raise InputError.plain(file.name, f"the id {id} has two labels",
                                   "Give each id one label")
        else:
            labels[number] = label
    hetero.nodes[kind].labels = labels
    return [f"{file.name}: {unknown} labels of unknown ids left out"] * (unknown > 0)


def _rows(file: Path) -> list[list[str]]:
    """The stripped cells of each line that is not empty, two at least."""
    lines = [line for line in read.text(file, ENCODINGS).split("\n") if line.strip()]
    rows = [[cell.strip() for cell in line.split("\t")] for line in lines]
    wrong = next((row for row in rows if len(row) < 2), [])
    if wrong or not rows:
        text = "\t".join(wrong)[:80]
        message = f"it has the line {text!r}" if wrong else "the file is empty"
        raise InputError.plain(file.name, message, "Write two cells with a tab between them")
    return rows

"""The text files of the DBLP four-area data set, which a user obtains: authors, papers, terms and conferences."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import read
from graphgym_srnc.own.tables.hetero import Hetero, connect

TYPES = ("author", "paper", "term", "conf")
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
"""Copies differ, and so do files of one copy."""


def read_folder(folder: Path) -> tuple[Hetero, list[str]]:
    """What a folder has of ``author.txt``, ``paper.txt``, ``term.txt``, ``conf.txt`` (id, name), ``paper_author.txt``, ``paper_term.txt``,
    ``paper_conf.txt`` (two ids) and ``*_label.txt`` (id, label, perhaps name), parted by tabs; and what was left out, in words.

    Raises:
        InputError: there are no papers, no links, a line lacks cells, an id is there twice or has two labels.
    """
    ids, names, told = {}, {}, []
    for kind in TYPES:
        if (folder / f"{kind}.txt").is_file():
            rows = _rows(folder / f"{kind}.txt", 2)
            ids[kind], names[kind] = [row[0] for row in rows], [row[1] for row in rows]
    place = {kind: read.places(own, f"{kind}.txt") for kind, own in ids.items()}
    hetero = Hetero({kind: len(own) for kind, own in ids.items()}, {}, ids, names,
                    {"paper": names["paper"]} if "paper" in names else {})
    for kind in TYPES:
        file = folder / f"paper_{kind}.txt"
        if file.is_file() and kind in ids and "paper" in ids:
            pairs = [(place["paper"].get(row[0], -1), place[kind].get(row[1], -1)) for row in _rows(file, 2)]
            known = np.array([pair for pair in pairs if min(pair) >= 0], dtype=np.int64).reshape(-1, 2).T
            shape = (hetero.sizes["paper"], hetero.sizes[kind])
            connect(hetero.links, ("paper", kind), sp.csr_matrix((np.ones(known.shape[1]), known), shape=shape))
            told += [f"{file.name}: {len(pairs) - known.shape[1]} links to unknown ids left out"] if known.shape[1] < len(pairs) else []
        file = folder / f"{kind}_label.txt"
        if file.is_file() and kind in ids:
            hetero.labels[kind], strange = [""] * len(ids[kind]), 0
            for key, label, *_ in _rows(file, 2):
                number = place[kind].get(key)
                if number is None:
                    strange += 1
                elif hetero.labels[kind][number] not in ("", label):
                    raise InputError(file.name, f"two labels of id {key}", "one label for each id")
                else:
                    hetero.labels[kind][number] = label
            told += [f"{file.name}: {strange} labels of unknown ids left out"] if strange else []
    if not hetero.links:
        raise InputError("data make dblp", str(folder), "a folder with paper.txt and, e.g., author.txt and paper_author.txt")
    return hetero, told


def _rows(file: Path, columns: int) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.split("\t")] for line in read.text(file, ENCODINGS).split("\n") if line.strip()]
    wrong = next((row for row in rows if len(row) < columns), None)
    if wrong is not None or not rows:
        raise InputError(file.name, "\t".join(wrong or [])[:80], f"{columns} cells with tabs between them on each line")
    return rows

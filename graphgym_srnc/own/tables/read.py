"""Tables and lists of links from text files; every cell is text, so that an id such as 007 stays one."""
from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path
from typing import Sequence

import numpy as np

from graphgym_srnc.errors import InputError

Table = dict[str, list[str]]
"""Columns by name, all of one length; an empty cell is an empty text."""

ENCODINGS = ("utf-8-sig",)


def table(path: Path) -> Table:
    """A table with names of columns in its first line: ``.csv``, ``.tsv``, ``.txt``, or ``.parquet`` where pandas can read it.

    Raises:
        InputError: it cannot be read, a line has too few or too many cells, or two columns have one name.
    """
    if path.suffix == ".parquet":
        return _parquet(path)
    header, *rows = lines(path)
    wrong = next((number for number, row in enumerate(rows) if len(row) != len(header)), None)
    if wrong is not None:
        raise InputError(path.name, f"{len(rows[wrong])} cell(s) in row {wrong + 1}", f"{len(header)} on each line, as on the first")
    if len(set(header)) < len(header):
        raise InputError(path.name, ", ".join(header), "another name for each column")
    if not rows:
        raise InputError(path.name, "a header alone", "a line for each node")
    return {name: [row[column] for row in rows] for column, name in enumerate(header)}


def lines(path: Path, encodings: Sequence[str] = ENCODINGS) -> list[list[str]]:
    """The cells of each line that is not empty, without space around them; in ``.txt`` those that begin with # are comments.

    Cells are parted by commas, semicolons or tabs: by what gives the first lines as many cells each, and the most of them; in ``.txt``
    by spaces if the first line has none of them.

    Raises:
        InputError: the file cannot be read, or is empty.
    """
    content = text(path, encodings)
    if path.suffix == ".txt":
        content = "\n".join(line for line in content.split("\n") if not line.startswith("#"))
    first = next((line for line in content.split("\n") if line.strip()), "")
    try:
        if path.suffix == ".txt" and not set(first) & set(",;\t"):
            rows = [line.split() for line in content.split("\n")]
        else:
            mark = "\t" if path.suffix == ".tsv" else max(",;\t", key=lambda mark: _fit(content, mark))
            rows = list(csv.reader(io.StringIO(content), delimiter=mark, strict=True))
    except csv.Error as error:
        raise InputError(path.name, str(error), "lines of cells, those with a separator or a line break in quotes") from error
    rows = [[cell.strip() for cell in row] for row in rows if row]
    if not rows:
        raise InputError(path.name, "an empty file", "a line for each node or link")
    return rows


def _fit(content: str, mark: str) -> tuple[bool, int]:
    """Whether a separator gives the first lines as many cells each, two at least, and how many cells the first has."""
    try:
        counts = [len(row) for row in itertools.islice(csv.reader(io.StringIO(content), delimiter=mark, strict=True), 20) if row]
    except csv.Error:
        return False, content.partition("\n")[0].count(mark) + 1
    return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0


def text(path: Path, encodings: Sequence[str] = ENCODINGS) -> str:
    """The content of a file in the first of some encodings that fits.

    Raises:
        InputError: it cannot be read.
    """
    for encoding in encodings:
        try:
            return path.read_text(encoding=encoding)
        except UnicodeDecodeError as error:
            unfit = error
        except OSError as error:
            raise InputError(str(path), "", f"a readable file ({error.strerror})") from error
    raise InputError(path.name, str(unfit), "text in UTF-8") from unfit


def places(ids: Sequence[str], name: str) -> dict[str, int]:
    """The number of each node by its id.

    Raises:
        InputError: an id is empty or there twice.
    """
    place = {key: number for number, key in enumerate(ids)}
    if "" in place:
        raise InputError(name, f"no id in row {place[''] + 1}", "an id for each node")
    if len(place) < len(ids):
        seen: set[str] = set()
        twice = [key for key in ids if key in seen or seen.add(key)]
        raise InputError(name, f"id {twice[0]!r} twice, {len(twice)} such row(s)", "another id for each node")
    return place


def edges(path: Path, ends: Sequence[str], place: dict[str, int], skip: bool) -> tuple[np.ndarray, int]:
    """Node numbers ``[2, E]`` of the links in a file, and how many were left out.

    Args:
        path: a table whose first two columns are ids, with or without a line of names.
        ends: names of the two columns, if they are not the first.
        place: the number of each node.
        skip: leave out links to ids that are no nodes.

    Raises:
        InputError: no such column, a line without two cells, or links to ids that are no nodes.
    """
    if path.suffix == ".parquet" or ends:
        columns = table(path)
        absent = [name for name in ends if name not in columns]
        if absent or len(columns) < 2:
            raise InputError(path.name, ", ".join(absent or columns), f"two of its columns: {', '.join(columns)}")
        pairs = list(zip(*(columns[name] for name in ends or list(columns)[:2])))
    else:
        pairs = lines(path)
        wrong = next((row for row in pairs if len(row) < 2), None)
        if wrong is not None:
            raise InputError(path.name, ",".join(wrong)[:80], "the ids of two nodes on each line")
        # A first line of which one cell is an id has a wrong one; it is no header.
        pairs = pairs[not {pairs[0][0], pairs[0][1]} & place.keys():]
    number = np.array([[place.get(row[0], -1), place.get(row[1], -1)] for row in pairs], dtype=np.int64).reshape(-1, 2).T
    strange = (number < 0).any(0)
    if strange.any() and not skip:
        first = pairs[int(strange.argmax())]
        key = next(end for end in first[:2] if end not in place)
        raise InputError(path.name, f"{key!r}, which is no node; {int(strange.sum())} of {len(pairs)} links are such",
                         "links between ids of the node table, or --skip-missing")
    return number[:, ~strange], int(strange.sum())


def _parquet(path: Path) -> Table:
    try:
        import pandas
        # Nullable types keep whole numbers whole where some are missing.
        frame = pandas.read_parquet(path, dtype_backend="numpy_nullable")
    except ImportError as error:
        raise InputError(path.name, "a .parquet file", "a .csv or .tsv file, or install pyarrow") from error
    except (OSError, ValueError) as error:
        raise InputError(path.name, " ".join(str(error).split())[:200], "a readable .parquet file") from error
    return {str(name): [str(cell).strip() for cell in column.astype("string").fillna("")] for name, column in frame.items()}

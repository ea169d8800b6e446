"""Tables and lists of links from files. Every cell is text, so that an id such as 007 stays one.

All functions raise :class:`InputError`, which names the file, where it cannot be read or is not
what it should be.
"""
from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from pathlib import Path
from typing import Iterator, Sequence

import numpy as np

from graphgym_srnc.atomic import regular
from graphgym_srnc.errors import InputError

Table = dict[str, list[str]]
"""Columns by name, all of one length; an empty cell is an empty text."""


def table(path: Path) -> Table:
    """A table whose first line names its columns; a ``.parquet`` file where pandas can read it.
    """
    if path.suffix == ".parquet":
        return _parquet(path)
    header, *rows = lines(path)
    wrong = next((number for number, row in enumerate(rows) if len(row) != len(header)), None)
    if wrong is not None:
        raise InputError(path.name, f"{len(rows[wrong])} cell(s) in row {wrong + 1}",
                         f"{len(header)} on each line, as on the first")
    if len(set(header)) < len(header):
        raise InputError(path.name, ", ".join(header), "another name for each column")
    if not rows:
        raise InputError(path.name, "a header alone", "a line for each node")
    return {name: [row[column] for row in rows] for column, name in enumerate(header)}


def lines(path: Path) -> list[list[str]]:
    """The stripped cells of each line that is not empty; a ``.txt`` may hold comments after a #.

    Cells are separated by commas, semicolons or tabs: by what gives the first lines as many cells
    each, and the most of them. In a ``.txt`` whose first line has none of these they are separated
    by spaces.
    """
    content = text(path)
    if path.suffix == ".txt":
        content = "\n".join(line for line in content.split("\n") if not line.startswith("#"))
    first = next((line for line in content.split("\n") if line.strip()), "")
    try:
        if path.suffix == ".txt" and not set(first) & set(",;\t"):
            rows = [line.split() for line in content.split("\n")]
        elif path.suffix == ".tsv":
            rows = list(_rows(content, "\t"))
        else:
            rows = list(_rows(content, max(",;\t", key=lambda separator: _fit(content, separator))))
    except csv.Error as error:
        raise InputError(path.name, str(error), "lines of cells, those with a separator or a line "
                         "break in quotes") from error
    rows = [[cell.strip() for cell in row] for row in rows if row]
    if not rows:
        raise InputError(path.name, "an empty file", "a line for each node or link")
    return rows


def text(path: Path, encodings: Sequence[str] = ("utf-8-sig",)) -> str:
    """The content of a file in the first of some encodings that fits.
    """
    for encoding in encodings:
        try:
            return regular(path).read_text(encoding=encoding)
        except UnicodeDecodeError as error:
            unfit = error
        except OSError as error:
            raise InputError(str(path), "", f"a readable file ({error.strerror})") from error
    raise InputError(path.name, str(unfit), "text in UTF-8") from unfit


def numbers_of(ids: Sequence[str], file: str) -> dict[str, int]:
    """The number of each node by its id; errors name the file.
    """
    numbers = {id: number for number, id in enumerate(ids)}
    if "" in numbers:
        raise InputError(file, f"no id in row {numbers[''] + 1}", "an id for each node")
    if len(numbers) < len(ids):
        repeated = Counter(ids).most_common(1)[0][0]
        raise InputError(file, f"id {repeated!r} twice, {len(ids) - len(numbers)} such row(s)",
                         "another id for each node")
    return numbers


def edges(path: Path, ends: Sequence[str], numbers: dict[str, int],
          skip: bool) -> tuple[np.ndarray, int]:
    """Node numbers ``[2, E]`` of the links in a file, and how many were left out.

    Args:
        path: a table whose first two columns are ids, with or without a line of names.
        ends: names of the two columns, if they are not the first.
        numbers: the number of each node by its id.
        skip: leave out links to ids that are no nodes.
    """
    pairs = _pairs(path, ends, numbers)
    found = [[numbers.get(source, -1), numbers.get(target, -1)] for source, target, *_ in pairs]
    edges = np.array(found, dtype=np.int64).reshape(-1, 2).T
    strange = (edges < 0).any(0)
    if strange.any() and not skip:
        wrong = next(id for id in pairs[int(strange.argmax())][:2] if id not in numbers)
        raise InputError(path.name, f"{wrong!r}, which is no node; {int(strange.sum())} of "
                         f"{len(pairs)} links are such",
                         "links between ids of the node table, or --skip-missing")
    return edges[:, ~strange], int(strange.sum())


def _pairs(path: Path, ends: Sequence[str], ids: Sequence[str]) -> list[Sequence[str]]:
    """Lines of a list of links, each of which begins with two ids."""
    if path.suffix == ".parquet" or ends:
        columns = table(path)
        absent = [name for name in ends if name not in columns]
        if absent or len(columns) < 2:
            raise InputError(path.name, ", ".join(absent or columns),
                             f"two of its columns: {', '.join(columns)}")
        return list(zip(*(columns[name] for name in ends or list(columns)[:2])))
    pairs = lines(path)
    wrong = next((row for row in pairs if len(row) < 2), None)
    if wrong is not None:
        raise InputError(path.name, ",".join(wrong)[:80], "the ids of two nodes on each line")
    # A first line of which one cell is an id has a wrong one; it is no header.
    return pairs[not any(id in ids for id in pairs[0][:2]):]


def _rows(content: str, separator: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(content), delimiter=separator, strict=True)


def _fit(content: str, separator: str) -> tuple[bool, int]:
    """Whether a separator gives the first lines equally many cells, two or more; how many."""
    try:
        counts = [len(row) for row in itertools.islice(_rows(content, separator), 20) if row]
    except csv.Error:
        return False, content.partition("\n")[0].count(separator) + 1
    return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0


def _parquet(path: Path) -> Table:
    try:
        import pandas
        # Nullable types keep whole numbers whole where some are missing.
        frame = pandas.read_parquet(regular(path), dtype_backend="numpy_nullable")
    except ImportError as error:
        allowed = "a .csv or .tsv file, or install pyarrow"
        raise InputError(path.name, "a .parquet file", allowed) from error
    except (OSError, ValueError) as error:
        cause = " ".join(str(error).split())[:200]
        raise InputError(path.name, cause, "a readable .parquet file") from error
    return {str(name): [str(cell).strip() for cell in column.astype("string").fillna("")]
            for name, column in frame.items()}

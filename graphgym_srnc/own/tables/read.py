"""Tables and lists of links from files. Every cell is text, so that an id such as 007 stays one.

All functions raise :class:`InputError`, which names the file, where it cannot be read or is not
what it should be.
"""
from __future__ import annotations

import csv
import difflib
import errno
import gzip
import io
import itertools
import zlib
from collections import Counter
from pathlib import Path
from typing import Container, Iterator, Mapping, Sequence

import numpy as np

from graphgym_srnc.atomic import regular
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import formats
from graphgym_srnc.own.tables.formats import Links, Table

MOST_BYTES = 2 ** 32
"""Of a file that was compressed, once it is not."""


def table(path: Path) -> Table:
    """A table whose first line names its columns, or one of :mod:`formats`."""
    if path.suffix in formats.TABLES:
        return formats.table(path)
    header, *rows = lines(path)
    wrong = [number for number, row in enumerate(rows) if len(row) != len(header)]
    if wrong:
        others = f"; {len(wrong) - 1} more rows have a wrong number too" * (len(wrong) > 1)
        message = (f"row {wrong[0] + 1} has {len(rows[wrong[0]])} cell(s), and the first line has "
                   f"{len(header)}{others}")
        raise InputError.plain(path.name, message)
    if len(set(header)) < len(header):
        raise InputError.plain(path.name, f"two columns have the same name: {', '.join(header)}",
                               "Give each column its own name")
    if not rows:
        raise InputError.plain(path.name, "it has a header and no rows",
                               "Write a line for each node")
    return {name: [row[column] for row in rows] for column, name in enumerate(header)}


def lines(path: Path) -> list[list[str]]:
    """The stripped cells of each line that is not empty.

    Cells are separated by commas, semicolons or tabs: by what gives the first lines as many cells
    each, and the most of them. Files that are no ``.csv`` or ``.tsv`` may hold comments after a #
    or %, and where the first line has none of these marks, they are separated by spaces.
    """
    content, kind = text(path), path.name.removesuffix(".gz").rpartition(".")[2]
    free = kind not in ("csv", "tsv")
    if free:
        content = "\n".join(line for line in content.split("\n") if line[:1] not in ("#", "%"))
    first = next((line for line in content.split("\n") if line.strip()), "")
    try:
        if free and not set(first) & set(",;\t"):
            rows = [line.split() for line in content.split("\n")]
        elif kind == "tsv":
            rows = list(_rows(content, "\t"))
        else:
            rows = list(_rows(content, max(",;\t", key=lambda separator: _fit(content, separator))))
    except csv.Error as error:
        hint = "Put cells with a separator or a line break into quotes"
        raise InputError.plain(path.name, f"it is not a table ({error})", hint) from error
    rows = [[cell.strip() for cell in row] for row in rows if row]
    if not rows:
        raise InputError.plain(path.name, "the file is empty",
                               "Write a line for each node or link")
    return rows


def text(path: Path, encodings: Sequence[str] = ("utf-8-sig",)) -> str:
    """The content of a file, perhaps a ``.gz``, in the first of some encodings that fits.
    """
    try:
        content = _unpacked(path) if path.suffix == ".gz" else regular(path).read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        cause = getattr(error, "strerror", None) or str(error)
        missing = isinstance(error, FileNotFoundError)
        beside = [other.name for other in path.parent.glob("*") if missing]
        near = ", ".join(difflib.get_close_matches(path.name, beside, 3))
        hint = f"Did you mean {near}?" * bool(near)
        raise InputError.plain(str(path), f"the file cannot be read ({cause})", hint) from error
    for encoding in encodings:
        try:
            return io.StringIO(content.decode(encoding), newline=None).read()
        except UnicodeDecodeError as error:
            unfit = error
    raise InputError.plain(path.name, f"it is not text in UTF-8 ({unfit})") from unfit


def numbers_of(ids: Sequence[str], file: str) -> dict[str, int]:
    """The number of each node by its id; errors name the file.
    """
    numbers = {id: number for number, id in enumerate(ids)}
    if "" in numbers:
        raise InputError.plain(file, f"row {numbers[''] + 1} has no id", "Give each node an id")
    if len(numbers) < len(ids):
        repeated = Counter(ids).most_common(1)[0][0]
        message = (f"the id {repeated!r} occurs several times; {len(ids) - len(numbers)} row(s) "
                   "repeat an id")
        raise InputError.plain(file, message, "Give each node its own id")
    return numbers


def links(path: Path, ends: Sequence[str], ids: Container[str]) -> Links:
    """The links in a file.

    Args:
        path: a table with two columns of ids, or lines that begin with two ids.
        ends: names of the two columns; else those of a usual pair of names, or the first two.
        ids: those of all nodes: a first line without any of them names columns.
    """
    if path.suffix in formats.TABLES or ends:
        return formats.pairs(table(path), ends, path.name)
    rows = lines(path)
    if all(len(row) == 1 for row in rows):
        rows = [row[0].split() for row in rows]  # a .csv with spaces between its cells
    wrong = next((row for row in rows if len(row) < 2), None)
    if wrong is not None:
        raise InputError.plain(path.name, f"it has the line {','.join(wrong)[:80]!r}",
                               "Write the ids of two nodes on each line")
    # A first line of which one cell is an id has a wrong one; it is no header.
    header, width = rows[0], max(map(len, rows))
    if any(id in ids for id in header[:2]):
        return Links(rows, [f"{width - 2} more"] * (width > 2))
    if formats.usual_ends(header) and len(set(header)) == len(header) and rows[1:]:
        return formats.pairs(table(path), (), path.name)
    return Links(rows[1:], header[2:])


def edges(links: Links, numbers: Mapping[str, int]) -> tuple[np.ndarray, Counter[str]]:
    """Node numbers ``[2, E]`` of links, and how often each id that is no node stands in others.

    Args:
        links: pairs of ids.
        numbers: the number of each node by its id.
    """
    found = [[numbers.get(source, -1), numbers.get(target, -1)]
             for source, target, *_ in links.pairs]
    edges = np.array(found, dtype=np.int64).reshape(-1, 2).T
    strange = (edges < 0).any(0)
    unknown = Counter(id for number in np.flatnonzero(strange).tolist()
                      for id in links.pairs[number][:2] if id not in numbers)
    return edges[:, ~strange], unknown


def graph(path: Path) -> tuple[Table, Links]:
    """The nodes and the links of one file that holds both."""
    if path.suffix in (".csv", ".tsv", ".gz"):
        return formats.of_neo4j(table(path), path.name)
    return formats.graph(path)


def _rows(content: str, separator: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(content), delimiter=separator, strict=True)


def _fit(content: str, separator: str) -> tuple[bool, int]:
    """Whether a separator gives the first lines equally many cells, two or more; how many."""
    try:
        counts = [len(row) for row in itertools.islice(_rows(content, separator), 20) if row]
    except csv.Error:
        return False, content.partition("\n")[0].count(separator) + 1
    return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0


def _unpacked(path: Path) -> bytes:
    with gzip.open(regular(path)) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"more than {MOST_BYTES:,} bytes once unpacked", str(path))
    return content

"""Text tables as frames of text, so that an id such as 007 or of 19 digits stays unchanged."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import itertools
import re
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Collection

import pandas

from graphgym_srnc.core.text import clean, counted
from graphgym_srnc.data import limits
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import regular

csv.field_size_limit(2**31 - 1)  # a text may be long; the whole file has a limit
SEPARATORS = (",", ";", "\t")
NAMELESS = re.compile(r"(Unnamed: \d+)?")
"""Names that pandas gives to the index, which it writes as the first column."""


def workbook(path: Path) -> tuple[Path, str]:
    """An Excel file and the sheet of it that a path such as ``book.xlsx#sheet`` names, if any."""
    file, mark, sheet = path.name.rpartition("#")
    return (path.with_name(file), sheet) if file.lower().endswith(".xlsx") else (path, "")


def kind(path: Path) -> str:
    """The suffix of a file in lower case, without ``.gz`` and the sheet of a workbook."""
    return Path(workbook(path)[0].name.removesuffix(".gz")).suffix.lower()


def table(path: Path) -> pandas.DataFrame:
    """Read a table whose first line names its columns."""
    return headed(cells(path), path.name)


def headed(rows: pandas.DataFrame, file: str, what: str = "rows") -> pandas.DataFrame:
    """The rows below the first one, whose cells become the names of the columns."""
    if len(rows) < 2:
        raise InputError.plain(file, f"it has a header and no {what}", "Write a line for each")
    names = [name or f"column {place + 1}" * (place > 0) for place, name in enumerate(rows.iloc[0])]
    if len(set(names)) < len(names):
        message = f"two columns have the same name: {', '.join(names)}"
        raise InputError.plain(file, message, "Give each column its own name")
    return rows.iloc[1:].set_axis(names, axis=1).reset_index(drop=True)


def links(path: Path, ids: Collection[str], notes: list[str]) -> pandas.DataFrame:
    """Read a list of links, whose first line is a header if it has none of the ``ids`` of nodes.

    Without a header the columns are 1, 2, ..., and a doubtful first line is added to ``notes``.
    """
    rows = cells(path, ragged=True)
    short = rows[(rows != "").sum(axis=1) < 2]
    if len(short):
        message = f"it has the line {','.join(filter(None, short.iloc[0]))[:80]!r}"
        raise InputError.plain(path.name, message, "Write the ids of two nodes on each line")
    first = rows.iloc[0].tolist()
    names = first[1:] if first[0] == "" else first  # without the name of pandas' index
    counts = names == [*map(str, range(len(names)))]
    is_link = (
        any(cell in ids for cell in first)
        or pandas.to_numeric(pandas.Series(first[:2]), errors="coerce").notna().all()
    )
    is_header = counts and len(first) > 2 or not is_link
    if counts:
        how = f"is read as a {'header' if is_header else 'link'}"
        line = f"{path.name}: the first line, {','.join(first)}, {how}"
        notes.append(f"{line}; write a header of words to change it")
    if is_header:
        return headed(rows, path.name, "link")
    return rows.set_axis([str(place + 1) for place in rows], axis=1)


def cells(path: Path, ragged: bool = False, blank: bool = False) -> pandas.DataFrame:
    """The stripped cells of each line, without a header, in columns 0, 1, ...

    The separator is the mark that splits the first lines into equally many cells, and the most.
    Files other than ``.csv`` and ``.tsv`` may have comments, lines that begin with # or % and a
    space, and may be separated by spaces. So may a list of links, whose lines may differ in length
    (``ragged``). A list of labels may have empty lines (``blank``).
    """
    content, is_csv = text(path), kind(path) in (".csv", ".tsv")
    content = re.sub(r"(?m)^ +$" + r"|^[#%]+([ \t].*)?(\n|\Z)" * (not is_csv), "", content)
    mark = "\t" if kind(path) == ".tsv" else max(SEPARATORS, key=lambda each: _fit(content, each))
    first, lines = content.lstrip("\n").partition("\n")[0], io.StringIO(content)
    is_spaced = (ragged or not is_csv) and not any(each in first for each in SEPARATORS)
    # pandas' fast reader does not distinguish a short line from one with empty cells.
    with reading(path, "a table", path.name, "Put cells with separators or line breaks in quotes"):
        split = csv.reader(lines, delimiter=mark, strict=True)
        rows = [[*map(str.strip, row)] for row in (map(str.split, lines) if is_spaced else split)]
    rows = [row or [""] for row in rows if blank or (any(row) if ragged else row)]
    if not rows:
        raise InputError.plain(path.name, "the file is empty", "Write a line for each row")
    width = max(map(len, rows))
    wrong = [number for number, row in enumerate(rows) if len(row) != len(rows[0])]
    if wrong and not (ragged or blank):
        row = f"row {wrong[0]} has {len(rows[wrong[0]])} cell(s), and the first line has"
        count = f"({counted(len(wrong), 'row')} of {len(rows) - 1} are wrong)"
        raise InputError.plain(path.name, f"{row} {len(rows[0])} {count}")
    return pandas.DataFrame([row + [""] * (width - len(row)) for row in rows], dtype=object)


def text(path: Path) -> str:
    """The content of a UTF-8 file, perhaps a ``.gz``, with line feeds at the end of its lines."""
    content = binary(path)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    with reading(path, "text in UTF-8", path.name, "Save it as UTF-8; in Excel, as CSV UTF-8"):
        decoded = io.StringIO(content.decode(encoding), newline=None).read()
        if "\0" in decoded:
            raise ValueError("it contains zero bytes")
    return decoded


def binary(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is a ``.gz``."""
    try:
        limits.check_file(path)
        content = regular(path).read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        cause = getattr(error, "strerror", None) or str(error)
        beside = [file.name for file in path.parent.glob("*")]
        near = ", ".join(difflib.get_close_matches(path.name, beside, 3))
        hint = f"Did you mean {near}?" * (isinstance(error, FileNotFoundError) and bool(near))
        raise InputError.plain(str(path), f"the file cannot be read ({cause})", hint) from error


def is_counter(cells: pandas.Series) -> bool:
    """Whether cells count the rows: 0, 1, 2, ... or 1, 2, 3, ..."""
    start = {"0": 0, "1": 1}.get(str(next(iter(cells), "")))
    return start is not None and all(str(cell) == str(row) for row, cell in enumerate(cells, start))


@cache
def tell(note: str) -> None:
    """Print a note on how a file was read to stderr, once."""
    print(f"note: {clean(note)}", file=sys.stderr, flush=True)


def _fit(content: str, separator: str) -> tuple[int, int]:
    """Whether a mark splits the first lines into equally many cells (2 = by tabs); how many."""
    lines = csv.reader(io.StringIO(content), delimiter=separator, strict=True)
    try:
        counts = [len(row) for row in itertools.islice(lines, 20) if row]
    except csv.Error:
        return 0, content.partition("\n")[0].count(separator) + 1
    fits = len(set(counts)) == 1 and counts[0] > 1
    return fits * (2 if separator == "\t" else 1), counts[0] if counts else 0

"""Tables in files as frames of text, so that an id such as 007 stays as it is written.

The first bytes of a file say what it is, not its name. ``notes`` are told what is not read.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import re
import zipfile
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pandas

from graphgym_srnc.core.environment import uncollected
from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.data import limits
from graphgym_srnc.errors import InputError, did_you_mean, reading
from graphgym_srnc.io import atomic

csv.field_size_limit(2**31 - 1)  # a text may be long
SEPARATORS = ("\t", ";", "|", ",")
TOP = 20  # number of the first lines that show the separator
NAMELESS = re.compile(r"(Unnamed: \d+.*)?|index|level_\d+")  # names that pandas gives to its index
COMMENT = re.compile(r"\s*(?:[#%]+|//)")
BRACES = re.compile(r"(?m)[ \t,;|]+\{[^\n]*\}[ \t]*$")  # attributes of a link, by networkx
INSTALL = "Readers of .parquet and .xlsx need: pip install 'graphgym-srnc[parquet,excel]'"
TABLES = "Save the table as .csv, .tsv, .txt, .xlsx or .parquet"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # first bytes
# How the content of files begins that are not text in columns.
BEGINS = {
    "parquet": rb"PAR1",
    "mtx": rb"%%MatrixMarket",
    "xml": rb"\s*<(\?xml|!--|graphml|gexf)",
    "json": rb"\s*(\{\s*[\"}]|\[\s*[\[{\]])",
    "gml": rb"\s*(([#]|Creator|Version|comment)[^\n]*\s+)*graph\s*\[",
    "net": rb"(?i)\s*(%[^\n]*\s+)*\*(vertices|network)",
}
GRAPHS = ("xml", "json", "gml", "net")  # those that hold nodes and links


def binary(path: Path) -> bytes:
    """The bytes of a file, which may be compressed by gzip."""
    try:
        content = atomic.content(path)
    except OSError as error:
        others = [one.name for one in path.parent.glob("*")]
        hint = "" if path.exists() else did_you_mean(path.name, others)
        text = f"the file cannot be read ({error.strerror})"
        raise InputError.plain(str(path), text, hint) from error
    if content[:2] != b"\x1f\x8b":
        return content
    with reading(path, "a readable .gz file", path.name):
        with gzip.open(io.BytesIO(content)) as packed:
            limits.check(path, sum(map(len, iter(partial(packed.read, 2**20), b""))))
        return gzip.decompress(content)


def kind(path: Path, content: bytes) -> str:
    """A key of ``BEGINS``, ``xlsx`` or ``text``, by the content of a file."""
    if content[:4] == b"PK\x03\x04" and zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            limits.check(path, sum(member.file_size for member in archive.infolist()))
            if "xl/workbook.xml" in archive.namelist():
                return "xlsx"
    begin = content[:10_000].removeprefix(b"\xef\xbb\xbf")
    if begin[:2] in UTF_16:
        begin = begin.decode("utf-16", "ignore").encode()
    return next((name for name, mark in BEGINS.items() if re.match(mark, begin)), "text")


def text(path: Path) -> str:
    """The content of a UTF-8 file, with line feeds at the end of its lines."""
    return _decoded(path, binary(path))


def _decoded(path: Path, content: bytes) -> str:
    encoding = "utf-16" if content[:2] in UTF_16 else "utf-8-sig"
    hint = f"Save it as UTF-8; in Excel, as CSV UTF-8. {TABLES}"
    with reading(path, "text in UTF-8", path.name, hint):
        decoded = content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        if "\0" in decoded:
            raise ValueError("it contains zero bytes")
    return decoded.replace("\ufeff", "")  # also between files that were joined


def table(path: Path, notes: list[str] | None = None) -> pandas.DataFrame:
    """A table whose first line is known to hold the names of its columns."""
    rows = sheet(path, [] if notes is None else notes, is_ours=True)
    return headed(rows, path.name) if is_bare(rows) else rows


@uncollected()
def sheet(
    path: Path, notes: list[str], links: bool = False, is_ours: bool = False
) -> pandas.DataFrame:
    """The stripped cells of a table, or of a list of ``links``, perhaps of a graph folder.

    Of a file that says nothing of names, the columns are 0, 1, ..., and the cells that a line lacks
    are None. The index, called line or row, says where a row is in the file.
    """
    content = binary(path)
    what = kind(path, content)
    if what in GRAPHS:
        raise InputError.plain(
            path.name,
            f"a .{what} file of a graph is not a table",
            f"{TABLES}. Give a file that holds both nodes and links without a second file",
        )
    with reading(path, f"a readable .{what} file", path.name, INSTALL):
        if what == "parquet":
            return _parquet(content)
        if what == "mtx":
            return _matrix_market(path, content)
        if what == "xlsx":
            (name, rows), *others = workbook(content, notes, path.name).items()
            if others:
                unread = listed([other for other, _ in others])
                notes.append(f"{path.name}: not read: the sheets {unread}")
            if rows.empty:
                raise InputError.plain(
                    path.name,
                    f"its sheet {name!r} is empty",
                    "Only the first sheet is read; move your table there",
                )
            return rows
    return _cells(_decoded(path, content), path, notes, links, is_ours)


def is_bare(rows: pandas.DataFrame) -> bool:
    """Whether the columns of a sheet have no names."""
    return isinstance(rows.columns, pandas.RangeIndex)


def headed(rows: pandas.DataFrame, file: str) -> pandas.DataFrame:
    """The rows below the first one, whose cells become the names of the columns."""
    check_lengths(rows, file)
    if len(rows) < 2:
        raise InputError.plain(file, "it has a header and no rows", "Add rows below the header")
    names = [*rows.iloc[0]]
    names = [name or (f"column {place + 1}" if place else "") for place, name in enumerate(names)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError.plain(
            file,
            f"two columns have the same name in its first line: {listed(twice, 3)}",
            "Give each column its own name",
        )
    return rows.iloc[1:].set_axis(names, axis=1)


def check_lengths(rows: pandas.DataFrame, file: str) -> None:
    """Refuse lines that have more or fewer cells than the first one."""
    if not rows.isna().any(axis=None):
        return
    lengths = rows.notna().sum(axis=1)
    wrong = lengths[lengths != lengths.iloc[0]]
    if len(wrong):
        cells = counted(int(wrong.iloc[0]), "cell")
        raise InputError.plain(
            file,
            f"line {wrong.index[0]:,} has {cells}, and the first line has {lengths.iloc[0]}"
            f"; {counted(len(wrong), 'line')} differ",
            "Put cells with separators or line breaks in quotes, and close each quote",
        )


def _cells(
    content: str, path: Path, notes: list[str], links: bool, is_ours: bool
) -> pandas.DataFrame:
    """The cells of lines of text.

    The separator is the mark that splits the first lines into equally many cells, and the most;
    files other than ``.csv`` and ``.tsv``, and lists of links, may be separated by spaces.
    """
    file = path.name
    is_csv = bool({".csv", ".tsv"} & {suffix.lower() for suffix in path.suffixes})
    if links and "{" in content and BRACES.search(content):
        content = BRACES.sub("", content)
        notes.append(f"{file}: not read: the attributes in braces")
    lines = ["" if line.isspace() else line for line in content.split("\n")]
    hint = re.match(r'"?sep=(.)"?[,;\t ]*$', lines[0], re.IGNORECASE)
    if hint:  # by which Excel finds the separator
        lines[0] = ""
        mark = hint[1]
    elif path.name.lower().endswith((".tsv", ".tsv.gz")):
        mark = "\t"
    else:
        top = _top(lines)
        mark = max(SEPARATORS, key=partial(_fit, top))
        if mark not in top and (links or not is_csv):
            mark = " "
            lines = [" ".join(line.split()) if '"' not in line else line.strip() for line in lines]
    _drop_comments(lines, mark, is_csv, notes, file)
    found = None if '"' in content else _even(lines, mark)
    if found is None:
        found = _uneven(lines, mark, notes, path, links, is_ours)
    found.index.name = "line"
    found.attrs["separator"] = mark
    return found


def _even(lines: list[str], mark: str) -> pandas.DataFrame | None:
    """The cells of lines without quotes by columns, far faster than row by row.

    It is None if lines that are not empty have different numbers of cells, or only empty ones.
    """
    numbers = [number for number, line in enumerate(lines, 1) if line]
    if len({line.count(mark) for line in lines if line}) != 1:
        return None
    cells = [*map(str.strip, mark.join(filter(None, lines)).split(mark))]
    width = len(cells) // len(numbers)
    first = cells[::width]
    if any(not any(cells[row * width : (row + 1) * width]) for row in _empty(first)):
        return None
    columns = {place: cells[place::width] for place in range(width)}
    return pandas.DataFrame(columns, numbers, dtype=object).set_axis(range(width), axis=1)


def _empty(cells: Sequence[str]) -> list[int]:
    return [place for place, cell in enumerate(cells) if not cell]


def _uneven(
    lines: list[str], mark: str, notes: list[str], path: Path, links: bool, is_ours: bool
) -> pandas.DataFrame:
    """The cells of lines with quotes, or of different lengths."""
    file = path.name
    quotes = "Put cells with separators or line breaks in quotes, and close each quote"
    with reading(path, "a table", file, quotes):
        rows = _split(lines, mark, notes, file, links, is_ours)
    if not rows:
        raise InputError.plain(file, "the file is empty", "Write a line for each row")
    return pandas.DataFrame([*rows.values()], [*rows], dtype=object)


def _fit(content: str, separator: str) -> tuple[int, int]:
    """Into how many cells a mark splits each of some lines (0 = they differ), and how often."""
    try:
        widths = {len(row) for row in csv.reader(content.split("\n"), delimiter=separator)}
    except csv.Error:
        widths = set()
    width = max(widths) if len(widths) == 1 else 0
    return width if width > 1 else 0, content.count(separator)


def _is_plain(line: str) -> bool:
    """Whether a line is neither empty nor looks like a comment."""
    return bool(line) and not COMMENT.match(line)


def _top(lines: list[str]) -> str:
    """The first lines that do not look like comments, or else the first lines."""
    return "\n".join([*islice(filter(_is_plain, lines), TOP)] or lines[:TOP])


def _drop_comments(lines: list[str], mark: str, is_csv: bool, notes: list[str], file: str) -> None:
    """Empty the lines that are comments.

    An id may begin with the mark of a comment: a line of as many cells as the others, without a
    space after the mark. In a ``.csv``, comments stand above the rows alone. Above rows of
    different lengths, such as lists of neighbours, every such line is a comment.
    """
    width = _fit(_top(lines), mark)[0]
    is_ragged = not width and any(mark in line for line in lines if _is_plain(line))
    first = next((number for number, line in enumerate(lines) if _is_plain(line)), 0)
    dropped = 0
    for number, line in enumerate(lines):
        if not COMMENT.match(line):
            if line and is_csv:
                break
            continue
        is_row = re.match(COMMENT.pattern + r"[^\s#%/]", line) and _fit(line, mark)[0] == width
        if not is_row or is_ragged and number < first:
            lines[number] = ""
            dropped += 1
    if dropped:
        notes.append(f"{file}: {counted(dropped, 'line')} of comments left out")


def _split(
    lines: list[str], mark: str, notes: list[str], file: str, links: bool, is_ours: bool
) -> dict[int, list[str]]:
    """Cells of all lines but empty ones, by their number.

    Quotes are plain marks if they do not close in their line and all lines have equally many cells
    without them, which is usual between tabs, and in links, whose cells are never of two lines.

    Raises:
        InputError: the lines between two quotes may be rows or one cell.
    """
    quoted = None
    with contextlib.suppress(csv.Error):
        quoted = _rows(lines, mark, strict=True)
        if is_ours or not any("\n" in "".join(row) for row in quoted.values()):
            return quoted
    plain = _rows(lines, mark, quoting=csv.QUOTE_NONE)
    is_usual = mark in "\t " or (links and quoted is not None)
    if len({*map(len, plain.values())}) > 1 or (quoted is None and not is_usual):
        return _rows(lines, mark, strict=True)  # which may say what is wrong
    line = next(number for number, row in plain.items() if ",".join(row).count('"') % 2)
    if not is_usual:
        raise InputError.plain(
            file,
            f"line {line:,}: a cell in quotes goes on over lines that may be rows",
            "Close this quote in its line, or remove it",
        )
    notes.append(f"{file}: line {line:,}: quotes do not close in their line; read as they are")
    return plain


def _rows(lines: list[str], mark: str, **options: Any) -> dict[int, list[str]]:
    text = (f"{line}\n" for line in lines)
    reader = csv.reader(text, delimiter=mark, skipinitialspace=mark == " ", **options)
    found = {}
    for row in reader:
        cells = [*map(str.strip, row)]
        if any(cells):
            found[reader.line_num] = cells
    return found


def workbook(content: bytes, notes: list[str], file: str) -> dict[str, pandas.DataFrame]:
    """The cells of all sheets by name; a cell that is merged with those below holds for all."""
    import openpyxl

    found = {}
    merged = 0
    for page in openpyxl.load_workbook(io.BytesIO(content), data_only=True).worksheets:
        rows = [[*map(cell, row)] for row in page.iter_rows(values_only=True)]
        for area in page.merged_cells.ranges:
            merged += area.max_row > area.min_row
            for row in rows[area.min_row - 1 : area.max_row]:
                row[area.min_col - 1] = rows[area.min_row - 1][area.min_col - 1]
        index = pandas.RangeIndex(1, len(rows) + 1, name="row")
        sheet = pandas.DataFrame(rows, index=index, dtype=object)
        kept = sheet.loc[(sheet != "").any(axis=1), (sheet != "").any()]
        found[page.title] = kept.set_axis(range(kept.shape[1]), axis=1)
    if merged:
        notes.append(f"{file}: {counted(merged, 'merged cell')} counted for all their rows")
    return found


def _parquet(content: bytes) -> pandas.DataFrame:
    # Nullable types keep whole numbers whole where some are missing.
    frame = pandas.read_parquet(io.BytesIO(content), dtype_backend="numpy_nullable")
    if frame.index.name is not None or not frame.index.equals(pandas.RangeIndex(len(frame))):
        frame = frame.reset_index(names=[name or "" for name in frame.index.names])
    frame = frame.rename(columns=str)
    for name in (name for name in frame if not is_list(frame[name])):
        frame[name] = frame[name].astype("string").fillna("").astype(object).map(str.strip)
    return frame


def is_list(cells: pandas.Series) -> bool:
    """Whether the cells of a column are lists or arrays."""
    return cells.dtype == object and all(np.ndim(cell) > 0 for cell in cells)


def _matrix_market(path: Path, content: bytes) -> pandas.DataFrame:
    """The entries of a matrix, a row each; rows and columns count from 1."""
    import scipy.io
    import scipy.sparse

    rows, columns, count, *_ = scipy.io.mminfo(io.BytesIO(content))
    limits.check(path, 24 * count)
    if rows != columns:
        raise InputError.plain(
            path.name, f"its matrix is {rows:,} x {columns:,}", "Give a matrix of nodes by nodes"
        )
    frame = entries(scipy.io.mmread(io.BytesIO(content)), range(1, rows + 1))
    frame.attrs["rows"] = "rows from 1"
    return frame


def entries(matrix: Any, names: Sequence[Any]) -> pandas.DataFrame:
    """Row, column and, unless all are 1, weight of the entries of a matrix other than 0.

    Of a symmetric matrix each pair is there once.
    """
    import scipy.sparse

    found = scipy.sparse.coo_array(matrix)
    if not abs(found - found.T).nnz:
        found = scipy.sparse.triu(found)
    found.eliminate_zeros()
    named = np.array([*map(str, names)], dtype=object)
    frame = pandas.DataFrame({"row": named[found.row], "column": named[found.col]}, dtype=object)
    if (found.data != 1).any():
        frame["weight"] = found.data
    return frame


def is_counter(cells: pandas.Series) -> bool:
    """Whether cells count the rows: 0, 1, 2, ... or 1, 2, 3, ..."""
    first = str(cells.iloc[0]) if len(cells) else ""
    if first not in ("0", "1"):
        return False
    numbers = range(int(first), int(first) + len(cells))
    return [*map(str, cells)] == [*map(str, numbers)]


def cell(value: Any) -> str:
    """A value of a spreadsheet or of JSON as it is written in a table."""
    if value is None or value != value:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(cell, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value) if isinstance(value, (bool, dict)) else str(value).strip()

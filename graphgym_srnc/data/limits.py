"""Limit on the memory that the content of one file takes, whatever its format."""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import re
import struct
import zipfile
import zlib
from pathlib import Path

import psutil

from graphgym_srnc.errors import InputError
from graphgym_srnc.io.atomic import regular

OPTION = "GRAPHGYM_SRNC_MAX_GIB"
"""Environment variable: memory that the content of any file may take, in GiB (default: 1)."""

RATIO = 100
"""A file may also take this many times its own size."""

NESTED = (".json", ".jsonl", ".graphml", ".gexf", ".gml", ".net", ".paj")
"""Formats whose readers call :func:`check_table`, since only they know the columns."""

CELL, EMPTY = 64, 8
"""Bytes of a cell of text, and of a reference to an empty or one-letter cell, which is shared."""


def check(file: Path | str, needed: int, size: int) -> None:
    """Refuse content that takes more memory than a file of its size may take.

    Args:
        file: the file, which the error names.
        needed: bytes that the content takes once it is read.
        size: bytes of the file, or of a member of an archive.
    """
    gib, memory = os.environ.get(OPTION, "1"), psutil.virtual_memory().total
    if not re.fullmatch(r"\d{1,9}(\.\d{0,9})?", gib):
        raise InputError.plain(OPTION, f"{gib!r} is not a number of GiB, such as 4 or 0.5")
    most = max(float(gib) * 2**30, RATIO * size)
    if needed > min(most, memory):
        need, may, has = (f"{count / 2**30:,.2f} GiB" for count in (needed, most, memory))
        message = f"it needs at least {need} of memory; its {size:,} bytes may take {may}, and this"
        hint = f"If you trust the file and have the memory, set the environment variable {OPTION}"
        raise InputError.plain(
            file.name if isinstance(file, Path) else file,
            f"{message} machine has {has}",
            f"{hint} to {math.ceil(needed / 2**30)} or more",
        )


def check_table(file: Path, rows: int, columns: int) -> None:
    """Refuse a table before its empty cells are filled in, see :func:`check`."""
    check(file, CELL * rows * columns, file.stat().st_size)


def check_file(path: Path, sheet: str = "") -> None:
    """Refuse a file of a table before it is read; all but known formats are text.

    A file that does not exist or is damaged passes: its reader tells what is wrong.
    """
    checks = {".parquet": check_parquet, ".mat": check_matlab}
    try:
        if path.suffix.lower() == ".xlsx":
            check_excel(path, sheet)
        elif path.suffix.lower() not in NESTED:
            checks.get(path.suffix.lower(), check_text)(path)
    except InputError:
        raise
    except Exception:  # each of these formats has errors of its own
        return


def check_text(path: Path) -> None:
    """Check a table of text, perhaps a ``.gz``: short rows are filled up to the first lines."""
    size, width, total, rows, cells = path.stat().st_size, 1, 0, 0, 0
    marks: tuple[bytes, ...] = (b",", b";", b"\t")
    with (gzip.open if path.suffix == ".gz" else open)(regular(path), "rb") as opened:
        while block := opened.read(2**24):
            if not total:
                first = block.split(b"\n", 100)[:100]
                marks = marks if any(mark in first[0] for mark in marks) else (b" ",)
                width = 1 + max(line.count(mark) for line in first for mark in marks)
            total += len(block)
            rows += 1 + block.count(b"\n")
            cells += sum(map(block.count, marks))
            texts = max(0, min(cells + rows, total - 2 * (cells + rows)))
            check(path, total + EMPTY * rows * width + (CELL - EMPTY) * texts, size)


def check_excel(path: Path, name: str = "") -> None:
    """Check the XML of all sheets, and the rectangle of one up to its farthest value.

    Args:
        path: the workbook.
        name: the sheet that is read; by default the first.
    """
    from openpyxl import load_workbook

    with zipfile.ZipFile(regular(path)) as archive:
        check(path, sum(member.file_size for member in archive.infolist()), path.stat().st_size)
    rows = columns = 0
    with contextlib.closing(load_workbook(path, read_only=True)) as book:
        sheet = book[name] if name else book.worksheets[0]
        sheet.reset_dimensions()  # those in the file may be wrong
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            if filled := [place for place, cell in enumerate(row, 1) if cell is not None]:
                rows, columns = number, max(columns, filled[-1])
            if number % 2**16 == 0:  # a cell may be in any row, and the reader counts up to it
                check_table(path, number, 1)
    check_table(path, rows, columns)


def check_parquet(path: Path) -> None:
    """Check all values, and texts that a dictionary holds once for many rows."""
    from pyarrow import compute, parquet

    size, needed, file = path.stat().st_size, 0, parquet.ParquetFile(regular(path))
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    for group in map(file.metadata.row_group, range(file.num_row_groups)):
        for number, leaf in enumerate(leaves):
            chunk = group.column(number)
            cells = chunk.num_values * max(CELL, leaf.length or 0)
            needed += max(chunk.total_uncompressed_size, cells)
    check(path, needed, size)
    file = parquet.ParquetFile(path, read_dictionary=[leaf.path for leaf in leaves])
    for batch in file.iter_batches(4096):
        for column in batch.columns:
            while hasattr(column, "values"):  # of lists
                column = column.flatten()
            if hasattr(column, "dictionary"):
                lengths = compute.binary_length(column.dictionary).take(column.indices)
                needed += compute.sum(lengths).as_py() or 0
        check(path, needed, size)


def check_matlab(path: Path) -> None:
    """Check the compressed variables, and the numbers in full matrices, which become doubles."""
    import scipy.io

    size, total = path.stat().st_size, 0
    full = [shape for _, shape, kind in scipy.io.whosmat(path) if kind != "sparse"]
    check(path, 8 * sum(map(math.prod, full)), size)
    with open(regular(path), "rb") as opened:
        order = ">" if opened.read(128)[126:] == b"MI" else "<"
        while len(tag := opened.read(8)) == 8:
            kind, length = struct.unpack(f"{order}II", tag)
            end, unpack = opened.tell() + length, zlib.decompressobj()
            while kind == 15 and (block := opened.read(min(end - opened.tell(), 2**14))):
                total += len(unpack.decompress(block))
                check(path, total, size)
            opened.seek(end)

"""Limit on the memory that the content of one file takes, whatever its format."""

from __future__ import annotations

import gzip
import math
import os
import re
from pathlib import Path

from graphgym_srnc.errors import InputError
from graphgym_srnc.io.atomic import regular

OPTION = "GRAPHGYM_SRNC_MAX_GIB"
"""Environment variable: memory that the content of any file may take, in GiB (default: 1)."""

RATIO = 100
"""A file may also take this many times its own size."""

CELL, EMPTY = 64, 8
"""Bytes of a cell of text, and of a reference to an empty or one-letter cell, which is shared."""


def check(file: Path | str, needed: int, size: int) -> None:
    """Refuse content that takes more memory than a file of its size may take.

    Args:
        file: the file, which the error names.
        needed: bytes that the content takes once it is read.
        size: bytes of the file, or of a member of an archive.
    """
    gib, memory = os.environ.get(OPTION, "1"), _memory()
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


def _memory() -> float:
    """Bytes of memory of this machine; Windows does not tell."""
    if os.name != "posix":
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_table(file: Path, rows: int, columns: int) -> None:
    """Refuse a table before its empty cells are filled in, see :func:`check`."""
    check(file, CELL * rows * columns, file.stat().st_size)


def check_text(path: Path) -> None:
    """Check a text, perhaps a ``.gz``, as a table: short rows are filled up to the first lines."""
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

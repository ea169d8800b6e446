"""The content of a file must fit into the memory of the machine."""

from __future__ import annotations

import math
import os
from pathlib import Path

from graphgym_srnc.errors import InputError

COLUMNS = 10_000  # of a table, each of which is read for ids, labels, numbers and words


def check(file: Path, needed: int) -> None:
    """Refuse a file whose content takes more bytes than the machine has memory."""
    memory = _memory()
    if needed > memory:
        need, has = (f"{count / 2**30:,.1f} GiB" for count in (needed, memory))
        raise InputError.plain(
            file.name, f"its content needs {need} of memory, and this machine has {has}"
        )


def check_columns(number: int, key: str) -> None:
    """Refuse a table with so many columns that the choice among them takes minutes."""
    if number > COLUMNS:
        raise InputError.plain(
            key,
            f"the table has {number:,} columns, and at most {COLUMNS:,} are read",
            "Give the features as an array (`embeddings`)",
        )


def _memory() -> float:
    """Bytes of memory of this machine; Windows does not tell."""
    if os.name != "posix":
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

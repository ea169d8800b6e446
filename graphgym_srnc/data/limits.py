"""The content of a file must fit into the memory of the machine."""

from __future__ import annotations

from pathlib import Path

import psutil

from graphgym_srnc.errors import InputError


def check(file: Path, needed: int) -> None:
    """Refuse a file whose content takes more bytes than the machine has memory."""
    memory = psutil.virtual_memory().total
    if needed > memory:
        need, has = (f"{count / 2**30:,.1f} GiB" for count in (needed, memory))
        message = f"its content needs {need} of memory, and this machine has {has}"
        raise InputError.plain(file.name, message)

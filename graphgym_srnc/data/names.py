"""What a graph folder may hold beside numbers: ids and texts of nodes, names of features."""
from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from graphgym_srnc.data import read
from graphgym_srnc.errors import InputError

NODES, WORDS = "nodes.csv", "words.txt"


class Names(NamedTuple):
    """Names in the order of nodes and feature columns; None = not told."""

    ids: list[str] | None
    texts: list[str] | None
    words: list[str] | None


def of_folder(path: Path, num_nodes: int | None = None, num_features: int | None = None) -> Names:
    """Names in ``nodes.csv`` and ``words.txt`` of a graph's folder; no file means no names.

    Args:
        path: the folder; a file has no names.
        num_nodes: how many lines below its first ``nodes.csv`` must have, with columns ``id``,
            ``text`` or both.
        num_features: how many lines ``words.txt`` must have.

    Raises:
        InputError: a file cannot be read, has other columns, or another number of lines.
    """
    ids = texts = words = None
    if (path / NODES).is_file():
        table = read.table(path / NODES)
        table = table.set_axis(table.columns.str.lower(), axis=1)
        if not {"id", "text"} & {*table}:
            raise InputError.plain(NODES, f"its first line is {','.join(table)[:80]!r}",
                                   "Name the columns id, text or both there")
        ids, texts = (table[name].tolist() if name in table else None for name in ("id", "text"))
        _check(NODES, len(table), num_nodes, "node")
        repeated = table["id"][table["id"].duplicated()] if ids is not None else ()
        if len(repeated):
            raise InputError.plain(NODES, f"the id {repeated.iloc[0]} occurs twice",
                                   "Give each node its own id")
    if (path / WORDS).is_file():
        words = read.text(path / WORDS).removesuffix("\n").split("\n")
        words = [word.strip() for word in words]
        _check(WORDS, len(words), num_features, "feature column")
    return Names(ids, texts, words)


def _check(file: str, lines: int, wanted: int | None, what: str) -> None:
    if wanted not in (None, lines):
        raise InputError.plain(file, f"it has {lines} lines for {wanted} {what}s",
                               f"Write one line for each {what}")

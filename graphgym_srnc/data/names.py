"""What a graph folder may hold beside numbers: ids and texts of nodes, names of features."""
from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

from graphgym_srnc.atomic import regular
from graphgym_srnc.errors import InputError

NODES, WORDS = "nodes.csv", "words.txt"


class Names(NamedTuple):
    """Names in the order of nodes and feature columns, as they were written; None = not told."""

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
        ids, texts = _nodes(path / NODES, num_nodes)
    if (path / WORDS).is_file():
        # Not splitlines, which also splits at characters that a word may hold.
        lines = _text(path / WORDS).removesuffix("\n").split("\n")
        words = [line.strip() for line in lines]
        if num_features not in (None, len(words)):
            message = f"it has {len(words)} lines for {num_features} feature columns"
            raise InputError.plain(WORDS, message, "Write one line for each feature column")
    return Names(ids, texts, words)


def _nodes(file: Path, num_nodes: int | None) -> tuple[list[str] | None, list[str] | None]:
    """The columns ``id`` and ``text``; None for one that is not there."""
    try:
        header, *rows = list(csv.reader(io.StringIO(_text(file)), strict=True)) or [[]]
    except csv.Error as error:
        raise InputError.plain(NODES, f"its lines are not comma-separated ({error})") from error
    columns = [name.strip().lower() for name in header]
    rows = [row for row in rows if row]
    if not {"id", "text"} & set(columns) or len(set(columns)) < len(columns):
        raise InputError.plain(NODES, f"its first line is {','.join(header)[:80]!r}",
                               "Name the columns id, text or both there")
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            message = (f"the line of node {number} has {len(row)} cells, and the first line has "
                       f"{len(columns)}")
            raise InputError.plain(NODES, message)
    if num_nodes not in (None, len(rows)):
        message = f"it has {len(rows)} nodes, and the graph has {num_nodes}"
        raise InputError.plain(NODES, message, "Write one line for each node of the graph")

    ids, texts = ([row[columns.index(name)] for row in rows] if name in columns else None
                  for name in ("id", "text"))
    seen: set[str] = set()
    for name in ids or ():
        if name in seen:
            raise InputError.plain(NODES, f"the id {name} occurs twice",
                                   "Give each node its own id")
        seen.add(name)
    return ids, texts


def _text(file: Path) -> str:
    try:
        return regular(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.plain(file.name, f"it is not a readable UTF-8 file ({error})") from error

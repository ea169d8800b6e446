"""Names that a graph folder may hold beside its numbers: ids and texts of nodes, and what its feature columns are called."""
from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

from graphgym_srnc.errors import InputError

NODES, WORDS = "nodes.csv", "words.txt"


class Names(NamedTuple):
    """Names in the order of nodes and feature columns; None where the folder does not tell. Texts are plain, to be escaped where shown."""

    ids: list[str] | None
    texts: list[str] | None
    words: list[str] | None


def of_folder(path: Path, num_nodes: int | None = None, num_features: int | None = None) -> Names:
    """Names in the folder of a graph: ``nodes.csv`` (columns ``id`` and ``text``, one at least, a line a node) and ``words.txt`` (a line a
    feature column). No such file, or no folder, means no names.

    Args:
        path: the folder; a file has no names.
        num_nodes: how many nodes ``nodes.csv`` must have.
        num_features: how many lines ``words.txt`` must have.

    Raises:
        InputError: a file cannot be read, has other columns, or another number of lines than the graph has nodes or features.
    """
    ids = texts = words = None
    if (path / NODES).is_file():
        ids, texts = _nodes(path / NODES, num_nodes)
    if (path / WORDS).is_file():
        # Not splitlines, which also splits at characters that a word may hold.
        words = [line.strip() for line in _text(path / WORDS).removesuffix("\n").split("\n")]
        if num_features not in (None, len(words)):
            raise InputError(WORDS, f"{len(words)} lines", f"one for each of the {num_features} feature columns")
    return Names(ids, texts, words)


def _nodes(file: Path, num_nodes: int | None) -> tuple[list[str] | None, list[str] | None]:
    try:
        header, *rows = list(csv.reader(io.StringIO(_text(file)), strict=True)) or [[]]
    except csv.Error as error:
        raise InputError(NODES, str(error), "comma-separated lines") from error
    columns = [name.strip().lower() for name in header]
    rows = [row for row in rows if row]
    if not {"id", "text"} & set(columns) or len(set(columns)) < len(columns):
        raise InputError(NODES, ",".join(header)[:80], "a first line with id, text or both")
    wrong = next((number for number, row in enumerate(rows) if len(row) != len(columns)), None)
    if wrong is not None:
        raise InputError(NODES, f"{len(rows[wrong])} cell(s) for node {wrong}", f"{len(columns)}, as many as the first line has")
    if num_nodes not in (None, len(rows)):
        raise InputError(NODES, f"{len(rows)} nodes", f"one line for each of the {num_nodes} nodes of the graph")
    ids, texts = ([row[columns.index(name)] for row in rows] if name in columns else None for name in ("id", "text"))
    if ids is not None and len(set(ids)) < len(ids):
        seen: set[str] = set()
        raise InputError(NODES, f"id {next(i for i in ids if i in seen or seen.add(i))} twice", "another id for each node")
    return ids, texts


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(file.name, "", f"a readable UTF-8 file ({error})") from error

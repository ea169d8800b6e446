"""What a graph folder may hold beside numbers: ids and texts of nodes, names of features."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import read


class Names(NamedTuple):
    """Names in the order of nodes and feature columns; None = there are none."""

    ids: list[str] | None
    texts: list[str] | None
    words: list[str] | None


def of_folder(path: Path, num_nodes: int | None = None, num_features: int | None = None) -> Names:
    """Names in ``nodes.csv`` and ``words.txt``, whose numbers are checked; each may be absent."""
    ids = texts = words = None
    if (path / "nodes.csv").is_file():
        columns = {name.lower(): [*cells] for name, cells in read.table(path / "nodes.csv").items()}
        ids, texts = columns.get("id"), columns.get("text")
        if not ids and not texts:
            raise InputError.plain(
                "nodes.csv",
                f"its first line is {','.join(columns)[:80]!r}",
                "Name the columns id, text or both there",
            )
        ((repeated, count),) = Counter(ids or [""]).most_common(1)
        if count > 1:
            raise InputError.plain(
                "nodes.csv", f"the id {repeated} occurs {count} times", "Give each node its own id"
            )
    if (path / "words.txt").is_file():
        words = [*map(str.strip, read.text(path / "words.txt").removesuffix("\n").split("\n"))]
    for file, lines, wanted, what in (
        ("nodes.csv", ids or texts, num_nodes, "node"),
        ("words.txt", words, num_features, "feature column"),
    ):
        if lines and wanted not in (None, len(lines)):
            raise InputError.plain(
                file,
                f"it has {len(lines)} lines for {wanted} {what}s",
                f"Write one line for each {what}",
            )
    return Names(ids, texts, words)

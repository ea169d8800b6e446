"""What a graph may hold beside numbers: ids and texts of nodes, names of features."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from graphgym_srnc.core.text import short
from graphgym_srnc.data import read
from graphgym_srnc.errors import InputError


class Names(NamedTuple):
    """Names in the order of nodes and feature columns; None = there are none."""

    ids: list[str] | None = None
    texts: list[str] | None = None
    words: list[str] | None = None


def of_folder(path: Path, num_nodes: int | None = None, num_features: int | None = None) -> Names:
    """Names in ``nodes.csv`` and ``words.txt``, whose numbers are checked; each may be absent."""
    ids = texts = words = None
    if (path / "nodes.csv").is_file():
        columns = {name.lower(): [*cells] for name, cells in read.table(path / "nodes.csv").items()}
        ids, texts = columns.get("id"), columns.get("text")
        if not ids and not texts:
            message = f"its first line is {','.join(columns)[:80]!r}"
            raise InputError.plain("nodes.csv", message, "Name the columns id, text or both there")
        ((repeated, count),) = Counter(ids or [""]).most_common(1)
        if count > 1:
            message = f"the id {repeated} occurs {count} times"
            raise InputError.plain("nodes.csv", message, "Give each node its own id")
    if (path / "words.txt").is_file():
        words = [*map(str.strip, read.text(path / "words.txt").removesuffix("\n").split("\n"))]
    for file, lines, wanted, what in (
        ("nodes.csv", ids or texts, num_nodes, "node"),
        ("words.txt", words, num_features, "feature column"),
    ):
        if lines and wanted not in (None, len(lines)):
            message = f"it has {len(lines)} lines for {wanted} {what}s"
            raise InputError.plain(file, message, f"Write one line for each {what}")
    return Names(ids, texts, words)


def check_features(trained: Any, given: Any, key: str = "graph: x") -> None:
    """Refuse features with other names or another order than in training, if both are lists."""
    if not isinstance(trained, list) or not isinstance(given, list) or len(trained) != len(given):
        return
    old, new = [*map(str, trained)], [*map(str, given)]
    if wrong := [place for place, (a, b) in enumerate(zip(old, new)) if a != b]:
        found = f"{len(wrong)} of {len(new)} features have other names than in training"
        if sorted(old) == sorted(new):
            found = "the features are those of training in another order"
        is_now, was = (short(names[wrong[0]], 40) for names in (new, old))
        hint = "Make the same features with data make --like, or with from_frames(like=...)"
        message = f"{found}: feature {wrong[0]} is {is_now!r}, not {was!r}"
        raise InputError.plain(key, message, hint)

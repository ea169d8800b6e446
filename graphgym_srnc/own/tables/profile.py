"""What is in a user's files, as one HTML page that needs nothing beside it."""
from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from graphgym_srnc import atomic
from graphgym_srnc.data import features
from graphgym_srnc.data.frames import Look
from graphgym_srnc.errors import InputError
from graphgym_srnc.report.html import fill
from graphgym_srnc.text import plain, short

MOST = 40
"""Lines of a table of the page."""


def write(path: Path, found: Look) -> None:
    """Write the page, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        atomic.write_text(path, render(found))
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror})"
        raise InputError.plain("--report", message) from error


def render(found: Look) -> str:
    """The page."""
    sizes = Counter(filter(None, found.labels or ()))
    return fill(
        Path(__file__).with_name("profile.html"), title=f"What is in {' and '.join(found.files)}",
        problems=[plain(error) for error in found.problems.errors],
        notes=[plain(note) for note in found.notes], columns=_columns(found),
        nodes=len(found.table), labelled=sizes.total(),
        classes=[(plain(name), size) for name, size in sizes.most_common(MOST)],
        num_classes=len(sizes), links=links(found),
        unknown=[(plain(name), size) for name, size in found.unknown.most_common(MOST)],
        num_unknown=len(found.unknown))


def links(found: Look) -> dict[str, Any]:
    """Figures of the links, each pair counted once and none with itself.

    Their number ``count``, nodes without any ``alone``, the ``mean`` and ``most`` of degrees, how
    many nodes have 0, 1, 2 to 3, ... links (``degrees``), links between ``labelled`` nodes, and the
    share of these that join equal labels (``homophily``, None without any).
    """
    pairs = np.sort(found.edges, 0)
    pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
    degrees = np.bincount(pairs.ravel(), minlength=len(found.table))
    ends = np.array(found.labels or [""] * len(degrees), dtype=object)[pairs]
    both = (ends != "").all(0)
    sizes = np.bincount(np.frexp(degrees)[1])
    names = ["0", "1", *(f"{2 ** k} to {2 ** (k + 1) - 1}" for k in range(1, len(sizes)))]
    return {"count": pairs.shape[1], "alone": int((degrees == 0).sum()),
            "mean": float(degrees.sum() / max(len(degrees), 1)), "most": degrees.max(initial=0),
            "degrees": list(zip(names, sizes.tolist())), "labelled": int(both.sum()),
            "homophily": float((ends[0] == ends[1])[both].mean()) if both.any() else None}


def _columns(found: Look) -> list[dict[str, Any]]:
    """Each column of the node table: its use, share of empty cells, values, the most frequent."""
    result = []
    for name in found.table:
        cells = features.texts(found.table[name])
        counts = Counter(filter(None, features.present(cells)))
        examples = ", ".join(short(value, 30) for value, _ in counts.most_common(4))
        result.append({"name": plain(name), "role": found.roles.get(name, "not used"),
                       "blank": 1 - counts.total() / max(len(cells), 1), "distinct": len(counts),
                       "examples": examples})
    return result

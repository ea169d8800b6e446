"""What is in a user's files, as one HTML page that needs nothing beside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from graphgym_srnc.core.text import plain, short
from graphgym_srnc.data import features
from graphgym_srnc.data.frames import Look
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic
from graphgym_srnc.report.html import fill

MOST = 40
"""Maximum number of lines of a table on the page."""


def write(path: Path, found: Look) -> None:
    """Write the page, whole or not at all."""
    sizes = Counter(filter(None, found.labels or ()))
    page = fill(
        Path(__file__).with_name("profile.html"),
        title=f"What is in {' and '.join(found.files)}",
        problems=[*map(plain, found.problems.errors)],
        notes=[*map(plain, (*found.chosen, *found.notes))],
        columns=[_column(found, name) for name in found.table],
        nodes=len(found.table),
        labelled=sizes.total(),
        num_classes=len(sizes),
        links=links(found),
        classes=[(plain(name), size) for name, size in sizes.most_common(MOST)],
        unknown=[(plain(name), size) for name, size in found.unknown.most_common(MOST)],
        num_unknown=len(found.unknown),
    )
    try:
        atomic.write_text(path, page)
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror})"
        raise InputError.plain("--report", message) from error


def links(found: Look) -> dict[str, Any]:
    """Figures of the links, each pair counted once and none with itself; homophily may be None."""
    pairs = np.sort(found.edges, 0)
    pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
    degrees = np.bincount(pairs.ravel(), minlength=len(found.table))
    ends = np.array(found.labels or [""] * len(degrees), dtype=object)[pairs]
    same = (ends[0] == ends[1])[(ends != "").all(0)]
    sizes = np.bincount(np.frexp(degrees)[1])
    names = ["0", "1", *(f"{2**k} to {2 ** (k + 1) - 1}" for k in range(1, len(sizes)))]
    return {
        "count": pairs.shape[1],
        "alone": int((degrees == 0).sum()),
        "mean": float(degrees.sum() / max(len(degrees), 1)),
        "most": degrees.max(initial=0),
        "degrees": list(zip(names, sizes.tolist())),
        "labelled": len(same),
        "homophily": float(same.mean()) if len(same) else None,
    }


def _column(found: Look, name: str) -> dict[str, Any]:
    """The use of a column of the node table, its share of empty cells and most frequent values."""
    cells = features.texts(found.table[name])
    counts = Counter(filter(None, features.present(cells)))
    return {
        "name": plain(name),
        "role": found.roles.get(name, "not used"),
        "blank": 1 - counts.total() / max(len(cells), 1),
        "distinct": len(counts),
        "examples": ", ".join(short(value, 30) for value, _ in counts.most_common(4)),
    }

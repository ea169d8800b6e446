"""What is in a user's files, as one HTML page that needs nothing beside it."""
from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from graphgym_srnc import atomic
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import mend
from graphgym_srnc.own.tables.look import Look
from graphgym_srnc.report.html import fill
from graphgym_srnc.text import plain, short

MOST = 40
"""Lines of a table of the page."""


class Column(NamedTuple):
    """A column: what it is used for, blank cells as a share, values, and the commonest of them."""

    name: str
    role: str
    blank: float
    values: int
    examples: str


class Links(NamedTuple):
    """Figures of the links between nodes, each pair counted once and none with itself.

    Args:
        count: their number.
        alone: nodes without any.
        mean, most: of the nodes' degrees.
        homophily: share of links between labelled nodes that join equal labels; None = none does.
        labelled: links between labelled nodes.
    """

    count: int
    alone: int
    mean: float
    most: int
    homophily: float | None
    labelled: int


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
    degrees = _degrees(found)
    return fill(
        Path(__file__).with_name("profile.html"), title=f"What is in {' and '.join(found.files)}",
        problems=[plain(error) for error in found.problems.errors],
        notes=[plain(note) for note in found.notes], columns=columns(found),
        nodes=len(next(iter(found.table.values()), ())), labelled=sizes.total(),
        classes=[(plain(name), size) for name, size in sizes.most_common(MOST)],
        num_classes=len(sizes), links=links(found), degrees=_buckets(degrees),
        unknown=[(plain(name), size) for name, size in found.unknown.most_common(MOST)],
        num_unknown=len(found.unknown))


def columns(found: Look) -> list[Column]:
    """Each column of the node table in figures."""
    result = []
    for name, cells in found.table.items():
        counts = Counter(filter(None, mend.present(cells)))
        examples = ", ".join(short(value, 30) for value, _ in counts.most_common(4))
        result.append(Column(plain(name), found.roles.get(name, "not used"),
                             1 - counts.total() / max(len(cells), 1), len(counts), examples))
    return result


def links(found: Look) -> Links:
    """The links in figures."""
    pairs, degrees = _pairs(found), _degrees(found)
    labels = np.array(found.labels or [""] * len(degrees), dtype=object)
    ends = labels[pairs]
    both = (ends != "").all(0)
    same = float((ends[0] == ends[1])[both].mean()) if both.any() else None
    return Links(pairs.shape[1], int((degrees == 0).sum()),
                 float(degrees.mean()) if len(degrees) else 0.0, int(degrees.max(initial=0)), same,
                 int(both.sum()))


def _pairs(found: Look) -> np.ndarray:
    """Links ``[2, E]`` without doubles, directions and self-loops."""
    pairs = np.sort(found.edges, 0)
    return np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)


def _degrees(found: Look) -> np.ndarray:
    nodes = len(next(iter(found.table.values()), ()))
    return np.bincount(_pairs(found).ravel(), minlength=nodes)


def _buckets(degrees: np.ndarray) -> list[tuple[str, int]]:
    """How many nodes have 0, 1, 2 to 3, 4 to 7, ... links."""
    exponent = np.bincount(np.frexp(degrees)[1])
    names = ["0", "1", *(f"{2 ** k} to {2 ** (k + 1) - 1}" for k in range(1, len(exponent)))]
    return list(zip(names, exponent.tolist()))

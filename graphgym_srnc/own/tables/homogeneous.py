"""From files of a node table and a list of links to a graph, and a page of what they hold."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from graphgym_srnc.core.text import plain, short
from graphgym_srnc.data import features, frames, read
from graphgym_srnc.data.folder import RECIPE, Graph
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import regular, write_text
from graphgym_srnc.report.html import fill

MOST = 40  # maximum number of lines of a table on the page


def look(
    nodes: Path, links: Path | None, options: frames.Options, others: bool = False
) -> frames.Look:
    """What :func:`frames.look` finds in files; ``links`` None = ``nodes`` holds both."""
    found = frames.Look((nodes.name, (links or nodes).name), options)
    with found.problems.step():
        if links is None:
            table, pairs = read.graph(nodes, found.notes)
            return frames.look(found, table, lambda ids: pairs, others)
        table, file = read.table(nodes, found.notes), links
        return frames.look(found, table, lambda ids: read.table(file, found.notes, ids), others)
    with found.problems.step():  # the node table cannot be read, and perhaps the links neither
        if links is not None:
            read.table(links, ids=())
    return found


def make_graph(
    nodes: Path,
    links: Path | None = None,
    embeddings: Path | None = None,
    report: Path | None = None,
    like: Path | None = None,
    **given: Any,
) -> tuple[Graph, list[str]]:
    """A graph, and notes on what was chosen, corrected and left out; all errors come at once.

    ``embeddings`` is an ``.npy`` ``[V, D]`` in the order of the table, ``like`` the folder of an
    earlier graph, and ``given`` are other fields of :class:`frames.Options`. The page ``report`` is
    written whether the files are right or not.
    """
    if like is not None:
        with reading(like, "a folder with a recipe of data make", "--like"):
            given["like"] = {**json.loads(regular(like / RECIPE).read_bytes())}
    found = look(nodes, links, frames.Options(**given), embeddings is not None)
    if report is not None:
        write_page(report, found)
    found.problems.check()
    array: np.ndarray | None = None
    if embeddings is not None:
        from graphgym_srnc.data import untrusted  # imports torch, which other tables do without

        with reading(embeddings, "a readable .npy of plain numbers", "--embeddings"):
            array = untrusted.array(embeddings)
        fits = array.ndim == 2 and len(array) == found.rows and array.dtype.kind in "fiu"
        if not fits or not np.isfinite(array).all():
            message = f"{embeddings} holds {array.dtype} {array.shape}"
            hint = f"Give finite numbers, one row for each of the {found.rows} nodes"
            raise InputError.plain("--embeddings", message, hint)
        array = array.astype(float)
    return frames.graph(found, array), [*found.chosen, *found.notes]


def write_page(path: Path, found: frames.Look) -> None:
    """Write the page, whole or not at all."""
    page = fill(
        Path(__file__).with_name("profile.html"),
        title=f"What is in {' and '.join(found.files)}",
        found=found,
        columns=[_column(found, name) for name in found.table],
        links=figures(found),
        sizes=Counter(filter(None, found.labels or ())),
        most=MOST,
        plain=plain,
    )
    write_text(path, page)


def figures(found: frames.Look) -> dict[str, Any]:
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


def _column(found: frames.Look, name: str) -> dict[str, Any]:
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

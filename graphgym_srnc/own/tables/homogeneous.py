"""From the files of a node table and of a list of links to a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphgym_srnc.data import frames, read
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.own.tables import formats, profile


def look(
    nodes: Path, links: Path | None, options: frames.Options, others: bool = False
) -> frames.Look:
    """What :func:`frames.look` finds in files; ``links`` None = ``nodes`` holds both."""
    found = frames.Look((nodes.name, (links or nodes).name), options)
    with found.problems.step():
        if links is None:
            table, pairs = formats.graph(nodes, found.notes)
            return frames.look(found, table, lambda ids: pairs, others)
        table, file = formats.table(nodes, found.notes), links
        return frames.look(found, table, lambda ids: formats.table(file, found.notes, ids), others)
    with found.problems.step():  # the node table cannot be read, and perhaps the links neither
        if links is not None and read.kind(links) not in formats.SUFFIXES:
            read.cells(links, ragged=True)
    return found


def make_graph(
    nodes: Path,
    links: Path | None = None,
    embeddings: Path | None = None,
    report: Path | None = None,
    **given: Any,
) -> tuple[Graph, list[str]]:
    """A graph, and notes on what was chosen, corrected and left out; all errors come at once.

    Args:
        embeddings: an ``.npy`` array ``[V, D]`` in the order of the table.
        report: a page of what is in the files, which is written whether they are right or not.
        given: fields of :class:`frames.Options`.
    """
    found = look(nodes, links, frames.Options(**given), embeddings is not None)
    if report is not None:
        profile.write(report, found)
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

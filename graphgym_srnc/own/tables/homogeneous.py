"""From the files of a node table and of a list of links to a graph."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas

from graphgym_srnc.data import frames, read
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import formats, profile


def look(nodes: Path, links: Path | None, options: frames.Options,
         others: bool = False) -> frames.Look:
    """All that can be seen in files before a graph is made of them, see :func:`frames.look`.

    Args:
        nodes: the node table.
        links: the list of links; None = ``nodes`` holds both.
        options: what the user says about them.
        others: whether there are features beside those of columns and of links.
    """
    found = frames.Look((nodes.name, (links or nodes).name), options)
    table, both = None, None
    with found.problems.step():
        if links is None:
            both = formats.graph(nodes, found.notes)
        table = formats.table(nodes, found.notes) if both is None else both.nodes
    if table is None:
        with found.problems.step():
            if links is not None and links.suffix not in formats.SUFFIXES:
                read.cells(links, ragged=True)
        return found

    def read_links(ids: set[str]) -> pandas.DataFrame:
        return formats.links(links, ids, found.notes) if both is None else both.links

    return frames.look(found, table, read_links, others)


def make_graph(nodes: Path, links: Path | None = None, embeddings: Path | None = None,
               report: Path | None = None, **given: object) -> tuple[Graph, list[str]]:
    """A graph, and notes on what was chosen, corrected and left out.

    Args:
        nodes, links: see :func:`look`.
        embeddings: an ``.npy`` array ``[V, D]`` in the order of the table.
        report: a page of what is in the files, which is written whether they are right or not.
        given: fields of :class:`frames.Options`.

    Raises:
        InputError: files, columns or cells are wrong, or there is no feature. All errors are
            reported at once.
    """
    found = look(nodes, links, frames.Options(**given), embeddings is not None)
    if report is not None:
        profile.write(report, found)
    found.problems.check()
    extra = None if embeddings is None else _embeddings(embeddings, found.rows)
    return frames.graph(found, extra), found.notes


def _embeddings(path: Path, num_nodes: int) -> np.ndarray:
    from graphgym_srnc.data import untrusted  # imports torch, which other tables do without
    with untrusted.reading(path, "a readable .npy of plain numbers", "--embeddings"):
        array = untrusted.array(path)
    fits = array.ndim == 2 and len(array) == num_nodes and array.dtype.kind in "fiu"
    if not fits or not np.isfinite(array).all():
        raise InputError.plain("--embeddings", f"{path} holds {array.dtype} {array.shape}",
                               f"Give finite numbers, one row for each of the {num_nodes} nodes")
    return array.astype(float)

"""From files of a node table and a list of links to a graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from graphgym_srnc.data import frames, read
from graphgym_srnc.data.folder import RECIPE, Graph
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import regular


def make_graph(
    nodes: Path,
    links: Path | None = None,
    embeddings: Path | None = None,
    like: Path | None = None,
    **given: Any,
) -> tuple[Graph, list[str]]:
    """A graph, and notes on what was chosen, corrected and left out; all errors come at once.

    Args:
        nodes: the node table, or a file of nodes and links.
        links: the list of links; None = ``nodes`` holds both.
        embeddings: an ``.npy`` ``[V, D]`` in the order of the table.
        like: the folder of an earlier graph, whose features are made again.
        given: other fields of :class:`frames.Options`.
    """
    if like is not None:
        with reading(like, "a folder with a recipe of data make", "--like"):
            given["like"] = {**json.loads(regular(like / RECIPE).read_bytes())}
    found = frames.Look((nodes.name, (links or nodes).name), frames.Options(**given))
    others = embeddings is not None
    with found.problems.step():
        if links is None:
            table, pairs = read.graph(nodes, found.notes)
            frames.look(found, table, lambda ids: pairs, others)
        else:
            table = read.table(nodes, found.notes)
            frames.look(found, table, lambda ids: read.table(links, found.notes, ids), others)
    with found.problems.step():
        if found.rows == 0 and links is not None:  # the links cannot be read either, perhaps
            read.table(links, ids=())
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

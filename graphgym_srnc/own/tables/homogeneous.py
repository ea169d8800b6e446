"""From a table of nodes and a list of links to a graph."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import features, profile
from graphgym_srnc.own.tables.look import blame_recipe, look
from graphgym_srnc.own.tables.spectral import spectral as spectral_features
from graphgym_srnc.text import one_line


def make_graph(nodes: Path, links: Path | None = None, *, embeddings: Path | None = None,
               spectral: int = 0, like: Path | None = None, report: Path | None = None,
               **given: Any) -> tuple[Graph, list[str]]:
    """A graph, and notes on what was corrected and left out.

    Args:
        nodes, links, embeddings, spectral, like, given: see
            :func:`graphgym_srnc.own.tables.look.look`.
        report: a page of what is in the files, which is written whether they are right or not.

    Raises:
        InputError: files, columns or cells are wrong, or there is no feature. All errors are
            reported at once.
    """
    found = look(nodes, links, embeddings=embeddings, spectral=spectral, like=like, **given)
    if report is not None:
        profile.write(report, found)
    found.problems.check()

    table, edges, recipe = found.table, found.edges, found.recipe
    ids = table[found.of_role("id")]
    with blame_recipe(like):
        blocks, names = features.apply(recipe, table)
        names = [one_line(name) for name in names]
    if embeddings is not None:
        rows = _embeddings(embeddings, found.rows)[found.kept]
        blocks.append(sp.csr_matrix(rows))
        names += [f"embedding {number}" for number in range(blocks[-1].shape[1])]
    if spectral:
        blocks.append(spectral_features(edges, len(ids), spectral))
        names += [f"spectral {number}" for number in range(spectral)]
    scales = recipe.setdefault("scales", features.scales(blocks))
    widths = [block.shape[1] for block in blocks]
    if widths != recipe.setdefault("widths", widths):
        message = f"this graph has {widths} features, and {like} has {recipe['widths']}"
        raise InputError.plain("--like", message, "Give the same columns and --embeddings as there")
    with blame_recipe(like):
        joined = features.joined(blocks, scales)
    recipe |= {"embeddings": embeddings is not None, "spectral": spectral}
    texts = features.documents(table, recipe["text"]["columns"]) if recipe.get("text") else None
    return Graph(edges, joined, names, ids, texts, found.labels, found.parts, recipe), found.notes


def _embeddings(path: Path, num_nodes: int) -> np.ndarray:
    from graphgym_srnc.data import untrusted  # imports torch, which other tables do without
    try:
        array = untrusted.array(path)
    except Exception as error:  # NumPy lets through whatever headers of arrays end in
        message = f"{path} is not a readable .npy of plain numbers ({untrusted.reason(error)})"
        raise InputError.plain("--embeddings", message) from error
    fits = array.ndim == 2 and len(array) == num_nodes and array.dtype.kind in "fiu"
    if not fits or not np.isfinite(array).all():
        raise InputError.plain("--embeddings", f"{path} holds {array.dtype} {array.shape}",
                               f"Give finite numbers, one row for each of the {num_nodes} nodes")
    return array.astype(float)

"""A node table and a list of links, to a graph."""
from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.data.folder import RECIPE, Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import features, read
from graphgym_srnc.text import one_line

PARTS = ("train", "val", "test")


def graph(nodes: Path, links: Path, *, id: str = "", label: str = "", split: str = "", ends: Sequence[str] = (), text: Sequence[str] = (),
          numbers: Sequence[str] = (), categories: Sequence[str] = (), embeddings: Path | None = None, spectral: int = 0,
          like: Path | None = None, skip_missing: bool = False,
          options: features.TextOptions = features.TextOptions()) -> tuple[Graph, list[str]]:
    """A graph of a node table and a list of links, and what was left out, in words.

    Args:
        nodes: a table with a line a node, see :func:`graphgym_srnc.own.tables.read.table`.
        links: a list with a line a link, see :func:`graphgym_srnc.own.tables.read.edges`.
        id: the column of ids; empty = ``id``, or else the first one.
        label: the column of labels, numbers or words; empty = ``label`` if there is one. An empty cell is a node without a label.
        split: the column that says ``train``, ``val``, ``test`` or nothing; empty = ``split`` if there is one.
        ends: the two columns of ``links``; empty = the first two.
        text: columns of text, made into one bag of words.
        numbers: columns of numbers; ``*`` = all that are nothing else.
        categories: columns of which each value is a feature.
        embeddings: an ``.npy`` array ``[V, D]`` in the order of the table.
        spectral: number of features that say where a node lies in the graph, see :func:`graphgym_srnc.own.tables.features.spectral`.
        like: a graph folder whose recipe is taken instead of ``text``, ``numbers`` and ``categories``.
        skip_missing: leave out links to ids that the table does not have.
        options: how texts become features.

    Raises:
        InputError: a file, a column or a cell is not what it should be, or there is no feature.
    """
    table = read.table(nodes)
    id = _named(table, id, "--id", "id") or next(iter(table))
    label, split = _named(table, label, "--label", "label"), _named(table, split, "--split", "split")
    ids = table[id]
    edges, skipped = read.edges(links, ends, read.places(ids, nodes.name), skip_missing)
    if not edges.size:
        raise InputError(links.name, "no link between two nodes", "one at least")
    taken = [id, label, split, *text, *categories]
    numbers = features.number_columns(table, taken) if list(numbers) == ["*"] else numbers
    recipe = _recipe(like) if like else features.learn(table, text, numbers, categories, options)
    with _recipe_errors(like):
        blocks, words = features.apply(recipe, table)
        words = [one_line(word) for word in words]
    if embeddings is not None:
        blocks.append(sp.csr_matrix(_embeddings(embeddings, len(ids))))
        words += [f"embedding {number}" for number in range(blocks[-1].shape[1])]
    if spectral:
        blocks.append(features.spectral(edges, len(ids), spectral))
        words += [f"spectral {number}" for number in range(spectral)]
    if not words:
        raise InputError("features", f"columns {', '.join(table)}, none of them chosen",
                         "--text, --numbers, --categories or --embeddings; --spectral 64 makes features of the links alone")
    scales = recipe.setdefault("scales", features.scales(blocks))
    if [block.shape[1] for block in blocks] != recipe.setdefault("widths", [block.shape[1] for block in blocks]):
        raise InputError("--like", str(like), f"blocks of {recipe['widths']} features, as there, --embeddings included")
    with _recipe_errors(like):
        joined = features.joined(blocks, scales)
    recipe |= {"embeddings": embeddings is not None, "spectral": spectral}
    labels = [one_line("" if cell == "-1" else cell) for cell in table[label]] if label else None
    made = Graph(edges, joined, words, ids, _texts(table, recipe), labels,
                 _parts(table[split], labels, ids) if split else None, recipe)
    return made, [f"{skipped:,} links to ids that are no nodes left out"] * (skipped > 0)


def _named(table: read.Table, name: str, option: str, usual: str) -> str:
    if name and name not in table:
        raise InputError(option, name, f"one of the columns {', '.join(table)}")
    return name or (usual if usual in table else "")


def _recipe(folder: Path) -> features.Recipe:
    try:
        recipe = json.loads((folder / RECIPE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("--like", str(folder), f"a graph folder that data make has written, with {RECIPE}") from error
    if not isinstance(recipe, dict):
        raise InputError("--like", str(folder / RECIPE), "the recipe that data make has written")
    if recipe.get("spectral"):
        raise InputError("--like", str(folder), "features of columns; those of --spectral belong to one graph")
    return recipe


@contextlib.contextmanager
def _recipe_errors(like: Path | None) -> Iterator[None]:
    """Errors of a recipe that somebody has changed."""
    try:
        yield
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if like is None or isinstance(error, InputError):
            raise
        raise InputError("--like", str(like / RECIPE), f"what data make has written ({type(error).__name__}: {error})") from error


def _embeddings(path: Path, num_nodes: int) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # NumPy lets through whatever headers of arrays end in
        raise InputError("--embeddings", str(path), f"a readable .npy of plain numbers ({' '.join(str(error).split())[:120]})") from error
    if array.ndim != 2 or len(array) != num_nodes or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InputError("--embeddings", f"{array.dtype} {array.shape}", f"finite numbers, one row for each of the {num_nodes} nodes")
    return array.astype(float)


def _texts(table: read.Table, recipe: features.Recipe) -> list[str] | None:
    columns = recipe.get("text", {}).get("columns", [])
    return features.documents(table, columns) if columns else None


def _parts(cells: Sequence[str], labels: Sequence[str] | None, ids: Sequence[str]) -> list[str]:
    parts = [cell.lower() for cell in cells]
    for number, part in enumerate(parts):
        if part and part not in PARTS:
            raise InputError("--split", f"{cells[number]!r} at id {ids[number]}", f"{', '.join(PARTS)}, or nothing")
        if part and not (labels and labels[number]):
            raise InputError("--split", f"{part} at id {ids[number]}, which has no label",
                             "labelled nodes; the others are predicted in any case")
    return parts

"""From a table of nodes and a list of links to a graph."""
from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.atomic import regular
from graphgym_srnc.data import untrusted
from graphgym_srnc.data.folder import RECIPE, Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import features, read
from graphgym_srnc.own.tables.spectral import spectral as spectral_features
from graphgym_srnc.text import one_line

PARTS = ("train", "val", "test")


def make_graph(nodes: Path, links: Path, *, id: str = "", label: str = "", split: str = "",
               ends: Sequence[str] = (), text: Sequence[str] = (), numbers: Sequence[str] = (),
               categories: Sequence[str] = (), embeddings: Path | None = None, spectral: int = 0,
               like: Path | None = None, skip_missing: bool = False,
               options: features.TextOptions = features.TextOptions()) -> tuple[Graph, list[str]]:
    """A graph, and what was left out, in words.

    Args:
        nodes: a table with a line for each node, see :func:`graphgym_srnc.own.tables.read.table`.
        links: a list with a line for each link, see :func:`graphgym_srnc.own.tables.read.edges`.
        id: the column of ids; empty = ``id``, or else the first one.
        label: the column of labels; empty = ``label`` if there is one. An empty cell and -1 are
            nodes without a label.
        split: the column that says ``train``, ``val``, ``test`` or nothing; empty = ``split`` if
            there is one.
        ends: the two columns of ``links``; empty = the first two.
        text: columns of text, made into one bag of words.
        numbers: columns of numbers; ``*`` = all that are nothing else.
        categories: columns of which each value is a feature.
        embeddings: an ``.npy`` array ``[V, D]`` in the order of the table.
        spectral: number of features made of the links alone.
        like: a graph folder whose recipe is taken instead of ``text``, ``numbers`` and
            ``categories``.
        skip_missing: leave out links to ids that the table does not have.
        options: how texts become features.

    Raises:
        InputError: a file, a column or a cell is not what it should be, or there is no feature.
    """
    table = read.table(nodes)
    id = _chosen(table, id, "id") or next(iter(table))
    label, split = _chosen(table, label, "label"), _chosen(table, split, "split")
    ids = table[id]
    edges, skipped = read.edges(links, ends, read.numbers_of(ids, nodes.name), skip_missing)
    if not edges.size:
        raise InputError(links.name, "no link between two nodes", "one at least")

    if list(numbers) == ["*"]:
        numbers = features.number_columns(table, [id, label, split, *text, *categories])
    recipe = _recipe(like) if like else features.learn(table, text, numbers, categories, options)
    with _blame_recipe(like):
        blocks, names = features.apply(recipe, table)
        names = [one_line(name) for name in names]
    if embeddings is not None:
        blocks.append(sp.csr_matrix(_embeddings(embeddings, len(ids))))
        names += [f"embedding {number}" for number in range(blocks[-1].shape[1])]
    if spectral:
        blocks.append(spectral_features(edges, len(ids), spectral))
        names += [f"spectral {number}" for number in range(spectral)]
    if not names:
        raise InputError("features", f"columns {', '.join(table)}, none of them chosen",
                         "--text, --numbers, --categories or --embeddings; "
                         "--spectral 64 makes features of the links alone")

    scales = recipe.setdefault("scales", features.scales(blocks))
    widths = [block.shape[1] for block in blocks]
    if widths != recipe.setdefault("widths", widths):
        raise InputError("--like", str(like), f"blocks of {recipe['widths']} features, as there, "
                         "--embeddings included")
    with _blame_recipe(like):
        joined = features.joined(blocks, scales)
    recipe |= {"embeddings": embeddings is not None, "spectral": spectral}
    texts = features.documents(table, recipe["text"]["columns"]) if recipe.get("text") else None
    labels = [one_line("" if cell == "-1" else cell) for cell in table[label]] if label else None
    parts = _parts(table[split], labels, ids) if split else None
    left_out = [f"{skipped:,} links to ids that are no nodes left out"] * (skipped > 0)
    return Graph(edges, joined, names, ids, texts, labels, parts, recipe), left_out


def _chosen(table: read.Table, column: str, option: str) -> str:
    """The column chosen by an option, or else that with the option's own name if there is one."""
    if column and column not in table:
        raise InputError(f"--{option}", column, f"one of the columns {', '.join(table)}")
    return column or (option if option in table else "")


def _recipe(folder: Path) -> features.Recipe:
    try:
        recipe = json.loads(regular(folder / RECIPE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("--like", str(folder),
                         f"a graph folder that data make has written, with {RECIPE}") from error
    if not isinstance(recipe, dict):
        raise InputError("--like", str(folder / RECIPE), "the recipe that data make has written")
    if recipe.get("spectral"):
        raise InputError("--like", str(folder),
                         "features of columns; those of --spectral belong to one graph")
    return recipe


@contextlib.contextmanager
def _blame_recipe(folder: Path | None) -> Iterator[None]:
    """Errors in here come of a recipe that somebody has changed, if there is a folder of one."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if folder is None or isinstance(error, InputError):
            raise
        raise InputError("--like", str(folder / RECIPE), "what data make has written "
                         f"({type(error).__name__}: {error})") from error


def _embeddings(path: Path, num_nodes: int) -> np.ndarray:
    try:
        array = untrusted.array(path)
    except Exception as error:  # NumPy lets through whatever headers of arrays end in
        allowed = f"a readable .npy of plain numbers ({untrusted.reason(error)})"
        raise InputError("--embeddings", str(path), allowed) from error
    fits = array.ndim == 2 and len(array) == num_nodes and array.dtype.kind in "fiu"
    if not fits or not np.isfinite(array).all():
        raise InputError("--embeddings", f"{array.dtype} {array.shape}",
                         f"finite numbers, one row for each of the {num_nodes} nodes")
    return array.astype(float)


def _parts(cells: Sequence[str], labels: Sequence[str] | None, ids: Sequence[str]) -> list[str]:
    parts = [cell.lower() for cell in cells]
    for number, part in enumerate(parts):
        if part and part not in PARTS:
            raise InputError("--split", f"{cells[number]!r} at id {ids[number]}",
                             f"{', '.join(PARTS)}, or nothing")
        if part and not (labels and labels[number]):
            raise InputError("--split", f"{part} at id {ids[number]}, which has no label",
                             "labelled nodes; the others are predicted in any case")
    return parts

"""Features from the columns of a node table, by a recipe that a second table can be given: the same columns, the same weights."""
from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables.read import Table

Recipe = dict[str, Any]
"""Blocks of columns by kind, ``text``, ``numbers`` and ``categories``, with all that they took from the table they were learnt from."""


class TextOptions(NamedTuple):
    """How texts become features.

    Args:
        counts: occurrences of each word instead of TF-IDF.
        max_words: most frequent words that are kept.
        min_nodes: least number of nodes that a word occurs in.
        stop_words: ``english`` = scikit-learn's list of common English words is left out, or ``none``.
    """

    counts: bool = False
    max_words: int = 2000
    min_nodes: int = 2
    stop_words: str = "english"


def learn(table: Table, text: Sequence[str], numbers: Sequence[str], categories: Sequence[str], options: TextOptions) -> Recipe:
    """The recipe of a table; columns are made by :func:`apply`.

    Raises:
        InputError: there is no such column, a cell is no number, or no word is left.
    """
    recipe: Recipe = {}
    if text:
        recipe["text"] = {"columns": list(text)} | _vocabulary(documents(table, text), options)
    if numbers:
        values = np.array([_numbers(table, name) for name in numbers])
        known = np.maximum((~np.isnan(values)).sum(1), 1)
        mean = np.nansum(values, 1) / known
        std = np.sqrt(np.nansum((values - mean[:, None]) ** 2, 1) / known)
        recipe["numbers"] = {"columns": list(numbers), "mean": mean.tolist(), "std": np.where(std > 0, std, 1.0).tolist()}
    if categories:
        kinds = [[value for value, _ in Counter(filter(None, _column(table, name))).most_common(options.max_words)] for name in categories]
        recipe["categories"] = {"columns": list(categories), "values": [sorted(own) for own in kinds]}
    return recipe


def apply(recipe: Recipe, table: Table) -> tuple[list[sp.csr_matrix], list[str]]:
    """The blocks ``[V, F_i]`` of features of a table, and names of all their columns.

    Texts become TF-IDF rows of length 1; numbers lose their mean and are divided by their standard deviation, an empty cell
    is the mean; a category has a column for each of its values. Values that the recipe does not know are left out.

    Raises:
        InputError: there is no such column, or a cell is no number.
    """
    blocks, words = [], []
    if text := recipe.get("text"):
        blocks.append(_bag(documents(table, text["columns"]), text))
        words += text["words"]
    if numbers := recipe.get("numbers"):
        values = np.array([_numbers(table, name) for name in numbers["columns"]]).T
        blocks.append(sp.csr_matrix(np.nan_to_num((values - numbers["mean"]) / numbers["std"])))
        words += numbers["columns"]
    if categories := recipe.get("categories"):
        for name, values in zip(categories["columns"], categories["values"]):
            number, cells = {value: i for i, value in enumerate(values)}, _column(table, name)
            hits = [(node, number[cell]) for node, cell in enumerate(cells) if cell in number]
            place = np.array(hits, dtype=np.int64).reshape(-1, 2).T
            blocks.append(sp.csr_matrix((np.ones(place.shape[1]), place), shape=(len(cells), len(values))))
            words += [f"{name}={value}" for value in values]
    return blocks, words


def scales(blocks: Sequence[sp.csr_matrix]) -> list[float]:
    """What each block is divided by, so that none outweighs another: the root of its rows' mean squared length; 1 for one alone."""
    if len(blocks) < 2:
        return [1.0] * len(blocks)
    return [float(np.sqrt(block.multiply(block).sum() / block.shape[0])) or 1.0 for block in blocks]


def joined(blocks: Sequence[sp.csr_matrix], by: Sequence[float]) -> sp.csr_matrix:
    """All blocks side by side, each divided by its own scale."""
    return sp.hstack([block / scale for block, scale in zip(blocks, by)], format="csr")


def number_columns(table: Table, but: Sequence[str]) -> list[str]:
    """Names of the columns, beside some, whose cells are numbers or empty, one at least a number."""
    return [name for name in table if name not in but and any(table[name]) and not _not_numbers(table[name])]


def documents(table: Table, columns: Sequence[str]) -> list[str]:
    """The texts of some columns, joined for each node by line breaks."""
    return ["\n".join(filter(None, cells)) for cells in zip(*(_column(table, name) for name in columns))]


def spectral(edges: np.ndarray, num_nodes: int, dimensions: int) -> sp.csr_matrix:
    """Where each node lies in its graph: the leading eigenvectors ``[V, D]`` of :math:`D^{-1/2} A D^{-1/2}`, times :math:`\\sqrt V`.

    They belong to this graph alone: no other graph has the same features.

    Raises:
        InputError: more dimensions than the graph has.
    """
    from scipy.sparse.linalg import eigsh
    if not 1 <= dimensions < num_nodes - 1:
        raise InputError("--spectral", dimensions, f"1 .. {num_nodes - 2}")
    adjacency = sp.csr_matrix((np.ones(edges.shape[1]), edges), shape=(num_nodes, num_nodes))
    adjacency = ((adjacency + adjacency.T) > 0).astype(float)
    adjacency.setdiag(0)
    root = sp.diags(1 / np.sqrt(np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1)))
    # From a vector that is an eigenvector itself the iteration would go on at random.
    begin = np.random.RandomState(0).standard_normal(num_nodes)
    _, vectors = eigsh(root @ adjacency @ root, k=dimensions, which="LA", v0=begin)
    # An eigenvector has no sign of its own.
    vectors = vectors[:, ::-1] * np.sign(vectors[np.abs(vectors).argmax(0), np.arange(dimensions)])[::-1]
    return sp.csr_matrix(vectors * num_nodes ** 0.5)


def _vocabulary(texts: Sequence[str], options: TextOptions) -> Recipe:
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    kind = CountVectorizer if options.counts else TfidfVectorizer
    try:
        learnt = kind(max_features=options.max_words, min_df=options.min_nodes,
                      stop_words=None if options.stop_words == "none" else options.stop_words).fit(texts)
    except ValueError as error:
        raise InputError("--text", " ".join(str(error).split())[:120],
                         f"texts with words that {options.min_nodes} nodes share; --min-nodes 1 takes all") from error
    return {"words": learnt.get_feature_names_out().tolist()} | ({} if options.counts else {"idf": learnt.idf_.tolist()})


def _bag(texts: Sequence[str], text: Recipe) -> sp.csr_matrix:
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    if "idf" not in text:
        return CountVectorizer(vocabulary=text["words"]).transform(texts).astype(float)
    vectoriser = TfidfVectorizer(vocabulary=text["words"])
    vectoriser.idf_ = np.array(text["idf"])
    return vectoriser.transform(texts)


def _column(table: Table, name: str) -> list[str]:
    if name not in table:
        raise InputError("column", name, f"one of {', '.join(table)}")
    return table[name]


def _numbers(table: Table, name: str) -> list[float]:
    cells = _column(table, name)
    if wrong := _not_numbers(cells):
        raise InputError(f"--numbers {name}", wrong[0], f"numbers or empty cells; {len(wrong)} are not")
    return [float(cell) if cell else np.nan for cell in cells]


def _not_numbers(cells: Sequence[str]) -> list[str]:
    def is_number(cell: str) -> bool:
        try:
            return bool(np.isfinite(float(cell)))
        except ValueError:
            return False

    return [cell for cell in cells if cell and not is_number(cell)]

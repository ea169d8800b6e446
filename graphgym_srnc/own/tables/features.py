"""Features of the columns of a table, by a recipe that gives another table the same features.

:class:`InputError` is raised where there is no such column, a cell is no number or no word is left.
"""
from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from graphgym_srnc.errors import Collected, InputError
from graphgym_srnc.own.tables import mend
from graphgym_srnc.own.tables.formats import Table

Recipe = dict[str, Any]
"""Plain data by kind of column, ``text``, ``numbers`` and ``categories``: the columns, and what was
learnt of them."""


class TextOptions(NamedTuple):
    """How texts become features.

    Args:
        counts: occurrences of each word instead of TF-IDF.
        max_words: most frequent words that are kept.
        min_nodes: least number of nodes that a word occurs in.
        stop_words: ``english`` = scikit-learn's list of common English words is left out; or
            ``none``.
    """

    counts: bool = False
    max_words: int = 2000
    min_nodes: int = 2
    stop_words: str = "english"


def learn(table: Table, text: Sequence[str], numbers: Sequence[str], categories: Sequence[str],
          options: TextOptions) -> Recipe:
    """The recipe for some columns of a table, by which :func:`apply` makes features.
    """
    recipe: Recipe = {}
    problems = Collected()
    if text:
        with problems.step():
            recipe["text"] = {"columns": list(text)} | _vocabulary(documents(table, text), options)
    if numbers:
        with problems.step():
            recipe["numbers"] = {"columns": list(numbers)} | _moments(_numbers(table, numbers))
    if categories:
        with problems.step():
            counts = [Counter(filter(None, mend.present(_column(table, name, "--categories"))))
                      for name in categories]
            frequent = [dict(count.most_common(options.max_words)) for count in counts]
            recipe["categories"] = {"columns": list(categories), "values": [*map(sorted, frequent)]}
    problems.check()
    return recipe


def apply(recipe: Recipe, table: Table) -> tuple[list[sp.csr_matrix], list[str]]:
    """The blocks ``[V, F_i]`` of features of a table, and names of all their columns.

    Texts become TF-IDF rows of length 1. Numbers lose their mean and are divided by their standard
    deviation; an empty cell is the mean. A category has a column for each of its values. Values
    that the recipe does not know are left out.
    """
    blocks, names = [], []
    if text := recipe.get("text"):
        blocks.append(_bag_of_words(documents(table, text["columns"]), text))
        names += text["words"]
    if numbers := recipe.get("numbers"):
        standard = (_numbers(table, numbers["columns"]).T - numbers["mean"]) / numbers["std"]
        blocks.append(sp.csr_matrix(np.nan_to_num(standard)))
        names += numbers["columns"]
    if categories := recipe.get("categories"):
        for name, values in zip(categories["columns"], categories["values"]):
            blocks.append(one_hot(_column(table, name, "--categories"), values).astype(float))
            names += [f"{name}={value}" for value in values]
    return blocks, names


def one_hot(cells: Sequence[str], values: Sequence[str]) -> sp.csr_matrix:
    """A column for each value, with 1 where a cell has it, ``[V, len(values)]``."""
    number = {value: column for column, value in enumerate(values)}
    hits = [(row, number[cell]) for row, cell in enumerate(cells) if cell in number]
    place = np.array(hits, dtype=np.int64).reshape(-1, 2).T
    ones = np.ones(place.shape[1], dtype=np.int64)
    return sp.csr_matrix((ones, place), shape=(len(cells), len(values)))


def scales(blocks: Sequence[sp.csr_matrix]) -> list[float]:
    """The root mean square length of each block's rows; 1 for a block that is alone."""
    if len(blocks) < 2:
        return [1.0] * len(blocks)
    return [float(np.sqrt(block.multiply(block).sum() / block.shape[0])) or 1.0 for block in blocks]


def joined(blocks: Sequence[sp.csr_matrix], scales: Sequence[float]) -> sp.csr_matrix:
    """All blocks side by side, each divided by its scale."""
    return sp.hstack([block / scale for block, scale in zip(blocks, scales)], format="csr")


def number_columns(table: Table, other: Sequence[str]) -> list[str]:
    """Names of the columns, except ``other`` ones, that hold numbers and perhaps empty cells."""
    return [name for name, cells in table.items()
            if name not in other and any(mend.numbers(cells))
            and not _not_numbers(mend.numbers(cells))]


def documents(table: Table, columns: Sequence[str]) -> list[str]:
    """The texts of some columns, joined for each node by line breaks."""
    cells_of_nodes = zip(*(_column(table, name, "--text") for name in columns))
    return ["\n".join(filter(None, cells)) for cells in cells_of_nodes]


def _vocabulary(texts: Sequence[str], options: TextOptions) -> Recipe:
    vectoriser = (CountVectorizer if options.counts else TfidfVectorizer)(
        max_features=options.max_words, min_df=options.min_nodes,
        stop_words=None if options.stop_words == "none" else options.stop_words)
    try:
        vectoriser.fit(texts)
    except ValueError as error:
        message = (f"no word occurs in {options.min_nodes} nodes "
                   f"({' '.join(str(error).split())[:120]})")
        raise InputError.plain("--text", message, "Lower --min-nodes; 1 keeps all words") from error
    words = {"words": vectoriser.get_feature_names_out().tolist()}
    return words if options.counts else words | {"idf": vectoriser.idf_.tolist()}


def _moments(values: np.ndarray) -> Recipe:
    known = np.maximum((~np.isnan(values)).sum(1), 1)
    mean = np.nansum(values, 1) / known
    std = np.sqrt(np.nansum((values - mean[:, None]) ** 2, 1) / known)
    return {"mean": mean.tolist(), "std": np.where(std > 0, std, 1.0).tolist()}


def _bag_of_words(texts: Sequence[str], text: Recipe) -> sp.csr_matrix:
    if "idf" not in text:
        return CountVectorizer(vocabulary=text["words"]).transform(texts).astype(float)
    vectoriser = TfidfVectorizer(vocabulary=text["words"])
    vectoriser.idf_ = np.array(text["idf"])
    return vectoriser.transform(texts)


def _column(table: Table, name: str, option: str) -> list[str]:
    if name not in table:
        raise InputError(option, name, f"one of the columns {', '.join(table)}")
    return table[name]


def _numbers(table: Table, columns: Sequence[str]) -> np.ndarray:
    """Columns of numbers, ``[len(columns), V]``, with NaN for an empty cell."""
    problems, values = Collected(), []
    for name in columns:
        with problems.step():
            cells = mend.numbers(_column(table, name, "--numbers"))
            if wrong := _not_numbers(cells):
                message = f"{len(wrong)} cells are not numbers, such as {wrong[0]!r}"
                hint = "Give numbers or empty cells"
                raise InputError.plain(f"--numbers {name}", message, hint)
            values.append([float(cell or "nan") for cell in cells])
    problems.check()
    return np.array(values)


def _not_numbers(cells: Sequence[str]) -> list[str]:
    def is_number(cell: str) -> bool:
        try:
            return bool(np.isfinite(float(cell)))
        except ValueError:
            return False

    return [cell for cell in cells if cell and not is_number(cell)]

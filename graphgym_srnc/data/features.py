"""Features of the columns of a table, by a recipe that gives another table the same features."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Any, Collection, NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from graphgym_srnc.core.text import counted, listed, short
from graphgym_srnc.data.labels import EMPTY
from graphgym_srnc.data.read import NAMELESS, is_counter
from graphgym_srnc.errors import Collected, InputError, did_you_mean

# The columns of ``text``, ``numbers`` and ``categories``, and what was learnt of them.
Recipe = dict[str, Any]
NO_CATEGORIES: Recipe = {"columns": {}}
NO_NUMBER = EMPTY | {"-", "--", "?", "."}  # words, in lower case, for a missing number
TRUTH = {"true": "1", "false": "0"}
NUMERIC = "fiub"  # kinds of the types of numbers and truth values
LARGEST = 1e100  # numbers below it have a finite variance
FAR = 10  # standard deviations from which a number is far from those of a recipe


class TextOptions(NamedTuple):
    """How texts become features."""

    max_words: int = 2000  # most frequent words that are kept
    min_nodes: int = 2  # least number of nodes that a word occurs in


def learn(
    table: pandas.DataFrame,
    text: Sequence[str],
    options: TextOptions,
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Recipe:
    """The recipe for some columns of a table, by which ``apply`` makes features."""
    recipe = Recipe()
    problems = Collected()
    with problems.step():
        if text:
            recipe["text"] = {"columns": [*text]} | _vocabulary(documents(table, text), options)
    with problems.step():
        if numbers:
            values = _numbers(table, numbers)
            std = values.std(ddof=0).fillna(0).replace(0, 1)
            mean = values.mean().fillna(0)
            recipe["numbers"] = {"columns": [*numbers], "mean": [*mean], "std": [*std]}
    with problems.step():
        if categories:
            cells = {name: filter(None, _categories(table, name)) for name in categories}
            most = {
                name: Counter(own).most_common(options.max_words) for name, own in cells.items()
            }
            recipe["categories"] = {"columns": {name: sorted(dict(most[name])) for name in most}}
    problems.check()
    return recipe


def apply(recipe: Recipe, table: pandas.DataFrame) -> tuple[list[sp.csr_matrix], list[str]]:
    """The blocks ``[V, F_i]`` of features of a table, and names of all their columns.

    Texts become TF-IDF rows of length 1. Numbers lose their mean and are divided by their standard
    deviation; an empty cell is the mean. A category has a column for each of its values. Values
    that the recipe does not know are left out.
    """
    blocks = []
    names = []
    if "text" in recipe:
        cells = documents(table, recipe["text"]["columns"])
        blocks.append(_bag_of_words(cells, recipe["text"]))
        names += recipe["text"]["words"]
    if "numbers" in recipe:
        blocks.append(sp.csr_matrix(_standardised(table, recipe["numbers"]).fillna(0)))
        names += recipe["numbers"]["columns"]
    for name, values in recipe.get("categories", NO_CATEGORIES)["columns"].items():
        cells = pandas.Categorical(_categories(table, name), values)
        blocks.append(sp.csr_matrix(pandas.get_dummies(cells, dtype=float)))
        names += [f"{name}={value}" for value in values]
    return blocks, names


def drift(recipe: Recipe, table: pandas.DataFrame) -> list[str]:
    """How cells differ from those of a recipe."""
    found = {}
    if "text" in recipe:
        columns = recipe["text"]["columns"]
        cells = [cell for cell in documents(table, columns) if cell]
        bare = np.diff(_bag_of_words(cells, recipe["text"]).indptr) == 0 if cells else np.zeros(0)
        of = f"of {len(table)} texts have no word of the earlier graph"
        found[f"{listed(columns)}: {bare.sum()} {of}"] = bare.sum()
    if "numbers" in recipe:
        for name, column in _standardised(table, recipe["numbers"]).items():
            count = int((column.abs() > FAR).sum())
            of = f"of {column.count()} lie more than {FAR} standard deviations from the mean"
            found[f"{name}: {counted(count, 'number')} {of} of the earlier graph"] = count
    for name, values in recipe.get("categories", NO_CATEGORIES)["columns"].items():
        cells = [cell for cell in _categories(table, name) if cell]
        new = Counter(cells) - Counter(dict.fromkeys(values, len(cells)))
        of = f"of {counted(len(cells), 'cell')} are no category of the earlier graph"
        shown = listed([repr(short(cell)) for cell, _ in new.most_common(3)])
        found[f"{name}: {new.total()} {of}: {shown}"] = new.total()
    return [sentence for sentence, count in found.items() if count]


def joined(blocks: Sequence[sp.csr_matrix], recipe: Recipe) -> sp.csr_matrix:
    """All blocks side by side, each divided by its scale in the recipe, which is learnt if absent.

    The scale is the root mean square length of a block's rows; 1 for a block that is alone.
    """
    if "scales" not in recipe:
        means = [block.multiply(block).sum() / block.shape[0] for block in blocks]
        recipe["scales"] = [float(np.sqrt(mean)) or 1.0 for mean in means] if means[1:] else [1.0]
    scaled = [block / scale for block, scale in zip(blocks, recipe["scales"])]
    found = sp.hstack(scaled, format="csr")
    found.eliminate_zeros()
    if not found.nnz:
        message = f"all {found.shape[1]} features of all nodes are zero"
        raise InputError.plain("features", message, "Choose columns with more than one value")
    return found


def spectral(edges: np.ndarray, num_nodes: int, dimensions: int) -> np.ndarray:
    r"""The leading eigenvectors ``[V, D]`` of :math:`D^{-1/2} A D^{-1/2}`, times :math:`\sqrt V`.

    They say where a node lies in this graph, and mean nothing in another one.
    """
    from scipy.sparse.linalg import eigsh

    if not 1 <= dimensions < num_nodes - 1:
        raise InputError("spectral", dimensions, f"1 to {num_nodes - 2}")
    adjacency = sp.csr_matrix((np.ones(edges.shape[1]), edges), shape=(num_nodes, num_nodes))
    adjacency = ((adjacency + adjacency.T) > 0).astype(float)
    adjacency.setdiag(0)
    root = sp.diags(1 / np.sqrt(np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1)))

    # From a vector that is an eigenvector itself the iteration would go on at random.
    start = np.random.RandomState(0).standard_normal(num_nodes)
    _, vectors = eigsh(root @ adjacency @ root, k=dimensions, which="LA", v0=start)
    # An eigenvector has no sign of its own.
    largest = vectors[np.abs(vectors).argmax(0), np.arange(dimensions)]
    return (vectors * np.sign(largest))[:, ::-1] * num_nodes**0.5


def texts(cells: pandas.Series) -> list[str]:
    """The cells of a column as texts whose equal letters are equal, see ``as_written``."""
    written = as_written(cells)
    if all(map(str.isascii, written)):  # far faster than looking at each cell in Python
        return written
    return [cell if cell.isascii() else unicodedata.normalize("NFC", cell) for cell in written]


def as_written(cells: pandas.Series) -> list[str]:
    """The cells of a column as texts, empty if missing; a whole number has no point."""
    if cells.dtype.kind == "f":
        known = cells.dropna().to_numpy(dtype=float)
        if ((np.trunc(known) == known) & (np.abs(known) < 2**53)).all():
            cells = cells.astype("Int64")
    kind = pandas.api.types.infer_dtype(cells, skipna=False)
    if cells.dtype == object and kind == "string":  # none is missing
        return [*map(str.strip, cells.tolist())]
    cells = cells.astype(object)
    return ["" if missing else str(cell).strip() for cell, missing in zip(cells, cells.isna())]


def number_columns(table: pandas.DataFrame, other: Collection[str]) -> list[str]:
    """Names of the columns, except ``other`` ones, that hold numbers and perhaps empty cells.

    Columns that count the rows are left out, unless there is no other.
    """
    free = [name for name in table if name not in other and not NAMELESS.fullmatch(name)]
    read = {name: parsed(table[name]) for name in free}
    # Numbers that are too large count, since leaving out their column would hide them.
    found = [
        name
        for name, (values, wrong) in read.items()
        if values.notna().any() and not np.isnan(pandas.to_numeric(wrong, errors="coerce")).any()
    ]
    return [name for name in found if not is_counter(table[name])] or found


def present(cells: Sequence[str], role: str = "category") -> list[str]:
    """Cells of categories or numbers, empty in the place of each word for a missing one."""
    missing = NO_NUMBER if role == "number" else EMPTY
    return ["" if cell.lower() in missing else cell for cell in cells]


def values(cell: Any) -> np.ndarray:
    """The numbers of a list, an array or a tensor, which may be one that was trained."""
    return np.ravel(cell.tolist() if hasattr(cell, "detach") else cell)


def truth(cells: Sequence[str]) -> list[str]:
    """Cells with 1 and 0 in the place of true and false."""
    return [TRUTH.get(cell.lower(), cell) for cell in cells]


def documents(table: pandas.DataFrame, columns: Sequence[str]) -> list[str]:
    """The texts of some columns, joined for each node by line breaks."""
    cells_of_nodes = zip(*(texts(column(table, name, "text")) for name in columns))
    return ["\n".join(filter(None, cells)) for cells in cells_of_nodes]


def column(table: pandas.DataFrame, name: str, option: str) -> pandas.Series:
    """A column that an option names; if there is none, the error names similar ones, or all."""
    if name in table:
        return table[name]
    names = [*filter(None, table)]
    hint = did_you_mean(name, names, f"Its columns are {listed(names, 20)}")
    raise InputError.plain(option, f"the table has no column {name!r}", hint)


def _categories(table: pandas.DataFrame, name: str) -> list[str]:
    return present(texts(column(table, name, "categories")))


def _vocabulary(cells: Sequence[str], options: TextOptions) -> Recipe:
    vectoriser = TfidfVectorizer(
        max_features=options.max_words, min_df=options.min_nodes, stop_words="english"
    )
    try:
        vectoriser.fit(cells)
    except ValueError as error:
        message = "no cell has a word of two letters or more that is no common English word"
        hint = "Choose a column of text"
        code = ""
        if options.min_nodes > 1:
            message = f"no word occurs in {options.min_nodes} nodes"
            code = "rare_words"
        raise InputError.plain("text", message, hint, code) from error
    words = vectoriser.get_feature_names_out().tolist()
    return {"words": words, "idf": vectoriser.idf_.tolist()}


def _bag_of_words(cells: Sequence[str], text: Recipe) -> sp.csr_matrix:
    vectoriser = TfidfVectorizer(vocabulary=text["words"])
    vectoriser.idf_ = np.array(text["idf"])
    return vectoriser.transform(cells)


def _standardised(table: pandas.DataFrame, numbers: Recipe) -> pandas.DataFrame:
    """Standardised numbers ``[V, F]`` with NaN for an empty cell."""
    return (_numbers(table, numbers["columns"]) - numbers["mean"]) / numbers["std"]


def _numbers(table: pandas.DataFrame, columns: Sequence[str]) -> pandas.DataFrame:
    """Columns of numbers ``[V, F]`` with NaN for an empty cell."""
    found = {}
    problems = Collected()
    for name in columns:
        with problems.step():
            found[name], wrong = parsed(column(table, name, "numbers"))
            if not wrong:
                continue
            cells = f"{name}: {counted(len(wrong), 'cell')} cannot be used as a number"
            hint = "Leave a cell without a number empty"
            if not any(re.search(r"\d", cell) for cell in wrong):
                hint += ", or name a column of words in `categories`"
            if re.fullmatch(r"[+-]?[\d.]+(,\d+)+[\d.]*", wrong[0]):
                hint = "Write numbers without a comma, such as 1.5 or 1500"
            raise InputError.plain("numbers", f"{cells}, for example {wrong[0]!r}", hint)
    problems.check()
    return pandas.DataFrame(found)


def parsed(cells: pandas.Series) -> tuple[pandas.Series, list[str]]:
    """Numbers ``[V]``, NaN for an empty cell, and the cells that are no number or too large."""
    if cells.dtype.kind in NUMERIC:
        written = cells.astype(float)
    else:
        known = truth(present(texts(cells), "number"))
        written = pandas.Series(known, cells.index, dtype=object)
    values = pandas.to_numeric(written, errors="coerce").astype(float)
    wrong = ~(np.abs(values) < LARGEST) & (written != "") & written.notna()
    return values, [*map(str, written[wrong])]

"""Features of the columns of a table, by a recipe that gives another table the same features."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from typing import Any, Collection, Iterator, NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from graphgym_srnc.core import progress
from graphgym_srnc.core.text import counted, listed, short
from graphgym_srnc.data import dates, extremes, piecewise, units
from graphgym_srnc.data.labels import EMPTY, changes
from graphgym_srnc.data.names import MISSING, PART
from graphgym_srnc.data.read import NAMELESS, is_counter
from graphgym_srnc.errors import InputError, did_you_mean

# The columns of ``text``, ``numbers`` and ``categories``, and what was learnt of them.
Recipe = dict[str, Any]
NO_CATEGORIES: Recipe = {"columns": {}}
NO_NUMBERS: Recipe = {"columns": ()}
BESIDE_TEXT = 0.5  # length of numbers and categories beside texts, relative to that of these
NO_NUMBER = EMPTY | {"-", "--", "?", "."}  # words, in lower case, for a missing number
NO_CATEGORY = EMPTY | {"?"}  # the same for a missing category
NUMERIC = "fiub"  # kinds of the types of numbers and truth values
WORD = r"[^\W_]{2,}"  # letters and digits, so that SND_USB_AUDIO has three words
OF_WORD = re.compile(r"[^\W_]+")
CHANGE_OF_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # in readHTMLFile
LETTERS = 3  # length of parts of words
SHORT = 300  # mean letters of a text up to which parts of words are features, too
LARGE = 100_000  # nodes from which parts of words and ranges of numbers take too long
BLOCK = 10_000  # texts between two steps of progress
LARGEST = 1e100  # numbers below it have a finite variance
LEAST_MISSING = 2  # empty cells of a column of numbers from which a feature marks them
LEAST_KNOWN = 10  # numbers of a column whose mean is compared with that of a recipe
FAR = 10  # standard deviations from which a number is far from those of a recipe


class TextOptions(NamedTuple):
    """How texts become features."""

    max_words: int = 2000  # most frequent words that are kept
    min_nodes: int = 2  # least number of nodes that a word occurs in


class Cells(NamedTuple):
    """Cells of the columns of features of ``V`` nodes."""

    texts: list[str] | None = None
    numbers: pandas.DataFrame = pandas.DataFrame()
    categories: dict[str, list[str]] = {}


class Made(NamedTuple):
    """Features of a table: the recipe, the cells, the blocks ``[V, F_i]`` and names of columns."""

    recipe: Recipe
    cells: Cells = Cells()
    blocks: Sequence[sp.csr_matrix] = ()
    names: Sequence[str] = ()


def learn(
    table: pandas.DataFrame,
    text: Sequence[str],
    options: TextOptions,
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Made:
    """The features of some columns of a table, whose recipe makes those of another table."""
    recipe = Recipe()
    cells = Cells()
    bags = []
    if text:
        written = documents(table, text)
        cells = cells._replace(texts=written)
        words, bag = _vocabulary(written, options)
        recipe["text"] = {"columns": [*text]} | words
        bags.append(bag)
        if len(written) < LARGE and sum(map(len, written)) <= SHORT * len(written):
            parts = _parts_of_words(max_features=options.max_words, min_df=options.min_nodes)
            bags.append(parts.fit_transform(_shown(written, "counting parts of words")))
            recipe["parts"] = _learnt(parts)
    if numbers:
        values = _numbers(table, numbers)
        cells = cells._replace(numbers=values)
        recipe["numbers"] = {"columns": [*numbers]} | _learnt_of_numbers(values)
        commas = [name for name in numbers if _has_decimal_comma(table[name])]
        if commas:
            recipe["numbers"]["decimal_comma"] = commas
    if categories:
        own = {name: categories_of(table, name) for name in categories}
        cells = cells._replace(categories=own)
        recipe["categories"] = {"columns": {}}
        for name, values_of_one in own.items():
            most = Counter(filter(None, values_of_one)).most_common(options.max_words)
            recipe["categories"]["columns"][name] = sorted(dict(most))
    return _made(recipe, cells, bags)


def apply(recipe: Recipe, table: pandas.DataFrame) -> Made:
    """The features of a table by a recipe."""
    cells = Cells(
        documents(table, recipe["text"]["columns"]) if "text" in recipe else None,
        _numbers(table, recipe.get("numbers", NO_NUMBERS)["columns"], comma_columns(recipe)),
        {name: categories_of(table, name) for name in _values_of(recipe)},
    )
    bags = []
    if cells.texts is not None:
        words = _words(vocabulary=recipe["text"]["words"])
        bags.append(_counted_by(words, recipe["text"], cells.texts))
    if "parts" in recipe:
        parts = _parts_of_words(vocabulary=recipe["parts"]["words"])
        bags.append(_counted_by(parts, recipe["parts"], cells.texts or []))
    return _made(recipe, cells, bags)


def _made(recipe: Recipe, cells: Cells, bags: Sequence[sp.csr_matrix]) -> Made:
    """The blocks of features of cells, those of texts first.

    Texts become TF-IDF rows of length 1, of words and of parts of words. Numbers, or their ranks
    where some are extreme, lose their mean and are divided by their standard deviation; an empty
    cell is the mean, and 1 in another column if the recipe marks those of its column. Further
    columns encode how far a number is in each of some ranges, so that a class may have numbers in
    between others. A category has a column for each of its values. Values that the recipe does not
    know are left out.
    """
    blocks = [*bags]
    names = []
    if "text" in recipe:
        names += recipe["text"]["words"]
    if "parts" in recipe:
        names += [PART + part.replace(" ", "·") for part in recipe["parts"]["words"]]
    if "numbers" in recipe:
        marked = marked_columns(recipe)
        is_missing = cells.numbers[marked].isna()
        pieces = _pieces(cells, recipe)
        numbers = np.hstack([_standardised(cells, recipe).fillna(0), is_missing, pieces])
        blocks.append(sp.csr_matrix(numbers))
        names += recipe["numbers"]["columns"]
        names += [name + MISSING for name in marked]
        names += [*pieces]
    for name, values in _values_of(recipe).items():
        own = pandas.Categorical(cells.categories[name], values)
        blocks.append(sp.csr_matrix(pandas.get_dummies(own, dtype=float)))
        names += [f"{name}={value}" for value in values]
    return Made(recipe, cells, blocks, names)


def drift(made: Made) -> list[str]:
    """How cells differ from those of the table that taught the recipe."""
    recipe, cells, blocks, _ = made
    notes: list[str] = []
    differ: list[tuple[str, int, str]] = []
    if cells.texts is not None:
        bare = sum(map(bool, itertools.compress(cells.texts, np.diff(blocks[0].indptr) == 0)))
        differ.append((listed(recipe["text"]["columns"]), bare, "texts without a word"))
    if "numbers" in recipe:
        far = _standardised(cells, recipe).abs() > FAR
        what = f"numbers more than {FAR} standard deviations from the mean"
        differ += [(name, int(count), what) for name, count in far.sum().items()]
        notes = _moved(cells, recipe)
    for name, values in _values_of(recipe).items():
        known = {"", *values}
        new = [cell for cell in cells.categories[name] if cell not in known]
        what = f"cells ({listed([*map(short, dict.fromkeys(new))], 3)}) without a category"
        differ.append((name, len(new), what))
    return notes + [f"{name}: {n} {what} of the earlier graph" for name, n, what in differ if n]


def _moved(cells: Cells, recipe: Recipe) -> list[str]:
    """Sentences on columns of numbers whose mean is far from the earlier one."""
    values = _standardised(cells, recipe)
    is_far = (values.mean().abs() > 1) & (values.count() >= LEAST_KNOWN)
    ranks = recipe["numbers"].get("ranks", {})
    of_ranks = extremes.ranked(cells.numbers, ranks).mean()
    earlier = dict(zip(values, recipe["numbers"]["mean"]))
    return [
        f"{name}: the mean {'rank is' if name in ranks else 'is'} {of_ranks[name]:g}, and"
        f" {earlier[name]:g} in the earlier graph, more than a standard deviation away. Check that"
        " the unit is the same."
        for name in values.columns[is_far]
    ]


def marked_columns(recipe: Recipe) -> list[str]:
    """Columns of numbers whose empty cells a feature marks; none in recipes of earlier versions."""
    return recipe.get("numbers", NO_NUMBERS).get("missing", [])


def comma_columns(recipe: Recipe) -> list[str]:
    """Columns of numbers with a decimal comma; none in recipes of earlier versions."""
    return recipe.get("numbers", NO_NUMBERS).get("decimal_comma", [])


def _values_of(recipe: Recipe) -> dict[str, list[str]]:
    """Values of each column of categories."""
    return recipe.get("categories", NO_CATEGORIES)["columns"]


def joined(blocks: Sequence[sp.csr_matrix], recipe: Recipe) -> sp.csr_matrix:
    """All blocks side by side, each divided by its scale in the recipe, which is learnt if absent.

    The scale is the root mean square length of a block's rows; 1 for a block that is alone. Beside
    texts, the other blocks are half as long, since each has few columns.
    """
    if "scales" not in recipe:
        means = [block.multiply(block).sum() / block.shape[0] for block in blocks]
        scales = [float(np.sqrt(mean)) or 1.0 for mean in means] if means[1:] else [1.0]
        texts = sum(kind in recipe for kind in ("text", "parts"))
        beside = BESIDE_TEXT if texts else 1.0
        recipe["scales"] = [*scales[:texts], *(scale / beside for scale in scales[texts:])]
    scaled = [block / scale for block, scale in zip(blocks, recipe["scales"])]
    found = sp.hstack(scaled, format="csr")
    found.eliminate_zeros()
    if not found.nnz:
        raise InputError.plain(
            "features",
            f"all {found.shape[1]} features of all nodes are zero",
            "Choose columns with more than one value",
        )
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
        if values.notna().any() and (np.abs(values) >= LARGEST).sum() == len(wrong)
    ]
    return [name for name in found if not is_counter(table[name])] or found


def on_nearly_numbers(table: pandas.DataFrame, names: Sequence[str]) -> list[str]:
    """What keeps each of some columns, most of whose cells are numbers, from being read as such."""
    told = []
    for name in names:
        values, wrong = parsed(table[name])
        mixed = units.several(wrong)
        with_comma = sum(map(units.has_comma, wrong))
        is_near = values.notna().sum() + with_comma > len(wrong) - with_comma
        if wrong and (mixed or is_near):
            cells = counted(len(wrong), "cell")
            line = f"{name} is not read as numbers because of {cells} such as {wrong[0]!r}"
            if mixed:
                line += f", with the units {listed(mixed, 5)}"
            elif units.two_readings(wrong):
                line += f": write {' or '.join(units.two_readings(wrong))}"
            told.append(line)
    return told


def present(cells: Sequence[str], role: str = "categories") -> list[str]:
    """Cells of categories or numbers, empty in the place of each word for a missing one."""
    missing = NO_NUMBER if role == "numbers" else NO_CATEGORY
    return ["" if cell.lower() in missing else cell for cell in cells]


def values(cell: Any) -> np.ndarray:
    """The numbers of a list, an array or a tensor, which may be one that was trained."""
    return np.ravel(cell.tolist() if hasattr(cell, "detach") else cell)


def documents(table: pandas.DataFrame, columns: Sequence[str]) -> list[str]:
    """The texts of some columns, joined for each node by line breaks."""
    cells_of_nodes = zip(*(texts(column(table, name, "text")) for name in columns))
    return ["\n".join(filter(None, cells)) for cells in cells_of_nodes]


def column(table: pandas.DataFrame, name: str, option: str) -> pandas.Series:
    """A column that an option names; if there is none, the error names similar ones, or all."""
    if name in table:
        return table[name]
    names = [*filter(None, table)]
    several = [part.strip() for part in name.split(",")]
    hint = did_you_mean(name, names, f"Its columns are {listed(names, 20)}")
    if len(several) > 1 and {*several} <= {*names}:
        hint = f"Give several columns as a list: {several}"
    raise InputError.plain(option, f"the table has no column {name!r}", hint)


def categories_of(table: pandas.DataFrame, name: str) -> list[str]:
    """The cells of a column of categories, empty in the place of each word for a missing one."""
    return present(texts(column(table, name, "categories")))


def _vocabulary(cells: Sequence[str], options: TextOptions) -> tuple[Recipe, sp.csr_matrix]:
    """The words to learn from texts, and the bag of words of each text."""
    vectoriser = _words(
        max_features=options.max_words, min_df=options.min_nodes, stop_words="english"
    )
    try:
        bag = vectoriser.fit_transform(_shown(cells, "counting words"))
    except ValueError as error:
        raise InputError.plain(
            "text",
            f"no word but common English ones occurs in {counted(options.min_nodes, 'node')}",
            "Choose a column of text",
            "rare_words",
        ) from error
    return _learnt(vectoriser), bag


def _small(text: str) -> str:
    """A text in small letters, after which words of mixed case such as ``readFile`` stand again,
    divided."""
    if not CHANGE_OF_CASE.search(text):
        return text.lower()
    mixed = [word for word in OF_WORD.findall(text) if CHANGE_OF_CASE.search(word)]
    return "\n".join([text, *(CHANGE_OF_CASE.sub(" ", word) for word in mixed)]).lower()


def _words(**options: Any) -> TfidfVectorizer:
    """Counts words; the second occurrence in a text has less weight than the first."""
    return TfidfVectorizer(preprocessor=_small, token_pattern=WORD, sublinear_tf=True, **options)


def _parts_of_words(**options: Any) -> TfidfVectorizer:
    """Counts three letters that follow each other, with a blank before and after each word.

    They tell languages, endings and compounds where two short texts have no word in common.
    """
    return TfidfVectorizer(
        preprocessor=_small,
        analyzer="char_wb",
        ngram_range=(LETTERS, LETTERS),
        sublinear_tf=True,
        **options,
    )


def _learnt(vectoriser: TfidfVectorizer) -> Recipe:
    """What gives other texts the same features."""
    words = vectoriser.get_feature_names_out().tolist()
    return {"words": words, "idf": vectoriser.idf_.tolist()}


def _learnt_of_numbers(values: pandas.DataFrame) -> Recipe:
    """What gives other numbers ``[V, F]`` the same features."""
    ranks = extremes.learn(values)
    scaled = extremes.ranked(values, ranks)
    std = scaled.std(ddof=0).fillna(0).replace(0, 1)
    learnt: Recipe = {"mean": [*scaled.mean().fillna(0)], "std": [*std]}
    if len(values) < LARGE:
        pieces = piecewise.learn(values)
        learnt |= {"pieces": pieces, "piece_means": [*piecewise.encoded(values, pieces).mean()]}
    missing = values.isna().sum()
    marked = missing[(missing >= LEAST_MISSING) & (missing < len(values))]
    if ranks:
        learnt["ranks"] = ranks
    if len(marked):
        learnt["missing"] = [*marked.index]
    return learnt


def _shown(cells: Sequence[str], name: str) -> Iterator[str]:
    """Texts whose number displays of progress show."""
    progress.doing(name, 0.8)
    for block in progress.steps(-(-len(cells) // BLOCK)):
        yield from cells[block * BLOCK : (block + 1) * BLOCK]


def _counted_by(vectoriser: TfidfVectorizer, learnt: Recipe, cells: Sequence[str]) -> sp.csr_matrix:
    """What a vectoriser with the words of a recipe counts in texts."""
    vectoriser.idf_ = np.array(learnt["idf"])
    return vectoriser.transform(cells)


def _standardised(cells: Cells, recipe: Recipe) -> pandas.DataFrame:
    """Standardised numbers or ranks ``[V, F]`` with NaN for an empty cell."""
    learnt = recipe["numbers"]
    # Recipes of earlier versions have no ranks.
    scaled = extremes.ranked(cells.numbers, learnt.get("ranks", {}))
    return (scaled - learnt["mean"]) / learnt["std"]


def _pieces(cells: Cells, recipe: Recipe) -> pandas.DataFrame:
    """Piecewise-linear encoding of numbers ``[V, F]``, without its mean; 0 for an empty cell."""
    # Recipes of earlier versions and of large tables have no pieces.
    learnt = recipe["numbers"]
    found = piecewise.encoded(cells.numbers, learnt.get("pieces", {}))
    return (found - learnt.get("piece_means", [])).fillna(0)


def _numbers(
    table: pandas.DataFrame, columns: Sequence[str], commas: Collection[str] = ()
) -> pandas.DataFrame:
    """Columns of numbers ``[V, F]`` with NaN for an empty cell.

    ``commas`` are columns whose commas are known to be decimal.
    """
    found = {}
    for name in columns:
        found[name], wrong = parsed(column(table, name, "numbers"), name in commas)
        if wrong:
            cells = f"{name}: {counted(len(wrong), 'cell')}"
            two = units.two_readings(wrong)
            if two:
                raise InputError.plain(
                    "numbers",
                    f"{cells} may be read in two ways, for example {wrong[0]!r} as"
                    f" {' or as '.join(two)}",
                    f"Write {two[0]} if the comma is a decimal mark, and {two[1]} if it separates"
                    " thousands",
                )
            hint = (
                "Write numbers such as 1.5 or 1500, leave a cell without a number empty, or name a"
                " column of words in `text` or `categories`"
            )
            mixed = units.several(wrong)
            if all(map(units.ONE_COMMA.fullmatch, wrong)):
                hint = "Write all numbers with a point and without a unit, such as 1.5"
            if dates.read(wrong):
                hint = "These are dates: name the column in `date`"
            if mixed:
                hint = f"Write all in one of the units {listed(mixed, 5)}"
            raise InputError.plain(
                "numbers",
                f"{cells} cannot be used as a number, for example {wrong[0]!r}",
                hint,
            )
    return pandas.DataFrame(found)


def parsed(
    cells: pandas.Series, has_decimal_comma: bool = False
) -> tuple[pandas.Series, list[str]]:
    """Numbers ``[V]``, NaN for an empty cell, and the cells that are no number or too large.

    ``has_decimal_comma`` = commas are known to be decimal.
    """
    if cells.dtype.kind in NUMERIC:
        given = written = cells.astype(float)
    else:
        given = pandas.Series(present(texts(cells), "numbers"), cells.index, dtype=object)
        plain = units.plain(units.with_point([*given], has_decimal_comma))
        written = pandas.Series(plain, cells.index, dtype=object)
    values = pandas.to_numeric(written, errors="coerce").astype(float)
    wrong = ~(np.abs(values) < LARGEST) & (written != "") & written.notna()
    return values, [*map(str, given[wrong])]


def decimal_points(
    name: str, cells: Sequence[str], is_decimal: bool = False
) -> tuple[list[str], list[str]]:
    """Cells of a column with a point for a decimal comma, and a note if that changes them.

    ``is_decimal`` = commas are known to be decimal.
    """
    points = units.with_point(cells, is_decimal)
    return points, changes(name, cells, points, "numbers with a decimal comma")


def _has_decimal_comma(cells: pandas.Series) -> bool:
    """Whether the cells of a column of numbers have a decimal comma."""
    if cells.dtype.kind in NUMERIC:
        return False
    known = present(texts(cells), "numbers")
    return units.with_point(known) != known

"""From frames of nodes and links to a graph, for ``data make`` and ``from_frames``.

``look`` chooses columns by names and cells, and says which; ``graph`` makes the graph.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Collection, Mapping, NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp

from graphgym_srnc.core.text import counted, listed, one_line
from graphgym_srnc.data import features, labels, limits, names, read, readings
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.data.read import NAMELESS, is_counter
from graphgym_srnc.errors import Collected, InputError

SAME_PART = {"valid": "val", "validation": "val", "training": "train", "testing": "test"}
ROLES = {"text": "text", "numbers": "number", "categories": "category"}  # by kind in a recipe
COLUMNS = ("text", "numbers", "categories")  # options that name columns of features
USES = {"id": "ids from", "label": "classes from", "split": "split from", "text": "text from"}
USES |= {"number": "numbers from", "category": "categories from", "url": "web addresses from"}
USES["not read:"] = "not read:"
NOTHING: features.Recipe = {"columns": ()}
NONE = "none"  # name of the column of labels if there is none
MASK = re.compile(r"(train|val|valid|test)_mask")
MANY = 10  # number of pairs above which a list of all pairs is no usual graph
ALL_PAIRS = 0.9  # share of the pairs of nodes that makes a list of all pairs
FEW = 4  # maximum number of classes that may have one label each, as when labelling begins


class Options(NamedTuple):
    """Options of ``graphgym_srnc.from_frames``; empty = chosen by names and cells."""

    id: str | None = None  # "" = the index of a frame, or the column without a name
    label: str = ""
    split: str = ""
    ends: Sequence[str] = ()
    text: Sequence[str] = ()
    numbers: Sequence[str] = ()
    categories: Sequence[str] = ()
    url: str = ""  # web addresses of the nodes
    spectral: int = 0
    like: features.Recipe | None = None  # of an earlier graph
    skip_missing: bool = False
    words: features.TextOptions = features.TextOptions()
    header: bool | None = None  # what a first line is that may be names of columns or a row
    in_python: bool = False  # whether messages name arguments of Python

    @property
    def columns(self) -> list[str]:
        """Columns of features that are named here or by the recipe of an earlier graph."""
        recipe = self.like or {}
        earlier = [name for kind in COLUMNS for name in recipe.get(kind, NOTHING)["columns"]]
        return [*self.text, *self.numbers, *self.categories, *earlier]

    def named(self, name: str, value: str | bool | Sequence[str] | None = None) -> str:
        """An option as the user writes it: ``--label none``, or ``label='none'`` in Python."""
        if self.in_python:
            return name if value is None else f"{name}={value!r}"
        words = [value] if isinstance(value, str) else value
        words = words if isinstance(words, Sequence) else []
        return shlex.join([f"--{name.replace('_', '-')}", *words])


@dataclass
class Look:
    """What a node table and its links hold, as far as they could be read."""

    files: tuple[str, str]  # names of the two tables
    options: Options = Options()
    table: pandas.DataFrame = field(default_factory=pandas.DataFrame)  # kept rows of nodes
    rows: pandas.Index = field(default_factory=lambda: pandas.Index([]))  # of the file's nodes
    roles: dict[str, str] = field(default_factory=dict)  # use of each column
    labels: list[str] | None = None  # [V], empty for none, as are the parts of the split
    parts: list[str] | None = None  # of all rows at first
    likely: list[str] = field(default_factory=list)  # columns that may be of labels
    edges: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))
    recipe: features.Recipe = field(default_factory=dict)
    chosen: list[str] = field(default_factory=list)  # which columns are read
    notes: list[str] = field(default_factory=list)  # what was corrected or left out, and warnings
    problems: Collected = field(default_factory=Collected)  # errors that the user must fix first

    def name(self, role: str) -> str:
        """The one column with a role; empty = there is none."""
        return next((name for name, own in self.roles.items() if own == role), "")

    def column(self, role: str) -> list[str] | None:
        """The cells of the one column with a role; None = there is none."""
        name = self.name(role)
        has_it = role in self.roles.values() and name in self.table  # an index has no name
        return texts(self.table[name]) if has_it else None

    @property
    def ids(self) -> list[str]:
        return labels.whole_numbers(self.column("id") or [])


def look(
    found: Look, nodes: pandas.DataFrame, links: pandas.DataFrame, others: bool = False
) -> Look:
    """Choose columns, clean labels and connect nodes; what is wrong is collected, not raised.

    ``found`` is filled and returned. ``nodes`` and ``links``, which are empty if they could not be
    read, may be sheets whose first line is a header or not. ``others`` = there are features beside
    those of columns and of links.
    """
    limits.check_columns(nodes.shape[1], "nodes")
    step = found.problems.step
    with step():
        table = readings.named(nodes, found.files[0], found.options, found.notes)
        found.rows = table.index
        found.table = _without_lists(found, table.reset_index(drop=True))
    if not len(found.rows):
        return found
    _find_named(found)
    pairs, reading = _read_links(found, links) if len(links) else (links, None)
    _find_id(found, reading)
    for each in (_find_split, _find_label, _one_row_for_each_id):
        with step():
            each(found)
    # Else no id may be right, or links to nodes without an id would look wrong.
    is_clear = all(error.key != "--id" for error in found.problems.errors) and all(found.ids)
    if reading is not None and is_clear:
        with step():
            _connect(found, pairs, reading)
    for each in (_read_labels, partial(_find_features, others=others), _tell_columns):
        with step():
            each(found)
    return found


def _read_links(
    found: Look, sheet: pandas.DataFrame
) -> tuple[pandas.DataFrame, readings.Reading | None]:
    """A row for each link, and which of its columns hold ids of which column of nodes."""
    links = pandas.DataFrame()
    reading = None
    with found.problems.step():
        links = readings.links(sheet, found.table, found.files[1], found.options, found.notes)
    if readings.ALL in found.options.ends:  # two columns are left
        found.options = found.options._replace(ends=())
    if len(links):
        several = readings.readings(found.table, links, found.options)
        _check_order(found, links, bool(several))
        with found.problems.step():
            reading = readings.choose(several, found.table, links, found.options, found.files)
            if reading.id is None:
                _number_rows(found, reading)
    return links, reading


def graph(found: Look, extra: np.ndarray | None = None) -> Graph:
    """The graph of what ``look`` found, perhaps with ``extra`` features ``[rows, D]``."""
    found.problems.check()
    recipe, table, options = found.recipe, found.table, found.options
    own = {"embedding": extra[table.index]} if extra is not None else {}
    if options.spectral:
        own["spectral"] = features.spectral(found.edges, len(table), options.spectral)
    blocks, columns = features.apply(recipe, table)
    for kind, array in own.items():
        blocks.append(sp.csr_matrix(array))
        columns += [f"{kind} {number}" for number in range(array.shape[1])]
    widths = [block.shape[1] for block in blocks]
    if widths != recipe.setdefault("widths", widths):
        message = f"this graph has {widths} features, the earlier one {recipe['widths']}"
        also = " and --embeddings" * (not options.in_python)
        raise InputError.plain("--like", message, f"Give the same columns{also}")
    joined = features.joined(blocks, recipe)
    recipe["spectral"] = options.spectral
    text = features.documents(table, recipe["text"]["columns"]) if "text" in recipe else None
    words, ids = [*map(one_line, columns)], features.as_written(table[found.name("id")])
    made = Graph(found.edges, joined, words, ids, text, found.labels, found.parts, recipe)
    return made._replace(urls=texts(table[options.url]) if options.url else None)


def _without_lists(found: Look, table: pandas.DataFrame) -> pandas.DataFrame:
    """A table in which a column of lists of numbers is a column for each place in them."""
    options = found.options
    for name in [name for name in table if read.is_list(table[name])]:
        rows = [features.values(cell) for cell in table.pop(name)]
        widths = {len(row) for row in rows}
        if len(widths) > 1 or rows[0].dtype.kind not in features.NUMERIC:
            table[name] = [", ".join(map(str, row)) for row in rows]
            continue
        columns = [f"{name} {place}" for place in range(len(rows[0]))]
        values = pandas.DataFrame(np.stack(rows).astype(float), table.index, columns)
        table = pandas.concat([table, values], axis=1)
        given = [columns if each == name else [each] for each in options.numbers]
        options = options._replace(numbers=[each for names in given for each in names])
    found.options = options
    return table


def _find_named(found: Look) -> None:
    """Roles that the options name."""
    table, options = found.table, found.options
    for option in ("id", "split", "label", "url"):
        name = getattr(options, option)
        if name and (option, name) != ("label", NONE):
            with found.problems.step():
                features.column(table, name, f"--{option}")
    found.roles |= dict.fromkeys(options.text, "text")
    found.roles |= dict.fromkeys(options.categories, "category")
    found.roles |= dict.fromkeys(options.numbers, "number")
    if options.url in table and options.url not in (found.name("id"), options.label, options.split):
        with found.problems.step():
            _check_addresses(texts(table[options.url]), options.url)
        found.roles.setdefault(options.url, "url")


def _check_addresses(cells: Sequence[str], name: str) -> None:
    """Refuse a column in which a cell is neither empty nor a web address."""
    for row, cell in enumerate(cells):
        if cell and not names.ADDRESS.fullmatch(cell):
            message = f"row {row} of the column {name} is {cell[:60]!r}, not a web address"
            raise InputError.plain("--url", message, "Write addresses that begin with https://")


def _hold_addresses(cells: pandas.Series) -> bool:
    """Whether all cells that are not empty are web addresses, and there are some."""
    written = [*filter(None, texts(cells))]
    return bool(written) and all(map(names.ADDRESS.fullmatch, written))


def _number_rows(found: Look, reading: readings.Reading) -> None:
    """Tell that links count the rows, whose numbers are ids if no column of a usual name is."""
    where = f"{found.files[1]}: the ends {listed(reading.ends)}"
    found.notes.append(f"{where} are row numbers of {found.files[0]}, from {reading.base}")
    unique = found.table[readings.candidates(found.table)]
    if found.options.id is not None:
        return
    if name := readings.usual(unique, (*readings.IDS, "name")):
        found.roles[name] = "id"
    else:
        numbers = [str(reading.base + place) for place in found.table.index]
        found.table.insert(0, "row number", numbers, allow_duplicates=False)
        found.roles["row number"] = "id"


def _find_id(found: Look, reading: readings.Reading | None) -> None:
    """The column of ids, by links or else by names, and options that name it otherwise."""
    table, options = found.table, found.options
    if not found.name("id"):
        id = reading.id if reading is not None else None
        found.roles[readings.usual_ids(table, options) if id is None else id] = "id"
    id, split = found.name("id"), options.split or readings.usual(table, ("split",))
    named: dict[str, Sequence[str]] = {"label": [options.label], "split": [options.split]}
    named |= {"numbers": options.numbers, "categories": options.categories}
    for option in (option for option in named if id and id in named[option]):
        with found.problems.step():
            hint = f"Choose another column, or name the column of ids with {options.named('id')}"
            raise InputError.plain(f"--{option}", f"{id} is the column of ids", hint)
    for option in COLUMNS:
        for role, name in (("labels", options.label), ("split", split)):
            if name and name in getattr(options, option):
                with found.problems.step():
                    message = f"the column {name} holds the {role}"
                    raise InputError.plain(f"--{option}", message, "Leave it out")


def _find_split(found: Look) -> None:
    """The parts of the split: of a column, named or recognised by its cells, or of masks."""
    table, options = found.table, found.options
    masks = {name: mask[1] for name in table if (mask := MASK.fullmatch(name.lower()))}
    name = options.split or readings.usual(table, ("split",))
    if masks and not name:
        found.roles |= dict.fromkeys(masks, "split")
        found.parts = _parts_of_masks(found, masks)
        return
    free = [other for other in table if other not in found.roles and other != options.label]
    likely = [other for other in free if _is_split(texts(table[other]))]
    if not name and len(likely) > 1:
        ways = " or ".join(options.named("split", other) for other in likely)
        message = f"several columns hold parts of a split: {listed(likely)}"
        raise InputError.plain("--split", message, f"Choose one with {ways}")
    if name := name or "".join(likely):
        found.roles[name] = "split"
        words = [cell.lower() for cell in texts(table[name])]
        found.parts = [SAME_PART.get(word, word) for word in words]


def _is_split(cells: Sequence[str]) -> bool:
    """Whether all cells are words for parts of a split, of two parts or more."""
    words = {cell.lower() for cell in cells} - {""}
    return len(words) > 1 and words <= {*SAME_PART, *labels.PARTS}


def _parts_of_masks(found: Look, masks: Mapping[str, str]) -> list[str]:
    """The part of each node by masks of true and false, given by the names of their columns."""
    wrong = {name for name in masks if features.parsed(found.table[name])[1]}
    values = pandas.DataFrame({name: features.parsed(found.table[name])[0] for name in masks})
    inside = values == 1
    if wrong or not (inside | values.isna() | (values == 0)).all(axis=None):
        message = f"the masks {listed([*masks])} have other values than true and false, or 1 and 0"
        raise InputError.plain("--split", message, "Write true or false for each node")
    if (twice := inside.sum(axis=1) > 1).any():
        message = f"the node {found.ids[int(np.argmax(twice))]} is in two of {listed([*masks])}"
        raise InputError.plain("--split", message, "Put each node into one part")
    parts = pandas.Series(masks).map(lambda part: SAME_PART.get(part, part))
    return [*inside.dot(parts)]


def _check_order(found: Look, links: pandas.DataFrame, is_clear: bool) -> None:
    """Refuse, with this error alone, a list of links that was given as the node table."""
    options, nodes = found.options, {*found.table}
    named = {options.id, options.label, options.split, *options.columns} - {None, "", NONE, "*"}
    has_named = bool(named) and named <= {*links} and not named & nodes
    has_named &= not readings.usual(found.table, readings.IDS)
    if has_named or (not is_clear and readings.readings(links, found.table, Options())):
        found.problems.errors.clear()
        message = f"it looks like the list of links, and {found.files[1]} like the node table"
        raise InputError.plain(found.files[0], message, "Give the node table first")


def _one_row_for_each_id(found: Look) -> None:
    """Leave out rows that occur twice."""
    table, file = found.table, found.files[0]
    ids = pandas.Series(found.ids, dtype=object)
    words = ids.str.lower().isin(labels.EMPTY) & ids.duplicated(keep=False)
    if len(blank := ids.index[(ids == "") | words]):
        message = f"{counted(len(blank), 'node')} without an id: {_places(found, blank)}"
        hint = "Write an id there, or remove these rows"
        raise InputError.plain(file, message, hint)
    compared = table.columns[[bool(name or not found.name("id")) for name in table]]
    repeated = table.loc[ids.duplicated(keep=False), compared].astype(str)
    found.table = table.drop(repeated.index[repeated.duplicated()])
    ids = ids[found.table.index]
    if ids.duplicated().any():
        named = ids[ids.duplicated()].unique()
        of_first = _places(found, ids.index[ids == named[0]])
        message = f"{counted(len(named), 'id')} used for several nodes: {named[0]!r} in {of_first}"
        if others := [*map(repr, named[1:])]:
            message += f"; also {listed(others, 4)}"
        hint = "Give each node its own id, or name another column of ids with"
        raise InputError.plain(file, message, f"{hint} {found.options.named('id')}")
    if count := len(table) - len(ids):
        found.notes.append(f"{file}: {counted(count, 'row')} merged: equal to another row")


def _places(found: Look, rows: pandas.Index) -> str:
    """Where rows of the node table are, for example ``lines 2 and 7`` of its file."""
    word, places = found.rows.name or "row", found.rows[rows]
    if not found.rows.name and not found.options.in_python:
        places += 1
    text = f"{word}{'s' * (len(rows) > 1)} {listed([*map(str, places)], 3)}"
    return text + " (counted from 0)" * found.options.in_python


def _connect(found: Look, links: pandas.DataFrame, reading: readings.Reading) -> None:
    """Read the links, and tell which columns of them are read."""
    file, chosen = found.files[1], reading.ends
    place = pandas.Index(found.ids, dtype=object).unique()
    if reading.id is None:
        place = pandas.Index([str(number + reading.base) for number in found.table.index])
    unread = [name for name in links if name not in chosen and not NAMELESS.fullmatch(name)]
    rest = f"; not read: {listed(unread)}; edge weights are not used" * bool(unread)
    found.chosen.append(f"{file}: links join the columns {listed(chosen)}{rest}")
    cells = [readings.cells(links, name) for name in chosen]
    pairs = np.array([place.get_indexer(pandas.Index(column, dtype=object)) for column in cells])
    kept = _not_zero(found, pairs, links, unread, chosen)
    pairs, links = pairs[:, kept], links[kept]
    strange = pairs < 0
    found.edges = pairs[:, ~strange.any(0)].astype(np.int64)
    is_shifted = reading.id is not None and (pairs == 1).any() and not (pairs == 0).any()
    if is_shifted and place[0] == "0" and is_counter(place.to_series()):
        wrong = "no link names the id 0. If its ids count from 1, they name wrong nodes: subtract 1"
        found.notes.append(f"{file}: {wrong}.")
    if strange.any():
        _tell_unknown(found, links, reading, strange, place)
    if not (found.edges[0] != found.edges[1]).any() and not found.problems.errors:
        raise InputError.plain(file, "no link joins two nodes", "Give at least one link")


def _not_zero(
    found: Look,
    pairs: np.ndarray,
    links: pandas.DataFrame,
    unread: Sequence[str],
    ends: Sequence[str],
) -> np.ndarray:
    """Which rows are links: in a list of all pairs of nodes, those of another value than 0.

    Raises:
        InputError: half of the values or more are 0 in another list, or it lists all pairs.
    """
    pair = np.sort(pairs[:, pairs[0] != pairs[1]], axis=0)
    least = ALL_PAIRS * len(found.table) * (len(found.table) - 1) / 2
    is_full = pair.shape[1] >= least > MANY and np.unique(pair, axis=1).shape[1] >= least
    file = found.files[1]
    zeros = {}
    for name in (name for name in unread if not is_counter(links[name])):
        values, wrong = features.parsed(links[name])
        if not wrong and (values == 0).any() and (values.dropna() != 0).any():
            zeros[name] = (values == 0).to_numpy()
    told = {
        name: f"{name} is 0 in {is_zero.sum():,} of {len(links):,} rows"
        for name, is_zero in zeros.items()
    }
    if is_full and len(zeros) == 1:
        (name, is_zero) = zeros.popitem()
        why = "which are no links, since all pairs of nodes are listed"
        found.notes.append(f"{file}: {told[name]}, {why}")
        return ~is_zero
    if is_full and unread:
        message = f"it lists all pairs of nodes, and {listed(unread)} may say which are links"
        hint = "Leave out the pairs that are no links, or write 0 there"
        raise InputError.plain(file, message, hint)
    for name, is_zero in zeros.items():
        if is_zero.mean() >= 0.5 and not found.options.ends:
            keep = found.options.named("ends", ends)
            hint = f"Leave out those that mean no link, or keep all with {keep}"
            raise InputError.plain(file, told[name], hint)
        found.notes.append(f"{file}: {told[name]}; leave out those that mean no link")
    return np.ones(len(links), dtype=bool)


def _tell_unknown(
    found: Look,
    links: pandas.DataFrame,
    reading: readings.Reading,
    strange: np.ndarray,
    place: pandas.Index,
) -> None:
    """Refuse links with ends that are no ids, or tell that they are left out."""
    cells = [readings.cells(links, name) for name in reading.ends]
    unknown = dict.fromkeys(cells[end][link] for link, end in np.argwhere(strange.T).tolist())
    named = listed([repr(id) if id else "an empty cell" for id in unknown], 3)
    count = int(strange.any(0).sum())
    if found.options.skip_missing:
        found.notes.append(f"{counted(count, 'link')} to unknown ids left out: {named}")
        return
    others = readings.readings(found.table, links, found.options._replace(id=None))
    full = [one.id for one in others if one.share == 1 and one.id not in (None, reading.id)]
    full = [id for id in full if found.table[id].dtype.kind != "f"]
    hint = _hint(found, {*unknown}, place, full)
    is_other = bool(full or readings.by_place(found.table, links, found.options))
    if 2 * count <= len(links) and not is_other:  # else the ids are of another kind
        hint += f", or leave out these links with {found.options.named('skip_missing', True)}"
    if found.options.like is not None:
        hint += ". Add the earlier nodes that new ones link to"
    message = f"{count:,} of {len(links):,} links name ids that are not in the node table: {named}"
    raise InputError.plain(found.files[1], message, hint)


def _hint(found: Look, unknown: set[str], place: pandas.Index, full: Sequence[str | None]) -> str:
    """What to do about unknown ids, of which ``full`` columns have all."""
    option, name = found.options.named, found.name("id")
    own = f"column {name}" if name else "index"
    about = f"The ids are taken from the {own}, which has {listed([*map(repr, place)], 3)}."
    if unknown == {""}:
        return "Write an id there"
    if name in unknown - {""}:
        first = f"The first line of {found.files[0]} is read as names of columns"
        return f"{first}, and {name} is an id. Write a line of names above it"
    if differ := names.alike([*filter(None, unknown)], place):
        return f"{about}{differ} Write them alike in both tables"
    if full:
        return f"The column {full[0]} holds such ids; name it with {option('id', full[0])}"
    return (
        f"{about} Fix the ids, or name the columns of ids with {option('id')} and {option('ends')}"
    )


def _find_label(found: Look) -> None:
    """The column of labels, named, or of a usual name and with cells that may be classes."""
    table, options = found.table, found.options
    named = options.label
    if named and (named not in table or found.roles.get(named) == "id"):
        return
    free = table[[name for name in table if name == named or name not in found.roles]]
    sizes = {
        name: Counter(cell for cell in texts(column) if cell and cell.lower() not in labels.MISSING)
        for name, column in free.items()
    }
    usual = [name for each in labels.COLUMNS if (name := readings.usual(free, (each,)))]
    if options.like is not None:  # a later table needs no labels
        usual = [name for name in usual[:1] if name.lower() == labels.COLUMNS[0]]
    usual = (
        [named]
        if named
        else [name for name in usual if sizes[name] and not _is_measure(table, name, sizes[name])]
    )
    fit = [
        name
        for name in usual
        if len(sizes[name]) <= FEW or sizes[name].total() >= 2 * len(sizes[name])
    ]
    fit = [name for name in fit if len(sizes[name]) > 1] or fit
    is_clear = fit and (len(fit) == 1 or fit[0].lower() in labels.COLUMNS[: labels.CLEAR])
    if is_clear:
        found.roles[fit[0]] = "label"
        return
    found.likely = likely = [
        f"{name} ({len(sizes[name])} values)" for name in fit or _likely(table, sizes)
    ]
    if named or options.like is None and (likely and not options.in_python or usual):
        message, again, none = "no column is named label", "", options.named("label", NONE)
        if fit:
            message = f"several columns may hold the classes: {listed(fit)}"
        elif usual:
            message = f"the {len(sizes[usual[0]]):,} values of {usual[0]} hardly repeat"
            again = "; label two nodes of each class or more" * bool(named)
        elif "1" in table:
            message = f"{found.files[0]} has no header, and columns are 1, 2, ..."
        hint = f"Name the column of classes{f', perhaps {listed(likely, 4)}' * bool(likely)}"
        raise InputError.plain("--label", message, f"{hint}{again}; or give {none}")


def _likely(table: pandas.DataFrame, sizes: dict[str, Counter[str]]) -> list[str]:
    """Columns that may hold the classes: words, or else numbers, that repeat."""
    likely = [
        name
        for name, size in sizes.items()
        if 2 <= len(size) <= 100 and size.total() >= 5 * len(size) and not NAMELESS.fullmatch(name)
    ]
    plain = [name for name in likely if not _is_measure(table, name, sizes[name])]
    words = [name for name in plain if not all(cell.isdecimal() for cell in sizes[name])]
    return words or plain


def _is_measure(table: pandas.DataFrame, name: str, values: Collection[str]) -> bool:
    """Whether a column holds a coordinate, or numbers with a fraction."""
    numbers = pandas.to_numeric([*values], errors="coerce")
    is_axis = name.lower() == "y" and bool(readings.usual(table, ("x", "z")))
    return not np.isnan(numbers).any() and (is_axis or bool((numbers % 1 != 0).any()))


def _read_labels(found: Look) -> None:
    """Clean the labels, and check the split."""
    if found.parts is not None:  # of the rows that are kept
        found.parts = [found.parts[row] for row in found.table.index]
    cells = found.column("label")
    if cells is not None:
        held = [part in labels.PARTS[1:] for part in found.parts or ()]
        found.labels, notes = labels.cleaned(cells, found.name("label"), held)
        found.notes += notes
    elif found.options.like is None and found.options.label != NONE and not found.problems.errors:
        maybe = f", perhaps {listed(found.likely, 4)}" * bool(found.likely)
        names = listed([*filter(None, found.table)], 10)
        hint = f"Set {found.options.named('label', 'COLUMN')} if there is one{maybe}"
        found.notes.append(f"No column of labels was found (columns: {names}). {hint}.")
    if found.parts is not None:
        labels.check_parts(found.parts, found.ids, "--split")


def _find_features(found: Look, others: bool) -> None:
    """Learn the recipe of features, or read it."""
    options, table, numbers = found.options, found.table, found.options.numbers
    if numbers == ["*"]:
        found.roles.pop("*")
        numbers = features.number_columns(table, [*found.roles])
        found.roles |= dict.fromkeys(numbers, "number")
    if options.like is not None:
        found.recipe = recipe = dict(options.like)
        kinds = [kind for kind in ROLES if kind in recipe]
        roles = {name: ROLES[kind] for kind in kinds for name in recipe[kind]["columns"]}
        if absent := [name for name in roles if name not in table]:
            columns = f"the column{'s' * (len(absent) > 1)} {listed(absent)}"
            message = f"the earlier graph was made from {columns}, which {found.files[0]} lacks"
            raise InputError.plain("--like", message, f"Its columns are {readings.listing(table)}")
        if recipe.get("spectral"):
            message = "spectral features cannot be made for another graph"
            hint = f"Use a graph without {options.named('spectral')}"
            raise InputError.plain("--like", message, hint)
        found.roles = roles | found.roles
        found.notes += features.drift(recipe, table)
    else:
        chosen = options.text, options.words, numbers, options.categories
        found.recipe = features.learn(table, *chosen)
        if as_words := features.number_columns(table[[*options.text]], ()):
            kind = f"holds numbers, which are read as words. Name it in {options.named('numbers')}"
            found.notes += [f"{name} {kind}." for name in as_words]
        for name in options.categories:
            if (values := table[name].astype(str).nunique()) > len(table) / 2:
                kind = f"has {values:,} values for {len(table):,} nodes, and each is a feature"
                found.notes.append(f"{name} {kind}. Name a text in {options.named('text')}.")
    if not (found.recipe or others or options.spectral):
        *kinds, spectral = map(options.named, (*COLUMNS, "spectral"))
        hint = f"Choose columns with {' or '.join([', '.join(kinds[:2]), kinds[2]])}"
        hint += ", or give --embeddings" * (not options.in_python)
        hint += f"; {spectral} makes them from the links alone"
        raise InputError.plain(
            "features", f"no column is chosen of {readings.listing(table)}", hint
        )


def _tell_columns(found: Look) -> None:
    """What each column is used for, and words for missing cells."""
    table, roles = found.table, found.roles
    uses: dict[str, list[str]] = {role: [] for role in USES}
    kinds, new = listed([*map(found.options.named, COLUMNS)]), found.options.like is None
    in_python = found.options.in_python  # where the index has no name
    for name, cells in table.items():
        role = roles.get(name, "not read:")
        if role in ("number", "category"):
            written, known = texts(cells), features.present(texts(cells), role)
            found.notes += labels.changes(name, written, known, "empty")
            if role == "number" and cells.dtype.kind != "b":
                found.notes += labels.changes(name, known, features.truth(known), "numbers")
        is_index = not name and (in_python or is_counter(cells)) or name.startswith("Unnamed: ")
        if name in roles or not is_index:
            uses[role].append(name or ("the index" if in_python else "the unnamed column"))
        if role == "not read:" and not in_python and _hold_addresses(cells):
            links = found.options.named("url", name)
            found.notes.append(f"{name} holds web addresses. With {links} pages link to them.")
    hint = f" ({kinds} read columns)" * (new and bool(uses["not read:"]))
    if found.options.in_python and (unread := uses.pop("not read:")):
        s, are, it = ("s", "are", "them") if unread[1:] else ("", "is", "it")
        hint = f" Add {it} to numbers, text or categories, or drop {it}." * new
        found.chosen.append(f"The column{s} {listed(unread)} {are} not used.{hint}")
        hint = ""
    used = [f"{USES[role]} {listed(names)}" for role, names in uses.items() if names]
    found.chosen.append(f"columns: {'; '.join(used)}{hint}")

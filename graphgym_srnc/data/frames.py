"""From frames of nodes and links to a graph, for ``data make`` and ``from_frames``.

``look`` chooses columns by names and cells, and says which; ``graph`` makes the graph.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Callable, Collection, NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp

from graphgym_srnc.core.text import counted, listed, one_line
from graphgym_srnc.data import features, id_columns, labels, limits, names
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.data.read import NAMELESS, is_counter
from graphgym_srnc.errors import Collected, InputError

SAME_PART = {"valid": "val", "validation": "val", "training": "train", "testing": "test"}
ROLES = {"text": "text", "numbers": "number", "categories": "category"}  # by kind in a recipe
COLUMNS = ("text", "numbers", "categories")  # options that name columns of features
USES = {"id": "ids from", "label": "classes from", "split": "split from", "text": "text from"}
USES |= {"number": "numbers from", "category": "categories from", "not read:": "not read:"}
NONE = "none"  # name of the column of labels if there is none
FEW = 4  # maximum number of classes that may have one label each, as when labelling begins


class Options(NamedTuple):
    """Options of ``graphgym_srnc.from_frames``; empty = chosen by names and cells."""

    id: str | None = None  # "" = the index of a frame
    label: str = ""
    split: str = ""
    ends: Sequence[str] = ()
    text: Sequence[str] = ()
    numbers: Sequence[str] = ()
    categories: Sequence[str] = ()
    spectral: int = 0
    like: features.Recipe | None = None  # of an earlier graph
    skip_missing: bool = False
    words: features.TextOptions = features.TextOptions()
    in_python: bool = False  # whether messages name arguments of Python

    def named(self, name: str, value: str | bool = "") -> str:
        """An option as the user writes it: ``--label none``, or ``label='none'`` in Python."""
        if self.in_python:
            return f"{name}={value!r}" if value else name
        return " ".join([f"--{name.replace('_', '-')}", *[str(value)] * (value not in ("", True))])


@dataclass
class Look:
    """What a node table and its links hold, as far as they could be read."""

    files: tuple[str, str]  # names of the two tables
    options: Options = Options()
    table: pandas.DataFrame = field(default_factory=pandas.DataFrame)  # kept rows of nodes
    rows: pandas.Index = field(default_factory=lambda: pandas.Index([]))  # of the file's nodes
    roles: dict[str, str] = field(default_factory=dict)  # use of each column
    labels: list[str] | None = None  # [V], empty for none, as are the parts of the split
    parts: list[str] | None = None
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
    found: Look,
    nodes: pandas.DataFrame,
    read_links: Callable[[pandas.DataFrame], pandas.DataFrame],
    others: bool = False,
) -> Look:
    """Choose columns, clean labels and connect nodes; what is wrong is collected, not raised.

    ``found`` is filled and returned. ``read_links`` gives a row for each link, by the columns that
    may hold ids. ``others`` = there are features beside those of columns and of links.
    """
    limits.check_columns(nodes.shape[1], "nodes")
    step = found.problems.step
    found.rows, found.table = nodes.index, nodes.reset_index(drop=True)
    links = pandas.DataFrame()
    with step():
        links = read_links(found.table[id_columns.candidates(found.table)])
    _find_named(found, links)
    if len(links):
        _check_order(found, links, {*(found.column("id") or ()), *found.ids})
    for each in (_find_label, _one_row_for_each_id):
        with step():
            each(found)
    if len(links):
        # Else no id may be right, or links to nodes without an id would look wrong.
        if all(error.key != "--id" for error in found.problems.errors) and all(found.ids):
            with step():
                _connect(found, links)
    for each in (_read_labels, partial(_find_features, others=others), _tell_columns):
        with step():
            each(found)
    return found


def graph(found: Look, extra: np.ndarray | None = None) -> Graph:
    """The graph of what ``look`` found, perhaps with ``extra`` features ``[rows, D]``."""
    found.problems.check()
    recipe, table, options = found.recipe, found.table, found.options
    own = {"embedding": extra[table.index]} if extra is not None else {}
    if options.spectral:
        own["spectral"] = features.spectral(found.edges, len(table), options.spectral)
    blocks, names = features.apply(recipe, table)
    for kind, array in own.items():
        blocks.append(sp.csr_matrix(array))
        names += [f"{kind} {number}" for number in range(array.shape[1])]
    widths = [block.shape[1] for block in blocks]
    if widths != recipe.setdefault("widths", widths):
        message = f"this graph has {widths} features, the earlier one {recipe['widths']}"
        also = " and --embeddings" * (not options.in_python)
        raise InputError.plain("--like", message, f"Give the same columns{also}")
    joined = features.joined(blocks, recipe)
    recipe["spectral"] = options.spectral
    text = features.documents(table, recipe["text"]["columns"]) if "text" in recipe else None
    words, ids = [*map(one_line, names)], found.column("id") or []  # ids as they are written
    return Graph(found.edges, joined, words, ids, text, found.labels, found.parts, recipe)


def _find_named(found: Look, links: pandas.DataFrame) -> None:
    """Roles that the options name, and the column of ids."""
    table, options = found.table, found.options
    for option in ("id", "split", "label"):
        name = getattr(options, option)
        if name and (option, name) != ("label", NONE):
            with found.problems.step():
                features.column(table, name, f"--{option}")
    found.roles |= dict.fromkeys(options.text, "text")
    found.roles |= dict.fromkeys(options.categories, "category")
    found.roles |= dict.fromkeys(options.numbers, "number")
    if split := options.split or id_columns.usual(table, ("split",)):
        found.roles[split] = "split"
    id = next(iter(table))
    with found.problems.step():
        is_open = options.id is None or options.id not in table
        id = id_columns.id_column(table, links, options) if is_open else str(options.id)
    found.roles[id] = "id"
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


def _check_order(found: Look, links: pandas.DataFrame, ids: set[str]) -> None:
    """Refuse, with this error alone, a list of links that was given as the node table."""

    def has_ends(table: pandas.DataFrame, ids: Collection[str] = ()) -> bool:
        try:
            return bool(id_columns.ends(table, options, "", ids))
        except InputError:
            return False

    options, nodes = found.options, {*found.table}
    named = {options.id, options.label, options.split, *options.text, *options.numbers}
    named = (named | {*options.categories}) - {None, "", NONE, "*"}
    has_named = bool(named) and named <= {*links} and not named & nodes
    is_links = has_ends(found.table)
    if (has_named and (is_links or not id_columns.usual(found.table, id_columns.IDS))) or (
        is_links and id_columns.usual(links, id_columns.IDS) and not has_ends(links, ids)
    ):
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


def _connect(found: Look, links: pandas.DataFrame) -> None:
    """Read the links, and tell which columns of them are read."""
    file, place = found.files[1], pandas.Index(found.ids, dtype=object).unique()
    a, b = chosen = id_columns.ends(links, found.options, file, place)
    unread = [name for name in links if name not in chosen and not NAMELESS.fullmatch(name)]
    rest = f"; not read: {listed(unread)}; edge weights are not used" * bool(unread)
    found.chosen.append(f"{file}: links join the columns {a} and {b}{rest}")
    cells = [id_columns.cells(links, name) for name in chosen]
    pairs = np.array([place.get_indexer(pandas.Index(column, dtype=object)) for column in cells])
    strange = pairs < 0
    earlier = ". Add the earlier nodes that new ones link to" * (found.options.like is not None)
    found.edges, about = pairs[:, ~strange.any(0)].astype(np.int64), ""
    is_shifted = (pairs == 1).any() and not (pairs == 0).any()
    if is_shifted and place[0] == "0" and is_counter(place.to_series()):
        wrong = "no link names the id 0. If its ids count from 1, they name wrong nodes: subtract 1"
        found.notes.append(f"{file}: {wrong}.")
    if count := int(strange.any(0).sum()):
        unknown = dict.fromkeys(cells[end][link] for link, end in np.argwhere(strange.T).tolist())
        named = listed([repr(id) if id else "an empty cell" for id in unknown], 3)
        own = f"column {found.name('id')}" if found.name("id") else "index"
        about = f"The ids are taken from the {own}, which has {listed([*map(repr, place)], 3)}."
        about += (differ := names.alike([*filter(None, unknown)], place))
        if not found.options.skip_missing:
            of_all = f"{count:,} of {len(links):,} links name ids that are not in the node table"
            option = found.options.named
            skip = option("skip_missing", True)
            fix = f"Fix the ids, name the columns of ids with {option('id')} and {option('ends')}"
            if differ:
                fix = "Write them alike in both tables"
            hint = f"{about} {fix}, or leave out these links with {skip}"
            if {*unknown} == {""}:
                hint = f"Write an id there, or leave out these links with {skip}"
            elif not differ and (other := _other_ids(found, {*cells[0], *cells[1]} - {""})):
                hint = f"The column {other} holds such ids; name it with {option('id', other)}"
            if found.name("id") in {*unknown} - {""}:
                hint = f"The first line of {found.files[0]} is read as names of columns, and"
                hint += f" {found.name('id')} is an id. Write a line of names above it"
            raise InputError.plain(file, f"{of_all}: {named}", hint + earlier)
        found.notes.append(f"{counted(count, 'link')} to unknown ids left out: {named}")
    if not (found.edges[0] != found.edges[1]).any() and not found.problems.errors:
        hint = f"{about} Give at least one link{earlier}".strip()
        raise InputError.plain(file, "no link joins two nodes", hint)


def _other_ids(found: Look, ends: set[str]) -> str:
    """A column without a use so far that has an id for each node and all ends; empty = none."""
    for name, column in found.table.items():
        own = {*id_columns.cells(found.table, name)}
        if name and name not in found.roles and column.dtype.kind != "f" and ends <= own:
            if len(own) == len(column):
                return name
    return ""


def _find_label(found: Look) -> None:
    """The column of labels, named or of a usual name, if its values repeat."""
    table, options = found.table, found.options
    named = options.label
    if named and (named not in table or found.roles.get(named) == "id"):
        return
    free = table[[name for name in table if name == named or name not in found.roles]]
    names = [name for each in labels.COLUMNS if (name := id_columns.usual(free, (each,)))]
    if options.like is not None:  # a later table needs no labels
        names = [name for name in names[:1] if name.lower() == labels.COLUMNS[0]]
    names = [named] if named else names
    sizes = {
        name: Counter(cell for cell in texts(column) if cell and cell.lower() not in labels.MISSING)
        for name, column in free.items()
    }
    for name in names:
        if len(sizes[name]) <= FEW or sizes[name].total() >= 2 * len(sizes[name]):
            found.roles[name] = "label"
            return
    found.likely = likely = [
        f"{name} ({len(size)} values)"
        for name, size in sizes.items()
        if 2 <= len(size) <= 100 and size.total() >= 5 * len(size) and not NAMELESS.fullmatch(name)
    ]
    if named or options.like is None and (likely and not options.in_python or names):
        message, again, none = "no column is named label", "", options.named("label", NONE)
        if names:
            message = f"the {len(sizes[names[0]]):,} values of {names[0]} hardly repeat"
            again = "; label two nodes of each class or more" * bool(named)
        hint = f"Name the column of classes{f', perhaps {listed(likely, 4)}' * bool(likely)}"
        raise InputError.plain("--label", message, f"{hint}{again}; or give {none}")


def _read_labels(found: Look) -> None:
    """Clean the labels, and read the split."""
    cells, split = found.column("label"), found.column("split")
    parts = [SAME_PART.get(cell.lower(), cell.lower()) for cell in split or ()]
    if cells is not None:
        held = [part in labels.PARTS[1:] for part in parts]
        found.labels, notes = labels.cleaned(cells, found.name("label"), held)
        found.notes += notes
    elif found.options.like is None and found.options.label != NONE and not found.problems.errors:
        maybe = f", perhaps {listed(found.likely, 4)}" * bool(found.likely)
        names = listed([*filter(None, found.table)], 10)
        hint = f"Set {found.options.named('label', 'COLUMN')} if there is one{maybe}"
        found.notes.append(f"No column of labels was found (columns: {names}). {hint}.")
    if split is not None:
        labels.check_parts(parts, found.ids, "--split")
        found.parts = parts


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
            raise InputError.plain(
                "--like", message, f"Its columns are {id_columns.listing(table)}"
            )
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
            "features", f"no column is chosen of {id_columns.listing(table)}", hint
        )


def _tell_columns(found: Look) -> None:
    """What each column is used for, and words for missing cells."""
    table, roles = found.table, found.roles
    uses: dict[str, list[str]] = {role: [] for role in USES}
    kinds, new = listed([*map(found.options.named, COLUMNS)]), found.options.like is None
    for name, cells in table.items():
        role = roles.get(name, "not read:")
        if role in ("number", "category"):
            written = texts(cells)
            found.notes += labels.changes(name, written, features.present(written, role), "empty")
        in_python = found.options.in_python  # where the index has no name
        if name in roles or not (NAMELESS.fullmatch(name) and (in_python or is_counter(cells))):
            uses[role].append(name or ("the index" if in_python else "the unnamed column"))
    hint = f" ({kinds} read columns)" * (new and bool(uses["not read:"]))
    if found.options.in_python and (unread := uses.pop("not read:")):
        s, are, it = ("s", "are", "them") if unread[1:] else ("", "is", "it")
        hint = f" Add {it} to numbers, text or categories, or drop {it}." * new
        found.chosen.append(f"The column{s} {listed(unread)} {are} not used.{hint}")
        hint = ""
    used = [f"{USES[role]} {listed(names)}" for role, names in uses.items() if names]
    found.chosen.append(f"columns: {'; '.join(used)}{hint}")

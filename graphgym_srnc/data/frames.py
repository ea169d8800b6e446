"""From frames of nodes and links to a graph, for ``data make`` and ``from_frames``.

:func:`look` chooses columns by names and cells, and says which; :func:`graph` makes the graph.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Callable, Collection, Iterator, NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp

from graphgym_srnc.core.text import counted, listed, one_line
from graphgym_srnc.data import features
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.data.labels import MISSING, changes, cleaned, whole_numbers
from graphgym_srnc.data.read import NAMELESS, is_counter
from graphgym_srnc.errors import Collected, InputError, reading, renamed

# Usual names of columns and of pairs of columns, in lower case, the most usual first.
# Kinds of columns in a recipe, and their roles.
IDS = ("id", "_id", "node_id", "nodeid", "node", "key")
LABELS = tuple("label labels :label _labels class classes category target subject topic y".split())
ENDS = (
    "source-target from-to src-dst src-dest start-end u-v head-tail citing-cited sender-receiver "
    "follower-followee"
).split()
PARTS = ("train", "val", "test")
SAME_PART = {"valid": "val", "validation": "val", "training": "train", "testing": "test"}
ROLES = {"text": "text", "numbers": "number", "categories": "category"}
NONE = "none"  # name of the column of labels if there is none
FEW = 4  # maximum number of classes that may have one label each, as when labelling begins
FOUND = 0.5  # minimum share of the cells of an end of links that are ids of nodes


class Options(NamedTuple):
    """What the user says about a node table and its links; empty = chosen by names and cells.

    The fields are those of :func:`graphgym_srnc.from_frames`, whose ``features`` are ``raw`` here.
    """

    id: str = ""
    label: str = ""
    split: str = ""
    ends: Sequence[str] = ()
    text: Sequence[str] = ()
    numbers: Sequence[str] = ()
    raw: Sequence[str] = ()
    categories: Sequence[str] = ()
    spectral: int = 0
    like: features.Recipe | None = None  # of an earlier graph
    skip_missing: bool = False
    keep: str = ""
    words: features.TextOptions = features.TextOptions()


@dataclass
class Look:
    """What a node table and its links hold, as far as they could be read."""

    files: tuple[str, str]  # names of the two tables
    options: Options = Options()
    table: pandas.DataFrame = field(default_factory=pandas.DataFrame)  # kept rows of nodes
    rows: int = 0
    roles: dict[str, str] = field(default_factory=dict)  # use of each column
    labels: list[str] | None = None  # [V], empty for none, as are the parts of the split
    parts: list[str] | None = None
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
        return whole_numbers(self.column("id") or [])


def look(
    found: Look,
    nodes: pandas.DataFrame,
    read_links: Callable[[set[str]], pandas.DataFrame],
    others: bool = False,
) -> Look:
    """Choose columns, clean labels and connect nodes; what is wrong is collected, not raised.

    ``found`` is filled and returned. ``read_links`` gives a row for each link, by the set of all
    ids. ``others`` = there are features beside those of columns and of links.
    """
    step = found.problems.step
    found.rows, found.table = len(nodes), nodes.reset_index(drop=True)
    _find_named(found)
    candidates = _id_candidates(nodes, found.options.id)
    links: pandas.DataFrame | None = None
    with step():
        links = read_links({cell for name in candidates for cell in texts(nodes[name])})
    found.roles[_best_id(nodes, candidates, links)] = "id"
    connect, find_features = partial(_connect, links=links), partial(_find_features, others=others)
    steps = (_find_label, _one_row_for_each_id, connect, _read_labels, find_features, _tell_columns)
    for each in steps:
        with step():
            each(found)
    return found


def graph(found: Look, extra: np.ndarray | None = None) -> Graph:
    """The graph of what :func:`look` found, perhaps with ``extra`` features ``[rows, D]``."""
    found.problems.check()
    recipe, table, options = found.recipe, found.table, found.options
    own = {"embedding": extra[table.index]} if extra is not None else {}
    if options.spectral:
        own["spectral"] = features.spectral(found.edges, len(table), options.spectral)
    with _reading_recipe(options.like):
        blocks, names = features.apply(recipe, table)
        for kind, array in own.items():
            blocks.append(sp.csr_matrix(array))
            names += [f"{kind} {number}" for number in range(array.shape[1])]
        widths = [block.shape[1] for block in blocks]
        if widths != recipe.setdefault("widths", widths):
            message = f"this graph has {widths} features, the earlier one {recipe['widths']}"
            raise InputError.plain("--like", message, "Give the same columns and --embeddings")
        joined = features.joined(blocks, recipe)
        recipe |= {"embeddings": extra is not None, "spectral": options.spectral}
        text = features.documents(table, recipe["text"]["columns"]) if "text" in recipe else None
        words, ids = [*map(one_line, names)], found.column("id") or []  # ids as they are written
        return Graph(found.edges, joined, words, ids, text, found.labels, found.parts, recipe)


@contextlib.contextmanager
def _reading_recipe(like: features.Recipe | None) -> Iterator[None]:
    """Name the recipe, which may have been edited, in the errors of this block."""
    if like is None:
        yield
    else:
        keys = dict.fromkeys(("--text", "--numbers", "--categories"), "--like")
        with reading(Path("it"), "an earlier graph with its recipe", "--like"), renamed(keys):
            yield


def _find_named(found: Look) -> None:
    """Roles that the options name."""
    table, options = found.table, found.options
    for option in ("id", "split", "label"):
        name = getattr(options, option)
        if name and (option, name) != ("label", NONE):
            with found.problems.step():
                features.column(table, name, f"--{option}")
    numbers = dict.fromkeys((*options.numbers, *options.raw), "number")
    found.roles |= dict.fromkeys(options.text, "text")
    found.roles |= dict.fromkeys(options.categories, "category") | numbers
    if split := options.split or usual(table, ("split",)):
        found.roles[split] = "split"


def _id_candidates(table: pandas.DataFrame, given: str) -> list[str]:
    """Columns that may hold the ids: given, by their usual names, or else of distinct cells."""
    if given and given in table:
        return [given]
    index = [name for name in list(table)[:1] if not name and not is_counter(table[name])]
    if named := usual(table, IDS):
        return [*index, named]
    first, *rest = list(table)[:20]
    rest = [name for name in rest if table[name].dtype.kind != "f"]
    return [first, *(name for name in rest if len({*texts(table[name])} - {""}) == len(table))]


def _best_id(table: pandas.DataFrame, candidates: list[str], links: pandas.DataFrame | None) -> str:
    """The first candidate in which two columns of links are mostly found, or else the first."""
    for name in candidates:
        shares = {} if links is None else _shares(links, [*links], texts(table[name]))
        if sum(share >= FOUND for share in shares.values()) > 1:
            return name
    return candidates[0]


def _one_row_for_each_id(found: Look) -> None:
    """Leave out rows that are empty or occur twice."""
    table, file, keep = found.table, found.files[0], found.options.keep
    filled = table[~(table.isna() | (table.astype(object) == "")).all(axis=1)]
    ids = pandas.Series(found.ids, dtype=object)[filled.index]
    if len(blank := ids.index[ids == ""]):
        raise InputError.plain(file, f"row {blank[0] + 1} has no id", "Give each node an id")
    repeated = filled[ids.duplicated(keep=False)].astype(str)
    unique = filled.drop(repeated.index[repeated.duplicated()])
    ids = ids[unique.index]
    if ids.duplicated().any() and not keep:
        named = listed([repr(name) for name in ids[ids.duplicated()].unique()], 5)
        message = f"the id {named} occurs several times with different cells"
        hint = "Give each node its own id, or add --keep first or --keep last"
        raise InputError.plain(file, message, hint)
    kept = unique[~ids.duplicated(keep=keep or "first")]
    found.table = kept
    for text, count in {
        "left out: empty": len(table) - len(filled),
        "merged: equal to another row": len(filled) - len(unique),
        f"left out: same id as another row (--keep {keep})": len(unique) - len(kept),
    }.items():
        found.notes += [f"{file}: {counted(count, 'row')} {text}"] * (count > 0)


def _connect(found: Look, links: pandas.DataFrame | None) -> None:
    """Read the links, if there are any, and tell which columns of them are read."""
    if links is None:
        return
    file, place = found.files[1], pandas.Index(found.ids, dtype=object).unique()
    a, b = chosen = ends(links, found.options.ends, place, file)
    unread = [name for name in links if name not in chosen and not NAMELESS.fullmatch(name)]
    rest = f"; not read: {listed(unread)}; edge weights are not used" * bool(unread)
    found.chosen.append(f"{file}: links join the columns {a} and {b}{rest}")
    found.edges, unknown = connected(links, chosen, place)
    named = listed([*map(repr, unknown)], 3)
    count = len(links) - found.edges.shape[1]
    if count and not found.options.skip_missing:
        of_all = f"{count} of {len(links)} links name ids that are not in the node table: {named}"
        hint = "Fix the ids, name the columns of ids with --ends and --id, or leave out these links"
        raise InputError.plain(file, of_all, f"{hint} with --skip-missing")
    found.notes += [f"{counted(count, 'link')} to unknown ids left out: {named}"] * (count > 0)
    if not (found.edges[0] != found.edges[1]).any() and not found.problems.errors:
        raise InputError.plain(file, "no link joins two nodes", "Give at least one link")


def connected(
    links: pandas.DataFrame, ends: Sequence[str], ids: pandas.Index
) -> tuple[np.ndarray, list[str]]:
    """Node numbers ``[2, E]`` of links, and the ids in other links that are no node."""
    cells = [whole_numbers(texts(links[name])) for name in ends]
    pairs = np.array([ids.get_indexer(pandas.Index(column, dtype=object)) for column in cells])
    strange = pairs < 0
    unknown = dict.fromkeys(cells[end][link] for link, end in np.argwhere(strange.T).tolist())
    return pairs[:, ~strange.any(0)].astype(np.int64), [*unknown]


def ends(
    links: pandas.DataFrame, given: Sequence[str], ids: Collection[str], file: str
) -> Sequence[str]:
    """The two columns of ids: named, of a usual pair of names, or the only two that hold ids."""
    named = [name for name in links if not NAMELESS.fullmatch(name)]
    absent = [name for name in given if name not in links]
    if absent or len(named) < 2 or len(given) == 1:
        missing = f"no column {', '.join(absent)}" if absent else "not two columns of node ids"
        raise InputError.plain(file, f"it has {missing}", f"Its columns are {_listed(links)}")
    if given or len(named) == 2:
        return given or named
    shares = _shares(links, named, ids)
    if pairs := _usual_ends(named):
        return max(pairs, key=lambda pair: min(shares[name] for name in pair) >= FOUND)
    found = [name for name in named if shares[name] >= FOUND]
    if found[:2] == ["1", "2"] and all(links[name].nunique() == 1 for name in found[2:]):
        return found[:2]  # lines without a header begin with two ids, and a weight may be 1
    if len(found) != 2:
        what = f"it is not clear which two columns hold the ids of nodes: {listed(found or named)}"
        raise InputError.plain(file, what, "Name them with --ends COLUMN COLUMN")
    return found


def _usual_ends(names: Sequence[str]) -> list[list[str]]:
    """Pairs of columns with usual names, such as source and target, node1 and node2."""
    ignored = r"[\W_]|id$|(?<=.)node"
    plain = {re.sub(ignored, "", name.lower()): name for name in reversed(names)}
    pairs = [pair.split("-") for pair in ENDS]
    pairs += [[name, name[:-1] + "2"] for name in plain if name[1:].endswith("1")]
    return [[plain[a], plain[b]] for a, b in pairs if a in plain and b in plain]


def _shares(
    links: pandas.DataFrame, names: Sequence[str], ids: Collection[str]
) -> dict[str, float]:
    """Share of the cells of each column that are ids of nodes."""
    cells = {name: pandas.Series(whole_numbers(texts(links[name])), dtype=object) for name in names}
    return {name: float(cells[name].isin({*ids}).mean()) for name in names}


def _find_label(found: Look) -> None:
    """The column of labels by its name, if its values repeat."""
    table, options = found.table, found.options
    if options.label:
        found.roles |= {options.label: "label"} if options.label in table else {}
        return
    free = table[[name for name in table if name not in found.roles]]
    names = [name for each in LABELS if (name := usual(free, (each,)))]
    if options.like is not None:  # a later table needs no labels
        names = [name for name in names[:1] if name.lower() == LABELS[0]]
    cells = {name: texts(column) for name, column in free.items()}
    filled = {name: [cell for cell in cells[name] if cell.lower() not in MISSING] for name in cells}
    sizes = {name: Counter(filter(None, filled[name])) for name in free}
    for name in names:
        if len(sizes[name]) <= FEW or sizes[name].total() >= 2 * len(sizes[name]):
            found.roles[name] = "label"
            return
    likely = [
        f"{name} ({len(size)} values)"
        for name, size in sizes.items()
        if 2 <= len(size) <= 100 and size.total() >= 5 * len(size) and not NAMELESS.fullmatch(name)
    ]
    if options.like is None and (likely or names):
        message = "no column is named label"
        if names:
            message = f"the {len(sizes[names[0]])} values of {names[0]} hardly repeat"
        hint = f"Name the column of classes{f', perhaps {listed(likely, 4)}' * bool(likely)}"
        raise InputError.plain("--label", message, f"{hint}; or give --label none")


def _read_labels(found: Look) -> None:
    """Clean the labels, and read the split."""
    cells, split = found.column("label"), found.column("split")
    parts = [SAME_PART.get(cell.lower(), cell.lower()) for cell in split or ()]
    if cells is not None:
        held = [part in PARTS[1:] for part in parts]
        found.labels, notes = cleaned(cells, found.name("label"), held)
        found.notes += notes
    elif found.options.like is None and not found.problems.errors:
        found.notes.append("! no column of classes was found; name one with --label")
    if split is not None:
        check_parts(parts, found.ids, "--split")
        found.parts = parts


def check_parts(parts: Sequence[str], ids: Collection[object], key: str) -> None:
    """Refuse parts of a split other than ``PARTS`` and nothing; errors name ``key`` and the id."""
    for part, id in zip(parts, ids):
        if part not in ("", *PARTS):
            message = f"the node {id} has the part {part!r}"
            raise InputError.plain(key, message, f"Use {', '.join(PARTS)}, or nothing")


def _find_features(found: Look, others: bool) -> None:
    """Learn the recipe of features, or read it."""
    options, table, numbers = found.options, found.table, found.options.numbers
    if numbers == ["*"]:
        found.roles.pop("*")
        numbers = features.number_columns(table, [*found.roles])
        found.roles |= dict.fromkeys(numbers, "number")
    if options.like is not None:
        with _reading_recipe(options.like):
            found.recipe = recipe = dict(options.like)
            if recipe.get("spectral"):
                message = "spectral features cannot be made for another graph"
                raise InputError.plain("--like", message, "Use a graph without --spectral")
            kinds = [kind for kind in ROLES if kind in recipe]
            roles = {name: ROLES[kind] for kind in kinds for name in recipe[kind]["columns"]}
            found.roles = roles | found.roles
            found.notes += features.drift(recipe, table)
    else:
        columns = numbers, options.raw, options.categories
        found.recipe = features.learn(table, options.text, options.words, *columns)
    if not (found.recipe or others or options.spectral):
        hint = "Choose columns with --text, --numbers or --categories, or give --embeddings; "
        hint += "--spectral 64 makes features from the links alone"
        raise InputError.plain("features", f"no column is chosen of {_listed(table)}", hint)


def _tell_columns(found: Look) -> None:
    """What each column is used for, and cells whose value differs from their text."""
    table, roles = found.table, found.roles
    uses: dict[str, list[str]] = {role: [] for role in ("id", "label", "split", *ROLES.values())}
    hint = " (--text, --numbers and --categories read columns)" * (found.options.like is None)
    uses["not read:"] = []
    for name, cells in table.items():
        role = roles.get(name, "not read:")
        if role in ("number", "category") and cells.dtype.kind not in features.NUMERIC:
            written = texts(cells)
            known = features.present(written, role)
            values = features.numbers(written) if role == "number" else known
            found.notes += changes(name, written, known, "empty")
            found.notes += changes(name, known, values, "numbers")
        if name in roles or not (NAMELESS.fullmatch(name) and is_counter(cells)):
            uses[role].append(name or "(index)")
    used = [f"{role} {listed(names)}" for role, names in uses.items() if names]
    found.chosen.append(f"columns: {'; '.join(used)}{hint * bool(uses['not read:'])}")


def usual(table: pandas.DataFrame, names: Sequence[str]) -> str:
    """The first column with one of some usual names, whatever its case; empty = there is none."""
    columns = {name.lower(): name for name in reversed(list(table))}
    return next((columns[name] for name in names if name in columns), "")


def _listed(table: pandas.DataFrame) -> str:
    return ", ".join(name or "(index)" for name in table)

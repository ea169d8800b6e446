"""From a frame of nodes and a frame of links to a graph: which column is what, and what is wrong.

``data make`` and :func:`graphgym_srnc.from_frames` share these functions. :func:`look` chooses
columns by their names and by their cells, and notes say which one was chosen; :func:`graph` makes
the graph.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Collection, Iterator, NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp

from graphgym_srnc.core.text import counted, listed, one_line
from graphgym_srnc.data import features
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.folder import RECIPE, Graph
from graphgym_srnc.data.labels import MISSING, changes, cleaned, whole_numbers
from graphgym_srnc.data.read import NAMELESS, is_counter
from graphgym_srnc.errors import Collected, InputError, reading, renamed
from graphgym_srnc.io.atomic import regular

IDS = ("id", "_id", "node_id", "nodeid", "node", "key")
LABELS = tuple("label labels :label _labels class classes category target subject topic y".split())
ENDS = (
    "source-target from-to src-dst src-dest start-end u-v head-tail citing-cited sender-receiver "
    "follower-followee"
).split()
"""Usual names of columns and of pairs of columns, in lower case, the most usual first."""

PARTS = ("train", "val", "test")
SAME_PART = {"valid": "val", "validation": "val", "training": "train", "testing": "test"}
ROLES = {"text": "text", "numbers": "number", "categories": "category"}
"""Kinds of columns in a recipe, and their roles."""

NONE = "none"
"""Name of the column of labels if there is none."""

FEW = 4
"""Maximum number of classes that may have one label each, as when labelling begins."""

FOUND = 0.5
"""Minimum share of the cells of an end of links that are ids of nodes."""


class Options(NamedTuple):
    """What the user says about a node table and its links; empty = chosen by names and cells.

    The fields are those of :func:`graphgym_srnc.from_frames`, whose ``features`` are ``raw`` here.
    ``like`` is a graph folder or its recipe, instead of text, numbers and categories; ``words``
    says how texts become features.
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
    like: Path | features.Recipe | None = None
    skip_missing: bool = False
    keep: str = ""
    words: features.TextOptions = features.TextOptions()


@dataclass
class Look:
    """What a node table and its links hold, as far as they could be read.

    Args:
        files: names of the two tables.
        options: what the user said about them.
        table: a row for each node that was kept; ``kept`` are their numbers of ``rows``.
        roles: what a column is used for, by its name.
        labels, parts: class and part of the split of each node, empty for none; or None.
        edges: node numbers ``[2, E]``.
        unknown: how often each id that is no node occurs in the links.
        chosen: which columns are read.
        notes: what was corrected or left out, and warnings.
        problems: errors that the user must fix first.
        recipe: how features are made.
    """

    files: tuple[str, str]
    options: Options = Options()
    table: pandas.DataFrame = field(default_factory=pandas.DataFrame)
    roles: dict[str, str] = field(default_factory=dict)
    labels: list[str] | None = None
    edges: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))
    unknown: Counter[str] = field(default_factory=Counter)
    chosen: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: Collected = field(default_factory=Collected)
    recipe: features.Recipe = field(default_factory=dict)
    parts: list[str] | None = None
    rows: int = 0
    kept: list[int] = field(default_factory=list)

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

    Args:
        found: names of the files and the user's options; it is filled and returned.
        nodes: a row for each node.
        read_links: gives a row for each link, by the set of all ids.
        others: whether there are features beside those of columns and of links.
    """
    step = found.problems.step
    found.rows, found.table = len(nodes), nodes.reset_index(drop=True)
    _find_columns(found)
    candidates = _id_candidates(nodes, found.options.id)
    links: pandas.DataFrame | None = None
    with step():
        links = read_links({cell for name in candidates for cell in texts(nodes[name])})
    found.roles[_best_id(nodes, candidates, links)] = "id"
    with step():
        _find_label(found)
    with step():
        _one_row_for_each_id(found)
    if links is not None:
        with step():
            _connect(found, links)
    with step():
        _read_labels(found)
    with step():
        _find_features(found, others)
    _tell_columns(found)
    return found


def graph(found: Look, extra: np.ndarray | None = None) -> Graph:
    """The graph of what was found.

    Args:
        found: what :func:`look` returned.
        extra: the user's own features ``[V, D]`` of the rows in the file.

    Raises:
        InputError: see ``found.problems``, or there is no feature other than zero.
    """
    found.problems.check()
    recipe, table, options = found.recipe, found.table, found.options
    with _reading_recipe(options.like):
        blocks, names = features.apply(recipe, table)
        for kind, array in (
            ("embedding", None if extra is None else extra[found.kept]),
            ("spectral", features.spectral(found.edges, len(table), options.spectral)),
        ):
            if array is not None:
                blocks.append(sp.csr_matrix(array))
                names += [f"{kind} {number}" for number in range(array.shape[1])]
        widths = [block.shape[1] for block in blocks]
        if widths != recipe.setdefault("widths", widths):
            other = f"{_called(options.like)} has {recipe['widths']}"
            hint = "Give the same columns and --embeddings as there"
            raise InputError.plain("--like", f"this graph has {widths} features, and {other}", hint)
        joined = features.joined(blocks, recipe)
        recipe |= {"embeddings": extra is not None, "spectral": options.spectral}
        text = recipe.get("text")
        documents = features.documents(table, text["columns"]) if text else None
        words, ids = [*map(one_line, names)], found.column("id") or []  # ids as they are written
        return Graph(found.edges, joined, words, ids, documents, found.labels, found.parts, recipe)


@contextlib.contextmanager
def _reading_recipe(like: Path | features.Recipe | None) -> Iterator[None]:
    """Tell errors that come of a recipe, which may have been edited, if there is one."""
    if like is None:
        yield
        return
    keys = dict.fromkeys(("--text", "--numbers", "--categories"), f"--like {_called(like)}")
    with reading(Path(_called(like)), "a folder with a recipe of data make", "--like"):
        with renamed(keys):
            yield


def _called(like: Path | features.Recipe | None) -> str:
    return str(like) if isinstance(like, Path) else "the earlier graph"


def _find_columns(found: Look) -> None:
    """Roles that the options name."""
    table, options = found.table, found.options
    for option in ("id", "split", "label"):
        name = getattr(options, option)
        if name and (option, name) != ("label", NONE):
            with found.problems.step():
                features.column(table, name, f"--{option}")
    for role, names in (
        ("text", options.text),
        ("category", options.categories),
        ("number", [*options.numbers, *options.raw]),
    ):
        found.roles |= dict.fromkeys(names, role)
    if split := options.split or usual(table, ("split",)):
        found.roles[split] = "split"


def _id_candidates(table: pandas.DataFrame, given: str) -> list[str]:
    """Columns that may hold the ids: the named one; or the index if it does not only count the
    rows, and one with a usual name; or the first and all of distinct texts.
    """
    if given and given in table:
        return [given]
    index = [name for name in list(table)[:1] if not name and not is_counter(table[name])]
    of_neo4j = next((name for name in table if re.search(r":ID(\(|$)", name)), "")
    if named := usual(table, IDS) or of_neo4j:
        return [*index, named]

    def is_distinct(name: str) -> bool:
        cells = table[name]
        return cells.dtype.kind != "f" and len({*texts(cells)} - {""}) == len(table)

    first, *rest = list(table)[:20]
    return [first, *filter(is_distinct, rest)]


def _best_id(table: pandas.DataFrame, candidates: list[str], links: pandas.DataFrame | None) -> str:
    """The first candidate in which two columns of links are mostly found, or else the first."""
    if links is not None:
        for name in candidates:
            shares = _shares(links, [*links], texts(table[name])).values()
            if sum(share >= FOUND for share in shares) > 1:
                return name
    return candidates[0]


def _one_row_for_each_id(found: Look) -> None:
    """Leave out rows that are empty or occur twice."""
    table, file, keep = found.table, found.files[0], found.options.keep
    filled = table[~(table.isna() | (table.astype(object) == "")).all(axis=1)]
    ids = pandas.Series(found.ids, dtype=object)[filled.index]
    if (ids == "").any():
        row = ids.index[ids == ""][0] + 1
        raise InputError.plain(file, f"row {row} has no id", "Give each node an id")
    repeated = filled[ids.duplicated(keep=False)].astype(str)
    unique = filled.drop(repeated.index[repeated.duplicated()])
    ids = ids[unique.index]
    if ids.duplicated().any() and not keep:
        named = listed([repr(name) for name in ids[ids.duplicated()].unique()], 5)
        message = f"the id {named} occurs several times with different cells"
        hint = "Give each node its own id, or add --keep first or --keep last"
        raise InputError.plain(file, message, hint)
    kept = unique[~ids.duplicated(keep=keep or "first")]
    found.table, found.kept = kept.reset_index(drop=True), kept.index.tolist()
    for count, text in (
        (len(table) - len(filled), "left out: empty"),
        (len(filled) - len(unique), "merged: equal to another row"),
        (len(unique) - len(kept), f"left out: same id as another row (--keep {keep})"),
    ):
        found.notes += [f"{file}: {counted(count, 'row')} {text}"] * (count > 0)


def _connect(found: Look, links: pandas.DataFrame) -> None:
    """Read the links, and tell which columns of them are read."""
    file, place = found.files[1], pandas.Index(found.ids, dtype=object).unique()
    a, b = chosen = ends(links, found.options.ends, place, file)
    unread = [name for name in links if name not in chosen and not NAMELESS.fullmatch(name)]
    rest = f"; not read: {listed(unread)}; edge weights are not used" * bool(unread)
    found.chosen.append(f"{file}: links join the columns {a} and {b}{rest}")
    found.edges, found.unknown = connected(links, chosen, place)
    named = listed([repr(name) for name in found.unknown], 3)
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
) -> tuple[np.ndarray, Counter[str]]:
    """Node numbers ``[2, E]`` of links, and how often each id that is no node occurs in others."""
    cells = [whole_numbers(texts(links[name])) for name in ends]
    pairs = np.array([ids.get_indexer(pandas.Index(column, dtype=object)) for column in cells])
    strange = pairs < 0
    unknown = Counter(cells[end][link] for link, end in np.argwhere(strange.T).tolist())
    return pairs[:, ~strange.any(0)].astype(np.int64), unknown


def ends(
    links: pandas.DataFrame, given: Sequence[str], ids: Collection[str], file: str
) -> Sequence[str]:
    """The two columns of ids: named, of a usual pair of names, or the only two that hold ids.

    Raises:
        InputError: there is no such column, or it is not clear which two.
    """
    named = [name for name in links if not NAMELESS.fullmatch(name)]
    absent = [name for name in given if name not in links]
    if absent or len(named) < 2 or len(given) == 1:
        missing = f"no column {', '.join(absent)}" if absent else "not two columns of node ids"
        raise InputError.plain(file, f"it has {missing}", f"Its columns are {_listed(links)}")
    if given or len(named) == 2:
        return list(given) or named
    shares = _shares(links, named, ids)
    if pairs := _usual_ends(named):
        fit = (pair for pair in pairs if min(map(shares.__getitem__, pair)) >= FOUND)
        return next(fit, pairs[0])
    found = [name for name in named if shares[name] >= FOUND]
    if found[:2] == ["1", "2"] and all(links[name].nunique() == 1 for name in found[2:]):
        return found[:2]  # lines without a header begin with two ids, and a weight may be 1
    if len(found) != 2:
        message = "it is not clear which two columns hold the ids of nodes: "
        message += listed(found or named)
        raise InputError.plain(file, message, "Name them with --ends COLUMN COLUMN")
    return found


def _usual_ends(names: Sequence[str]) -> list[list[str]]:
    """Pairs of columns with usual names, such as source and target, node1 and node2."""
    # neo4j-admin puts a group behind, as in :START_ID(Person).
    plain = {
        re.sub(r"[\W_]|id$|(?<=.)node", "", name.lower().partition("(")[0]): name
        for name in reversed(names)
    }
    pairs = [pair.split("-") for pair in ENDS]
    pairs += [[name, name[:-1] + "2"] for name in plain if name[1:].endswith("1")]
    return [[plain[a], plain[b]] for a, b in pairs if a in plain and b in plain]


def _shares(
    links: pandas.DataFrame, names: Sequence[str], ids: Collection[str]
) -> dict[str, float]:
    """Share of the cells of each column that are ids of nodes."""
    known, size = {*ids}, max(len(links), 1)
    return {
        name: sum(cell in known for cell in whole_numbers(texts(links[name]))) / size
        for name in names
    }


def _find_label(found: Look) -> None:
    """The column of labels by its name, if its values repeat."""
    table, options = found.table, found.options
    if options.label:
        found.roles |= {options.label: "label"} if options.label in table else {}
        return
    free = table[[name for name in table if name not in found.roles]]
    names = [name for each in LABELS if (name := usual(free, (each,)))]
    if options.like:
        names = [name for name in names[:1] if name.lower() == LABELS[0]]

    def sizes(name: str) -> Counter[str]:
        return Counter(cell for cell in texts(free[name]) if cell.lower() not in MISSING | {""})

    for name in names:
        if len(size := sizes(name)) <= FEW or size.total() >= 2 * len(size):
            found.roles[name] = "label"
            return
    if options.like:
        return
    candidates = [
        f"{name} ({len(size)} values)"
        for name in free
        if not NAMELESS.fullmatch(name)
        and 2 <= len(size := sizes(name)) <= 100
        and size.total() >= 5 * len(size)
    ]
    if candidates or names:
        message = "no column is named label"
        if names:
            values = f"{len(sizes(names[0]))} values, which hardly repeat, so they are no classes"
            message = f"the column {names[0]} has {values}"
        hint = f", perhaps {listed(candidates, 4)}" * bool(candidates) + "; or give --label none"
        raise InputError.plain("--label", message, f"Name the column of classes{hint}")


def _read_labels(found: Look) -> None:
    """Clean the labels, and read the split."""
    cells, split = found.column("label"), found.column("split")
    parts = [SAME_PART.get(cell.lower(), cell.lower()) for cell in split or ()]
    if cells is not None:
        held = [part in PARTS[1:] for part in parts]
        found.labels, notes = cleaned(cells, found.name("label"), held)
        found.notes += notes
    elif not found.options.like and not found.problems.errors:
        nothing = "no column of classes was found, so no node has a label"
        found.notes.append(f"! {nothing}; name one with --label")
    if split is None or not found.name("label") and found.problems.errors:
        return
    check_parts(parts, found.ids, "--split")
    for part, label, id in zip(parts, found.labels or [""] * len(parts), found.ids):
        if part and not label:
            hint = "Leave the split of unlabelled nodes empty; they are predicted in any case"
            raise InputError.plain("--split", f"the {part} node {id} has no label", hint)
    found.parts = parts


def check_parts(parts: Sequence[str], ids: Collection[object], key: str) -> None:
    """Refuse parts of a split other than ``PARTS`` and nothing; errors name ``key`` and the id."""
    for part, id in zip(parts, ids):
        if part not in ("", *PARTS):
            message = f"the node {id} has the part {part!r}"
            raise InputError.plain(key, message, f"Use {', '.join(PARTS)}, or nothing")


def _find_features(found: Look, others: bool) -> None:
    """Learn the recipe of features, or read it."""
    options, table, numbers = found.options, found.table, [*found.options.numbers]
    if numbers == ["*"]:
        found.roles.pop("*")
        numbers = features.number_columns(table, [*found.roles])
        found.roles |= dict.fromkeys(numbers, "number")
    if options.like:
        with _reading_recipe(options.like):
            recipe = found.recipe = _recipe(options.like)
            kinds = [kind for kind in ROLES if kind in recipe]
            roles = {name: ROLES[kind] for kind in kinds for name in recipe[kind]["columns"]}
            found.roles = roles | found.roles
            found.notes += features.drift(recipe, table, _called(options.like))
    else:
        found.recipe = features.learn(
            table, options.text, numbers, options.raw, options.categories, options.words
        )
    if not (found.recipe or others or options.spectral):
        hint = "Choose columns with --text, --numbers or --categories, or give --embeddings; "
        hint += "--spectral 64 makes features from the links alone"
        raise InputError.plain("features", f"no column is chosen of {_listed(table)}", hint)


def _tell_columns(found: Look) -> None:
    """What each column is used for, and cells whose value differs from their text."""
    table, roles = found.table, found.roles
    for name, role in roles.items():
        if role in ("number", "category") and name in table:
            if features.is_numeric(table[name]):
                continue
            cells = texts(table[name])
            known = features.present(cells, role)
            found.notes += changes(name, cells, known, "empty")
            if role == "number":
                found.notes += changes(name, known, features.numbers(cells), "numbers")
    used = []
    for role in ("id", "label", "split", *ROLES.values()):
        names = [name or "(index)" for name in table if roles.get(name) == role]
        used += [f"{role} {listed(names)}"] * bool(names)
    unread = [
        name or "(index)"
        for name in table
        if name not in roles and not (NAMELESS.fullmatch(name) and is_counter(table[name]))
    ]
    hint = " (--text, --numbers and --categories read columns)" * (not found.options.like)
    used += [f"not read: {listed(unread)}{hint}"] * bool(unread)
    found.chosen.append(f"columns: {'; '.join(used)}")


def _recipe(like: Path | features.Recipe) -> features.Recipe:
    if isinstance(like, Path):
        recipe = json.loads(regular(like / RECIPE).read_text(encoding="utf-8"))
    else:
        recipe = dict(like)
    if recipe.get("spectral"):
        message = f"{_called(like)} has spectral features, which cannot be made for another graph"
        raise InputError.plain("--like", message, "Use one without --spectral")
    return recipe


def usual(table: pandas.DataFrame, names: Sequence[str]) -> str:
    """The first column with one of some usual names, whatever its case; empty = there is none."""
    columns = {name.lower(): name for name in reversed(list(table))}
    by_suffix = {f":{name.lower().rpartition(':')[2]}": name for name in table if ":" in name}
    groups = (columns, by_suffix)
    return next((group[name] for group in groups for name in names if name in group), "")


def _listed(table: pandas.DataFrame) -> str:
    return ", ".join(name or "(index)" for name in table)

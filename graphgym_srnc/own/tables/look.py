"""What a node table and a list of links hold, before a graph is made of them: columns and what
each is for, what was mended, and all that is wrong at once."""
from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, Mapping, Sequence

import numpy as np

from graphgym_srnc.atomic import regular
from graphgym_srnc.data.folder import RECIPE
from graphgym_srnc.errors import Collected, InputError, renamed
from graphgym_srnc.own.tables import features, mend, read
from graphgym_srnc.own.tables.formats import Links, Table
from graphgym_srnc.text import counted, listed, one_line

PARTS = ("train", "val", "test")

KINDS = {"text": "text", "numbers": "number", "categories": "category"}
"""Kinds of columns in a recipe, and their roles."""

NONE = "none"
"""What ``--label`` says where no column is one of classes."""


@dataclass
class Look:
    """What a user's files hold, as far as it could be read.

    Args:
        files: names of the files.
        table: a row for each node that was kept.
        roles: what a column is used for, by its name; others are not read.
        labels: classes, empty for a node without one; None = there is no such column.
        edges: node numbers ``[2, E]``.
        unknown: how often each id that is no node stands in a link.
        notes: what was corrected or left out, and warnings, in words.
        problems: errors that the user must fix first.
        recipe: of the features.
        parts: of the split, or None.
        rows: number of rows in the file.
        kept: those of them that the table is made of.
    """

    files: list[str]
    table: Table = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    labels: list[str] | None = None
    edges: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))
    unknown: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    problems: Collected = field(default_factory=Collected)
    recipe: features.Recipe = field(default_factory=dict)
    parts: list[str] | None = None
    rows: int = 0
    kept: list[int] = field(default_factory=list)

    def of_role(self, role: str) -> str:
        """The one column with a role; empty = there is none."""
        return next((name for name, own in self.roles.items() if own == role), "")


def look(nodes: Path, links: Path | None = None, *, id: str = "", label: str = "", split: str = "",
         ends: Sequence[str] = (), text: Sequence[str] = (), numbers: Sequence[str] = (),
         categories: Sequence[str] = (), embeddings: Path | None = None, spectral: int = 0,
         like: Path | None = None, skip_missing: bool = False, keep: str = "",
         options: features.TextOptions = features.TextOptions()) -> Look:
    """All there is to see before a graph is made; what is wrong is collected, not raised.

    Args:
        nodes: a table with a line for each node, see :func:`graphgym_srnc.own.tables.read.table`.
        links: a list with a line for each link, see :func:`graphgym_srnc.own.tables.read.links`;
            None = ``nodes`` holds both, see :func:`graphgym_srnc.own.tables.formats.graph`.
        id: the column of ids; empty = one with a usual name, or else the first one.
        label: the column of labels; empty = one with a usual name; ``none`` = there is none. An
            empty cell, a word for nothing and -1 are nodes without a label.
        split: the column that says ``train``, ``val``, ``test`` or nothing; empty = ``split`` if
            there is one.
        ends: the two columns of ``links``; empty = two with usual names, or the first two.
        text: columns of text, made into one bag of words.
        numbers: columns of numbers; ``*`` = all that are nothing else.
        categories: columns of which each value is a feature.
        embeddings: an ``.npy`` array ``[V, D]`` in the order of the table.
        spectral: number of features made of the links alone.
        like: a graph folder whose recipe is taken instead of ``text``, ``numbers`` and
            ``categories``.
        skip_missing: leave out links to ids that the table does not have.
        keep: see :func:`graphgym_srnc.own.tables.mend.rows`.
        options: how texts become features.
    """
    found = Look([path.name for path in (nodes, links) if path])
    step = found.problems.step
    table: Table = {}
    with step():
        table, pairs = (read.table(nodes), None) if links else read.graph(nodes)
    if not table:
        with step():
            read.links(links or nodes, ends, ())
        return found

    found.rows = len(next(iter(table.values())))
    given = {"text": text, "number": numbers, "category": categories}
    _find_columns(found, table, id, label, split, given, like)
    with step():
        kept = mend.rows(table, found.of_role("id"), keep, nodes.name)
        found.table, found.kept = kept[:2]
        found.notes += kept[2]
    with step():
        place = {name: row for row, name in enumerate(found.table[found.of_role("id")])}
        _connect(found, pairs or read.links(links, ends, place), place, skip_missing)
    _read_labels(found, bool(like))
    with step():
        if list(numbers) == ["*"]:
            found.roles.pop("*")
            numbers = features.number_columns(found.table, [*found.roles])
            found.roles |= dict.fromkeys(numbers, "number")
        found.recipe = (_recipe(like) if like else
                        features.learn(found.table, text, numbers, categories, options))
        if not (found.recipe or embeddings or spectral):
            raise InputError.plain(
                "features", f"no column is chosen of {', '.join(found.table)}",
                "Choose columns with --text, --numbers or --categories, or give --embeddings; "
                "--spectral 64 makes features from the links alone")
        with blame_recipe(like):
            found.roles = {name: role for kind, role in KINDS.items() if kind in found.recipe
                           for name in found.recipe[kind]["columns"]} | found.roles
    _tell_columns(found, bool(like))
    return found


@contextlib.contextmanager
def blame_recipe(folder: Path | None) -> Iterator[None]:
    """Errors in here come of a recipe, which may have been changed, if there is a folder of one."""
    columns = ("--text", "--numbers", "--categories") if folder is not None else ()
    try:
        with renamed(dict.fromkeys(columns, f"--like {folder}")):
            yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if folder is None or isinstance(error, InputError):
            raise
        message = (f"{folder / RECIPE} is not as data make wrote it ({type(error).__name__}: "
                   f"{error})")
        raise InputError.plain("--like", message) from error


def _find_columns(found: Look, table: Table, id: str, label: str, split: str,
                  given: Mapping[str, Sequence[str]], like: Path | None) -> None:
    """What each column is, by the options or by its name."""
    step = found.problems.step
    for option, column in {"id": id, "split": split, "label": label}.items():
        if column and column not in table and (option, column) != ("label", NONE):
            with step():
                raise InputError(f"--{option}", column, f"one of the columns {', '.join(table)}")
    found.table = table
    found.roles = {name: role for role, names in given.items() for name in names}
    id = id if id in table else mend.id_column(table)
    split = split if split in table else mend.usual(table, ("split",))
    found.roles |= {id: "id"} | ({split: "split"} if split else {})
    with step():
        if not label:
            label = (mend.usual(table, ("label",)) if like else
                     mend.label_column(table, [*found.roles]))
        if label in table:
            found.roles[label] = "label"


def _connect(found: Look, links: Links, place: Mapping[str, int], skip_missing: bool) -> None:
    """Read the links, and tell what of them is not read."""
    file = found.files[-1]
    if links.unread:
        found.notes.append(f"{file}: not read: {listed(links.unread)}; edge weights are not used")
    found.edges, found.unknown = read.edges(links, place)
    if found.unknown:
        named = listed([repr(name) for name in found.unknown], 3)
        count = len(links.pairs) - found.edges.shape[1]
        if not skip_missing:
            message = (f"{count} of {len(links.pairs)} links name ids that are not in the node "
                       f"table: {named}")
            raise InputError.plain(file, message, "Fix the ids, or leave out these links with "
                                   "--skip-missing")
        found.notes.append(f"{counted(count, 'link')} to unknown ids left out: {named}")
    if not found.edges.size:
        raise InputError.plain(file, "no link joins two nodes", "Give at least one link")


def _read_labels(found: Look, like: bool) -> None:
    """Read labels and the split."""
    column, split = found.of_role("label"), found.of_role("split")
    if column:
        cells = mend.present(found.table[column])
        found.notes += mend.changes(column, found.table[column], cells)
        found.labels = [one_line("" if cell == "-1" else cell) for cell in cells]
        names = sorted({*filter(None, found.labels)})
        found.notes += [f"! similar labels: {a!r} and {b!r}. If they are the same class, give them "
                        "the same name in the table." for a, b in mend.alike(names)]
    elif not like and not found.problems.errors:
        found.notes.append("! no column of classes was found, so no node has a label; name one "
                           "with --label")
    with found.problems.step():
        if split and (column or not found.problems.errors):
            ids = found.table[found.of_role("id")]
            found.parts = _parts(found.table[split], found.labels, ids)


def _tell_columns(found: Look, like: bool) -> None:
    """What each column is used for, and numbers that are written in another way."""
    mended = {"number": mend.numbers, "category": mend.present}
    for name, role in found.roles.items():
        if role in mended and name in found.table:
            cells = found.table[name]
            found.notes += mend.changes(name, cells, mended[role](cells))
    used = {role: [name for name in found.table if found.roles.get(name) == role]
            for role in ("id", "label", "split", "text", "number", "category")}
    columns = "; ".join(f"{role} {listed(names)}" for role, names in used.items() if names)
    unread = [name for name in found.table if name not in found.roles]
    found.notes.append(f"columns: {columns}" + f"; not read: {listed(unread)}" * bool(unread)
                       + " (--text, --numbers and --categories read columns)"
                       * bool(unread and not like))


def _recipe(folder: Path) -> features.Recipe:
    try:
        recipe = json.loads(regular(folder / RECIPE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{folder} is not a graph folder of data make: {RECIPE} is missing or damaged"
        raise InputError.plain("--like", message) from error
    if not isinstance(recipe, dict):
        raise InputError.plain("--like", f"{folder / RECIPE} is not as data make wrote it")
    if recipe.get("spectral"):
        message = f"{folder} has spectral features, which cannot be made for another graph"
        raise InputError.plain("--like", message, "Use a folder without --spectral")
    return recipe


def _parts(cells: Sequence[str], labels: Sequence[str] | None, ids: Sequence[str]) -> list[str]:
    parts = [cell.lower() for cell in cells]
    for number, part in enumerate(parts):
        if part and part not in PARTS:
            message = f"the node {ids[number]} has the part {cells[number]!r}"
            raise InputError.plain("--split", message, f"Use {', '.join(PARTS)}, or nothing")
        if part and not (labels and labels[number]):
            raise InputError.plain(
                "--split", f"the {part} node {ids[number]} has no label", "Leave the split of "
                "unlabelled nodes empty; they are predicted in any case")
    return parts

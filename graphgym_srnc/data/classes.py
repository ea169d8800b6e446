"""The columns of classes and of the split of a node table."""

from __future__ import annotations

import re
from collections import Counter
from typing import Collection, Mapping, Sequence

import numpy as np
import pandas

from graphgym_srnc.core.text import listed
from graphgym_srnc.data import columns, features, labels, units
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.look import NONE, Given, Nodes
from graphgym_srnc.data.read import NAMELESS
from graphgym_srnc.errors import InputError, option

SAME_PART = {"valid": "val", "validation": "val", "training": "train", "testing": "test"}
MASK = re.compile(r"(train|val|valid|test)_mask")
FEW = 4  # maximum number of classes that may have one label each, as when labelling begins
Sizes = Mapping[str, Counter[str]]  # of the classes in each column


def split(given: Given, nodes: Nodes) -> tuple[list[str], list[str] | None]:
    """Columns of the split, and the part of each row by them, None if there are none.

    The split is a column, named or recognised by its cells, or masks.
    """
    table = nodes.table
    free = [name for name in table if name not in nodes.used]
    names = [name for name in free if MASK.fullmatch(name.lower())]
    name = given.options.split or columns.usual(free, ("split",))
    if names and not name:
        parts = _parts_of_masks(table[names], nodes.ids)
    else:
        names = [name] if name else [other for other in free if _is_split(texts(table[other]))]
        if len(names) > 1:
            ways = " or ".join(option("split", other) for other in names)
            raise InputError.plain(
                "split",
                f"several columns hold parts of a split: {listed(names)}",
                f"Choose one with {ways}",
            )
        if not names:
            return [], None
        cells = texts(features.column(table, names[0], "split"))
        parts = [_part(cell.lower()) for cell in cells]
    labels.check_parts(parts, nodes.ids, "split")
    return names, parts


def _part(word: str) -> str:
    return SAME_PART.get(word, word)


def _is_split(cells: Sequence[str]) -> bool:
    """Whether all cells are words for parts of a split, of two parts or more."""
    words = {cell.lower() for cell in cells} - {""}
    return len(words) > 1 and words <= {*SAME_PART, *labels.PARTS}


def _parts_of_masks(masks: pandas.DataFrame, ids: Sequence[str]) -> list[str]:
    """The part of each node by masks of true and false."""
    cells = masks.apply(lambda cells: units.plain(features.present(texts(cells))))
    if not cells.isin(["0", "1", ""]).all(axis=None):
        raise InputError.plain(
            "split",
            f"the masks {listed([*masks])} have other values than true and false, or 1 and 0",
            "Write true or false for each node",
        )
    inside = cells == "1"
    twice = inside.sum(axis=1) > 1
    if twice.any():
        raise InputError.plain(
            "split",
            f"the node {ids[int(twice.argmax())]} is in two of {listed([*masks])}",
            "Put each node into one part",
        )
    parts = [_part(name.lower().removesuffix("_mask")) for name in masks]
    return [*inside.dot(pandas.Series(parts, [*masks], dtype=object))]


def label(
    given: Given, nodes: Nodes, parts: Sequence[str] | None
) -> tuple[list[str], list[str] | None]:
    """The column of labels, and the cleaned labels; empty and None if there is no such column.

    ``parts`` are those of the split.

    Raises:
        InputError: see :func:`_label`.
    """
    name = _label(given, nodes)
    if not name:
        return [], None
    held = [part in labels.PARTS[1:] for part in parts or ()]
    found, notes, alike = labels.cleaned(texts(nodes.table[name]), name, held)
    given.notes.extend(notes)
    given.problems.extend(alike)
    return [name], found


def _label(given: Given, nodes: Nodes) -> str:
    """The column of labels, named, or of a usual name and with cells that may be classes.

    It is empty if there is no such column.

    Raises:
        InputError: several columns, or none of a usual name, may be of labels.
    """
    table = nodes.table
    options = given.options
    named = options.label
    if named == NONE or (named and named == nodes.id):
        return ""
    if named:
        features.column(table, named, "label")
    sizes = {name: _sizes(table, name) for name in table if name not in nodes.used - {named}}
    is_later = options.like is not None
    usual = [named] if named else _usual(table, sizes, is_later)
    fit = [name for name in usual if _repeats(sizes[name], 2) or len(sizes[name]) <= FEW]
    fit = [name for name in fit if len(sizes[name]) > 1] or fit
    if len(fit) == 1 or (fit and fit[0].lower() in labels.COLUMNS[: labels.CLEAR]):
        return fit[0]
    if is_later:
        return ""
    likely = fit or _likely(table, sizes)
    perhaps = [f"{name} ({len(sizes[name])} values)" for name in likely or sizes if name]
    hint = "Name the column of classes with `label`"
    if perhaps:
        hint += f", perhaps {listed(perhaps, 4)}"
    if not usual and not likely:
        given.problems.append(f"No column of labels was found. {hint}.")
        return ""
    message = "no column has a usual name of classes"
    if not options.in_python:
        message += " in the first line"
    if fit:
        message = f"several columns may hold the classes: {listed(fit)}"
    elif usual:
        message = f"the {len(sizes[usual[0]]):,} values of {usual[0]} hardly repeat"
    raise InputError.plain("label", message, f"{hint}; or give {option('label', NONE)}")


def _usual(table: pandas.DataFrame, sizes: Sizes, is_later: bool) -> list[str]:
    """Columns of usual names that may hold classes; a later table needs none."""
    names = labels.COLUMNS[:1] if is_later else labels.COLUMNS
    usual = [columns.usual(sizes, [name]) for name in names]
    filled = [name for name in usual if name and sizes[name]]
    return [name for name in filled if not _is_measure(table, name, sizes[name])]


def _sizes(table: pandas.DataFrame, name: str) -> Counter[str]:
    counts = Counter(texts(table[name]))
    for cell in [cell for cell in counts if not cell or cell.lower() in labels.MISSING]:
        del counts[cell]
    return counts


def _repeats(sizes: Counter[str], times: int) -> bool:
    return sizes.total() >= times * len(sizes)


def _likely(table: pandas.DataFrame, sizes: Sizes) -> list[str]:
    """Columns that may hold the classes: words, or else numbers, that repeat."""
    likely = [name for name, size in sizes.items() if 2 <= len(size) <= 100 and _repeats(size, 5)]
    likely = [name for name in likely if not NAMELESS.fullmatch(name)]
    likely = [name for name in likely if not _is_measure(table, name, sizes[name])]
    words = [name for name in likely if not all(map(str.isdecimal, sizes[name]))]
    return words or likely


def _is_measure(table: pandas.DataFrame, name: str, values: Collection[str]) -> bool:
    """Whether a column holds a coordinate, or numbers with a fraction."""
    numbers = pandas.to_numeric([*values], errors="coerce")
    is_axis = name.lower() == "y" and bool(columns.usual(table, ("x", "z")))
    return not np.isnan(numbers).any() and (is_axis or bool((numbers % 1 != 0).any()))

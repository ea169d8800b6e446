"""The columns of classes and of the split of a node table."""

from __future__ import annotations

import re
from collections import Counter
from typing import Collection, Mapping, Sequence

import numpy as np
import pandas

from graphgym_srnc.core.text import listed
from graphgym_srnc.data import columns, features, labels
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.look import NONE, Look
from graphgym_srnc.data.read import NAMELESS
from graphgym_srnc.errors import InputError, option

SAME_PART = {"valid": "val", "validation": "val", "training": "train", "testing": "test"}
MASK = re.compile(r"(train|val|valid|test)_mask")
FEW = 4  # maximum number of classes that may have one label each, as when labelling begins
Sizes = Mapping[str, Counter[str]]  # of the classes in each column


def find_split(found: Look) -> None:
    """The parts of the split: of a column, named or recognised by its cells, or of masks."""
    table = found.table
    free = [name for name in table if name not in found.used]
    masks = [name for name in free if MASK.fullmatch(name.lower())]
    name = found.options.split or columns.usual(free, ("split",))
    if masks and not name:
        found.uses["split"] = masks
        found.parts = _parts_of_masks(found, masks)
        return
    likely = [name] if name else [other for other in free if _is_split(texts(table[other]))]
    if len(likely) > 1:
        ways = " or ".join(option("split", other) for other in likely)
        raise InputError.plain(
            "split",
            f"several columns hold parts of a split: {listed(likely)}",
            f"Choose one with {ways}",
        )
    for name in likely:
        found.uses["split"] = [name]
        cells = texts(features.column(table, name, "split"))
        found.parts = [_part(cell.lower()) for cell in cells]


def _part(word: str) -> str:
    return SAME_PART.get(word, word)


def _is_split(cells: Sequence[str]) -> bool:
    """Whether all cells are words for parts of a split, of two parts or more."""
    words = {cell.lower() for cell in cells} - {""}
    return len(words) > 1 and words <= {*SAME_PART, *labels.PARTS}


def _parts_of_masks(found: Look, masks: list[str]) -> list[str]:
    """The part of each node by masks of true and false."""
    cells = found.table[masks].apply(lambda cells: features.truth(features.present(texts(cells))))
    if not cells.isin(["0", "1", ""]).all(axis=None):
        raise InputError.plain(
            "split",
            f"the masks {listed(masks)} have other values than true and false, or 1 and 0",
            "Write true or false for each node",
        )
    inside = cells == "1"
    twice = inside.sum(axis=1) > 1
    if twice.any():
        raise InputError.plain(
            "split",
            f"the node {found.ids[int(twice.argmax())]} is in two of {listed(masks)}",
            "Put each node into one part",
        )
    parts = [_part(name.lower().removesuffix("_mask")) for name in masks]
    return [*inside.dot(pandas.Series(parts, masks, dtype=object))]


def find_label(found: Look) -> None:
    """The column of labels, named, or of a usual name and with cells that may be classes.

    Raises:
        InputError: several columns, or none of a usual name, may be of labels.
    """
    table = found.table
    named = found.options.label
    if named == NONE or (named and named == found.id):
        return
    if named:
        features.column(table, named, "label")
    sizes = {name: _sizes(table, name) for name in table if name not in found.used - {named}}
    usual = [named] if named else _usual(found, sizes)
    fit = [name for name in usual if _repeats(sizes[name], 2) or len(sizes[name]) <= FEW]
    fit = [name for name in fit if len(sizes[name]) > 1] or fit
    if len(fit) == 1 or (fit and fit[0].lower() in labels.COLUMNS[: labels.CLEAR]):
        found.uses["label"] = fit[:1]
        return
    if found.options.like is not None:
        return
    likely = fit or _likely(table, sizes)
    perhaps = [f"{name} ({len(sizes[name])} values)" for name in likely or sizes if name]
    hint = "Name the column of classes with `label`"
    if perhaps:
        hint += f", perhaps {listed(perhaps, 4)}"
    if not usual and not likely:
        found.notes.append(f"No column of labels was found. {hint}.")
        return
    message = "no column has a usual name of classes"
    if not found.options.in_python:
        message += " in the first line"
    if fit:
        message = f"several columns may hold the classes: {listed(fit)}"
    elif usual:
        message = f"the {len(sizes[usual[0]]):,} values of {usual[0]} hardly repeat"
    raise InputError.plain("label", message, f"{hint}; or give {option('label', NONE)}")


def _usual(found: Look, sizes: Sizes) -> list[str]:
    """Columns of usual names that may hold classes; a later table needs none."""
    names = labels.COLUMNS if found.options.like is None else labels.COLUMNS[:1]
    usual = [columns.usual(sizes, [name]) for name in names]
    filled = [name for name in usual if name and sizes[name]]
    return [name for name in filled if not _is_measure(found.table, name, sizes[name])]


def _sizes(table: pandas.DataFrame, name: str) -> Counter[str]:
    cells = texts(table[name])
    return Counter(cell for cell in cells if cell and cell.lower() not in labels.MISSING)


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


def read(found: Look) -> None:
    """Clean the labels of the kept rows, and check their split."""
    held: list[bool] = []
    if found.parts is not None:
        found.parts = [found.parts[row] for row in found.table.index]
        labels.check_parts(found.parts, found.ids, "split")
        held = [part in labels.PARTS[1:] for part in found.parts]
    for name in found.uses.get("label", ()):
        found.labels, notes, alike = labels.cleaned(texts(found.table[name]), name, held)
        found.notes += notes + alike

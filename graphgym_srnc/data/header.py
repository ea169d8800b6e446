"""The first line of a table: names of columns, or a row. Its cells decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Collection

import numpy as np
import pandas

from graphgym_srnc.core.text import listed, short
from graphgym_srnc.data import columns, labels, read
from graphgym_srnc.errors import InputError, option

if TYPE_CHECKING:
    from graphgym_srnc.data.look import Given

SHOWN = 1000  # rows below the first one by which it is recognised as a header


def named(
    given: Given, sheet: pandas.DataFrame, ids: Collection[str] | None = None
) -> pandas.DataFrame:
    """A sheet with names of columns: its first line, or 1, 2, ... if that is a row.

    ``ids`` of nodes are given for a list of links, whose lines may differ in length.
    """
    if not read.is_bare(sheet):
        return sheet
    file = given.files[ids is not None]
    if is_of_r(sheet) and (sheet.iloc[1:, -1] == "").all():  # lines end with a separator
        sheet = sheet.iloc[:, :-1]
    counts = read.is_counter(sheet.iloc[1:, 0]) and not {*sheet.iloc[0]} & {*(ids or ())}
    if is_of_r(sheet) and (ids is None or counts):  # else each line may list neighbours
        return read.headed(with_corner(sheet), file)
    if ids is None:
        read.check_lengths(sheet, file)
    sheet = sheet.fillna("") if sheet.isna().any(axis=None) else sheet
    if _is_header(given, sheet, ids):
        # The first cell leaves few rows, whose other cells are compared.
        alike = np.flatnonzero(sheet.iloc[:, 0] == sheet.iloc[0, 0])
        repeated = alike[(sheet.iloc[alike] == sheet.iloc[0]).all(axis=1)][1:]
        if len(repeated):
            place = sheet.index[repeated[0]]
            given.notes.append(
                f"{file}: {sheet.index.name} {place:,} repeats the header and is left out"
            )
        return read.headed(sheet.iloc[np.delete(np.arange(len(sheet)), repeated)], file)
    what = "a node" if ids is None else "a link"
    given.notes.append(
        f"{file}: the first line, {_begin(sheet)}, is read as {what}; columns are 1, 2, ..."
    )
    return sheet.set_axis([str(place + 1) for place in sheet], axis=1)


def is_of_r(sheet: pandas.DataFrame) -> bool:
    """Whether only the first line lacks a cell: R writes no name above the names of rows."""
    is_short = len(sheet) > 1 and sheet.iloc[0].isna().sum() == 1
    is_short = is_short and not sheet.iloc[1:].isna().any(axis=None)
    return is_short and (sheet.iloc[1:, 0].is_unique or bool((sheet.iloc[1:, -1] == "").all()))


def with_corner(sheet: pandas.DataFrame) -> pandas.DataFrame:
    """A sheet of R with an empty cell above the names of rows."""
    sheet = sheet.copy()
    sheet.iloc[0] = sheet.iloc[0].shift(1, fill_value="")
    return sheet


def _begin(sheet: pandas.DataFrame) -> str:
    return short(",".join(sheet.iloc[0]).rstrip(","), 40)


def _is_header(given: Given, sheet: pandas.DataFrame, ids: Collection[str] | None) -> bool:
    """Whether the first line has the names of columns rather than cells of a row.

    Raises:
        InputError: it counts, as names that pandas gives do, and may be a row.
    """
    options = given.options
    file = given.files[ids is not None]
    first = sheet.iloc[0]
    below = sheet.iloc[1 : SHOWN + 1]
    below = below[(below != first).any(axis=1)]
    looks = [_looks_like_a_name(first[place], below[place]) for place in sheet]
    is_usual = first.str.lower().isin(columns.USUAL).any()
    is_name = is_usual or first.isin(options.chosen).any() or True in looks
    is_cell = [look is False for look in looks]
    filled = [*first[first != ""]]
    counts = any(is_cell) and len(filled) > 1 and filled == [*map(str, range(len(filled)))]
    counts = counts and sheet.attrs.get("separator") != " "  # pandas writes no spaces
    if is_name or (first.iloc[0] == "" and (below.iloc[:, 0] != "").all()):
        if any(is_cell) and not is_usual and not counts:
            values = listed([*map(repr, first[is_cell])], 3)
            given.notes.append(
                f"{file}: the first line, {_begin(sheet)}, is read as names of columns, although "
                f"{values} may be cells like those below"
            )
        return True
    if ids is not None and not counts and (len(sheet) == 1 or any(cell in ids for cell in first)):
        return False
    if options.header is not None:
        return options.header
    if counts:
        ways = f"{option('header', True)} or {option('header', False)}"
        raise InputError.plain(
            file,
            f"the first line, {_begin(sheet)}, may be names of columns or a row",
            f"Say which with {ways}",
        )
    return not any(is_cell)


def _looks_like_a_name(cell: str, below: pandas.Series) -> bool | None:
    """Whether a cell can only be a name, or is like the cells below; None = it does not tell."""
    known = below[~below.str.lower().isin({"", *labels.EMPTY})]
    if cell.lower() in {"", *labels.EMPTY} or not len(known):
        return None
    if pandas.to_numeric(known, errors="coerce").notna().all():
        return bool(pandas.isna(pandas.to_numeric(cell, errors="coerce")))
    return False if known.nunique() <= len(known) / 2 and (known == cell).any() else None

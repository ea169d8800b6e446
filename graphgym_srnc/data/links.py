"""Links in a sheet, a row each: of a list, an adjacency matrix, or nodes and their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Collection

import pandas

from graphgym_srnc.core.text import listed
from graphgym_srnc.data import columns, header, read
from graphgym_srnc.errors import InputError, option

if TYPE_CHECKING:
    from graphgym_srnc.data.look import Given
    from graphgym_srnc.data.readings import Unique

SMALL = 6  # number of rows below which a square of numbers may be a list of links
ALL = "*"  # in place of the second end: all other columns


def links(
    given: Given, table: pandas.DataFrame, unique: Unique, sheet: pandas.DataFrame
) -> pandas.DataFrame:
    """The links of a sheet, a row each, of two columns of ids or more of the nodes of a table.

    ``unique`` is what ``columns.unique`` found in the table.
    """
    if sheet.empty:  # values of a column make all links
        return sheet
    file = given.files[1]
    options = given.options
    usual = columns.usual(table, columns.IDS) or table.columns[0]
    own = unique if usual in unique else unique | {usual: columns.cells(table, usual)}
    ids = set[str]().union(*own.values())
    if not options.ends:
        matrix = _of_matrix(file, sheet, ids, len(table))
        if matrix is not None:
            given.notes.append(f"{file}: it is read as an adjacency matrix")
            return matrix
    frame = header.named(given, sheet, ids)
    _check_ends(given, frame)
    if ALL in options.ends:
        melted = frame.melt([options.ends[0]], value_name=ALL)
        return melted.loc[melted[ALL] != "", [*options.ends]]
    if "1" in frame and sheet.isna().any(axis=None) and not options.ends:
        lengths = sheet.notna().sum(axis=1)
        line = (lengths != lengths.iloc[0]).idxmax()
        raise InputError.plain(
            file,
            f"line {line:,} is {','.join(filter(None, frame.loc[line]))[:80]!r}, and the first"
            f" line has {lengths.iloc[0]} cells",
            f"Choose {option('ends', ('1', ALL))} if each line is a node and its"
            f" neighbours, or {option('ends', ('1', '2'))} if it is a link",
        )
    return frame


def _of_matrix(
    file: str, sheet: pandas.DataFrame, ids: Collection[str], num_nodes: int
) -> pandas.DataFrame | None:
    """The links of an adjacency matrix by names of its rows, or else by numbers of rows.

    It is None if the sheet is no square of numbers, or a small one that may be links.
    """
    if header.is_of_r(sheet):
        sheet = header.with_corner(sheet)
    if abs(len(sheet) - sheet.shape[1]) > 1 or sheet.isna().any(axis=None):
        return None
    first = [*(sheet.iloc[0] if read.is_bare(sheet) else sheet)]
    rows = sheet.iloc[1:] if read.is_bare(sheet) else sheet
    beside = len(first) - len(rows)  # 1 if the first column holds names of rows
    names = first[beside:]
    side = [*rows.iloc[:, 0]] if beside == 1 else names
    if beside in (0, 1) and {*names} == {*side} <= {*ids} and len({*names}) == len(rows):
        values = rows.iloc[:, beside:].set_axis(side).set_axis(names, axis=1)
    else:
        values = sheet if len(sheet) == len(first) else rows
        values = values.set_axis(range(len(values))).set_axis(range(len(first)), axis=1)
    values = values.astype(str).replace("", "0").apply(pandas.to_numeric, errors="coerce")
    is_square = values.shape[0] == values.shape[1] >= SMALL
    if not is_square or values.isna().any(axis=None):
        return None
    frame = read.entries(values[values.index].to_numpy(), values.index)
    if isinstance(values.index, pandas.RangeIndex):
        if len(values) != num_nodes:
            raise InputError.plain(
                file,
                f"it is an adjacency matrix of {len(values):,} nodes, and there are {num_nodes:,}",
                "Give it one row and one column for each node",
            )
        frame.attrs["rows"] = "rows from 0"
    return frame


def _check_ends(given: Given, frame: pandas.DataFrame) -> None:
    """Refuse links of one column, and ends that the options name wrongly."""
    options = given.options
    absent = [name for name in options.ends if name not in (ALL, *frame)]
    if absent:
        problem = f"it has no column {listed(absent)}"
    elif len(options.ends) not in (0, 2):
        problem = f"`ends` must name two columns, not {len(options.ends)}"
    elif frame.shape[1] < 2:
        problem = "it has not two columns. Write the ids of two nodes on each line"
    else:
        return
    raise InputError.plain(given.files[1], problem, f"Its columns are {columns.listing(frame)}")

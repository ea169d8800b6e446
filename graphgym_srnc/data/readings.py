"""What the cells of tables and links allow: a header, columns of ids, ends of links.

Cells decide, and usual names break ties. Of several readings that give different graphs none is
taken: the error lists the option that selects each.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Collection, Iterable, NamedTuple, Sequence

import numpy as np
import pandas

from graphgym_srnc.core.text import listed, short
from graphgym_srnc.data import labels, read
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.read import NAMELESS, is_counter
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from graphgym_srnc.data.frames import Options

# Usual names of columns of ids and of the ends of links, in lower case, the most usual first.
IDS = ("id", "_id", "node_id", "nodeid", "node", "key")
ENDS = (
    "source-target from-to src-dst src-dest citing-cited sender-receiver follower-followee "
    "start-end u-v head-tail"
).split()
OTHERS = "split name title text type weight value index rank year".split()
USUAL = {*IDS, *labels.COLUMNS, *"-".join(ENDS).split("-"), *OTHERS}  # names of columns
STRONG = {"source", "src", "citing", "sender", "follower"}  # no times, coordinates or parts
MOST = 0.9  # share of cells that makes most of them
SHOWN_NAMES = 20  # in an error
SHOWN = 1000  # rows below the first one by which it is recognised as a header
SMALL = 6  # number of rows below which a square of numbers may be a list of links
ALL = "*"  # in place of the second end: all other columns


class Reading(NamedTuple):
    """One way to read links."""

    id: str | None  # column of ids; None = the ends are numbers of rows
    ends: tuple[str, str]
    share: float = 1  # of the different cells of an end that are ids, at least
    rank: float = 0  # the lower, the more usual are the names
    base: int = 0  # number of the first row


def named(
    sheet: pandas.DataFrame,
    file: str,
    options: Options,
    notes: list[str],
    ids: Collection[str] | None = None,
) -> pandas.DataFrame:
    """A sheet with names of columns: its first line, or 1, 2, ... if that is a row.

    ``ids`` of nodes are given for a list of links, whose lines may differ in length.
    """
    if not read.is_bare(sheet):
        return sheet
    if _is_of_r(sheet) and (sheet.iloc[1:, -1] == "").all():  # lines end with a separator
        sheet = sheet.iloc[:, :-1]
    if _is_of_r(sheet) and not sheet.iloc[0].isin([*(ids or ())]).any():
        names = sheet.iloc[1:, 0]
        if ids is not None and names.isin([*ids]).all() and not is_counter(names):
            read.check_lengths(sheet, file)  # lines of nodes and their neighbours, perhaps
        top = ["", *sheet.iloc[0, :-1]]
        rows = [top, *sheet.iloc[1:].to_numpy().tolist()]
        return read.headed(pandas.DataFrame(rows, sheet.index, dtype=object), file)
    if ids is None:
        read.check_lengths(sheet, file)
    sheet = sheet.fillna("")
    if _is_header(sheet, file, options, notes, ids):
        repeated = (sheet.iloc[1:] == sheet.iloc[0]).all(axis=1)
        if len(again := repeated.index[repeated]):
            where = f"{sheet.index.name} {again[0]:,}"
            notes.append(f"{file}: {where} repeats the header and is left out")
            sheet = pandas.concat([sheet.iloc[:1], sheet.iloc[1:][~repeated]])
        return read.headed(sheet, file)
    if "names" in sheet.attrs:  # in a comment above
        return sheet.set_axis(sheet.attrs["names"], axis=1)
    what = "a node" if ids is None else "a link"
    begin = short(",".join(sheet.iloc[0]).rstrip(","), 40)
    notes.append(f"{file}: the first line, {begin}, is read as {what}; columns are 1, 2, ...")
    return sheet.set_axis([str(place + 1) for place in sheet], axis=1)


def _is_of_r(sheet: pandas.DataFrame) -> bool:
    """Whether only the first line lacks a cell: R writes no name above the names of rows."""
    lacks = sheet.isna().sum(axis=1)
    is_short = len(sheet) > 1 and lacks.iloc[0] == 1 and not lacks.iloc[1:].any()
    return is_short and (sheet.iloc[1:, 0].is_unique or bool((sheet.iloc[1:, -1] == "").all()))


def _is_header(
    sheet: pandas.DataFrame,
    file: str,
    options: Options,
    notes: list[str],
    ids: Collection[str] | None,
) -> bool:
    """Whether the first line has the names of columns rather than cells of a row."""
    first = sheet.iloc[0]
    is_name, is_cell = _compared(first, sheet.iloc[1 : SHOWN + 1])
    is_usual = first.str.lower().isin(USUAL)
    chosen = {options.id, options.label, options.split, *options.columns, *options.ends}
    chosen -= {None, "", ALL, *(str(place + 1) for place in sheet)}
    is_name |= is_usual | first.isin(chosen)
    begin = short(",".join(first), 40)
    if is_name.any():
        if is_cell.any() and not (is_usual.any() or _is_series(sheet, is_cell, ids is None)):
            values = listed([*map(repr, first[is_cell])], 3)
            notes.append(
                f"{file}: the first line, {begin}, is read as names of columns, although {values}"
                " may be cells like those below"
            )
        return True
    is_series = is_cell.any() and _is_series(sheet, is_cell, ids is None)
    is_series = is_series and (ids is None or not _again(sheet))
    if ids is not None and not is_series and (len(sheet) == 1 or first.isin([*ids]).any()):
        return False
    if options.header is not None or "names" in sheet.attrs:
        return bool(options.header)
    if is_series:
        ways = f"{options.named('header', True)} or {options.named('no_header', True)}"
        message = f"the first line, {begin}, may be names of columns or a row"
        raise InputError.plain(file, message, f"Say which with {ways}")
    return not is_cell.any()


def _compared(first: pandas.Series, below: pandas.DataFrame) -> tuple[pandas.Series, pandas.Series]:
    """Which cells of the first line can only be names, and which are like those below."""
    is_name = pandas.Series(False, first.index)
    is_cell = is_name.copy()
    below = below[(below != first).any(axis=1)]
    is_name.iloc[0] = first.iloc[0] == "" and (below.iloc[:, 0] != "").all()
    for place, cells in below.items():
        known = cells[(cells != "") & ~cells.str.lower().isin(labels.EMPTY)]
        if first[place] == "" or first[place].lower() in labels.EMPTY or not len(known):
            continue
        if not _numbers(known).isna().any():
            is_cell[place] = not _numbers(first[[place]]).isna().any()
            is_name[place] |= not is_cell[place]
        elif known.nunique() <= len(known) / 2:
            is_cell[place] = (known == first[place]).any()
    return is_name, is_cell


def _is_series(sheet: pandas.DataFrame, is_cell: pandas.Series, years: bool) -> bool:
    """Whether the numbers in the first line count, as names that pandas gives, or as years do."""
    first = sheet.iloc[0]
    filled = [*first[first != ""]]
    if filled == [*map(str, range(len(filled)))] and len(filled) > 1:
        return bool(sheet.attrs.get("separator") != " ")  # pandas writes no spaces
    steps = _numbers(first[is_cell]).diff().iloc[1:]
    return years and len(steps) > 1 and bool((steps == 1).all())


def _numbers(cells: pandas.Series) -> pandas.Series:
    return pandas.Series(pandas.to_numeric(cells, errors="coerce"), cells.index, dtype=float)


def _again(sheet: pandas.DataFrame) -> bool:
    """Whether the first line occurs again as a link, so that it does not matter what it is."""
    pairs = pandas.Series([frozenset(pair) for pair in sheet.iloc[:, :2].to_numpy()])
    return bool((pairs.iloc[1:] == pairs.iloc[0]).any())


def links(
    sheet: pandas.DataFrame,
    table: pandas.DataFrame,
    file: str,
    options: Options,
    notes: list[str],
) -> pandas.DataFrame:
    """The links of a sheet, a row each, of two columns of ids or more.

    The sheet may be an adjacency matrix, or have a node and its neighbours on each line.
    """
    if not options.ends:
        matrix = _of_matrix(sheet, table, file)
        if len(matrix):
            notes.append(f"{file}: it is read as an adjacency matrix; weights are not used")
            return matrix
    columns = {*candidates(table), usual(table, IDS) or [*table][0]}
    ids = {cell for name in columns for cell in distinct(table[name])}
    frame = named(sheet, file, options, notes, ids)
    _check_ends(frame, file, options)
    if _is_of_neighbours(frame, sheet, file, options, ids):
        notes.append(f"{file}: each line is read as a node and its neighbours")
        name = options.ends[0] if options.ends else frame.columns[0]
        others = [other for other in frame if other != name]
        melted = frame.melt([name], others, value_name="neighbour")
        return melted.loc[melted["neighbour"] != "", [name, "neighbour"]]
    short_lines = frame[(frame != "").sum(axis=1) < 2] if read.is_bare(sheet) else frame[:0]
    if len(short_lines):
        cell = ",".join(filter(None, short_lines.iloc[0]))[:80]
        message = f"line {short_lines.index[0]:,} is {cell!r}"
        hint = "Write the ids of two nodes on each line; if lines list neighbours, choose"
        hint += f" {options.named('ends', (frame.columns[0], ALL))}"
        raise InputError.plain(file, message, hint)
    return frame


def _is_of_neighbours(
    frame: pandas.DataFrame,
    sheet: pandas.DataFrame,
    file: str,
    options: Options,
    ids: Collection[str],
) -> bool:
    """Whether a line is a node and its neighbours: lines differ in length, and all cells are ids.

    Raises:
        InputError: the third cell of some lines may be a weight.
    """
    if options.ends or not {"1", "3"} <= {*frame} or not sheet.isna().any(axis=None):
        return ALL in options.ends
    written = {*frame.to_numpy().ravel()} - {""}
    is_list = len(written & {*ids}) >= MOST * len(written)
    if is_list and frame.shape[1] == 3 and all(cell.isdecimal() for cell in written):
        one = options.named("ends", ("1", "2"))
        two = options.named("ends", ("1", ALL))
        message = "its lines have two or three numbers, all of which are ids of nodes"
        hint = f"Choose {one} if the third is no node, or {two} if lines list neighbours"
        raise InputError.plain(file, message, hint)
    return is_list


def _check_ends(frame: pandas.DataFrame, file: str, options: Options) -> None:
    """Refuse links of one column, and ends that the options name wrongly."""
    problem = ""
    hint = f"Its columns are {listing(frame)}"
    if absent := [name for name in options.ends if name not in (ALL, *frame)]:
        problem = f"it has no column {listed(absent)}"
    elif len(options.ends) not in (0, 2):
        problem = f"{options.named('ends')} must name two columns, not {len(options.ends)}"
    elif frame.shape[1] < 2:
        problem = "it has not two columns"
        hint = "Write the ids of two nodes on each line"
    if problem:
        raise InputError.plain(file, problem, hint)


def _of_matrix(sheet: pandas.DataFrame, table: pandas.DataFrame, file: str) -> pandas.DataFrame:
    """The links of an adjacency matrix by names of its rows, or else by numbers of rows.

    The frame is empty if the sheet is no square of numbers, or a small one that may be links.
    """
    if abs(len(sheet) - sheet.shape[1]) > 1:
        return pandas.DataFrame()
    cells = sheet.fillna("").astype(str)
    if _is_of_r(sheet):
        cells.iloc[0] = cells.iloc[0].shift(1, fill_value="")
    elif sheet.isna().any(axis=None):
        return pandas.DataFrame()
    if not read.is_bare(sheet):
        cells = pandas.DataFrame([[*cells.columns], *cells.to_numpy()], dtype=object)
    names = {cell for name in candidates(table) for cell in distinct(table[name])}
    top, side = [*cells.iloc[0]], [*cells.iloc[:, 0]]
    if len({*top[1:]} & {*side[1:]} & names) == len(cells) - 1 == len(top) - 1:
        row_names, column_names = side[1:], top[1:]
        cells = cells.iloc[1:, 1:]
    elif len({*top} & names) == len(cells) - 1 == len(top):
        row_names = column_names = top
        cells = cells.iloc[1:]
    else:
        row_names = column_names = []
        cells = cells if read.is_bare(sheet) else cells.iloc[1:]
    values = cells.replace("", "0").apply(pandas.to_numeric, errors="coerce")
    size = len(values)
    if values.shape != (size, size) or size < SMALL or values.isna().any(axis=None):
        return pandas.DataFrame()
    if not row_names and size != len(table):
        message = f"it is an adjacency matrix of {size:,} nodes, and there are {len(table):,}"
        raise InputError.plain(file, message, "Give it one row and one column for each node")
    places = [*range(size)]
    row, column = np.nonzero(values.to_numpy())
    found = {
        "row": np.array(row_names or places, dtype=object)[row],
        "column": np.array(column_names or places, dtype=object)[column],
    }
    frame = pandas.DataFrame(found).astype(str)
    frame.attrs["by place"] = not row_names
    return frame


def readings(table: pandas.DataFrame, links: pandas.DataFrame, options: Options) -> list[Reading]:
    """All ways to read links by columns whose cells, nearly all, are ids."""
    free = table[[name for name in table if name not in _used(options)]]
    names = [options.id] if options.id in table else candidates(free)
    ends = options.ends or [name for name in links if (links[name] != "").mean() > 1 - MOST]
    cells = {name: {*_bare(distinct(links[name]))} - {""} for name in ends}
    found = list[Reading]()
    for name in names:
        ids = {*_bare(distinct(table[name]))} - {""}
        share = {end: len(own & ids) / len(own) for end, own in cells.items() if own}
        pairs, is_clear = ([options.ends], True) if options.ends else _pairs(links, share)
        rank = _id_rank(table, str(name)) + (not is_clear)
        for a, b in pairs:
            found.append(Reading(name, (a, b), min(share.get(a, 0), share.get(b, 0)), rank))
    least = max(0.5, MOST * max((one.share for one in found), default=0))
    return [one for one in found if one.share >= least]


def _pairs(links: pandas.DataFrame, share: dict[str, float]) -> tuple[list[tuple[str, str]], bool]:
    """Pairs of columns that may be the ends, and whether they are those of usual names."""
    least = max(0.5, MOST * sorted(share.values())[-2:][0]) if len(share) > 1 else 1
    rest = [name for name in share if share[name] >= least]
    index = [name for name in rest if NAMELESS.fullmatch(name)]
    constant = [name for name in [*links][2:] if name in rest and links[name].nunique() < 2]
    for others in (index, constant):
        kept = [name for name in rest if name not in others]
        rest = kept if len(kept) > 1 else rest
    every = [*itertools.combinations(rest, 2)]
    usual = [(a, b) if _is_usual(a, b) else (b, a) for a, b in every if _is_usual(a, b, True)]
    is_weak = len(usual) == 1 and len(rest) > 3 and _plain(usual[0][0]) not in STRONG
    return (every, len(every) == 1) if is_weak or not usual else (usual, True)


def _plain(name: str) -> str:
    """A name of an end without what differs between programs, such as source_id and node1."""
    return re.sub(r"[\W_]|id$|(?<=.)node", "", name.lower())


def _is_usual(a: str, b: str, either: bool = False) -> bool:
    """Whether two names are those of the ends of links, in this order or ``either`` one."""
    one, other = _plain(a), _plain(b)
    if either and _is_usual(b, a):
        return True
    return f"{one}-{other}" in ENDS or (one[1:].endswith("1") and other == f"{one[:-1]}2")


def choose(
    found: list[Reading],
    table: pandas.DataFrame,
    links: pandas.DataFrame,
    options: Options,
    files: tuple[str, str],
) -> Reading:
    """The one of several readings, or one of usual names whose ids the caller has to check.

    Raises:
        InputError: several readings give different graphs, or there is none.
    """
    if links.attrs.get("by place"):
        return Reading(None, ("row", "column"))
    is_full = any(one.share == 1 for one in found)
    place = None
    if options.id is None and (not is_full or links.attrs.get("is matrix")):
        place = by_place(table, links, options)
    if place and all(is_counter(table[one.id]) for one in found):
        return place
    if place and is_full and _graph(table, links, found[0]) != _graph(table, links, place):
        message = f"its numbers may be ids of {found[0].id} or count the rows of {files[0]}"
        hint = (
            f"Sort these rows by {found[0].id}, or choose {_named_id(found[0].id or '', options)}"
        )
        raise InputError.plain(files[1], message, hint)
    if not found:
        return _by_names(table, links, options, files[1])
    best = [one for one in found if one.rank == min(other.rank for other in found)]
    graphs = {_graph(table, links, one): one for one in best} if len(best) > 1 else {}
    if len(graphs) > 1:
        raise _unclear([*graphs.values()], options, files)
    return best[0]


def _unclear(best: list[Reading], options: Options, files: tuple[str, str]) -> InputError:
    """The error that lists several readings, and the option that selects each."""
    ids = dict.fromkeys(one.id for one in best)
    ends = dict.fromkeys(one.ends for one in best)
    ways = []
    for one in best:
        way = [_named_id(one.id or "", options)] if len(ids) > 1 else []
        way += [options.named("ends", one.ends)] if len(ends) > 1 else []
        ways.append((", " if options.in_python else " ").join(way))
    hint = f"Choose one with {listed(ways, 4).replace(' and ', ' or ')}"
    if len(ends) == 1:
        columns = [name or "the index" for name in ids]
        message = f"several columns have the ids of the links: {listed(columns)}"
        return InputError.plain("--id", message, hint)
    names = dict.fromkeys(name for pair in ends for name in pair)
    message = f"it is not clear which two columns hold the ids of nodes: {listed([*names])}"
    if "1" in names:
        neighbours = options.named("ends", ("1", ALL))
        hint += f"; if each line is a node and its neighbours, with {neighbours}"
    return InputError.plain(files[1], message, hint)


def _named_id(name: str, options: Options) -> str:
    """What selects a column of ids, or the index of a frame."""
    return options.named("id", name) if name or not options.in_python else "rename_axis('id')"


def _graph(table: pandas.DataFrame, links: pandas.DataFrame, one: Reading) -> bytes:
    """The links of a reading, by which equal graphs are recognised."""
    rows = [str(place + one.base) for place in range(len(table))]
    ids = rows if one.id is None else _bare(cells(table, one.id))
    place = pandas.Index(ids).drop_duplicates()
    pairs = [place.get_indexer(pandas.Index(_bare(cells(links, end)))) for end in one.ends]
    return np.unique(np.sort(pairs, axis=0), axis=1).tobytes()


def by_place(table: pandas.DataFrame, links: pandas.DataFrame, options: Options) -> Reading | None:
    """Links whose ends are all numbers of rows, from 0 or from 1 to the last one."""
    try:
        pair = _by_names(table, links, options, "").ends
    except InputError:
        return None
    numbers = {cell for end in pair for cell in distinct(links[end])}
    if not numbers or not all(cell.isdecimal() for cell in numbers):
        return None
    low, high = min(map(int, numbers)), max(map(int, numbers))
    if not (low == 0 and high < len(table)) and not (low > 0 and high == len(table)):
        return None
    return Reading(None, (pair[0], pair[1]), base=0 if low == 0 else 1)


def _by_names(
    table: pandas.DataFrame, links: pandas.DataFrame, options: Options, file: str
) -> Reading:
    """A reading by usual names, or by the only columns there are."""
    columns = [name for name in links if not NAMELESS.fullmatch(name)]
    usual = [pair for pair in itertools.permutations(columns, 2) if _is_usual(*pair)]
    pairs = [tuple(options.ends)] if options.ends else usual
    if not pairs and len(columns) == 2:
        pairs = [(columns[0], columns[1])]
    if len(pairs) != 1:
        begin = [short(",".join(row), 40) for row in links.iloc[:3].astype(str).to_numpy()]
        message = "no two columns hold ids of the node table"
        hint = f"It begins with {listed([*map(repr, begin)])}. Name them with"
        raise InputError.plain(file, message, f"{hint} {options.named('ends', ('A', 'B'))}")
    return Reading(usual_ids(table, options), (pairs[0][0], pairs[0][1]), 0)


def usual_ids(table: pandas.DataFrame, options: Options) -> str:
    """The column of ids by its name, or else the first one whose cells hardly repeat."""
    if options.id is not None and options.id in table:
        return options.id
    free = [name for name in candidates(table) if name not in _used(options)]
    index = [name for name in free if _id_rank(table, name) == 0]
    return [*index, *filter(None, [usual(table, IDS)]), *free, *table][0]


def _used(options: Options) -> set[str]:
    """Columns that have another use than ids; a text may be the ids too, such as names."""
    texts_too = {*options.text, *(options.like or {}).get("text", {}).get("columns", ())}
    return {options.label, options.split, *options.columns} - texts_too - {""}


def _id_rank(table: pandas.DataFrame, name: str) -> float:
    """How usual a name is for ids; an index comes first if its cells are words."""
    if NAMELESS.fullmatch(name):
        return 2 if all(map(str.isdecimal, distinct(table[name]))) else 0
    return 1 + IDS.index(name.lower()) / len(IDS) if name.lower() in IDS else 2


def candidates(table: pandas.DataFrame) -> list[str]:
    """Columns whose cells hardly repeat, without floats that are no whole numbers."""
    floats = [
        name
        for name in table
        if table[name].dtype.kind == "f" and any(table[name].astype(float) % 1 > 0)
    ]
    free = [name for name in table if name not in floats and not read.is_list(table[name])]
    return [name for name in free if len({*texts(table[name])}) >= MOST * len(table)]


def _bare(ids: Iterable[str]) -> list[str]:
    """Ids without leading zeros, which programs drop from numbers."""
    return [id.lstrip("0") or id[:1] for id in ids]


def distinct(column: pandas.Series) -> list[str]:
    """The different cells of a column of ids, see ``cells``."""
    column = column if column.dtype == object else column.drop_duplicates()
    return labels.whole_numbers([*dict.fromkeys(texts(column))])


def cells(table: pandas.DataFrame, name: str) -> list[str]:
    """The cells of a column of ids, without the ``.0`` of whole numbers."""
    return labels.whole_numbers(texts(table[name]))


def usual(table: pandas.DataFrame, names: Sequence[str]) -> str:
    """The first column with one of some usual names, whatever its case; empty = there is none."""
    own = {name.lower(): name for name in reversed(list(table))}
    return next((own[name] for name in names if name in own), "")


def listing(table: pandas.DataFrame) -> str:
    """Names of all columns, as shown."""
    names = [name or "(no name)" for name in table]
    return ", ".join([*names[:SHOWN_NAMES], *["..."] * (len(names) > SHOWN_NAMES)])

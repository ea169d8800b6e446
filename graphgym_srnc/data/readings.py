"""Which columns of links hold the ids of which column of nodes: all readings that cells allow.

Usual names break ties. Of several readings that give different graphs none is taken: the error
lists the option that selects each.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Iterable, NamedTuple

import numpy as np
import pandas

from graphgym_srnc.core.text import listed
from graphgym_srnc.data import columns
from graphgym_srnc.data.columns import IDS, MOST, ROWS
from graphgym_srnc.data.links import ALL
from graphgym_srnc.data.read import NAMELESS
from graphgym_srnc.errors import InputError, option

if TYPE_CHECKING:
    from graphgym_srnc.data.look import Given, Options

Ends = tuple[str, str]
Unique = dict[str, set[str]]


class Reading(NamedTuple):
    """One way to read links."""

    id: str  # column of ids, or one of ``ROWS``
    ends: Ends
    share: float = 0  # of the different cells of an end that are ids, at least
    rank: float = 0  # the lower, the more usual are the names


def readings(
    table: pandas.DataFrame, unique: Unique, links: pandas.DataFrame, options: Options
) -> list[Reading]:
    """All ways to read links by columns whose cells, nearly all, are ids.

    ``unique`` is what ``columns.unique`` found in the table.
    """
    ends = options.ends or [name for name in links if (links[name] != "").mean() > 1 - MOST]
    cells = {name: columns.distinct(columns.cells(links, name)) for name in ends}
    found = list[Reading]()
    for name in [options.id] if options.id is not None else _candidates(table, unique, options):
        own = columns.distinct(unique[name] if name in unique else columns.cells(table, name))
        share = {end: len(each & own) / max(len(each), 1) for end, each in cells.items()}
        pairs = _usual_pairs([*options.ends]) if options.ends else _pairs(links, share)
        rank = _rank(name, own) + (len(pairs) > 1)
        found += [Reading(name, (a, b), min(share[a], share[b]), rank) for a, b in pairs]
    found += _by_rows(table, links, options, found)
    least = max(0.5, MOST * max((one.share for one in found), default=0))
    if "rows" in links.attrs:  # a matrix, whose rows are those of nodes in any reading
        return [one._replace(rank=0) for one in found if one.share == 1]
    return [one for one in found if one.share >= least]


def _by_rows(
    table: pandas.DataFrame, links: pandas.DataFrame, options: Options, others: list[Reading]
) -> list[Reading]:
    """Readings of all ends as numbers of rows, unless a column has all of them as ids."""
    counts = [one for one in others if options.in_python and not one.id]  # not written anywhere
    counts = [one for one in counts if [*table[""]] == [*range(len(table))]]
    is_clear = any(one.share == 1 and one not in counts for one in others)
    is_matrix = "rows" in links.attrs
    rows = [links.attrs["rows"]] if is_matrix else [*ROWS]
    pair = named_ends(links, options)
    is_chosen = options.id is not None
    if pair is None or (is_clear and (is_chosen or not is_matrix)) or (is_chosen and not is_matrix):
        return []
    numbers = columns.distinct(cell for end in pair for cell in columns.cells(links, end))
    fit = [name for name in rows if numbers <= columns.distinct(columns.cells(table, name))]
    return [Reading(name, pair, 1, 2) for name in fit]


def _pairs(links: pandas.DataFrame, share: dict[str, float]) -> list[Ends]:
    """Pairs of columns that may be the ends: those of usual names, or else all."""
    least = max(0.5, MOST * sorted([0, 0, *share.values()])[-2])
    rest = [name for name in share if share[name] >= least]
    index = [name for name in rest if NAMELESS.fullmatch(name)]
    constant = [name for name in [*links][2:] if name in rest and links[name].nunique() < 2]
    for others in (index, constant):
        kept = [name for name in rest if name not in others]
        rest = kept if len(kept) > 1 else rest
    return _usual_pairs(rest)


def choose(
    given: Given, table: pandas.DataFrame, unique: Unique, links: pandas.DataFrame
) -> Reading:
    """The one of several readings, or one of usual names whose ids the caller has to check.

    Raises:
        InputError: several readings give different graphs, or there is none.
    """
    if links.empty:  # values of a column make all links
        return Reading(usual_id(table, unique, given.options), (links.columns[0], links.columns[1]))
    several = readings(table, unique, links, given.options)
    if not several:
        pair = named_ends(links, given.options)
        if pair is None:
            hint = f"Its columns are {columns.listing(links)}. Name two with"
            hint += f" {option('ends', ('A', 'B'))}"
            if _are_swapped(table, links):
                hint = "Are the two tables swapped? Two columns of"
                hint += f" {given.files[0]} hold ids of this one"
            elif given.options.id:
                hint += f", or another column of ids than {option('id', given.options.id)}"
            raise InputError.plain(
                given.files[1], "no two columns hold ids of the node table", hint
            )
        return Reading(usual_id(table, unique, given.options), pair)
    least = min(one.rank for one in several)
    best = [one for one in several if one.rank == least]
    if len(best) == 1:
        return best[0]
    graphs = {_graph(table, links, one): one for one in reversed(best)}
    if len(graphs) > 1:
        raise _unclear(given, links, [*graphs.values()][::-1])
    return best[0]


def _are_swapped(table: pandas.DataFrame, links: pandas.DataFrame) -> bool:
    """Whether two columns of the node table hold ids that a column of the links has once each.

    Half of the ids suffice, since links may lead to nodes that are not in the table.
    """
    for name in columns.unique(links):
        ids = columns.distinct(columns.cells(links, name))
        shares = [len(own & ids) / max(len(own), 1) for own in _cells_of(table)]
        if sum(share >= 0.5 for share in shares) == 2:
            return True
    return False


def _cells_of(table: pandas.DataFrame) -> list[set[str]]:
    return [columns.distinct(columns.cells(table, name)) for name in table if name not in ROWS]


def _by_id(given: Given, name: str) -> str:
    """How to choose a column of ids, or the index of a frame, whose name is empty."""
    return option("id", name) if name or not given.options.in_python else "`rename_axis('id')`"


def _unclear(given: Given, links: pandas.DataFrame, best: list[Reading]) -> InputError:
    """The error that lists several readings, and the option that selects each."""
    ways = []
    for one in best:
        way = [] if all(one.id == other.id for other in best) else [_by_id(given, one.id)]
        if any(one.ends != other.ends for other in best):
            way.append(option("ends", one.ends))
        ways.append(" ".join(way))
    if any("1" in one.ends for one in best) and links.shape[1] > 2:
        ways.insert(0, option("ends", ("1", ALL)))
    hint = f"Choose one with {listed(ways, 4).replace(' and ', ' or ')}"
    return InputError.plain(given.files[1], "its links can be read in several ways", hint)


def _graph(table: pandas.DataFrame, links: pandas.DataFrame, one: Reading) -> bytes:
    """The links of a reading, by which equal graphs are recognised."""
    place = pandas.Index(columns.bare(columns.cells(table, one.id))).drop_duplicates()
    cells = [pandas.Index(columns.bare(columns.cells(links, end))) for end in one.ends]
    pairs = np.sort([place.get_indexer(ids) for ids in cells], axis=0)
    return np.unique(pairs, axis=1).tobytes()


def named_ends(links: pandas.DataFrame, options: Options) -> Ends | None:
    """The ends of links by usual names, or the only two columns there are; None = not clear."""
    names = [*options.ends] or [name for name in links if not NAMELESS.fullmatch(name)]
    pairs = _usual_pairs(names)
    return pairs[0] if len(pairs) == 1 else None


def _usual_pairs(names: list[str]) -> list[Ends]:
    """Pairs of names that are usual for ends, or else all pairs."""
    usual = [pair for pair in itertools.permutations(names, 2) if columns.are_ends(*pair)]
    return usual if usual and len(names) > 2 else [*itertools.combinations(names, 2)]


def usual_id(table: pandas.DataFrame, unique: Unique, options: Options) -> str:
    """The column of ids by its name, or else the first one whose cells hardly repeat."""
    if options.id is not None:
        return options.id
    free = _candidates(table, unique, options)
    index = [name for name in free if _rank(name, columns.cells(table, name)) == 0]
    return [*index, *filter(None, [columns.usual(table, IDS)]), *free, *ROWS][0]


def _candidates(table: pandas.DataFrame, unique: Unique, options: Options) -> list[str]:
    """Columns that may be of ids; a text may be the ids too, such as names."""
    texts_too = {*options.text, *(options.like or {}).get("text", {}).get("columns", ())}
    used = {options.label, options.split, *options.columns} - texts_too - {""}
    names = dict.fromkeys([*unique, *filter(None, [columns.usual(table, IDS)])])
    return [name for name in names if name not in used]


def _rank(name: str, ids: Iterable[str]) -> float:
    """How usual a name is for ids; an index comes first if its cells are words."""
    if NAMELESS.fullmatch(name):
        return 2 if all(map(str.isdecimal, columns.distinct(ids))) else 0
    return 1 + IDS.index(name.lower()) / len(IDS) if name.lower() in IDS else 2

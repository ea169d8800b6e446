"""Which columns of a table hold the ids of nodes, by names and cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Collection, Sequence

import pandas

from graphgym_srnc.core.text import listed, warn
from graphgym_srnc.data import labels
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.read import NAMELESS, is_counter
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from graphgym_srnc.data.frames import Options

# Usual names of columns of ids and of the ends of links, in lower case, the most usual first.
IDS = ("id", "_id", "node_id", "nodeid", "node", "key")
MOST = 0.9  # share of cells that makes most of them
ENDS = (
    "source-target from-to src-dst src-dest start-end u-v head-tail citing-cited sender-receiver "
    "follower-followee"
).split()


def ends(
    links: pandas.DataFrame, options: Options, file: str, ids: Collection[str]
) -> Sequence[str]:
    """The two columns of ids: named, the only two, of usual names, or whose cells are ids."""
    given, option = options.ends, options.named("ends")
    named = [name for name in links if not NAMELESS.fullmatch(name)]
    absent = [name for name in given if name not in links]
    problem = "it has not two columns of node ids" * (not given and len(named) < 2)
    if absent:
        problem = f"it has no column {', '.join(absent)}"
    elif len(given) not in (0, 2):
        problem = f"{option} must name two columns, not {len(given)}"
    if problem:
        raise InputError.plain(file, problem, f"Its columns are {listing(links)}")
    if given or len(named) == 2:
        return given or named
    # Such as source_id, node1 and from.
    plain = {re.sub(r"[\W_]|id$|(?<=.)node", "", name.lower()): name for name in reversed(named)}
    pairs = [pair.split("-") for pair in ENDS]
    pairs += [[name, name[:-1] + "2"] for name in plain if name[1:].endswith("1")]
    for a, b in pairs:
        if a in plain and b in plain:
            return [plain[a], plain[b]]
    written = {name: cells(links, name) for name in named if len(ids)}
    with_ids = [
        name
        for name, own in written.items()
        if pandas.Index(own).isin([*ids]).mean() > 0.5
        and len({*own}) > 1
        and not is_counter(links[name])
    ]
    if len(with_ids) == 2:
        return with_ids
    if named[:2] == ["1", "2"] and not is_counter(links["1"]):
        return named[:2]  # lines without a header begin with two ids
    message = f"it is not clear which two columns hold the ids of nodes: {listed(named)}"
    two = "=[COLUMN, COLUMN]" if options.in_python else " COLUMN COLUMN"
    raise InputError.plain(file, message, f"Name them with {option}{two}")


def id_column(table: pandas.DataFrame, links: pandas.DataFrame, options: Options) -> str:
    """The column of ids: the index, one of a usual name or another one, if it has most ends.

    A column of another name comes before an index that only counts unless that has more ends. If
    none has most ends, the name decides.

    Raises:
        InputError: several other columns have equally many ends.
    """

    def rank(name: str) -> float:
        if NAMELESS.fullmatch(name):
            return 2 if table[name].dtype.kind in "iu" or is_counter(table[name]) else 0
        return 1 + IDS.index(name.lower()) / len(IDS) if name.lower() in IDS else 2

    def share(ids: Sequence[str]) -> float:
        shares = [len({*side}.intersection(ids)) / max(len(side), 1) for side in sides]
        return min(sorted(shares)[-2:], default=0)

    used = {options.label, options.split, *options.numbers, *options.categories}
    for kind in ("numbers", "categories"):
        used.update((options.like or {}).get(kind, {"columns": ()})["columns"])
    try:
        names = ends(links, options, "", ())
    except InputError:
        names = [name for name in links if not NAMELESS.fullmatch(name)]
    sides = [_bare({*cells(links, name)} - {""}) for name in names]
    free = table[[name for name in table if not name or name not in used]]
    bare = {name: _bare(cells(table, name)) for name in candidates(free)}
    shares = {name: share(ids) for name, ids in bare.items()}
    least = max(0.5, MOST * max(shares.values(), default=0))
    fit = {name: own for name, own in shares.items() if own >= least}
    places = {name: (rank(name), -own, not name) for name, own in fit.items()}
    if not places:
        first = next(iter(free), next(iter(table)))
        return first if not rank(first) else usual(table, IDS) or first
    best = [name for name, place in places.items() if place == min(places.values())]
    if any(bare[name] != bare[best[0]] for name in best):
        message = f"several columns have the ids of the links: {listed(best)}"
        raise InputError.plain("--id", message, f"Name one, such as {options.named('id', best[0])}")
    is_usual = best[0].lower() in IDS
    if options.in_python and "" in fit and not is_usual and bare[""] != bare[best[0]]:
        warn(
            f"the index and the column {best[0]} both have the ids of the links. The column is"
            " used; to use the index, name it with rename_axis('id')"
        )
    return best[0]


def candidates(table: pandas.DataFrame) -> list[str]:
    """Columns whose cells hardly repeat, without floats that are no whole numbers."""
    floats = [name for name in table if table[name].dtype.kind == "f" and any(table[name] % 1 > 0)]
    free = [name for name in table if name not in floats]
    return [name for name in free if len({*texts(table[name])}) >= MOST * len(table)]


def _bare(ids: Collection[str]) -> list[str]:
    """Ids without leading zeros, which programs drop from numbers."""
    return [id.lstrip("0") for id in ids]


def cells(table: pandas.DataFrame, name: str) -> list[str]:
    """The cells of a column of ids, without the ``.0`` of whole numbers."""
    return labels.whole_numbers(texts(table[name]))


def usual(table: pandas.DataFrame, names: Sequence[str]) -> str:
    """The first column with one of some usual names, whatever its case; empty = there is none."""
    own = {name.lower(): name for name in reversed(list(table))}
    return next((own[name] for name in names if name in own), "")


def listing(table: pandas.DataFrame) -> str:
    """Names of all columns, as shown."""
    return ", ".join(name or "(no name)" for name in table)

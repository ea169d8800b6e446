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


def id_column(nodes: pandas.DataFrame, links: pandas.DataFrame) -> str:
    """A usual column of ids, or the first one if it alone has the ends of the links; else empty.

    Warns if the index has them too.
    """
    if (found := usual(nodes, IDS)) or not len(nodes.columns):
        return found
    first = next(iter(nodes))
    ids = cells(nodes, first)
    if len({*ids}) < len(ids) or not has_ends(links, {*ids}):
        return ""
    if has_ends(links, {*map(str, nodes.index)}):
        warn(
            f"the index and the column {first} both contain the ids of the links. The index is"
            f" used; set id={first!r} to use the column"
        )
        return ""
    return first


def has_ends(links: pandas.DataFrame, ids: set[str]) -> bool:
    """Whether two columns of the links have no other cells than these ids."""
    return sum({*cells(links, name)} <= ids for name in links) > 1


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

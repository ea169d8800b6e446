"""Columns of nodes and links: usual names, and cells that may be ids."""

from __future__ import annotations

import re
from typing import Iterable, Sequence

import pandas

from graphgym_srnc.core.text import listed
from graphgym_srnc.data import labels, read
from graphgym_srnc.data.features import texts

# Usual names of columns of ids and of the ends of links, in lower case, the most usual first.
IDS = ("id", "_id", "node_id", "nodeid", "node", "key")
ENDS = (
    "source-target from-to src-dst src-dest citing-cited sender-receiver follower-followee "
    "start-end u-v head-tail row-column"
).split()
OTHERS = "split name title text type weight value index rank year".split()
USUAL = {*IDS, *labels.COLUMNS, *"-".join(ENDS).split("-"), *OTHERS}  # names of columns
MOST = 0.9  # share of cells that makes most of them
SHOWN = 20  # number of names in an error
# Numbers of the rows of nodes, which links may name, as columns that ``--id`` can choose.
ROWS = {"rows from 0": 0, "rows from 1": 1}


def usual(table: Iterable[str], names: Sequence[str]) -> str:
    """The first column with one of some usual names, whatever its case; empty = there is none."""
    own = {name.lower(): name for name in reversed([*table])}
    return next((own[name] for name in names if name in own), "")


def listing(table: pandas.DataFrame) -> str:
    """Names of all columns, as shown."""
    return listed([name or "(no name)" for name in table], SHOWN)


def cells(table: pandas.DataFrame, name: str) -> list[str]:
    """The ids in a column, without the ``.0`` of whole numbers; it may be one of ``ROWS``."""
    if name in ROWS and name not in table:
        return [str(place + ROWS[name]) for place in range(len(table))]
    return labels.whole_numbers(texts(table[name]))


def distinct(ids: Iterable[str]) -> set[str]:
    """The different ones of some ids, see ``bare``."""
    found = {*bare({*ids})}
    found.discard("")
    return found


def bare(ids: Iterable[str]) -> list[str]:
    """Ids without leading zeros, which programs drop from numbers."""
    return [id.lstrip("0") or id[:1] for id in ids]


def unique(table: pandas.DataFrame) -> dict[str, set[str]]:
    """The different ids of each column whose cells hardly repeat, without lists and numbers with a
    fraction."""
    found = {}
    for name, column in table.items():
        if read.is_list(column):
            continue
        if column.dtype.kind == "f" and (column.astype(float) % 1 > 0).any():
            continue
        own = {*cells(table, name)}
        if len(own) >= MOST * len(table):
            found[name] = own
    return found


def plain(name: str) -> str:
    """A name of an end without what differs between programs, such as source_id and node1."""
    return re.sub(r"[\W_]|id$|(?<=.)node", "", name.lower())


def are_ends(a: str, b: str) -> bool:
    """Whether two names are those of the ends of links, in this order."""
    one = plain(a)
    other = plain(b)
    return f"{one}-{other}" in ENDS or (one[1:].endswith("1") and other == f"{one[:-1]}2")

"""What was chosen of a node table and its links, and what was found in them so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Sequence

import numpy as np
import pandas

from graphgym_srnc.core.text import listed
from graphgym_srnc.data import columns, features

KINDS = ("text", "numbers", "categories")  # of features of columns
NONE = "none"  # name of the column of labels if there is none
NOTHING: features.Recipe = {"columns": ()}


class Options(NamedTuple):
    """Options of ``graphgym_srnc.from_frames``; empty = chosen by names and cells."""

    id: str | None = None  # "" = the index of a frame, or the column without a name
    label: str = ""
    split: str = ""
    ends: Sequence[str] = ()
    weight: str = ""
    text: Sequence[str] = ()
    numbers: Sequence[str] = ()
    categories: Sequence[str] = ()
    url: str = ""  # web addresses of the nodes
    spectral: int = 0
    like: features.Recipe | None = None  # of an earlier graph
    skip_missing: bool = False
    words: features.TextOptions = features.TextOptions()
    header: bool | None = None  # what a first line is that may be names of columns or a row
    in_python: bool = False  # whether both tables are frames, not files

    def of_kind(self, kind: str) -> list[str]:
        """Columns of a kind of features, named here or by the recipe of an earlier graph."""
        return [*getattr(self, kind), *(self.like or {}).get(kind, NOTHING)["columns"]]

    @property
    def columns(self) -> list[str]:
        """Columns of all features."""
        return [name for kind in KINDS for name in self.of_kind(kind)]

    @property
    def chosen(self) -> set[str]:
        """All columns that are named, without marks for all or none of them."""
        given = {self.id, self.label, self.split, self.weight, *self.columns, *self.ends}
        return {name for name in given if name and name not in (NONE, "*") and not name.isdecimal()}


@dataclass
class Look:
    """What a node table and its links hold, as far as they could be read."""

    files: tuple[str, str]  # names of the two tables
    options: Options = Options()
    table: pandas.DataFrame = field(default_factory=pandas.DataFrame)  # kept rows of nodes
    rows: pandas.Index = field(default_factory=lambda: pandas.Index([]))  # of the file's nodes
    uses: dict[str, list[str]] = field(default_factory=dict)  # columns by use, such as "label"
    labels: list[str] | None = None  # [V], empty for none, as are the parts of the split
    parts: list[str] | None = None  # of all rows at first
    edges: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))
    weights: np.ndarray | None = None  # of the edges [E]
    made: features.Made = field(default_factory=lambda: features.Made({}))
    chosen: list[str] = field(default_factory=list)  # which columns are read
    unread: list[str] = field(default_factory=list)  # those of ``chosen`` that name others
    notes: list[str] = field(default_factory=list)  # what was corrected or left out, and warnings

    @property
    def used(self) -> set[str]:
        """Columns with a use, and those that number the rows."""
        return {*columns.ROWS}.union(*self.uses.values())

    @property
    def id(self) -> str:
        """The column of ids."""
        return self.uses["id"][0]

    @property
    def ids(self) -> list[str]:
        """The ids of the kept rows."""
        return columns.cells(self.table, self.id)

    def places(self, rows: pandas.Index) -> str:
        """Where rows of the node table are, for example ``lines 2 and 7`` of its file."""
        first = 0 if self.rows.name or self.options.in_python else 1
        word = self.rows.name or "row"
        shown = listed([str(place + first) for place in self.rows[rows]], 3)
        counted = " (counted from 0)" if self.options.in_python else ""
        return f"{word}s {shown}{counted}" if len(rows) > 1 else f"{word} {shown}{counted}"

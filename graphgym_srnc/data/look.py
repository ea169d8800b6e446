"""What is given with a node table and its links, and what is found in them."""

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
    link_by: Sequence[str] = ()  # columns whose equal values link nodes
    text: Sequence[str] = ()
    numbers: Sequence[str] = ()
    categories: Sequence[str] = ()
    url: str = ""  # web addresses of the nodes
    date: str = ""
    spectral: int = 0
    like: features.Recipe | None = None  # of an earlier graph
    skip_missing: bool = False
    words: features.TextOptions = features.TextOptions()
    header: bool | None = None  # what a first line is that may be names of columns or a row
    in_python: bool = False  # whether both tables are frames, not files

    def of_kind(self, kind: str) -> list[str]:
        """Columns of a kind of features or of links, named here or by an earlier graph's recipe."""
        before = (self.like or {}).get(kind, NOTHING)["columns"]
        return [*dict.fromkeys([*getattr(self, kind), *before])]

    @property
    def links_by_values(self) -> bool:
        """Whether equal values of a column link nodes, so that a table of links is optional."""
        return bool(self.of_kind("link_by"))

    @property
    def columns(self) -> list[str]:
        """Columns of all features."""
        return [name for kind in KINDS for name in self.of_kind(kind)]

    @property
    def chosen(self) -> set[str]:
        """All columns that are named, without marks for all or none of them."""
        single = {self.id, self.label, self.split, self.weight}
        given = {*single, *self.columns, *self.ends, *self.link_by}
        return {name for name in given if name and name not in (NONE, "*") and not name.isdecimal()}


@dataclass(frozen=True)
class Given:
    """The names of a node table and of its links, their options, and what users are told."""

    files: tuple[str, str]
    options: Options = Options()
    chosen: list[str] = field(default_factory=list)  # which columns are read
    unread: list[str] = field(default_factory=list)  # those of ``chosen`` on possible weights
    notes: list[str] = field(default_factory=list)  # what was corrected or left out
    problems: list[str] = field(default_factory=list)  # what may be wrong, which users should check


class Nodes(NamedTuple):
    """Rows of a node table, and its columns by use, such as ``label``."""

    lines: pandas.Index  # of the rows of the file
    table: pandas.DataFrame  # kept rows
    uses: dict[str, list[str]]

    @property
    def used(self) -> set[str]:
        """Columns with a use, and those that number the rows."""
        return {*columns.ROWS}.union(*self.uses.values())

    @property
    def not_numbers(self) -> set[str]:
        """Columns with a use; one that links nodes may be a number, too."""
        return self.used - {*self.uses["link_by"]}

    @property
    def not_features(self) -> list[str]:
        """Columns of labels, of the split, of web addresses and of dates."""
        return [
            name for use in ("label", "split", "url", "date") for name in self.uses.get(use, ())
        ]

    @property
    def id(self) -> str:
        """The column of ids."""
        return self.uses["id"][0]

    @property
    def ids(self) -> list[str]:
        """The ids of the kept rows."""
        return columns.cells(self.table, self.id)

    def using(self, **uses: list[str]) -> Nodes:
        """The same rows with columns of another use."""
        return self._replace(uses=self.uses | uses)

    def places(self, rows: pandas.Index, in_python: bool) -> str:
        """Where some rows are, for example ``lines 2 and 7`` of the file."""
        first = 0 if self.lines.name or in_python else 1
        word = self.lines.name or "row"
        shown = listed([str(place + first) for place in self.lines[rows]], 3)
        counted = " (counted from 0)" if in_python else ""
        return f"{word}s {shown}{counted}" if len(rows) > 1 else f"{word} {shown}{counted}"


class Look(NamedTuple):
    """What a node table and its links hold."""

    options: Options
    nodes: Nodes
    edges: np.ndarray
    weights: np.ndarray | None  # of the edges [E]
    labels: list[str] | None  # [V], empty for none, as are the parts of the split
    parts: list[str] | None
    made: features.Made
    dates: list[str] | None = None  # [V], if a column of them is named

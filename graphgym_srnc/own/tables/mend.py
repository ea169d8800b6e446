"""What a person would mend in a table without asking, each told: repeated rows, words for nothing,
numbers as they are written in other countries, columns that are classes by another name."""
from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from typing import Sequence

from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables.formats import Table
from graphgym_srnc.text import counted, listed, short

NOTHING = {"nan", "na", "n/a", "#n/a", "<na>", "null", "none"}
"""Words, in small letters, that programs write for an empty cell."""

NO_NUMBER = NOTHING | {"-", "--", "?", "."}
"""The same in a column of numbers."""

LABELS = ("label", "labels", ":label", "_labels", "class", "classes", "category", "target",
          "subject", "topic", "y")
IDS = ("id", "_id", "node_id", "nodeid", "node", "key")
"""Usual names of columns, in small letters, the most usual first."""

DECIMAL = re.compile(r"[+-]?(\d{1,3}([. ]\d{3})+|\d+),\d+")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
"""Numbers with a decimal comma, and with commas between thousands; 1,234 is both."""

ALIKE, MOST_ALIKE = 0.9, 300
"""Similarity from which two names look alike, and the most names that are compared."""


def rows(table: Table, id: str, keep: str, file: str) -> tuple[Table, list[int], list[str]]:
    """A table with one row for each id, the rows that were kept, and what was done, in words.

    Rows without any cell go; of rows that are equal the first stays.

    Args:
        table: the columns.
        id: the column of ids.
        keep: ``first`` or ``last``, which of rows with one id but other cells stays; empty = that
            is an error.
        file: what errors name.

    Raises:
        InputError: a row has no id, or two rows with one id differ.
    """
    cells = list(zip(*table.values()))
    filled = [row for row, values in enumerate(cells) if any(values)]
    place: dict[str, int] = {}
    differ: list[str] = []
    for row in filled:
        name = table[id][row]
        if name == "":
            raise InputError.plain(file, f"row {row + 1} has no id", "Give each node an id")
        if name in place and cells[place[name]] != cells[row]:
            differ.append(name)
        if name not in place or keep == "last":
            place[name] = row
    if differ and not keep:
        named = listed([repr(name) for name in dict.fromkeys(differ)], 5)
        raise InputError.plain(file, f"the id {named} occurs several times with different cells",
                               "Give each node its own id, or add --keep first or --keep last")

    kept = sorted(place.values())
    notes = [(len(cells) - len(filled), "left out: empty"),
             (len(filled) - len(kept) - len(differ), "merged: equal to another row"),
             (len(differ), f"left out: same id as another row (--keep {keep})")]
    told = [f"{file}: {counted(count, 'row')} {text}" for count, text in notes if count]
    return {name: [column[row] for row in kept] for name, column in table.items()}, kept, told


def present(cells: Sequence[str], nothing: set[str] = NOTHING) -> list[str]:
    """Cells with an empty one in the place of each word for nothing."""
    return ["" if cell.lower() in nothing else cell for cell in cells]


def numbers(cells: Sequence[str]) -> list[str]:
    """Cells of numbers as Python writes them, an empty one for nothing, others as they are.

    Commas are decimal ones, unless those of all cells can only, or could as well, part thousands.
    """
    cells = present(cells, NO_NUMBER)
    commas = [cell for cell in cells if "," in cell]
    if commas and all(THOUSANDS.fullmatch(cell) for cell in commas):
        return [cell.replace(",", "") if "," in cell else cell for cell in cells]
    return [re.sub(r"[. ]", "", cell).replace(",", ".") if DECIMAL.fullmatch(cell) else cell
            for cell in cells]


def changes(name: str, before: Sequence[str], after: Sequence[str]) -> list[str]:
    """How many cells of a column are read otherwise than they stand, in words."""
    changed = [(old, new) for old, new in zip(before, after) if old != new]
    told = []
    for empty in (True, False):
        cells = [pair for pair in changed if (pair[1] == "") == empty]
        if cells:
            kind, example = "empty" if empty else "numbers", repr(short(cells[0][0]))
            example += f" as {cells[0][1]}" * (not empty) + ", and similar" * (len(cells) > 1)
            told.append(f"{name}: {counted(len(cells), 'cell')} read as {kind}: {example}")
    return told


def usual(table: Table, names: Sequence[str]) -> str:
    """The first column with one of some usual names, whatever its case; empty = there is none."""
    columns = {name.lower(): name for name in reversed(list(table))}
    by_suffix = {f":{name.lower().rpartition(':')[2]}": name for name in table if ":" in name}
    return next((found[name] for found in (columns, by_suffix) for name in names if name in found),
                "")


def id_column(table: Table) -> str:
    """The column of ids by its name, else the first; ``personId:ID`` is Neo4j's."""
    of_neo4j = (name for name in table if re.search(r":ID(\(|$)", name))
    return usual(table, IDS) or next(of_neo4j, next(iter(table)))


def label_column(table: Table, others: Sequence[str]) -> str:
    """The column of classes by its name; empty = there is none that could be.

    Args:
        table: the columns.
        others: those that are something else.

    Raises:
        InputError: none has such a name, but some could be classes.
    """
    free = {name: cells for name, cells in table.items() if name not in others}
    named = usual(free, LABELS)
    if named and (named.lower() == LABELS[0] or _could_be_classes(free[named], 2)):
        return named
    candidates = [f"{name} ({len(set(filter(None, present(cells))))} values)"
                  for name, cells in free.items() if _could_be_classes(cells)]
    if candidates:
        raise InputError.plain("--label", "no column is named label", "Name the column of classes, "
                               f"perhaps {listed(candidates, 4)}; or give --label none")
    return ""


def _could_be_classes(cells: Sequence[str], mean_size: int = 5) -> bool:
    counts = Counter(filter(None, present(cells)))
    return 2 <= len(counts) <= 100 and counts.total() >= mean_size * len(counts)


def alike(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of names that may be one: the same letters and digits, or nearly the same letters."""
    letters = {name: re.sub(r"[\W_]", "", name.lower().replace("&", "and"))
               for name in names[:MOST_ALIKE]}

    def near(a: str, b: str) -> bool:
        if re.sub(r"\D", "", a) != re.sub(r"\D", "", b) or min(len(a), len(b)) < 5:
            return a == b != ""
        return difflib.SequenceMatcher(None, a, b).ratio() >= ALIKE

    return [(a, b) for a, b in itertools.combinations(letters, 2) if near(letters[a], letters[b])]

"""Class labels as people write them: words for a missing label, and whole numbers with a point."""

from __future__ import annotations

import difflib
import itertools
import re
import unicodedata
from collections import Counter
from typing import Collection, Mapping, Sequence

from graphgym_srnc.core.text import counted, listed, one_line, short
from graphgym_srnc.errors import InputError

# Usual names of a column of labels, in lower case, the most usual first.
CLEAR = 4  # number of the first names, each of which is taken before all others
COLUMNS = tuple("label labels :label _labels class classes category target subject topic y".split())
PARTS = ("train", "val", "test")  # parts of a split
SEVERAL = 5  # nodes of a class from which a label of one node may be a typing error of its name
NEAR = 0.85  # similarity of two such names, from 0 to 1
SPELT_ALIKE = 0.92  # similarity of two names of several nodes that may be one class
LONG = 10  # letters of such names
MOST_COMPARED = 300  # names that are compared in pairs
UNKNOWN = "unknown"  # name of the unknown class
NEW_LABEL = "new_label"  # column in which a user corrects labels
SAMPLE = "sample"  # column with the numbers of nodes that were drawn at random

# Origin of a label in a graph folder: the table, the name of a cluster, or ``NEW_LABEL`` at a node
# that had a label, that had none, or that was drawn at random.
GIVEN = "given"
DISCOVERED = "discovered"
CHECKED = "checked"
ADDED = "added"
SAMPLED = "sampled"
CHOSEN = (DISCOVERED, ADDED)  # of nodes that were chosen by what a model predicts

# Words, in lower case: what programs write for an empty cell, and people for a missing label.
EMPTY = {"nan", "na", "n/a", "#n/a", "<na>", "nat", "null", "none"}
# Errors of Excel, Google and LibreOffice.
EMPTY |= {f"#{word}!" for word in "ref value div/0 num null spill calc error field".split()}
EMPTY |= {"#name?", "#name!", "#getting_data", *(f"err:{number}" for number in range(500, 540))}
NOT_LABELLED = {UNKNOWN, "unlabeled", "unlabelled", "unclassified", "undefined", "unspecified"}
NOT_LABELLED |= {"not labeled", "not labelled", "no label", "nolabel", "missing", "?", "-", "--"}
MISSING = EMPTY | NOT_LABELLED | {"-1", "inf", "-inf"}


def cleaned(
    cells: Sequence[str], column: str = "label", held: Sequence[bool] = ()
) -> tuple[list[str], list[str], list[str]]:
    """Cleaned class labels ``[V]``, empty for a node without one, and sentences on them.

    The first sentences are on each change, the others on labels that may mean one class.

    Words for a missing label become empty. If every label is a whole number, ``1.0`` becomes ``1``.
    A node that the user chose for validation or test (``held``) has a label, so ``?`` and the like
    are the unknown class there.
    """
    normal = {cell: unicodedata.normalize("NFC", one_line(cell)) for cell in {*cells}}
    written = [normal[cell] for cell in cells]
    whole = whole_numbers(written)
    labels = ["" if cell.lower() in MISSING else cell for cell in whole]
    notes = changes(column, written, whole, "whole numbers")
    for place in itertools.compress(range(len(held)), held):
        if whole[place].lower() in NOT_LABELLED:
            labels[place] = UNKNOWN
    shown = [cell if label == UNKNOWN else label for cell, label in zip(whole, labels)]
    notes += changes(column, whole, shown, "no label")
    if UNKNOWN in labels:
        nodes = f"{counted(labels.count(UNKNOWN), 'node')} of the validation or test set"
        notes.append(f"{column}: {nodes} without a class count as the unknown class")
    groups = similar({*labels} - {""}) + misspelt(Counter(filter(None, labels)))
    if not groups:
        return labels, notes, []
    alike = "; ".join(listed([*map(repr, group)]) for group in groups)
    same = "If they are the same class, give them the same name in the table."
    return labels, notes, [f"similar labels: {alike}. {same}"]


def whole_numbers(cells: Sequence[str]) -> list[str]:
    """Cells without the ``.0`` of whole numbers, unless one of the cells is another text."""
    if "." not in "".join(cells):  # far faster than looking at each cell
        return [*cells]
    known = (cell for cell in cells if cell and cell.lower() not in MISSING)
    if all(re.fullmatch(r"[+-]?\d+(\.0*)?", cell) for cell in known):
        return [cell.partition(".")[0] for cell in cells]
    return [*cells]


def as_numbers(labels: Sequence[str]) -> list[int] | None:
    """Labels as integers of 64 bits, -1 for an empty one; None = some are words, such as ``07``."""
    names = {*labels} - {""}
    if all(name.isdecimal() and len(name) < 19 and name == str(int(name)) for name in names):
        return [int(label or -1) for label in labels]
    return None


def changes(column: str, before: Sequence[str], after: Sequence[str], kind: str) -> list[str]:
    """How many cells of a column are read differently from how they are written, and which."""
    changed = Counter((old, new) for old, new in zip(before, after) if old != new)
    if not changed:
        return []
    (old, new), _ = changed.most_common(1)[0]
    example = f"{short(old)!r} as {new}" if new else repr(short(old))
    rest = ", and similar" if len(changed) > 1 else ""
    return [f"{column}: {counted(changed.total(), 'cell')} read as {kind}: {example}{rest}"]


def similar(names: Collection[str]) -> list[list[str]]:
    """Names that may mean one class: equal letters and digits, or equal numbers."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        letters = re.sub(r"[\W_]", "", name.lower().replace("&", "and"))
        is_word = re.search(r"[^\d]", letters)
        groups.setdefault(letters if is_word else name.lstrip("0"), []).append(name)
    return [group for group in groups.values() if len(group) > 1] + _spelt_alike(groups)


def _spelt_alike(names: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Pairs of names that differ in about one letter, such as *defence* and *defense*.

    ``names`` are those with the same letters, by these.
    """
    long = [letters for letters in names if len(letters) >= LONG]
    if len(long) > MOST_COMPARED:
        return []
    return [
        [names[one][0], names[other][0]]
        for one, other in itertools.combinations(long, 2)
        if difflib.SequenceMatcher(None, one, other).ratio() >= SPELT_ALIKE
        and re.sub(r"\d", "", one) != re.sub(r"\d", "", other)
    ]


def misspelt(counts: Mapping[str, int]) -> list[list[str]]:
    """Labels of a single node with nearly the letters of a class of several nodes, and its name."""
    usual = [name for name, count in counts.items() if count >= SEVERAL]
    groups = []
    for name in (name for name, count in counts.items() if count == 1):
        (near, *_) = [*difflib.get_close_matches(name, usual, 1, NEAR), ""]
        if near and re.sub(r"\d", "", near) != re.sub(r"\d", "", name):
            groups.append([name, near])
    return groups


def check_parts(parts: Sequence[str], ids: Collection[object], key: str) -> None:
    """Refuse parts of a split other than ``PARTS`` and nothing; errors name ``key`` and the id."""
    for part, id in zip(parts, ids):
        if part not in ("", *PARTS):
            raise InputError.plain(
                key, f"the node {id} has the part {part!r}", f"Use {', '.join(PARTS)}, or nothing"
            )

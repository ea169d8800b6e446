"""What users are told of the columns of a node table and of their cells."""

from __future__ import annotations

import re
from collections import Counter
from typing import Sequence

import numpy as np
import pandas

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.data import dates, extremes, features, labels, read, units
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.look import KINDS, Given, Look, Nodes
from graphgym_srnc.errors import option

# Uses of columns, in words.
USES = {"id": "ids", "label": "classes", "split": "split", "text": "text", "numbers": "numbers"}
USES |= {"categories": "categories", "url": "web addresses", "date": "dates", "link_by": "links"}
EMPTY_CELLS = {"numbers": "counted as the mean", "categories": "of no category"}
WORD_OF_ID = re.compile(r"[^\W\d_]{3,}")
LEAST_NEW = 0.25  # share of the nodes whose ids contain words that their texts lack
SHOWN = 10  # columns whose empty cells or extreme numbers are told in print
LOOKED_AT = 10_000  # first cells of numbers that tell whether they may be versions
FAR_APART = 0.8  # standard deviations between means of labelled and of other nodes
LEAST_COMPARED = 20  # nodes of each
PROBED = 100  # first cells of a text that tell whether it may hold numbers


def on_columns(given: Given, nodes: Nodes, made: features.Made) -> None:
    """Tell what each column is used for, and how its cells are read."""
    table = nodes.table
    in_python = given.options.in_python
    nameless = "the index" if in_python else "the unnamed column"
    _on_cells(given, nodes, made.recipe)
    told = [
        f"{words} from {listed([name or nameless for name in nodes.uses[use]])}"
        for use, words in USES.items()
        if nodes.uses[use]
    ]
    used = nodes.used
    free = [name for name in table if name not in used and not _is_index(table, name, in_python)]
    if free:
        unread = f"not read: {listed([name or nameless for name in free])}"
        if given.options.like is None:
            unread += f" ({listed([*map(option, KINDS)])} read columns)"
        told.append(unread)
        if given.options.numbers == ["*"]:
            given.notes.extend(features.on_nearly_numbers(table, free))
    given.chosen.append(f"columns: {'; '.join(told)}")


def _on_cells(given: Given, nodes: Nodes, recipe: features.Recipe) -> None:
    """Tell which cells of numbers and categories are empty, or are not read as they are written."""
    table = nodes.table
    commas = features.comma_columns(recipe)
    for use, meaning in EMPTY_CELLS.items():
        empty = {}
        for name in (name for name in nodes.uses[use] if name in table):
            cells = texts(table[name])
            known = features.present(cells, use)
            empty[name] = known.count("")
            given.notes.extend(labels.changes(name, cells, known, "empty"))
            if use == "numbers" and table[name].dtype.kind != "b":
                points, changed = features.decimal_points(name, known, name in commas)
                given.notes.extend(changed)
                given.notes.extend(labels.changes(name, points, units.plain(points), "numbers"))
        counts = [f"{name} {count:,}" for name, count in empty.items() if count]
        if counts:
            line = f"empty cells, {meaning}: {listed(counts, SHOWN)}"
            marked = [name for name in features.marked_columns(recipe) if empty.get(name)]
            if marked:
                line += f"; a feature marks those of {listed(marked, SHOWN)}"
            given.notes.append(line)


def _is_index(table: pandas.DataFrame, name: str, in_python: bool) -> bool:
    """Whether a column without a name counts the rows of a frame."""
    if name:
        return name.startswith("Unnamed: ")
    return in_python or read.is_counter(table[name])


def on_extremes(given: Given, made: features.Made) -> None:
    """Tell which columns of numbers have extreme values, so that their ranks are features."""
    names = [*made.recipe.get("numbers", features.NO_NUMBERS).get("ranks", ())]
    for name in names[:SHOWN]:
        line, should_check = extremes.on_column(made.cells.numbers[name])
        (given.problems if should_check else given.notes).append(line)
    more = len(names) - SHOWN
    if more > 0:
        given.notes.append(f"{counted(more, 'more column')} of ranks, since numbers are extreme")


def on_odd_columns(given: Given, nodes: Nodes) -> None:
    """Tell columns of features that are probably of another kind."""
    table = nodes.table
    for name in nodes.uses["text"]:
        if _holds_numbers(table[name]):
            given.problems.append(
                f"{name}: every cell is a number, and each number is a word."
                f" {option('numbers', name)} reads numbers."
            )
    for name in nodes.uses["numbers"]:
        twins = _as_one_number(texts(table[name].head(LOOKED_AT)))
        if twins:
            given.problems.append(
                f"{name}: {' and '.join(map(repr, twins))} are one number. If these are versions,"
                f" name the column in {option('categories', name)}."
            )
    for name in nodes.uses["categories"]:
        alike = _alike(features.categories_of(table, name))
        if alike:
            given.problems.append(
                f"{name}: {listed([*map(repr, alike)], 3)} are values of their own, which differ"
                " in capital letters alone. If they are the same, write them alike."
            )
        values = table[name].astype(str).nunique()
        if values > len(table) / 2:
            given.problems.append(
                f"{name} has {values:,} values for {len(table):,} nodes, and each is a feature. "
                "Name a text in `text`."
            )


def _alike(cells: Sequence[str]) -> list[str]:
    """The first values that differ in capital letters alone, the most frequent ones first."""
    by_letters: dict[str, list[str]] = {}
    for value, _ in Counter(filter(None, cells)).most_common():
        by_letters.setdefault(value.lower(), []).append(value)
    return next((values for values in by_letters.values() if len(values) > 1), [])


def _as_one_number(cells: Sequence[str]) -> tuple[str, str] | None:
    """Two cells that differ in zeros at their ends alone, as the versions 2.1 and 2.10 do."""
    known = {*cells}
    for cell in sorted(known):
        short = cell.rstrip("0")
        if short != cell and re.search(r"\.\d", short) and short in known:
            return short, cell
    return None


def _holds_numbers(cells: pandas.Series) -> bool:
    """Whether all cells that are not empty are numbers."""
    for part in (cells.head(PROBED), cells):  # most texts are told by their first cells
        values, wrong = features.parsed(part)
        if wrong or not values.notna().any():
            return False
    return True


def on_words_of_ids(given: Given, nodes: Nodes, documents: Sequence[str]) -> None:
    """Say that ids contain words, such as those of SND_USB_AUDIO, if the texts lack most of these.

    A word is at least three letters that occur in several ids, but not in most.
    """
    name = nodes.id
    if name not in nodes.table or name in nodes.uses["text"]:
        return
    words = [{*WORD_OF_ID.findall(id.lower())} for id in texts(nodes.table[name])]
    count = Counter(word for own in words for word in own)
    shared = {word for word, number in count.items() if 1 < number <= len(words) / 2}
    if not shared:
        return
    new = [
        {word for word in own & shared if word not in document.lower()}
        for own, document in zip(words, documents)
    ]
    if sum(map(bool, new)) < LEAST_NEW * len(new):
        return
    common = Counter(word for own in new for word in own).most_common(3)
    columns = ",".join([*nodes.uses["text"], name])  # the first is the title
    given.notes.append(
        f"{name}: ids contain words that the texts lack, such as"
        f" {listed([word for word, _ in common])}. {option('text', columns)} reads them, too."
    )


def on_other_numbers(given: Given, known: list[str] | None, numbers: pandas.DataFrame) -> None:
    """Tell of numbers of labelled nodes that are unlike those of others, by labels ``[V]``.

    A new class of few nodes changes means less than :data:`FAR_APART`.
    """
    is_labelled = np.array([bool(label) for label in known or ()], dtype=bool)
    if numbers.empty or min(is_labelled.sum(), (~is_labelled).sum()) < LEAST_COMPARED:
        return
    means = numbers[is_labelled].mean() - numbers[~is_labelled].mean()
    distance = (means / numbers.std().replace(0, np.nan)).dropna()
    far = distance[distance.abs() >= FAR_APART]
    if len(far):
        listing = listed([f"{name} by {value:+.1f}" for name, value in far.items()], SHOWN)
        given.problems.append(
            f"Labelled nodes have another mean than the others: {listing} standard deviations."
            " If you labelled one part of the table, nodes of other parts look like an unknown"
            " class. Label some of them, leave these columns out, or train with `open_set=False`."
        )


def on_dates(given: Given, found: Look) -> Look:
    """What was found, with the dates of nodes if a column is named.

    Tell if labelled nodes are of another time, also by years and by dates that are not read.
    """
    table = found.nodes.table
    name = given.options.date
    known = {name: _named_dates(given, table, name)} if name else _possible_dates(found)
    is_labelled = np.array([bool(label) for label in found.labels or [""] * len(table)])
    told = {one: dates.on_labelled(own, is_labelled) for one, own in known.items()}
    first = next((one for one, text in told.items() if text), "")
    if first:
        text = f"{first}: {told[first]}"
        if not name:
            text += f" {option('date', first)} lets the model take this into account."
        given.problems.append(text)
    return found._replace(dates=known.get(name))


def _named_dates(given: Given, table: pandas.DataFrame, name: str) -> list[str]:
    """The dates of the column that is named, after a note on cells that are none."""
    cells = features.categories_of(table, name)
    found = dates.of_column(cells, name)
    wrong = [cell for cell, date in zip(cells, found) if cell and not date]
    if wrong:
        count = counted(len(wrong), "cell")
        given.notes.append(f"{name}: {count} without a date, such as {wrong[0]!r}")
    return found


def _possible_dates(found: Look) -> dict[str, list[str]]:
    """Dates by column of those that have no use or are numbers, if they can be read in one way."""
    table = found.nodes.table
    numbers = found.made.cells.numbers
    possible = [name for name in numbers if dates.may_be_years(numbers[name])]
    possible += [
        name for name in table if name not in found.nodes.used and not _holds_numbers(table[name])
    ]
    readings = {name: dates.read(features.categories_of(table, name)) for name in possible}
    return {name: dates.written(own[0]) for name, own in readings.items() if len(own) == 1}

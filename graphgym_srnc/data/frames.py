"""From frames of nodes and links to a graph, for ``data make`` and ``from_frames``.

``look`` chooses columns by names and cells, and says which; ``graph`` makes the graph.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pandas
import scipy.sparse as sp

from graphgym_srnc.core.text import counted, listed, one_line
from graphgym_srnc.data import (
    classes,
    columns,
    connect,
    features,
    header,
    labels,
    limits,
    links,
    names,
    read,
    readings,
)
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.data.look import KINDS, Look
from graphgym_srnc.data.readings import Reading
from graphgym_srnc.errors import InputError, option

# Uses of columns, in words.
USES = {"id": "ids", "label": "classes", "split": "split", "text": "text", "numbers": "numbers"}
USES |= {"categories": "categories", "url": "web addresses"}
EMPTY_CELLS = {"numbers": "counted as the mean", "categories": "of no category"}
WORD_OF_ID = re.compile(r"[^\W\d_]{3,}")
LEAST_NEW = 0.25  # share of the nodes whose ids contain words that their texts lack
SHOWN = 10  # columns whose empty cells are counted in print
MOST_OTHERS = 0.5  # share of the cells of a column of web addresses that may be something else


def look(
    found: Look, nodes: pandas.DataFrame, sheet: pandas.DataFrame, others: bool = False
) -> Look:
    """Choose columns, clean labels and connect nodes.

    ``found`` is filled and returned. ``nodes`` and the ``sheet`` of links may have a first line
    that is a header or not. ``others`` = there are features beside those of columns and of links.
    """
    limits.check_columns(nodes.shape[1], "nodes")
    if found.options.like is not None and not found.options.weight:
        found.options = found.options._replace(weight=found.options.like.get("weight", ""))
    table = header.named(found, nodes)
    found.rows = table.index
    found.table = _without_lists(found, table.reset_index(drop=True))
    found.uses = {kind: found.options.of_kind(kind) for kind in KINDS}
    if found.options.id not in (None, "", *columns.ROWS):
        features.column(found.table, str(found.options.id), "id")
    pairs = links.links(found, sheet)
    reading = readings.choose(found, pairs)
    _find_id(found, reading)
    _check_uses(found)
    _find_addresses(found)
    classes.find_split(found)
    classes.find_label(found)
    _one_row_for_each_id(found)
    connect.connect(found, pairs, reading)
    classes.read(found)
    _find_features(found, others)
    _tell_columns(found)
    return found


def graph(found: Look, extra: np.ndarray | None = None) -> Graph:
    """The graph of what ``look`` found, perhaps with ``extra`` features ``[rows, D]``."""
    recipe, cells, own_blocks, names_of = found.made
    table = found.table
    spectral = found.options.spectral
    blocks = [*own_blocks]
    columns_of = [*names_of]
    own = {"embedding": extra[table.index]} if extra is not None else {}
    if spectral:
        own["spectral"] = features.spectral(found.edges, len(table), spectral)
    for kind, array in own.items():
        blocks.append(sp.csr_matrix(array))
        columns_of += [f"{kind} {number}" for number in range(array.shape[1])]
    widths = [block.shape[1] for block in blocks]
    if widths != recipe.setdefault("widths", widths):
        raise InputError.plain(
            "like",
            f"this graph has {widths} features, the earlier one {recipe['widths']}",
            "Give the same columns and embeddings",
        )
    joined = features.joined(blocks, recipe)
    recipe["spectral"] = spectral
    if found.options.weight and found.options.like is None:
        recipe["weight"] = found.options.weight
    return Graph(
        found.edges,
        joined,
        [*map(one_line, columns_of)],
        features.as_written(table[found.id]),
        cells.texts,
        found.labels,
        found.parts,
        recipe,
        weights=found.weights,
        urls=names.addresses(texts(table[found.options.url])) if found.options.url else None,
    )


def _without_lists(found: Look, table: pandas.DataFrame) -> pandas.DataFrame:
    """A table in which a column of lists of numbers is a column for each place in them."""
    numbers = [*found.options.numbers]
    for name in [name for name in table if read.is_list(table[name])]:
        rows = [features.values(cell) for cell in table.pop(name)]
        if len({len(row) for row in rows}) > 1 or rows[0].dtype.kind not in features.NUMERIC:
            table[name] = [", ".join(map(str, row)) for row in rows]
            continue
        places = [f"{name} {place}" for place in range(len(rows[0]))]
        values = pandas.DataFrame(np.stack(rows).astype(float), table.index, places)
        table = pandas.concat([table, values], axis=1)
        if name in numbers:
            place = numbers.index(name)
            numbers[place : place + 1] = places
    found.options = found.options._replace(numbers=numbers)
    return table


def _find_id(found: Look, reading: Reading) -> None:
    """The column of ids, by links or else by names; numbers of rows if there is no such column."""
    table = found.table
    options = found.options
    id = reading.id
    if id in columns.ROWS:
        table.insert(0, id, columns.cells(table, id))
        if options.id is None:
            id = columns.usual(columns.unique(table), (*columns.IDS, "name")) or id
        elif options.id in table:
            id = options.id
    found.uses["id"] = [id]


def _check_uses(found: Look) -> None:
    """Refuse a second use of the columns of ids, labels and parts; ids may be texts too."""
    options = found.options
    held = {found.id: "ids", options.split: "parts"}
    for use in ("label", "numbers", "categories", "text"):
        given = getattr(options, use)
        for name in [given] if use == "label" else given:
            if name and name in held and (use, held[name]) != ("text", "ids"):
                raise InputError.plain(
                    use,
                    f"{name} is the column of {held[name]}",
                    "Choose another one, or name the column of ids with `id`",
                )
        held.setdefault(options.label, "labels")


def _find_addresses(found: Look) -> None:
    """Count the cells of a column of web addresses that are none, and refuse it if most are."""
    name = found.options.url
    if not name:
        return
    cells = texts(features.column(found.table, name, "url"))
    others = [row for row, url in enumerate(names.addresses(cells)) if cells[row] != url]
    total = sum(map(bool, cells))
    if others:
        text = (
            f"no web address in {len(others):,} of {total:,} cells of the column {name}"
            f" ({found.places(pandas.Index(others[:1]))}: {cells[others[0]][:60]!r})"
        )
        if len(others) > MOST_OTHERS * total:
            hint = "Name another column, or write addresses that begin with https://"
            raise InputError.plain("url", text, hint)
        found.notes.append(f"{text}. These nodes have no link.")
    if name not in found.used:
        found.uses["url"] = [name]


def _one_row_for_each_id(found: Look) -> None:
    """Leave out rows that occur twice.

    Raises:
        InputError: nodes have no id or the same one.
    """
    table = found.table
    file = found.files[0]
    ids = pandas.Series(found.ids, dtype=object)
    blank = ids.index[(ids == "") | ids.str.lower().isin(labels.EMPTY) & ids.duplicated(keep=False)]
    if len(blank):
        raise InputError.plain(
            file,
            f"{counted(len(blank), 'node')} without an id: {found.places(blank)}",
            "Write an id there, or remove these rows",
        )
    compared = [name for name in table if name not in columns.ROWS and (name or not found.id)]
    repeated = ids.duplicated() & table[compared].astype(str).duplicated()
    found.table = table[~repeated]
    ids = ids[~repeated]
    named = ids[ids.duplicated()].unique()
    if len(named):
        where = found.places(ids.index[ids == named[0]])
        raise InputError.plain(
            file,
            f"{counted(len(named), 'id')} used for several nodes: {named[0]!r} in {where}",
            "Give each node its own id, or name another column of ids with `id`",
        )
    if repeated.any():
        count = int(repeated.sum())
        found.notes.append(f"{file}: {counted(count, 'row')} merged: equal to another row")


def _find_features(found: Look, others: bool) -> None:
    """Learn the recipe of features, or read it."""
    options = found.options
    if options.numbers == ["*"]:
        found.uses["numbers"] = []
        found.uses["numbers"] = features.number_columns(found.table, found.used)
    if options.like is None:
        _learn(found)
    else:
        _read_recipe(found, options.like)
    if not (found.made.recipe or others or options.spectral):
        raise InputError.plain(
            "features",
            f"no column is chosen of {columns.listing(found.table)}",
            "Choose columns with `text`, `numbers` or `categories`; `embeddings` are features of"
            " your own; `spectral` makes features from the links alone",
        )


def _learn(found: Look) -> None:
    table = found.table
    text, numbers, categories = (found.uses[kind] for kind in KINDS)
    found.made = features.learn(table, text, found.options.words, numbers, categories)
    most = found.options.words.max_words
    if text and len(found.made.recipe["text"]["words"]) == most:
        line = f"words: only the {most:,} most frequent ones are features"
        if not found.options.in_python:
            line += f" ({option('max_words')} sets the number)"
        found.chosen.append(line)
    _tell_words_of_ids(found)
    for name in categories:
        values = table[name].astype(str).nunique()
        if values > len(table) / 2:
            found.notes.append(
                f"{name} has {values:,} values for {len(table):,} nodes, and each is a feature. "
                "Name a text in `text`."
            )


def _tell_words_of_ids(found: Look) -> None:
    """Say that ids contain words, such as those of SND_USB_AUDIO, if the texts lack most of these.

    A word is at least three letters that occur in several ids, but not in most.
    """
    name = "".join(found.uses.get("id", ""))
    documents = found.made.cells.texts
    if name not in found.table or documents is None or name in found.uses["text"]:
        return
    words = [{*WORD_OF_ID.findall(id.lower())} for id in texts(found.table[name])]
    count = Counter(word for own in words for word in own)
    shared = {word for word, number in count.items() if 1 < number <= len(words) / 2}
    new = [
        {word for word in own & shared if word not in document.lower()}
        for own, document in zip(words, documents)
    ]
    if sum(map(bool, new)) < LEAST_NEW * len(new):
        return
    common = Counter(word for own in new for word in own).most_common(3)
    columns = ",".join([name, *found.uses["text"]])
    found.notes.append(
        f"{name}: ids contain words that the texts lack, such as"
        f" {listed([word for word, _ in common])}. {option('text', columns)} reads them, too."
    )


def _read_recipe(found: Look, recipe: features.Recipe) -> None:
    """Take the recipe of an earlier graph, and tell how cells differ from those of its table."""
    if recipe.get("spectral"):
        raise InputError.plain(
            "like",
            "spectral features cannot be made for another graph",
            "Use a graph without `spectral`",
        )
    absent = [name for name in found.options.columns if name not in found.table]
    if absent:
        raise InputError.plain(
            "like",
            f"{found.files[0]} lacks {listed(absent)}, of which the earlier graph was made",
            f"Its columns are {columns.listing(found.table)}",
        )
    found.made = features.apply({**recipe}, found.table)
    found.notes += features.drift(found.made)


def _tell_columns(found: Look) -> None:
    """What each column is used for, and words for missing cells."""
    in_python = found.options.in_python
    nameless = "the index" if in_python else "the unnamed column"
    for use, meaning in EMPTY_CELLS.items():
        empty = {}
        for name in (name for name in found.uses[use] if name in found.table):
            cells = texts(found.table[name])
            known = features.present(cells, use)
            empty[name] = known.count("")
            found.notes += labels.changes(name, cells, known, "empty")
            if use == "numbers" and found.table[name].dtype.kind != "b":
                found.notes += labels.changes(name, known, features.truth(known), "numbers")
        counts = [f"{name} {count:,}" for name, count in empty.items() if count]
        if counts:
            line = f"empty cells, {meaning}: {listed(counts, SHOWN)}"
            marked = features.marked_columns(found.made.recipe)
            marked = [name for name in marked if empty.get(name)]
            if marked:
                line += f"; a feature marks those of {listed(marked, SHOWN)}"
            found.notes.append(line)
    used = [
        f"{words} from {listed([name or nameless for name in found.uses[use]])}"
        for use, words in USES.items()
        if found.uses.get(use)
    ]
    free = [name for name in found.table if name not in found.used and not _is_index(found, name)]
    if free:
        unread = f"not read: {listed([name or nameless for name in free])}"
        if found.options.like is None:
            unread += f" ({listed([*map(option, KINDS)])} read columns)"
        used.append(unread)
    line = f"columns: {'; '.join(used)}"
    found.chosen.append(line)
    if free:
        found.unread.append(line)


def _is_index(found: Look, name: str) -> bool:
    """Whether a column without a name counts the rows of a frame."""
    if name:
        return name.startswith("Unnamed: ")
    return found.options.in_python or read.is_counter(found.table[name])

"""From frames of nodes and links to a graph, for ``data make`` and ``from_frames``.

``look`` chooses columns by names and cells, and says which; ``graph`` makes the graph.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Collection, Sequence

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
    remarks,
    units,
)
from graphgym_srnc.data.features import texts
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.data.look import KINDS, Given, Look, Nodes, Options
from graphgym_srnc.errors import InputError, option

DECIMALS = re.compile(r"[+-]?\d+\.\d+")
VALUES = 20  # columns whose values are shown of a node
MOST_OTHERS = 0.5  # share of the cells of a column of web addresses that may be something else


def look(
    given: Given, nodes: pandas.DataFrame, sheet: pandas.DataFrame, others: bool = False
) -> Look:
    """Choose columns, clean labels and connect nodes.

    ``nodes`` and the ``sheet`` of links may have a first line that is a header or not.
    ``others`` = there are features beside those of columns and of links.
    """
    limits.check_columns(nodes.shape[1], "nodes")
    if given.options.like is not None and not given.options.weight:
        weight = given.options.like.get("weight", "")
        given = replace(given, options=given.options._replace(weight=weight))
    frame = header.named(given, nodes)
    table, numbers = _without_lists(frame.reset_index(drop=True), given.options.numbers)
    given = replace(given, options=given.options._replace(numbers=numbers))
    if given.options.id not in (None, "", *columns.ROWS):
        features.column(table, str(given.options.id), "id")

    unique = columns.unique(table)
    pairs = links.links(given, table, unique, sheet)
    given = replace(given, options=_as_before(given.options, table, pairs))
    reading = readings.choose(given, table, unique, pairs)
    id = _find_id(given.options, table, unique, reading.id)
    _check_uses(given.options, id)
    uses = {kind: given.options.of_kind(kind) for kind in (*KINDS, "link_by")} | {"id": [id]}
    own = _one_row_for_each_id(given, Nodes(frame.index, table, uses))
    own = own.using(url=_addresses(given, own), date=_column_of_dates(given, own))

    of_split, parts = classes.split(given, own)
    own = own.using(split=of_split)
    of_label, known = classes.label(given, own, parts)
    own = own.using(label=of_label)
    edges, weights = connect.connect(given, own, pairs, reading, known)
    if given.options.numbers == ["*"]:
        own = own.using(numbers=features.number_columns(own.table, own.not_numbers))
    made = _features(given, own, known, others)
    if given.options.like is None:
        made.recipe.update({"id": id, "ends": [*reading.ends]})
    remarks.on_columns(given, own, made)
    return remarks.on_dates(given, Look(given.options, own, edges, weights, known, parts, made))


def _as_before(options: Options, table: pandas.DataFrame, pairs: pandas.DataFrame) -> Options:
    """Options with the columns of ids of the earlier graph, if these tables have them too."""
    before = options.like or {}
    id = before.get("id")
    ends = before.get("ends", ())
    if options.id is None and id in table and id not in columns.ROWS:
        options = options._replace(id=id)
    if not options.ends and ends and {*ends} <= {*pairs}:
        options = options._replace(ends=ends)
    return options


def graph(found: Look, extra: np.ndarray | None = None) -> Graph:
    """The graph of what ``look`` found, perhaps with ``extra`` features ``[rows, D]``."""
    recipe, cells, own_blocks, names_of = found.made
    nodes = found.nodes
    table = nodes.table
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
    if found.options.link_by and found.options.like is None:
        recipe["link_by"] = {"columns": [*found.options.link_by]}
    return Graph(
        found.edges,
        joined,
        [*map(one_line, columns_of)],
        features.as_written(table[nodes.id]),
        _shown(cells.texts, _own_values(nodes, features.comma_columns(recipe))),
        found.labels,
        found.parts,
        recipe,
        weights=found.weights,
        urls=names.addresses(texts(table[found.options.url])) if found.options.url else None,
        dates=found.dates,
    )


def _shown(written: list[str] | None, values: list[str] | None) -> list[str] | None:
    """What pages and lists show of each node: its text, and its values on a line below."""
    if not written or not values:
        return written or values
    return ["\n".join(filter(None, parts)) for parts in zip(written, values)]


def _own_values(nodes: Nodes, commas: Collection[str]) -> list[str] | None:
    """The categories and numbers of each node in one line; None if there are no such columns.

    Categories come first, since their words tell a reader most. ``commas`` are columns whose commas
    are known to be decimal.
    """
    numbers = nodes.uses["numbers"]
    names = [*nodes.uses["categories"], *numbers][:VALUES]
    if not names:
        return None
    cells = []
    for name in names:
        own = texts(nodes.table[name])
        if name in numbers:
            points = units.with_point(own, name in commas)
            own = [DECIMALS.sub(_shorter, cell) for cell in points]
        cells.append(own)
    return [
        ", ".join(f"{name} {cell}" for name, cell in zip(names, row) if cell) for row in zip(*cells)
    ]


def _shorter(number: re.Match[str]) -> str:
    """A number with decimals, in six digits or without decimals."""
    value = float(number[0])
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"


def _without_lists(
    table: pandas.DataFrame, numbers: Sequence[str]
) -> tuple[pandas.DataFrame, list[str]]:
    """A table with a column for each place in lists of numbers, and ``numbers`` with these."""
    numbers = [*numbers]
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
    return table, numbers


def _find_id(options: Options, table: pandas.DataFrame, unique: readings.Unique, id: str) -> str:
    """The column of ids, by links or else by names; numbers of rows if there is no such column."""
    if id in columns.ROWS:
        table.insert(0, id, columns.cells(table, id))
        if options.id is None:
            return columns.usual(unique, (*columns.IDS, "name")) or id
        if options.id in table:
            return options.id
    return id


def _check_uses(options: Options, id: str) -> None:
    """Refuse a second use of the columns of ids, labels and parts; ids may be texts too."""
    held = {id: "ids", options.split: "parts"}
    for use in ("label", "numbers", "categories", "text", "link_by"):
        given = getattr(options, use)
        for name in [given] if use == "label" else given:
            if name and name in held and (use, held[name]) != ("text", "ids"):
                raise InputError.plain(
                    use,
                    f"{name} is the column of {held[name]}",
                    "Choose another one, or name the column of ids with `id`",
                )
        held.setdefault(options.label, "labels")


def _addresses(given: Given, nodes: Nodes) -> list[str]:
    """The column of web addresses, unless it has another use, after a count of other cells.

    Raises:
        InputError: most cells are no web addresses.
    """
    name = given.options.url
    if not name:
        return []
    cells = pandas.Series(texts(features.column(nodes.table, name, "url")), nodes.table.index)
    others = cells.index[cells != names.addresses(cells)]
    total = int((cells != "").sum())
    if len(others):
        text = (
            f"no web address in {len(others):,} of {total:,} cells of the column {name}"
            f" ({nodes.places(others[:1], given.options.in_python)}: {cells[others[0]][:60]!r})"
        )
        if len(others) > MOST_OTHERS * total:
            hint = "Name another column, or write addresses that begin with https://"
            raise InputError.plain("url", text, hint)
        given.problems.append(f"{text}. These nodes have no link.")
    return [] if name in nodes.used else [name]


def _column_of_dates(given: Given, nodes: Nodes) -> list[str]:
    """The column of dates, if one is named."""
    name = given.options.date
    if name:
        features.column(nodes.table, name, "date")
    return [name] if name else []


def _one_row_for_each_id(given: Given, nodes: Nodes) -> Nodes:
    """The nodes without rows that occur twice.

    Raises:
        InputError: nodes have no id or the same one.
    """
    table = nodes.table
    file = given.files[0]
    in_python = given.options.in_python
    ids = pandas.Series(nodes.ids, dtype=object)
    blank = ids.index[(ids == "") | ids.str.lower().isin(labels.EMPTY) & ids.duplicated(keep=False)]
    if len(blank):
        raise InputError.plain(
            file,
            f"{counted(len(blank), 'node')} without an id: {nodes.places(blank, in_python)}",
            "Write an id there, or remove these rows",
        )
    compared = [name for name in table if name not in columns.ROWS and (name or not nodes.id)]
    repeated = ids.duplicated() & table[compared].astype(str).duplicated()
    ids = ids[~repeated]
    named = ids[ids.duplicated()].unique()
    if len(named):
        where = nodes.places(ids.index[ids == named[0]], in_python)
        raise InputError.plain(
            file,
            f"{counted(len(named), 'id')} used for several nodes: {named[0]!r} in {where}",
            "Give each node its own id, or name another column of ids with `id`",
        )
    if repeated.any():
        count = int(repeated.sum())
        given.notes.append(f"{file}: {counted(count, 'row')} merged: equal to another row")
    return nodes._replace(table=table[~repeated])


def _features(given: Given, nodes: Nodes, known: list[str] | None, others: bool) -> features.Made:
    """The features of the columns, by a new recipe or that of an earlier graph.

    ``known`` are the labels of the nodes.
    """
    options = given.options
    if options.like is None:
        made = _learnt(given, nodes)
        remarks.on_other_numbers(given, known, made.cells.numbers)
    else:
        made = _by_recipe(given, nodes.table, options.like)
    if not (made.recipe or others or options.spectral):
        raise InputError.plain(
            "features",
            f"no column is chosen of {columns.listing(nodes.table)}",
            "Choose columns with `text`, `numbers` or `categories`; `embeddings` are features of"
            " your own; `spectral` makes features from the links alone",
        )
    return made


def _learnt(given: Given, nodes: Nodes) -> features.Made:
    """Features by a new recipe."""
    table = nodes.table
    text, numbers, categories = (nodes.uses[kind] for kind in KINDS)
    made = features.learn(table, text, given.options.words, numbers, categories)
    most = given.options.words.max_words
    if text and len(made.recipe["text"]["words"]) == most:
        line = f"words: only the {most:,} most frequent ones are features"
        if not given.options.in_python:
            line += f" ({option('max_words')} sets the number)"
        given.chosen.append(line)
    if "parts" in made.recipe:
        count = counted(len(made.recipe["parts"]["words"]), "part")
        given.chosen.append(f"parts of words: {count} of three letters, since the texts are short")
    if made.cells.texts is not None:
        remarks.on_words_of_ids(given, nodes, made.cells.texts)
    remarks.on_extremes(given, made)
    remarks.on_odd_columns(given, nodes)
    return made


def _by_recipe(given: Given, table: pandas.DataFrame, recipe: features.Recipe) -> features.Made:
    """Features by the recipe of an earlier graph, after a note on cells unlike those of then."""
    if recipe.get("spectral"):
        raise InputError.plain(
            "like",
            "spectral features cannot be made for another graph",
            "Use a graph without `spectral`",
        )
    absent = [name for name in given.options.columns if name not in table]
    if absent:
        raise InputError.plain(
            "like",
            f"{given.files[0]} lacks {listed(absent)}, of which the earlier graph was made",
            f"Its columns are {columns.listing(table)}",
        )
    made = features.apply({**recipe}, table)
    given.problems.extend(features.drift(made))
    return made

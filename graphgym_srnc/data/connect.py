"""Links between nodes: ids of ends to numbers of nodes, and weights."""

from __future__ import annotations

import numpy as np
import pandas

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.data import columns, edges, features, read, readings, shared_values
from graphgym_srnc.data.look import Given, Nodes
from graphgym_srnc.data.read import NAMELESS
from graphgym_srnc.data.readings import Reading
from graphgym_srnc.errors import InputError, option

KEEP = "Add the nodes of the earlier graph to the node table"
SHOWN = 3  # most options in a line
MOST_KINDS = 12  # values of a column of links that may be kinds
SIGNIFICANT = 0.01  # p-value below which they differ
LOW = 0.5  # share of links within a class, of that of the best kind, below which a kind may harm
WEIGHTS = ("weight", "weights", "w", "value", "strength")  # usual names, in lower case


def connect(
    given: Given,
    nodes: Nodes,
    pairs: pandas.DataFrame,
    reading: Reading,
    labels: list[str] | None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Edges ``[2, E]`` by numbers of the kept nodes, and their weights ``[E]`` if there are any.

    ``labels`` ``[V]``, empty for none, tell whether kinds of links differ.
    """
    file = given.files[1]
    ids = dict.fromkeys(columns.cells(nodes.table, reading.id))
    ends = np.array([edges.places(columns.cells(pairs, end), ids) for end in reading.ends])
    unread = [name for name in pairs if name not in (*reading.ends, given.options.weight)]
    if len(pairs):
        _tell_ends(given, pairs, [name for name in unread if not NAMELESS.fullmatch(name)], reading)
    if len(pairs) and reading.id in columns.ROWS:
        numbers = reading.id.replace("rows", "row numbers")
        given.notes.append(
            f"{file}: the ends {listed(reading.ends)} are {numbers} of {given.files[0]}"
        )
    if given.options.weight:
        weights = _weights(given, pairs)
    else:
        weights = np.ones(len(pairs))
        _check_zeros(given, pairs[unread], reading)
    strange = (ends < 0) & (weights > 0)
    if strange.any():
        _tell_unknown(given, nodes, pairs, reading, strange)
    kept = (ends >= 0).all(0) & (weights > 0)
    made = ends[:, kept].astype(np.int64)
    shared = shared_values.links(given, nodes, labels)
    if not (made[0] != made[1]).any() and not shared.shape[1]:
        raise InputError.plain(file, "no link joins two nodes", "Give at least one link")
    if labels is not None and unread:
        _tell_kinds(given, pairs[unread][kept], made, np.array(labels, dtype=object))
    if labels is not None and not given.options.link_by and given.options.like is None:
        shared_values.propose(given, nodes, made, labels)
    every = np.concatenate([made, shared], axis=1)
    if given.options.weight:
        of_shared = np.full(shared.shape[1], weights[kept].mean())
        return edges.merged(every, np.append(weights[kept], of_shared), len(ids))
    return every, None


def _tell_kinds(
    given: Given, unread: pandas.DataFrame, made: np.ndarray, labels: np.ndarray
) -> None:
    """Tell how often links of each kind join one class, if it is rare for one of a column.

    Args:
        given: what users are told.
        unread: columns of the links that are not read, ``[E]``.
        made: ends of the links, ``[2, E]``.
        labels: class of each node, empty for none, ``[V]``.
    """
    from scipy.stats import chi2_contingency  # slow import, needed by links with other columns

    ends = labels[made]
    judged = (ends != "").all(0)
    is_same = (ends[0] == ends[1])[judged]
    for name, cells in unread[judged].items():
        if not 2 <= cells.nunique() <= MOST_KINDS:
            continue
        count = pandas.crosstab(cells, is_same)
        if count.shape[1] < 2 or chi2_contingency(count).pvalue >= SIGNIFICANT:
            continue
        same = (count[True] / count.sum(1)).sort_values(ascending=False, kind="stable")
        if same.iloc[-1] >= LOW * same.iloc[0]:
            continue
        shares = [f"{kind!r} {count[True][kind]} of {count.loc[kind].sum()}" for kind in same.index]
        given.notes.append(
            f"{given.files[1]}: the kinds of links in the column {name} differ in how many join"
            f" nodes of one class: {', '.join(shares)}. Without the last kinds predictions may be"
            " better; remove their rows and compare"
        )


def _tell_ends(given: Given, pairs: pandas.DataFrame, unread: list[str], reading: Reading) -> None:
    line = f"{given.files[1]}: links join the columns {listed(reading.ends)}"
    if given.options.weight:
        line += f", with weights from {given.options.weight}"
    if unread:
        line += f"; not read: {listed(unread)}"
    ways = []
    if not given.options.weight:
        usual = columns.usual(unread, WEIGHTS)
        perhaps = [usual] if usual else [name for name in unread if _may_be_weights(pairs[name])]
        ways = [option("weight", name) for name in perhaps]
        if ways:
            line += f" ({' or '.join(ways[:SHOWN])} reads weights)"
    given.chosen.append(line)
    if ways:
        given.unread.append(line)


def _may_be_weights(cells: pandas.Series) -> bool:
    """Whether all cells of a column of links are positive numbers, which do not count its rows."""
    values, _ = features.parsed(cells)
    return bool((values > 0).all()) and not read.is_counter(cells)


def _weights(given: Given, pairs: pandas.DataFrame) -> np.ndarray:
    """The weight of each row of links; 0 = it is no link.

    Raises:
        InputError: a weight is no number of 0 or more.
    """
    file = given.files[1]
    name = given.options.weight
    if name not in pairs and given.options.like and given.options.like.get("weight") == name:
        raise InputError.plain(
            "like",
            f"{file} lacks {name}, which holds the weights of links in the earlier graph",
            f"Its columns are {columns.listing(pairs)}. Name that of weights with `weight`",
        )
    column = features.column(pairs, name, "weight")
    values = features.parsed(column)[0].to_numpy()
    wrong = ~((values >= 0) & (values < features.LARGEST))
    if wrong.any():
        place = int(wrong.argmax())
        where = f"{pairs.index.name or 'row'} {pairs.index[place]}"
        raise InputError.plain(
            file,
            f"the weight in {where} is {str(column.iloc[place])!r}",
            "Give each link a number of 0 or more",
        )
    if column.dtype.kind not in features.NUMERIC:
        given.notes.extend(features.decimal_points(name, features.texts(column))[1])
    zeros = int((values == 0).sum())
    if zeros:
        given.notes.append(f"{file}: {counted(zeros, 'link')} of weight 0 left out")
    return values


def _check_zeros(given: Given, pairs: pandas.DataFrame, reading: Reading) -> None:
    """Tell that a column is 0 in some rows, which may mean that they are no links.

    Raises:
        InputError: it is 0 in half of the rows or more, unless the ends are chosen.
    """
    for name, cells in pairs.items():
        values, wrong = features.parsed(cells)
        share = (values.dropna() == 0).mean()
        if wrong or not 0 < share < 1 or read.is_counter(cells):
            continue
        told = f"{name} is 0 in {(values == 0).sum():,} of {len(pairs):,} rows"
        without = f"leave out those that mean no link with {option('weight', name)}"
        if share >= 0.5 and not given.options.ends:
            keep = option("ends", reading.ends)
            raise InputError.plain(
                given.files[1], told, f"{without.capitalize()}, or keep all with {keep}"
            )
        given.problems.append(f"{given.files[1]}: {told}; {without}")


def _tell_unknown(
    given: Given, nodes: Nodes, pairs: pandas.DataFrame, reading: Reading, strange: np.ndarray
) -> None:
    """Refuse links with ends that are no ids, or tell that they are left out."""
    cells = [columns.cells(pairs, name) for name in reading.ends]
    unknown = dict.fromkeys(cells[end][link] for link, end in np.argwhere(strange.T).tolist())
    named = listed([repr(cell) if cell else "an empty cell" for cell in unknown], 3)
    count = int(strange.any(0).sum())
    if given.options.skip_missing:
        note = f"{counted(count, 'link')} to unknown ids left out: {named}"
        if given.options.like is not None and count > len(pairs) / 2:
            note += f". These are most of the links. {KEEP}, since predictions read the neighbours."
        given.problems.append(note)
        return
    table = nodes.table
    options = given.options._replace(id=None)
    every = readings.readings(table, columns.unique(table), pairs, options)
    others = [one.id for one in every if one.share == 1 and one.id not in ("", reading.id)]
    others = [name for name in others if name in columns.ROWS or table[name].dtype.kind != "f"]
    ids = [*dict.fromkeys(columns.cells(table, reading.id))]
    hint = f"Ids are those of {nodes.id or 'the index'}: {listed([*map(repr, ids)], 3)}"
    skip = f"or leave out these links with {option('skip_missing', True)}"
    hint += f". Fix the links, name the columns of ids with `id` and `ends`, {skip}"
    if given.options.like is not None:
        hint = f"{KEEP}, fix the links, {skip}"
    bare = {cell.lstrip("0"): cell for cell in ids if cell.isdecimal()}
    alike = [cell for cell in unknown if cell.isdecimal() and cell.lstrip("0") in bare]
    if alike:
        hint = f"Leading zeros differ: the nodes have {bare[alike[0].lstrip('0')]!r}, the links"
        hint += f" {alike[0]!r}. Write both alike; read them as text, in pandas with dtype=str;"
        hint += f" {skip}"
    if others:
        hint = f"The column {others[0]} holds such ids; name it with {option('id', others[0])}"
    raise InputError.plain(
        given.files[1],
        f"{count:,} of {len(pairs):,} links name ids that are not in the node table: {named}",
        hint,
    )

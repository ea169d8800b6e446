"""Links between nodes that share a value of a column, such as an author or a place."""

from __future__ import annotations

import numpy as np
import pandas

from graphgym_srnc.core.text import counted
from graphgym_srnc.data import features
from graphgym_srnc.data.look import Given, Nodes
from graphgym_srnc.errors import InputError, option

NEAREST = 5  # others of one value, after a node in the table, that it is linked to
LEAST = 20  # links between labelled nodes that can tell whether a column is worth linking by
SAME = 0.5  # share of these that join one class, from which a column is proposed


def links(given: Given, nodes: Nodes, labels: list[str] | None) -> np.ndarray:
    """Links ``[2, E]`` between nodes of the same value in each column of ``link_by``.

    A node is linked to the ``NEAREST`` next ones of its value in the table, and the last ones to
    the first: each has at most twice as many links, and small groups are complete. A note
    says how many of them join one class.

    Args:
        given: the options, and what users are told.
        nodes: the kept rows.
        labels: class of each node, empty for none, ``[V]``.

    Raises:
        InputError: no two nodes share a value.
    """
    found = [np.empty((2, 0), dtype=np.int64)]
    for name in nodes.uses["link_by"]:
        cells = features.column(nodes.table, name, "link_by")
        made = _rings(features.present(features.texts(cells)))
        if not made.shape[1]:
            raise InputError.plain(
                "link_by",
                f"no two nodes share a value of {name}",
                "Choose a column whose values repeat, such as an author or a place",
            )
        line = f"{name}: {counted(made.shape[1], 'link')} between nodes that share a value"
        within, judged = _within_classes(made, labels)
        if judged:
            line += f"; of {judged:,} between labelled nodes, {within:,} join one class"
        given.chosen.append(line)
        found.append(made)
    return np.concatenate(found, axis=1)


def propose(given: Given, nodes: Nodes, made: np.ndarray, labels: list[str]) -> None:
    """Propose the column whose equal values tell a class better than the links ``[2, E]`` do."""
    own, judged = _within_classes(made, labels)
    best = max(SAME, own / max(judged, 1))
    line = ""
    labelled = nodes.table[np.array(labels, dtype=object) != ""]
    known = [label for label in labels if label]
    free = [name for name in nodes.table if name and name not in (nodes.id, *nodes.not_features)]
    for name in free:
        rings = _rings(features.present(features.texts(labelled[name])))
        within, count = _within_classes(rings, known)
        if count >= LEAST and within > best * count:
            best = within / count
            line = (
                f"nodes that share a value of {name} are often of one class ({within:,} of"
                f" {count:,} pairs): {option('link_by', name)} links them, too. Compare the"
                " accuracy"
            )
    if line:
        given.notes.append(line)


def _rings(cells: list[str]) -> np.ndarray:
    """Links of each node to the next ``NEAREST`` of its value; nodes of empty cells have none."""
    values, _ = pandas.factorize(pandas.Series(cells, dtype=object).replace("", None))
    order = np.argsort(values, kind="stable")
    order = order[values[order] >= 0]
    size = np.bincount(values[order])
    first = np.repeat(np.cumsum(size) - size, size)
    size = np.repeat(size, size)
    place = np.arange(len(order)) - first
    found = []
    for step in range(1, NEAREST + 1):
        # Half of the ring is as far as a step leads to links that no other step makes.
        is_new = (2 * step < size) | ((2 * step == size) & (place < step))
        other = first + (place + step) % np.maximum(size, 1)
        found.append(np.stack([order[is_new], order[other[is_new]]]))
    return np.concatenate(found, axis=1)


def _within_classes(made: np.ndarray, labels: list[str] | None) -> tuple[int, int]:
    """How many links ``[2, E]`` join nodes of one class, and how many join labelled nodes."""
    if labels is None:
        return 0, 0
    ends = np.array(labels, dtype=object)[made]
    judged = (ends != "").all(0)
    return int((ends[0] == ends[1])[judged].sum()), int(judged.sum())

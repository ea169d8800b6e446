"""Undirected and simple lists of edges in little memory, as numbers that are sorted in place."""

from __future__ import annotations

from itertools import repeat
from typing import Iterable, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

CHUNK = 2**20  # number of edges that are read at a time
SMALL = 5  # size of a component up to which its nodes have too few neighbours for good predictions
TELLING = 30  # edges between labelled nodes that are needed to estimate the homophily
LEAST_SAME = 0.5  # share of them that join one class, below which a message says so
ROUNDING = 1e-5  # relative difference up to which two weights of one edge count as equal


def places(cells: Sequence[str], ids: Iterable[str]) -> np.ndarray:
    """Place of each cell among different ids, -1 = it is none of them."""
    place = {id: number for number, id in enumerate(ids)}
    return np.fromiter(map(place.get, cells, repeat(-1)), np.int64, len(cells))


def undirected(edge_index: np.ndarray, num_nodes: int) -> tuple[np.ndarray, dict[str, int]]:
    """Every edge in both directions, each once, without loops, as sorted numbers :math:`i V + j`.

    Also counts ``self_loops``, ``duplicates`` and ``one_way`` edges of ``edge_index`` ``[2, E]``.
    """
    number = np.multiply(edge_index[0], num_nodes, dtype=np.int64)
    number += edge_index[1]

    loops = edge_index[0] == edge_index[1]
    if loops.any():
        number = number[~loops]
    found = {"self_loops": int(np.count_nonzero(loops)), "duplicates": len(number)}
    number = _distinct(number)
    found["duplicates"] -= len(number)

    row = number // num_nodes  # NumPy divides fast, but takes remainders slowly
    reverse = (number - row * num_nodes) * num_nodes + row
    reverse.sort()

    found["one_way"] = -len(number)
    if not np.array_equal(number, reverse):
        number = np.concatenate([number, reverse])
        del reverse
        number = _distinct(number)
    found["one_way"] += len(number)
    return number, found


def weights(
    number: np.ndarray, edge_index: np.ndarray, weight: np.ndarray, num_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weight of each edge of :func:`undirected`, ``[n]``: the mean of those of its copies.

    Also returns the columns of ``edge_index`` ``[2, E]`` whose weight ``[E]`` is not that of their
    edge, by more than rounding.
    """
    column = (edge_index[0] != edge_index[1]).nonzero()[0]
    row, other = edge_index[:, column].astype(np.int64)
    given = np.tile(weight[column].astype(np.float64), 2)
    place = np.searchsorted(
        number, np.concatenate([row * num_nodes + other, other * num_nodes + row])
    )
    mean = np.bincount(place, given, len(number)) / np.bincount(place, minlength=len(number))
    differ = np.abs(given - mean[place]) > ROUNDING * mean[place]
    return mean.astype(np.float32), np.tile(column, 2)[differ]


def component_sizes(edge_index: np.ndarray, num_nodes: int) -> np.ndarray:
    """Number of nodes in the connected component of each node, ``[V]``."""
    present = np.ones(len(edge_index[0]), dtype=bool)
    links = sp.coo_array((present, tuple(edge_index)), shape=(num_nodes, num_nodes))
    _, component = connected_components(links, directed=False)
    return np.bincount(component)[component]


def merged(
    edge_index: np.ndarray, weight: np.ndarray, num_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Every edge once, without loops, and the sum of the weights of its copies in both directions.

    Returns:
        Edges ``[2, E]`` whose first node is the smaller one, and float32 weights ``[E]``.
    """
    pairs = tuple(np.sort(edge_index, axis=0))
    found = sp.triu(sp.coo_array((weight, pairs), shape=(num_nodes, num_nodes)).tocsr(), 1).tocoo()
    return np.stack([found.row, found.col]).astype(np.int64), found.data.astype(np.float32)


def _distinct(number: np.ndarray) -> np.ndarray:
    if (number[1:] < number[:-1]).any():
        number.sort()
    first = np.append(True, number[1:] != number[:-1])
    return number if first.all() else number[first]

"""Undirected and simple lists of edges in little memory, as numbers that are sorted in place."""

from __future__ import annotations

import numpy as np


def undirected(edge_index: np.ndarray, num_nodes: int) -> tuple[np.ndarray, dict[str, int]]:
    """Every edge in both directions, each once, without loops, as sorted numbers :math:`i V + j`.

    How many ``self_loops``, ``duplicates`` and ``one_way`` edges of ``edge_index`` ``[2, E]`` there
    were is returned, too.
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


def _distinct(number: np.ndarray) -> np.ndarray:
    if (number[1:] < number[:-1]).any():
        number.sort()
    first = np.append(True, number[1:] != number[:-1])
    return number if first.all() else number[first]

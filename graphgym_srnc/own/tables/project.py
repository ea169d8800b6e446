"""Metapath projection: the nodes that a path of links leads to, counted, in memory that does not grow with the densest step."""
from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.errors import InputError

BLOCK = 5_000_000
"""Products that one turn makes at most, unless a single row needs more: what bounds the memory."""

WORK = 5_000_000_000
"""Products that a whole path may take, minutes of one core."""


class Limits(NamedTuple):
    """What is kept of the links of a metapath.

    Args:
        top: the strongest neighbours of each node alone; 0 = all.
        min_count: neighbours that so many paths lead to.
        max_degree: nodes on the way with more links than this of one kind are passed by, as stop words are; 0 = none is.
        max_edges: more are an error.
    """

    top: int = 0
    min_count: int = 1
    max_degree: int = 0
    max_edges: int = 5_000_000


def walk(links: dict[tuple[str, str], sp.csr_matrix], path: str, node: str, max_degree: int) -> list[sp.csr_matrix]:
    """The links of each step of a path; nodes on the way with more than ``max_degree`` links to either side have none (0 = all stay).

    Raises:
        InputError: it does not begin at ``node``, or two types that follow each other have no links.
    """
    types = path.split("-")
    if types[0] != node or len(types) < 2:
        raise InputError("metapath", path, f"types with - between them, the first of them {node}")
    for pair in zip(types, types[1:]):
        if pair not in links:
            raise InputError("metapath", path, f"types that are linked: {', '.join(f'{a}-{b}' for a, b in sorted(links) if a <= b)}")
    steps = [links[pair] for pair in zip(types, types[1:])]
    for place in range(1, len(steps)) if max_degree else ():
        before, after = steps[place - 1], steps[place]
        degree = np.maximum(np.diff(before.tocsc().indptr), np.diff(after.indptr))
        stays = sp.diags((degree <= max_degree).astype(np.int64), dtype=np.int64)
        steps[place - 1], steps[place] = sp.csr_matrix(before @ stays), sp.csr_matrix(stays @ after)
    return steps


def project(steps: Sequence[sp.csr_matrix], path: str, limits: Limits) -> tuple[np.ndarray, str]:
    r"""Pairs ``[2, E]`` of different nodes, the smaller first, that a path of links leads between, and their number in words.

    With :math:`M = A_1 \cdots A_L` the number of paths, :math:`S = M` where the path reads the same from both ends, else
    :math:`M + M^\top`. Kept are pairs with :math:`S_{ij}` of ``min_count`` or more and, with ``top``, the strongest ones of
    either node: by PathSim :math:`2 S_{ij} / (S_{ii} + S_{jj})` (Sun et al., VLDB 2011) where the path has a middle type and
    reads the same from both ends, else by :math:`S_{ij} / \sqrt{d_i d_j}` with row sums :math:`d`. Ties go to the smaller number.

    Args:
        steps: links of each step, ``[V, V_1]``, ``[V_1, V_2]``, ..., ``[V_L, V]``.
        path: what errors name.
        limits: what is kept.

    Raises:
        InputError: more links than ``max_edges``, or so many paths that counting them would take long.
    """
    types = path.split("-")
    symmetric = types == types[::-1]
    middle = (len(steps) + 1) // 2
    left = _product(steps[:middle], path)
    right = _product(steps[middle:], path) if len(steps) > 1 else sp.identity(left.shape[1], dtype=np.int64, format="csr")
    work = _work(left, right)
    most = int(work.sum())
    _check_work(most, path, WORK)
    back = (sp.csr_matrix(right.T), sp.csr_matrix(left.T))
    loops = np.asarray(left.multiply(right.T).sum(1)).ravel().astype(float)
    ones = np.ones(len(loops))
    degree = left @ (right @ ones) + (0 if symmetric else back[0] @ (back[1] @ ones))
    pathsim = symmetric and len(steps) % 2 == 0
    turn = np.cumsum(work) // BLOCK
    found, count, begin = [], 0, 0
    for end in [*(np.flatnonzero(np.diff(turn)) + 1).tolist(), len(turn)]:
        block = left[begin:end] @ right
        if not symmetric:
            block = block + back[0][begin:end] @ back[1]
        block = block.tocoo()
        row, column, value = block.row.astype(np.int64) + begin, block.col.astype(np.int64), block.data
        keep = (row != column) & (value >= limits.min_count)
        row, column, value = row[keep], column[keep], value[keep]
        if limits.top:
            strength = 2 * value / (loops[row] + loops[column]) if pathsim else value / np.sqrt(degree[row] * degree[column])
            order = np.lexsort((column, -strength, row))
            row, column = row[order], column[order]
            first = np.searchsorted(row, row)
            near = np.arange(len(row)) - first < limits.top
            row, column = row[near], column[near]
        found.append(np.minimum(row, column) * len(turn) + np.maximum(row, column))
        count += len(row) if limits.top else int((row < column).sum())
        if count > limits.max_edges:
            raise InputError("--max-edges", limits.max_edges,
                             f"up to {most:,}, the number of paths of {path}; or fewer links: --top 20 keeps the strongest of each node, "
                             "--min-count 2 drops the weakest, --max-degree 100 passes by what links nearly all")
        begin = end
    keys = np.unique(np.concatenate(found))
    return np.stack([keys // len(turn), keys % len(turn)]), f"{path}: {most:,} paths, {len(keys):,} links"


def _product(steps: Sequence[sp.csr_matrix], path: str) -> sp.csr_matrix:
    found = steps[0]
    for step in steps[1:]:
        _check_work(int(_work(found, step).sum()), path, WORK // 50)  # its entries are kept
        found = sp.csr_matrix(found @ step)
    return found


def _work(left: sp.csr_matrix, right: sp.csr_matrix) -> np.ndarray:
    """Products that each row of ``left @ right`` takes, ``[V]``, at least as many as it has entries."""
    return sp.csr_matrix((np.ones(left.nnz, dtype=np.int64), left.indices, left.indptr), shape=left.shape) @ np.diff(right.indptr)


def _check_work(work: int, path: str, most: int) -> None:
    if work > most:
        raise InputError("--metapath", f"{path} of {work:,} paths", f"{most:,} at most; --max-degree 100 passes by what links nearly all")

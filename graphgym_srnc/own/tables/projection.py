"""Metapath projection: the nodes that a path of links leads between, in bounded memory."""
from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.errors import InputError

BLOCK = 5_000_000
"""Products of a block at most, unless a single row needs more."""

WORK = 5_000_000_000
"""Products that a whole path may take, minutes of one core."""


class Limits(NamedTuple):
    """What is kept of the links of a metapath.

    Args:
        top: the strongest neighbours of each node alone; 0 = all.
        min_count: neighbours that so many paths lead to.
        max_degree: nodes on the way with more links than this of one kind are passed by, as stop
            words are; 0 = none is.
        max_edges: more are an error.
    """

    top: int = 0
    min_count: int = 1
    max_degree: int = 0
    max_edges: int = 5_000_000


def linked_types(links: dict[tuple[str, str], sp.csr_matrix]) -> str:
    """The types of nodes that are linked, in words."""
    return ", ".join(f"{a}-{b}" for a, b in sorted(links) if a <= b)


def steps_of(links: dict[tuple[str, str], sp.csr_matrix], path: str, node: str,
             max_degree: int = 0) -> list[sp.csr_matrix]:
    """The links of each step of a path, without nodes on the way whose degree is too high.

    Args:
        links: by two types, ``[V_a, V_b]``.
        path: types with - between them.
        node: the first of them.
        max_degree: the most links to either side of a node on the way; 0 = any number.

    Raises:
        InputError: it does not begin at ``node``, or two types in a row have no links.
    """
    types = path.split("-")
    if types[0] != node or len(types) < 2:
        raise InputError("metapath", path, f"types with - between them, beginning with {node}")
    pairs = list(zip(types, types[1:]))
    if not set(pairs) <= links.keys():
        raise InputError("metapath", path, f"a path of these links: {linked_types(links)}")
    steps = [links[pair] for pair in pairs]
    for after in range(1, len(steps)) if max_degree else ():
        to, onward = steps[after - 1], steps[after]
        degree = np.maximum(np.diff(to.tocsc().indptr), np.diff(onward.indptr))
        stays = sp.diags((degree <= max_degree).astype(np.int64), dtype=np.int64)
        steps[after - 1], steps[after] = sp.csr_matrix(to @ stays), sp.csr_matrix(stays @ onward)
    return steps


def project(steps: Sequence[sp.csr_matrix], path: str, limits: Limits) -> tuple[np.ndarray, str]:
    r"""Pairs ``[2, E]`` of different nodes that a path leads between, and their number in words.

    With :math:`M = A_1 \cdots A_L` the number of paths, :math:`S = M` where the path reads the same
    from both ends, else :math:`M + M^\top`. Kept are pairs with :math:`S_{ij}` of ``min_count`` or
    more and, with ``top``, the strongest ones of either node. Where the path has a middle type and
    reads the same from both ends, strength is PathSim :math:`2 S_{ij} / (S_{ii} + S_{jj})` (Sun et
    al., VLDB 2011), else :math:`S_{ij} / \sqrt{d_i d_j}` with row sums :math:`d`. Ties go to the
    smaller number.

    Args:
        steps: links of each step, ``[V, V_1]``, ``[V_1, V_2]``, ..., ``[V_L, V]``.
        path: types with - between them.
        limits: what is kept.

    Returns:
        The pairs, the smaller number first, and the words.

    Raises:
        InputError: more links than ``max_edges``, or so many paths that counting would take long.
    """
    types = path.split("-")
    symmetric, middle = types == types[::-1], (len(steps) + 1) // 2
    left = _product(steps[:middle], path)
    right = sp.identity(left.shape[1], dtype=np.int64, format="csr")
    if len(steps) > 1:
        right = _product(steps[middle:], path)
    work = _work(left, right)
    num_paths, num_nodes = int(work.sum()), len(work)
    _check_work(num_paths, path, WORK)

    halves = [(left, right)] if symmetric else [(left, right), (right.T.tocsr(), left.T.tocsr())]
    loops = np.asarray(left.multiply(right.T).sum(1)).ravel().astype(float)
    degree = sum(first @ (second @ np.ones(num_nodes)) for first, second in halves)
    pathsim = symmetric and len(steps) % 2 == 0

    block_of = np.cumsum(work) // BLOCK
    keys, count, begin = [], 0, 0
    for end in [*(np.flatnonzero(np.diff(block_of)) + 1).tolist(), num_nodes]:
        counts = sum(first[begin:end] @ second for first, second in halves).tocoo()
        row, column = counts.row.astype(np.int64) + begin, counts.col.astype(np.int64)
        keep = (row != column) & (counts.data >= limits.min_count)
        row, column, value = row[keep], column[keep], counts.data[keep]
        if limits.top:
            strength = (2 * value / (loops[row] + loops[column]) if pathsim
                        else value / np.sqrt(degree[row] * degree[column]))
            order = np.lexsort((column, -strength, row))
            row, column = row[order], column[order]
            strongest = np.arange(len(row)) - np.searchsorted(row, row) < limits.top
            row, column = row[strongest], column[strongest]
        keys.append(np.minimum(row, column) * num_nodes + np.maximum(row, column))
        count += len(row) if limits.top else int((row < column).sum())
        if count > limits.max_edges:
            message = f"{path} makes more than {limits.max_edges:,} links of {num_paths:,} paths"
            hint = ("Raise it, or make fewer links: --top 20 keeps the strongest of each node, "
                    "--min-count 2 drops the weakest, --max-degree 100 skips nodes that link "
                    "nearly everything")
            raise InputError.plain("--max-edges", message, hint)
        begin = end
    keys = np.unique(np.concatenate(keys))
    words = f"{path}: {num_paths:,} paths, {len(keys):,} links"
    return np.stack([keys // num_nodes, keys % num_nodes]), words


def _product(steps: Sequence[sp.csr_matrix], path: str) -> sp.csr_matrix:
    product = steps[0]
    for step in steps[1:]:
        _check_work(int(_work(product, step).sum()), path, WORK // 50)  # its entries are kept
        product = sp.csr_matrix(product @ step)
    return product


def _work(left: sp.csr_matrix, right: sp.csr_matrix) -> np.ndarray:
    """Products that each row of ``left @ right`` takes, ``[V]``; it has no more entries."""
    entries = sp.csr_matrix((np.ones_like(left.data), left.indices, left.indptr), shape=left.shape)
    return entries @ np.diff(right.indptr)


def _check_work(work: int, path: str, most: int) -> None:
    if work > most:
        message = f"{path} has {work:,} paths; at most {most:,} are possible"
        hint = "Add --max-degree 100, which skips nodes that link nearly everything"
        raise InputError.plain("--metapath", message, hint)

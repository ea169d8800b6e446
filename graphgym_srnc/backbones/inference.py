"""Layer-by-layer inference: exact logits for graphs of any size."""

from __future__ import annotations

import tempfile
from typing import Callable

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.backbones.encoder import Encoder
from graphgym_srnc.backbones.features import Mapped
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sampling import (
    Neighbourhoods,
    Rows,
    ids,
    neighbourhoods,
    propagated_block,
)
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View
from graphgym_srnc.data.cleaning import ROWS

CHUNK = 2**20
"""Number of nodes and edges that are processed at a time."""

ON_DISK = 2**31
"""Size in bytes from which hidden states are stored in a memory-mapped temporary file."""


@torch.no_grad()
def infer(
    encoder: Encoder,
    graph: Graph,
    nodes: Tensor | None = None,
    *,
    rank: int = 0,
    world: int = 1,
    exchange: Callable[[Tensor, list[int]], object] = lambda rows, cuts: None,
) -> Tensor:
    """Exact logits in eval mode.

    Memory is limited to the graph and the states of two layers; large states are stored on disk. If
    ``nodes`` is given, a layer computes only the states that the next layer needs. Several
    processes can divide the rows among them, balanced by number of edges.

    Args:
        encoder: the encoder.
        graph: the graph.
        nodes: ids of the nodes to score, ``[n]``; None = all.
        rank, world: number of this process, and of all processes that divide the rows.
        exchange: fills in the rows of the others, see
            :func:`graphgym_srnc.core.parallel.exchange`.

    Returns:
        Logits ``[V, K]`` of all nodes, or ``[n, K]`` of ``nodes``.
    """
    encoder.eval()
    if encoder.local:
        whole = encoder.view(graph)
        if nodes is None:
            nodes = torch.arange(graph.num_nodes, device=graph.device)
        return torch.cat(
            [encoder(View(whole.x[some], whole.blocks)) for some in nodes.split(CHUNK // 16)]
        )

    exact, last = neighbourhoods(graph, 0), len(encoder.layers) - 1
    read, *wanted = _wanted(exact, len(encoder.layers), nodes)
    hidden: Sparse | Tensor | Mapped = graph.x
    if encoder.precompute and isinstance(hidden, Mapped):
        hidden = _read_features(hidden, graph, read)
    for i, mask in enumerate(wanted):
        out = _empty_states(graph, encoder.widths[i + 1])
        cuts, chunks = _ranges(exact.degree, mask, rank, world)
        for rows in chunks:
            block, state = _block_and_state(encoder, graph, exact, i, hidden, rows)
            result = encoder.layer_output(i, state, block)
            out[rows] = result if i == last else encoder.act(result)
        exchange(out, cuts)
        hidden = out
    return out if nodes is None else out[nodes]


def _wanted(exact: Neighbourhoods, layers: int, nodes: Tensor | None) -> list[np.ndarray | None]:
    """Masks ``[V]`` of the nodes whose features and states in each layer are needed.

    None means all nodes. It is also used if more than half are needed, since ranges are faster.
    """
    mask = None
    if nodes is not None:
        mask = np.zeros(len(exact.degree), dtype=bool)
        mask[nodes.cpu().numpy()] = True
    found = [mask]
    for _ in range(layers):
        if mask is not None:
            last, mask = mask, mask.copy()
            for begin in range(0, len(mask), ROWS):
                rows = begin + np.flatnonzero(last[begin : begin + ROWS])
                mask[exact.indices[exact.entries(rows)]] = True
            mask = None if mask.mean() > 0.5 else mask
        found.insert(0, mask)
    return found


def _ranges(
    degree: np.ndarray, wanted: np.ndarray | None, rank: int, world: int
) -> tuple[list[int], list[Rows]]:
    """Row boundaries of all processes, and the chunks of rows of this process."""
    work = degree + 1 if wanted is None else np.where(wanted, degree + 1, 0)
    ends = np.cumsum(work)
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, world) / world)
    cuts = [0, *inner.tolist(), len(degree)]
    begin, end = cuts[rank : rank + 2]
    every = np.searchsorted(ends, np.arange(CHUNK, ends[-1], CHUNK)) + 1
    places = [begin, *every[(begin < every) & (every < end)].tolist(), end]
    chunks: list[slice] = [slice(*pair) for pair in zip(places, places[1:])]
    if wanted is None:
        return cuts, [*chunks]
    some = (rows.start + np.flatnonzero(wanted[rows]) for rows in chunks)
    return cuts, [rows for rows in some if len(rows)]


def _block_and_state(
    encoder: Encoder,
    graph: Graph,
    exact: Neighbourhoods,
    i: int,
    hidden: Sparse | Tensor | Mapped,
    rows: Rows,
) -> tuple[Block, Sparse | Tensor]:
    """Block and input state of layer i for some nodes, given the inputs ``[V, K]`` of all nodes."""
    index = torch.from_numpy(ids(rows))
    if encoder.precompute and isinstance(hidden, Tensor):
        own = rows if isinstance(rows, slice) else index.to(graph.device)
        if i == 0 and isinstance(graph.x, Tensor):
            return propagated_block(graph, encoder.operator, index), hidden[own]
        # More rows are read than written, so the product is computed before the weights.
        return Block(None, own, exact.product(encoder.operator, rows, hidden)), hidden
    block, needed = exact.block(encoder.operator, index)
    return block, hidden[needed.to(graph.device)]


def _read_features(x: Mapped, graph: Graph, wanted: np.ndarray | None) -> Tensor:
    """Scaled features ``[V, F]`` read from disk, each row once; rows not wanted are empty."""
    out = _empty_states(graph, graph.num_features)
    for begin in range(0, len(out), ROWS):
        rows: Rows = slice(begin, begin + ROWS)
        if wanted is not None:
            rows = begin + np.flatnonzero(wanted[rows])
        out[rows] = x[rows if isinstance(rows, slice) else torch.from_numpy(rows)]
    return out


def _empty_states(graph: Graph, width: int) -> Tensor:
    """Uninitialised storage ``[V, width]`` for node states, in memory or on disk."""
    if graph.device.type != "cpu" or graph.num_nodes * width * 4 < ON_DISK:
        return torch.empty(graph.num_nodes, width, device=graph.device)
    with tempfile.TemporaryFile() as file:  # the map keeps the data after the file is closed
        return torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(graph.num_nodes, width)))

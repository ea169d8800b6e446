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
    *,
    rank: int = 0,
    world: int = 1,
    exchange: Callable[[Tensor, list[int]], object] = lambda rows, cuts: None,
) -> Tensor:
    """Exact logits ``[V, K]`` of all nodes in eval mode.

    Memory is limited to the graph and the states of two layers; large states are stored on disk.
    Several processes can divide the rows among them, balanced by number of edges.

    Args:
        encoder: the encoder.
        graph: the graph.
        rank, world: number of this process, and of all processes that divide the rows.
        exchange: fills in the rows of the others, see
            :func:`graphgym_srnc.core.parallel.exchange`.
    """
    encoder.eval()
    if encoder.local:
        whole, every = encoder.view(graph), torch.arange(graph.num_nodes, device=graph.device)
        return torch.cat(
            [encoder(View(whole.x[some], whole.blocks)) for some in every.split(CHUNK // 16)]
        )

    exact, last = neighbourhoods(graph, 0), len(encoder.layers) - 1
    cuts, chunks = _ranges(exact.degree, rank, world)
    hidden: Sparse | Tensor | Mapped = graph.x
    if encoder.precompute and isinstance(hidden, Mapped):
        hidden = _read_features(hidden, graph)
    for i in range(last + 1):
        out = _empty_states(graph, encoder.widths[i + 1])
        for rows in chunks:
            block, state = _block_and_state(encoder, graph, exact, i, hidden, rows)
            result = encoder.layer_output(i, state, block)
            out[rows] = result if i == last else encoder.act(result)
        exchange(out, cuts)
        hidden = out
    return out


def _ranges(degree: np.ndarray, rank: int, world: int) -> tuple[list[int], list[slice]]:
    """Row boundaries of all processes, and the chunks of rows of this process."""
    ends = np.cumsum(degree + 1)
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, world) / world)
    cuts = [0, *inner.tolist(), len(degree)]
    begin, end = cuts[rank : rank + 2]
    every = np.searchsorted(ends, np.arange(CHUNK, ends[-1], CHUNK)) + 1
    places = [begin, *every[(begin < every) & (every < end)].tolist(), end]
    return cuts, [slice(*pair) for pair in zip(places, places[1:])]


def _block_and_state(
    encoder: Encoder,
    graph: Graph,
    exact: Neighbourhoods,
    i: int,
    hidden: Sparse | Tensor | Mapped,
    rows: slice,
) -> tuple[Block, Sparse | Tensor]:
    """Block and input state of layer i for some nodes, given the inputs ``[V, K]`` of all nodes."""
    index = torch.arange(rows.start, rows.stop)
    if encoder.precompute and isinstance(hidden, Tensor):
        if i == 0 and isinstance(graph.x, Tensor):
            return propagated_block(graph, encoder.operator, index), hidden[rows]
        # More rows are read than written, so the product is computed before the weights.
        return Block(None, rows, exact.product(encoder.operator, rows, hidden)), hidden
    block, needed = exact.block(encoder.operator, index)
    return block, hidden[needed.to(graph.device)]


def _read_features(x: Mapped, graph: Graph) -> Tensor:
    """Scaled features ``[V, F]`` read from disk, each row once."""
    out = _empty_states(graph, graph.num_features)
    for begin in range(0, len(out), ROWS):
        rows = slice(begin, begin + ROWS)
        out[rows] = x[rows]
    return out


def _empty_states(graph: Graph, width: int) -> Tensor:
    """Uninitialised storage ``[V, width]`` for node states, in memory or on disk."""
    if graph.device.type != "cpu" or graph.num_nodes * width * 4 < ON_DISK:
        return torch.empty(graph.num_nodes, width, device=graph.device)
    with tempfile.TemporaryFile() as file:  # the map keeps the data after the file is closed
        return torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(graph.num_nodes, width)))

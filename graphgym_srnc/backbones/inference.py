"""Exact logits of all nodes of a graph of any size, one layer after another."""
from __future__ import annotations

import tempfile

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc import parallel
from graphgym_srnc.backbones.encoder import Encoder
from graphgym_srnc.backbones.features import ROWS, Mapped
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sampling import Neighbourhoods, ids, neighbourhoods, propagated_block
from graphgym_srnc.backbones.view import Block, View

CHUNK = 2 ** 20
"""Nodes and edges that are read at a time."""

ON_DISK = 2 ** 31
"""Bytes from which the hidden states of a layer lie in a temporary file, memory-mapped."""


@torch.no_grad()
def infer(encoder: Encoder, graph: Graph, nodes: Tensor | None = None) -> Tensor:
    """The exact logits in eval mode, ``[V, K]`` of all nodes or ``[n, K]`` of ``nodes`` ``[n]``.

    Beside the graph no more lies in memory than the states of two layers, and those on disk where
    they are large. Of some nodes a layer computes the states alone that the next one reads.
    Processes that train together share the rows, in ranges of about as many edges.
    """
    encoder.eval()
    if encoder.local:
        whole = encoder.view(graph)
        if nodes is None:
            nodes = torch.arange(graph.num_nodes, device=graph.device)
        return torch.cat([encoder(View(whole.x[some], whole.blocks))
                          for some in nodes.split(CHUNK // 16)])

    exact, hidden = neighbourhoods(graph, 0), graph.x
    read, *wanted = _wanted(exact, len(encoder.layers), nodes)
    if encoder.precompute and isinstance(hidden, Mapped):
        hidden = _read_features(graph, read)
    for i, layer in enumerate(encoder.layers):
        out = _empty_states(graph, len(layer.bias))
        process_cuts, chunks = _ranges(exact.degree, wanted[i])
        for rows in chunks:
            block, state = _block_and_state(encoder, graph, exact, i, hidden, rows)
            result = encoder.layer_output(i, state, block)
            out[rows] = result if i == len(encoder.layers) - 1 else encoder.act(result)
        parallel.exchange(out, process_cuts)
        hidden = out
    return hidden if nodes is None else hidden[nodes]


def _wanted(exact: Neighbourhoods, layers: int, nodes: Tensor | None) -> list[np.ndarray | None]:
    """Masks ``[V]`` of the nodes whose features, and whose states after each layer, the logits of
    ``nodes`` need; None = all, also where most are needed, since ranges are read faster."""
    mask = None
    if nodes is not None:
        mask = np.zeros(len(exact.degree), dtype=bool)
        mask[nodes.cpu().numpy()] = True
    found = [mask]
    for _ in range(layers):
        if mask is not None:
            last, mask = mask, mask.copy()
            for begin in range(0, len(mask), ROWS):
                rows = begin + np.flatnonzero(last[begin:begin + ROWS])
                mask[exact.indices[exact.entries(rows)]] = True
            mask = None if mask.mean() > 0.5 else mask
        found.insert(0, mask)
    return found


def _ranges(degree: np.ndarray,
            wanted: np.ndarray | None) -> tuple[list[int], list[slice | np.ndarray]]:
    """Where the rows of one process end and those of the next begin, and this one's chunks, of all
    rows or of those that a mask ``[V]`` wants."""
    work = degree + 1 if wanted is None else np.where(wanted, degree + 1, 0)
    ends, world = np.cumsum(work), parallel.world()
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, world) / world)
    process_cuts = [0, *inner.tolist(), len(degree)]
    begin, end = parallel.own_range(process_cuts)
    cuts = np.searchsorted(ends, np.arange(CHUNK, ends[-1], CHUNK)) + 1
    cuts = [begin, *cuts[(begin < cuts) & (cuts < end)].tolist(), end]
    chunks = list(map(slice, cuts, cuts[1:]))
    if wanted is None:
        return process_cuts, chunks
    some = (rows.start + np.flatnonzero(wanted[rows]) for rows in chunks)
    return process_cuts, [rows for rows in some if len(rows)]


def _block_and_state(encoder: Encoder, graph: Graph, exact: Neighbourhoods, i: int, hidden: Tensor,
                     rows: slice | np.ndarray) -> tuple[Block, Tensor]:
    """What layer i reads for some nodes, of the input ``[V, K]`` of all nodes."""
    index = torch.from_numpy(ids(rows))
    own = rows if isinstance(rows, slice) else index.to(graph.device)
    if i == 0 and encoder.precompute and isinstance(graph.x, Tensor):
        return propagated_block(graph, encoder.operator, index), hidden[own]
    if encoder.precompute and isinstance(hidden, Tensor):
        # Many more rows are read than written, so the product comes before the weights.
        return Block(None, own, exact.product(encoder.operator, rows, hidden)), hidden
    block, needed = exact.block(encoder.operator, index)
    return block, hidden[needed.to(graph.device)]


def _read_features(graph: Graph, wanted: np.ndarray | None) -> Tensor:
    """Features on disk, scaled, ``[V, F]``, each row read once and not for each neighbour: all rows
    or those that a mask ``[V]`` wants."""
    out = _empty_states(graph, graph.num_features)
    for begin in range(0, len(out), ROWS):
        rows = slice(begin, begin + ROWS)
        if wanted is not None:
            rows = torch.from_numpy(begin + np.flatnonzero(wanted[rows]))
        out[rows] = graph.x[rows]
    return out


def _empty_states(graph: Graph, width: int) -> Tensor:
    """Room for a state of each node, ``[V, width]``."""
    if graph.device.type != "cpu" or graph.num_nodes * width * 4 < ON_DISK:
        return torch.empty(graph.num_nodes, width, device=graph.device)
    with tempfile.TemporaryFile() as file:  # the map keeps what the name loses
        return torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(graph.num_nodes, width)))

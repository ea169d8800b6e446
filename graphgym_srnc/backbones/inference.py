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
from graphgym_srnc.backbones.sampling import Neighbourhoods, neighbourhoods, propagated_block
from graphgym_srnc.backbones.view import Block, View

CHUNK = 2 ** 20
"""Nodes and edges that are read at a time."""

ON_DISK = 2 ** 31
"""Bytes from which the hidden states of a layer lie in a temporary file, memory-mapped."""


@torch.no_grad()
def infer(encoder: Encoder, graph: Graph) -> Tensor:
    """The exact logits ``[V, K]`` of all nodes in eval mode.

    Beside the graph no more lies in memory than the states of two layers, and those on disk where
    they are large. Processes that train together share the rows, in ranges of about as many edges.
    """
    encoder.eval()
    if encoder.local:
        whole = encoder.view(graph)
        every = torch.arange(graph.num_nodes, device=graph.device)
        return torch.cat([encoder(View(whole.x[nodes], whole.blocks))
                          for nodes in every.split(CHUNK // 16)])

    exact, hidden = neighbourhoods(graph, 0), graph.x
    if encoder.precompute and isinstance(hidden, Mapped):
        hidden = _read_features(graph)
    process_cuts, chunks = _ranges(exact.degree)
    for i, layer in enumerate(encoder.layers):
        out = _empty_states(graph, len(layer.bias))
        for nodes in chunks:
            block, state = _block_and_state(encoder, graph, exact, i, hidden, nodes)
            result = encoder.layer_output(i, state, block)
            out[nodes] = result if i == len(encoder.layers) - 1 else encoder.act(result)
        parallel.exchange(out, process_cuts)
        hidden = out
    return hidden


def _ranges(degree: np.ndarray) -> tuple[list[int], list[slice]]:
    """Where the rows of one process end and those of the next begin, and this one's chunks."""
    ends, world = np.cumsum(degree + 1), parallel.world()
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, world) / world)
    process_cuts = [0, *inner.tolist(), len(degree)]
    begin, end = parallel.own_range(process_cuts)
    cuts = np.searchsorted(ends, np.arange(CHUNK, ends[-1], CHUNK)) + 1
    cuts = [begin, *cuts[(begin < cuts) & (cuts < end)].tolist(), end]
    return process_cuts, list(map(slice, cuts, cuts[1:]))


def _block_and_state(encoder: Encoder, graph: Graph, exact: Neighbourhoods, i: int,
                     hidden: Tensor, nodes: slice) -> tuple[Block, Tensor]:
    """What layer i reads for a range of nodes, of the input ``[V, K]`` of all nodes."""
    index = torch.arange(nodes.start, nodes.stop)
    if i == 0 and encoder.precompute and isinstance(graph.x, Tensor):
        return propagated_block(graph, encoder.operator, index), hidden[nodes]
    if encoder.precompute and isinstance(hidden, Tensor):
        # Many more rows are read than written, so the product comes before the weights.
        return Block(None, nodes, exact.product(encoder.operator, nodes, hidden)), hidden
    block, needed = exact.block(encoder.operator, index)
    return block, hidden[needed.to(graph.device)]


def _read_features(graph: Graph) -> Tensor:
    """Features on disk, scaled, ``[V, F]``, each row read once and not for each neighbour."""
    out = _empty_states(graph, graph.num_features)
    for begin in range(0, len(out), ROWS):
        out[begin:begin + ROWS] = graph.x[begin:begin + ROWS]
    return out


def _empty_states(graph: Graph, width: int) -> Tensor:
    """Room for a state of each node, ``[V, width]``."""
    if graph.device.type != "cpu" or graph.num_nodes * width * 4 < ON_DISK:
        return torch.empty(graph.num_nodes, width, device=graph.device)
    with tempfile.TemporaryFile() as file:  # the map keeps what the name loses
        return torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(graph.num_nodes, width)))

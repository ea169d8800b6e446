"""Mini-batches of sampled nodes for training, and exact inference layer by layer."""

from __future__ import annotations

from functools import cached_property
from typing import Sequence, cast

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.backbones.encoder import Encoder
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sampling import first_block, neighbourhoods
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View
from graphgym_srnc.core import parallel

CHUNK = 2**20  # number of nodes and edges that inference processes at a time


class Batches:
    """Views of sampled nodes, one for each gradient step; processes share the nodes of a draw.

    Args:
        encoder, graph: the encoder that makes the views, and the graph.
        parts: sets of node ids, each ``[n_i]``; a view contains the nodes of all sets in order.
        size: number of nodes sampled from each set per step; 0 = full batch.
        fanout: number of neighbours sampled per node and layer; 0 = all.

    Raises:
        InputError: the encoder needs the whole graph.
    """

    def __init__(
        self,
        encoder: Encoder,
        graph: Graph,
        parts: Sequence[Tensor],
        size: int = 0,
        fanout: int = 0,
    ) -> None:
        self.encoder = encoder
        self.graph = graph
        self.parts = list(parts)
        largest = max(map(len, self.parts), default=0)
        self.is_alone = parallel.world() == 1
        # If each step takes all nodes, one view serves all steps.
        takes_all = encoder.local and self.is_alone and 0 < largest <= size
        self.size = 0 if takes_all else size
        self.fanout = fanout
        self.whole = cast(View, None)  # encoders that read neighbours have none in batches
        if not self.size:
            self.whole = encoder.view(graph, torch.cat(self.parts))
        elif encoder.local:
            self.whole = encoder.view(graph)

    def __call__(self) -> tuple[View, list[Tensor | slice]]:
        """Next view, and the sampled nodes of each set as an index into the set."""
        if not self.size:
            return self.whole, [slice(None)] * len(self.parts)
        drawn = [self.draw(len(part)) for part in self.parts]
        return self.at(torch.cat([part[index] for part, index in zip(self.parts, drawn)])), drawn

    def at(self, nodes: Tensor) -> View:
        """View of the nodes ``[n]``; only with ``size`` above 0."""
        if self.encoder.local:
            x = self.whole.x
            rows = x.index_select(0, nodes) if isinstance(x, Tensor) else x[nodes]
            return View(rows, self.whole.blocks)
        return self.encoder.sample(self.graph, nodes, self.fanout)

    def draw(self, count: int) -> Tensor | slice:
        """Sample at most ``size`` of ``range(count)`` uniformly."""
        if count <= self.size and self.is_alone:
            return slice(None)
        size = self.size
        device = self.graph.device

        def draw(generator: torch.Generator | None) -> Tensor:
            if count < 32 * size:
                return torch.randperm(count, generator=generator, device=device)[:size]
            # With replacement, which is fast and rarely draws a node twice.
            return torch.randint(count, (size,), generator=generator, device=device).unique()

        return parallel.share(draw)

    def draw_nodes(self) -> Tensor:
        """Nodes ``[size]`` of the graph, drawn with replacement."""
        count = self.graph.num_nodes
        size = (self.size,)
        device = self.graph.device
        return parallel.share(lambda g: torch.randint(count, size, generator=g, device=device))

    @cached_property
    def shares(self) -> np.ndarray:
        """Share of the weight of all entries of A up to and including each of them, ``[2m]``."""
        total = np.cumsum(self.graph.adjacency("raw").matrix.data, dtype=np.float64)
        return total / total[-1:]

    def draw_edges(self, count: int) -> Tensor:
        """Ends ``[2, count]`` of edges sampled with replacement; ``[2, 0]`` if there is none.

        The chance of an edge is proportional to its weight.
        """
        raw = self.graph.adjacency("raw").matrix
        size = (count if raw.nnz else 0,)

        def draw(generator: torch.Generator | None) -> Tensor:
            if not self.graph.is_weighted:
                return torch.randint(max(raw.nnz, 1), size, generator=generator)
            share = torch.rand(size, generator=generator, dtype=torch.float64)
            return torch.from_numpy(np.searchsorted(self.shares, share.numpy(), side="right"))

        # Match dtypes, otherwise numpy converts indptr of all nodes instead of the sample.
        entry = parallel.share(draw).numpy().astype(raw.indptr.dtype)
        ends = np.searchsorted(raw.indptr, entry, side="right") - 1, raw.indices[entry]
        return torch.from_numpy(np.stack(ends).astype(np.int64)).to(self.graph.device)


@torch.no_grad()
def infer(encoder: Encoder, graph: Graph) -> Tensor:
    """Exact logits ``[V, K]`` in eval mode, layer by layer to save memory.

    Each process computes some rows and receives those of the others.
    """
    encoder.eval()
    if encoder.local:
        whole = encoder.view(graph)
        nodes = torch.arange(graph.num_nodes, device=graph.device)
        parts = (View(whole.x[some], whole.blocks) for some in nodes.split(CHUNK // 16))
        return torch.cat([encoder(part) for part in parts])

    ends = np.cumsum(neighbourhoods(graph).degree + 1)
    own = parallel.Rows(torch.from_numpy(ends))
    chunks = np.searchsorted(ends, np.arange(CHUNK, ends[-1], CHUNK)) + 1
    inside = chunks[(own.begin < chunks) & (chunks < own.end)]
    places = [own.begin, *inside.tolist(), own.end]
    hidden: Sparse | Tensor = graph.x
    for i, width in enumerate(encoder.widths[1:]):
        out = torch.empty(graph.num_nodes, width, device=graph.device)
        for rows in map(slice, places, places[1:]):
            state, block = _layer_input(encoder, graph, hidden, rows, is_first=i == 0)
            result = encoder.layer_output(i, state, block)
            out[rows] = result if i == len(encoder.layers) - 1 else encoder.act(result)
        own.exchange(out)
        hidden = out
    return cast(Tensor, hidden)


def _layer_input(
    encoder: Encoder, graph: Graph, hidden: Sparse | Tensor, rows: slice, is_first: bool
) -> tuple[Sparse | Tensor, Block]:
    """What a layer reads to compute some rows: rows of its input, and their block."""
    kind = encoder.operator
    nodes = torch.arange(rows.start, rows.stop)
    reads_rows = not encoder.precompute or isinstance(hidden, Sparse)
    if reads_rows and len(nodes) == graph.num_nodes:
        return hidden, Block(graph.adjacency(kind))
    if reads_rows:
        block, needed = neighbourhoods(graph).block(kind, nodes, 0)
        return hidden[needed.to(graph.device)], block
    if is_first:
        return hidden[rows], first_block(graph, kind, nodes)
    # More rows are read than written, so the product is computed before the weights.
    product = graph.adjacency(kind)[rows] @ cast(Tensor, hidden)
    return hidden, Block(None, rows, product)

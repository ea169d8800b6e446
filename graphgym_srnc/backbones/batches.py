"""Mini-batches: sampling of nodes and edges for gradient steps."""

from __future__ import annotations

from typing import Sequence

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.backbones.encoder import Encoder
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.view import View
from graphgym_srnc.core import parallel


class Batches:
    """Views of sampled nodes, one for each gradient step.

    Args:
        encoder: the encoder that makes the views.
        graph: the graph that contains the nodes.
        parts: sets of node ids, each ``[n_i]``; a view contains the nodes of all sets in this
            order.
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
        self.encoder, self.graph, self.parts = encoder, graph, list(parts)
        self.size, self.fanout = size, fanout
        self.whole: View | None = None
        if not size:
            self.whole = encoder.view(graph, torch.cat(self.parts))
        elif encoder.local:
            self.whole = encoder.view(graph)

    def __call__(self) -> tuple[View, list[Tensor | slice]]:
        """Next view, and the sampled nodes of each set as an index into the set."""
        if not self.size:
            return self.whole, [slice(None)] * len(self.parts)
        drawn = [draw_nodes(len(part), self.size, part.device) for part in self.parts]
        return self.at(torch.cat([part[index] for part, index in zip(self.parts, drawn)])), drawn

    def at(self, nodes: Tensor) -> View:
        """View of the nodes ``[n]``; only with ``size`` above 0."""
        if self.encoder.local:
            return View(self.whole.x[nodes], self.whole.blocks)
        return self.encoder.sample(self.graph, nodes, self.fanout)


def draw_nodes(count: int, size: int, device: torch.device | None = None) -> Tensor | slice:
    """Sample at most ``size`` of ``range(count)`` uniformly.

    Processes that train together share the sample. If ``count`` is very large, sampling is with
    replacement and duplicates are removed.
    """
    if count <= size and parallel.world() == 1:
        return slice(None)
    if count < 32 * size:
        return parallel.share(lambda: torch.randperm(count, device=device)[:size])
    return parallel.share(lambda: torch.randint(count, (size,), device=device).unique())


def draw_edges(graph: Graph, count: int) -> Tensor:
    """Sample edges uniformly with replacement, in either direction.

    Processes that train together share the sample.

    Returns:
        Both ends of the edges, ``[2, count]``; ``[2, 0]`` for a graph without edges.
    """
    raw = graph.adjacency("raw").matrix
    size = (count if raw.nnz else 0,)
    entry = parallel.share(lambda: torch.randint(max(raw.nnz, 1), size)).numpy()
    # Match dtypes, otherwise numpy converts indptr of all nodes instead of the sample.
    entry = entry.astype(raw.indptr.dtype)
    ends = np.searchsorted(raw.indptr, entry, side="right") - 1, raw.indices[entry]
    return torch.from_numpy(np.stack(ends).astype(np.int64)).to(graph.device)

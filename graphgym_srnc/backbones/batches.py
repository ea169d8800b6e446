"""Mini-batches: the nodes and edges that a gradient step draws, and views of the nodes."""
from __future__ import annotations

from typing import Sequence

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc import parallel
from graphgym_srnc.backbones.encoder import Encoder
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.view import View


class Batches:
    """Views of some nodes, one for each gradient step.

    Args:
        encoder: whose views.
        graph: the graph that holds the nodes.
        parts: sets of node ids, each ``[n_i]``; a view has the nodes of all sets in this order.
        size: nodes drawn of each set for a step; 0 = all nodes and neighbours, in one view.
        fanout: neighbours drawn a node and layer; 0 = all of them.

    Raises:
        InputError: the encoder needs the whole graph.
    """

    def __init__(self, encoder: Encoder, graph: Graph, parts: Sequence[Tensor], size: int = 0,
                 fanout: int = 0) -> None:
        self.encoder, self.graph, self.parts = encoder, graph, list(parts)
        self.size, self.fanout = size, fanout
        self.whole: View | None = None
        if not size:
            self.whole = encoder.view(graph, torch.cat(self.parts))
        elif encoder.local:
            self.whole = encoder.view(graph)

    def __call__(self) -> tuple[View, list[Tensor | slice]]:
        """The next view, and which nodes of each set it has, as an index into the set."""
        if not self.size:
            return self.whole, [slice(None)] * len(self.parts)
        drawn = [draw_nodes(len(part), self.size, part.device) for part in self.parts]
        return self.at(torch.cat([part[index] for part, index in zip(self.parts, drawn)])), drawn

    def at(self, nodes: Tensor) -> View:
        """A view of the nodes ``[n]``, where there are batches."""
        if self.encoder.local:
            return View(self.whole.x[nodes], self.whole.blocks)
        return self.encoder.sample(self.graph, nodes, self.fanout)


def draw_nodes(count: int, size: int, device: torch.device | None = None) -> Tensor | slice:
    """At most ``size`` of ``range(count)``, uniformly; processes that train together share them.

    Of very many numbers they are drawn at once, and two draws of one number then count once.
    """
    if count <= size and parallel.world() == 1:
        return slice(None)
    if count < 32 * size:
        return parallel.share(lambda: torch.randperm(count, device=device)[:size])
    return parallel.share(lambda: torch.randint(count, (size,), device=device).unique())


def draw_edges(graph: Graph, count: int) -> Tensor:
    """Both ends ``[2, count]`` of edges drawn uniformly, one by one, in either direction.

    From a graph without edges there are none. Processes that train together share them.
    """
    raw = graph.adjacency("raw").matrix
    size = (count if raw.nnz else 0,)
    entry = parallel.share(lambda: torch.randint(max(raw.nnz, 1), size)).numpy()
    # Of two kinds of integers numpy would make those of all nodes wider, not those of the draws.
    entry = entry.astype(raw.indptr.dtype)
    ends = np.searchsorted(raw.indptr, entry, side="right") - 1, raw.indices[entry]
    return torch.from_numpy(np.stack(ends).astype(np.int64)).to(graph.device)

"""Several labelled graphs as one, for a shift that trains on all of them."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.text import listed
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits


def union(graphs: Sequence[Data]) -> Data:
    """Clean graphs with the same features and classes side by side, without edges between them.

    ``domain`` ``[V]`` is the number of the graph that a node is from. Where one graph has weights
    of edges, those of others are 1.
    """
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    first = sizes.cumsum(0) - sizes
    edges = [graph.edge_index + begin for graph, begin in zip(graphs, first)]
    joined = Data(
        x=torch.cat([graph.x for graph in graphs]),
        edge_index=torch.cat(edges, 1),
        y=torch.cat([graph.y for graph in graphs]),
        domain=torch.repeat_interleave(sizes),
        num_nodes=int(sizes.sum()),
        cleaned=splits.cleaned(*graphs),
    )
    if any(graph.edge_weight is not None for graph in graphs):
        joined.edge_weight = torch.cat([_weights(graph) for graph in graphs])
    return joined


def one_label_space(
    graphs: Sequence[Data], words: Sequence[tuple[str, ...]], parts: Sequence[str]
) -> tuple[str, ...]:
    """Number the classes of all graphs alike if they have names; returns the names.

    ``parts`` are what the user calls the graphs.
    """
    named = [part for part, names in zip(parts, words) if names]
    if named and len(named) < len(parts):
        raise InputError.plain(
            "source",
            f"the labels are words in {listed(named)}, and numbers in the other graph",
            "Use words in all graphs, or numbers in all",
        )
    merged = sorted({name for names in words for name in names})
    for graph, names in zip(graphs, words) if merged else ():
        # The last entry is for the label -1 (no label).
        graph.y = torch.tensor([*map(merged.index, names), -1])[graph.y]
    return tuple(merged)


def _weights(graph: Data) -> Tensor:
    return torch.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight

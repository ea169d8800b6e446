"""Sampled neighbours: views of some nodes, whose operators are unbiased estimates."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View

_neighbourhoods: WeakKeyDictionary[Graph, Neighbourhoods] = WeakKeyDictionary()


def draw_view(
    graph: Graph, kind: str, layers: int, nodes: Tensor, fanout: int, precompute: bool
) -> View:
    r"""View of :func:`.view.make_view` with at most ``fanout`` neighbours per node and layer.

    With ``precompute`` and dense features, :math:`\hat A X` of the first layer is exact.
    """
    blocks: list[Block] = []
    needed, position = nodes.cpu().unique(return_inverse=True)
    for layer in reversed(range(layers)):
        if layer == 0 and precompute and isinstance(graph.x, Tensor):
            blocks.append(first_block(graph, kind, needed))
        else:
            block, needed = neighbourhoods(graph).block(kind, needed, fanout)
            blocks.append(block)
    blocks[0] = blocks[0].rows(position.to(graph.device))
    return View(graph.x[needed.to(graph.device)], blocks[::-1])


def first_block(graph: Graph, kind: str, nodes: Tensor) -> Block:
    r"""Exact block of a first layer, which reads :math:`\hat A X` and the nodes' own rows."""
    product = graph.propagated(kind)[nodes.to(graph.device)]
    return Block(None, torch.arange(len(nodes), device=graph.device), product)


def neighbourhoods(graph: Graph) -> Neighbourhoods:
    """Cached :class:`Neighbourhoods` of a graph."""
    if graph not in _neighbourhoods:
        _neighbourhoods[graph] = Neighbourhoods(graph)
    return _neighbourhoods[graph]


class Neighbourhoods:
    r"""Sampler of blocks whose operators are unbiased estimates of the full operator.

    :math:`k_i = \min(k, d_i)` of the :math:`d_i` neighbours of a node are sampled. An entry
    :math:`\hat A_{ij}` of the full operator becomes :math:`\frac{d_i}{k_i} \hat A_{ij}` or 0.
    Self-loops are always kept. So :math:`\mathbb E[\hat A' H] = \hat A H`. Each layer is sampled
    independently, so products of operators are unbiased too.
    """

    def __init__(self, graph: Graph) -> None:
        self.matrix = graph.adjacency("raw").matrix
        self.device = graph.device
        # Position of each input node of the block that is being made.
        self._place = np.empty(graph.num_nodes, dtype=self.matrix.indices.dtype)
        self.degree = np.diff(self.matrix.indptr)
        self.total_weight = np.asarray(self.matrix.sum(1), dtype=np.float32).ravel()
        self.scale = (self.total_weight + 1) ** np.float32(-0.5)

    def block(self, kind: str, nodes: Tensor, fanout: int) -> tuple[Block, Tensor]:
        """Block for distinct output nodes ``[n]``, and its input nodes, which begin with them."""
        raw = self.matrix
        place = self._place
        wanted = nodes.numpy()
        drawn_for, drawn = draw_neighbours(torch.from_numpy(raw.indptr), nodes, fanout)
        row = drawn_for.numpy()
        entry = drawn.numpy()
        neighbour = raw.indices.take(entry)
        needed = self._inputs(wanted, neighbour)
        column = place.take(neighbour)

        count = np.bincount(row, minlength=len(nodes))
        # Neighbours that each entry represents; attention reads no other weight.
        value = (self.degree[wanted] / np.maximum(count, 1)).astype(np.float32).take(row)
        if kind != "loops":
            value *= raw.data.take(entry)
        if kind == "gcn":
            value *= self.scale[wanted].take(row)
            value *= self.scale[needed].take(column)
        if kind == "mean":
            value /= self.total_weight[wanted].take(row)
        row = row.astype(place.dtype)  # with 64-bit indices sorting takes longer
        if kind in ("gcn", "loops"):
            loops = self.scale[wanted] ** 2 if kind == "gcn" else np.ones_like(self.scale[wanted])
            own = np.arange(len(wanted), dtype=place.dtype)
            value, row, column = map(np.concatenate, ((value, loops), (row, own), (column, own)))
        entries = sp.coo_array((value, (row, column)), shape=(len(wanted), len(needed)))
        entries.has_canonical_format = True  # there are no duplicates to look for
        outputs = torch.arange(len(wanted), device=self.device)
        return Block(Sparse(entries, self.device), outputs, drawn=True), torch.from_numpy(needed)

    def _inputs(self, wanted: np.ndarray, neighbour: np.ndarray) -> np.ndarray:
        """Input nodes of a block, which begin with the ``wanted`` ones; stores their places."""
        # Up to millions of nodes, marking them is faster than sorting all neighbours.
        is_new = np.zeros(len(self._place), dtype=bool)
        is_new[neighbour] = True
        is_new[wanted] = False
        needed = np.concatenate([wanted, is_new.nonzero()[0]])
        self._place[needed] = np.arange(len(needed), dtype=self._place.dtype)
        return needed


def draw_neighbours(indptr: Tensor, nodes: Tensor, fanout: int) -> tuple[Tensor, Tensor]:
    """Sample at most ``fanout`` entries (0 = all) of CSR rows ``[n]`` without replacement.

    Returns the position in ``nodes`` and the entry of each sample, both ``[E]``, sorted.
    """
    start = indptr[nodes].long()
    degree = indptr[nodes + 1].long() - start
    many = degree > fanout if fanout > 0 else torch.zeros_like(degree, dtype=torch.bool)
    count = degree.where(~many, torch.tensor(fanout))
    first = count.cumsum(0) - count
    place = torch.repeat_interleave(count)
    entry = (start - first).index_select(0, place).add_(torch.arange(len(place)))
    if many.any():
        drawn = _subsets(degree[many], fanout) + start[many, None]
        entry[first[many, None] + torch.arange(fanout)] = drawn
    return place, entry


def _subsets(size: Tensor, count: int) -> Tensor:
    """Random subset ``[n, count]`` of ``range(size)`` for each size ``[n]`` above ``count``."""
    # Floyd's algorithm (Bentley and Floyd, CACM 1987), whose time is independent of the sizes.
    last = (torch.arange(count)[:, None] + size - count).numpy()
    drawn = torch.rand(len(size), count, dtype=torch.float64).T.numpy() * (last + 1)
    drawn = np.ascontiguousarray(drawn, dtype=np.int64)
    for i in range(1, count):
        taken = (drawn[:i] == drawn[i]).any(0)
        drawn[i] = np.where(taken, last[i], drawn[i])
    return torch.from_numpy(drawn.T)

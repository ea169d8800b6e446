"""Mini-batches: sampled nodes and neighbours for training, and exact inference layer by layer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Sequence, cast
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View
from graphgym_srnc.core import parallel

if TYPE_CHECKING:
    from graphgym_srnc.backbones.encoder import Encoder

CHUNK = 2**20  # number of nodes and edges that inference processes at a time

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
            blocks.append(_first_block(graph, kind, needed))
        else:
            block, needed = neighbourhoods(graph).block(kind, needed, fanout)
            blocks.append(block)
    blocks[0] = blocks[0].rows(position.to(graph.device))
    return View(graph.x[needed.to(graph.device)], blocks[::-1])


def _first_block(graph: Graph, kind: str, nodes: Tensor) -> Block:
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
        # Up to millions of nodes, marking them is faster than sorting all neighbours.
        is_new = np.zeros(len(place), dtype=bool)
        is_new[neighbour] = True
        is_new[wanted] = False
        needed = np.concatenate([wanted, is_new.nonzero()[0]])
        place[needed] = np.arange(len(needed), dtype=place.dtype)
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
        # If each step takes all nodes, one view serves all steps.
        takes_all = encoder.local and parallel.world() == 1 and 0 < largest <= size
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
        if count <= self.size and parallel.world() == 1:
            return slice(None)
        size = self.size
        device = self.graph.device
        if count < 32 * size:
            return parallel.share(
                lambda g: torch.randperm(count, generator=g, device=device)[:size]
            )
        # With replacement, which is fast and rarely draws a node twice.
        return parallel.share(
            lambda g: torch.randint(count, (size,), generator=g, device=device).unique()
        )

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
        if self.graph.is_weighted:
            drawn = parallel.share(lambda g: torch.rand(size, generator=g, dtype=torch.float64))
            entry = np.searchsorted(self.shares, drawn.numpy(), side="right")
        else:
            drawn = parallel.share(lambda g: torch.randint(max(raw.nnz, 1), size, generator=g))
            entry = drawn.numpy()
        # Match dtypes, otherwise numpy converts indptr of all nodes instead of the sample.
        entry = entry.astype(raw.indptr.dtype)
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

    near = neighbourhoods(graph)
    kind = encoder.operator
    ends = np.cumsum(near.degree + 1)
    world = parallel.world()
    rank = parallel.rank() if world > 1 else 0
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, world) / world)
    cuts = [0, *inner.tolist(), graph.num_nodes]
    begin, end = cuts[rank : rank + 2]
    chunks = np.searchsorted(ends, np.arange(CHUNK, ends[-1], CHUNK)) + 1
    places = [begin, *chunks[(begin < chunks) & (chunks < end)].tolist(), end]
    hidden: Sparse | Tensor = graph.x
    for i, width in enumerate(encoder.widths[1:]):
        out = torch.empty(graph.num_nodes, width, device=graph.device)
        for rows in map(slice, places, places[1:]):
            nodes = torch.arange(rows.start, rows.stop)
            state = hidden
            reads_rows = not encoder.precompute or isinstance(hidden, Sparse)
            if reads_rows and len(nodes) == graph.num_nodes:
                block = Block(graph.adjacency(kind))
            elif reads_rows:
                block, needed = near.block(kind, nodes, 0)
                state = hidden[needed.to(graph.device)]
            elif i == 0:
                block = _first_block(graph, kind, nodes)
                state = hidden[rows]
            else:
                # More rows are read than written, so the product is computed before the weights.
                block = Block(None, rows, graph.adjacency(kind)[rows] @ cast(Tensor, hidden))
            result = encoder.layer_output(i, state, block)
            out[rows] = result if i == len(encoder.layers) - 1 else encoder.act(result)
        parallel.exchange(out, cuts)
        hidden = out
    return cast(Tensor, hidden)

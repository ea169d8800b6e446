"""Mini-batches of a large graph: drawn neighbours, views of drawn nodes without bias, and inference one layer at a time."""
from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
import torch_geometric.typing
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import BaseSampler, NeighborSampler, NodeSamplerInput, SamplerOutput

from graphgym_srnc import parallel
from graphgym_srnc.backbones.graph import Block, Graph, View
from graphgym_srnc.backbones.mapped import ROWS, Mapped
from graphgym_srnc.backbones.sparse import Sparse

if TYPE_CHECKING:
    from graphgym_srnc.backbones.encoder import Encoder

CHUNK = 2 ** 20
"""Nodes and edges that inference reads at a time."""

ON_DISK = 2 ** 31
"""Bytes from which the hidden states of a layer lie in a temporary file, memory-mapped."""

LOOPS = ("gcn", "loops")
"""Operators by which a node gives itself something."""


class NeighbourSampler(BaseSampler):
    """Draws neighbours uniformly and without replacement, in torch alone: PyG's sampler interface without ``pyg-lib``.

    The output is PyG's: seeds first, then the nodes of each hop as they are met; a node's neighbours are drawn once, when it is first met;
    ``row`` is the neighbour's end of an edge, ``col`` the end it was drawn for, ``edge`` its place in ``indices``. Draws follow torch's
    generator.

    Args:
        indptr, indices: the graph in CSR form, ``[V + 1]`` and ``[E]``: the neighbours of node i are ``indices[indptr[i]:indptr[i + 1]]``.
        fanouts: neighbours drawn for a node at each hop; 0 or less = all of them.
    """

    def __init__(self, indptr: Tensor, indices: Tensor, fanouts: Sequence[int]) -> None:
        self.indptr, self.indices, self.fanouts = indptr, indices, list(fanouts)
        self._local = torch.full((len(indptr) - 1,), -1)  # place of a node in the output; -1 again after each call

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs) -> SamplerOutput:
        local, frontier, begin = self._local, index.node, 0
        local[frontier] = torch.arange(len(frontier))
        nodes, rows, columns, edges = [frontier], [], [], []
        for fanout in self.fanouts:
            place, edge = draw_neighbours(self.indptr, frontier, fanout)
            neighbour = self.indices[edge].long()
            columns.append(begin + place)
            begin += len(frontier)
            frontier = neighbour[local[neighbour] < 0].unique()
            local[frontier] = begin + torch.arange(len(frontier))
            nodes.append(frontier)
            rows.append(local[neighbour])
            edges.append(edge)
        node = torch.cat(nodes)
        local[node] = -1
        return SamplerOutput(node, torch.cat(rows), torch.cat(columns), torch.cat(edges), num_sampled_nodes=[len(part) for part in nodes],
                             num_sampled_edges=[len(part) for part in rows], metadata=(index.input_id, index.time))

    def sample_from_edges(self, index, neg_sampling=None) -> SamplerOutput:
        raise NotImplementedError("neighbours are drawn for nodes, not for edges")


def draw_neighbours(indptr: Tensor, nodes: Tensor, fanout: int) -> tuple[Tensor, Tensor]:
    """At most ``fanout`` entries of the rows of some nodes ``[n]``, uniformly without replacement; 0 or less = all of them.

    Returns:
        The place in ``nodes`` and the entry of each draw, both ``[E]``, sorted by place.
    """
    start = indptr[nodes].long()
    degree = indptr[nodes + 1].long() - start
    many = degree > fanout if fanout > 0 else torch.zeros_like(degree, dtype=torch.bool)
    count = degree.where(~many, torch.tensor(fanout))
    place = torch.repeat_interleave(count)
    offset = torch.arange(len(place)) - (count.cumsum(0) - count)[place]
    if many.any():
        offset[many[place]] = _subsets(degree[many], fanout).view(-1)
    return place, start[place] + offset


def _subsets(size: Tensor, count: int) -> Tensor:
    """For each size ``[n]``, all above ``count``, a uniform subset ``[n, count]`` of ``0 .. size - 1``.

    Floyd's algorithm (Bentley and Floyd, CACM 1987) on all rows at once: the cost is :math:`n` ``count`` :math:`^2`, whatever the sizes.
    """
    last = size[:, None] - count + torch.arange(count)
    drawn = (torch.rand(last.shape, dtype=torch.float64) * (last + 1)).long()
    for i in range(1, count):
        taken = (drawn[:, :i] == drawn[:, i:i + 1]).any(1)
        drawn[:, i] = last[:, i].where(taken, drawn[:, i])
    return drawn


def make_sampler(graph: Graph, fanouts: Sequence[int]) -> BaseSampler:
    """A sampler of a graph's neighbours, self-loops left out: that of ``pyg-lib`` where it is installed, else :class:`NeighbourSampler`."""
    raw = graph.adjacency("raw").matrix
    if not torch_geometric.typing.WITH_PYG_LIB:
        return NeighbourSampler(torch.from_numpy(raw.indptr), torch.from_numpy(raw.indices), fanouts)
    # A is symmetric, so its rows are the columns that PyG draws from, and entries keep their numbers.
    edges = torch.from_numpy(np.stack(graph.adjacency("raw").entries[::-1]).astype(np.int64))
    return NeighborSampler(Data(edge_index=edges, num_nodes=graph.num_nodes), [fanout if fanout > 0 else -1 for fanout in fanouts],
                           is_sorted=True)


class Neighbourhoods:
    r"""Blocks of drawn neighbours of one graph, whose operators are right on average.

    Of the :math:`d_i` neighbours of a node :math:`k_i = \min(k, d_i)` are drawn, and an entry :math:`\hat A_{ij}` of the whole graph's
    operator becomes :math:`\frac{d_i}{k_i} \hat A_{ij}` or 0; what a node gives itself is always kept. So
    :math:`\mathbb E[\hat A' H] = \hat A H`, and as each layer is drawn anew, products of operators are right on average too.

    Args:
        graph: the graph; its operators are never made whole.
        fanout: :math:`k`; 0 = all neighbours.
    """

    def __init__(self, graph: Graph, fanout: int) -> None:
        raw = graph.adjacency("raw").matrix
        self.sampler, self.weight, self.device = make_sampler(graph, [fanout]), raw.data, graph.device
        self.indptr, self.indices, self.degree = raw.indptr, raw.indices, np.diff(raw.indptr)
        self.total = np.asarray(raw.sum(1), dtype=np.float32).ravel()
        self.scale = (self.total + 1) ** np.float32(-0.5)

    def block(self, kind: str, nodes: Tensor) -> tuple[Block, Tensor]:
        """The block of an operator, see :meth:`Graph.adjacency`, with outputs ``nodes`` ``[n]``, all different; and its input nodes."""
        out = self.sampler.sample_from_nodes(NodeSamplerInput(None, nodes))
        node, row, column, entry = (part.numpy() for part in (out.node, out.col, out.row, out.edge))
        own, drawn = np.arange(len(nodes)), np.bincount(row, minlength=len(nodes))
        share = (self.degree[node[own]] / np.maximum(drawn, 1)).astype(np.float32)[row]
        value = self._value(kind, share, entry, node[row], node[column])
        if kind in LOOPS:
            value, row, column = (np.concatenate(pair) for pair in ((value, self._loop(kind, node[own])), (row, own), (column, own)))
        matrix = sp.csr_array((value, (row, column)), shape=(len(nodes), len(node)))
        return Block(Sparse(matrix, self.device), torch.from_numpy(own).to(self.device), drawn=True), out.node

    def product(self, kind: str, begin: int, end: int, state: Tensor) -> Tensor:
        """Rows ``begin .. end - 1`` of :math:`\\hat A H` with all neighbours, of states ``[V, K]`` that are read where they lie."""
        entries = slice(self.indptr[begin], self.indptr[end])
        column, row = self.indices[entries], np.repeat(np.arange(begin, end), self.degree[begin:end])
        value = self._value(kind, np.ones(len(row), dtype=np.float32), entries, row, column)
        matrix = sp.csr_array((value, column, self.indptr[begin:end + 1] - self.indptr[begin]), shape=(end - begin, len(state)))
        out = Sparse(matrix, self.device) @ state
        if kind in LOOPS:
            out += torch.from_numpy(self._loop(kind, np.arange(begin, end))).to(out)[:, None] * state[begin:end]
        return out

    def _value(self, kind: str, share: np.ndarray, entry: np.ndarray | slice, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Entries of the operator, each for ``share`` neighbours; ``row`` and ``column`` are their nodes in the whole graph."""
        if kind == "loops":
            return share  # attention reads no weight, but how many neighbours an entry stands for
        value = share * self.weight[entry]
        return value * self.scale[row] * self.scale[column] if kind == "gcn" else value / self.total[row] if kind == "mean" else value

    def _loop(self, kind: str, nodes: np.ndarray) -> np.ndarray:
        """What nodes give themselves."""
        return self.scale[nodes] ** 2 if kind == "gcn" else np.ones(len(nodes), dtype=np.float32)


_made: "WeakKeyDictionary[Graph, dict[int, Neighbourhoods]]" = WeakKeyDictionary()


def neighbourhoods(graph: Graph, fanout: int) -> Neighbourhoods:
    """The :class:`Neighbourhoods` of a graph, made once."""
    made = _made.setdefault(graph, {})
    if fanout not in made:
        made[fanout] = Neighbourhoods(graph, fanout)
    return made[fanout]


def draw_view(graph: Graph, kind: str, layers: int, nodes: Tensor, fanout: int, precompute: bool) -> View:
    """A view of ``nodes`` ``[n]`` with at most ``fanout`` (0 = all) drawn neighbours a node and layer.

    The other arguments are those of :func:`graphgym_srnc.backbones.graph.make_view`; with ``precompute`` and dense features in memory the
    first layer's :math:`\\hat A X` is the exact one, made once a graph.
    """
    blocks: list[Block] = []
    wanted, place = nodes.cpu().unique(return_inverse=True)
    for layer in reversed(range(layers)):
        block, wanted = _first_block(graph, kind, wanted) if layer == 0 and precompute else (None, wanted)
        if block is None:
            block, wanted = neighbourhoods(graph, fanout).block(kind, wanted)
        blocks.append(block)
    blocks[0] = blocks[0].rows(place.to(graph.device))
    return View(graph.x[wanted.to(graph.device)], blocks[::-1])


def _first_block(graph: Graph, kind: str, nodes: Tensor) -> tuple[Block | None, Tensor]:
    """The exact block of a first layer that reads :math:`\\hat A X` alone, where that can be made in advance; else None."""
    if not isinstance(graph.x, Tensor):
        return None, nodes
    nodes = nodes.to(graph.device)
    return Block(None, torch.arange(len(nodes), device=graph.device), graph.propagated(kind)[nodes]), nodes


class Batches:
    """Views of some nodes, one for each gradient step.

    Args:
        encoder: whose views.
        graph: the graph that holds the nodes.
        parts: node ids, each ``[n_i]``; a view has the nodes of all parts in this order.
        size: nodes drawn of each part for a step; 0 = all nodes and neighbours, in one view that is made once.
        fanout: neighbours drawn a node and layer; 0 = all of them.

    Raises:
        InputError: the encoder needs the whole graph.
    """

    def __init__(self, encoder: Encoder, graph: Graph, parts: Sequence[Tensor], size: int = 0, fanout: int = 0) -> None:
        self.encoder, self.graph, self.parts, self.size, self.fanout = encoder, graph, list(parts), size, fanout
        self.whole = encoder.view(graph, torch.cat(self.parts)) if not size else encoder.view(graph) if encoder.local else None

    def __call__(self) -> tuple[View, list[Tensor | slice]]:
        """The next view, and which nodes of each part it has, as an index into the part."""
        if not self.size:
            return self.whole, [slice(None)] * len(self.parts)
        drawn = [draw_nodes(len(part), self.size, part.device) for part in self.parts]
        return self.at(torch.cat([part[index] for part, index in zip(self.parts, drawn)])), drawn

    def at(self, nodes: Tensor) -> View:
        """A view of these nodes ``[n]``, where there are batches."""
        if self.encoder.local:
            return View(self.whole.x[nodes], self.whole.blocks)
        return self.encoder.sample(self.graph, nodes, self.fanout)


def draw_nodes(count: int, size: int, device: torch.device | None = None) -> Tensor | slice:
    """At most ``size`` of ``0 .. count - 1``, uniformly; of very many in no time, but two draws of one number then count once.

    Processes that train together share them.
    """
    if count <= size and parallel.world() == 1:
        return slice(None)
    if count < 32 * size:
        return parallel.share(lambda: torch.randperm(count, device=device)[:size])
    return parallel.share(lambda: torch.randint(count, (size,), device=device).unique())


def draw_edges(graph: Graph, count: int) -> Tensor:
    """Both ends ``[2, count]`` of edges drawn uniformly, one by one, in either direction; none from a graph without edges.

    Processes that train together share them.
    """
    raw = graph.adjacency("raw").matrix
    entry = parallel.share(lambda: torch.randint(max(raw.nnz, 1), (count if raw.nnz else 0,)))
    ends = np.searchsorted(raw.indptr, entry.numpy(), side="right") - 1, raw.indices[entry.numpy()]
    return torch.from_numpy(np.stack(ends).astype(np.int64)).to(graph.device)


@torch.no_grad()
def infer(encoder: Encoder, graph: Graph) -> Tensor:
    """The exact logits ``[V, K]`` of all nodes in eval mode, one layer after another and some rows at a time.

    Beside the graph no more lies in memory than the states of two layers, and those on disk where they are large. Processes that train
    together share the rows, in ranges of about as many edges.
    """
    encoder.eval()
    if encoder.local:
        whole = encoder.view(graph)
        every = torch.arange(graph.num_nodes, device=graph.device)
        return torch.cat([encoder(View(whole.x[nodes], whole.blocks)) for nodes in every.split(CHUNK // 16)])
    exact, hidden = neighbourhoods(graph, 0), _read(graph) if encoder.precompute and isinstance(graph.x, Mapped) else graph.x
    ends = np.cumsum(exact.degree + 1)
    shares = [0, *np.searchsorted(ends, ends[-1] * np.arange(1, parallel.world()) / parallel.world()).tolist(), graph.num_nodes]
    begin, end = parallel.own_range(shares)
    cuts = np.searchsorted(ends, np.arange(CHUNK, ends[-1], CHUNK)) + 1
    cuts = [begin, *cuts[(begin < cuts) & (cuts < end)].tolist(), end]
    for i, layer in enumerate(encoder.layers):
        out = _states(graph, len(layer.bias))
        for part in map(slice, cuts, cuts[1:]):
            nodes = torch.arange(part.start, part.stop)
            if i == 0 and encoder.precompute and isinstance(graph.x, Tensor):
                block, state = _first_block(graph, encoder.operator, nodes)[0], hidden[part]
            elif encoder.precompute and isinstance(hidden, Tensor):
                # Many more rows are read than written, so the product comes before the weights.
                block, state = Block(None, part, exact.product(encoder.operator, part.start, part.stop, hidden)), hidden
            else:
                block, needed = exact.block(encoder.operator, nodes)
                state = hidden[needed.to(graph.device)]
            result = encoder.layer_output(i, state, block)
            out[part] = result if i == len(encoder.layers) - 1 else encoder.act(result)
        parallel.exchange(out, shares)
        hidden = out
    return hidden


def _read(graph: Graph) -> Tensor:
    """Features on disk, scaled, ``[V, F]``: read once from front to back, where rows of neighbours would be scaled again and again."""
    out = _states(graph, graph.num_features)
    for begin in range(0, len(out), ROWS):
        out[begin:begin + ROWS] = graph.x[begin:begin + ROWS]
    return out


def _states(graph: Graph, width: int) -> Tensor:
    """Room for a state of each node, ``[V, width]``."""
    if graph.device.type != "cpu" or graph.num_nodes * width * 4 < ON_DISK:
        return torch.empty(graph.num_nodes, width, device=graph.device)
    with tempfile.TemporaryFile() as file:  # the map keeps what the name loses
        return torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(graph.num_nodes, width)))

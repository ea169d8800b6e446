"""Drawn neighbours of a large graph: PyG's sampler interface, and views right on average."""
from __future__ import annotations

from typing import Any, NoReturn, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
import torch_geometric.typing
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import BaseSampler, NeighborSampler, NodeSamplerInput, SamplerOutput

from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.backbones.view import Block, View

_neighbourhoods: WeakKeyDictionary[Graph, dict[int, Neighbourhoods]] = WeakKeyDictionary()


def draw_view(graph: Graph, kind: str, layers: int, nodes: Tensor, fanout: int,
              precompute: bool) -> View:
    r"""A view of ``nodes`` ``[n]`` with at most ``fanout`` drawn neighbours a node and layer.

    With ``precompute`` and dense features in memory the first layer's :math:`\hat A X` is exact.

    Args:
        fanout: 0 = all neighbours; the others are those of :func:`.view.make_view`.
    """
    blocks: list[Block] = []
    needed, position = nodes.cpu().unique(return_inverse=True)
    for layer in reversed(range(layers)):
        if layer == 0 and precompute and isinstance(graph.x, Tensor):
            blocks.append(propagated_block(graph, kind, needed))
        else:
            block, needed = neighbourhoods(graph, fanout).block(kind, needed)
            blocks.append(block)
    blocks[0] = blocks[0].rows(position.to(graph.device))
    return View(graph.x[needed.to(graph.device)], blocks[::-1])


def propagated_block(graph: Graph, kind: str, nodes: Tensor) -> Block:
    r"""The exact block of a first layer that reads :math:`\hat A X` and the nodes' own rows."""
    product = graph.propagated(kind)[nodes.to(graph.device)]
    return Block(None, torch.arange(len(nodes), device=graph.device), product)


def ids(nodes: slice | np.ndarray) -> np.ndarray:
    """The nodes of a range, or ids as they are, ``[n]``."""
    return np.arange(nodes.start, nodes.stop) if isinstance(nodes, slice) else nodes


def neighbourhoods(graph: Graph, fanout: int) -> Neighbourhoods:
    """The :class:`Neighbourhoods` of a graph, made once."""
    made = _neighbourhoods.setdefault(graph, {})
    if fanout not in made:
        made[fanout] = Neighbourhoods(graph, fanout)
    return made[fanout]


class Neighbourhoods:
    r"""Blocks of drawn neighbours of one graph, whose operators are right on average.

    Of the :math:`d_i` neighbours of a node :math:`k_i = \min(k, d_i)` are drawn, and an entry
    :math:`\hat A_{ij}` of the whole graph's operator becomes :math:`\frac{d_i}{k_i} \hat A_{ij}` or
    0; what a node gives itself is always kept. So :math:`\mathbb E[\hat A' H] = \hat A H`, and as
    each layer is drawn anew, products of operators are right on average too.

    Args:
        graph: the graph; its operators are never made whole.
        fanout: :math:`k`; 0 = all neighbours.
    """

    def __init__(self, graph: Graph, fanout: int) -> None:
        raw = graph.adjacency("raw").matrix
        self.sampler, self.device = make_sampler(graph, [fanout]), graph.device
        self.indptr, self.indices, self.weight = raw.indptr, raw.indices, raw.data
        self.degree = np.diff(raw.indptr)
        self.total_weight = np.asarray(raw.sum(1), dtype=np.float32).ravel()
        self.scale = (self.total_weight + 1) ** np.float32(-0.5)

    def block(self, kind: str, nodes: Tensor) -> tuple[Block, Tensor]:
        """The block of an operator whose outputs are ``nodes`` ``[n]``, and its input nodes.

        Args:
            kind: see :meth:`graphgym_srnc.backbones.graph.Graph.adjacency`.
            nodes: the output nodes, all different; they come first among the input nodes.
        """
        sample = self.sampler.sample_from_nodes(NodeSamplerInput(None, nodes))
        inputs, row, column, entry = (
            index.numpy() for index in (sample.node, sample.col, sample.row, sample.edge))
        outputs, drawn = np.arange(len(nodes)), np.bincount(row, minlength=len(nodes))
        multiplicity = self.degree[inputs[outputs]] / np.maximum(drawn, 1)
        value = self._values(kind, multiplicity.astype(np.float32)[row], entry, inputs[row],
                             inputs[column])
        loops = self._loops(kind, inputs[outputs])
        if loops is not None:
            value = np.concatenate([value, loops])
            row, column = (np.concatenate([index, outputs]) for index in (row, column))
        matrix = sp.csr_array((value, (row, column)), shape=(len(nodes), len(inputs)))
        outputs = torch.from_numpy(outputs).to(self.device)
        return Block(Sparse(matrix, self.device), outputs, drawn=True), sample.node

    def entries(self, nodes: slice | np.ndarray) -> slice | np.ndarray:
        """The places in :math:`A` of the neighbours of some nodes, a range or ids ``[n]``."""
        if isinstance(nodes, slice):
            return slice(self.indptr[nodes.start], self.indptr[nodes.stop])
        count = self.degree[nodes]
        first = self.indptr[nodes] - (np.cumsum(count) - count)
        return np.repeat(first, count) + np.arange(count.sum())

    def product(self, kind: str, nodes: slice | np.ndarray, state: Tensor) -> Tensor:
        r"""Some rows of :math:`\hat A H` with all neighbours, ``[n, K]``, of states ``[V, K]``."""
        entries, every, count = self.entries(nodes), ids(nodes), self.degree[nodes]
        column, row = self.indices[entries], np.repeat(every, count)
        value = self._values(kind, np.ones(len(row), dtype=np.float32), entries, row, column)
        indptr = np.concatenate([[0], np.cumsum(count)]).astype(self.indptr.dtype)
        matrix = sp.csr_array((value, column, indptr), shape=(len(every), len(state)))
        out = Sparse(matrix, self.device) @ state
        loops = self._loops(kind, every)
        if loops is not None:
            own = nodes if isinstance(nodes, slice) else torch.from_numpy(nodes).to(self.device)
            out += torch.from_numpy(loops).to(out)[:, None] * state[own]
        return out

    def _values(self, kind: str, multiplicity: np.ndarray, entry: np.ndarray | slice,
                row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Entries ``[E]`` of the operator, each for so many neighbours.

        Args:
            multiplicity: how many neighbours each entry stands for.
            entry: their places in :math:`A`.
            row, column: their nodes in the whole graph.
        """
        if kind == "loops":
            return multiplicity  # attention reads no weight, but how many neighbours there are
        value = multiplicity * self.weight[entry]
        if kind == "gcn":
            return value * self.scale[row] * self.scale[column]
        return value / self.total_weight[row] if kind == "mean" else value

    def _loops(self, kind: str, nodes: np.ndarray) -> np.ndarray | None:
        """What nodes ``[n]`` give themselves, if anything."""
        if kind == "gcn":
            return self.scale[nodes] ** 2
        return np.ones(len(nodes), dtype=np.float32) if kind == "loops" else None


def make_sampler(graph: Graph, fanouts: Sequence[int]) -> BaseSampler:
    """A sampler of a graph's neighbours, self-loops left out.

    It is that of ``pyg-lib`` where that is installed, else :class:`NeighbourSampler`.
    """
    raw = graph.adjacency("raw")
    if not torch_geometric.typing.WITH_PYG_LIB:
        csr = raw.matrix
        return NeighbourSampler(*map(torch.from_numpy, (csr.indptr, csr.indices)), fanouts)
    # A is symmetric, so its rows are the columns that PyG draws from, and entries keep their place.
    edge_index = torch.from_numpy(np.stack(raw.entries[::-1]).astype(np.int64))
    data = Data(edge_index=edge_index, num_nodes=graph.num_nodes)
    return NeighborSampler(data, [k if k > 0 else -1 for k in fanouts], is_sorted=True)


class NeighbourSampler(BaseSampler):
    """PyG's sampler interface without ``pyg-lib``: neighbours uniformly and without replacement.

    The output is PyG's: seeds first, then the nodes of each hop as they are met; a node's
    neighbours are drawn once, when it is first met; ``row`` is the neighbour's end of an edge,
    ``col`` the end it was drawn for, ``edge`` its place in ``indices``.

    Args:
        indptr, indices: the graph in CSR form, ``[V + 1]`` and ``[E]``: the neighbours of node i
            are ``indices[indptr[i]:indptr[i + 1]]``.
        fanouts: neighbours drawn for a node at each hop; 0 or less = all of them.
    """

    def __init__(self, indptr: Tensor, indices: Tensor, fanouts: Sequence[int]) -> None:
        self.indptr, self.indices, self.fanouts = indptr, indices, list(fanouts)
        # Place of each node in the output; -1 again after each call.
        self._place = torch.full((len(indptr) - 1,), -1)

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        place, frontier, begin = self._place, index.node, 0
        place[frontier] = torch.arange(len(frontier))
        nodes, rows, columns, edges = [frontier], [], [], []
        for fanout in self.fanouts:
            drawn_for, edge = draw_neighbours(self.indptr, frontier, fanout)
            neighbour = self.indices[edge].long()
            columns.append(begin + drawn_for)
            begin += len(frontier)
            frontier = neighbour[place[neighbour] < 0].unique()
            place[frontier] = begin + torch.arange(len(frontier))
            nodes.append(frontier)
            rows.append(place[neighbour])
            edges.append(edge)
        node = torch.cat(nodes)
        place[node] = -1
        return SamplerOutput(node, torch.cat(rows), torch.cat(columns), torch.cat(edges),
                             num_sampled_nodes=list(map(len, nodes)),
                             num_sampled_edges=list(map(len, rows)),
                             metadata=(index.input_id, index.time))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> NoReturn:
        raise NotImplementedError("neighbours are drawn for nodes, not for edges")


def draw_neighbours(indptr: Tensor, nodes: Tensor, fanout: int) -> tuple[Tensor, Tensor]:
    """At most ``fanout`` entries of the CSR rows of some nodes ``[n]``; 0 or less = all of them.

    They are drawn uniformly and without replacement from torch's generator.

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
    """A uniform subset ``[n, count]`` of ``range(size)`` for each size ``[n]`` above ``count``.

    Floyd's algorithm (Bentley and Floyd, CACM 1987) on all rows at once costs :math:`O(n k^2)` for
    a count :math:`k`, whatever the sizes.
    """
    last = size[:, None] - count + torch.arange(count)
    drawn = (torch.rand(last.shape, dtype=torch.float64) * (last + 1)).long()
    for i in range(1, count):
        taken = (drawn[:, :i] == drawn[:, i:i + 1]).any(1)
        drawn[:, i] = last[:, i].where(taken, drawn[:, i])
    return drawn

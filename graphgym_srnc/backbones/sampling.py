"""Neighbour sampling for large graphs: PyG's sampler interface, and unbiased sampled operators."""

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


def draw_view(
    graph: Graph, kind: str, layers: int, nodes: Tensor, fanout: int, precompute: bool
) -> View:
    r"""View of some nodes with sampled neighbours.

    With ``precompute`` and dense features in memory, :math:`\hat A X` of the first layer is exact.

    Args:
        graph, kind, layers, nodes, precompute: as in :func:`.view.make_view`.
        fanout: maximum number of neighbours per node and layer; 0 = all.
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
    r"""Exact block of a first layer, which reads :math:`\hat A X` and the nodes' own rows."""
    product = graph.propagated(kind)[nodes.to(graph.device)]
    return Block(None, torch.arange(len(nodes), device=graph.device), product)


def ids(nodes: slice | np.ndarray) -> np.ndarray:
    """Ids ``[n]`` of the nodes of a range; ids are returned unchanged."""
    return np.arange(nodes.start, nodes.stop) if isinstance(nodes, slice) else nodes


def neighbourhoods(graph: Graph, fanout: int) -> Neighbourhoods:
    """Cached :class:`Neighbourhoods` of a graph."""
    made = _neighbourhoods.setdefault(graph, {})
    if fanout not in made:
        made[fanout] = Neighbourhoods(graph, fanout)
    return made[fanout]


class Neighbourhoods:
    r"""Sampler of blocks whose operators are unbiased estimates of the full operator.

    :math:`k_i = \min(k, d_i)` of the :math:`d_i` neighbours of a node are sampled. An entry
    :math:`\hat A_{ij}` of the full operator becomes :math:`\frac{d_i}{k_i} \hat A_{ij}` or 0.
    Self-loops are always kept. So :math:`\mathbb E[\hat A' H] = \hat A H`. Each layer is sampled
    independently, so products of operators are unbiased too.

    Args:
        graph: the graph; its full operators are never computed.
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
        """Block of an operator for some output nodes, and the ids of its input nodes.

        Args:
            kind: see :meth:`graphgym_srnc.backbones.graph.Graph.adjacency`.
            nodes: distinct output nodes ``[n]``, which are the first input nodes.
        """
        sample = self.sampler.sample_from_nodes(NodeSamplerInput(None, nodes))
        inputs, row, column, entry = (
            index.numpy() for index in (sample.node, sample.col, sample.row, sample.edge)
        )
        outputs, drawn = np.arange(len(nodes)), np.bincount(row, minlength=len(nodes))
        multiplicity = self.degree[inputs[outputs]] / np.maximum(drawn, 1)
        value = self._values(
            kind, multiplicity.astype(np.float32)[row], entry, inputs[row], inputs[column]
        )
        loops = self._loops(kind, inputs[outputs])
        if loops is not None:
            value = np.concatenate([value, loops])
            row, column = (np.concatenate([index, outputs]) for index in (row, column))
        matrix = sp.csr_array((value, (row, column)), shape=(len(nodes), len(inputs)))
        outputs = torch.from_numpy(outputs).to(self.device)
        return Block(Sparse(matrix, self.device), outputs, drawn=True), sample.node

    def entries(self, nodes: slice | np.ndarray) -> slice | np.ndarray:
        """Positions in :math:`A` of the neighbours of some nodes, a range or ids ``[n]``."""
        if isinstance(nodes, slice):
            return slice(self.indptr[nodes.start], self.indptr[nodes.stop])
        count = self.degree[nodes]
        first = self.indptr[nodes] - (np.cumsum(count) - count)
        return np.repeat(first, count) + np.arange(count.sum())

    def product(self, kind: str, nodes: slice | np.ndarray, state: Tensor) -> Tensor:
        r"""Rows of :math:`\hat A H` with all neighbours, ``[n, K]``, for states ``[V, K]``."""
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

    def _values(
        self,
        kind: str,
        multiplicity: np.ndarray,
        entry: np.ndarray | slice,
        row: np.ndarray,
        column: np.ndarray,
    ) -> np.ndarray:
        """Entries ``[E]`` of the operator, scaled by multiplicity.

        Args:
            kind: kind of the operator.
            multiplicity: number of neighbours that each entry represents.
            entry: positions of the entries in :math:`A`.
            row, column: their nodes in the full graph.
        """
        if kind == "loops":
            return multiplicity  # attention ignores weights but needs the number of neighbours
        value = multiplicity * self.weight[entry]
        if kind == "gcn":
            return value * self.scale[row] * self.scale[column]
        return value / self.total_weight[row] if kind == "mean" else value

    def _loops(self, kind: str, nodes: np.ndarray) -> np.ndarray | None:
        """Self-loop weights of nodes ``[n]``, or None if the operator has no self-loops."""
        if kind == "gcn":
            return self.scale[nodes] ** 2
        return np.ones(len(nodes), dtype=np.float32) if kind == "loops" else None


def make_sampler(graph: Graph, fanouts: Sequence[int]) -> BaseSampler:
    """Sampler of a graph's neighbours without self-loops.

    It is the sampler of ``pyg-lib`` if that is installed, else :class:`NeighbourSampler`.
    """
    raw = graph.adjacency("raw")
    if not torch_geometric.typing.WITH_PYG_LIB:
        csr = raw.matrix
        indptr, indices = torch.from_numpy(csr.indptr), torch.from_numpy(csr.indices)
        return NeighbourSampler(indptr, indices, fanouts)
    # PyG samples from columns; A is symmetric, so its rows can be used in the same order.
    edge_index = torch.from_numpy(np.stack(raw.entries[::-1]).astype(np.int64))
    data = Data(edge_index=edge_index, num_nodes=graph.num_nodes)
    return NeighborSampler(data, [k if k > 0 else -1 for k in fanouts], is_sorted=True)


class NeighbourSampler(BaseSampler):
    """PyG's sampler interface without ``pyg-lib``: uniform sampling without replacement.

    The output format is that of PyG. Seeds come first, then the nodes of each hop in order of
    discovery. The neighbours of a node are sampled once. For each sampled edge, ``row`` is the
    neighbour, ``col`` the node it was sampled for, and ``edge`` its position in ``indices``.

    Args:
        indptr, indices: the graph in CSR form, ``[V + 1]`` and ``[E]``: the neighbours of node i
            are ``indices[indptr[i]:indptr[i + 1]]``.
        fanouts: number of neighbours sampled per node at each hop; 0 or less = all.
    """

    def __init__(self, indptr: Tensor, indices: Tensor, fanouts: Sequence[int]) -> None:
        self.indptr, self.indices, self.fanouts = indptr, indices, list(fanouts)
        # Position of each node in the output; reset to -1 after each call.
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
        return SamplerOutput(
            node,
            torch.cat(rows),
            torch.cat(columns),
            torch.cat(edges),
            num_sampled_nodes=list(map(len, nodes)),
            num_sampled_edges=list(map(len, rows)),
            metadata=(index.input_id, index.time),
        )

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> NoReturn:
        raise NotImplementedError("neighbours are drawn for nodes, not for edges")


def draw_neighbours(indptr: Tensor, nodes: Tensor, fanout: int) -> tuple[Tensor, Tensor]:
    """Sample entries of CSR rows uniformly without replacement, with torch's generator.

    Args:
        indptr: row boundaries, ``[V + 1]``.
        nodes: ids of the rows, ``[n]``.
        fanout: maximum number of entries per row; 0 or less = all.

    Returns:
        The position in ``nodes`` and the entry of each sample, both ``[E]``, sorted by position.
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
    """Uniform random subset ``[n, count]`` of ``range(size)`` for each size above ``count``.

    Floyd's algorithm (Bentley and Floyd, CACM 1987) on all rows at once takes time :math:`O(n k^2)`
    for a count :math:`k`, independent of the sizes.

    Args:
        size: the sizes, ``[n]``.
        count: number of elements of each subset.
    """
    last = size[:, None] - count + torch.arange(count)
    drawn = (torch.rand(last.shape, dtype=torch.float64) * (last + 1)).long()
    for i in range(1, count):
        taken = (drawn[:, :i] == drawn[:, i : i + 1]).any(1)
        drawn[:, i] = last[:, i].where(taken, drawn[:, i])
    return drawn

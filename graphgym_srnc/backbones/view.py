"""What an encoder computes for some nodes: the features that it reads, an operator a layer."""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse


@dataclass
class Block:
    r"""What one layer reads: an operator from its input nodes to its output nodes.

    Args:
        adjacency: the operator, ``[n_out, n_in]``; None where each node reads its own row alone.
        outputs: which of the input nodes are the output nodes, ``[n_out]``; None = all, in order.
        product: :math:`\hat A X`, ``[n_out, F]``, where that is constant and the cheaper order.
        drawn: whether an entry may stand for several neighbours, see
            :class:`graphgym_srnc.backbones.sampling.Neighbourhoods`.
    """

    adjacency: Sparse | None = None
    outputs: Tensor | slice | None = None
    product: Sparse | Tensor | None = None
    drawn: bool = False

    def propagate(self, h: Sparse | Tensor, weight: Tensor) -> Tensor:
        r""":math:`\hat A H W` ``[n_out, K]`` in the cheaper order."""
        if self.product is not None:
            return self.product @ weight
        if isinstance(h, Sparse) or weight.size(0) >= weight.size(1):
            return self.adjacency @ (h @ weight)
        return (self.adjacency @ h) @ weight

    def root(self, h: Sparse | Tensor) -> Sparse | Tensor:
        """The rows of ``h`` ``[n_in, K]`` that belong to the output nodes, ``[n_out, K]``."""
        return h if self.outputs is None else h[self.outputs]

    def rows(self, index: Tensor) -> Block:
        """The block of some of its output nodes, ``[n]``, in this order, perhaps more than once."""
        return replace(self, outputs=index if self.outputs is None else self.outputs[index],
                       adjacency=None if self.adjacency is None else self.adjacency[index],
                       product=None if self.product is None else self.product[index])


@dataclass
class View:
    """The features and blocks that an encoder needs for some nodes, the first layer's first."""

    x: Sparse | Tensor
    blocks: list[Block]


SPARSE_ENTRY = 2.0
"""Time of an entry of a sparse matrix in a product, in multiples of that of a dense one's."""


def _cost(matrix: Sparse | Tensor) -> float:
    """Time of a product with the matrix, in entries of a sparse one."""
    return matrix.nnz if isinstance(matrix, Sparse) else matrix.numel() / SPARSE_ENTRY


def make_view(graph: Graph, kind: str, layers: int, nodes: Tensor | None, precompute: bool) -> View:
    r"""The view of ``layers`` message-passing layers for some nodes, with all their neighbours.

    Args:
        graph: the graph.
        kind: an operator of :meth:`graphgym_srnc.backbones.graph.Graph.adjacency`.
        layers: number of layers, one block each.
        nodes: the output nodes, ``[n]``; None = the whole graph.
        precompute: whether the first layer may read :math:`\hat A X` made in advance.

    Raises:
        InputError: the features stay on disk.
    """
    full = graph.adjacency(kind)
    if nodes is None:
        blocks = [Block(full) for _ in range(layers)]
        # With sparse features A(XW) touches nnz(X) + nnz(A) entries and (AX)W many more; dense
        # features have one product less.
        if precompute and not isinstance(graph.x, Sparse):
            blocks[0].product = graph.propagated(kind)
        return View(graph.whole_features(), blocks)

    blocks, wanted = [], nodes.cpu().numpy()
    for layer in reversed(range(layers)):
        rows = full.matrix[wanted]
        needed = np.union1d(rows.indices, wanted)
        if layer == 0 and precompute:
            product = graph.propagated(kind)[torch.from_numpy(wanted).to(graph.device)]
            # A few rows of AX cost less than the rows of X around them; of many nodes' neighbours
            # each is read but once.
            if (not isinstance(graph.x, Sparse)
                    or _cost(product) < graph.x.matrix[needed].nnz + rows.nnz):
                blocks.append(Block(Sparse(rows, graph.device), None, product))
                break
        outputs = torch.from_numpy(np.searchsorted(needed, wanted)).to(graph.device)
        blocks.append(Block(Sparse(rows[:, needed], graph.device), outputs))
        wanted = needed
    return View(graph.x[torch.from_numpy(wanted).to(graph.device)], blocks[::-1])

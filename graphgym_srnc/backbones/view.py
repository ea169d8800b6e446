"""Views: the features and the operator of each layer that an encoder needs for some nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.scaling import SPARSE_BELOW
from graphgym_srnc.backbones.sparse import Sparse

SAMPLE = 500  # rows that suffice to estimate how many entries a product has

H = TypeVar("H", Sparse, Tensor, Sparse | Tensor)


@dataclass
class Block:
    r"""Input of one layer: an operator from its input nodes to its output nodes.

    Args:
        adjacency: the operator, ``[n_out, n_in]``; None if each node reads only its own row.
        outputs: positions of the output nodes among the input nodes, ``[n_out]``; None = all, in
            order.
        product: precomputed :math:`\hat A X`, ``[n_out, F]``, if it is constant and cheaper.
        drawn: whether an entry may represent several sampled neighbours.
    """

    adjacency: Sparse | None = None
    outputs: Tensor | slice | None = None
    product: Sparse | Tensor | None = None
    drawn: bool = False

    def propagate(self, h: Sparse | Tensor, weight: Tensor) -> Tensor:
        r"""Product :math:`\hat A H W` ``[n_out, K]``, computed in the cheaper order."""
        if self.product is not None:
            return self.product @ weight
        if isinstance(h, Sparse) or weight.size(0) >= weight.size(1):
            return self.operator @ (h @ weight)
        return (self.operator @ h) @ weight

    @property
    def operator(self) -> Sparse:
        """The operator of a block that has one."""
        return cast(Sparse, self.adjacency)

    def root(self, h: H) -> H:
        """Rows of ``h`` ``[n_in, K]`` that belong to the output nodes, ``[n_out, K]``."""
        return h if self.outputs is None else cast(H, h[self.outputs])

    def rows(self, index: Tensor) -> Block:
        """Block of a selection of its output nodes ``[n]``, in this order and possibly repeated."""
        return replace(
            self,
            outputs=index if self.outputs is None else cast(Tensor, self.outputs)[index],
            adjacency=None if self.adjacency is None else self.adjacency[index],
            product=None if self.product is None else self.product[index],
        )


@dataclass
class View:
    """Features and blocks that an encoder needs for some nodes, starting with the first layer."""

    x: Sparse | Tensor
    blocks: list[Block]


def make_view(graph: Graph, kind: str, layers: int, nodes: Tensor | None, precompute: bool) -> View:
    r"""View for a stack of layers with all neighbours of ``nodes`` ``[n]``; None = all nodes.

    With ``precompute`` the first layer may use a precomputed :math:`\hat A X`.
    """
    full = graph.adjacency(kind)
    if nodes is None:
        blocks = [Block(full) for _ in range(layers)]
        # With sparse features A(XW) reads nnz(X) + nnz(A) entries and (AX)W many more. With dense
        # features precomputing saves one product.
        if precompute and not isinstance(graph.x, Sparse):
            blocks[0].product = graph.propagated(kind)
        return View(graph.x, blocks)

    blocks = []
    wanted = nodes.cpu().numpy()
    for layer in reversed(range(layers)):
        rows = full.matrix[wanted]
        needed = np.union1d(rows.indices, wanted)
        if layer == 0 and precompute:
            product = _product(graph, kind, wanted, rows, needed)
            if product is not None:
                blocks.append(Block(Sparse(rows, graph.device), None, product))
                break
        outputs = torch.from_numpy(np.searchsorted(needed, wanted)).to(graph.device)
        blocks.append(Block(Sparse(rows[:, needed], graph.device), outputs))
        wanted = needed
    return View(graph.x[torch.from_numpy(wanted).to(graph.device)], blocks[::-1])


def _product(
    graph: Graph, kind: str, wanted: np.ndarray, rows: sp.csr_array, needed: np.ndarray
) -> Sparse | Tensor | None:
    """Rows ``wanted`` of AX, or None if the rows ``needed`` of X cost less.

    For few nodes, rows of AX cost less than the rows of X of all their neighbours. For many nodes,
    shared neighbours make reading X cheaper. A sparse entry costs as much as two dense ones.
    """
    x = graph.x
    if isinstance(x, Tensor):
        return graph.propagated(kind)[torch.from_numpy(wanted).to(graph.device)]
    some = rows[:: 1 + len(wanted) // SAMPLE] @ x.matrix
    share = some.nnz / max(math.prod(some.shape), 1)
    cost = len(wanted) * x.shape[1] * (share if share <= SPARSE_BELOW else 0.5)
    if cost >= np.diff(x.matrix.indptr)[needed].sum() + rows.nnz:
        return None
    return graph.stored(rows @ x.matrix)

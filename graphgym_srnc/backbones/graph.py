"""A graph made ready for encoders: features in their cheaper form, normalised adjacencies, computation views; each made once."""
from __future__ import annotations

import copy
import weakref
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric.data import Data

from graphgym_srnc.backbones.mapped import Mapped, scaled
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.data import edges
from graphgym_srnc.errors import InputError

SPARSE_BELOW = 0.2
"""Share of non-zero features under which they are kept sparse."""

FEATURES = ("row", "l2", "auto", "none")
"""How features may be scaled, see :class:`Graph`."""

_scaled: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Version and scaled features by the matrix they were made of and the scaling: a matrix that several tasks hold is scaled once."""

_prepared: "weakref.WeakValueDictionary[tuple[int, str], Graph]" = weakref.WeakValueDictionary()


def prepare(data: Data, features: str = "row") -> "Graph":
    """The :class:`Graph` of a ``Data`` object; asked again for the same object while one lives, it is the same one."""
    key = (id(data), features)
    graph = _prepared.get(key)
    if graph is None or graph.data is not data:
        _prepared[key] = graph = Graph(data, features)
    return graph


class Graph:
    """Features and adjacencies of one graph, ready for products.

    Args:
        data: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``, read as undirected, unweighted, without self-loops. An ``x`` with
            the attribute ``mapped`` stays where it is, see :class:`graphgym_srnc.backbones.mapped.Mapped`.
        features: ``row`` (each row divided by its sum of absolute values), ``l2`` (by its Euclidean length), ``auto`` (``l2``, of
            columns less their mean where features are dense) or ``none``.

    Raises:
        InputError: ``features`` is unknown.
    """

    def __init__(self, data: Data, features: str = "row") -> None:
        if features not in FEATURES:
            raise InputError("dataset.normalize", features, ", ".join(FEATURES))
        self.data, self.num_nodes, self.device = data, data.num_nodes, data.edge_index.device
        self.x = Mapped(data.x, features, self.device) if getattr(data.x, "mapped", False) else _scaled_features(data.x, features)
        self._operators: dict[str, Sparse] = {}
        self._products: dict[str, Sparse | Tensor] = {}

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    def adjacency(self, kind: str) -> Sparse:
        """The ``[V, V]`` operator of a kind, undirected and without the graph's own self-loops.

        ``raw``: :math:`A`. ``gcn``: :math:`\\tilde D^{-1/2}(A+I)\\tilde D^{-1/2}`. ``mean``: :math:`D^{-1}A`. ``loops``: :math:`A+I`.
        """
        if kind not in self._operators:
            self._operators[kind] = Sparse(_OPERATORS[kind](self._raw()), self.device)
        return self._operators[kind]

    @property
    def content(self) -> tuple[Tensor, Tensor]:
        """The features and :math:`A`, which all that is made of the graph depends on."""
        return self.x.csr if isinstance(self.x, Sparse) else self.x, self.adjacency("raw").csr

    @property
    def degree(self) -> Tensor:
        """Node degrees in :math:`A`, ``[V]``."""
        return torch.from_numpy(np.diff(self.adjacency("raw").matrix.indptr).astype(np.float32)).to(self.device)

    @property
    def edges(self) -> Tensor:
        """Each edge of :math:`A` once, ``[2, m]``."""
        pairs = np.stack(self.adjacency("raw").entries).astype(np.int64)
        return torch.from_numpy(pairs[:, pairs[0] < pairs[1]]).to(self.device)

    def reweighted(self, weight: np.ndarray) -> "Graph":
        """The same graph with a weight on each entry of :math:`A` in row order, ``[2m]``; operators follow, features are shared."""
        raw = self.adjacency("raw").matrix
        other = copy.copy(self)
        other._products = {}
        other._operators = {"raw": Sparse(sp.csr_array((weight, raw.indices, raw.indptr), shape=raw.shape), self.device)}
        return other

    def whole_features(self) -> Sparse | Tensor:
        """The features ``[V, F]`` in memory.

        Raises:
            InputError: they stay on disk.
        """
        return self.x.refuse() if isinstance(self.x, Mapped) else self.x

    def propagated(self, kind: str, power: int = 1) -> Sparse | Tensor:
        """:math:`\\hat A^k X`, constant, made once."""
        key = f"{kind}{power}"
        if key not in self._products:
            self.whole_features()
            x = self.x.matrix if isinstance(self.x, Sparse) else self.x.cpu().numpy()
            for _ in range(power):
                x = self.adjacency(kind).matrix @ x
            if sp.issparse(x):
                dense = x.nnz > SPARSE_BELOW * x.shape[0] * x.shape[1]
                self._products[key] = torch.from_numpy(x.toarray()).to(self.device) if dense else Sparse(x, self.device)
            else:
                self._products[key] = torch.from_numpy(x).to(self.device)
        return self._products[key]

    def _raw(self) -> sp.csr_array:
        if "raw" in self._operators:
            return self._operators["raw"].matrix
        number = edges.undirected(self.data.edge_index.cpu().numpy(), self.num_nodes)[0]
        indptr = np.searchsorted(number, np.arange(self.num_nodes + 1) * self.num_nodes)
        small = np.int32 if max(self.num_nodes, len(number)) < 2 ** 31 else np.int64
        column = np.remainder(number, self.num_nodes, out=number).astype(small)
        del number
        return sp.csr_array((np.ones(len(column), dtype=np.float32), column, indptr.astype(small)), shape=(self.num_nodes, self.num_nodes))


@dataclass
class Block:
    """What one layer reads: an operator from its input nodes to its output nodes, and where the latter stand among the former.

    ``adjacency`` is ``[n_out, n_in]``; ``own`` ``[n_out]`` indexes the input nodes, or is None where both are the whole graph.
    ``product`` holds :math:`\\hat A X` where that is constant and the cheaper order. ``drawn`` says that an entry may stand for several
    neighbours, see :class:`graphgym_srnc.backbones.sampling.Neighbourhoods`.
    """

    adjacency: Sparse
    own: Tensor | slice | None = None
    product: "Sparse | Tensor | None" = None
    drawn: bool = False

    def propagate(self, h: "Sparse | Tensor", weight: Tensor) -> Tensor:
        """:math:`\\hat A H W` ``[n_out, K]`` in the cheaper order."""
        if self.product is not None:
            return self.product @ weight
        if isinstance(h, Sparse) or weight.size(0) >= weight.size(1):
            return self.adjacency @ (h @ weight)
        return (self.adjacency @ h) @ weight

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor]:
        """Output and input node of each entry of the operator, both ``[E]``, sorted by output node."""
        return tuple(torch.from_numpy(part.astype(np.int64)).to(self.adjacency.device) for part in self.adjacency.entries)

    @property
    def multiplicity(self) -> Tensor | None:
        """How many neighbours each entry stands for where they are drawn, ``[E]``, in the order of ``edges``; else None."""
        return torch.from_numpy(self.adjacency.matrix.data).to(self.adjacency.device) if self.drawn else None

    def rows(self, place: Tensor) -> "Block":
        """The block of some of its output nodes, ``[n]``, in this order and perhaps more than once."""
        own = place if self.own is None else self.own[place]
        return replace(self, own=own, adjacency=None if self.adjacency is None else self.adjacency[place],
                       product=None if self.product is None else self.product[place])

    def root(self, h: "Sparse | Tensor") -> "Sparse | Tensor":
        """The rows of ``h`` ``[n_in, K]`` that belong to the output nodes, ``[n_out, K]``."""
        return h if self.own is None else h[self.own]


@dataclass
class View:
    """The features and blocks that an encoder needs for some nodes, outermost layer first; nothing else is computed."""

    x: "Sparse | Tensor"
    blocks: list[Block]


def make_view(graph: Graph, kind: str, layers: int, nodes: Tensor | None, precompute: bool) -> View:
    """The computation view of ``layers`` message-passing layers for ``nodes`` ``[n]`` (None = the whole graph).

    Args:
        graph: the graph.
        kind: an operator of :meth:`Graph.adjacency`.
        layers: number of layers, one block each.
        nodes: the output nodes.
        precompute: whether the first layer reads :math:`\\hat A X` only, so that it may be made in advance.
    """
    full = graph.adjacency(kind)
    if nodes is None:
        blocks = [Block(full) for _ in range(layers)]
        # With sparse features A(XW) touches nnz(X) + nnz(A) entries and (AX)W many more; dense features have one product less.
        if precompute and not isinstance(graph.x, Sparse):
            blocks[0].product = graph.propagated(kind)
        return View(graph.whole_features(), blocks)
    blocks, wanted = [], nodes.cpu().numpy()
    for layer in reversed(range(layers)):
        rows = full.matrix[wanted]
        needed = np.union1d(rows.indices, wanted)
        if layer == 0 and precompute:
            product = graph.propagated(kind)[torch.from_numpy(wanted).to(graph.device)]
            x = graph.x.matrix[needed] if isinstance(graph.x, Sparse) else None
            # A few rows of AX cost less than the rows of X around them; of many nodes' neighbours each is read but once.
            if not isinstance(product, Sparse) or product.nnz < x.nnz + rows.nnz:
                blocks.append(Block(Sparse(rows, graph.device), None, product))
                break
        own = torch.from_numpy(np.searchsorted(needed, wanted)).to(graph.device)
        blocks.append(Block(Sparse(rows[:, needed], graph.device), own))
        wanted = needed
    return View(graph.x[torch.from_numpy(wanted).to(graph.device)], blocks[::-1])


def _scaled_features(x: Tensor, features: str) -> "Sparse | Tensor":
    """What :func:`_normalised_features` makes, made once while the matrix lives unchanged."""
    made, version = _scaled.setdefault(x, {}), 0 if x.is_inference() else x._version
    if features not in made or made[features][0] != version:
        made[features] = version, _normalised_features(x, features)
    return made[features][1]


def _normalised_features(x: Tensor, features: str) -> "Sparse | Tensor":
    dense = (x.to_dense() if x.layout != torch.strided else x).float()
    if int(dense.count_nonzero()) < SPARSE_BELOW * dense.numel():
        matrix = sp.csr_array(dense.cpu().numpy())
        if features != "none":
            size = abs(matrix) if features == "row" else matrix * matrix
            length = np.asarray(size.sum(1), dtype=np.float32).ravel() ** (1 if features == "row" else 0.5)
            matrix.data /= np.repeat(np.maximum(length, 1e-12), np.diff(matrix.indptr))
        return Sparse(matrix, x.device)
    return scaled(dense, features, dense.mean(0) if features == "auto" else None)


def _gcn(a: sp.csr_array) -> sp.csr_array:
    a = a + sp.eye_array(a.shape[0], dtype=np.float32, format="csr")
    scale = sp.diags_array(np.asarray(a.sum(1), dtype=np.float32).ravel() ** -0.5)
    return (scale @ a @ scale).tocsr()


def _mean(a: sp.csr_array) -> sp.csr_array:
    total = np.asarray(a.sum(1), dtype=np.float32).ravel()
    return (sp.diags_array(1 / np.where(total > 0, total, 1)) @ a).tocsr()


_OPERATORS = {"raw": lambda a: a, "gcn": _gcn, "mean": _mean, "loops": lambda a: (a + sp.eye_array(a.shape[0], dtype=np.float32)).tocsr()}

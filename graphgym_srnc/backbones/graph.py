"""Graphs prepared for encoders: scaled features and normalised adjacency operators."""

from __future__ import annotations

import copy
import math
import weakref
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones.scaling import FEATURES, SPARSE_BELOW, scaled_features
from graphgym_srnc.backbones.sparse import Sparse, dense
from graphgym_srnc.data import edges
from graphgym_srnc.errors import InputError

OPERATORS = ("raw", "gcn", "mean", "loops")  # kinds of :meth:`Graph.adjacency`


class PerGraph(weakref.WeakKeyDictionary["Graph", Any]):
    """What was computed for graphs, while these exist. A copy is empty, and so is a stored one."""

    def __deepcopy__(self, memo: dict[int, Any]) -> PerGraph:
        return PerGraph()

    def __reduce__(self) -> tuple[type[PerGraph], tuple[()]]:
        return PerGraph, ()


_prepared: weakref.WeakValueDictionary[tuple[int, str], Graph] = weakref.WeakValueDictionary()


def prepare(data: Data, features: str = "row", edges_of: Graph | None = None) -> Graph:
    """Cached :class:`Graph` of a ``Data`` object, which may have the edges of another graph."""
    # The Graph keeps a reference to its data, so the id of the data stays unique meanwhile.
    graph = _prepared.get((id(data), features))
    if graph is None:
        _prepared[id(data), features] = graph = Graph(data, features)
        if edges_of is not None:
            graph._operators = edges_of._operators
    return graph


class Graph:
    """Features and adjacency operators of one graph.

    Args:
        data: a graph with ``x`` ``[V, F]``, ``edge_index`` ``[2, E]`` and optionally
            ``edge_weight`` ``[E]`` above 0. Edges are read as undirected, without self-loops.
        features: ``row`` (divide each row by its sum of absolute values), ``l2`` (divide by its
            Euclidean length), ``auto`` (``l2``, and dense features are centred first) or ``none``.

    Raises:
        InputError: ``features`` is unknown.
    """

    def __init__(self, data: Data, features: str = "row") -> None:
        if features not in FEATURES:
            raise InputError("features", features, ", ".join(FEATURES))
        self.data = data
        self.num_nodes = data.num_nodes
        self.device = data.edge_index.device
        self.x = scaled_features(data.x, features)
        self._operators: dict[str, Sparse] = {}
        self._products: dict[tuple[str, int], Sparse | Tensor] = {}

    @property
    def num_features(self) -> int:
        """Number of node features, :math:`F`."""
        return self.x.shape[1]

    @property
    def is_weighted(self) -> bool:
        """Whether edges have weights other than 1."""
        return self.data.edge_weight is not None

    @property
    def degree(self) -> Tensor:
        """Node degrees, which are row sums of :math:`A`, ``[V]``."""
        matrix = self.adjacency("raw").matrix
        degree = matrix.sum(1) if self.is_weighted else np.diff(matrix.indptr)
        return torch.from_numpy(degree.astype(np.float32)).to(self.device)

    @property
    def edges(self) -> Tensor:
        """Edges of :math:`A`, each once, ``[2, m]``."""
        pairs = np.stack(self.adjacency("raw").entries).astype(np.int64)
        return torch.from_numpy(pairs[:, pairs[0] < pairs[1]]).to(self.device)

    def adjacency(self, kind: str) -> Sparse:
        r"""Adjacency operator ``[V, V]`` of the undirected graph without its own self-loops.

        Args:
            kind: ``raw``: :math:`A`; ``gcn``: :math:`\tilde D^{-1/2}(A+I)\tilde D^{-1/2}`;
                ``mean``: :math:`D^{-1}A`; ``loops``: :math:`A+I`.
        """
        if kind not in self._operators:
            # A is not cached here, to save memory on large graphs that need one operator only.
            raw = self._operators.get("raw")
            matrix = raw.matrix if raw else _read_edges(self.data)
            self._operators[kind] = Sparse(_operator(matrix, kind), self.device)
        return self._operators[kind]

    def reweighted(self, weight: np.ndarray) -> Graph:
        """The same graph with entries of :math:`A`, in row order, times factors ``[2m]``."""
        raw = self.adjacency("raw").matrix
        entries = raw.data * weight
        return self.rewired(sp.csr_array((entries, raw.indices, raw.indptr), shape=raw.shape))

    def rewired(self, matrix: sp.csr_array) -> Graph:
        """The same nodes with another :math:`A` ``[V, V]``; features are shared."""
        other = copy.copy(self)
        other._operators = {"raw": Sparse(matrix, self.device)}
        other._products = {}
        return other

    def propagated(self, kind: str, power: int = 1) -> Sparse | Tensor:
        r"""Propagated features :math:`\hat A^k X`, ``[V, F]``, for ``power`` :math:`k`; cached."""
        if (kind, power) not in self._products:
            x = self.x.matrix if isinstance(self.x, Sparse) else self.x.cpu().numpy()
            for _ in range(power):
                x = self.adjacency(kind).matrix @ x
            self._products[kind, power] = self.stored(x)
        return self._products[kind, power]

    def stored(self, x: np.ndarray | sp.csr_array) -> Sparse | Tensor:
        """A product with the features ``[n, F]``, stored sparse if most of it is zero."""
        if not sp.issparse(x):
            return torch.from_numpy(x).to(self.device)
        product = Sparse(x, self.device)
        is_sparse = product.nnz <= SPARSE_BELOW * math.prod(x.shape)
        return product if is_sparse else dense(product)


def _read_edges(data: Data) -> sp.csr_array:
    """Adjacency :math:`A`: the weight, or else 1, of each pair of distinct connected nodes."""
    pairs = data.edge_index.cpu().numpy()
    num_nodes = data.num_nodes
    number = edges.undirected(pairs, num_nodes)[0]
    value = None
    if data.edge_weight is not None:
        value = edges.weights(number, pairs, data.edge_weight.cpu().numpy(), num_nodes)[0]
    indptr = np.searchsorted(number, np.arange(num_nodes + 1) * num_nodes)
    integer = np.int32 if max(num_nodes, len(number)) < 2**31 else np.int64
    column = np.remainder(number, num_nodes, out=number).astype(integer)
    del number  # free memory before the next allocation
    if value is None:
        value = np.ones(len(column), dtype=np.float32)
    return sp.csr_array((value, column, indptr.astype(integer)), shape=(num_nodes, num_nodes))


def _operator(a: sp.csr_array, kind: str) -> sp.csr_array:
    if kind in ("gcn", "loops"):
        a = (a + sp.eye_array(a.shape[0], dtype=np.float32, format="csr")).tocsr()
    total = np.asarray(a.sum(1), dtype=np.float32).ravel()
    if kind == "gcn":
        scale = sp.diags_array(total**-0.5)
        a = (scale @ a @ scale).tocsr()
    if kind == "mean":
        a = (sp.diags_array(1 / np.where(total > 0, total, 1)) @ a).tocsr()
    return a

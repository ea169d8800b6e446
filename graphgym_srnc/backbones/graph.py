"""A graph made ready for encoders: scaled features and normalised adjacencies, each made once."""
from __future__ import annotations

import copy
import weakref

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones.features import FEATURES, SPARSE_BELOW, Mapped, scaled_features
from graphgym_srnc.backbones.sparse import Sparse, dense
from graphgym_srnc.data import edges
from graphgym_srnc.errors import InputError

_prepared: weakref.WeakValueDictionary[tuple[int, str], Graph] = weakref.WeakValueDictionary()


def prepare(data: Data, features: str = "row") -> Graph:
    """The :class:`Graph` of a ``Data`` object; while one lives, the same object has the same one.

    Raises:
        InputError: ``features`` is unknown.
    """
    # A graph holds its data, so that nothing else has the number of the data while it lives.
    graph = _prepared.get((id(data), features))
    if graph is None:
        _prepared[id(data), features] = graph = Graph(data, features)
    return graph


class Graph:
    """Features and adjacencies of one graph, ready for products.

    Args:
        data: a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``, read as undirected,
            unweighted and without self-loops. An ``x`` with the attribute ``mapped`` stays where it
            is, see :class:`graphgym_srnc.backbones.features.Mapped`.
        features: ``row`` (each row divided by its sum of absolute values), ``l2`` (by its Euclidean
            length), ``auto`` (``l2``, of columns less their mean where features are dense) or
            ``none``.

    Raises:
        InputError: ``features`` is unknown.
    """

    def __init__(self, data: Data, features: str = "row") -> None:
        if features not in FEATURES:
            raise InputError("features", features, ", ".join(FEATURES))
        self.data, self.num_nodes, self.device = data, data.num_nodes, data.edge_index.device
        self.x: Sparse | Tensor | Mapped = (
            Mapped(data.x, features, self.device) if getattr(data.x, "mapped", False)
            else scaled_features(data.x, features))
        self._operators: dict[str, Sparse] = {}
        self._products: dict[tuple[str, int], Sparse | Tensor] = {}

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @property
    def content(self) -> tuple[Tensor, Tensor]:
        """The features and :math:`A`, which all that is made of the graph depends on."""
        return self.x.csr if isinstance(self.x, Sparse) else self.x, self.adjacency("raw").csr

    @property
    def degree(self) -> Tensor:
        """Node degrees in :math:`A`, ``[V]``."""
        degree = np.diff(self.adjacency("raw").matrix.indptr).astype(np.float32)
        return torch.from_numpy(degree).to(self.device)

    @property
    def edges(self) -> Tensor:
        """Each edge of :math:`A` once, ``[2, m]``."""
        pairs = np.stack(self.adjacency("raw").entries).astype(np.int64)
        return torch.from_numpy(pairs[:, pairs[0] < pairs[1]]).to(self.device)

    def adjacency(self, kind: str) -> Sparse:
        r"""The ``[V, V]`` operator of a kind, undirected and without the graph's own self-loops.

        ``raw``: :math:`A`. ``gcn``: :math:`\tilde D^{-1/2}(A+I)\tilde D^{-1/2}`.
        ``mean``: :math:`D^{-1}A`. ``loops``: :math:`A+I`.
        """
        if kind not in self._operators:
            # A large graph of which one operator is read ought not to keep A as well.
            raw = self._operators.get("raw")
            matrix = raw.matrix if raw else _read_edges(self.data.edge_index, self.num_nodes)
            made = matrix if kind == "raw" else _OPERATORS[kind](matrix)
            self._operators[kind] = Sparse(made, self.device)
        return self._operators[kind]

    def reweighted(self, weight: np.ndarray) -> Graph:
        """The same graph with a weight on each entry of :math:`A` in row order, ``[2m]``.

        Operators follow; features are shared.
        """
        raw = self.adjacency("raw").matrix
        return self.rewired(sp.csr_array((weight, raw.indices, raw.indptr), shape=raw.shape))

    def rewired(self, matrix: sp.csr_array) -> Graph:
        """The same nodes with another :math:`A`, ``[V, V]``; features are shared."""
        other = copy.copy(self)
        other._operators, other._products = {"raw": Sparse(matrix, self.device)}, {}
        return other

    def whole_features(self) -> Sparse | Tensor:
        """The features ``[V, F]`` in memory.

        Raises:
            InputError: they stay on disk.
        """
        return self.x.refuse() if isinstance(self.x, Mapped) else self.x

    def propagated(self, kind: str, power: int = 1) -> Sparse | Tensor:
        r""":math:`\hat A^k X` of an operator, ``[V, F]``: constant, made once.

        Raises:
            InputError: the features stay on disk.
        """
        if (kind, power) not in self._products:
            features = self.whole_features()
            x = features.matrix if isinstance(features, Sparse) else features.cpu().numpy()
            for _ in range(power):
                x = self.adjacency(kind).matrix @ x
            if sp.issparse(x):
                product = Sparse(x, self.device)
                is_sparse = product.nnz <= SPARSE_BELOW * x.shape[0] * x.shape[1]
                self._products[kind, power] = product if is_sparse else dense(product)
            else:
                self._products[kind, power] = torch.from_numpy(x).to(self.device)
        return self._products[kind, power]


def _read_edges(edge_index: Tensor, num_nodes: int) -> sp.csr_array:
    """:math:`A` of edges ``[2, E]``: 1 for each pair of different nodes with an edge between."""
    number = edges.undirected(edge_index.cpu().numpy(), num_nodes)[0]
    indptr = np.searchsorted(number, np.arange(num_nodes + 1) * num_nodes)
    integer = np.int32 if max(num_nodes, len(number)) < 2 ** 31 else np.int64
    column = np.remainder(number, num_nodes, out=number).astype(integer)
    del number  # of a large graph it is large
    ones = np.ones(len(column), dtype=np.float32)
    return sp.csr_array((ones, column, indptr.astype(integer)), shape=(num_nodes, num_nodes))


def _with_loops(a: sp.csr_array) -> sp.csr_array:
    return (a + sp.eye_array(a.shape[0], dtype=np.float32, format="csr")).tocsr()


def _normalised(a: sp.csr_array) -> sp.csr_array:
    a = _with_loops(a)
    scale = sp.diags_array(np.asarray(a.sum(1), dtype=np.float32).ravel() ** -0.5)
    return (scale @ a @ scale).tocsr()


def _mean(a: sp.csr_array) -> sp.csr_array:
    total = np.asarray(a.sum(1), dtype=np.float32).ravel()
    return (sp.diags_array(1 / np.where(total > 0, total, 1)) @ a).tocsr()


_OPERATORS = {"gcn": _normalised, "mean": _mean, "loops": _with_loops}

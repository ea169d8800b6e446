"""Node features as encoders read them: scaled, and stored dense, sparse or on disk."""
from __future__ import annotations

from typing import NoReturn

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.errors import InputError

FEATURES = ("row", "l2", "auto", "none")
"""Feature scalings, see :class:`graphgym_srnc.backbones.graph.Graph`."""

SPARSE_BELOW = 0.2
"""Share of non-zero features below which features are stored sparse."""

ROWS = 2 ** 16
"""Number of rows read from disk at a time when all rows are needed."""

_scaled: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Version and scaled features by original matrix and scaling."""


def scaled_features(x: Tensor, features: str) -> Sparse | Tensor:
    """Scaled features ``[V, F]``, cached for all graphs that share the matrix.

    A matrix that was modified in place is scaled again. The optional attribute ``dense`` of the
    matrix (True or False) overrides the automatic choice between dense and sparse storage.

    Args:
        x: the feature matrix, ``[V, F]``.
        features: one of ``FEATURES``.
    """
    made, version = _scaled.setdefault(x, {}), 0 if x.is_inference() else x._version
    if features not in made or made[features][0] != version:
        made[features] = version, _scale(x, features)
    return made[features][1]


def _scale(x: Tensor, features: str) -> Sparse | Tensor:
    dense = (x.to_dense() if x.layout != torch.strided else x).float()
    if getattr(x, "dense", int(dense.count_nonzero()) >= SPARSE_BELOW * dense.numel()):
        return _scale_rows(dense, features, dense.mean(0) if features == "auto" else None)
    matrix = sp.csr_array(dense.cpu().numpy())
    if features != "none":
        size = abs(matrix) if features == "row" else matrix * matrix
        length = np.asarray(size.sum(1), dtype=np.float32).ravel()
        length = length ** (1 if features == "row" else 0.5)
        matrix.data /= np.repeat(np.maximum(length, 1e-12), np.diff(matrix.indptr))
    return Sparse(matrix, x.device)


def _scale_rows(x: Tensor, features: str, mean: Tensor | None) -> Tensor:
    """Dense rows ``[n, F]`` scaled to sum or length 1; ``auto`` subtracts ``mean`` ``[F]`` first.
    """
    if features == "auto":
        # Dense rows share a large common component that hides their differences.
        x = x - mean
    if features == "none":
        return x.contiguous()
    length = x.abs().sum(1) if features == "row" else x.norm(dim=1)
    return (x / length.clamp(min=1e-12)[:, None]).contiguous()


class Mapped:
    """Features ``[V, F]`` on disk, whose rows are scaled when they are read.

    Args:
        x: the matrix in float32, with the attribute ``mapped``.
        features: one of ``FEATURES``; ``auto`` reads all rows once to compute their mean.
        device: device of the rows that are read.
    """

    def __init__(self, x: Tensor, features: str, device: torch.device) -> None:
        self.x, self.features, self.shape, self.device = x, features, x.shape, device
        self.mean: Tensor | None = None
        if features == "auto":
            total = sum(rows.sum(0, dtype=torch.float64) for rows in x.split(ROWS))
            self.mean = total.div(len(x)).float()

    def __getitem__(self, nodes: Tensor | slice) -> Tensor:
        rows = self.x[nodes.cpu() if isinstance(nodes, Tensor) else nodes]
        return _scale_rows(rows, self.features, self.mean).to(self.device)

    def __matmul__(self, weight: Tensor) -> NoReturn:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise an error because the whole matrix cannot be read at once.

        Raises:
            InputError: always.
        """
        raise InputError.plain(
            "file.mapped", "this method reads the whole feature matrix at once",
            "Set file.mapped to False, or use GCN, SAGE, GAT or an MLP with batch_size above 0 and "
            "another score than odin")

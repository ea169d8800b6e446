"""Node features as encoders read them: scaled, and stored dense, sparse or on disk."""

from __future__ import annotations

from typing import Callable, NoReturn, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.data import cleaning
from graphgym_srnc.errors import InputError

FEATURES = ("row", "l2", "auto", "none")
"""Feature scalings, see :class:`graphgym_srnc.backbones.graph.Graph`."""

SPARSE_BELOW = 0.2
"""Share of non-zero features below which features are stored sparse."""

SHORT = 1e-12
"""Length up to which a row counts as zero."""

HUGE = 1e6
"""Ratio of magnitudes that gives a warning."""

_scaled: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Version and result by original matrix, function and scaling."""

T = TypeVar("T")


def scaled_features(x: Tensor, features: str) -> Sparse | Tensor:
    """Features ``[V, F]`` scaled by one of ``FEATURES``, cached for all graphs that share them.

    A matrix that was modified in place is scaled again. The optional attribute ``dense`` of the
    matrix (True or False) overrides the automatic choice between dense and sparse storage.
    """
    return _cached(_scale, x, features)


def feature_warnings(x: Tensor, features: str) -> list[str]:
    """A sentence on why scaling loses differences between nodes, if it does; cached."""
    return _cached(_warnings, x, features)


def _cached(function: Callable[[Tensor, str], T], x: Tensor, features: str) -> T:
    made, version = _scaled.setdefault(x, {}), 0 if x.is_inference() else x._version
    key = function, features
    if key not in made or made[key][0] != version:
        made[key] = version, function(x, features)
    return made[key][1]


def _warnings(x: Tensor, features: str) -> list[str]:
    mapped = getattr(x, "mapped", False)
    centred = features == "auto" and (mapped or isinstance(scaled_features(x, features), Tensor))
    low, high = cleaning.ends(_in_memory(x))
    if not (low < high).any():
        return ["all nodes have the same features. Give features that differ between nodes."]
    size = high - low if centred else torch.maximum(low.abs(), high.abs())
    largest, usual = float(size.max()), float(size[size > 0].median())
    if features == "none" and not 1 / HUGE <= largest <= HUGE or largest < 1e3 * SHORT:
        return [f"the largest feature is {largest:g}. Scale the features to about 1."]
    if largest > HUGE * usual:
        return [
            f"feature {int(size.argmax())} is {largest:g}, which outweighs the other "
            f"features (typically {usual:g}). Scale this column."
        ]
    return []


def _in_memory(x: Tensor) -> Tensor:
    """The matrix in strided layout, without gradients."""
    return cleaning.narrowed((x if x.layout == torch.strided else x.to_dense()).detach())


def _scale(x: Tensor, features: str) -> Sparse | Tensor:
    dense = _in_memory(x)
    if getattr(x, "dense", int(dense.count_nonzero()) >= SPARSE_BELOW * dense.numel()):
        return _scale_rows(_centred(dense) if features == "auto" else dense, features)
    matrix = sp.csr_array(dense.cpu().numpy())
    if features != "none":
        size = abs(matrix) if features == "row" else matrix * matrix
        length = np.asarray(size.sum(1), dtype=matrix.dtype) ** (1 if features == "row" else 0.5)
        matrix.data /= np.repeat(np.maximum(length, SHORT), np.diff(matrix.indptr))
    return Sparse(matrix, x.device)


def _centred(x: Tensor) -> Tensor:
    """Dense rows without their large common component, which hides their differences."""
    x = x.double() if cleaning.offset(*cleaning.ends(x)).any() else x
    return x - x.mean(0)


def _scale_rows(x: Tensor, features: str) -> Tensor:
    """Dense rows ``[n, F]`` in float32, scaled to sum or length 1 unless ``features`` is none."""
    if features == "none":
        return x.float().contiguous()
    length = x.abs().sum(1) if features == "row" else x.norm(dim=1)
    return (x / length.clamp(min=SHORT)[:, None]).float().contiguous()


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
            total = sum(rows.sum(0, dtype=torch.float64) for rows in x.split(cleaning.ROWS))
            self.mean = total.div(len(x)).float()

    def __getitem__(self, nodes: Tensor | slice) -> Tensor:
        rows = self.x[nodes.cpu() if isinstance(nodes, Tensor) else nodes]
        rows = rows if self.mean is None else rows - self.mean
        return _scale_rows(rows, self.features).to(self.device)

    def __matmul__(self, weight: Tensor) -> NoReturn:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise an error because the whole matrix cannot be read at once.

        Raises:
            InputError: always.
        """
        raise InputError.plain(
            "file.mapped",
            "this method reads the whole feature matrix at once",
            "Set file.mapped to False, or use GCN, SAGE, GAT or an MLP with batch_size above 0 and "
            "another score than odin",
        )

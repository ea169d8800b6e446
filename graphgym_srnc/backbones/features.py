"""Node features as encoders read them: scaled, and stored dense or sparse."""

from __future__ import annotations

import functools
from typing import Callable, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.data import cleaning

FEATURES = ("row", "l2", "auto", "none")
"""Feature scalings, see :class:`graphgym_srnc.backbones.graph.Graph`."""

SPARSE_BELOW = 0.2  # share of non-zero features below which features are stored sparse
SHORT = 1e-12  # length up to which a row counts as zero
HUGE = 1e6  # ratio of magnitudes that gives a warning

_results: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Version and result by original matrix, function and scaling."""

T = TypeVar("T")


def _cached(function: Callable[[Tensor, str], T]) -> Callable[[Tensor, str], T]:
    """Cache results until the matrix dies or is modified in place."""

    @functools.wraps(function)
    def cached(x: Tensor, features: str) -> T:
        made, version = _results.setdefault(x, {}), 0 if x.is_inference() else x._version
        key = function, features
        if key not in made or made[key][0] != version:
            made[key] = version, function(x, features)
        return made[key][1]

    return cached


@_cached
def scaled_features(x: Tensor, features: str) -> Sparse | Tensor:
    """Features ``[V, F]`` scaled by one of ``FEATURES``, cached for all graphs that share them.

    The optional attribute ``dense`` of the matrix overrides the choice of dense or sparse storage.
    """
    dense = _strided(x)
    if getattr(x, "dense", int(dense.count_nonzero()) >= SPARSE_BELOW * dense.numel()):
        if features == "auto":
            # A large common component would hide the differences between rows.
            dense = dense.double() if cleaning.offset(*cleaning.ends(dense)).any() else dense
            dense = dense - dense.mean(0)
        if features != "none":
            length = dense.abs().sum(1) if features == "row" else dense.norm(dim=1)
            dense = dense / length.clamp(min=SHORT)[:, None]
        return dense.float().contiguous()
    matrix = sp.csr_array(dense.cpu().numpy())
    if features != "none":
        size = abs(matrix) if features == "row" else matrix * matrix
        length = np.asarray(size.sum(1), dtype=matrix.dtype) ** (1 if features == "row" else 0.5)
        matrix.data /= np.repeat(np.maximum(length, SHORT), np.diff(matrix.indptr))
    return Sparse(matrix, x.device)


@_cached
def feature_warnings(x: Tensor, features: str) -> list[str]:
    """A sentence on why scaling loses differences between nodes, if it does; cached."""
    centred = features == "auto" and isinstance(scaled_features(x, features), Tensor)
    low, high = cleaning.ends(_strided(x))
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


def _strided(x: Tensor) -> Tensor:
    """The matrix in strided layout, without gradients."""
    return cleaning.narrowed((x if x.layout == torch.strided else x.to_dense()).detach())

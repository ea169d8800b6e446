"""Node features as encoders read them: scaled, and stored dense or sparse."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.data import cleaning

FEATURES = ("row", "l2", "auto", "none")
"""Feature scalings, see :class:`graphgym_srnc.backbones.graph.Graph`."""

SPARSE_BELOW = 0.2  # share of non-zero features below which features are stored sparse
SHORT = 1e-12  # length up to which a row counts as zero
HUGE = 1e6  # ratio of magnitudes that gives a warning

_results: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Version and result by original matrix, function and its other arguments."""

T = TypeVar("T")


def _cached(function: Callable[..., T]) -> Callable[..., T]:
    """Cache results until the matrix dies or is modified in place."""

    @functools.wraps(function)
    def cached(x: Tensor, *features: str) -> T:
        made = _results.setdefault(x, {})
        version = 0 if x.is_inference() else x._version
        key = function, *features
        if key not in made or made[key][0] != version:
            made[key] = version, function(x, *features)
        return made[key][1]

    return cached


class Scaling(nn.Module):
    """Statistics of the features of a training graph, by which those of later graphs are scaled.

    A node is then predicted alike, whichever other nodes its graph has.

    Attributes:
        mean: mean of each column, ``[F]``; empty if features are stored sparse.
        exact: whether the mean is subtracted in double precision.
    """

    mean: Tensor
    exact: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(0, dtype=torch.float64))
        self.register_buffer("exact", torch.tensor(False))

    def fit(self, x: Tensor) -> None:
        """Store the statistics of features ``[V, F]``."""
        mean = _column_means(x)
        self.exact = torch.tensor(mean is not None and mean.dtype == torch.float64).to(x.device)
        self.mean = x.new_zeros(0, dtype=torch.float64) if mean is None else mean.double()

    @property
    def means(self) -> Tensor | None:
        """The mean in the precision of training, or None if features are stored sparse."""
        if not len(self.mean):
            return None
        return self.mean if self.exact else self.mean.float()

    def attach(self, x: Tensor) -> Tensor:
        """The same features, which :func:`scaled_features` scales by these statistics."""
        scaled: Any = x.detach()  # the caller's tensor gets no attribute
        scaled.scaling = self
        return scaled

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Whether there is a mean does not follow from the sizes of the task.
        self.mean = self.mean.new_empty(state[f"{prefix}mean"].shape)
        super()._load_from_state_dict(state, prefix, *rest)


@_cached
def _column_means(x: Tensor) -> Tensor | None:
    """Mean of each column, or None if features are stored sparse; cached."""
    scaling = getattr(x, "scaling", None)
    if scaling is not None:
        return scaling.means
    dense = cleaning.narrowed(cleaning.strided(x.detach()))
    if int(dense.count_nonzero()) < SPARSE_BELOW * dense.numel():
        return None
    # A large common component would hide the differences between rows.
    dense = dense.double() if cleaning.offset(*cleaning.ends(dense)).any() else dense
    return dense.mean(0)


@_cached
def _entries(x: Tensor) -> sp.csr_array:
    """The features other than zero, ``[V, F]``; cached, so that scalings share their places."""
    if x.layout == torch.sparse_coo:
        place = x.indices().cpu().numpy()
        return sp.csr_array((x.values().cpu().numpy(), place), x.shape)
    dense = cleaning.narrowed(cleaning.strided(x.detach())).cpu().numpy()
    rows, width = dense.shape
    flat = dense.ravel()
    place = np.flatnonzero(flat)  # faster than places of two dimensions, which SciPy finds
    starts = np.searchsorted(place, np.arange(rows + 1) * width)
    return sp.csr_array((flat[place], place % width, starts), dense.shape)


@_cached
def scaled_features(x: Tensor, features: str) -> Sparse | Tensor:
    """Features ``[V, F]`` scaled by one of ``FEATURES``, cached for all graphs that share them.

    The statistics are those of an attached :class:`Scaling`, or else of the features themselves.
    """
    mean = _column_means(x)
    if mean is not None:
        dense = cleaning.strided(x.detach())
        centred = features == "auto"
        dense = dense.to(mean.dtype) - mean if centred else cleaning.narrowed(dense)
        if features != "none":
            length = dense.abs().sum(1) if features == "row" else dense.norm(dim=1)
            dense = dense / length.clamp(min=SHORT)[:, None]
        return dense.float().contiguous()
    matrix = _entries(x)
    if features != "none":
        matrix = sp.csr_array((matrix.data.copy(), matrix.indices, matrix.indptr), matrix.shape)
        size = abs(matrix) if features == "row" else matrix * matrix
        length = np.asarray(size.sum(1), dtype=matrix.dtype) ** (1 if features == "row" else 0.5)
        matrix.data /= np.repeat(np.maximum(length, SHORT), np.diff(matrix.indptr))
    return Sparse(matrix, x.device)


@_cached
def feature_warning(x: Tensor, features: str) -> str:
    """A sentence on why scaling loses differences between nodes; "" if it does not. Cached."""
    centred = features == "auto" and _column_means(x) is not None
    low, high = cleaning.ends(cleaning.narrowed(cleaning.strided(x.detach())))
    if not (low < high).any():
        return "all nodes have the same features. Give features that differ between nodes."
    size = high - low if centred else torch.maximum(low.abs(), high.abs())
    largest = float(size.max())
    usual = float(size[size > 0].median())
    if features == "none" and not 1 / HUGE <= largest <= HUGE or largest < 1e3 * SHORT:
        return f"the largest feature is {largest:g}. Scale the features to about 1."
    if largest > HUGE * usual:
        return (
            f"feature {int(size.argmax())} is {largest:g}, which outweighs the other "
            f"features (typically {usual:g}). Scale this column."
        )
    return ""

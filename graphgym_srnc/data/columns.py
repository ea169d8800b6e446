"""Columns of a feature matrix: their range, and the precision that they need."""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST, SMALLEST = 1e16, 1e-30
"""Magnitudes between which float32 holds the sum of the squares of a million features."""

OFFSET = 2.0**-10
"""Share of its magnitude by which a column must vary, so that float32 resolves its differences."""

ROWS = 2**16
"""Number of rows of a matrix that are read at a time."""


def narrowed(x: Tensor) -> Tensor:
    """Features ``[V, F]`` as float32, or as float64 where float32 would merge different values."""
    if x.dtype in (torch.float64, torch.int32, torch.int64, torch.uint32, torch.uint64):
        exact = x.double()
        size = magnitude(exact)
        if size and not SMALLEST <= size <= LARGEST or offset(*ends(exact)).any():
            return exact
    return x.float()


def ends(x: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest value of each column of ``[V, F]``."""
    low, high = zip(*((rows.amin(0), rows.amax(0)) for rows in x.split(ROWS)))
    return torch.stack(low).amin(0), torch.stack(high).amax(0)


def offset(low: Tensor, high: Tensor, share: float = OFFSET) -> Tensor:
    """Which columns vary, but by less than a share of their magnitude; see :func:`ends`."""
    return (low < high) & (high - low < share * torch.maximum(low.abs(), high.abs()))


def magnitude(x: Tensor) -> float:
    """How far the farthest feature is from zero."""
    return max(abs(float(end)) for end in x.aminmax())


def largest(x: Tensor) -> tuple[float, int, int]:
    """The feature of ``[V, F]`` farthest from zero, its node and its column."""
    low, high = x.aminmax()
    node, column = divmod(int(x.argmin() if -low > high else x.argmax()), x.size(1))
    return float(x[node, column]), node, column

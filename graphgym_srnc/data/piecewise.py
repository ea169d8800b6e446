"""Piecewise-linear encoding of numbers, by which a linear layer learns effects of any shape."""

from __future__ import annotations

from typing import Mapping

import numpy as np
import pandas

from graphgym_srnc.data.names import PIECE

PIECES = 10  # most pieces of a column, with equally many numbers each
LEAST = 20  # numbers of a piece


def learn(values: pandas.DataFrame) -> dict[str, list[float]]:
    """The ends of the pieces of each column ``[V]`` that has enough different numbers for two."""
    found = {}
    for name, cells in values.items():
        known = cells.dropna()
        shares = np.linspace(0, 1, min(PIECES, len(known) // LEAST) + 1)
        ends = np.unique(known.quantile(shares))
        if len(ends) > 2:
            found[str(name)] = ends.tolist()
    return found


def encoded(values: pandas.DataFrame, learnt: Mapping[str, list[float]]) -> pandas.DataFrame:
    r"""How far numbers ``[V, F]`` go through each piece, NaN for an empty cell.

    .. math:: e_t(v) = \min\left(1, \max\left(0, \frac{v - b_{t-1}}{b_t - b_{t-1}}\right)\right)

    References:
        Gorishniy, Rubachev and Babenko, "On Embeddings for Numerical Features in Tabular Deep
        Learning" (NeurIPS 2022), Eq. 1.
    """
    found = {}
    for name, ends in learnt.items():
        for low, high in zip(ends[:-1], ends[1:]):
            way = (values[name] - low) / (high - low)
            found[f"{PIECE}{name}: {low} to {high}"] = way.clip(0, 1)
    return pandas.DataFrame(found, index=values.index)

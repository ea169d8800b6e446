"""Columns of numbers with extreme values, whose features are ranks."""

from __future__ import annotations

from typing import Mapping

import numpy as np
import pandas

from graphgym_srnc.core.text import counted

# What was learnt of a column: some of its ``values``, sorted, and the ``ranks`` of these.
Ranks = dict[str, list[float]]
EXTREME = 30.0  # typical deviations from the median, for normal numbers 20 standard deviations
KNOTS = 1000  # most values of a column whose ranks are stored
LEAST_REPEATED = 3  # equal cells from which a value may mean that a number is missing
ISOLATED = 10.0  # times as far from the median as all other numbers are, of such a value


def learn(values: pandas.DataFrame) -> dict[str, Ranks]:
    """Ranks of each column ``[V]`` with a number far from the median; NaN is an empty cell.

    A number is far if its distance is more than 30 times the median distance of the numbers that
    are not the median. A standard deviation would not do, since extreme numbers enlarge it.
    """
    return {name: _ranks(cells.dropna()) for name, cells in values.items() if _is_extreme(cells)}


def ranked(values: pandas.DataFrame, learnt: Mapping[str, Ranks]) -> pandas.DataFrame:
    """Numbers with ranks in the place of the columns that :func:`learn` found.

    Between stored values a rank is interpolated. Beyond them it is that of the nearest one, so
    every number of a later table has a finite rank.
    """
    found = {
        name: np.interp(values[name].to_numpy(), one["values"], one["ranks"])
        for name, one in learnt.items()
    }
    return values.assign(**found)


def value_of(rank: float, learnt: Ranks) -> float:
    """The stored value of a column whose rank is nearest.

    No value is interpolated, since one beside an extreme number would be far from both.
    """
    pairs = zip(learnt["ranks"], learnt["values"])
    return min(pairs, key=lambda pair: abs(pair[0] - rank))[1]


def on_column(cells: pandas.Series) -> tuple[str, bool]:
    """A sentence on the extreme numbers of a column ``[V]``, and whether users should check them.

    They should if the most extreme number repeats and is isolated, since such numbers often mean
    that a number is missing.
    """
    known = cells.dropna()
    median = known.median()
    distance = (known - median).abs()
    extreme = known[distance.idxmax()]
    is_it = known == extreme
    rank = f"{cells.name}: the feature is the rank of each number, since"
    if is_it.sum() < LEAST_REPEATED or distance.max() <= ISOLATED * distance[~is_it].max():
        return f"{rank} one number is {extreme:g} and the median is {median:g}.", False
    low, high = known[~is_it].agg(["min", "max"])
    return (
        f"{rank} {counted(int(is_it.sum()), 'cell')} are {extreme:g}, and all others lie between"
        f" {low:g} and {high:g}. If {extreme:g} means that the number is missing, empty these cells"
        " and make the graph again.",
        True,
    )


def _is_extreme(cells: pandas.Series) -> bool:
    distance = (cells - cells.median()).abs()
    return bool(distance.max() > EXTREME * distance[distance > 0].median())


def _ranks(known: pandas.Series) -> Ranks:
    """Mean rank, between 0 and 1, of at most :data:`KNOTS` values at equal steps of the rank."""
    every = np.sort(known.to_numpy())
    places = np.linspace(0, len(every) - 1, min(len(every), KNOTS)).round().astype(int)
    values = np.unique(every[places])
    ends = np.searchsorted(every, values, "left") + np.searchsorted(every, values, "right")
    return {"values": values.tolist(), "ranks": (ends / (2 * len(every))).tolist()}

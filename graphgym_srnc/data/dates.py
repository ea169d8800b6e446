"""Dates of nodes, and whether those of labelled nodes are older or newer than those of others."""

from __future__ import annotations

from typing import Collection, NamedTuple, Sequence

import numpy as np
import pandas

from graphgym_srnc.core.task import ENOUGH
from graphgym_srnc.errors import InputError

# Whole dates, or a month or a year; the standard form first.
OF_DAYS = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y")
OF_MONTHS = ("%B %Y", "%b %Y", "%b-%Y", "%b-%y", "%Y/%m")
NUMBERS = ("ISO8601", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y")
FORMS = (*NUMBERS, *OF_DAYS, "%d-%b-%Y", "%d-%b-%y", *OF_MONTHS)
ORDERS = {  # by what is first
    "day": ("%d/%m/%Y", "%d/%m/%y", "%d-%m-%Y"),
    "month": ("%m/%d/%Y", "%m/%d/%y", "%m-%d-%Y"),
}
PROBED = 100  # cells that tell whether a column may hold dates
MOSTLY = 0.95  # share of the cells of a column of dates that can be read
COVERED = 0.95  # share of the dates of labelled nodes that are told
ANOTHER_TIME = 0.2  # share of the other nodes that are earlier or later than these; else by chance
FIRST_YEAR = 1000  # of dates; earlier years do not have four digits
YEARS = (1500, 2100)  # whole numbers that may be years
LEAST = 20  # labelled and other nodes with a date


def read(cells: Sequence[str]) -> list[pandas.Series]:
    """Each reading ``[V]`` of cells as dates, NaT for other cells; two if they differ.

    It reads nearly all cells, otherwise there is none.
    """
    given = _filled(cells)
    for part in (given.dropna().head(PROBED), given):  # most columns are told by their first cells
        found = _readings(part)
        most = max(int(dates.notna().sum()) for dates in found)
        if not most or most < MOSTLY * part.notna().sum():
            return []
    best = [dates for dates in found if dates.notna().sum() == most]
    return best[: 1 if best[0].equals(best[-1]) else None]


def _filled(cells: Sequence[str]) -> pandas.Series:
    """Cells ``[V]`` with NaN for an empty one."""
    given = pandas.Series([*cells], dtype=object)
    return given.mask(given == "")


def may_be_years(numbers: pandas.Series) -> bool:
    """Whether all numbers are whole and in the range of years."""
    known = numbers.dropna()
    return bool(len(known) and (known % 1 == 0).all() and known.between(*YEARS).all())


def _readings(cells: pandas.Series) -> list[pandas.Series]:
    """Dates of cells, NaT for those of no form, with each order of day and month."""
    found = _dates(cells, FORMS)
    rest = cells[found.isna()]
    return [found.fillna(_dates(rest, order)) for order in ORDERS.values()]


def _dates(cells: pandas.Series, forms: Sequence[str]) -> pandas.Series:
    """Dates of cells by the first form that each has, NaT for those of no form."""
    found = pandas.Series(pandas.NaT, cells.index, dtype="datetime64[s, UTC]")
    # Without it pandas tries each form for all texts, and reads "now".
    may_be = cells.astype(str).str.contains(r"\d\d")
    for form in forms:
        rest = cells[found.isna() & may_be]
        if rest.empty:
            break
        own = pandas.to_datetime(rest, format=form, errors="coerce", utc=True).dt.as_unit("s")
        found[rest.index] = own.where(own.dt.year >= FIRST_YEAR)
    return found


def of_column(cells: Sequence[str], name: str) -> list[str]:
    """Dates such as ``1994-01-31`` in the place of cells; "" for those that are none.

    Raises:
        InputError: most cells are no dates, or may be different ones.
    """
    hint = "Write dates such as 1994-01-31, 1994-01 or 1994"
    found = read(cells)
    if not found:
        given = _filled(cells)
        wrong = given[min((given.notna() & own.isna() for own in _readings(given)), key=sum)]
        message = f"{len(wrong):,} of {given.count():,} cells of {name} are no dates"
        if len(wrong):
            message += f", such as {wrong.iloc[0]!r}"
        raise InputError.plain("date", message, hint)
    if len(found) > 1:
        place = int(np.flatnonzero((found[0] != found[1]) & found[0].notna())[0])
        message = f"{name}: {cells[place]} may have the day or the month first"
        raise InputError.plain("date", message, hint)
    return written(found[0])


def written(dates: pandas.Series) -> list[str]:
    """Dates such as ``1994-01-31``; "" for none."""
    return [*dates.dt.strftime("%Y-%m-%d").fillna("")]


class Gap(NamedTuple):
    """The dates of most labelled nodes, and the shares of other nodes that are of another time."""

    first: str
    last: str
    shares: dict[str, float]  # by ``earlier`` and ``later``


def gap(dates: Sequence[str], is_labelled: np.ndarray, added: Collection[int] = ()) -> Gap | None:
    """The gap between labelled nodes ``[V]`` and others; None if most are of the same time.

    Args:
        dates: those of :func:`of_column`, ``[V]``.
        is_labelled: nodes with a label, ``[V]``.
        added: nodes whose label was added after a first run; they count as nodes without one.
    """
    known = pandas.Series([*dates], dtype=object)
    is_given = _without(is_labelled, added)
    labelled = known[is_given & (known != "")].sort_values()
    others = known[~is_given & (known != "")]
    if min(len(labelled), len(others)) < LEAST:
        return None
    cut = round((1 - COVERED) / 2 * (len(labelled) - 1))
    first = labelled.iloc[cut]
    last = labelled.iloc[-1 - cut]
    shares = {"earlier": float((others < first).mean()), "later": float((others > last).mean())}
    far = {word: share for word, share in shares.items() if share >= ANOTHER_TIME}
    return Gap(first, last, far) if far else None


def _without(mask: np.ndarray, nodes: Collection[int]) -> np.ndarray:
    """A mask ``[V]`` that is false at some nodes."""
    found = mask.copy()
    found[[*nodes]] = False
    return found


def drawn(
    dates: Sequence[str],
    is_labelled: np.ndarray,
    chosen: Collection[int] = (),
    sampled: Collection[int] = (),
) -> np.ndarray | None:
    """Nodes ``[V]`` from which labels were drawn at random; None without a :func:`gap`.

    These are the nodes of the time of the given labels. If enough of the other nodes have got
    labels at random since, they are the other nodes, since no older labels represent these.

    Args:
        dates, is_labelled: see :func:`gap`.
        chosen: nodes whose label was added after a first run because of what it predicts.
        sampled: nodes drawn at random after a first run to be labelled.
    """
    later = {*chosen, *sampled}
    found = gap(dates, is_labelled, later)
    if found is None:
        return None
    known = pandas.Series([*dates], dtype=object)
    in_range = known.between(found.first, found.last).to_numpy()
    is_of_time = _without(is_labelled, later) | in_range
    is_other = ~is_of_time
    return is_other if is_other[[*sampled]].sum() >= ENOUGH else is_of_time


def on_labelled(dates: Sequence[str], is_labelled: np.ndarray, added: Collection[int] = ()) -> str:
    """A sentence on a :func:`gap`, with its arguments; "" if there is none."""
    found = gap(dates, is_labelled, added)
    if found is None:
        return ""
    shares = [
        f"{100 * share:.0f} % of the other nodes are {word}" for word, share in found.shares.items()
    ]
    text = (
        f"{100 * COVERED:.0f} % of the given labels are of {found.first} to {found.last}, and"
        f" {' and '.join(shares)}. Accuracies on held-out labels hold for the time of the labels,"
        " and are often too high for the other nodes. A class that has changed looks like an"
        " unknown one."
    )
    return text if added else f"{text} Label some of the {' and '.join(found.shares)} nodes."

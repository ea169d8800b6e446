"""Dates of nodes, and whether those of labelled nodes are older or newer than those of others."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
import pandas

from graphgym_srnc.data.labels import EMPTY
from graphgym_srnc.errors import InputError

# Whole dates, or a year and a month; the standard format first.
FORMATS = ("ISO8601", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d %B %Y", "%B %d, %Y")
PROBED = 100  # cells that tell whether a column may hold dates
COVERED = 0.95  # share of the dates of labelled nodes that are told
ANOTHER_TIME = 0.2  # share of the other nodes that are earlier or later than these; else by chance
LEAST = 20  # labelled and other nodes with a date


def read(cells: Sequence[str]) -> list[pandas.Series]:
    """Each reading ``[V]`` of cells as dates, NaT for empty ones; several if they differ."""
    given = pandas.Series([*cells], dtype=object)
    given = given.mask(given.str.lower().isin({"", *EMPTY}))
    found: list[pandas.Series] = []
    if not given.notna().any():
        return found
    probe = given.dropna().head(PROBED)
    for form in FORMATS:
        if _dates(probe, form).isna().any():
            continue
        dates = _dates(given, form)
        is_whole = dates.notna().equals(given.notna())
        if is_whole and not any(dates.equals(other) for other in found):
            found.append(dates)
    return found


def _dates(cells: pandas.Series, form: str) -> pandas.Series:
    return pandas.to_datetime(cells, format=form, errors="coerce", utc=True)


def of_column(cells: Sequence[str], name: str) -> list[str]:
    """Dates such as ``1994-01-31`` in the place of cells; "" for an empty one.

    Raises:
        InputError: the cells are no dates, or may be different ones.
    """
    found = read(cells)
    if not found:
        message = f"not every cell of {name} is a date of the same form"
        raise InputError.plain(
            "date", message, "Write dates such as 1994-01-31, or leave cells empty"
        )
    if len(found) > 1:
        place = int(np.flatnonzero((found[0] != found[1]) & found[0].notna())[0])
        message = f"{name}: {cells[place]} may have the day or the month first"
        raise InputError.plain("date", message, "Write dates such as 1994-01-31")
    return written(found[0])


def written(dates: pandas.Series) -> list[str]:
    """Dates such as ``1994-01-31``; "" for none."""
    return [*dates.dt.strftime("%Y-%m-%d").fillna("")]


class Gap(NamedTuple):
    """The dates of most labelled nodes, and the shares of other nodes that are of another time."""

    first: str
    last: str
    shares: dict[str, float]  # by ``earlier`` and ``later``


def gap(dates: pandas.Series, is_labelled: np.ndarray) -> Gap | None:
    """The gap between dates ``[V]`` of labelled and of other nodes; None if there is none."""
    labelled = dates[is_labelled & (dates != "")].sort_values()
    others = dates[~is_labelled & (dates != "")]
    if min(len(labelled), len(others)) < LEAST:
        return None
    cut = round((1 - COVERED) / 2 * (len(labelled) - 1))
    first = labelled.iloc[cut]
    last = labelled.iloc[-1 - cut]
    shares = {"earlier": float((others < first).mean()), "later": float((others > last).mean())}
    far = {word: share for word, share in shares.items() if share >= ANOTHER_TIME}
    return Gap(first, last, far) if far else None


def on_labelled(dates: Sequence[str], is_labelled: np.ndarray, is_added: np.ndarray) -> str:
    """A sentence if labelled nodes are of another time than many others; "" if not.

    Args:
        dates: those of :func:`of_column`, ``[V]``.
        is_labelled: nodes with a label, ``[V]``.
        is_added: those whose label was added after a first run, which are not held out, ``[V]``.
    """
    known = pandas.Series([*dates], dtype=object)
    found = gap(known.mask(is_added, ""), is_labelled)
    if found is None:
        return ""
    shares = [f"{100 * share:.0f} % of the others {word}" for word, share in found.shares.items()]
    labelled = "labelled nodes" + (", without labels added later," if is_added.any() else "")
    text = (
        f"{100 * COVERED:.0f} % of the {labelled} are of {found.first} to {found.last}, and"
        f" {' and '.join(shares)}. Accuracies on held-out labels are those of that time."
    )
    if gap(known, is_labelled) is not None:
        text += (
            " Classes that have changed since look like an unknown class. Label some of the"
            f" {' and '.join(found.shares)} nodes."
        )
    return text

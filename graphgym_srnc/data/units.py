"""Numbers that are written with a unit, such as ``36 mm`` or ``$5``, or with a decimal comma."""

from __future__ import annotations

import re
from collections import Counter
from typing import Sequence

BEFORE = r"([$€£¥]?)\s?"
POWER = r"(?:[eE][+-]?\d+)?"
AFTER = r"\s?([^\W\d_]{1,4}|[%°€])?"
WITH_UNIT = re.compile(rf"{BEFORE}([+-]?\d+(?:\.\d+)?{POWER}){AFTER}")
WITH_POINT = re.compile(rf"{BEFORE}[+-]?(?=\.?\d)\d*\.\d*{POWER}{AFTER}")
ONE_COMMA = re.compile(rf"{BEFORE}[+-]?\d*,\d+{POWER}{AFTER}")
UNCLEAR = re.compile(rf"{BEFORE}[+-]?[1-9]\d{{0,2}},\d{{3}}{AFTER}")  # 3,881 is 3.881 or 3881
GROUPED = re.compile(
    rf"{BEFORE}[+-]?\d{{1,3}}((,\d{{3}})+(\.\d+)?|(\.\d{{3}})+,\d+){AFTER}"
)  # 1,234.5 or 1.234,5
MULTIPLES = {"k", "m", "b", "t", "mn", "bn"}  # in lower case; 5k is not 5
TRUTH = {"true": "1", "false": "0"}


def plain(cells: Sequence[str]) -> list[str]:
    """Cells with 1 and 0 in the place of true and false, and without their unit if they have one.

    With several units the cells stay as they are, and beside numbers without a unit, those with a
    unit that may multiply them.
    """
    cells = [TRUTH.get(cell.lower(), cell) for cell in cells]
    found = {cell: WITH_UNIT.fullmatch(cell) for cell in {*cells} - {""}}
    units = {_unit(one) for one in found.values() if one}
    if len(units - {""}) != 1 or ("" in units and {unit.lower() for unit in units} & MULTIPLES):
        return cells
    numbers = {cell: one[2] for cell, one in found.items() if one}
    return [numbers.get(cell, cell) for cell in cells]


def with_point(cells: Sequence[str], is_decimal: bool = False) -> list[str]:
    """Cells with a point in the place of a decimal comma.

    They stay as they are if a number has a point, or if each comma may separate thousands.
    ``is_decimal`` = an earlier table has shown that commas of this column are decimal.
    """
    if "," not in "".join(cells):  # far faster than looking at each cell
        return [*cells]
    different = {*cells}
    with_comma = {*filter(ONE_COMMA.fullmatch, different)}
    is_clear = is_decimal or not all(map(UNCLEAR.fullmatch, with_comma))
    if not is_clear or any(map(WITH_POINT.fullmatch, different)):
        return [*cells]
    return [cell.replace(",", ".") if cell in with_comma else cell for cell in cells]


def two_readings(cells: Sequence[str]) -> list[str]:
    """The first cell with a decimal comma and with one between thousands, if each may be both."""
    if not all(map(UNCLEAR.fullmatch, cells)):
        return []
    return [cells[0].replace(",", mark) for mark in (".", "")]


def has_comma(cell: str) -> bool:
    """Whether a cell is a number with a comma, such as 12,6 or 1,234.5."""
    return bool(ONE_COMMA.fullmatch(cell) or GROUPED.fullmatch(cell))


def several(cells: Sequence[str]) -> list[str]:
    """The units of cells, the most frequent first, if there are several; otherwise none."""
    found = [WITH_UNIT.fullmatch(cell.replace(",", ".")) for cell in cells]
    count = Counter(_unit(one) for one in found if one)
    names = [unit for unit, _ in count.most_common() if unit]
    return names if len(names) > 1 else []


def _unit(found: re.Match[str]) -> str:
    return found[1] or found[3] or ""

"""Numbers that are written with a unit, such as ``36 mm`` or ``$5``."""

from __future__ import annotations

import re
from collections import Counter
from typing import Sequence

WITH_UNIT = re.compile(
    r"([$€£¥]?)\s?([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s?([^\W\d_]{1,4}|[%°€])?"
)
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")  # 3,881 may be 3881 or 3.881
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


def several(cells: Sequence[str]) -> list[str]:
    """The units of cells, the most frequent first, if there are several; otherwise none."""
    found = [WITH_UNIT.fullmatch(cell) for cell in cells]
    count = Counter(_unit(one) for one in found if one)
    names = [unit for unit, _ in count.most_common() if unit]
    return names if len(names) > 1 else []


def _unit(found: re.Match[str]) -> str:
    return found[1] or found[3] or ""

"""One rule for text that is shown: on a terminal, in a page, a table, a spreadsheet or a picture."""
from __future__ import annotations

import math
from typing import Any, Sequence


def clean(text: str) -> str:
    """Text that cannot move a terminal's cursor or break a line."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def one_line(text: Any) -> str:
    """A text on one line; no letter is lost, as in what is stored rather than shown."""
    return " ".join(str(text).split())


def plain(text: Any) -> str:
    """A text on one line without what has no picture, such as marks that turn the direction of writing."""
    return clean(one_line(text))


def short(text: Any, most: int = 18) -> str:
    """A text of at most so many letters, on one line."""
    text = one_line(text)
    return text if len(text) <= most else text[:most - 1] + "…"


def guarded(value: str | float | None) -> str | float | None:
    """Text that no spreadsheet takes for a formula; NaN is an empty cell."""
    if isinstance(value, str):
        return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
    return None if value is None or math.isnan(value) else value


def escape_markdown(text: str) -> str:
    """Text that ends no cell of a Markdown table and is no HTML."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells with their columns below each other."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    rows = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths)) for line in lines)
    return "\n".join(map(str.rstrip, rows)) + "\n"


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Lines of escaped cells as a Markdown table; the first is its head."""
    rows = (lines[0], ["---"] * len(lines[0]), *lines[1:])
    return "".join(f"| {' | '.join(line)} |\n" for line in rows)

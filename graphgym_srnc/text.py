"""One rule for text that is shown on a terminal, in a page, a table or a picture."""
from __future__ import annotations

import csv
import functools
import io
import math
import re
import sys
from typing import Any, Iterable, Sequence


def clean(text: str) -> str:
    """Text that cannot move a terminal's cursor or break a line."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


@functools.cache
def tell_changed(file: str) -> None:
    """Say on stderr, once, that a file is no longer as it was written.

    That is right if somebody edited it, and the only sign there is if the disk did.
    """
    text = f"note: {clean(file)} is no longer as graphgym-srnc wrote it"
    print(text, file=sys.stderr, flush=True)


def one_line(text: Any) -> str:
    """A text on one line; no letter is lost, as in what is stored rather than shown."""
    return " ".join(str(text).split())


def plain(text: Any) -> str:
    """A text on one line with ``?`` for what has no picture, such as marks of direction."""
    return clean(one_line(text))


def short(text: Any, most: int = 18) -> str:
    """A text on one line of at most ``most`` letters."""
    text = plain(text)
    return text if len(text) <= most else text[:most - 1] + "…"


def counted(number: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {noun}" + "s" * (number != 1)


def listed(items: Sequence[str], most: int = 8) -> str:
    """``a, b and c``; of more than ``most`` items the number of the rest."""
    shown = [*items[:most], *([f"{len(items) - most} more"] if len(items) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def guarded(value: str | float | None) -> str | float | None:
    """A value for a spreadsheet: text is never taken for a formula, and NaN is an empty cell."""
    if isinstance(value, str):
        return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
    return None if value is None or math.isnan(value) else value


def to_csv(lines: Iterable[Iterable[str | float | None]]) -> str:
    """Lines of cells as CSV, each :func:`guarded`, figures in full precision."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(guarded, line) for line in lines)
    return out.getvalue()


def escape_markdown(text: str) -> str:
    """Text that ends no cell of a Markdown table and becomes no HTML, code, link or picture."""
    text = re.sub(r"[\\`|\[\]]", r"\\\g<0>", text.replace("&", "&amp;"))
    text = text.replace("<", "&lt;").replace(">", "&gt;")
    # An address alone is made a link by some readers.
    return text.replace("://", "&#58;//").replace("@", "&#64;").replace("www.", "www&#46;")


def aligned(lines: Sequence[Sequence[str]], right: bool = False) -> str:
    """Lines of cells in columns; ``right``: all columns but the first end at one edge."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    adjust = str.rjust if right else str.ljust
    rows = ("  ".join([line[0].ljust(widths[0]), *map(adjust, line[1:], widths[1:])])
            for line in lines)
    return "\n".join(map(str.rstrip, rows)) + "\n"


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Lines of escaped cells as a Markdown table; the first is its head."""
    rows = (lines[0], ["---"] * len(lines[0]), *lines[1:])
    return "".join(f"| {' | '.join(line)} |\n" for line in rows)

"""Tables in Markdown, and their places in pages of the documentation; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Sequence

END = "<!-- end of table -->"


def table(head: Sequence[Any], lines: Iterable[Sequence[Any]]) -> str:
    """A table whose columns stand below each other, all but the first flush right."""
    rows = [list(map(str, line)) for line in (head, *lines)]
    widths = [max(3, *map(len, column)) for column in zip(*rows)]
    rows.insert(
        1, ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    )
    text = ""
    for row in rows:
        cells = [
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text


def check(path: Path, program: str) -> None:
    """Refuse a page without a place for the tables of a program of this folder.

    Raises:
        SystemExit: the page is there, its marks are not.
    """
    _split(path, program)


def write(path: Path, program: str, text: str) -> None:
    """Put a text between the marks of a page, or make the page of it.

    Raises:
        SystemExit: the page is there, its marks are not.
    """
    before, after = _split(path, program)
    path.write_text(f"{before}{_begin(program)}\n{text}{END}{after}", encoding="utf-8")


def _begin(program: str) -> str:
    return f"<!-- table of benchmarks/{program} -->"


def _split(path: Path, program: str) -> tuple[str, str]:
    """What stands before the first mark and after the last one."""
    if not path.exists():
        return "", "\n"
    before, begin, rest = path.read_text(encoding="utf-8").partition(_begin(program))
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} has no lines {_begin(program)} and {END}; it stays as it is")
    return before, after

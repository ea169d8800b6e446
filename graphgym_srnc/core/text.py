"""Text for terminals, pages, tables and pictures."""

from __future__ import annotations

import csv
import functools
import io
import os
import re
import shutil
import sys
import textwrap
import warnings
from typing import Any, Iterable, Sequence, TextIO

from graphgym_srnc.errors import ShiftWarning

WIDTH = 80  # maximum width of lines on a terminal


def clean(text: str) -> str:
    """Text that cannot move a terminal's cursor or break a line."""
    if text.isprintable():  # much faster for the usual case
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def tell(line: str, out: TextIO | None = None) -> None:
    """Print a line of which no character steers the terminal.

    A terminal gets it wrapped at words, but a command for copying whole.
    """
    out = out or sys.stdout
    line = "\n".join(map(clean, line.split("\n")))
    if out.isatty() and not line.startswith("  graphgym-srnc "):
        wrapper = textwrap.TextWrapper(width(), subsequent_indent="  ")
        wrapper.break_long_words = wrapper.break_on_hyphens = False  # paths and options stay whole
        line = wrapper.fill(line)
    print(line, file=out, flush=True)


def width() -> int:
    """Width of lines on a terminal."""
    return min(WIDTH, shutil.get_terminal_size().columns)


def warn(text: str) -> None:
    """Warn at the line of the user that led here."""
    # The argument skip_file_prefixes of warnings.warn does this from Python 3.12 on.
    frame = sys._getframe()
    level = 1
    ours = ("graphgym_srnc", "contextlib")
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        frame = frame.f_back
        level = level + 1
    warnings.warn(text, ShiftWarning, stacklevel=level)


@functools.cache
def tell_once(note: str) -> None:
    """Print a note on stderr, once."""
    tell(f"note: {clean(note)}", sys.stderr)


def tell_changed(file: str) -> None:
    """Print once on stderr that a file has changed since it was written, by hand or by a fault."""
    tell_once(f"{file} is no longer as graphgym-srnc wrote it")


def one_line(text: Any) -> str:
    """A text on one line, as it is stored."""
    return " ".join(str(text).split())


def plain(text: Any) -> str:
    """A text on one line as it is shown, with ``?`` for characters that are not printable."""
    text = str(text)
    # The usual text is so already; of all white space only a blank is printable.
    if text.isprintable() and "  " not in text and text == text.strip():
        return text
    return clean(one_line(text))


def short(text: Any, most: int = 18) -> str:
    """A text on one line of at most ``most`` letters."""
    return cut(plain(text), most)


def cut(text: str, most: int) -> str:
    """A text that is already as it is shown, of at most ``most`` letters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def apart(names: Sequence[Any], most: int = 18) -> list[str]:
    """Short forms of names, of at most ``most`` letters, that differ where the names do.

    Names that begin alike, such as ``oxidoreductase activity, acting on ...``, keep their first
    letters and what follows the words that they share.
    """
    forms = {name: short(name, most) for name in {*names}}
    groups: dict[str, list[str]] = {}
    for name, form in forms.items():
        groups.setdefault(form, []).append(plain(name))
    found = []
    for name in names:
        alike = groups[forms[name]]
        shared = os.path.commonprefix(alike).rpartition(" ")[0] if len(alike) > 1 else ""
        first = most // 4
        is_long = len(shared) > first
        own = f"{shared[:first]}…{plain(name)[len(shared) + 1 :]}" if is_long else plain(name)
        found.append(cut(own, most))
    return found


def counted(number: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ranges(numbers: Iterable[int]) -> str:
    """``0 to 9, 12`` of 0, 1, ..., 9 and 12."""
    found = sorted(set(numbers))
    first = [number for number in found if number - 1 not in found]
    last = [number for number in found if number + 1 not in found]
    return ", ".join(f"{a} to {b}" if a < b else str(a) for a, b in zip(first, last))


def seeds(numbers: Iterable[int]) -> str:
    """``seeds 0 to 9, 12`` of 0, 1, ..., 9 and 12."""
    text = ranges(numbers)
    return f"seed {text}" if text.isdecimal() else f"seeds {text}"


def listed(items: Sequence[str], most: int = 8) -> str:
    """``a, b and c``; of more than ``most`` items the number of the rest."""
    shown = [*items[:most], *([f"{len(items) - most:,} more"] if len(items) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


# Where a spreadsheet may see a formula: the start of a cell, also if ``;`` separates cells.
FORMULA = re.compile(r"""((?:^|[;\t\r\n])[\s"]*)(?=[=+@＝＋－＠-])""")
MARK = re.compile(r"[=+@＝＋－＠-]")  # without any there is no formula
# Ids that a spreadsheet cannot execute: numbers, and words after ``@``.
HARMLESS = re.compile(r"[+-][\d., ]*\d(?:[eE][+-]?\d+)?|@[\w./-]+")


def guarded(value: str) -> str:
    """Text that no spreadsheet takes for a formula; ids such as ``-1`` and ``@user`` stay."""
    is_safe = not MARK.search(value) or HARMLESS.fullmatch(value)
    return value if is_safe else FORMULA.sub(r"\1'", value)


def to_csv(lines: Iterable[Iterable[Any]]) -> str:
    """Lines of cells as CSV, the head first, with numbers in full precision and NaN empty.

    Text is ``guarded``, and a note on stderr states how many cells changed.
    """
    return columns_to_csv(zip(*lines))


def columns_to_csv(columns: Iterable[Sequence[Any]]) -> str:
    """Columns of cells as CSV, each below its name, see ``to_csv``."""
    changed = 0
    written = []
    for column in columns:
        kinds = {*map(type, column[1:])}
        has_text = any(issubclass(kind, str) for kind in kinds)
        safe = {}
        for text in {*column} if has_text else {column[0]}:
            if isinstance(text, str) and guarded(text) != text:
                safe[text] = guarded(text)
        if safe:
            changed += sum(cell in safe for cell in column)
            column = [safe.get(cell, cell) for cell in column]
        written.append([None if cell != cell else cell for cell in column])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(zip(*written))
    if changed:
        note = f"note: {counted(changed, 'cell')} would be formulas in a spreadsheet, so a ' was"
        tell(f"{note} added to each.", sys.stderr)
    return out.getvalue()


def escape_markdown(text: str) -> str:
    """Text that ends no cell of a Markdown table and becomes no HTML, code, link or picture."""
    text = re.sub(r"[\\`|\[\]]", r"\\\g<0>", text.replace("&", "&amp;"))
    text = text.replace("<", "&lt;").replace(">", "&gt;")
    # Some readers turn a plain address into a link.
    return text.replace("://", "&#58;//").replace("@", "&#64;").replace("www.", "www&#46;")


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells in columns."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    rows = ("  ".join(map(str.ljust, line, widths)) for line in lines)
    return "\n".join(map(str.rstrip, rows)) + "\n"


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Lines of escaped cells as a Markdown table; the first is its head."""
    rows = (lines[0], ["---" for _ in lines[0]], *lines[1:])
    return "".join(f"| {' | '.join(line)} |\n" for line in rows)

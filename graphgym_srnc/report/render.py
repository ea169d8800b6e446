"""Tables as text, on a terminal, in Markdown, CSV and LaTeX."""

from __future__ import annotations

import shutil
import textwrap
from typing import Callable, Sequence, TextIO

from graphgym_srnc.core.text import aligned, escape_markdown, markdown
from graphgym_srnc.core.text import to_csv as csv_of
from graphgym_srnc.report.compare import CELL, Table
from graphgym_srnc.report.tables import SIGNS, Box, Grid, grids, means, remarks, title

LATEX = {
    **{c: "\\" + c for c in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "°": r"$^\circ$",
    "Δ": r"$\Delta$",
    "Φ": r"$\Phi$",
    "θ": r"$\theta$",
    "→": r"$\rightarrow$",
}


def text(table: Table, width: int = 120) -> str:
    """A comparison as plain text; a table wider than ``width`` is split by columns."""
    return plain_text(grids(table), remarks(table), width)


def plain_text(grids: Sequence[Grid], notes: Sequence[str], width: int | None) -> str:
    """Tables, and notes below them; None = as wide as they are."""

    def filled(line: str) -> str:
        return (textwrap.fill(line, width, subsequent_indent="  ") if width else line) + "\n"

    parts = [
        (filled(grid.title) if grid.title else "")
        + "\n".join(aligned(lines, grid.right) for lines in _fitted(grid, width))
        for grid in grids
    ]
    return "\n".join(parts) + "\n" + "".join(map(filled, notes))


def show(grids: Sequence[Grid], notes: Sequence[str], out: TextIO) -> None:
    """Print tables, on a terminal as wide as it is."""
    width = shutil.get_terminal_size().columns if out.isatty() else None
    print(plain_text(grids, notes, width), end="", file=out)


def show_comparison(table: Table, out: TextIO) -> None:
    """Print a comparison as wide as the terminal."""
    print(text(table, shutil.get_terminal_size((120, 24)).columns), end="", file=out)


def markdown_table(grid: Grid) -> str:
    """A Markdown table; the best cells are bold."""

    def cell(box: Box) -> str:
        escaped = escape_markdown(box.text)
        return f"**{escaped}**" if box.mark == "best" else escaped + SIGNS.get(box.mark, "")

    heading = f"### {escape_markdown(grid.title)}\n\n" if grid.title else ""
    lines = [list(map(cell, row)) for row in grid.rows]
    return heading + markdown([list(map(escape_markdown, grid.head)), *lines]) + "\n"


def to_markdown(table: Table) -> str:
    """A comparison as Markdown tables with its remarks below."""
    notes = (f"- {escape_markdown(remark)}\n" for remark in remarks(table, "Bold"))
    return "".join(map(markdown_table, grids(table))) + "".join(notes)


def to_latex(table: Table) -> str:
    """A comparison as in papers, by the package ``booktabs``.

    Each data set is a group of columns. The best mean is bold, the second best underlined, and all
    remarks are comments above.
    """

    def cell(box: Box) -> str:
        text = escape_latex(box.text)
        if box.mark == "best":
            text = rf"\textbf{{{text}}}"
        elif box.second:
            text = rf"\underline{{{text}}}"
        return text + escape_latex(SIGNS["tied"]) * (box.mark == "tied")

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    grid = means(table, table.metrics)
    groups, rules, first = [], [], 2
    for group in dict.fromkeys(grid.groups[1:]):
        last = first + list(grid.groups).count(group) - 1
        groups.append(rf"\multicolumn{{{last - first + 1}}}{{c}}{{{escape_latex(group)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{last}}}")
        first = last + 1
    heads = [line([escape_latex(grid.head[0]), *groups])]
    if len(grid.head) - 1 > len(groups) or len(table.metrics) > 1:
        heads += [" ".join(rules), line(["", *map(escape_latex, grid.head[1:])])]
    notes, marked = remarks(table, "Bold"), bool((table.cells["best"] == 1).any())
    notes[2 * marked : 2 * marked] = ["Underlined: the second best mean."] * marked
    titles = ", ".join(title(table, metric) for metric in table.metrics)
    caption = f"{titles}. " + " ".join(notes[: 3 if marked else 1])
    return "\n".join(
        [
            r"% Needs \usepackage{booktabs}, and UTF-8, which is LaTeX's default since 2018.",
            *(f"% {note}" for note in notes),
            r"\begin{table}[h]",
            r"\centering",
            rf"\caption{{{escape_latex(caption)}}}",
            rf"\begin{{tabular}}{{l{'c' * (len(grid.head) - 1)}}}",
            r"\toprule",
            *heads,
            r"\midrule",
            *(line(list(map(cell, row))) for row in grid.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def to_csv(table: Table, raw: bool = False) -> str:
    """A line per metric, row and column, in full precision; scores are fractions.

    Args:
        table: the comparison.
        raw: see :func:`graphgym_srnc.core.text.to_csv`.
    """
    present = table.cells[table.cells[["runs", "pairs"]].notna().any(axis=1)]
    return csv_of([CELL, *present[list(CELL)].itertuples(index=False)], raw)


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": text,
    "markdown": to_markdown,
    "csv": to_csv,
    "latex": to_latex,
}
SUFFIXES = {".txt": "text", ".md": "markdown", ".csv": "csv", ".tex": "latex"}


def escape_latex(text: str) -> str:
    """Text that LaTeX prints unchanged."""
    return "".join(LATEX.get(c, c) for c in text)


def _fitted(grid: Grid, width: int | None) -> list[list[list[str]]]:
    """The lines of a table, split by columns into several tables that fit the width."""
    body = [[box.text + SIGNS.get(box.mark, "") for box in row] for row in grid.rows]
    lines = [list(grid.head), *body] if grid.head else body
    if not lines or width is None:
        return [lines]
    widths = [max(map(len, column)) + 2 for column in zip(*lines)]
    groups: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        taken = widths[0] + sum(widths[i] for i in groups[-1])
        if groups[-1] and taken + widths[column] > width + 2:
            groups.append([])
        groups[-1].append(column)
    return [[[line[i] for i in (0, *group)] for line in lines] for group in groups]

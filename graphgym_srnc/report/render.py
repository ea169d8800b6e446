"""Tables as text, on a terminal, in Markdown, CSV and LaTeX."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import Callable, Iterable, NamedTuple, Sequence, TextIO

from graphgym_srnc.core.text import aligned, escape_markdown, markdown
from graphgym_srnc.core.text import to_csv as csv_of
from graphgym_srnc.report.compare import CELL, Table
from graphgym_srnc.report.sentences import legend, on_differences, remarks
from graphgym_srnc.report.tables import Grid, grids

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
    "≤": r"$\le$",
    "Φ": r"$\Phi$",
    "θ": r"$\theta$",
}
Told = Callable[[Iterable[str]], "list[str]"]
"""Words the options in sentences for the reader, see ``errors.in_words``."""


class Form(NamedTuple):
    """How the cells of a table look in one format."""

    escape: Callable[[str], str]
    best: str
    tied: str

    def lines(self, grid: Grid) -> list[list[str]]:
        """The head, if there is one, and the rows of a table."""
        marks = {"best": self.best, "tied": self.tied, "": "{}"}
        rows = [[marks[box.mark].format(self.escape(box.text)) for box in row] for row in grid.rows]
        return [list(map(self.escape, grid.head)), *rows] if grid.head else rows


def escape_latex(text: str) -> str:
    """Text that LaTeX prints unchanged, with the signs of numbers as those of formulas."""
    escaped = "".join(LATEX.get(c, c) for c in text)
    return re.sub(r"(?<![^\s\[])([+-]\d[\d.]*)(?![^\s,\]])", r"$\1$", escaped)


TEXT = Form(str, "{}*", "{}°")
MARKDOWN = Form(escape_markdown, "**{}**", "{}°")
TEX = Form(escape_latex, r"\textbf{{{}}}", r"\underline{{{}}}")


def plain_text(grids: Sequence[Grid], notes: Sequence[str], width: int | None) -> str:
    """Tables, and notes below them; None = as wide as they are."""
    most = width or sys.maxsize
    below = "".join(textwrap.fill(note, most, subsequent_indent="  ") + "\n" for note in notes)
    parts = []
    for grid in grids:
        above = textwrap.fill(grid.title, most, subsequent_indent="  ") + "\n" if grid.title else ""
        parts.append(above + "\n".join(map(aligned, _fitted(TEXT.lines(grid.flat()), most))))
    return "\n".join(parts) + "\n" + below


def _fitted(lines: list[list[str]], width: int) -> list[list[list[str]]]:
    """The lines of a table, split by columns into several tables that fit the width."""
    widths = [max(map(len, column)) + 2 for column in zip(*lines)]
    groups: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        taken = widths[0] + sum(widths[i] for i in groups[-1])
        if groups[-1] and taken + widths[column] > width + 2:
            groups.append([])
        groups[-1].append(column)
    return [[[line[i] for i in (0, *group)] for line in lines] for group in groups]


def text(table: Table, told: Told = list) -> str:
    """A comparison as plain text."""
    return plain_text(grids(table), told(remarks(table)), 120)


def show(grids: Sequence[Grid], notes: Sequence[str], out: TextIO) -> None:
    """Print tables, on a terminal as wide as it is."""
    width = shutil.get_terminal_size().columns if out.isatty() else None
    print(plain_text(grids, notes, width), end="", file=out)


def markdown_table(grid: Grid) -> str:
    """A Markdown table; the best cells are bold."""
    heading = f"### {escape_markdown(grid.title)}\n\n" if grid.title else ""
    return heading + markdown(MARKDOWN.lines(grid.flat())) + "\n"


def to_markdown(table: Table, told: Told = list) -> str:
    """A comparison as Markdown tables with its remarks below."""
    notes = (f"- {escape_markdown(remark)}\n" for remark in told(remarks(table, "Bold")))
    return "".join(map(markdown_table, grids(table, is_joined=True))) + "".join(notes)


def to_latex(table: Table, told: Told = list) -> str:
    """Tables of the package ``booktabs``.

    Details on the numbers are a note below the table. All other remarks are comments. Labels begin
    with the columns, such as data sets, so that those of several calls differ.
    """
    columns = re.findall("[a-z0-9]+", " ".join(table.columns).lower())
    place = textwrap.shorten(" ".join(columns), 30, placeholder="").replace(" ", "-")
    marks = legend(table, "Bold", "Underlined")
    below = {"means": marks, "differences": on_differences(table)}
    shown = [*marks, *below["differences"]]
    notes = [note for note in remarks(table, "Bold", "Underlined") if note not in shown]
    tables = []
    for grid in grids(table, is_joined=True):
        head, *rows = (" & ".join(line) + " \\\\\n" for line in TEX.lines(grid))
        title = escape_latex(grid.title)
        kind = "table*" if grid.groups else "table"
        caption = escape_latex(f"{grid.title}.")
        detail = escape_latex(" ".join(told(below.get(grid.kind, ()))))
        note = f"\\par\\smallskip\n{{\\footnotesize {detail}\\par}}\n" if detail else ""
        label = f"{place}-{table.metrics[0].replace('_', '-')}-{grid.kind}".lstrip("-")
        tables.append(
            f"\n\\begin{{{kind}}}[t]\n\\centering\n"
            f"\\caption[{{{title}}}]{{{caption}}}\n\\label{{tab:{label}}}\n"
            f"\\begin{{tabular}}{{l{'c' * (len(grid.head) - 1)}}}\n"
            f"\\toprule\n{_latex_groups(grid)}{head}\\midrule\n{''.join(rows)}\\bottomrule\n"
            f"\\end{{tabular}}\n{note}\\end{{{kind}}}\n"
        )
    needs = "% Needs \\usepackage{booktabs}, and UTF-8, which is LaTeX's default since 2018.\n"
    return needs + "".join(f"% {note}\n" for note in told(notes)) + "".join(tables)


def _latex_groups(grid: Grid) -> str:
    """The line of titles above groups of columns, if there are any."""
    titles = ""
    rules = ""
    first = 2
    for title, columns in grid.groups:
        titles += f" & \\multicolumn{{{columns}}}{{c}}{{{escape_latex(title)}}}"
        rules += f"\\cmidrule(lr){{{first}-{first + columns - 1}}}"
        first += columns
    return f"{titles} \\\\\n{rules}\n" if titles else ""


def to_csv(table: Table, told: Told = list) -> str:
    """A line per metric, row and column, in full precision, without a sentence to word."""
    present = table.cells[table.cells[["runs", "pairs"]].notna().any(axis=1)]
    return csv_of([CELL, *present.itertuples(index=False)])


FORMATS: dict[str, Callable[[Table, Told], str]] = {
    "text": text,
    "markdown": to_markdown,
    "csv": to_csv,
    "latex": to_latex,
}
SUFFIXES = {".txt": "text", ".md": "markdown", ".csv": "csv", ".tex": "latex"}

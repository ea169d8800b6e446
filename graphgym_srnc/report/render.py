"""A comparison in print: text, a terminal's tables, Markdown, CSV and LaTeX."""

from __future__ import annotations

import shutil
import textwrap
from typing import Callable, TextIO

from graphgym_srnc.core.text import aligned, escape_markdown, markdown
from graphgym_srnc.core.text import to_csv as csv_of
from graphgym_srnc.report.compare import POOLED, Cell, Table
from graphgym_srnc.report.grid import Box, Grid, grids, mean_columns, row_head, title
from graphgym_srnc.report.sentences import SIGNS, remarks
from graphgym_srnc.report.table import ruled

LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
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

CSV_HEAD = (
    "metric",
    "split",
    "row",
    "column",
    "runs",
    "mean",
    "std",
    "median",
    "low",
    "high",
    "best",
    "tied",
    "pairs_best",
    "p_best",
    "rank",
    "validation",
    "tried",
    "fewer",
    "setting",
    "paper_mean",
    "paper_std",
    "against",
    "pairs",
    "difference",
    "wins",
    "p",
    "p_holm",
)


def text(table: Table, width: int = 120) -> str:
    """Plain text; a table that is wider than ``width`` becomes several below each other."""

    def filled(line: str) -> str:
        return textwrap.fill(line, width, subsequent_indent="  ") + "\n"

    parts = [
        filled(grid.title) + "\n".join(map(aligned, _fitted(grid, width, 2)))
        for grid in grids(table)
    ]
    return "\n".join(parts) + "\n" + "".join(map(filled, remarks(table)))


def show(table: Table, out: TextIO) -> None:
    """Print it: with rules and the best in bold on a terminal, plain elsewhere."""
    if not out.isatty():
        print(text(table, shutil.get_terminal_size((120, 24)).columns), end="", file=out)
        return
    from rich.console import Console

    console = Console(file=out)
    for grid in grids(table):
        for lines in _fitted(grid, console.width, 3):
            console.print(ruled(lines, grid.title, bold=SIGNS["best"]))
    for remark in remarks(table):
        console.print(remark, markup=False, highlight=False)


def to_markdown(table: Table) -> str:
    """Markdown tables with their remarks below; the best in bold."""

    def cell(box: Box) -> str:
        escaped = escape_markdown(box.text)
        return f"**{escaped}**" if box.mark == "best" else escaped + SIGNS[box.mark]

    out = ""
    for grid in grids(table):
        lines = [
            list(map(escape_markdown, grid.head)),
            *([cell(box) for box in row] for row in grid.rows),
        ]
        out += f"### {escape_markdown(grid.title)}\n\n{markdown(lines)}\n"
    return out + "".join(f"- {escape_markdown(remark)}\n" for remark in remarks(table, "Bold"))


def to_latex(table: Table) -> str:
    """A table as in papers, by the package ``booktabs``: a group of columns for each data set, the
    best in bold, the second best underlined; all remarks stand above it as comments."""

    def cell(box: Box) -> str:
        text = escape_latex(box.text)
        if box.mark == "best":
            text = rf"\textbf{{{text}}}"
        elif box.second:
            text = rf"\underline{{{text}}}"
        return text + escape_latex(SIGNS["tied"]) * (box.mark == "tied")

    def line(*cells: str) -> str:
        return " & ".join(cells) + r" \\"

    columns, groups, rules, first = mean_columns(table, table.metrics), [], [], 2
    for group in dict.fromkeys(column.group for column in columns):
        span = sum(column.group == group for column in columns)
        groups.append(rf"\multicolumn{{{span}}}{{c}}{{{escape_latex(group)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + span - 1}}}")
        first += span
    heads = [line(escape_latex(row_head(table)), *groups)]
    if len(columns) > len(groups) or len(table.metrics) > 1:
        heads += [" ".join(rules), line("", *(escape_latex(column.head) for column in columns))]
    rows = zip(table.rows, *(column.boxes for column in columns))
    lines = [line(escape_latex(row), *map(cell, boxes)) for row, *boxes in rows]
    notes, marked = remarks(table, "Bold"), any(cell.best for cell in table.cells.values())
    notes[2 * marked : 2 * marked] = ["Underlined: the second best mean."] * marked
    caption = (
        ", ".join(title(table, metric) for metric in table.metrics)
        + ". "
        + " ".join(notes[: 3 if marked else 1])
    )
    needs = r"% Needs \usepackage{booktabs}, and UTF-8, which is LaTeX's default since 2018."
    return "\n".join(
        [
            needs,
            *(f"% {note}" for note in notes),
            r"\begin{table}[h]",
            r"\centering",
            rf"\caption{{{escape_latex(caption)}}}",
            rf"\begin{{tabular}}{{l{'c' * len(columns)}}}",
            r"\toprule",
            *heads,
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def to_csv(table: Table) -> str:
    """A line for each metric, row and column, all in full; scores are fractions."""
    places = [
        (metric, row, column)
        for metric in table.metrics
        for row in table.rows
        for column in [*table.columns, POOLED]
    ]
    return csv_of(
        [
            CSV_HEAD,
            *(
                _csv_line(table, *place)
                for place in places
                if place in table.cells or place in table.comparisons
            ),
        ]
    )


def _csv_line(table: Table, metric: str, row: str, column: str) -> list[str | float | None]:
    cell, one = table.cells.get((metric, row, column)), table.comparisons.get((metric, row, column))
    setting, ranking = table.settings.get((row, column)), table.rankings.get(metric)
    paper = cell and cell.paper or (None, None)
    return [
        metric,
        table.split,
        row,
        column,
        *(_figures(cell) if cell else [""] * 10),
        ranking.ranks.get(row, "") if ranking else "",
        *(
            [setting.validation, setting.tried, setting.fewer, str(setting)]
            if setting
            else [""] * 4
        ),
        *(score if score is None else round(score / 100, 6) for score in paper),
        *(
            [table.against, one.pairs, one.difference, one.wins, one.p, one.holm]
            if one
            else [""] * 6
        ),
    ]


def _figures(cell: Cell) -> list[float | int | None]:
    low, high = cell.interval or (None, None)
    return [
        cell.runs,
        cell.mean,
        cell.std,
        cell.median,
        low,
        high,
        int(cell.best),
        int(cell.tied),
        cell.pairs,
        cell.p,
    ]


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": text,
    "markdown": to_markdown,
    "csv": to_csv,
    "latex": to_latex,
}
SUFFIXES = {".txt": "text", ".md": "markdown", ".csv": "csv", ".tex": "latex"}


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(LATEX.get(c, c) for c in text)


def _fitted(grid: Grid, width: int, gap: int) -> list[list[list[str]]]:
    """A table as lines of text with signs for marks, as several that are not wider than ``width``,
    each with the first column; ``gap`` is the space between two columns."""
    lines = [grid.head, *([box.text + SIGNS[box.mark] for box in row] for row in grid.rows)]
    widths = [max(map(len, column)) + gap for column in zip(*lines)]
    groups: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        taken = widths[0] + sum(widths[i] for i in groups[-1])
        if groups[-1] and taken + widths[column] > width + gap:
            groups.append([])
        groups[-1].append(column)
    return [[[line[i] for i in (0, *group)] for line in lines] for group in groups]

"""A comparison in print: text, a terminal's tables, Markdown, CSV and LaTeX."""
from __future__ import annotations

import csv
import io
import math
import shutil
import textwrap
from typing import Callable, NamedTuple, Sequence, TextIO

from graphgym_srnc.report.compare import COSTS, POOLED, Cell, Setting, Table
from graphgym_srnc.report.statistics import TESTS, mean
from graphgym_srnc.report.table import HEADS
from graphgym_srnc.text import aligned, escape_markdown, guarded, markdown

NAMES = HEADS | {"unknown_aupr": "unknown AUPR", "unknown_fpr95": "unknown FPR95", "acc": "ACC", "nmi": "NMI",
                 "peak_memory_mib": "peak MiB", "params": "parameters"}
ABSENT = "-"
SIGNS = {"": "", "best": "*", "tied": "°"}

LATEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
         "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
         "±": r"$\pm$", "°": r"$^\circ$", "Δ": r"$\Delta$", "Φ": r"$\Phi$", "θ": r"$\theta$", "→": r"$\rightarrow$"}


class Entry(NamedTuple):
    """What stands in a cell, and whether it is the ``best`` of its column or ``tied`` with it."""

    text: str
    mark: str = ""

    @property
    def signed(self) -> str:
        """The text with the sign of its mark."""
        return self.text + SIGNS[self.mark]


class Part(NamedTuple):
    """A column of the means: what group it is of, its own head, and an entry a row."""

    group: str
    head: str
    entries: list[Entry]


class Block(NamedTuple):
    """A titled table of entries; the first line is its head."""

    title: str
    lines: list[list[Entry]]


def text(table: Table, width: int = 120) -> str:
    """Plain text; what is wider is told in several tables below each other."""
    def filled(line: str) -> str:
        return textwrap.fill(line, width, subsequent_indent="  ") + "\n"

    parts = [filled(block.title) + "\n".join(aligned(lines) for lines in _fit([[e.signed for e in line] for line in block.lines], width, 2))
             for block in blocks(table)]
    return "\n".join(parts) + "\n" + "".join(map(filled, notes(table)))


def show(table: Table, out: TextIO) -> None:
    """Print it: with rules and the best in bold on a terminal, plain elsewhere."""
    if not out.isatty():
        print(text(table, shutil.get_terminal_size((120, 24)).columns), end="", file=out)
        return
    from rich.console import Console
    from rich.table import Table as Ruled
    from rich.text import Text
    console = Console(file=out)
    for block in blocks(table):
        for lines in _fit([[e.signed for e in line] for line in block.lines], console.width, 3):
            ruled = Ruled(title=Text(block.title), title_justify="left")
            for head in lines[0]:
                ruled.add_column(Text(head))
            for line in lines[1:]:
                ruled.add_row(*(Text(cell, style="bold" if cell.endswith(SIGNS["best"]) else "") for cell in line))
            console.print(ruled)
    for note in notes(table):
        console.print(note, markup=False, highlight=False)


def to_markdown(table: Table) -> str:
    """Markdown tables with their notes below; the best in bold."""
    def cell(entry: Entry) -> str:
        escaped = escape_markdown(entry.text)
        return f"**{escaped}**" if entry.mark == "best" else escaped + SIGNS[entry.mark]

    parts = [(block.title, [list(map(cell, line)) for line in block.lines]) for block in blocks(table)]
    said = "".join(f"- {escape_markdown(note)}\n" for note in notes(table, "Bold"))
    return "".join(f"### {escape_markdown(title)}\n\n{markdown(lines)}\n" for title, lines in parts) + said


def to_latex(table: Table) -> str:
    """A table as in the paper, by the package ``booktabs``: a group of columns for each data set, the best in bold, what is tied
    underlined; all notes stand above it as comments."""
    def cell(entry: Entry) -> str:
        command = {"best": r"\textbf{%s}", "tied": r"\underline{%s}"}.get(entry.mark, "%s")
        return command % escape_latex(entry.text)

    parts, head, rules, column = means(table, table.metrics), [], [], 2
    groups = list(dict.fromkeys(part.group for part in parts))
    for group in groups:
        span = sum(part.group == group for part in parts)
        head.append(rf"\multicolumn{{{span}}}{{c}}{{{escape_latex(group)}}}")
        rules.append(rf"\cmidrule(lr){{{column}-{column + span - 1}}}")
        column += span
    first = escape_latex(row_head(table))
    heads = [" & ".join([first, *head]) + r" \\"]
    if len(parts) > len(groups) or len(table.metrics) > 1:
        heads += [" ".join(rules), " & ".join(["", *(escape_latex(part.head) for part in parts)]) + r" \\"]
    lines = [" & ".join([escape_latex(row), *(cell(part.entries[i]) for part in parts)]) + r" \\" for i, row in enumerate(table.rows)]
    said = notes(table, "Bold", "underlined")
    caption = " ".join([", ".join(map(title, [table] * len(table.metrics), table.metrics)) + ".", *said[:1 + bool(_marked(table))]])
    return "\n".join([
        *(f"% {note}" for note in said), r"\begin{table}[h]", r"\centering", rf"\caption{{{escape_latex(caption)}}}",
        rf"\begin{{tabular}}{{l{'c' * len(parts)}}}", r"\toprule", *heads, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}",
        r"\end{table}", ""])


def to_csv(table: Table) -> str:
    """A line for each metric, row and column, with every number in full; scores are fractions, the paper's too."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["metric", "split", "row", "column", "runs", "mean", "std", "median", "low", "high", "best", "tied", "pairs_best",
                     "p_best", "rank", "validation", "tried", "fewer", "setting", "paper_mean", "paper_std", "against", "pairs",
                     "difference", "wins", "p", "p_holm"])
    for metric in table.metrics:
        ranks = table.rankings[metric].ranks if metric in table.rankings else {}
        for row in table.rows:
            for column in [*table.columns, POOLED]:
                cell, one = table.cells.get((metric, row, column)), table.comparisons.get((metric, row, column))
                if cell is None and one is None:
                    continue
                line = [metric, table.split, row, column]
                line += _figures(cell) if cell else [""] * 10
                line.append(ranks.get(row, ""))
                setting = table.settings.get((row, column))
                line += [setting.validation, setting.tried, setting.fewer, str(setting)] if setting else [""] * 4
                line += [score if score is None else round(score / 100, 6) for score in (cell and cell.paper or (None, None))]
                line += [table.against, one.pairs, one.difference, one.wins, one.p, one.holm] if one else [""] * 6
                writer.writerow(map(guarded, line))
    return out.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {"text": text, "markdown": to_markdown, "csv": to_csv, "latex": to_latex}
SUFFIXES = {".txt": "text", ".md": "markdown", ".csv": "csv", ".tex": "latex"}


def blocks(table: Table) -> list[Block]:
    """For each metric its means, its medians and, where they are asked for, its intervals and differences."""
    return [block for metric in table.metrics for block in _blocks(table, metric)]


def _blocks(table: Table, metric: str) -> list[Block]:
    def grid(what: str, entry: Callable[[str, str], str], rows: Sequence[str] = table.rows, last: Sequence[str] = ()) -> Block:
        columns = [*table.columns, *last]
        lines = [[Entry(row), *(Entry(entry(row, column)) for column in columns)] for row in rows]
        return Block(f"{title(table, metric)}, {what}", [[Entry(row_head(table)), *map(Entry, columns)], *lines])

    def median(row: str, column: str) -> str:
        cell = table.cells.get((metric, row, column))
        return f"{figure(metric, cell.median)} ({cell.runs})" if cell else ABSENT

    def interval(row: str, column: str) -> str:
        cell = table.cells.get((metric, row, column))
        return " to ".join(figure(metric, end) for end in cell.interval) if cell and cell.runs > 1 else ABSENT

    def difference(row: str, column: str) -> str:
        one = table.comparisons.get((metric, row, column))
        return f"{figure(metric, one.difference, '+.1f')} ({one.holm:.2g}), n {one.pairs}" if one and one.pairs > 1 else ABSENT

    parts = means(table, [metric])
    heads = [part.group if part.head == name(metric) else part.head for part in parts]
    lines = [[Entry(row), *(part.entries[i] for part in parts)] for i, row in enumerate(table.rows)]
    out = [Block(f"{title(table, metric)}, mean ± std", [[Entry(row_head(table)), *map(Entry, heads)], *lines]),
           grid("median (runs)", median)]
    if any(cell.interval for cell in table.cells.values()):
        out.append(grid(f"{100 * (1 - table.alpha):g} % bootstrap interval of the mean", interval))
    if table.against is not None:
        tested = [row for row in table.rows if any(place[:2] == (metric, row) for place in table.comparisons)]
        out.append(grid(f"difference to {table.against} (p), n pairs", difference, tested, [POOLED] * (len(table.columns) > 1)))
    return out


def means(table: Table, metrics: Sequence[str]) -> list[Part]:
    """The columns of the means: ours and the paper's by data set, then their mean and the mean rank, where there are several."""
    parts = []
    for column in table.columns:
        for metric in metrics:
            cells = [table.cells.get((metric, row, column)) for row in table.rows]
            parts.append(Part(column, name(metric), [_mean(metric, cell) for cell in cells]))
            if any(cell and cell.paper for cell in cells):
                parts.append(Part(column, "paper", [_paper(cell) for cell in cells]))
    if len(table.columns) > 1:
        for metric in metrics:
            every = [[table.cells.get((metric, row, column)) for column in table.columns] for row in table.rows]
            parts.append(Part("mean", name(metric), [
                Entry(figure(metric, mean(cell.mean for cell in cells)) if all(cells) else ABSENT) for cells in every]))
    for metric in metrics:
        if metric in table.rankings:
            ranks = table.rankings[metric].ranks
            parts.append(Part("rank", name(metric), [Entry(f"{ranks[row]:.1f}" if row in ranks else ABSENT) for row in table.rows]))
    return parts


def notes(table: Table, best: str = SIGNS["best"], tied: str = SIGNS["tied"]) -> list[str]:
    """What a reader must know: the spread, the marks, the settings, and what the comparison itself has to say."""
    out = ["Mean ± population standard deviation over runs (n in the divisor)."]
    if _marked(table):
        out.append(f"{best}: the best mean of a column; {tied}: not told apart from it, p > {table.alpha:g} ({TESTS[table.test]} on common"
                   " splits and seeds, Holm's correction over the rows of a column).")
    out += table.notes
    return out + [f"{row} on {column}: {_chosen(setting)}" for (row, column), setting in table.settings.items() if setting.tried > 1]


def name(metric: str) -> str:
    """A metric as it is printed."""
    return NAMES.get(metric, metric)


def title(table: Table, metric: str) -> str:
    """A metric with its split and unit."""
    return name(metric) if metric in COSTS else f"{name(metric)} on {table.split}, %"


def figure(metric: str, value: float, form: str = ".1f") -> str:
    """A score in %, or a cost as it is."""
    return ABSENT if math.isnan(value) else format(value if metric in COSTS else 100 * value, form)


def row_head(table: Table) -> str:
    """What tells the rows apart."""
    return "method" if table.by[0] in ("method", "paper", "train.mode") else ", ".join(table.by)


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(LATEX.get(c, c) for c in text)


def _mean(metric: str, cell: Cell | None) -> Entry:
    if cell is None:
        return Entry(ABSENT)
    return Entry(f"{figure(metric, cell.mean)} ± {figure(metric, cell.std)}", "best" if cell.best else "tied" if cell.tied else "")


def _paper(cell: Cell | None) -> Entry:
    return Entry(" ± ".join(str(value) for value in cell.paper if value is not None) if cell and cell.paper else ABSENT)


def _marked(table: Table) -> bool:
    return any(cell.best for cell in table.cells.values())


def _chosen(setting: Setting) -> str:
    fewer = f", {setting.fewer} of them with fewer runs left out" if setting.fewer else ""
    score = "" if math.isnan(setting.validation) else f", validation {100 * setting.validation:.1f}"
    return f"best of {setting.tried} settings{fewer}{score}: {setting}"


def _figures(cell: Cell) -> list[float | int | None]:
    low, high = cell.interval or (None, None)
    return [cell.runs, cell.mean, cell.std, cell.median, low, high, int(cell.best), int(cell.tied), cell.pairs, cell.p]


def _fit(lines: list[list[str]], width: int, gap: int) -> list[list[list[str]]]:
    """A table as several that are not wider than ``width``, with the first column in each of them."""
    widths = [max(map(len, column)) + gap for column in zip(*lines)]
    groups: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        if groups[-1] and widths[0] + sum(widths[i] for i in groups[-1]) + widths[column] > width + gap:
            groups.append([])
        groups[-1].append(column)
    return [[[line[i] for i in (0, *group)] for line in lines] for group in groups]

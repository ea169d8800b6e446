"""``graphgym-srnc compare``: finished runs in one table, with tests and the paper's numbers."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.words import told
from graphgym_srnc.errors import InputError
from graphgym_srnc.plots.charts import critical_difference_figure
from graphgym_srnc.plots.style import save
from graphgym_srnc.report import citations, compare, render, sentences, tables
from graphgym_srnc.report.frame import collect
from graphgym_srnc.report.statistics import LEAST_BLOCKS


def main(args: argparse.Namespace) -> None:
    """Compare results, print the table, then draw the ranks; skipped runs are printed on stderr.

    Raises:
        InputError: no results, an unknown key, metric or row, nothing to pair, or a file that
            cannot be written.
    """
    form = args.format or render.SUFFIXES.get(Path(args.out or "").suffix.lower(), "text")
    arguments.check_out("--figure", args.figure, args.overwrite, (".png", ".pdf", ".svg"))
    arguments.check_out("--bibtex", args.bibtex, args.overwrite, (".bib",))
    arguments.check_out("--out", args.out, args.overwrite, tuple(render.SUFFIXES))
    found = collect(args.folders, records=False)
    for remark in found.remarks():
        print(f"note: {remark}", file=sys.stderr)
    words = "metric split by columns select against test paper alpha intervals ddof".split()
    table = compare.table(found, *(getattr(args, word) for word in words))
    if form == "text" and not args.out:
        render.show(tables.grids(table), told(sentences.remarks(table)), sys.stdout)
    elif args.out:
        print(arguments.write("--out", args.out, render.FORMATS[form](table, told).encode()))
    else:
        print(render.FORMATS[form](table, told), end="")
    if args.bibtex:
        print(arguments.write("--bibtex", args.bibtex, citations.bibtex(table).encode()))
    if args.figure:
        _draw_ranks(table, Path(args.figure), args.overwrite)


def _draw_ranks(table: compare.Table, path: Path, overwrite: bool) -> None:
    """Draw the ranks of each column that has enough rows and splits for a test."""
    found = tables.tested_ranks(table, table.metrics[0])
    if not found:
        raise InputError.plain(
            "--figure",
            f"no column has three rows with {LEAST_BLOCKS} common splits and seeds",
            "Run more seeds, or give more experiments",
        )
    files = {column: path for column in found}
    if len(found) > 1:
        ends = {column: re.sub(r"[^\w.,+]+", "-", column) for column in found}
        files = {column: path.with_stem(f"{path.stem}-{end}") for column, end in ends.items()}
    for column, ranking in found.items():
        title = f"{tables.name(table.metrics[0])} on {column}"
        figure = critical_difference_figure(
            ranking.ranks, ranking.difference, title, sentences.nemenyi(table, ranking)
        )
        arguments.check_out("--figure", str(files[column]), overwrite)
        with arguments.writing("--figure", files[column]):
            save(figure, files[column])
        print(f"wrote {files[column]}")
    print("In a figure, methods differ significantly if their bars do not overlap.")

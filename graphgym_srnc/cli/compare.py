"""``graphgym-srnc compare``: finished runs in one table, with tests and the paper's numbers."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from graphgym_srnc.cli import arguments
from graphgym_srnc.errors import InputError
from graphgym_srnc.plots.charts import critical_difference_figure
from graphgym_srnc.plots.style import save
from graphgym_srnc.report import compare, render, sentences, tables
from graphgym_srnc.report.frame import collect
from graphgym_srnc.report.statistics import LEAST_BLOCKS


def main(args: argparse.Namespace) -> None:
    """Read and compare results, and print the table; skipped runs are printed on stderr.

    Raises:
        InputError: no results, an unknown key, metric or row, nothing to pair, or a file that
            cannot be written.
    """
    form = args.format or render.SUFFIXES.get(Path(args.out or "").suffix.lower(), "text")
    arguments.check_out("--figure", args.figure, args.overwrite, (".png", ".pdf", ".svg"))
    arguments.check_out("--out", args.out, args.overwrite, tuple(render.SUFFIXES))
    found = collect(args.folders, records=False)
    for remark in found.remarks():
        print(f"note: {remark}", file=sys.stderr)
    words = "metric split by columns select against test paper alpha intervals".split()
    table = compare.table(found, *(getattr(args, word) for word in words))
    if args.figure:
        found_ranks = tables.tested_ranks(table, table.metrics[0])
        if not found_ranks:
            few = f"no column has three rows with {LEAST_BLOCKS} common splits and seeds"
            raise InputError.plain("--figure", few, "Run more seeds, or give more experiments")
        path, several = Path(args.figure), len(found_ranks) > 1
        ends = {column: "-" + re.sub(r"[^\w.,+]+", "-", column) for column in found_ranks}
        files = {column: path.with_stem(path.stem + end * several) for column, end in ends.items()}
        for file in files.values():
            arguments.check_out("--figure", str(file), args.overwrite)
        for column, ranking in found_ranks.items():
            title = f"{tables.name(table.metrics[0])} on {column}"
            facts = ranking.ranks, ranking.difference, title, sentences.nemenyi(table, ranking)
            figure = critical_difference_figure(*facts)
            with arguments.writing("--figure", files[column]):
                save(figure, files[column])
            print(f"wrote {files[column]}")
    if form == "text" and not args.out:
        render.show(tables.grids(table), sentences.remarks(table), sys.stdout)
        return
    text = render.FORMATS[form](table)
    if args.out:
        print(arguments.write("--out", args.out, text.encode()))
    else:
        print(text, end="")

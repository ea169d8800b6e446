"""``graphgym-srnc compare``: finished runs in one table, with tests and the paper's numbers."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from graphgym_srnc.cli import arguments
from graphgym_srnc.errors import InputError
from graphgym_srnc.io.atomic import write_text
from graphgym_srnc.plots.charts import critical_difference_figure
from graphgym_srnc.plots.style import save
from graphgym_srnc.report import compare, render, tables
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
    table = compare.table(found.runs, *(getattr(args, word) for word in words))
    if args.figure:
        ranking = table.rankings.get(table.metrics[0])
        if ranking is None or len(ranking.ranks) < 3 or math.isnan(ranking.difference):
            few = (
                "a critical-difference diagram needs one kind of shift and three rows with"
                f" {LEAST_BLOCKS} common splits and seeds"
            )
            raise InputError.plain("--figure", few)
        title = f"{tables.name(table.metrics[0])} on {table.split}, {ranking.blocks} splits"
        figure = critical_difference_figure(ranking.ranks, ranking.difference, title)
        with arguments.writing("--figure", args.figure):
            save(figure, Path(args.figure))
        print(f"wrote {args.figure}")
    if form == "text" and not args.out:
        render.show(tables.grids(table), tables.remarks(table), sys.stdout)
        return
    text = render.FORMATS[form](table)
    if args.out:
        with arguments.writing("--out", args.out):
            write_text(Path(args.out), text)
        print(f"wrote {args.out}")
    else:
        print(text, end="")

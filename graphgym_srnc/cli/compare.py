"""``graphgym-srnc compare``: finished runs of many experiments as one table, with tests, ranks and
the paper's numbers."""
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from graphgym_srnc.cli import arguments

if TYPE_CHECKING:
    from graphgym_srnc.report.compare import Table

EPILOG = """\
KEY is any key of a config, or method, backbone or task; with --paper also paper, the row of the
paper that a run stands beside.
    graphgym-srnc compare results --metric micro_f1 macro_recall --against erm
    graphgym-srnc compare results/open_set/report --paper open_set --out table.tex
    graphgym-srnc compare results/my_grid --by gnn.layer_type --columns dataset.name \\
        --figure ranks.pdf
Which setting a cell shows is chosen by validation scores alone. Runs are paired by the fingerprint
of their split and their seed."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    # Choices stand here as words and are checked when the command runs: their modules would be
    # loaded for every --help.
    parser = subparsers.add_parser(
        "compare", help="compare results: tables, paired tests, ranks, the paper's numbers",
        epilog=EPILOG, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("folders", **arguments.FOLDERS)
    add("--metric", nargs="+", default=[], metavar="NAME",
        help="scores to show; also seconds, peak_memory_mib and params (default: micro_f1, or those"
        " of the paper's table); the first one chooses settings")
    add("--split", default="test", metavar="SPLIT",
        help="nodes of the scores: train, val or test (default: test)")
    add("--by", nargs="+", default=[], metavar="KEY",
        help="what tells rows apart (default: method and backbone)")
    add("--columns", nargs="+", default=[], metavar="KEY",
        help="what tells columns apart (default: the task)")
    add("--select", nargs="*", default=["all"], metavar="KEY",
        help="keys over which the best setting of a row on a column is chosen on validation"
        " (default: all that vary but those of the data); without a KEY runs of all settings are"
        " pooled")
    add("--against", metavar="ROW", help="test every row against this one")
    add("--test", default="wilcoxon", metavar="TEST",
        help="paired test: wilcoxon or t (default: wilcoxon)")
    add("--alpha", type=float, default=0.05, metavar="A",
        help="level of tests and intervals (default: 0.05)")
    add("--intervals", action="store_true", help="bootstrap an interval for each mean")
    add("--paper", metavar="TABLE",
        help="put the paper's numbers beside ours: open_set, close_set or clustering")
    add("--format", metavar="FORMAT",
        help="text, markdown, csv or latex (default: by the suffix of --out, else text)")
    add("--out", metavar="FILE",
        help="write the output there instead, e.g. table.md, table.csv or table.tex")
    add("--figure", metavar="FILE",
        help="draw the critical-difference diagram of the first metric, .png, .pdf or .svg")
    arguments.add_overwrite(parser)


def main(args: argparse.Namespace) -> None:
    """Read, compare, print; what was passed over is printed on stderr.

    Raises:
        InputError: no results, an unknown key, metric or row, nothing to pair, or a file that
            cannot be written.
    """
    from graphgym_srnc.atomic import write_text
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.report import compare, render
    from graphgym_srnc.report.read import collect
    form = args.format or render.SUFFIXES.get(Path(args.out or "").suffix.lower(), "text")
    if form not in render.FORMATS:
        raise InputError("--format", form, ", ".join(render.FORMATS))
    arguments.check_out("--out", args.out, args.overwrite, new_folders=True)
    arguments.check_out("--figure", args.figure, args.overwrite, (".png", ".pdf", ".svg"), True)
    if args.out and args.figure and Path(args.out).resolve() == Path(args.figure).resolve():
        raise InputError("--figure", args.figure, "another file than that of --out")
    found = collect(args.folders, records=False)
    for remark in found.remarks():
        print(f"note: {remark}", file=sys.stderr)
    table = compare.table(found.runs, args.metric, args.split, args.by, args.columns, args.select,
                          args.against, args.test, args.paper, args.alpha, args.intervals)

    if args.figure:
        _draw(table, args.figure)
    if args.out:
        with arguments.writing("--out", args.out):
            write_text(Path(args.out), render.FORMATS[form](table))
        print(f"wrote {args.out}")
    elif form == "text":
        render.show(table, sys.stdout)
    else:
        print(render.FORMATS[form](table), end="")


def _draw(table: Table, file: str) -> None:
    """Draw the critical-difference diagram of the first metric."""
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.figures.charts import critical_difference_figure
    from graphgym_srnc.figures.style import save
    from graphgym_srnc.report import grid
    metric = table.metrics[0]
    ranking = table.rankings.get(metric)
    if ranking is None or len(ranking.ranks) < 3:
        allowed = "results in which three rows or more have splits and seeds in common"
        raise InputError("--figure", file, allowed)
    title = f"{grid.name(metric)} on {table.split}, {ranking.blocks} splits"
    figure = critical_difference_figure(ranking.ranks, ranking.difference, ranking.cliques, title)
    with arguments.writing("--figure", file):
        save(figure, Path(file))
    print(f"wrote {file}")

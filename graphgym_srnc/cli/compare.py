"""``graphgym-srnc compare``: finished runs of many experiments as one table, with tests, ranks and the paper's numbers."""
from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Iterator

    from graphgym_srnc.report.compare import Table

EPILOG = """\
KEY is any key of a config, or method, backbone or task; with --paper also paper, the row of the paper that a run stands beside.
    graphgym-srnc compare results --metric micro_f1 macro_recall --against erm
    graphgym-srnc compare results/open_set/report --paper open_set --out table.tex
    graphgym-srnc compare results/my_grid --by gnn.layer_type --columns dataset.name --figure ranks.pdf
Which setting a cell shows is chosen by validation scores alone. Runs are paired by the fingerprint of their split and their seed."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    # Choices stand here as words and are checked when the command runs: their modules would be loaded for every --help.
    parser = subparsers.add_parser("compare", help="compare results: tables, paired tests, ranks, the paper's numbers", epilog=EPILOG,
                                   allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="DIR", help="an experiment, a folder of them, or a folder of such folders")
    parser.add_argument("--metric", nargs="+", default=[], metavar="NAME", help="scores to show; also seconds, peak_memory_mib and params"
                        " (default: micro_f1, or those of the paper's table); the first one chooses settings")
    parser.add_argument("--split", default="test", metavar="SPLIT", help="nodes of the scores: train, val or test (default: test)")
    parser.add_argument("--by", nargs="+", default=[], metavar="KEY", help="what tells rows apart (default: method, backbone if it varies)")
    parser.add_argument("--columns", nargs="+", default=[], metavar="KEY", help="what tells columns apart (default: the task)")
    parser.add_argument("--select", nargs="*", metavar="KEY", help="keys over which the best setting of a row on a column is chosen on"
                        " validation (default: all that vary but those of the data); without a KEY runs of all settings are pooled")
    parser.add_argument("--against", metavar="ROW", help="test every row against this one")
    parser.add_argument("--test", default="wilcoxon", metavar="TEST", help="paired test: wilcoxon or t (default: wilcoxon)")
    parser.add_argument("--alpha", type=float, default=0.05, metavar="A", help="level of tests and intervals (default: 0.05)")
    parser.add_argument("--intervals", action="store_true", help="bootstrap an interval for each mean")
    parser.add_argument("--paper", metavar="TABLE", help="put the paper's numbers beside ours: open_set, close_set or clustering")
    parser.add_argument("--format", metavar="FORMAT", help="text, markdown, csv or latex (default: by the suffix of --out, else text)")
    parser.add_argument("--out", metavar="FILE", help="write the output there instead, e.g. table.md, table.csv or table.tex")
    parser.add_argument("--figure", metavar="FILE", help="draw the critical-difference diagram of the first metric, .png, .pdf or .svg")


def main(args: argparse.Namespace) -> None:
    """Read, compare, print; what was passed over is told on stderr.

    Raises:
        InputError: no results, an unknown key, metric or row, nothing to pair, or a file that cannot be written.
    """
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.report import compare, render
    from graphgym_srnc.report.read import collect
    form = args.format or render.SUFFIXES.get(Path(args.out or "").suffix.lower(), "text")
    if form not in render.FORMATS:
        raise InputError("--format", form, ", ".join(render.FORMATS))
    found = collect(args.folders)
    for remark in found.remarks():
        print(f"note: {remark}", file=sys.stderr)
    table = compare.table(found.runs, args.metric, args.split, args.by, args.columns, ("all",) if args.select is None else args.select,
                          args.against, args.test, args.paper, args.alpha, args.intervals)
    if args.figure:
        _draw(table, args.figure)
    if args.out:
        from graphgym_srnc.atomic import write_text
        with _writing("--out", args.out):
            write_text(Path(args.out), render.FORMATS[form](table))
    elif form == "text":
        render.show(table, sys.stdout)
    else:
        print(render.FORMATS[form](table), end="")


def _draw(table: Table, file: str) -> None:
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.figures.charts import critical_difference_figure
    from graphgym_srnc.figures.style import save
    from graphgym_srnc.report import grid
    metric = table.metrics[0]
    ranking = table.rankings.get(metric)
    if ranking is None:
        raise InputError("--figure", file, "results in which two rows or more have splits and seeds in common")
    title = f"{grid.name(metric)} on {table.split}, {ranking.blocks} splits"
    with _writing("--figure", file):
        save(critical_difference_figure(ranking.ranks, ranking.difference, ranking.cliques, title), Path(file))


@contextlib.contextmanager
def _writing(option: str, file: str) -> Iterator[None]:
    from graphgym_srnc.errors import InputError
    try:
        yield
    except OSError as error:
        raise InputError(option, file, f"a file that can be written ({error.strerror})") from error
    print(f"wrote {file}")

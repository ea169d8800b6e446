"""``graphgym-srnc compare``: finished runs in one table, with tests and the paper's numbers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphgym_srnc.cli import arguments

if TYPE_CHECKING:
    from graphgym_srnc.report.compare import Table

EPILOG = """\
KEY is a config key, or one of method, backbone and task; with --paper also `paper`, the matching
row of the paper's table.
    graphgym-srnc compare results --metric micro_f1 macro_recall --against erm
    graphgym-srnc compare results/open_set/report --paper open_set --out table.tex
    graphgym-srnc compare results/my_grid --by gnn.layer_type --columns dataset.name \\
        --figure ranks.pdf
Validation scores alone choose the setting that a cell shows. Two runs form a pair if they have the
same split and the same seed."""


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "--metric": (
        "show these scores; seconds, peak_memory_mib and params are possible too. The first one"
        " chooses the settings (default: micro_f1, or the scores of the paper's table)",
        {"nargs": "+", "default": [], "metavar": "NAME"},
    ),
    "--split": (
        "show scores on these nodes: train, val or test (default: test)",
        {"default": "test", "metavar": "SPLIT"},
    ),
    "--by": (
        "make one row for each value of these keys (default: method and backbone)",
        {"nargs": "+", "default": [], "metavar": "KEY"},
    ),
    "--columns": (
        "make one column for each value of these keys (default: the task)",
        {"nargs": "+", "default": [], "metavar": "KEY"},
    ),
    "--select": (
        "choose the best setting of each cell over these keys by validation score (default: all"
        " keys that vary, except those of the data); without a KEY, pool the runs of all settings",
        {"nargs": "*", "default": ["all"], "metavar": "KEY"},
    ),
    "--against": ("test every row against ROW (default: no such test)", {"metavar": "ROW"}),
    "--test": (
        "use this paired test: wilcoxon or t (default: wilcoxon)",
        {"default": "wilcoxon", "metavar": "TEST"},
    ),
    "--alpha": (
        "set the significance level of tests and intervals (default: 0.05)",
        {"type": float, "default": 0.05, "metavar": "A"},
    ),
    "--intervals": (
        "show a bootstrap confidence interval for each mean (default: no intervals)",
        {"action": "store_true"},
    ),
    "--paper": (
        "show the paper's numbers beside yours: open_set, close_set or clustering (default: none)",
        {"metavar": "TABLE"},
    ),
    "--format": (
        "print text, markdown, csv or latex (default: by the suffix of --out, else text)",
        {"metavar": "FORMAT"},
    ),
    "--out": (
        "write the table to FILE, such as table.md, table.csv or table.tex (default: print it)",
        {"metavar": "FILE"},
    ),
    "--figure": (
        "draw the critical-difference diagram of the first score to a .png, .pdf or .svg file"
        " (default: none)",
        {"metavar": "FILE"},
    ),
}
"""Help text and argument of each option. Choices are checked when the command runs: their modules
would be loaded for every --help."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "compare",
        help="compare results in a table with paired tests and ranks",
        description="Compare finished runs in one table with paired tests, ranks and the paper's"
        " numbers.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", **arguments.FOLDERS)
    for option, (text, words) in OPTIONS.items():
        parser.add_argument(option, help=text, **words)
    arguments.add_raw(parser)
    arguments.add_overwrite(parser)


def main(args: argparse.Namespace) -> None:
    """Read and compare results, and print the table; skipped runs are printed on stderr.

    Raises:
        InputError: no results, an unknown key, metric or row, nothing to pair, or a file that
            cannot be written.
    """
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.io.atomic import write_text
    from graphgym_srnc.report import compare, render
    from graphgym_srnc.report.frame import collect

    form = args.format or render.SUFFIXES.get(Path(args.out or "").suffix.lower(), "text")
    if form not in render.FORMATS:
        raise InputError("--format", form, ", ".join(render.FORMATS))
    pictures = (".png", ".pdf", ".svg")
    arguments.check_out("--figure", args.figure, args.overwrite, pictures, True, "", [args.out])
    arguments.check_out("--out", args.out, args.overwrite, tuple(render.SUFFIXES), True)
    found = collect(args.folders, records=False)
    for remark in found.remarks():
        print(f"note: {remark}", file=sys.stderr)
    words = "metric split by columns select against test paper alpha intervals".split()
    table = compare.table(found.runs, *(getattr(args, word) for word in words))
    if args.figure:
        _draw(table, args.figure)
    if form == "text" and not args.out:
        render.show_comparison(table, sys.stdout)
        return
    text = render.to_csv(table, args.raw) if form == "csv" else render.FORMATS[form](table)
    if args.out:
        with arguments.writing("--out", args.out):
            write_text(Path(args.out), text)
        print(f"wrote {args.out}")
    else:
        print(text, end="")


def _draw(table: Table, file: str) -> None:
    """Draw the critical-difference diagram of the first metric."""
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.plots.charts import critical_difference_figure
    from graphgym_srnc.plots.style import save
    from graphgym_srnc.report.tables import name

    metric = table.metrics[0]
    ranking = table.rankings.get(metric)
    if ranking is None or len(ranking.ranks) < 3:
        message = "a critical-difference diagram needs three rows or more with common splits and"
        raise InputError.plain("--figure", f"{message} seeds")
    title = f"{name(metric)} on {table.split}, {ranking.blocks} splits"
    figure = critical_difference_figure(ranking.ranks, ranking.difference, title)
    with arguments.writing("--figure", file):
        save(figure, Path(file))
    print(f"wrote {file}")

"""``graphgym-srnc report``: finished runs as one HTML page that needs no network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from graphgym_srnc.cli import arguments

OWN = '<meta name="generator" content="graphgym-srnc report">'
"""A line of each page, which marks it as replaceable by a later call."""


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "--out": (
        "write the page to FILE (default: the name of the first DIR with .html, in the current"
        " directory)",
        {"metavar": "FILE"},
    ),
    "--metric": (
        "compare these scores; the first one chooses the settings (default: Micro-F1, macro recall"
        " and scores of the unknown class)",
        {"nargs": "+", "default": [], "metavar": "NAME"},
    ),
    "--against": (
        "test every row against ROW (default: the row with the best mean rank)",
        {"metavar": "ROW"},
    ),
    "--title": (
        "set the title of the page (default: the names of the folders)",
        {"default": "", "metavar": "TEXT"},
    ),
    "--figures": (
        "also write each figure to FOLDER as PNG and PDF (default: write none)",
        {"metavar": "FOLDER"},
    ),
    "--paper": (
        "show the paper's numbers beside yours: open_set, close_set or clustering (default: none)",
        {"metavar": "TABLE"},
    ),
}
"""Help text and argument of each option."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "report",
        help="write results as one HTML page with tables, tests and figures",
        description="Write results as one HTML page with tables, significance tests, figures and"
        " settings. The page needs no network.",
        allow_abbrev=False,
    )
    parser.add_argument("folders", **arguments.FOLDERS)
    for option, (text, words) in OPTIONS.items():
        parser.add_argument(option, help=text, **words)
    arguments.add_overwrite(parser, own_pages=True)


def main(args: argparse.Namespace) -> None:
    """Read results, write the page and print its place.

    Raises:
        InputError: no results, an unknown metric or row, or a page that cannot be written.
    """
    from graphgym_srnc.io.atomic import write_text
    from graphgym_srnc.report import page, pictures
    from graphgym_srnc.report.frame import collect

    # Not in DIR: GraphGym's agg_batch takes whatever lies there for an experiment.
    out = Path(args.out or f"{Path(args.folders[0]).resolve().name or 'report'}.html")
    arguments.check_out("--out", str(out), args.overwrite, (".html", ".htm"), True, OWN)
    arguments.check_folder("--figures", args.figures, args.overwrite)

    found = collect(args.folders)
    text = page.render(found, args.metric, args.against, args.title, args.paper)
    with arguments.writing("--out", str(out)):
        write_text(out, text)
    print(f"wrote {out} ({len(text.encode()) / 2**20:.1f} MiB)")
    if args.figures:
        with arguments.writing("--figures", args.figures):
            paths = pictures.draw_all(found, args.figures, *args.metric[:1])
        print(f"wrote {len(paths)} figures to {args.figures}")

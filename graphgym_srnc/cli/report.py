"""``graphgym-srnc report``: all there is to know of finished runs as one HTML page, which opens
without a network."""
from __future__ import annotations

import argparse
from pathlib import Path

from graphgym_srnc.cli import arguments

OWN = '<meta name="generator" content="graphgym-srnc report">'
"""A line of each page, which tells a later call that it may be replaced."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "report", help="write results as one HTML page: tables, tests, figures, settings",
        allow_abbrev=False)
    add = parser.add_argument
    add("folders", **arguments.FOLDERS)
    add("--out", metavar="FILE",
        help="the page (default: the name of the first DIR with .html, in the current directory)")
    add("--metric", nargs="+", default=[], metavar="NAME",
        help="scores to compare; the first one chooses settings (default: Micro-F1, macro recall"
        " and scores of the unknown class)")
    add("--against", metavar="ROW",
        help="test every row against this one (default: the best by mean rank)")
    add("--title", default="", metavar="TEXT",
        help="title of the page (default: names of the folders)")
    add("--figures", metavar="FOLDER", help="write the figures there too, each as PNG and PDF")
    add("--paper", metavar="TABLE",
        help="put the paper's numbers beside ours: open_set, close_set, clustering or none"
        " (default: those that fit)")
    arguments.add_overwrite(parser)


def main(args: argparse.Namespace) -> None:
    """Read, write the page, say where it is.

    Raises:
        InputError: no results, an unknown metric or row, or a page that cannot be written.
    """
    from graphgym_srnc.atomic import write_text
    from graphgym_srnc.report import overview, page
    from graphgym_srnc.report.read import collect
    # Not in DIR: GraphGym's agg_batch takes whatever lies there for an experiment.
    out = Path(args.out or f"{Path(args.folders[0]).resolve().name or 'report'}.html")
    arguments.check_out("--out", str(out), args.overwrite, new_folders=True, own=OWN)
    arguments.check_folder("--figures", args.figures, args.overwrite)

    found = collect(args.folders)
    text = page.render(found, args.metric, args.against, args.title, args.paper, descriptions())
    with arguments.writing("--out", str(out)):
        write_text(out, text)
    print(f"wrote {out} ({len(text.encode()) / 2 ** 20:.1f} MiB)")
    if args.figures:
        with arguments.writing("--figures", args.figures, "a folder that can be written to"):
            paths = overview.draw_all(found.results, args.figures, *args.metric[:1])
        print(f"wrote {len(paths)} figures to {args.figures}")


def descriptions() -> dict[str, str]:
    """What each of our methods and shifts is, by name: the first sentence of its module."""
    import ast
    from pathlib import Path

    from graphgym_srnc import methods, shifts
    sentences = {}
    for package in (shifts, methods):
        for name in package.own_names():
            source = Path(*package.__path__, f"{name}.py").read_text(encoding="utf-8")
            doc = ast.get_docstring(ast.parse(source)) or ""
            sentences[name] = " ".join(doc.split()).partition(". ")[0].rstrip(".") + "."
    return sentences

"""``graphgym-srnc report``: all there is to know of finished runs as one HTML page, which opens without a network."""
from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("report", help="write results as one HTML page: tables, tests, figures, settings", allow_abbrev=False)
    parser.add_argument("folders", nargs="+", metavar="DIR", help="an experiment, a folder of them, or a folder of such folders")
    parser.add_argument("--out", metavar="FILE", help="the page (default: the name of the first DIR with .html, in the current directory)")
    parser.add_argument("--metric", nargs="+", default=[], metavar="NAME", help="scores to compare; the first one chooses settings"
                        " (default: Micro-F1, macro recall and scores of the unknown class)")
    parser.add_argument("--against", metavar="ROW", help="test every row against this one (default: the best by mean rank)")
    parser.add_argument("--title", default="", metavar="TEXT", help="title of the page (default: names of the folders)")
    parser.add_argument("--figures", metavar="FOLDER", help="write the figures there too, each as PNG and PDF")
    parser.add_argument("--paper", metavar="TABLE", help="put the paper's numbers beside ours: open_set, close_set, clustering or none"
                        " (default: those that fit)")


def main(args: argparse.Namespace) -> None:
    """Read, write the page, say where it is.

    Raises:
        InputError: no results, an unknown metric or row, or a page that cannot be written.
    """
    from graphgym_srnc.atomic import write_text
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.report import overview, page
    from graphgym_srnc.report.read import collect
    # Not in DIR: GraphGym's agg_batch takes whatever lies there for an experiment.
    out = Path(args.out or f"{Path(args.folders[0]).resolve().name or 'report'}.html")
    place = next(path for path in out.absolute().parents if path.exists())
    if out.is_dir() or args.out and not place.is_dir() or not os.access(place, os.W_OK):
        raise InputError("--out", str(out), "a file that can be written")
    found = collect(args.folders)
    text = page.render(found, args.metric, args.against, args.title, args.paper, descriptions())
    try:
        write_text(out, text)
    except OSError as error:
        raise InputError("--out", str(out), f"a file that can be written ({error.strerror})") from error
    print(f"wrote {out} ({len(text.encode()) / 2 ** 20:.1f} MiB)")
    if args.figures:
        try:
            paths = overview.draw_all(found.results, args.figures, *args.metric[:1])
        except OSError as error:
            raise InputError("--figures", args.figures, f"a folder that can be written to ({error.strerror})") from error
        print(f"wrote {len(paths)} figures to {args.figures}")


def descriptions() -> dict[str, str]:
    """What each method and shift is, by name: the first sentence of its module."""
    import ast

    from graphgym_srnc import methods, shifts
    found = {}
    for package in (shifts, methods):
        for name in package.names():
            source = (Path(package.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
            found[name] = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0].partition(". ")[0].rstrip(".") + "."
    return found

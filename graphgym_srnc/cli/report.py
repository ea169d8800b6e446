"""``graphgym-srnc report``: finished runs as one HTML page that needs no network."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphgym_srnc.cli import arguments

OPTIONS = """
--out FILE  write the page to FILE (default: the name of the first DIR with .html, in the current
    directory)
--metric NAME+  compare these scores; the first one chooses the settings (default: Micro-F1, macro
    recall and scores of the unknown class)
--against ROW  test every row against ROW (default: the row with the best mean rank)
--title TEXT  set the title of the page (default: the names of the folders)
--figures FOLDER  also write each figure to FOLDER as PNG and PDF
--paper TABLE  show the paper's numbers beside yours: open_set, close_set, clustering or none
    (default: the table that matches most runs)
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    options = arguments.FOLDERS + OPTIONS + arguments.OVERWRITE
    text = "Write results as one HTML page with tables, tests and figures. It needs no network."
    arguments.add_command(subparsers, "report", text, options)


def main(args: argparse.Namespace) -> None:
    """Read results, write the page and print its place.

    Raises:
        InputError: no results, an unknown metric or row, or a page that cannot be written.
    """
    from graphgym_srnc.io.atomic import write_text
    from graphgym_srnc.report import page, pictures
    from graphgym_srnc.report.frame import collect

    # Not in DIR: GraphGym's agg_batch takes whatever lies there for an experiment.
    out = args.out or f"{Path(args.folders[0]).resolve().name or 'report'}.html"
    arguments.check_out("--out", out, args.overwrite, (".html", ".htm"))
    arguments.check_folder("--figures", args.figures, args.overwrite)

    found = collect(args.folders)
    title = args.title or ""
    text = page.render(found, args.metric, args.against, title, args.paper, descriptions())
    with arguments.writing("--out", out):
        write_text(Path(out), text)
    print(f"wrote {out} ({len(text.encode()) / 2**20:.1f} MiB)")
    if args.figures:
        with arguments.writing("--figures", args.figures):
            paths = pictures.draw_all(found.results, args.figures, *args.metric[:1])
        print(f"wrote {len(paths)} figures to {args.figures}")


def descriptions() -> dict[str, str]:
    """Description of each method and shift by name: the first sentence of its module."""
    import ast

    from graphgym_srnc import methods, shifts

    sentences = {}
    for package in (shifts, methods):
        for name in package.own_names():
            source = Path(*package.__path__, f"{name}.py").read_text(encoding="utf-8")
            doc = ast.get_docstring(ast.parse(source)) or ""
            sentences[name] = " ".join(doc.split()).partition(". ")[0].rstrip(".") + "."
    return sentences

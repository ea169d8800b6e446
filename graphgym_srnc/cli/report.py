"""``graphgym-srnc report``: finished runs as one HTML page that needs no network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.words import told
from graphgym_srnc.report import html, page
from graphgym_srnc.report.frame import collect


def main(args: argparse.Namespace) -> None:
    """Read results, write the page and print its place.

    Raises:
        InputError: no results, an unknown metric or row, or a page that cannot be written.
    """
    # Not in DIR: GraphGym's agg_batch takes whatever lies there for an experiment.
    out = args.out or f"{Path(args.folders[0]).resolve().name or 'report'}.html"
    replaces = args.overwrite or not args.out and html.is_report(Path(out))
    arguments.check_out("--out", out, replaces, (".html", ".htm"))
    found = collect(args.folders)
    content = page.render(found, args.metric, args.against, args.paper, args.ddof, told).encode()
    for remark in found.remarks():
        print(f"note: {remark}", file=sys.stderr)
    print(f"{arguments.write('--out', out, content)} ({len(content) / 2**20:.1f} MiB)")

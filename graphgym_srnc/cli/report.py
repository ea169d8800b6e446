"""``graphgym-srnc report``: finished runs as one HTML page that needs no network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from graphgym_srnc.cli import arguments
from graphgym_srnc.io.atomic import write_text
from graphgym_srnc.report import page
from graphgym_srnc.report.frame import collect


def main(args: argparse.Namespace) -> None:
    """Read results, write the page and print its place.

    Raises:
        InputError: no results, an unknown metric or row, or a page that cannot be written.
    """
    # Not in DIR: GraphGym's agg_batch takes whatever lies there for an experiment.
    out = args.out or f"{Path(args.folders[0]).resolve().name or 'report'}.html"
    arguments.check_out("--out", out, args.overwrite, (".html", ".htm"))
    found = collect(args.folders)
    text = page.render(found, args.metric, args.against, args.paper)
    for remark in found.remarks():
        print(f"note: {remark}", file=sys.stderr)
    with arguments.writing("--out", out):
        write_text(Path(out), text)
    print(f"wrote {out} ({len(text.encode()) / 2**20:.1f} MiB)")

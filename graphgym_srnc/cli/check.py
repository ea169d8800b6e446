"""``graphgym-srnc check``: whether a folder of results or graphs is what was written into it."""
from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "check", help="look over a folder of results for damaged files", allow_abbrev=False,
        description="Read every run, record, model, checkpoint, aggregate, picture and event file,"
        " and every graph folder that data make wrote, in and below a folder, and compare their"
        " checksums. Nothing is changed. The exit status is 1 if a file is damaged.")
    parser.add_argument("folder", metavar="DIR",
                        help="an experiment, a folder of them, or a graph folder")


def main(args: argparse.Namespace) -> int:
    """Print a line for each finding, and a summary; 1 if anything is damaged.

    Raises:
        InputError: there is no such folder, or no run and no graph folder in it.
    """
    from graphgym_srnc.report.check import check
    from graphgym_srnc.text import clean
    report = check(args.folder)
    for path, kind, reason in report.findings:
        print(clean(f"{kind}: {path} {reason}"))
    print(report.summary())
    return int(any(finding.kind == "damaged" for finding in report.findings))

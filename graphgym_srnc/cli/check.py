"""``graphgym-srnc check``: whether a folder of results is what was written into it."""
from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "check", help="look over a folder of results for damaged files", allow_abbrev=False,
        description="Read every run, record, model, checkpoint and aggregate in and below a folder"
        " and compare its checksums. Nothing is changed. The exit status is 1 if a file is"
        " damaged.")
    parser.add_argument("folder", metavar="DIR", help="an experiment, or a folder of them")


def main(args: argparse.Namespace) -> int:
    """Print a line for each finding, and a summary; 1 if anything is damaged.

    Raises:
        InputError: there is no such folder, or no run in it.
    """
    from graphgym_srnc.report.check import check
    from graphgym_srnc.text import clean
    report = check(args.folder)
    for path, kind, reason in report.findings:
        print(clean(f"{kind}: {path} {reason}"))
    print(report.summary())
    return int(any(finding.kind == "damaged" for finding in report.findings))

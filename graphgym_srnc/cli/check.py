"""``graphgym-srnc check``: verify the checksums of a folder of results or graphs."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "check",
        help="verify the checksums of stored results",
        allow_abbrev=False,
        description="Verify the checksums of stored results. The command reads every record, model,"
        " checkpoint, table, figure and event file, and every graph folder of `data make`, in DIR"
        " and below. It changes nothing. The exit status is 1 if a file is damaged.",
    )
    parser.add_argument(
        "folder",
        metavar="DIR",
        help="folder of an experiment, a folder of experiments, or a graph folder",
    )


def main(args: argparse.Namespace) -> int:
    """Print a line for each finding, and a summary; 1 if anything is damaged.

    Raises:
        InputError: there is no such folder, or no run and no graph folder in it.
    """
    from graphgym_srnc.core.text import clean
    from graphgym_srnc.report.check import check

    report = check(args.folder)
    for path, kind, reason in report.findings:
        print(clean(f"{kind}: {path} {reason}"))
    print(report.summary())
    return int(any(finding.kind == "damaged" for finding in report.findings))

"""The command ``graphgym-srnc``: one parser, one module a subcommand, one line for each kind of bad input."""
from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Sequence

from graphgym_srnc import __version__
from graphgym_srnc.errors import InputError

COMMANDS = ("run", "grid", "compare", "report", "data", "options")
"""Each is a module here with ``add_parser(subparsers)`` and ``main(args) -> int | None``, light to import."""

INTERRUPTED = 130


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = argparse.ArgumentParser(prog="graphgym-srnc", allow_abbrev=False,
                                     description="Node classification under distribution shift, on PyTorch Geometric's GraphGym.")
    parser.add_argument("--version", action="version", version=f"graphgym-srnc {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(COMMANDS) + "}")
    for name in COMMANDS:
        import_module(f"graphgym_srnc.cli.{name}").add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for bad input (told in one line on stderr), or 130 after Ctrl-C."""
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    # argparse cannot mix options with a list of positional words, so the words arrive here.
    options = [word for word in rest if word.startswith("--")]
    if options or rest and not hasattr(args, "overrides"):
        parser.error(f"unrecognized arguments: {' '.join(options or rest)}")
    if rest:
        args.overrides = [*args.overrides, *rest]
    try:
        return import_module(f"graphgym_srnc.cli.{args.command}").main(args) or 0
    except InputError as error:
        print("error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(": ".join(["interrupted", *map(str, error.args)]), file=sys.stderr)
        return INTERRUPTED

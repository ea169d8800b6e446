"""``graphgym-srnc options``: every key that a config may set beyond GraphGym's own, and what it means."""
from __future__ import annotations

import argparse
import shutil
import sys
import textwrap


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("options", help="list methods, shifts, backbones and every config key", allow_abbrev=False)
    parser.add_argument("block", nargs="?", help="one block only: a method, a shift, train or dataset")


def main(args: argparse.Namespace) -> int:
    """Print the lists and the table of keys.

    Raises:
        InputError: there is no such block.
    """
    from graphgym_srnc import backbones, methods, shifts
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.gym import config_names, schema
    blocks = schema()
    if args.block is not None and args.block not in blocks:
        raise InputError("options", args.block, ", ".join(blocks))
    if args.block is None:
        for title, key, names in (("methods", "train.mode", ["standard", *methods.names()]), ("shifts", "dataset.format", shifts.names()),
                                  ("backbones", "gnn.layer_type", [*backbones.BACKBONES, "any layer registered with GraphGym"]),
                                  ("configs", "--cfg", config_names())):
            print(f"{title} ({key}): {', '.join(names)}")
        print()
    rows = [("key", "type", "default", "meaning")]
    for block, options in blocks.items():
        if args.block in (None, block):
            rows += [(f"{block}.{option.key}", option.type.__name__, repr(option.default), option.doc) for option in options]
    _show(rows)
    return 0


def _show(rows: list[tuple[str, str, str, str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    indent = sum(widths) + 6
    room = max(30, shutil.get_terminal_size((140, 24)).columns - indent) if sys.stdout.isatty() else 10_000
    for row in rows:
        head = "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
        text = textwrap.wrap(row[3], room) or [""]
        print("\n".join([f"{head}  {text[0]}".rstrip(), *(" " * indent + line for line in text[1:])]))

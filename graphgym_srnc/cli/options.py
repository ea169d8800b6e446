"""``graphgym-srnc options``: list the config keys of this package, with their meaning."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "options",
        help="list methods, shifts, backbones and all config keys",
        allow_abbrev=False,
        description="List methods, shifts, backbones and all config keys with their defaults.",
    )
    parser.add_argument(
        "block",
        nargs="?",
        help="list one block only: a method, a shift, train or dataset (default: all)",
    )


def main(args: argparse.Namespace) -> None:
    """Print the lists and the table of keys.

    Raises:
        InputError: there is no such block.
    """
    from graphgym_srnc import backbones, methods, shifts
    from graphgym_srnc.core.text import readable
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.gym import config_names, schema

    blocks = schema()
    if args.block is None:
        layers = ", ".join([*backbones.BACKBONES, "any layer registered with GraphGym"])
        print(f"methods (train.mode): {', '.join(methods.names())}")
        print(f"shifts (dataset.format): {', '.join(shifts.names())}")
        print(f"backbones (gnn.layer_type): {layers}")
        print("configs (--cfg):", *_by_folder(config_names()), "", sep="\n")
    elif args.block in blocks:
        blocks = {args.block: blocks[args.block]}
    else:
        raise InputError("options", args.block, ", ".join(blocks))

    rows: list[tuple[str, ...]] = [("key", "type", "default", "allowed", "meaning")]
    for block, options in blocks.items():
        for option in options:
            allowed = "" if option.allowed is None else str(option.allowed)
            rows.append(
                (
                    f"{block}.{option.key}",
                    option.type.__name__,
                    repr(option.default),
                    allowed,
                    readable(option.doc),
                )
            )
    _show(rows)


def _by_folder(names: list[str]) -> list[str]:
    """A line for each folder of configs: ``  paper/open_set/: citeseer-doc, ...``."""
    folders: dict[str, list[str]] = {"": []}
    for name in names:
        folder, _, last = name.rpartition("/")
        folders.setdefault(folder and f"{folder}/: ", []).append(last)
    return [f"  {folder}{', '.join(lasts)}" for folder, lasts in folders.items()]


def _show(rows: list[tuple[str, ...]]) -> None:
    """Print rows with their columns below each other, the last one wrapped on a terminal."""
    widths = [max(map(len, column)) for column in list(zip(*rows))[:-1]]
    indent = sum(widths) + 2 * len(widths)
    columns = shutil.get_terminal_size((140, 24)).columns
    room = max(30, columns - indent) if sys.stdout.isatty() else 10_000
    for *cells, meaning in rows:
        head = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths))
        first, *more = textwrap.wrap(meaning, room) or [""]
        print("\n".join([f"{head}  {first}".rstrip(), *(" " * indent + line for line in more)]))

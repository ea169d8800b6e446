"""``graphgym-srnc options``: list the config keys that runs read, with their meaning."""

from __future__ import annotations

import argparse
from itertools import groupby

from graphgym_srnc import backbones, methods, shifts
from graphgym_srnc.core.formulas import readable
from graphgym_srnc.core.text import aligned
from graphgym_srnc.errors import not_one_of
from graphgym_srnc.gym import config_names, documented


def main(args: argparse.Namespace) -> None:
    """Print the lists and the table of keys; an InputError names a block that does not exist."""
    blocks = documented()
    if args.block is None:
        layers = ", ".join([*backbones.BACKBONES, "any layer registered with GraphGym"])
        print(f"methods (train.mode): {', '.join(methods.names())}")
        print(f"shifts (dataset.format): {', '.join(shifts.names())}")
        print(f"backbones (gnn.layer_type): {layers}")
        print("configs (--cfg):")
        for folder, names in groupby(config_names(), lambda name: name.rpartition("/")[0]):
            own = ", ".join(name.rpartition("/")[2] for name in names)
            print(f"  {folder}/: {own}" if folder else f"  {own}")
        print()
    elif args.block in blocks:
        blocks = {args.block: blocks[args.block]}
    else:
        raise not_one_of("options", args.block, [*blocks])

    rows = [("key", "type", "default", "allowed", "meaning")]
    for block, options in blocks.items():
        for key, kind, default, doc, allowed in options:
            value = kind.__name__, repr(default), str(allowed or "")
            rows.append((f"{block}.{key}", *value, readable(doc).replace("``", "")))
    print(aligned(rows), end="")

"""``graphgym-srnc data``: data sets, a shift before any training, and graphs of your own files."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphgym_srnc.cli import arguments
from graphgym_srnc.errors import InputError


def main(args: argparse.Namespace) -> None:
    """Run the action; its slow imports come first now."""
    if args.action == "list":
        if args.root and not Path(args.root).is_dir():
            raise InputError.plain("--root", f"the folder {args.root} does not exist")
        list_data(args.root or "")
    elif args.action == "show":
        arguments.check_out("--out", args.out, args.overwrite, (".html",))
        from graphgym_srnc.cli.words import told
        from graphgym_srnc.data.describe import describe
        from graphgym_srnc.gym import load_config
        from graphgym_srnc.gym.build import shown_task
        from graphgym_srnc.report import page, summary

        shift = describe(shown_task(load_config(args.settings, args.overrides)))
        shift |= {key: told(shift[key]) for key in ("notes", "warnings")}
        summary.show_shift(shift)
        if args.out:
            print(arguments.write("--out", args.out, page.of_data(shift).encode()))
    else:
        from graphgym_srnc.cli import make

        {"make": make.make, "example": make.write_example}[args.action](args)


def list_data(root: str) -> None:
    """Print each data set's name, whether its raw files are here, and where they belong."""
    from graphgym_srnc.core.text import aligned
    from graphgym_srnc.data import catalogue
    from graphgym_srnc.data.home import folder_of
    from graphgym_srnc.shifts import names

    places = {}
    for name in catalogue.known_names():
        family, member = catalogue.resolve(name)
        places[name] = family, catalogue.raw_folder(family, member)
    for family, networks in catalogue.NETWORKS.items():
        shift = "ocnnc" if family == "ocnnc" else "cross_graph"
        for name in networks:
            places[f"{shift}: {name}"] = family, catalogue.network_file(family, name)
    rows = [("dataset.name", "here", "raw files")]
    for name, (family, place) in places.items():
        path = folder_of(family, root) / place
        rows.append((name, "yes" if path.is_file() or any(path.glob("*")) else "no", str(path)))
    print(aligned(rows))
    print(
        "The short name is enough where it is unique: Cora for Planetoid/Cora, Photo for "
        "Amazon/Photo.\nAny other data set of torch_geometric.datasets works as Class/Member if "
        "it is a single graph.\nMost of them need --trust, since their files can execute code.\n"
        f"dataset.format is one of {', '.join(names())}.\n"
        "synthetic, and temporal with dataset.name arxiv_like, need no files. file reads your "
        "own graph, and\ncross_graph any two of your own graphs."
    )

"""``graphgym-srnc data``: data sets, a shift before any training, and graphs of your own files."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphgym_srnc.cli import arguments, make


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``data`` and its actions."""
    what = "list data sets, show a shift before training, or make a graph from your own files"
    parser = make.add_action(subparsers, "data", what)
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="{list,show,make,example}"
    )
    listing = make.add_action(actions, "list", "list data sets and whether their files are present")
    help = "look in this data folder (default: $GRAPHGYM_SRNC_DATA or ./datasets)"
    listing.add_argument("--root", default="", help=help)
    what = "show graphs, splits, label distributions and warnings before training"
    show = make.add_action(actions, "show", what)
    help = "read this yaml file or shipped config (default: the package's default config)"
    show.add_argument("--cfg", metavar="FILE", help=help)
    help = "draw the label distributions to FILE, such as shift.png (default: draw none)"
    show.add_argument("--out", metavar="FILE", help=help)
    arguments.add_options(show, f"{arguments.OVERWRITE}\n{arguments.TRUST}")
    help = "set config keys, such as open_set.num_unseen 2"
    show.add_argument("overrides", nargs="*", metavar="key value", help=help)
    make.add_parsers(actions)


def main(args: argparse.Namespace) -> None:
    """Run the action."""
    if args.action == "list":
        list_data(args.root)
    elif args.action == "show":
        show(args.cfg, args.overrides, args.out, args.overwrite)
    else:
        {"make": make.make, "example": make.example}[args.action](args)


def list_data(root: str) -> None:
    """Print each data set's name, whether its raw files are here, and where they belong."""
    from graphgym_srnc.core.text import aligned
    from graphgym_srnc.data.catalogue import known_names, raw_folder, resolve
    from graphgym_srnc.data.home import folder_of
    from graphgym_srnc.shifts import names

    places = {name: (resolve(name)[0], raw_folder(*resolve(name))) for name in known_names()}
    places |= {
        f"cross_graph: {name}": ("citation", f"{name}.mat")
        for name in ("acmv9", "citationv1", "dblpv7")
    }
    places |= {
        f"ocnnc: {name}": ("ocnnc", f"{name}.mat") for name in ("citation-v1", "dblp-v4", "acm-v8")
    }
    rows = [("dataset.name", "here", "raw files")]
    for name, (family, place) in places.items():
        path = folder_of(family, root) / place
        found = path.is_file() or any(path.glob("*"))
        rows.append((name, "yes" if found else "no", str(path)))
    print(aligned(rows))
    print(
        "The short name is enough where it is unique: Cora for Planetoid/Cora, Photo for "
        "Amazon/Photo.\nAny other data set of torch_geometric.datasets works as Class/Member if "
        "it is a single graph.\nMost of them need --trust, since their files can execute code.\n"
        f"dataset.format is one of {', '.join(names())}.\n"
        "synthetic, and temporal with dataset.name arxiv_like, need no files. file reads your "
        "own graph, and\ncross_graph any two of your own graphs."
    )


def show(cfg: str | None, overrides: list[str], out: str | None, overwrite: bool = False) -> None:
    """Print the shift that a config describes, and draw it if ``out`` names a file.

    Raises:
        InputError: a bad config, bad data, or a picture that cannot be written.
    """
    from graphgym_srnc.data.describe import describe
    from graphgym_srnc.gym import build_task, load_config
    from graphgym_srnc.plots import charts, style
    from graphgym_srnc.report.summary import show_shift

    arguments.check_out("--out", out, overwrite, (".png", ".pdf", ".svg"))
    summary = describe(build_task(load_config(cfg, overrides)))
    show_shift(summary)
    if out:
        with arguments.writing("--out", out):
            style.save(charts.shift_figure(summary), Path(out))
        print(f"wrote {out}")

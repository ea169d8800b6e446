"""``graphgym-srnc data make`` and ``data example``: make your own graph, or example tables."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphgym_srnc.cli import arguments
from graphgym_srnc.core.text import plain

if TYPE_CHECKING:
    from graphgym_srnc.data.features import TextOptions
    from graphgym_srnc.data.folder import Graph

MAKE = """\
  data make nodes.csv edges.csv --text title --out FOLDER      a node table and a list of links
  data make graph.graphml --text title --out FOLDER            one file with nodes and links
  data make ogbn_arxiv --out FOLDER                            a folder of the package ogb
  data make hetero.pt --node paper --metapath paper-author-paper --out FOLDER
                                                               a HeteroData saved by torch.save
Repeat an option to name several columns, or separate them by commas.
docs/tutorials/own-graph.md shows an example of each."""

INPUTS = (
    "a node table and a list of links; one .graphml, .gexf, .gml, .net, .json or .csv file "
    "with both; a folder of the package ogb (it contains raw/); or a .pt file"
)

TABLE_FILES = (
    "a node table (.csv, .tsv, .txt, also .gz; .xlsx, .json, .parquet) and a list of links, "
    "or a graph (.graphml, .gexf, .gml, .net, .json, a .csv of Neo4j)"
)

Option = tuple[dict[str, Any], str]
SWITCH = {"action": "store_true"}
COLUMN = {"metavar": "COLUMN", "default": ""}
COLUMNS = {"metavar": "COLUMN", "default": [], "action": "append"}
ENDS = {"metavar": "COLUMN", "default": (), "nargs": 2}
FOLDER = {"type": Path, "metavar": "FOLDER"}
KEEP = {"choices": ("first", "last"), "default": ""}
LIST = {"choices": ("english", "none"), "default": "english"}
PATH = {"metavar": "PATH", "default": ""}
PATHS = {"metavar": "PATH", "default": [], "action": "append"}
SHARE = {"type": float, "metavar": "SHARE", "default": 0.05}
FILE = {"type": Path, "metavar": "FILE"}
N = {"type": int, "metavar": "N"}

TABLES: dict[str, Option] = {
    "id": (COLUMN, "read node ids from this column (default: id, or one whose cells links have)"),
    "label": (COLUMN, "read classes from this column, or `none` (default: label, class, ...)"),
    "split": (COLUMN, "read train, val, test or nothing from this column (default: split)"),
    "ends": (ENDS, "read node ids of links from these columns (default: source and target, ...)"),
    "text": (COLUMNS, "turn this text column into a bag of words"),
    "numbers": (COLUMNS, "use this column of numbers as a feature; '*' = all others"),
    "categories": (COLUMNS, "make one feature for each value of this column"),
    "embeddings": (FILE, "add your own features, an .npy array [V, D] in the order of the nodes"),
    "spectral": ({**N, "default": 0}, "add N spectral features of the links (default: 0)"),
    "like": (FOLDER, "make the same features as in this graph folder, so that its model fits"),
    "skip_missing": (SWITCH, "leave out links to unknown ids (default: they are an error)"),
    "keep": (KEEP, "keep one of different rows with the same id (default: they are an error)"),
    "report": (FILE, "also write an HTML page that describes the files (default: write none)"),
}
HETERO: dict[str, Option] = {
    "node": ({"metavar": "TYPE", "default": ""}, "keep the nodes of this type"),
    "metapath": (PATHS, "link two nodes by this path of types, such as paper-author-paper"),
    "bag": (PATH, "count the nodes at the end of this path as features (default: own features)"),
    "labels_from": (PATH, "take labels from the end of this path (default: the node's own labels)"),
    "top": (N, "keep the N strongest neighbours of each node (default: all)"),
    "min_count": (N, "drop links that fewer than N paths support (default: 1)"),
    "max_degree": (N, "skip intermediate nodes with more than N links (default: no limit)"),
    "max_edges": (N, "stop with an error above N links (default: 5000000)"),
}
WORDS: dict[str, Option] = {
    "counts": (SWITCH, "count words with CountVectorizer (default: TF-IDF)"),
    "max_words": ({**N, "default": 2000}, "keep the N most frequent words (default: 2000)"),
    "min_nodes": ({**N, "default": 2}, "drop words in fewer than N nodes (default: 2)"),
    "stop_words": (LIST, "leave out common words of this list (default: english)"),
}
EXAMPLE: dict[str, Option] = {
    "nodes": ({**N, "default": 20_000}, "write N nodes (default: 20000)"),
    "labelled": (SHARE, "label this share of the nodes of the other topics (default: 0.05)"),
    "seed": ({**N, "default": 0}, "seed the random graph (default: 0)"),
    "overwrite": (SWITCH, "replace an example that this program wrote"),
}
"""Options of a kind of input, of texts and of the example: how each is parsed, and its help."""

LIMITS = {"top": 0, "min_count": 1, "max_degree": 0, "max_edges": 1}
"""Limits of a heterogeneous graph, and their minimum."""


def add_parsers(actions: argparse._SubParsersAction) -> None:
    """Add ``data make`` and ``data example``."""
    make = actions.add_parser(
        "make",
        help="make a graph folder from your own tables, texts or heterogeneous graph",
        description="Make a graph folder from your own tables, texts or heterogeneous graph.",
        epilog=MAKE,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    make.add_argument("inputs", nargs="+", metavar="FILE", help=INPUTS)
    make.add_argument(
        "--out", required=True, type=Path, metavar="FOLDER", help="write the graph folder to FOLDER"
    )
    make.add_argument(
        "--overwrite", action="store_true", help="replace a graph folder that this program made"
    )
    example = actions.add_parser(
        "example",
        help="write an example node table and list of links",
        description="Write an example node table and list of links, with two unlabelled topics.",
    )
    example.add_argument("out", type=Path, metavar="FOLDER", help="write the tables to FOLDER")
    for parser, options in (
        (make.add_argument_group(TABLE_FILES), TABLES),
        (make.add_argument_group("a heterogeneous graph"), HETERO),
        (make.add_argument_group("text features (scikit-learn's TfidfVectorizer)"), WORDS),
        (example, EXAMPLE),
    ):
        for name, (kind, text) in options.items():
            parser.add_argument(_option(name), **kind, help=text)


def make(args: argparse.Namespace) -> None:
    """Make a graph folder and print a summary.

    Raises:
        InputError: an input or an option is not what it should be; nothing was written then.
    """
    from graphgym_srnc.data import folder
    from graphgym_srnc.data.features import TextOptions

    inputs = [*map(Path, args.inputs), *filter(None, (args.embeddings, args.like))]
    folder.check_place(args.out, args.overwrite, inputs=inputs)
    for path in inputs:
        folder.tell_changes(path)
    kind = _kind(args)
    report = str(args.report) if args.report else None
    arguments.check_out("--report", report, args.overwrite, (".html",))
    options = TextOptions(args.counts, args.max_words, args.min_nodes, args.stop_words)
    graph, notes = _graph(kind, args, options)
    folder.write(graph, args.out, args.overwrite)
    wrote = [f"wrote {place}" for place in (args.out, args.report) if place]
    print("\n".join([*map(plain, notes), *folder.summary(graph), *wrote]))
    out = shlex.quote(str(args.out))
    if args.like:
        command = f"graphgym-srnc predict RUN --graph {out} --out predictions.csv"
        print(f"next: {command}  # RUN: a run on {plain(str(args.like))}")
    elif refusal := _refusal(graph, args.out):
        print(f"! this graph cannot be used for training yet: {plain(refusal)}")
    else:
        print(f"next: graphgym-srnc run --cfg own dataset.name {out}")


def example(args: argparse.Namespace) -> None:
    """Write the example and print the next command.

    Raises:
        InputError: a value out of its range, or the folder cannot be written.
    """
    from graphgym_srnc.own import example

    given = {name: getattr(args, name) for name in ("labelled", "seed", "overwrite")}
    example.write(args.out, num_nodes=args.nodes, **given)
    files = ("nodes.csv", "edges.csv", "graph")
    nodes, edges, out = (shlex.quote(str(args.out / name)) for name in files)
    print(
        f"wrote {nodes}, {edges} and answers.csv: {args.nodes:,} documents of "
        f"{len(example.TOPICS)} topics; {example.UNLABELLED} topics have no labels\n"
        f"next: graphgym-srnc data make {nodes} {edges} --text title --out {out}"
    )


def _refusal(graph: Graph, out: Path) -> str:
    """Why ``run --cfg own`` would refuse a graph folder; empty if it would not."""
    sizes = Counter(filter(None, graph.labels or ()))
    if len(sizes) < 2:
        return "it has labels of fewer than two classes"
    if sizes.total() >= 10 * len(sizes) and not any(graph.split or ()):
        return ""  # enough for any split
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.gym import build_task, load_config  # imports torch

    try:
        build_task(load_config("own", ["dataset.name", str(out)]))
    except InputError as error:
        return str(error)
    return ""


def _kind(args: argparse.Namespace) -> str:
    """Which kind of input this is; its options are checked."""
    from graphgym_srnc.errors import InputError

    last, alone = Path(args.inputs[-1]), len(args.inputs) == 1
    kind, useless = "a node table", [*HETERO]
    if alone and last.suffix == ".pt":
        kind, useless = "a heterogeneous graph", [*TABLES]
    elif alone and (last / "raw").is_dir():
        kind, useless = "a folder of the package ogb", [*TABLES, *HETERO]
    elif last.is_dir() or len(args.inputs) > 2:
        found = f"{' '.join(args.inputs)!r} is not a graph"
        raise InputError.plain("data make", found, f"Give {INPUTS}")
    least = {"max_words": 1, "min_nodes": 1, **LIMITS}
    given = {name: value for name, value in least.items() if getattr(args, name) is not None}
    arguments.check_least(args, **given)
    for name in useless:
        if getattr(args, name):
            raise InputError.plain(_option(name), f"it has no effect with {kind}", "Leave it out")
    return kind


def _graph(kind: str, args: argparse.Namespace, options: TextOptions) -> tuple[Graph, list[str]]:
    """The graph of the inputs, and notes."""
    inputs = [*map(Path, args.inputs)]
    if kind == "a node table":
        from graphgym_srnc.own.tables import homogeneous

        given = {name: getattr(args, name) for name in TABLES}
        for option in ("text", "numbers", "categories"):
            given[option] = [name.strip() for names in given[option] for name in names.split(",")]
        return homogeneous.make_graph(*inputs, **given, words=options)
    if kind == "a folder of the package ogb":
        from graphgym_srnc.own.tables import ogb

        return ogb.read_folder(inputs[0])
    from graphgym_srnc.own.tables import hetero

    limits = {name: getattr(args, name) for name in LIMITS if getattr(args, name) is not None}
    return hetero.make_graph(
        hetero.read_pt(inputs[0]),
        args.node,
        args.metapath,
        hetero.Limits(**limits),
        args.bag,
        args.labels_from,
        options,
    )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

"""``graphgym-srnc data make`` and ``data example``: your own graph, and tables to play with."""
from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Sequence

from graphgym_srnc.cli import arguments
from graphgym_srnc.text import plain

if TYPE_CHECKING:
    from graphgym_srnc.data.folder import Graph
    from graphgym_srnc.own.tables.features import TextOptions

    Maker = Callable[[argparse.Namespace, TextOptions], tuple[Graph, list[str]]]

MAKE = """\
  data make nodes.csv edges.csv --text title --out FOLDER      a node table and a list of links
  data make graph.graphml --text title --out FOLDER            one file with both
  data make ogbn_arxiv --out FOLDER                            a folder of the package ogb
  data make hetero.pt --node paper --metapath paper-author-paper --out FOLDER
                                                               a HeteroData that torch.save wrote
  data make dblp FILES --node author --metapath author-paper-author --bag author-paper --out FOLDER
                                                               the text files of DBLP's four areas
Columns are named one by one or with commas; docs/own-graph.md has an example of each."""

INPUTS = ("a node table and a list of links; or one .graphml, .gexf, .json or .csv with both; "
          "or a folder of ogb's, with raw in it; or a .pt; or dblp and a folder")

TABLES = ("id", "label", "split", "ends", "text", "categories", "numbers", "embeddings", "spectral",
          "like", "skip_missing", "keep", "report")
OWN = '<meta name="generator" content="graphgym-srnc data make">'
"""A line of each page of ``--report``, which tells a later call that it may be replaced."""

LIMITS = {"top": 0, "min_count": 1, "max_degree": 0, "max_edges": 1}
HETERO = ("node", "metapath", "bag", "labels_from", *LIMITS)
"""Options that are of use for one kind of input alone; limits with their least values."""


def add_parsers(actions: argparse._SubParsersAction) -> None:
    """Add ``data make`` and ``data example``."""
    make = actions.add_parser(
        "make", help="make a graph folder of your own tables, texts or heterogeneous graph",
        epilog=MAKE, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    make.add_argument("inputs", nargs="+", metavar="FILE", help=INPUTS)
    make.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="graph folder")
    make.add_argument("--overwrite", action="store_true",
                      help="replace a folder that this program made")
    _add_table_options(make.add_argument_group(
        "a node table (.csv, .tsv, .txt, also .gz; .xlsx, .json, .parquet) and a list of links, "
        "or a graph (.graphml, .gexf, .json, a .csv of Neo4j)").add_argument)
    _add_hetero_options(make.add_argument_group("a heterogeneous graph").add_argument)
    _add_text_options(make.add_argument_group(
        "how texts become features (scikit-learn's TfidfVectorizer)").add_argument)

    example = actions.add_parser("example", help="write a node table and links to play with")
    example.add_argument("out", type=Path, metavar="FOLDER")
    example.add_argument("--nodes", type=int, default=20_000, help="their number (default: 20000)")
    example.add_argument("--labelled", type=float, default=0.05, metavar="SHARE",
                         help="share of nodes with a label (default: 0.05)")
    example.add_argument("--seed", type=int, default=0, help="decides the graph (default: 0)")
    example.add_argument("--overwrite", action="store_true",
                         help="replace a folder that this program made")


def _add_table_options(add: Callable) -> None:
    column = {"metavar": "COLUMN", "default": ""}
    columns = {"metavar": "COLUMN", "default": [], "action": "append"}
    add("--id", **column, help="ids of nodes, which links name (default: id, or the first column)")
    add("--label", **column, help="classes, words or numbers, empty = a node without one; `none` ="
        " no column has any (default: label, class, category, ...)")
    add("--split", **column, help="train, val, test or empty (default: split)")
    add("--ends", nargs=2, default=(), metavar="COLUMN",
        help="of the links, the two ids (default: the first two columns)")
    add("--text", **columns, help="a column of text, made into a bag of words")
    add("--numbers", **columns, help="a column of numbers; '*' = all others")
    add("--categories", **columns, help="a column of which each value is a feature")
    add("--embeddings", type=Path, metavar="FILE",
        help="features of your own, an .npy [V, D] in the order of the table")
    add("--spectral", type=int, default=0, metavar="D", help="so many features of the links alone")
    add("--like", type=Path, metavar="FOLDER", help="features as in this folder, for its model")
    add("--skip-missing", action="store_true", help="leave out links to ids that are no nodes")
    add("--keep", choices=("first", "last"), default="",
        help="of rows with one id and other cells, which stays (default: that is an error)")
    add("--report", type=Path, metavar="PAGE.html", help="write a page of what is in the files")


def _add_hetero_options(add: Callable) -> None:
    path, number = {"metavar": "PATH", "default": ""}, {"metavar": "N", "type": int}
    add("--node", metavar="TYPE", default="", help="the type whose nodes are kept")
    add("--metapath", action="append", default=[], metavar="PATH",
        help="types that link two nodes, paper-author-paper")
    add("--bag", **path, help="where features come from (default: the node itself)")
    add("--labels-from", **path, help="where labels come from (default: the node itself)")
    add("--top", **number, help="keep so many strongest neighbours of each node")
    add("--min-count", **number, help="drop those that fewer paths lead to")
    add("--max-degree", **number, help="pass by nodes on the way with more links")
    add("--max-edges", **number, help="more links are an error")


def _add_text_options(add: Callable) -> None:
    add("--counts", action="store_true", help="count words (CountVectorizer) instead of TF-IDF")
    number = {"type": int, "metavar": "N"}
    add("--max-words", **number, default=2000, help="most frequent words kept (default: 2000)")
    add("--min-nodes", **number, default=2, help="words of fewer nodes are not (default: 2)")
    add("--stop-words", choices=("english", "none"), default="english",
        help="common words to leave out (default: english)")


def make(args: argparse.Namespace) -> None:
    """Make a graph folder and say what is in it.

    Raises:
        InputError: an input or an option is not what it should be; nothing was written then.
    """
    from graphgym_srnc.data import folder
    from graphgym_srnc.own.tables.features import TextOptions
    inputs = [*map(Path, args.inputs), *filter(None, (args.embeddings, args.like))]
    folder.check_place(args.out, args.overwrite, inputs=inputs)
    for path in inputs:
        folder.tell_changes(path)
    make_graph = _maker(args)
    _check(args, make_graph)
    report = str(args.report) if args.report else None
    arguments.check_out("--report", report, args.overwrite, (".html",), own=OWN)
    options = TextOptions(args.counts, args.max_words, args.min_nodes, args.stop_words)
    graph, notes = make_graph(args, options)
    folder.write(graph, args.out, args.overwrite)
    wrote = [f"wrote {place}" for place in (args.out, args.report) if place]
    print("\n".join([*map(plain, notes), *folder.summary(graph), *wrote]))
    if any(graph.labels or ()):
        print(f"next: graphgym-srnc run --cfg own dataset.name {shlex.quote(str(args.out))}")


def example(args: argparse.Namespace) -> None:
    """Write the example and say how to go on.

    Raises:
        InputError: a value out of its range, or the folder cannot be written.
    """
    from graphgym_srnc.own.tables import example
    example.write(args.out, num_nodes=args.nodes, labelled=args.labelled, seed=args.seed,
                  overwrite=args.overwrite)
    files = ("nodes.csv", "edges.csv", "graph")
    nodes, edges, out = (shlex.quote(str(args.out / name)) for name in files)
    print(f"wrote {nodes}, {edges} and answers.csv: {args.nodes:,} documents of "
          f"{len(example.TOPICS)} topics, of which {example.UNLABELLED} have no label\n"
          f"next: graphgym-srnc data make {nodes} {edges} --text title --out {out}")


def _maker(args: argparse.Namespace) -> Maker:
    """Who makes a graph of inputs of this kind."""
    from graphgym_srnc.errors import InputError
    last = Path(args.inputs[-1])
    if args.inputs[0] == "dblp" or last.suffix == ".pt":
        return _of_hetero
    if last.is_dir() and len(args.inputs) == 1 and (last / "raw").is_dir():
        return _of_ogb
    if last.is_dir() or len(args.inputs) > 2:
        raise InputError("data make", " ".join(args.inputs), INPUTS)
    return _of_tables


def _check(args: argparse.Namespace, make_graph: Maker) -> None:
    from graphgym_srnc.errors import InputError
    for name, least in {"max_words": 1, "min_nodes": 1, **LIMITS}.items():
        if getattr(args, name) is not None and getattr(args, name) < least:
            raise InputError(_option(name), getattr(args, name), f"{least} or more")
    kind, useless = {_of_tables: ("a node table", HETERO),
                     _of_hetero: ("a heterogeneous graph", TABLES),
                     _of_ogb: ("a folder of ogb's", (*TABLES, *HETERO))}[make_graph]
    for name in useless:
        if getattr(args, name):
            raise InputError(_option(name), getattr(args, name), f"nothing with {kind}")


def _of_tables(args: argparse.Namespace, options: TextOptions) -> tuple[Graph, list[str]]:
    from graphgym_srnc.own.tables import homogeneous
    given = {name: getattr(args, name) for name in TABLES}
    given |= {name: _names(given[name]) for name in ("text", "numbers", "categories")}
    return homogeneous.make_graph(*map(Path, args.inputs), **given, options=options)


def _of_ogb(args: argparse.Namespace, options: TextOptions) -> tuple[Graph, list[str]]:
    from graphgym_srnc.own.tables import ogb
    return ogb.read_folder(Path(args.inputs[0]))


def _of_hetero(args: argparse.Namespace, options: TextOptions) -> tuple[Graph, list[str]]:
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.own.tables import dblp, hetero, metapaths
    from graphgym_srnc.own.tables.projection import Limits
    source = Path(args.inputs[-1])
    if len(args.inputs) == 1 and source.suffix == ".pt":
        graph, left_out = hetero.read_pt(source), []
    elif len(args.inputs) == 2 and source.is_dir():
        graph, left_out = dblp.read_folder(source)
    else:
        raise InputError("data make", " ".join(args.inputs), INPUTS)
    given = {name: getattr(args, name) for name in LIMITS if getattr(args, name) is not None}
    made, summary = metapaths.make_graph(graph, args.node, args.metapath, Limits(**given), args.bag,
                                         args.labels_from, options)
    return made, left_out + summary


def _names(given: Sequence[str]) -> list[str]:
    return [name.strip() for names in given for name in names.split(",")]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

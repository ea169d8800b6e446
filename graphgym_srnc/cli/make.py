"""``graphgym-srnc data make`` and ``data example``: make your own graph, or example tables."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Sequence

from graphgym_srnc.cli import arguments
from graphgym_srnc.core.text import plain

if TYPE_CHECKING:
    from graphgym_srnc.core.errors import InputError
    from graphgym_srnc.data.features import TextOptions
    from graphgym_srnc.data.folder import Graph

    Maker = Callable[[argparse.Namespace, TextOptions], tuple[Graph, list[str]]]

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

TABLES = (
    "id",
    "label",
    "split",
    "ends",
    "text",
    "categories",
    "numbers",
    "embeddings",
    "spectral",
    "like",
    "skip_missing",
    "keep",
    "report",
)
OWN = '<meta name="generator" content="graphgym-srnc data make">'
"""A line of each page of ``--report``, which marks it as replaceable by a later call."""

LIMITS = {"top": 0, "min_count": 1, "max_degree": 0, "max_edges": 1}
HETERO = ("node", "metapath", "bag", "labels_from", *LIMITS)
"""Options that apply to one kind of input only; limits with their minimum."""


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
    _add_table_options(
        make.add_argument_group(
            "a node table (.csv, .tsv, .txt, also .gz; .xlsx, .json, .parquet) and a list of links, "  # noqa: E501
            "or a graph (.graphml, .gexf, .gml, .net, .json, a .csv of Neo4j)"
        ).add_argument
    )
    _add_hetero_options(make.add_argument_group("a heterogeneous graph").add_argument)
    _add_text_options(
        make.add_argument_group("text features (scikit-learn's TfidfVectorizer)").add_argument
    )

    example = actions.add_parser(
        "example",
        help="write an example node table and list of links",
        description="Write an example node table and list of links, with two unlabelled topics.",
    )
    example.add_argument("out", type=Path, metavar="FOLDER", help="write the tables to FOLDER")
    example.add_argument(
        "--nodes", type=int, default=20_000, metavar="V", help="write V nodes (default: 20000)"
    )
    example.add_argument(
        "--labelled",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="label this share of the nodes of the other topics (default: 0.05)",
    )
    example.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed the random graph (default: 0)"
    )
    example.add_argument(
        "--overwrite", action="store_true", help="replace an example that this program wrote"
    )


def _add_table_options(add: Callable) -> None:
    column = {"metavar": "COLUMN", "default": ""}
    columns = {"metavar": "COLUMN", "default": [], "action": "append"}
    add(
        "--id",
        **column,
        help="read node ids from this column (default: id, or the first one whose cells are in the"
        " links)",
    )
    add(
        "--label",
        **column,
        help="read classes from this column, words or numbers; an empty cell"
        " is an unlabelled node; `none` = no labels (default: label, class, category, ...)",
    )
    add(
        "--split",
        **column,
        help="read train, val, test or nothing from this column (default: split)",
    )
    add(
        "--ends",
        nargs=2,
        default=(),
        metavar="COLUMN",
        help="read the two node ids of a link from these columns (default: source and target, from"
        " and to, ..., or the two columns that contain node ids)",
    )
    add("--text", **columns, help="turn this text column into a bag of words")
    add("--numbers", **columns, help="use this column of numbers as a feature; '*' = all others")
    add("--categories", **columns, help="make one feature for each value of this column")
    add(
        "--embeddings",
        type=Path,
        metavar="FILE",
        help="add your own features, an .npy array [V, D] in the order of the node table",
    )
    add(
        "--spectral",
        type=int,
        default=0,
        metavar="D",
        help="add D spectral features of the links (default: 0)",
    )
    add(
        "--like",
        type=Path,
        metavar="FOLDER",
        help="make the same features as in this graph folder, so that its model can be used",
    )
    add(
        "--skip-missing",
        action="store_true",
        help="leave out links to unknown ids (default: they are an error)",
    )
    add(
        "--keep",
        choices=("first", "last"),
        default="",
        help="keep this one of several different rows with the same id (default: they are an"
        " error)",
    )
    add(
        "--report",
        type=Path,
        metavar="PAGE.html",
        help="also write an HTML page that describes the files (default: write none)",
    )


def _add_hetero_options(add: Callable) -> None:
    path, number = {"metavar": "PATH", "default": ""}, {"metavar": "N", "type": int}
    add("--node", metavar="TYPE", default="", help="keep the nodes of this type")
    add(
        "--metapath",
        action="append",
        default=[],
        metavar="PATH",
        help="link two nodes by this path of types, such as paper-author-paper",
    )
    add(
        "--bag",
        **path,
        help="count the nodes at the end of this path as features (default: the node's own"
        " features)",
    )
    add(
        "--labels-from",
        **path,
        help="take labels from the end of this path (default: the node's own labels)",
    )
    add("--top", **number, help="keep the N strongest neighbours of each node (default: all)")
    add("--min-count", **number, help="drop links that fewer than N paths support (default: 1)")
    add(
        "--max-degree",
        **number,
        help="skip intermediate nodes with more than N links (default: no limit)",
    )
    add("--max-edges", **number, help="stop with an error above N links (default: 5000000)")


def _add_text_options(add: Callable) -> None:
    add("--counts", action="store_true", help="count words with CountVectorizer (default: TF-IDF)")
    number = {"type": int, "metavar": "N"}
    add(
        "--max-words", **number, default=2000, help="keep the N most frequent words (default: 2000)"
    )
    add(
        "--min-nodes",
        **number,
        default=2,
        help="drop words that occur in fewer than N nodes (default: 2)",
    )
    add(
        "--stop-words",
        choices=("english", "none"),
        default="english",
        help="leave out common words of this list (default: english)",
    )


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
    make_graph = _maker(args)
    _check(args, make_graph)
    report = str(args.report) if args.report else None
    arguments.check_out("--report", report, args.overwrite, (".html",), own=OWN)
    options = TextOptions(args.counts, args.max_words, args.min_nodes, args.stop_words)
    graph, notes = make_graph(args, options)
    folder.write(graph, args.out, args.overwrite)
    wrote = [f"wrote {place}" for place in (args.out, args.report) if place]
    print("\n".join([*map(plain, notes), *folder.summary(graph), *wrote]))
    out = shlex.quote(str(args.out))
    if args.like:
        print(
            f"next: graphgym-srnc predict RUN --graph {out} --out predictions.csv"
            f"  # RUN: a run on {plain(str(args.like))}"
        )
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

    example.write(
        args.out,
        num_nodes=args.nodes,
        labelled=args.labelled,
        seed=args.seed,
        overwrite=args.overwrite,
    )
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
    from graphgym_srnc.core.errors import InputError
    from graphgym_srnc.gym import build_task, load_config  # imports torch

    try:
        build_task(load_config("own", ["dataset.name", str(out)]))
    except InputError as error:
        return str(error)
    return ""


def _maker(args: argparse.Namespace) -> Maker:
    """The function that makes a graph of inputs of this kind."""
    last = Path(args.inputs[-1])
    if last.suffix == ".pt" and len(args.inputs) == 1:
        return _of_hetero
    if last.is_dir() and len(args.inputs) == 1 and (last / "raw").is_dir():
        return _of_ogb
    if last.is_dir() or len(args.inputs) > 2:
        raise _no_inputs(args)
    return _of_tables


def _check(args: argparse.Namespace, make_graph: Maker) -> None:
    from graphgym_srnc.core.errors import InputError

    for name, least in {"max_words": 1, "min_nodes": 1, **LIMITS}.items():
        if getattr(args, name) is not None and getattr(args, name) < least:
            raise InputError(_option(name), getattr(args, name), f"{least} or more")
    kind, useless = {
        _of_tables: ("a node table", HETERO),
        _of_hetero: ("a heterogeneous graph", TABLES),
        _of_ogb: ("a folder of the package ogb", (*TABLES, *HETERO)),
    }[make_graph]
    for name in useless:
        if getattr(args, name):
            message = f"it has no effect with {kind}"
            raise InputError.plain(_option(name), message, "Leave it out")


def _no_inputs(args: argparse.Namespace) -> InputError:
    from graphgym_srnc.core.errors import InputError

    return InputError.plain(
        "data make", f"{' '.join(args.inputs)!r} is not a graph", f"Give {INPUTS}"
    )


def _of_tables(args: argparse.Namespace, options: TextOptions) -> tuple[Graph, list[str]]:
    from graphgym_srnc.own.tables import homogeneous

    given = {name: getattr(args, name) for name in TABLES}
    given |= {name: _names(given[name]) for name in ("text", "numbers", "categories")}
    return homogeneous.make_graph(*map(Path, args.inputs), **given, words=options)


def _of_ogb(args: argparse.Namespace, options: TextOptions) -> tuple[Graph, list[str]]:
    from graphgym_srnc.own.tables import ogb

    return ogb.read_folder(Path(args.inputs[0]))


def _of_hetero(args: argparse.Namespace, options: TextOptions) -> tuple[Graph, list[str]]:
    from graphgym_srnc.own.tables import hetero

    given = {name: getattr(args, name) for name in LIMITS if getattr(args, name) is not None}
    return hetero.make_graph(
        hetero.read_pt(Path(args.inputs[0])),
        args.node,
        args.metapath,
        hetero.Limits(**given),
        args.bag,
        args.labels_from,
        options,
    )


def _names(given: Sequence[str]) -> list[str]:
    return [name.strip() for names in given for name in names.split(",")]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

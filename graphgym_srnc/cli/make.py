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
  data make hetero.pt --node paper --metapath paper-author-paper --out FOLDER
                                                               a HeteroData saved by torch.save
Repeat an option to name several columns, or separate them by commas.
docs/tutorials/own-graph.md shows an example of each."""

INPUTS = (
    "a node table and a list of links; one .graphml, .gexf, .gml, .net or .json file with both; "
    "or a .pt file"
)

TABLE_FILES = (
    "a node table (.csv, .tsv, .txt, also .gz; .xlsx, .json, .parquet) and a list of links, "
    "or a graph (.graphml, .gexf, .gml, .net, .json)"
)

Option = tuple[dict[str, Any], str]
SWITCH: dict[str, Any] = {"action": "store_true"}
COLUMN = {"metavar": "COLUMN", "default": ""}
COLUMNS = {"metavar": "COLUMN", "default": [], "action": "append"}
ENDS = {"metavar": "COLUMN", "default": (), "nargs": 2}
FOLDER: dict[str, Any] = {"type": Path, "metavar": "FOLDER"}
KEEP = {"choices": ("first", "last"), "default": ""}
LIST = {"choices": ("english", "none"), "default": "english"}
PATH = {"metavar": "PATH", "default": ""}
PATHS = {"metavar": "PATH", "default": [], "action": "append"}
SHARE = {"type": float, "metavar": "SHARE", "default": 0.05}
FILE = {"type": Path, "metavar": "FILE"}
N = {"type": int, "metavar": "N"}
COUNT = {**N, "default": 0}

TABLES: dict[str, Option] = {
    "id": (COLUMN, "read node ids from this column (default: id, or one whose cells links have)"),
    "label": (COLUMN, "read classes from this column, or `none` (default: label, class, ...)"),
    "split": (COLUMN, "read train, val, test or nothing from this column (default: split)"),
    "ends": (ENDS, "read node ids of links from these columns (default: source and target, ...)"),
    "text": (COLUMNS, "turn this text column into a bag of words"),
    "numbers": (COLUMNS, "use this column of numbers as a feature; '*' = all others"),
    "categories": (COLUMNS, "make one feature for each value of this column"),
    "embeddings": (FILE, "add your own features, an .npy array [V, D] in the order of the nodes"),
    "spectral": (COUNT, "add N spectral features of the links (default: 0)"),
    "like": (FOLDER, "make the same features as in this graph folder, so that its model fits"),
    "skip_missing": (SWITCH, "leave out links to unknown ids (default: they are an error)"),
    "keep": (KEEP, "keep one of different rows with the same id (default: they are an error)"),
}
HETERO: dict[str, Option] = {
    "node": ({"metavar": "TYPE", "default": ""}, "keep the nodes of this type"),
    "metapath": (PATHS, "link two nodes by this path of types, such as paper-author-paper"),
    "bag": (PATH, "count the nodes at the end of this path as features (default: own features)"),
    "top": (COUNT, "keep the N strongest neighbours of each node (default: all)"),
    "min_count": (COUNT, "drop links that fewer than N paths support (default: 1)"),
    "max_degree": (COUNT, "skip intermediate nodes with more than N links (default: no limit)"),
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
    "seed": (COUNT, "seed the random graph (default: 0)"),
    "overwrite": (SWITCH, "replace an example that this program wrote"),
}
"""Options of a kind of input, of texts and of the example: how each is parsed, and its help."""


def add_action(
    actions: argparse._SubParsersAction, name: str, what: str
) -> argparse.ArgumentParser:
    """Add a command, whose help says what it does in the imperative."""
    about = f"{what[0].upper()}{what[1:]}."
    return actions.add_parser(name, help=what, description=about)


def add_parsers(actions: argparse._SubParsersAction) -> None:
    """Add ``data make`` and ``data example``."""
    what = "make a graph folder from your own tables, texts or heterogeneous graph"
    make = add_action(actions, "make", what)
    make.epilog, make.allow_abbrev = MAKE, False
    make.formatter_class = argparse.RawDescriptionHelpFormatter
    make.add_argument("inputs", nargs="+", metavar="FILE", help=INPUTS)
    make.add_argument("--out", required=True, **FOLDER, help="write the graph folder to FOLDER")
    make.add_argument("--overwrite", **SWITCH, help="replace a graph folder that this program made")
    what = "write an example node table and list of links, with two unlabelled topics"
    example = add_action(actions, "example", what)
    example.add_argument("out", **FOLDER, help="write the tables to FOLDER")
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
    from graphgym_srnc.errors import InputError

    inputs = [*map(Path, args.inputs)]
    read = [*inputs, *filter(None, (args.embeddings, args.like))]
    folder.check_place(args.out, args.overwrite, inputs=read)
    for path in read:
        folder.tell_changes(path)
    is_hetero = len(inputs) == 1 and inputs[0].suffix == ".pt"
    if inputs[-1].is_dir() or len(inputs) > 2:
        found = f"{' '.join(args.inputs)!r} is not a graph"
        raise InputError.plain("data make", found, f"Give {INPUTS}")
    arguments.check_least(args, max_words=1, min_nodes=1, top=0, min_count=0, max_degree=0)
    for name in TABLES if is_hetero else HETERO:
        if getattr(args, name):
            kind = "a heterogeneous graph" if is_hetero else "a node table"
            raise InputError.plain(_option(name), f"it has no effect with {kind}", "Leave it out")
    graph, notes = (_of_hetero if is_hetero else _of_tables)(inputs, args)
    folder.write(graph, args.out, args.overwrite)
    print("\n".join([*map(plain, notes), *folder.summary(graph), f"wrote {args.out}"]))
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


def _of_tables(inputs: list[Path], args: argparse.Namespace) -> tuple[Graph, list[str]]:
    from graphgym_srnc.own.tables import homogeneous

    given = {name: getattr(args, name) for name in TABLES}
    for option in ("text", "numbers", "categories"):
        given[option] = [name.strip() for names in given[option] for name in names.split(",")]
    return homogeneous.make_graph(*inputs, **given, words=_text_options(args))


def _of_hetero(inputs: list[Path], args: argparse.Namespace) -> tuple[Graph, list[str]]:
    from graphgym_srnc.own.tables import hetero

    limits = hetero.Limits(args.top, args.min_count, args.max_degree)
    data, options = hetero.read_pt(inputs[0]), _text_options(args)
    return hetero.make_graph(data, args.node, args.metapath, limits, args.bag, options)


def _text_options(args: argparse.Namespace) -> TextOptions:
    from graphgym_srnc.data.features import TextOptions

    return TextOptions(args.counts, args.max_words, args.min_nodes, args.stop_words)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

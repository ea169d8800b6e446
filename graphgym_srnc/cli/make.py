"""``graphgym-srnc data make`` and ``data example``: from a user's own files to a graph folder, and files to play with."""
from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any, Sequence

MAKE = """\
  data make nodes.csv edges.csv --text title --out FOLDER      a node table and a list of links
  data make hetero.pt --node paper --metapath paper-author-paper --out FOLDER
                                                               a HeteroData that torch.save wrote
  data make dblp FILES --node author --metapath author-paper-author --bag author-paper --out FOLDER
                                                               the text files of the DBLP four-area data set
Columns are named one by one or with commas; docs/own-graph.md has an example of each."""

LIMITS = ("top", "min_count", "max_degree", "max_edges")
HETERO = ("node", "metapath", "bag", "labels_from", *LIMITS)
TABLES = ("id", "label", "split", "ends", "text", "categories", "numbers", "embeddings", "spectral", "like", "skip_missing")
"""Options that one kind of input has no use for."""


def add_parsers(actions: argparse._SubParsersAction) -> None:
    """Add ``data make`` and ``data example``."""
    make = actions.add_parser("make", help="make a graph folder of your own tables, texts or heterogeneous graph", epilog=MAKE,
                              allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    make.add_argument("inputs", nargs="+", metavar="FILE", help="a node table and a list of links; or a .pt; or dblp and a folder")
    _place(make, "folder of the graph")
    table = make.add_argument_group("a node table (.csv, .tsv, .parquet) and a list of links")
    table.add_argument("--id", default="", metavar="COLUMN", help="ids of nodes, which links name (default: id, or the first column)")
    table.add_argument("--label", default="", metavar="COLUMN", help="classes, words or numbers, empty = none (default: label)")
    table.add_argument("--split", default="", metavar="COLUMN", help="train, val, test or empty (default: split)")
    table.add_argument("--ends", nargs=2, default=(), metavar="COLUMN", help="of the links, the two ids (default: the first two columns)")
    for option, about in (("text", "a column of text, made into a bag of words"), ("numbers", "a column of numbers; '*' = all others"),
                          ("categories", "a column of which each value is a feature")):
        table.add_argument(f"--{option}", action="append", default=[], metavar="COLUMN", help=about)
    table.add_argument("--embeddings", type=Path, metavar="FILE", help="features of your own, an .npy [V, D] in the order of the table")
    table.add_argument("--spectral", type=int, default=0, metavar="D", help="so many features made of the links alone")
    table.add_argument("--like", type=Path, metavar="FOLDER", help="make the features as in this graph folder, for a model trained on it")
    table.add_argument("--skip-missing", action="store_true", help="leave out links to ids that the table does not have")
    hetero = make.add_argument_group("a heterogeneous graph")
    hetero.add_argument("--node", metavar="TYPE", help="the type whose nodes are kept")
    hetero.add_argument("--metapath", action="append", default=[], metavar="PATH", help="types that link two nodes, paper-author-paper")
    hetero.add_argument("--bag", default="", metavar="PATH", help="where features come from (default: the node itself)")
    hetero.add_argument("--labels-from", default="", metavar="PATH", help="where labels come from (default: the node itself)")
    for option, about in (("top", "keep so many strongest neighbours of each node"), ("min-count", "drop those that fewer paths lead to"),
                          ("max-degree", "pass by nodes on the way with more links"), ("max-edges", "more links are an error")):
        hetero.add_argument(f"--{option}", type=int, metavar="N", help=about)
    words = make.add_argument_group("how texts become features (scikit-learn's TfidfVectorizer)")
    words.add_argument("--counts", action="store_true", help="count words (CountVectorizer) instead of TF-IDF")
    words.add_argument("--max-words", type=int, default=2000, metavar="N", help="the most frequent words are kept (default: 2000)")
    words.add_argument("--min-nodes", type=int, default=2, metavar="N", help="words of fewer nodes are not (default: 2)")
    words.add_argument("--stop-words", choices=("english", "none"), default="english", help="common words to leave out (default: english)")
    example = actions.add_parser("example", help="write a node table and a list of links to play with")
    example.add_argument("out", type=Path, metavar="FOLDER")
    example.add_argument("--nodes", type=int, default=20_000, metavar="N", help="number of nodes (default: 20000)")
    example.add_argument("--labelled", type=float, default=0.05, metavar="SHARE", help="share of nodes with a label (default: 0.05)")
    example.add_argument("--seed", type=int, default=0, help="decides the graph (default: 0)")
    example.add_argument("--overwrite", action="store_true", help="replace what is there")


def make(args: argparse.Namespace) -> None:
    """Make a graph folder and say what is in it.

    Raises:
        InputError: an input or an option is not what it should be; nothing was written then.
    """
    from graphgym_srnc.data import folder
    folder.check_place(args.out, args.overwrite)
    graph, told = _graph(args)
    folder.write(graph, args.out, args.overwrite)
    print("\n".join([*told, *folder.summary(graph), f"wrote {args.out}"]))
    if graph.labels and any(graph.labels):
        print(f"next: graphgym-srnc run --cfg own dataset.name {shlex.quote(str(args.out))}")


def example(args: argparse.Namespace) -> None:
    """Write the example and say how to go on.

    Raises:
        InputError: a value out of its range, or the folder cannot be written.
    """
    from graphgym_srnc.own.tables import example
    example.write(args.out, num_nodes=args.nodes, labelled=args.labelled, seed=args.seed, overwrite=args.overwrite)
    nodes, edges, out = (shlex.quote(str(args.out / name)) for name in ("nodes.csv", "edges.csv", "graph"))
    print(f"wrote {nodes}, {edges} and answers.csv: {args.nodes:,} documents of {len(example.TOPICS)} topics, of which "
          f"{example.UNLABELLED} have no label\nnext: graphgym-srnc data make {nodes} {edges} --text title --out {out}")


def _graph(args: argparse.Namespace) -> tuple[Any, list[str]]:
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.own.tables.features import TextOptions
    options = TextOptions(args.counts, args.max_words, args.min_nodes, args.stop_words)
    for name in ("max_words", "min_nodes", *LIMITS):
        least = int(name not in ("top", "max_degree"))
        if getattr(args, name) is not None and getattr(args, name) < least:
            raise InputError(_option(name), getattr(args, name), f"{least} or more")
    paths = [Path(name) for name in args.inputs]
    tables = len(paths) == 2 and args.inputs[0] != "dblp"
    for name in HETERO if tables else TABLES:
        if getattr(args, name):
            raise InputError(_option(name), getattr(args, name), "nothing with " + ("a node table" if tables else "a heterogeneous graph"))
    if tables:
        from graphgym_srnc.own.tables import flat as of_tables
        return of_tables.graph(*paths, id=args.id, label=args.label, split=args.split, ends=args.ends, text=_names(args.text),
                               numbers=_names(args.numbers), categories=_names(args.categories), embeddings=args.embeddings,
                               spectral=args.spectral, like=args.like, skip_missing=args.skip_missing, options=options)
    from graphgym_srnc.own.tables import dblp
    from graphgym_srnc.own.tables import hetero as typed
    from graphgym_srnc.own.tables.project import Limits
    if len(paths) == 1 and paths[0].suffix == ".pt":
        graph, left_out = typed.read_pt(paths[0]), []
    elif len(paths) == 2 and paths[1].is_dir():
        graph, left_out = dblp.read_folder(paths[1])
    else:
        raise InputError("data make", " ".join(args.inputs), "a node table and a list of links; or a .pt; or dblp and a folder")
    limits = Limits(**{name: getattr(args, name) for name in LIMITS if getattr(args, name) is not None})
    made, told = typed.graph(graph, args.node or "", args.metapath, limits, args.bag, args.labels_from, options)
    return made, left_out + told


def _names(given: Sequence[str]) -> list[str]:
    return [name.strip() for names in given for name in names.split(",")]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _place(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help=about)
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")

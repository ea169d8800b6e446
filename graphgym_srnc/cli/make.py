"""``graphgym-srnc data make`` and ``data example``: make your own graph, or example tables."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.parser import INPUTS
from graphgym_srnc.core.text import plain

if TYPE_CHECKING:
    from graphgym_srnc.data.features import TextOptions
    from graphgym_srnc.data.folder import Graph

COLUMNS = ("text", "numbers", "categories")
TABLES = "id label split ends embeddings spectral like skip_missing".split() + [*COLUMNS]
HETERO = "node metapath bag top min_count max_degree".split()
"""Arguments of one kind of input."""


def make(args: argparse.Namespace) -> None:
    """Make a graph folder and print a summary.

    Raises:
        InputError: an input or an option is not what it should be; nothing was written then.
    """
    from graphgym_srnc.core.progress import tell
    from graphgym_srnc.data import folder
    from graphgym_srnc.errors import InputError

    inputs, out = [*map(Path, args.inputs)], Path(args.out)
    read = [*inputs, *map(Path, filter(None, (args.embeddings, args.like)))]
    folder.check_place(out, args.overwrite, inputs=read)
    if args.like:
        folder.tell_changes(Path(args.like))
    is_hetero = len(inputs) == 1 and inputs[0].suffix == ".pt"
    if inputs[-1].is_dir() or len(inputs) > 2:
        found = f"{' '.join(args.inputs)!r} is not a graph"
        raise InputError.plain("data make", found, f"Give {INPUTS}")
    arguments.check_least(args, max_words=1, min_nodes=1, top=0, min_count=0, max_degree=0)
    for name in TABLES if is_hetero else HETERO:
        if getattr(args, name):
            kind = "a heterogeneous graph" if is_hetero else "a node table"
            option = f"--{name.replace('_', '-')}"
            raise InputError.plain(option, f"it has no effect with {kind}", "Leave it out")
    graph, notes = (_of_hetero if is_hetero else _of_tables)(inputs, args)
    folder.write(graph, out, args.overwrite)
    for line in [*map(plain, notes), *folder.summary(graph), f"wrote {out}"]:
        tell(line)
    if args.like:
        command = f"graphgym-srnc predict RUN --graph {shlex.quote(args.out)} --out predictions.csv"
        print(f"next: {command}  # RUN: a run on {plain(args.like)}")
    elif refusal := _refusal(graph, out):
        tell(f"! this graph cannot be used for training yet: {plain(refusal)}")
    else:
        print(f"next: graphgym-srnc run --cfg own dataset.name {shlex.quote(args.out)}")


def example(args: argparse.Namespace) -> None:
    """Write the example and print the next command.

    Raises:
        InputError: a value out of its range, or the folder cannot be written.
    """
    from graphgym_srnc.own import example

    given = {name: getattr(args, name) for name in ("labelled", "seed", "overwrite")}
    example.write(Path(args.out), num_nodes=args.nodes, **given)
    files = ("nodes.csv", "edges.csv", "graph")
    nodes, edges, out = (shlex.quote(str(Path(args.out, name))) for name in files)
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

    given = {name: value for name in TABLES if (value := getattr(args, name))}
    for files in {"embeddings", "like"} & {*given}:
        given[files] = Path(given[files])
    for columns in {*COLUMNS} & {*given}:
        given[columns] = [name.strip() for names in given[columns] for name in names.split(",")]
    return homogeneous.make_graph(*inputs, **given, words=_text_options(args))


def _of_hetero(inputs: list[Path], args: argparse.Namespace) -> tuple[Graph, list[str]]:
    from graphgym_srnc.own.tables import hetero

    limits = hetero.Limits(args.top, args.min_count, args.max_degree)
    data, options = hetero.read_pt(inputs[0]), _text_options(args)
    return hetero.make_graph(data, args.node, args.metapath, limits, args.bag, options)


def _text_options(args: argparse.Namespace) -> TextOptions:
    from graphgym_srnc.data.features import TextOptions

    return TextOptions(args.max_words, args.min_nodes)

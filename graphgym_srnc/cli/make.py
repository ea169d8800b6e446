"""``graphgym-srnc data make`` and ``data example``: make your own graph, or example tables."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.words import CONFIG, flags_of, told
from graphgym_srnc.core import progress
from graphgym_srnc.core.environment import uncollected
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.core.text import plain, tell
from graphgym_srnc.data import features, folder, frames, graph_files, look, read
from graphgym_srnc.data.names import RECIPE
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import content

GIVEN = "label split url date ends weight spectral embeddings like skip_missing".split()
LISTS = (*look.KINDS, "link_by")


@uncollected()
def make(args: argparse.Namespace) -> None:
    """Make a graph folder and print a summary.

    Raises:
        InputError: an input or an option is not what it should be; nothing was written then.
    """
    inputs = [*map(Path, args.inputs)]
    out = Path(args.out)
    used = [*inputs, *map(Path, filter(None, (args.embeddings, args.like)))]
    folder.check_place(out, args.overwrite, inputs=used)
    if args.like:
        folder.tell_changes(Path(args.like))
    _check_inputs(inputs)
    arguments.check_least(args, max_words=1, min_nodes=1)
    given = {name: value for name in GIVEN if (value := getattr(args, name))}
    given |= {"id": args.id, "header": args.header}
    for name in LISTS:
        given[name] = [one.strip() for names in getattr(args, name) for one in names.split(",")]
    given["words"] = features.TextOptions(args.max_words, args.min_nodes)
    with RunProgress(1, sys.stderr):
        graph, notes = make_graph(*inputs, **given)
        progress.doing("writing the graph", 1.0)
        folder.write(graph, out, args.overwrite)
    flags = CONFIG | flags_of(args.parser)
    for line in told([*map(plain, notes), *folder.summary(graph)], flags):
        tell(line)
    tell(f"wrote {out}")
    if args.like:
        _print_next(args.like, args.out)
    elif len({*(graph.labels or ())} - {""}) > 1:
        print(f"next: graphgym-srnc run --cfg own dataset.name {shlex.quote(args.out)}")


def _check_inputs(inputs: Sequence[Path]) -> None:
    """Refuse files that are no graph, or that need no conversion."""
    if inputs[-1].is_dir() or len(inputs) > 2:
        hint = "Give a node table and a list of links, or one file with both. Labels are a column"
        hint += " of the node table"
        raise InputError.plain("data make", f"{' '.join(map(str, inputs))!r} is not a graph", hint)
    if inputs[0].suffix == ".pt":
        from graphgym_srnc.data import files

        if "edge_index" in files.load(inputs[0])[0]:  # refuses a HeteroData
            found = f"{inputs[0].name} needs no conversion"
            hint = f"Use it with: graphgym-srnc run --cfg own dataset.name {inputs[0]}"
            raise InputError.plain("data make", found, hint)


def _print_next(like: str, out: str) -> None:
    """Print the commands for a graph with the features of an earlier one."""
    earlier, new = map(shlex.quote, (like, out))
    out_file = arguments.unused("predictions.csv")
    command = f"graphgym-srnc predict RUN --graph {new} --out {out_file}"
    print(f"next: {command}  # RUN: a run on {plain(like)}")
    ends = f"cross_graph.source {earlier} cross_graph.target {new}"
    print(f"or train for this graph: graphgym-srnc run --cfg own-networks {ends}")


def make_graph(
    nodes: Path, links: Path | None = None, *, embeddings: str = "", like: str = "", **given: Any
) -> tuple[folder.Graph, list[str]]:
    """A graph, and notes on what was chosen, corrected and left out.

    Args:
        nodes: the node table, or a file of nodes and links.
        links: the list of links; None = ``nodes`` holds both.
        embeddings: a file of features ``[V, D]``, see ``embeddings.read``.
        like: the folder of an earlier graph, whose features are made again.
        given: other fields of :class:`look.Options`.
    """
    if like:
        with reading(Path(like), "a folder with a recipe of data make", "like"):
            given["like"] = {**json.loads(content(Path(like, RECIPE)))}
    asked = look.Given((nodes.name, (links or nodes).name), look.Options(**given))
    progress.doing("reading tables", 0.2)
    if links is None:
        table, pairs = graph_files.graph(nodes, asked.notes, asked.options.links_by_values)
    else:
        table = read.sheet(nodes, asked.notes)
        pairs = graph_files.links(links, asked.notes)
    progress.doing("finding columns and links", 0.4)
    found = frames.look(asked, table, pairs, bool(embeddings))
    array: np.ndarray | None = None
    if embeddings:
        # It imports torch, which tables do without.
        from graphgym_srnc.data import embeddings as arrays

        array = arrays.read(Path(embeddings), found.nodes.ids, len(found.nodes.lines))
    return frames.graph(found, array), [*asked.chosen, *asked.notes, *asked.problems]


def write_example(args: argparse.Namespace) -> None:
    """Write the example and print the next command.

    Raises:
        InputError: a value out of its range, or the folder cannot be written.
    """
    from graphgym_srnc.own import example  # imports torch

    out = Path(args.out)
    example.write(out, args.nodes, args.labelled, args.seed, args.overwrite)
    nodes, edges = (shlex.quote(str(out / name)) for name in ("nodes.csv", "edges.csv"))
    graph = shlex.quote(str(out / "graph"))
    print(
        f"wrote {nodes}, {edges} and answers.csv: {args.nodes:,} documents of "
        f"{len(example.TOPICS)} topics; {example.UNLABELLED} topics have no labels\n"
        f"next: graphgym-srnc data make {nodes} {edges} --text title --out {graph}"
    )

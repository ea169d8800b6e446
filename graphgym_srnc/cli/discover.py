"""``graphgym-srnc discover``: cluster the nodes that a model predicts as unknown."""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Callable, Sequence

from graphgym_srnc.cli import arguments

OWN = '<meta name="generator" content="graphgym-srnc discover">'
"""A line of each page, which marks it as replaceable by a later call."""

EPILOG = """\
Name the clusters that you recognise and train on them: --name 1="graph theory" --name 2=biology
--labels-out FOLDER writes the graph with the most certain nodes of each named cluster as training
nodes of a new class. `graphgym-srnc run --cfg own dataset.name FOLDER` reads that folder."""

HELP = {
    "--graph": "read another graph, in a format of the shift `file` (default: the target graph of"
    " the run)",
    "--features": "read the features of --graph from FILE if the graph is a list of edges",
    "--texts": "read one text per node: one line each, or a .csv with the columns id and text"
    " (default: nodes.csv in the folder of the graph)",
    "--words": "read the names of features, one line each (default: words.txt in the folder of"
    " the graph)",
    "--out": "also write an HTML page with figures (default: write none)",
    "--csv": "also write the table of clusters (default: write none)",
    "--nodes": "also write a table of all nodes, .csv or .parquet (default: write none)",
    "--before": "keep the cluster names of FILE, an earlier table of --nodes (default: no names)",
    "--figures": "also write the figures as PNG (default: write none)",
    "--labels-out": "write the graph with the named clusters as classes (default: write none)",
    "--clusters": "set the number of clusters, known classes included (default: the most stable"
    " number)",
    "--top": "show N words and N nodes per cluster (default: 10)",
    "--nodes-per-class": "take N training nodes from each named cluster (default: 20)",
    "--evaluate": "score the ranking and the clusters against the true classes (default: no"
    " scores)",
}
DEFAULTS = {"--clusters": 0, "--top": 10, "--nodes-per-class": 20, "--evaluate": False}
METAVARS = {"--out": "PAGE.html", "--figures": "FOLDER", "--labels-out": "FOLDER"}
METAVARS |= {"--clusters": "K", "--top": "N", "--nodes-per-class": "N"}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    purpose = "luster the nodes that a trained run predicts as unknown"
    parser = subparsers.add_parser(
        "discover",
        help=f"c{purpose}",
        epilog=EPILOG,
        description=f"C{purpose}, and describe each cluster.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run = "folder of an open-set run, or of an experiment (its lowest seed is read)"
    parser.add_argument("run", metavar="RUN", help=run)
    for option, text in HELP.items():
        default, metavar = DEFAULTS.get(option), METAVARS.get(option, "FILE")
        arguments.add_option(parser, option, metavar, default, text)
    name = "name a cluster; repeat it to name several"
    parser.add_argument("--name", action="append", default=[], metavar="CLUSTER=NAME", help=name)
    arguments.add_raw(parser)
    arguments.add_trust(parser)
    arguments.add_overwrite(parser, own_pages=True)


def main(args: argparse.Namespace) -> None:
    """Cluster a graph, print the clusters and write the requested files.

    Raises:
        InputError: the run, the graph, a file or an option is not what it must be; nothing was
            written then.
    """
    from graphgym_srnc.core.progress import RunProgress
    from graphgym_srnc.io import store

    _check(args)
    if not Path(args.run).is_file():
        store.finished_run(Path(args.run))
    with RunProgress(1, sys.stderr) as progress:
        _discover(args, partial(progress.start, "discover"))


def _discover(args: argparse.Namespace, begin: Callable[[str], None]) -> None:
    """Body of ``main``; ``begin`` is called with the name of each step that may take long."""
    begin("reading the graph")
    import torch

    from graphgym_srnc.core import environment
    from graphgym_srnc.data.folder import check_place
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.gym import build, predictions
    from graphgym_srnc.own.discover import clusters, evidence, feedback, nodes, page, table

    before = nodes.earlier("--before", Path(args.before)) if args.before else None
    model = build.load_model(args.run)
    if not model.method.task.open_set:
        message = f"the model of {args.run} has no unknown class"
        raise InputError.plain("RUN", message, "Give a run of open-set shift")
    wanted = model.config.get("num_threads", 1)
    torch.set_num_threads(environment.threads(wanted))
    task = None if args.graph else build.task_of(model)
    one_graph = task is not None and task.source is task.target
    if args.labels_out and not one_graph:
        message = "the labelled nodes of the run are not in this graph"
        hint = "Give a run with one graph, and leave out --graph"
        raise InputError.plain("--labels-out", message, hint)
    folder: Path | None
    if task is None:
        graph, folder = model.read(args.graph, args.features)
    else:
        graph, folder = task.target, model.folder()
        _check_files(args, model.inputs())
    torch.set_num_threads(environment.threads(wanted, graph.edge_index.size(1)))
    if args.labels_out and folder is not None:
        check_place(Path(args.labels_out), args.overwrite, "--labels-out", [folder])
    names = table.read_names(args.texts, args.words, folder, graph)
    classes = feedback.in_words(model.class_names[:-1])

    begin("predicting")
    posterior = model.predict(graph).posterior
    clusters.check(posterior, args.clusters or len(classes) + 1)
    begin("computing node representations")
    state = clusters.states(graph, posterior)
    begin("estimating the number of clusters")
    curves = evidence.gather(graph, posterior, state)
    count = args.clusters or curves.stability.suggestion
    discovery = clusters.find(graph, posterior, count, state=state)
    cluster_names = nodes.carried(discovery, before, names.ids) if before else {}
    cluster_names |= feedback.parse_names(args.name, len(discovery.new))
    rows = table.rows(discovery, graph, classes, names, args.top, cluster_names)
    rating = evidence.score_lines(evidence.rate_on(discovery, task)) if args.evaluate else ""
    if args.labels_out and not cluster_names:
        message = "no name of --before fits a cluster"
        raise InputError.plain("--labels-out", message, "Name a cluster with --name")
    if args.labels_out:
        parts = {part: getattr(task, part) for part in feedback.PARTS}
        size = args.nodes_per_class
        labels = feedback.labels(discovery, cluster_names, classes, parts, graph.y, size)

    print("\n".join(filter(None, [table.to_text(rows), evidence.summary(curves), rating])))
    naming = ""
    if one_graph:
        numbers = [new.number for new in discovery.new]
        named = [f"--name={number}={cluster_names.get(number, 'NAME')}" for number in numbers]
        words = ["graphgym-srnc", "discover", args.run, "--clusters", str(count)]
        naming = shlex.join([*words, *named, "--labels-out", "NEXT"])
    begin("drawing figures and the map")
    drawn = page.pictures(discovery, curves) if args.out or args.figures else {}
    about = discovery, posterior, classes, names, cluster_names
    if args.out:
        data = Path(args.graph).name if task is None else task.name.removeprefix("file/")
        title, command = f"New classes in {data}", shlex.join(["graphgym-srnc", *sys.argv[1:]])
        every_node = page.map_data(*about)
        html = page.render(
            title, rows, discovery, curves, drawn, every_node, classes, command, naming
        )
        _write(Path(args.out), "--out", html.encode())
    for name, (_, png) in drawn.items() if args.figures else ():
        _write(Path(args.figures) / f"{name}.png", "--figures", png)
    if args.csv:
        _write(Path(args.csv), "--csv", table.to_csv(rows, args.raw).encode())
    if args.nodes:
        begin("searching the neighbours of each node")
        columns = nodes.table(*about, as_text=args.nodes.lower().endswith(".csv"))
        predictions.write(Path(args.nodes), columns, "--nodes", args.raw)
        atlas = f"embedding-atlas {shlex.quote(args.nodes)} --x x --y y --neighbors neighbors"
        atlas += " --text text" * (names.texts is not None)
        print(f"wrote {args.nodes}; to view it as a map: {atlas}")
    if args.labels_out:
        feedback.write(Path(args.labels_out), graph, labels, names, args.overwrite, folder)
        run = ["--cfg", "own", "--name", Path(args.labels_out).name]
        run += ["dataset.name", args.labels_out]
        print(f"wrote {args.labels_out}\nnext: graphgym-srnc run {shlex.join(run)}")
    elif naming:
        print(f"next, after you name the clusters: {naming}")


def _check(args: argparse.Namespace) -> None:
    """Check options and output files before any work."""
    from graphgym_srnc.errors import InputError

    arguments.check_least(args, top=1, nodes_per_class=1)
    if args.clusters < 0:
        raise InputError("--clusters", args.clusters, "more than the number of known classes")
    if args.labels_out and not (args.name or args.before):
        hint = "Name clusters with --name, or give --before"
        raise InputError.plain("--labels-out", "no cluster has a name", hint)
    inputs = [args.run, args.graph, args.features, args.texts, args.words, args.before]
    _check_files(args, inputs)
    arguments.check_folder("--figures", args.figures, args.overwrite)
    if args.labels_out:
        from graphgym_srnc.data.folder import check_place

        given = [Path(file) for file in inputs if file]
        check_place(Path(args.labels_out), args.overwrite, "--labels-out", given)


def _check_files(args: argparse.Namespace, inputs: Sequence[str | None]) -> None:
    """Check that output files can be written and are neither ``inputs`` nor one another."""
    from graphgym_srnc.cli.predict import check_out

    arguments.check_out("--out", args.out, args.overwrite, (".html",), own=OWN, others=inputs)
    arguments.check_out("--csv", args.csv, args.overwrite, (".csv",), others=inputs)
    if args.nodes:
        check_out(args.nodes, args.overwrite, [*inputs, args.csv], "--nodes")


def _write(path: Path, option: str, content: bytes) -> None:
    from graphgym_srnc.io import atomic

    with arguments.writing(option, str(path)):
        atomic.write_bytes(path, content)
    print(f"wrote {path}")

"""``graphgym-srnc discover``: the clusters of a graph that no known class stands for."""
from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Callable

from graphgym_srnc.cli import arguments

OWN = '<meta name="generator" content="graphgym-srnc discover">'
"""A line of each page, which tells a later call that it may be replaced."""

EPILOG = """\
Clusters that you know can be named and fed back: --name 1="graph theory" --name 2=biology
--labels-out FOLDER writes the graph with their sure nodes as training nodes of new classes, which
`graphgym-srnc run ... dataset.format file dataset.name FOLDER` reads."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "discover", help="show the clusters that no known class stands for", epilog=EPILOG,
        allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("run", metavar="RUN", help="a run of open-set shift, or an experiment (its lowest seed)")
    add("--graph", metavar="FILE", help="another graph, as `file` reads it (default: the target)")
    add("--features", metavar="FILE", default="", help="features beside a graph of edges alone")
    add("--texts", metavar="FILE",
        help="a text a node: a line each, or a .csv with the columns id and text"
             " (default: nodes.csv in the folder of the graph)")
    add("--words", metavar="FILE", help="names of features, a line each (default: words.txt)")
    add("--clusters", type=int, default=0, metavar="K",
        help="number of clusters |C|, known classes included (default: what stability suggests)")
    add("--top", type=int, default=10, metavar="N", help="words and nodes shown (default: 10)")
    add("--out", metavar="PAGE.html", help="also write an HTML page, with pictures in it")
    add("--csv", metavar="FILE", help="also write the table")
    add("--nodes", metavar="FILE", help="also write a table of all nodes, .csv or .parquet")
    add("--before", metavar="FILE", help="an earlier table of --nodes: names of clusters stay")
    add("--figures", metavar="FOLDER", help="also write the pictures as PNG")
    add("--evaluate", action="store_true", help="score ranking and clusters by true classes")
    add("--name", action="append", default=[], metavar="CLUSTER=NAME", help="name a cluster")
    add("--labels-out", metavar="FOLDER", help="write the graph with named clusters as classes")
    add("--nodes-per-class", type=int, default=20, metavar="N",
        help="training nodes from each named cluster (default: 20)")
    arguments.add_trust(parser)
    arguments.add_overwrite(parser)


def main(args: argparse.Namespace) -> None:
    """Cluster a graph, print what was found, write what was asked for.

    Raises:
        InputError: the run, the graph, a file or an option is not what it must be; nothing was
            written then.
    """
    from graphgym_srnc import store
    from graphgym_srnc.progress import RunProgress
    _check(args)
    if not Path(args.run).is_file():
        store.finished_run(Path(args.run))
    with RunProgress(1, sys.stderr) as progress:
        _discover(args, partial(progress.start, "discover"))


def _discover(args: argparse.Namespace, begin: Callable[[str], None]) -> None:
    """What ``main`` does after its checks; ``begin`` is told of each part that may take long."""
    begin("reading the graph")
    import torch

    from graphgym_srnc import environment
    from graphgym_srnc.data.folder import check_place
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.own.discover import clusters, evidence, feedback, nodes, page, scores, table
    from graphgym_srnc.own.discover import map as node_map
    from graphgym_srnc.own.discover.names import read_names
    from graphgym_srnc.own.discover.pictures import pictures
    from graphgym_srnc.own.discover.states import states
    from graphgym_srnc.runs import model as models
    from graphgym_srnc.runs import predictions

    before = nodes.earlier("--before", Path(args.before)) if args.before else None
    model = models.load(args.run)
    if not model.method.task.open_set:
        raise InputError("RUN", args.run,
                         "a run of open-set shift: this model has no unknown class")
    wanted = model.cfg.num_threads if model.cfg is not None else 1
    torch.set_num_threads(environment.threads(wanted))
    task = None if args.graph else model.task()
    if args.labels_out and (task is None or task.source is not task.target):
        raise InputError("--labels-out", args.labels_out,
                         "a run whose labelled nodes lie in the graph that is looked at")
    if task is None:
        graph, folder = model.read(args.graph, args.features)
    else:
        graph, folder = task.target, model.folder()
    torch.set_num_threads(environment.threads(wanted, graph.edge_index.size(1)))
    if args.labels_out and folder is not None:
        check_place(Path(args.labels_out), args.overwrite, "--labels-out", [folder])
    names = read_names(args.texts, args.words, folder, graph)
    classes = feedback.in_words(model.class_names[:-1])

    begin("predicting")
    posterior = model.predict(graph).posterior
    clusters.check(posterior, args.clusters or len(classes) + 1)
    begin("what the nodes are about")
    state = states(graph, posterior)
    begin("evidence on the number of clusters")
    curves = evidence.gather(graph, posterior, state)
    count = args.clusters or curves.stability.suggestion
    discovery = clusters.find(graph, posterior, count, state=state)
    cluster_names = nodes.carried(discovery, before, names.ids) if before else {}
    cluster_names |= feedback.parse_names(args.name, len(discovery.new))
    rows = table.rows(discovery, graph, classes, names, args.top, cluster_names)
    rating = scores.summary(scores.rate_on(discovery, task)) if args.evaluate else ""
    if args.labels_out and not cluster_names:
        raise InputError("--labels-out", args.labels_out, "--name, since no name of --before fits")
    if args.labels_out:
        parts = {part: getattr(task, part) for part in feedback.PARTS}
        labels = feedback.labels(discovery, cluster_names, classes, parts, graph.y,
                                 args.nodes_per_class)

    print("\n".join(filter(None, [table.text(rows), evidence.summary(curves), rating])))
    naming = ""
    if task is not None and task.source is task.target:
        named = [f"--name={new.number}={cluster_names.get(new.number, 'NAME')}"
                 for new in discovery.new]
        naming = shlex.join(["graphgym-srnc", "discover", args.run, "--clusters", str(count),
                             *named, "--labels-out", "NEXT"])
    begin("pictures and map")
    drawn = pictures(discovery, curves) if args.out or args.figures else {}
    if args.out:
        data = Path(args.graph).name if task is None else task.name.removeprefix("file/")
        title = f"New classes in {data}"
        command = shlex.join(["graphgym-srnc", *sys.argv[1:]])
        every_node = node_map.data(discovery, posterior, classes, names, cluster_names)
        html = page.render(title, rows, discovery, curves, drawn, every_node, classes, command,
                           naming)
        _write(Path(args.out), "--out", html.encode())
    for name, picture in drawn.items() if args.figures else ():
        _write(Path(args.figures) / f"{name}.png", "--figures", picture.png)
    if args.csv:
        _write(Path(args.csv), "--csv", table.to_csv(rows).encode())
    if args.nodes:
        begin("neighbours of each node")
        columns = nodes.table(discovery, posterior, classes, names, cluster_names,
                              as_text=args.nodes.endswith(".csv"))
        predictions.write(Path(args.nodes), columns, "--nodes")
        print(f"wrote {args.nodes}; a map of it: embedding-atlas {shlex.quote(args.nodes)} --x x "
              f"--y y --neighbors neighbors" + " --text text" * (names.texts is not None))
    if args.labels_out:
        feedback.write(Path(args.labels_out), graph, labels, names, args.overwrite, folder)
        run = ["--cfg", "own", "--name", Path(args.labels_out).name, "dataset.name",
               args.labels_out]
        print(f"wrote {args.labels_out}\nnext: graphgym-srnc run {shlex.join(run)}")
    elif naming:
        print(f"next, with the clusters that you know: {naming}")


def _check(args: argparse.Namespace) -> None:
    """Refuse options and places that cannot be, before any work."""
    from graphgym_srnc.cli.predict import check_out
    from graphgym_srnc.errors import InputError
    for option, value in {"--top": args.top, "--nodes-per-class": args.nodes_per_class}.items():
        if value < 1:
            raise InputError(option, value, "1 or more")
    if args.clusters < 0:
        raise InputError("--clusters", args.clusters, "a number above that of known classes")
    if args.labels_out and not (args.name or args.before):
        raise InputError("--labels-out", args.labels_out, "--name beside it")
    if args.nodes:
        check_out(Path(args.nodes), args.overwrite, "--nodes")
    arguments.check_out("--out", args.out, args.overwrite, (".html",), own=OWN)
    arguments.check_out("--csv", args.csv, args.overwrite, (".csv",))
    arguments.check_folder("--figures", args.figures, args.overwrite)
    if args.labels_out:
        from graphgym_srnc.data.folder import check_place
        inputs = [Path(file) for file in (args.run, args.graph, args.texts, args.words, args.before)
                  if file]
        check_place(Path(args.labels_out), args.overwrite, "--labels-out", inputs)


def _write(path: Path, option: str, content: bytes) -> None:
    from graphgym_srnc import atomic
    with arguments.writing(option, str(path)):
        atomic.write_bytes(path, content)
    print(f"wrote {path}")

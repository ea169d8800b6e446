"""``graphgym-srnc discover``: cluster the nodes that a model predicts as unknown."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Callable

import torch

from graphgym_srnc.cli import arguments
from graphgym_srnc.core import environment
from graphgym_srnc.core.progress import RunProgress, tell
from graphgym_srnc.data.describe import few_labels
from graphgym_srnc.data.folder import check_place
from graphgym_srnc.data.names import Names, of_folder
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build, predictions
from graphgym_srnc.io import records
from graphgym_srnc.methods.srnc_plus import UNKNOWN_SIGN
from graphgym_srnc.own.discover import clusters, feedback, page, table
from graphgym_srnc.train.model import TrainedModel


def main(args: argparse.Namespace) -> None:
    """Cluster a graph, print the clusters and write the requested files.

    Raises:
        InputError: the run, the graph, a file or an option is not what it must be; nothing was
            written then.
    """
    arguments.check_least(args, clusters=0, nodes_per_class=1)
    if args.labels_out:
        check_place(Path(args.labels_out), args.overwrite, "--labels-out")
    outs = arguments.outputs(args)
    if args.name and not (outs or args.labels_out):
        hint = "Add --labels-out NEXT to train with the names, or --out FILE to see them on a page"
        raise InputError.plain("--name", "no output contains the names", hint)
    with RunProgress(1, sys.stderr) as progress:
        progress.doing("reading the graph", 0.1)
        model = build.load_model(args.run)
        with environment.limited(model.result.get("threads", 1)):
            lines = _discover(args, model, outs, progress.doing)
    for line in lines:
        tell(line)


def _discover(
    args: argparse.Namespace,
    model: TrainedModel,
    outs: dict[str, str],
    begin: Callable[[str, float], None],
) -> list[str]:
    """Discover, write the files and return the lines to print.

    ``begin`` is called at each part with its name, and with the share of the time of a usual
    command that is over after it.
    """
    arguments.check_inputs(outs, [str(model.folder() or "")])
    if model.method.task.unknown is None:
        message = f"the model of {args.run} has no unknown class"
        raise InputError.plain("RUN", message, "Give a run of open-set shift")
    task = None if args.graph else build.task_of(model)
    one_graph = task is not None and task.source is task.target
    if args.labels_out and not one_graph:
        message = "the labelled nodes of the run are not in this graph"
        hint = "Give a run with one graph, and leave out --graph"
        raise InputError.plain("--labels-out", message, hint)
    graph, folder = model.read(args.graph) if task is None else (task.target, model.folder())
    if args.labels_out and folder is not None:
        check_place(Path(args.labels_out), args.overwrite, "--labels-out", [folder])
    names = of_folder(folder, graph.num_nodes, graph.num_features) if folder else Names()
    classes = [feedback.in_words(name) for name in model.class_names[:-1]]

    begin("predicting", 0.2)
    posterior = model.predict(graph).posterior
    signs = [text for text in records.warnings_of(model.result).values() if UNKNOWN_SIGN in text]
    clusters.check(posterior, args.clusters or len(classes) + 1, *signs)
    begin("computing node representations", 0.4)
    state = clusters.states(graph, posterior)
    begin("estimating the number of clusters", 0.5)
    modularity = clusters.modularities(graph, posterior, state)
    count = args.clusters or clusters.suggested(modularity)
    found = clusters.find(graph, posterior, count, classes, state)
    cluster_names = feedback.parse_names(args.name, len(found.new))
    if args.labels_out and not cluster_names:
        hint = f"Name one, such as --name {found.new[0].number}=NAME"
        raise InputError.plain("--labels-out", "no cluster has a name", hint)
    found = found.named(cluster_names)
    rows = table.rows(found, graph, names)
    counts = model.result.get("labels", {})
    labels = {feedback.in_words(name): count["source"] for name, count in counts.items()}
    warnings = [*filter(None, [few_labels(counts, one_graph)]), *predictions.notes(model, graph)]
    split, finer = "", table.next_number(modularity, count)
    if finer - len(classes) <= int((found.label == len(classes)).sum()):
        other = clusters.find(graph, posterior, finer, classes, state)
        split = table.on_split(found, other, table.rows(other, graph, names))
    commands = {"again": shlex.join(["graphgym-srnc", *sys.argv[1:]])}
    if one_graph:
        words = ["graphgym-srnc", "discover", args.run, "--clusters", str(count)]
        commands["merge"] = shlex.join(words)
        for row in rows:
            if row.cluster.number and not row.is_mixed:
                words += ["--name", f"{row.cluster.number}={row.cluster.name or 'NAME'}"]
        commands["naming"] = shlex.join([*words, "--labels-out", "NEXT"])
    body = table.to_text(rows, commands.get("merge", "")).splitlines()
    on_number = table.on_number(modularity, len(classes), count)
    lines = [table.on_unknown(found), "", *body, "", on_number]
    lines += [*filter(None, [split]), *(f"warning: {text}" for text in warnings)]
    ends: list[str] = []
    if args.labels_out:
        parts = {part: getattr(task, part) for part in ("train", "val", "test")}
        made = feedback.labels(found, parts, graph.y, args.nodes_per_class)
        run = ["--cfg", "own", "--name", Path(args.labels_out).name]
        run += ["dataset.name", args.labels_out]
        ends = [*feedback.counts(found, parts, made), f"wrote {args.labels_out}"]
        closed = [*run, "file.open_set", "False"]
        if all(new.name for new in found.new):
            ends.append("next, if every class has labels now:")
            ends.append(f"  graphgym-srnc run {shlex.join(closed)}")
        ends.append("next, if classes are still unknown:")
        ends.append(f"  graphgym-srnc run {shlex.join(run)}")
        ends.append(feedback.ON_NEXT)
    elif one_graph:
        left_out = table.left_out(rows)
        ends = [f"next, after you name the clusters{f' ({left_out})' * bool(left_out)}:"]
        ends.append(f"  {commands['naming']}")

    begin("drawing the map", 0.95)
    files = {}
    if args.out:
        data = Path(args.graph).name if task is None else task.name.removeprefix("file/")
        title = f"New classes in {data}"
        told = commands, labels, warnings, split
        files["--out"] = page.render(title, rows, found, names, modularity, *told).encode()
    begin("writing tables", 1.0)
    if args.csv:
        files["--csv"] = table.to_csv(rows).encode()
    if args.nodes:
        columns = table.of_nodes(found, names, clusters.layout(found))
        files["--nodes"] = predictions.encode(args.nodes, columns)
    if args.labels_out:
        given = {*torch.cat([*parts.values()]).tolist()}
        feedback.write(Path(args.labels_out), graph, made, names, args.overwrite, folder, given)
    lines += [arguments.write(option, outs[option], data) for option, data in files.items()]
    return lines + ends

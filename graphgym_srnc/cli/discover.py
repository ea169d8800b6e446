"""``graphgym-srnc discover``: clusters of nodes that may belong to new classes."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from torch_geometric.data import Data

from graphgym_srnc.cli import arguments
from graphgym_srnc.core import environment
from graphgym_srnc.core.progress import RunProgress, tell
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data.folder import check_place
from graphgym_srnc.data.labels import PARTS
from graphgym_srnc.data.names import Names, of_folder
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build, load_config, predictions
from graphgym_srnc.io import config_files, records
from graphgym_srnc.io.settings import flatten, is_volatile
from graphgym_srnc.own.discover import analysis, clusters, feedback, page, table
from graphgym_srnc.own.discover.candidates import Evidence
from graphgym_srnc.train.model import TrainedModel

Begin = Callable[[str, float], None]


class Place(NamedTuple):
    """The graph that is clustered; ``task`` is None for another graph than that of the run."""

    task: ShiftTask | None
    graph: Data
    folder: Path | None
    names: Names

    @property
    def one_graph(self) -> bool:
        """Whether the labelled nodes of the run are in this graph."""
        return self.task is not None and self.task.source is self.task.target


def main(args: argparse.Namespace) -> None:
    """Cluster a graph, print the clusters and write the requested files.

    Raises:
        InputError: the run, the graph, a file or an option is not what it must be; nothing was
            written then.
    """
    arguments.check_least(args, clusters=0, new=0, nodes_per_class=1)
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
    args: argparse.Namespace, model: TrainedModel, outs: dict[str, str], begin: Begin
) -> list[str]:
    """Discover, write the files and return the lines to print.

    ``begin`` is called at each part with its name, and with the share of the time of a usual
    command that is over after it.
    """
    arguments.check_inputs(outs, [str(model.folder() or "")])
    place = _place(args, model)
    evidence = Evidence.of(model.method)
    names = model.class_names[:-1] if evidence.open_set else model.class_names
    classes = [feedback.in_words(name) for name in names]
    wanted = analysis.number_wanted(args.new, args.clusters, len(classes))
    begin("predicting", 0.2)
    found = analysis.analyse(
        place.graph,
        model.predict(place.graph).posterior,
        place.names,
        classes,
        evidence,
        _given(place, classes),
        wanted,
        lambda count: _names(args, count),
        begin,
    )
    commands = _commands(args, model, place, found)
    warnings = _warnings(model, place)
    ends = _name_clusters(args, model, place, found, commands)
    lines = [*found.lead, "", *table.to_text(found.rows, found.head, commands["merge"]).split("\n")]
    lines += ["", table.on_number(found.fits, len(found.new))]
    lines += [f"warning: {text}" for text in warnings]
    begin("drawing the map", 0.95)
    files = _files(args, model, place, found, commands, warnings)
    begin("writing tables", 1.0)
    written = [arguments.write(option, outs[option], data) for option, data in files.items()]
    return lines + written + ends


def _place(args: argparse.Namespace, model: TrainedModel) -> Place:
    """The graph to cluster.

    Raises:
        InputError: the graph cannot be read, or has no place for the new labels.
    """
    task = None if args.graph else build.task_of(model)
    graph, folder = model.read(args.graph) if task is None else (task.target, model.folder())
    names = of_folder(folder, graph.num_nodes, graph.num_features) if folder else Names()
    place = Place(task, graph, folder, names)
    if args.labels_out and not place.one_graph:
        message = "the labelled nodes of the run are not in this graph"
        hint = "Give a run with one graph, and leave out --graph"
        raise InputError.plain("--labels-out", message, hint)
    if args.labels_out and folder is not None:
        check_place(Path(args.labels_out), args.overwrite, "--labels-out", [folder])
    return place


def _given(place: Place, classes: Sequence[str]) -> list[str]:
    """The class of each labelled node of the graph; "" = none or no known class."""
    given = [""] * place.graph.num_nodes
    for part in PARTS if place.task is not None and place.one_graph else ():
        nodes = getattr(place.task, part)
        labels = analysis.labels_given(place.graph.y[nodes].tolist(), classes)
        for node, label in zip(nodes.tolist(), labels):
            given[node] = label
    return given


def _names(args: argparse.Namespace, count: int) -> dict[int, str]:
    """The names of new clusters by number, of which there are ``count``.

    Raises:
        InputError: a name is wrong, or the graph with new classes would have none.
    """
    names = feedback.parse_names(args.name, count)
    if args.labels_out and not names:
        raise InputError.plain("--labels-out", "no cluster has a name", "Name one: --name 1=NAME")
    return names


def _commands(
    args: argparse.Namespace, model: TrainedModel, place: Place, found: analysis.Analysis
) -> dict[str, str]:
    """Commands that write the page again, merge clusters, and name them; "" if impossible."""
    commands = {"again": shlex.join(["graphgym-srnc", *sys.argv[1:]]), "merge": "", "naming": ""}
    if not place.one_graph:
        return commands
    words = ["graphgym-srnc", "discover", args.run, "--new", str(len(found.new))]
    commands["merge"] = shlex.join(words)
    proposed = [row.cluster for row in found.new if not row.leftover]
    for cluster in proposed:
        words += ["--name", f"{cluster.number}={cluster.name or 'NAME'}"]
    if proposed:
        commands["naming"] = shlex.join([*words, "--labels-out", "NEXT"])
    return commands


def _warnings(model: TrainedModel, place: Place) -> list[str]:
    """Warnings of the run, and on this graph.

    Labels that an earlier ``discover`` chose come from the centres of clusters, so the warning that
    labels come from one part of the graph is left out if there are any.
    """
    told = records.warnings_of(model.result)
    if place.task is not None and place.task.info.get("labels from discover"):
        told.pop("locality", None)
    return [*told.values(), *predictions.notes(model, place.graph)]


def _files(
    args: argparse.Namespace,
    model: TrainedModel,
    place: Place,
    found: analysis.Analysis,
    commands: dict[str, str],
    warnings: Sequence[str],
) -> dict[str, bytes]:
    """The content of each output file by its option."""
    files = {}
    if args.out:
        data = Path(args.graph).name if place.task is None else place.task.name
        counts = model.result.get("labels", {})
        labels = {feedback.in_words(name): count["source"] for name, count in counts.items()}
        title = f"New classes in {data.removeprefix('file/')}"
        files["--out"] = page.render(title, found, commands, labels, warnings).encode()
    if args.csv:
        files["--csv"] = table.to_csv(found.rows).encode()
    if args.nodes:
        discovery = found.discovery
        columns = table.of_nodes(discovery, place.names, clusters.layout(discovery))
        files["--nodes"] = predictions.encode(args.nodes, columns)
    return files


def _name_clusters(
    args: argparse.Namespace,
    model: TrainedModel,
    place: Place,
    found: analysis.Analysis,
    commands: dict[str, str],
) -> list[str]:
    """Write the graph with the named clusters as classes, if wanted, and return what is next."""
    if not args.labels_out:
        left_out = table.left_out(found.rows)
        if not commands["naming"]:
            return [left_out] if left_out else []
        head = f"next, after you name the clusters ({left_out}):" if left_out else ""
        return [head or "next, after you name the clusters:", f"  {commands['naming']}"]
    task, graph = place.task, place.graph
    parts = {part: getattr(task, part) for part in PARTS}
    made = feedback.labels(found.discovery, parts, graph.y, args.nodes_per_class)
    parent = {"run": args.run, "held_out": model.result.get("held_out")}
    feedback.write(
        Path(args.labels_out), graph, made, place.names, args.overwrite, place.folder, parts, parent
    )
    words = ["graphgym-srnc", "run", "--cfg", "own", "--name", Path(args.labels_out).name]
    words += ["dataset.name", args.labels_out, *kept_settings(model)]
    ends = [*feedback.counts(found.discovery, parts, made), f"wrote {args.labels_out}"]
    if all(new.name for new in found.discovery.new):
        ends.append("next, if every class has labels now:")
        ends.append(f"  {shlex.join([*words, 'file.open_set', 'False'])}")
    ends.append("next, if classes are still unknown:")
    return [*ends, f"  {shlex.join(words)}", feedback.ON_NEXT]


def kept_settings(model: TrainedModel) -> list[str]:
    """Keys and values of a run's config that differ from ``--cfg own``, for the next run.

    Those of the data and of its split are left out, since the next graph has both.
    """
    if not model.config:
        return []
    usual: dict[str, Any] = flatten(load_config(config_files.read("own")))
    blocks = {"dataset.name", "dataset.format", "file", model.config["dataset"]["format"]}
    kept = []
    for key, value in {**flatten(model.config), "seed": model.result["seed"]}.items():
        is_data = key in blocks or key.partition(".")[0] in blocks
        if key != "seed" and (is_data or is_volatile(key)):
            continue
        if key in usual and usual[key] != value:
            kept += [key, str(value)]
    return kept

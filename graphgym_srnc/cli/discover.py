"""``graphgym-srnc discover``: clusters of nodes that may belong to new classes."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.words import told
from graphgym_srnc.core import environment, progress, text
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import plain, tell
from graphgym_srnc.data import folder_files
from graphgym_srnc.data.folder import check_place
from graphgym_srnc.data.folder import parent as parent_of
from graphgym_srnc.data.labels import CHOSEN, PARTS, UNKNOWN
from graphgym_srnc.data.names import Names, of_folder
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.gym import build, load_config, predictions
from graphgym_srnc.io import config_files, records
from graphgym_srnc.io.settings import flatten, is_volatile
from graphgym_srnc.methods.shared.topics import features
from graphgym_srnc.methods.shared.unknown_share import NO_UNKNOWN, TOO_SMALL
from graphgym_srnc.own.discover import analysis, feedback, page, table
from graphgym_srnc.own.discover.candidates import Evidence
from graphgym_srnc.own.discover.clusters import layout
from graphgym_srnc.own.discover.since import Earlier
from graphgym_srnc.own.sample import Sample, on_accuracy
from graphgym_srnc.train import held_out
from graphgym_srnc.train.model import Prediction, TrainedModel

MORE = 2  # further clusters to try where all are leftovers


class Place(NamedTuple):
    """The graph that is clustered.

    Args:
        task: of the run; None if another graph is clustered.
        graph: the graph.
        folder: of the graph, if it is in one.
        names: of nodes and feature columns.
        parts: nodes with labels of the run, by part; empty if they are in another graph.
        corrected: labels that the user gives, by node.
        sample: those of them at nodes that were drawn at random.
    """

    task: ShiftTask | None
    graph: Data
    folder: Path | None
    names: Names
    parts: dict[str, Tensor]
    corrected: dict[int, str]
    sample: Sample


def main(args: argparse.Namespace) -> None:
    """Cluster a graph, print the clusters and write the requested files.

    Raises:
        InputError: the run, the graph, a file or an option is not what it must be; nothing was
            written then.
    """
    outs = arguments.outputs(args)
    names = feedback.parse_names(args.name)
    with RunProgress(1, sys.stderr):
        progress.doing("reading the graph", 0.1)
        model = build.load_model(args.run)
        with environment.limited(model.result.get("threads", 1)):
            lines = _discover(args, model, outs, names)
    for line in told(lines):
        tell(line)


def _discover(
    args: argparse.Namespace,
    model: TrainedModel,
    outs: dict[str, str],
    cluster_names: dict[str, str],
) -> list[str]:
    """Discover, write the files and return the lines to print."""
    folder = model.folder()
    arguments.check_inputs(outs, [str(folder or ""), *args.labels])
    if args.labels_out:
        inputs = [folder] if folder else []
        check_place(Path(args.labels_out), args.overwrite, "--labels-out", inputs)
    place = _place(args, model)
    graph = place.graph
    evidence = Evidence.of(model.method)
    classes = [feedback.in_words(name) for name in model.class_names]
    classes = classes[: len(classes) - evidence.open_set]
    label = analysis.known_labels(place.parts, graph.y, len(classes)) if place.parts else None
    wanted = analysis.number_wanted(args.new, args.clusters, len(classes))
    progress.doing("predicting", 0.2)
    prediction = model.predict(graph)
    earlier = _earlier(args) if args.since else None
    found = analysis.analyse(
        graph,
        prediction.posterior,
        place.names,
        classes,
        evidence,
        label,
        wanted,
        cluster_names,
        earlier,
    )
    commands = _commands(args, place, found)
    warnings = _warnings(model, place)
    ends = _labels(args, model, place, found) if args.labels_out else _next(found, commands)
    # Whoever writes labels has read the report before.
    lines = [] if args.labels_out else _report(found, warnings, bool(args.out))
    lines += _on_sample(model, place, prediction)
    if found.changes is not None:
        lines += ["", *found.changes.lines]
    mixtures = table.on_named_mixtures(found.new, cluster_names)
    lines += [f"warning: {warning}" for warning in mixtures]
    progress.doing("drawing the map", 0.95)
    files = _files(args, model, place, found, commands, warnings)
    progress.doing("writing tables", 1.0)
    written = [arguments.write(option, outs[option], data) for option, data in files.items()]
    return lines + written + ends


def _report(found: analysis.Analysis, warnings: Sequence[str], has_page: bool) -> list[str]:
    """The clusters, and the warnings on the predictions that no page shows."""
    clusters = table.to_text(found.new, found.head, found.suggested)
    lines = [*found.lead, "", *clusters.split("\n"), ""]
    lines += [table.on_number(found.fits, found.divided), *table.on_also(found.also)]
    if has_page and warnings:
        count = text.counted(len(warnings), "warning")
        return [*lines, f"The page has {count} on the predictions."]
    return lines + [f"warning: {warning}" for warning in warnings]


def _on_sample(model: TrainedModel, place: Place, prediction: Prediction) -> list[str]:
    """How many of the nodes that were drawn at random and labelled are predicted right."""
    names = [*map(feedback.in_words, model.class_names)]
    predicted = [names[k] for k in prediction.label.tolist()]
    return on_accuracy(place.sample, predicted, {*names} - {UNKNOWN})


def _place(args: argparse.Namespace, model: TrainedModel) -> Place:
    """The graph to cluster.

    Raises:
        InputError: the graph cannot be read, or has no place for the new labels.
    """
    task = None if args.graph else build.task_of(model)
    graph, folder = (task.target, model.folder()) if task else model.read(args.graph)
    parts = {}
    if task and task.source is task.target:
        parts = {part: getattr(task, part) for part in PARTS}
    if args.labels_out and not parts:
        raise InputError.plain(
            "--labels-out",
            "the labelled nodes of the run are not in this graph",
            "Give a run with one graph, and leave out --graph",
        )
    names = of_folder(folder, graph.num_nodes, graph.num_features)
    corrected: dict[int, str] = {}
    sampled: dict[int, str] = {}
    skipped = 0
    with renamed({"labels": "--labels"}):
        for file in args.labels:
            own, sample = feedback.read_labels(Path(file), names.ids, graph.num_nodes)
            feedback.check_equal(corrected, own, file)
            corrected |= own
            sampled |= sample.label
            skipped += sample.skipped
    if args.labels and not args.labels_out and not sampled:
        raise InputError.plain("--labels", "no output contains them", "Add --labels-out NEXT")
    return Place(task, graph, folder, names, parts, corrected, Sample(sampled, skipped))


def _earlier(args: argparse.Namespace) -> Earlier:
    """What the model of an earlier run predicts for its own graph.

    Raises:
        InputError: it is no run.
    """
    with renamed({"path": "--since", "--graph": "--since", "graph": "--since"}):
        model = build.load_model(args.since)
        if not model.config:
            raise InputError.plain(
                "--since",
                "a model saved by an estimator does not contain its graph",
                "Give the folder of a run",
            )
        then = build.task_of(model).target
    found = of_folder(model.folder(), then.num_nodes, then.num_features)
    known = model.class_names[: model.method.task.num_known]
    label = model.predict(then).label
    return Earlier([*map(feedback.in_words, known)], label, features(then), found)


def _commands(args: argparse.Namespace, place: Place, found: analysis.Analysis) -> dict[str, str]:
    """Commands that write the page again, and that name clusters if that is possible.

    ``start`` is the start of the latter, and ``naming`` is all of it, if a cluster is proposed.
    ``more`` makes more clusters, if there are some and all are leftovers.
    """
    commands = {"again": shlex.join(["graphgym-srnc", *sys.argv[1:]])}
    words = ["graphgym-srnc", "discover", args.run]
    if place.parts and found.are_leftovers and not found.wanted:
        more = ["--new", str(len(found.new) + MORE)]
        if args.out:
            more += ["--out", arguments.unused(args.out, args.out)]
        commands["more"] = plain(shlex.join([*words, *more]))
    words += ["--new", str(len(found.new))]
    for file in args.labels:
        words += ["--labels", file]
    if place.parts:
        commands["start"] = plain(shlex.join(words))
    # Parts of a mixed cluster may be of different classes; equal names make them one again.
    proposed = [
        one
        for row in found.new
        if not row.leftover and row.verdict != table.PERHAPS_KNOWN
        for one in (row.cluster.parts if row.has_classes_in_parts else [row.cluster])
    ]
    names = [f"{one.number}={one.name or 'NAME'}" for one in proposed]
    listed = {id(one) for one in proposed}
    others = (one for one in found.discovery.proposed if one.name and id(one) not in listed)
    names += [f"{one.number}={one.name}" for one in others]
    if names and place.parts:
        for name in names:
            words += ["--name", name]
        commands["naming"] = plain(shlex.join([*words, "--labels-out", "NEXT"]))
    return commands


def _warnings(model: TrainedModel, place: Place) -> list[str]:
    """Warnings of the run, and on this graph.

    Labels that an earlier ``discover`` chose come from single clusters, so the warning that
    labels come from one part of the graph is left out if there are any. The report begins with
    what the test for an unknown class says.
    """
    found = records.warnings_of(model.result)
    found.pop(NO_UNKNOWN, None)
    found.pop(TOO_SMALL, None)
    if place.task is not None and place.task.info.get("labels from discover"):
        found.pop("locality", None)
    return told([*found.values(), *predictions.notes(model, place.graph)])


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
        data = place.task.name if place.task else Path(args.graph).name
        what = "New classes" if found.discovery.seeds.predicted else "Candidates for new classes"
        title = f"{what} in {data.removeprefix('file/')}"
        files["--out"] = page.render(title, found, commands, model.result, warnings).encode()
    if args.csv:
        files["--csv"] = table.to_csv(found.new).encode()
    if args.changes and found.changes is not None:
        lines = found.changes.table.itertuples(index=False)
        files["--changes"] = text.to_csv([[*found.changes.table], *lines]).encode()
    if args.nodes:
        files["--nodes"] = predictions.encode(args.nodes, found.nodes(layout(found.discovery)))
    return files


def _next(found: analysis.Analysis, commands: dict[str, str]) -> list[str]:
    """The command that names clusters, or what to do where none is proposed as a class."""
    if "naming" in commands:
        return ["next, after you name the clusters:", f"  {commands['naming']}"]
    if any(row.by_chance for row in found.new):
        return [table.ONLY_BY_CHANCE]
    if "more" in commands:
        return ["next, since more clusters may separate the classes:", f"  {commands['more']}"]
    return [table.ALL_LEFTOVERS] if found.are_leftovers else []


def _labels(
    args: argparse.Namespace, model: TrainedModel, place: Place, found: analysis.Analysis
) -> list[str]:
    """Write the graph with the named clusters as classes, and return what is next."""
    out = Path(args.labels_out)
    discovery = found.discovery
    if not place.corrected and not any(new.name for new in discovery.proposed):
        raise InputError.plain(
            "--labels-out",
            "no cluster has a name, and none is an earlier class",
            "Name one: --name 1=NAME",
        )
    sampled = place.sample.label
    made = feedback.labels(discovery, place.parts, place.graph.y, place.corrected, sampled)
    unknown = int((discovery.label == len(discovery.known)).sum())
    parent: dict[str, Any] = {
        "run": args.run,
        "unknown": unknown,
        "nodes": len(discovery.label),
        "named": feedback.named_nodes(discovery),
    }
    if place.task is not None:
        earlier = parent_of(place.folder) if place.folder else {}
        parent["skipped"] = earlier.get("skipped", 0) + place.sample.skipped
        changed = sorted({*made.changed, *made.added})
        parent["changed"] = changed
        # The next run does not judge chosen labels either.
        chosen = folder_files.of_origin(folder_files.origins(place.folder), *CHOSEN)
        sampled_right = model.result.get("held_out", {}).get("sampled")
        if sampled_right:
            parent["sampled"] = sampled_right
        parent["unchanged"] = held_out.unchanged(model.method, place.task, {*changed, *chosen})
    feedback.write(out, place.graph, made, place.names, args.overwrite, place.folder, parent)
    kept = kept_settings(model)
    ends = feedback.counts(discovery, made)
    ends += told(feedback.least_certain(discovery, made, place.names), {"labels": "--labels"})
    near = feedback.on_near_names(made, discovery.classes)
    ends += [f"warning: {warning}" for warning in near]
    ends.append(f"wrote {args.labels_out}")
    return [*ends, *_next_runs(out.name, args.labels_out, kept)]


def _next_runs(name: str, folder: str, kept: Sequence[str]) -> list[str]:
    """The commands that train with the new labels: with an unknown class, and without one.

    Only the user knows whether every class has labels, and the wrong choice costs accuracy.
    """
    words = ["graphgym-srnc", "run", "--cfg", "own", "--name"]
    open_set = [*words, name, "dataset.name", folder, *kept]
    closed = [*words, f"{name}-closed", "dataset.name", folder, *kept, "file.open_set", "False"]
    return [
        "next, if some class may still have no label:",
        f"  {shlex.join(open_set)}",
        "or, if every class has labels now, so that no node is predicted as unknown:",
        f"  {shlex.join(closed)}",
    ]


def kept_settings(model: TrainedModel) -> list[str]:
    """Keys and values of a run's config that differ from ``--cfg own``, for the next run.

    Those of the data and of its split are left out, since the next graph has both.
    """
    if not model.config:
        return []
    usual = flatten(load_config(config_files.read("own")))
    of_data = {"dataset.name", "dataset.format", "file", model.config["dataset"]["format"]}
    kept = {
        key: value
        for key, value in flatten(model.config).items()
        if not is_volatile(key) and of_data.isdisjoint({key, key.partition(".")[0]})
    }
    kept["seed"] = model.result["seed"]
    differ = [key for key in kept if key in usual and usual[key] != kept[key]]
    return [word for key in differ for word in (key, str(kept[key]))]

"""``graphgym-srnc predict``: predict the class of every node with a saved model."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Collection, Mapping, Sequence

import pandas
from torch_geometric.data import Data

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.words import told
from graphgym_srnc.core import environment, progress
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import clean, counted, listed, short, tell
from graphgym_srnc.data import folder_files, names
from graphgym_srnc.data.labels import ADDED, CHECKED, DISCOVERED, GIVEN, NEW_LABEL
from graphgym_srnc.errors import InputError, did_you_mean
from graphgym_srnc.gym import build, folds, predictions
from graphgym_srnc.io import records
from graphgym_srnc.own import sample
from graphgym_srnc.own.discover.words import shown_node, titles
from graphgym_srnc.report import why
from graphgym_srnc.train.explain import explain
from graphgym_srnc.train.model import Prediction, TrainedModel

MOST_IDS = 5  # ids of one title that are named
WITHOUT_LABEL = {
    "class": "class_without_label",
    "probability": "probability_without_label",
    "p_given_label": "p_given_label_without_label",
}
"""Names of predictions by models that did not learn the label; other files have the final ones."""

ON_NEW_LABEL = (
    f"Fill in the column {NEW_LABEL} to correct a label, or repeat one to confirm it"
    " (unknown = remove the label)."
)
TRAIN = "Then train with your labels:"


ON_UNCERTAIN = "The classes of {:,} nodes, at most three of each class, are least certain."
ON_FEW_LABELS = (
    f"{{:,}} others may be of classes with fewer than {predictions.FEW} labels, by the column"
    f" {predictions.MAY_BE}: {{}}."
)
ON_TO_LABEL = f"Fill in their {NEW_LABEL} where you know it. {TRAIN}"


ON_SAMPLE = (
    f"Fill in the column {NEW_LABEL} of --sample. Start with the first row, and do not choose rows."
    " Write a known class, a new class, or unknown for a class without a name. Leave a cell empty"
    " if you cannot tell. Then this command prints how many nodes are predicted right:"
)


def main(args: argparse.Namespace) -> None:
    """Predict, write the table and print a summary, or explain some predictions.

    Raises:
        InputError: the run, the graph or the file is not what it must be; nothing was written.
    """
    with RunProgress(1, sys.stderr):
        outs = arguments.outputs(args)
        progress.doing("reading the graph", 0.1 if args.folds else 0.5)
        model = build.load_model(args.run)
        with environment.limited(model.result.get("threads", 1)):
            lines = _predict(args, model, outs)
    for line in told(lines):
        tell(line)


def _predict(args: argparse.Namespace, model: TrainedModel, outs: dict[str, str]) -> list[str]:
    """Predict, write the tables and return the lines to print."""
    task = None
    folder: Path | None
    if args.graph:
        graph, folder = model.read(args.graph)
    else:
        arguments.check_inputs(outs, [str(model.folder() or "")])
        task = build.task_of(model)
        graph = task.target
        folder = model.folder()
    num_features = graph.num_features if args.why else None
    found = names.of_folder(folder, graph.num_nodes, num_features)
    lines = []
    if args.why:
        progress.doing("leaving out parts of the graph", 0.9)
        lines += _explain(args.why, model, graph, found, task)
    if args.out:
        lines += _tables(args, model, graph, task, found, outs)
    return lines


def _explain(
    wanted: Sequence[str],
    model: TrainedModel,
    graph: Data,
    found: names.Names,
    task: ShiftTask | None,
) -> list[str]:
    """Why each of some nodes is predicted as it is."""
    nodes = [_find_node(given, found, graph.num_nodes) for given in wanted]
    given = predictions.given_labels(model, task) if task is not None else None
    classes = [clean(name) for name in model.class_names]
    parts = names.together(found.words) if found.words else None
    lines = []
    for node in nodes:
        explanation = explain(model, graph, node, parts)
        lines += why.lines(classes, explanation, node, found, given)
        # The numbers of nodes are those of the run's own graph.
        held_out = model.method.out_of_fold if task is not None else None
        lines += [*why.on_label(classes, node, held_out), ""]
    return lines


def _find_node(given: str, found: names.Names, num_nodes: int) -> int:
    """Number of the node with an id, or else a title, or a number if the graph has no ids.

    Raises:
        InputError: there is no such node, or several have the title.
    """
    ids = list(found.ids or map(str, range(num_nodes)))
    if given in ids:
        return ids.index(given)
    titled = _with_title(given, found)
    if len(titled) == 1:
        return titled[0]
    if titled:
        message = f"{len(titled):,} nodes have the title {short(given)!r}"
        named = listed([ids[node] for node in titled], MOST_IDS)
        raise InputError.plain("--why", message, f"Give the id of one: {named}")
    hint = (
        "Give an id as in the column id of --out, or a title, or without ids the number of a node"
    )
    message = f"the graph has no node {short(given)!r}"
    raise InputError.plain("--why", message, did_you_mean(given, ids, hint))


def _with_title(title: str, found: names.Names) -> list[int]:
    """The nodes with a title, in any case."""
    wanted = title.strip().casefold()
    nodes = range(len(found.texts or ()))
    return [node for node in nodes if shown_node(found, node).title.casefold() == wanted != ""]


def _tables(
    args: argparse.Namespace,
    model: TrainedModel,
    graph: Data,
    task: ShiftTask | None,
    found: names.Names,
    outs: dict[str, str],
) -> list[str]:
    """Write the predictions, and the lines that sum them up."""
    given = split = None
    if task is not None:
        given = predictions.given_labels(model, task)
        split = predictions.split(task)
        _check_labels(outs, any(given), task.one_graph)
    progress.doing("predicting", 0.2 if args.folds else 0.8)
    prediction = model.predict(graph)
    named = args.probabilities, titles(found), found.dates
    frame = predictions.table(model, graph, prediction, found.ids, given, split, *named)
    lines = _summary(args, model, graph, frame)
    parts = [_sample(args, graph, task, frame, found)]
    if task is not None and given and split and any(given):
        compared = _without_learned_labels(args, model, task, prediction)
        judging = frame
        origins = folder_files.origins(model.folder())
        if compared is not None:
            if not args.folds and model.method.out_of_fold is not None:
                given = predictions.judged(given, split, model.method.out_of_fold)
            judging = predictions.table(model, graph, compared, found.ids, given, split, *named)
            learned = folds.learned(model, task, args.folds) if args.folds else ()
            frame = _with_held_out(frame, judging, learned)
            lines += predictions.by_probability(frame, origins)
        is_judged = compared is not None
        doubts = _disagreements(args, judging, found, is_judged, task.one_graph, origins)
        parts = [doubts, _uncertain(args, frame, prediction, model.class_names, found), *parts]
    files = {"--out": predictions.encode(args.out, frame)}
    for told_of_part, file in parts:
        lines += told_of_part
        files |= file
    progress.doing("writing the table", 1.0)
    return lines + [arguments.write(option, outs[option], data) for option, data in files.items()]


def _check_labels(outs: Collection[str], has_labels: bool, one_graph: bool) -> None:
    """Refuse output files, by option, that need labels of the graph.

    Raises:
        InputError: names the option.
    """
    for option in ("--disagreements", "--uncertain"):
        if option in outs and not has_labels:
            raise InputError.plain(option, "no node of the graph has a label")
    if "--uncertain" in outs and not one_graph:
        message = "the run has two graphs, and labels of its target are not learned"
        raise InputError.plain("--uncertain", message, "Leave it out, or use --sample")


def _summary(
    args: argparse.Namespace, model: TrainedModel, graph: Data, frame: pandas.DataFrame
) -> list[str]:
    """The lines that sum up a table of predictions, with warnings of the run."""
    lines = predictions.summary(model, frame)
    if args.graph:
        lines += predictions.beside_training(model, graph, frame)
    warnings = records.warnings_of(model.result).values()
    # Notes on the table stand beside it.
    return lines + [
        f"note: {note}" for note in [*predictions.notes(model, graph, frame), *warnings]
    ]


def _with_held_out(
    frame: pandas.DataFrame, judging: pandas.DataFrame, learned: Collection[int]
) -> pandas.DataFrame:
    """A table with the predictions of models that did not learn the label.

    Args:
        frame: the table of predictions.
        judging: the same of models that did not learn the given labels.
        learned: labelled nodes of ``judging`` whose label they learned nevertheless.
    """
    is_judged = (judging["given_label"] != "") & ~judging["node"].isin(learned)
    columns = {new: judging[old].where(is_judged) for old, new in WITHOUT_LABEL.items()}
    columns["class_without_label"] = columns["class_without_label"].fillna("")
    return frame.assign(**columns)


def _disagreements(
    args: argparse.Namespace,
    frame: pandas.DataFrame,
    found: names.Names,
    out_of_fold: bool,
    can_correct: bool,
    origins: Mapping[int, str],
) -> tuple[list[str], dict[str, bytes]]:
    """Lines on the labels that disagree with a table of predictions, and the file of them.

    Those that the user has checked before are counted, but not listed again.
    """
    from_clusters = folder_files.of_origin(origins, DISCOVERED)
    other = predictions.disagreements(frame)
    is_checked = other["node"].isin(folder_files.of_origin(origins, CHECKED, ADDED))
    other = other[~is_checked]
    lines = predictions.on_disagreements(frame, other, out_of_fold, from_clusters)
    if is_checked.any():
        count = counted(int(is_checked.sum()), "more label")
        lines.append(
            f"The model disagrees with {count} that you have checked, not listed here. The column"
            " given_label has yours."
        )
    if not args.disagreements:
        return lines + _on_all(args, can_correct) if can_correct or len(other) else lines, {}
    if out_of_fold:
        other = other.rename(columns=WITHOUT_LABEL)
    if from_clusters:
        is_new = other["node"].isin(from_clusters)
        other = other.assign(origin=is_new.map({True: DISCOVERED, False: GIVEN}))
    if can_correct:
        if args.uncertain:  # whose list ends with the command
            lines.append(ON_NEW_LABEL)
        else:
            lines += [f"{ON_NEW_LABEL} {TRAIN}", _training(args)]
    return lines, {"--disagreements": _to_label(args.disagreements, other, found)}


def _uncertain(
    args: argparse.Namespace,
    frame: pandas.DataFrame,
    prediction: Prediction,
    classes: Sequence[str],
    found: names.Names,
) -> tuple[list[str], dict[str, bytes]]:
    """Lines on the nodes to label next, and the file of them; empty if none is wanted."""
    if not args.uncertain:
        return [], {}
    texts = found.texts or []
    unreadable = [node for node, text in enumerate(texts) if not text.strip()] if any(texts) else []
    nodes = predictions.uncertain(frame, prediction.posterior, classes, unreadable)
    may_be = [name for name in nodes.get(predictions.MAY_BE, ()) if name]
    lines = [ON_UNCERTAIN.format(len(nodes) - len(may_be))]
    if may_be:
        lines.append(ON_FEW_LABELS.format(len(may_be), listed([*dict.fromkeys(may_be)])))
    lines += [ON_TO_LABEL, _training(args)]
    return lines, {"--uncertain": _to_label(args.uncertain, nodes, found)}


def _sample(
    args: argparse.Namespace,
    graph: Data,
    task: ShiftTask | None,
    frame: pandas.DataFrame,
    found: names.Names,
) -> tuple[list[str], dict[str, bytes]]:
    """Lines on nodes drawn at random, and the file of them; empty if none is wanted."""
    if not args.sample:
        return [], {}
    given = frame.get("given_label", pandas.Series("", frame.index))
    nodes = sample.table(frame, sample.draw(graph, {*frame.loc[given != "", "node"]}))
    is_learned = task is not None and task.one_graph
    lines = [ON_SAMPLE, _training(args) if is_learned else _judging(args)]
    return lines, {"--sample": _to_label(args.sample, nodes, found)}


def _to_label(file: str, nodes: pandas.DataFrame, found: names.Names) -> bytes:
    """The content of a file of nodes with an empty column for the labels of the user."""
    nodes = nodes.assign(**{NEW_LABEL: ""})
    if found.texts:
        nodes = nodes.assign(text=[found.texts[node] for node in nodes["node"]])
    return predictions.encode(file, nodes)


def _training(args: argparse.Namespace) -> str:
    """The command that makes a graph with the labels of the files that are written."""
    words = ["discover", args.run]
    for file in filter(None, (args.disagreements, args.uncertain, args.sample)):
        words += ["--labels", file]
    words += ["--labels-out", "NEXT"]
    return f"  graphgym-srnc {shlex.join(words)}"


def _judging(args: argparse.Namespace) -> str:
    """The command that judges predictions by the labels of a sample, which no run can learn."""
    words = ["discover", args.run]
    if args.graph:
        words += ["--graph", args.graph]
    return f"  graphgym-srnc {shlex.join([*words, '--labels', args.sample])}"


def _on_all(args: argparse.Namespace, can_correct: bool) -> list[str]:
    """The command that lists all labels that disagree, and nodes to label next."""
    words = ["predict", args.run, "--out", args.out, "--overwrite"]
    words += ["--disagreements", arguments.unused("check.csv")]
    purpose = "To see all of these labels:"
    if can_correct and not args.uncertain:
        words += ["--uncertain", arguments.unused("next.csv")]
        purpose = "To correct labels, and to label the least certain nodes, list them:"
    if args.folds:
        words += ["--folds", str(args.folds)]
    if args.probabilities:
        words.append("--probabilities")
    return [purpose, f"  graphgym-srnc {shlex.join(words)}"]


def _without_learned_labels(
    args: argparse.Namespace,
    model: TrainedModel,
    task: ShiftTask,
    prediction: Prediction,
) -> Prediction | None:
    """Predictions by models that did not learn the labels, if there are any."""
    if args.folds:
        return folds.out_of_fold(model, task, prediction, args.folds)
    held_out = model.method.out_of_fold
    return None if held_out is None else predictions.held_out(prediction, held_out)

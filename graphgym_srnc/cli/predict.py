"""``graphgym-srnc predict``: predict the class of every node with a saved model."""

from __future__ import annotations

import argparse
import sys
from typing import Callable

from graphgym_srnc.cli import arguments
from graphgym_srnc.core import environment
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.core.text import tell
from graphgym_srnc.data import names
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build, folds, predictions
from graphgym_srnc.io import records
from graphgym_srnc.train.model import TrainedModel


def main(args: argparse.Namespace) -> None:
    """Predict, write the table and print a summary.

    Raises:
        InputError: the run, the graph or the file is not what it must be; nothing was written.
    """
    if args.folds < 0 or args.folds == 1:
        raise InputError("--folds", args.folds, "2 or more, or 0 for none")
    for option in ("disagreements", "folds"):
        if args.graph and getattr(args, option):
            message = "the labels of --graph are not read, so no prediction disagrees with them"
            raise InputError.plain(f"--{option}", message, "Leave out one of the two")
    with RunProgress(1, sys.stderr) as progress:
        outs = arguments.outputs(args)
        progress.doing("reading the graph", 0.1 if args.folds else 0.5)
        model = build.load_model(args.run)
        with environment.limited(model.result.get("threads", 1)):
            lines = _predict(args, model, outs, progress.doing)
    for line in lines:
        tell(line)


def _predict(
    args: argparse.Namespace,
    model: TrainedModel,
    outs: dict[str, str],
    begin: Callable[[str, float], None],
) -> list[str]:
    """Predict, write the tables and return the lines to print; see ``discover`` for ``begin``."""
    folder, given, split = None, None, None
    if args.graph:
        graph, folder = model.read(args.graph)
    else:
        arguments.check_inputs(outs, [str(model.folder() or "")])
        task, folder = build.task_of(model), model.folder()
        graph, given = task.target, predictions.given_labels(model, task)
        split = predictions.split(task)
        if args.disagreements and not any(given):
            raise InputError.plain("--disagreements", "no node of the graph has a label")
    found = names.of_folder(folder, graph.num_nodes) if folder else names.Names()
    begin("predicting", 0.2 if args.folds else 0.8)
    prediction = model.predict(graph)
    known = found.ids, given, split
    frame = own = predictions.table(model, graph, prediction, *known, args.probabilities)
    if args.folds:
        prediction = folds.out_of_fold(model, task, prediction, args.folds, begin)
        own = predictions.table(model, graph, prediction, *known, args.probabilities)
    begin("writing the table", 1.0)
    lines = predictions.summary(model, frame)
    warnings = records.warnings_of(model.result).values()
    for note in [*warnings, *predictions.notes(model, graph, frame)]:
        lines.append(f"note: {note}")
    if any(given or ()):
        other = predictions.disagreements(own)
        lines += predictions.on_disagreements(own, other, bool(args.folds))
        if len(other) and not args.disagreements:
            lines.append("--disagreements FILE lists all of them.")
    files = {"--out": predictions.encode(args.out, frame)}
    if args.disagreements:
        if found.texts:
            other = other.assign(text=[found.texts[node] for node in other["node"]])
        files["--disagreements"] = predictions.encode(args.disagreements, other)
    return lines + [arguments.write(option, outs[option], data) for option, data in files.items()]

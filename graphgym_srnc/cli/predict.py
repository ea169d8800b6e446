"""``graphgym-srnc predict``: predict the class of every node with a saved model."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Callable

import torch

from graphgym_srnc.cli import arguments
from graphgym_srnc.core import environment
from graphgym_srnc.core.progress import RunProgress, tell
from graphgym_srnc.data import names
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build, predictions
from graphgym_srnc.io import records
from graphgym_srnc.train.model import UNKNOWN


def main(args: argparse.Namespace) -> None:
    """Predict, write the table and print a summary.

    Raises:
        InputError: the run, the graph or the file is not what it must be; nothing was written.
    """
    outs = {"--out": args.out, "--disagreements": args.disagreements}
    for option, file in outs.items():
        check_table(option, file, args.overwrite)
    if args.disagreements and args.graph:
        message = "the labels of --graph are not read, so no prediction disagrees with them"
        raise InputError.plain("--disagreements", message, "Leave out one of the two")
    arguments.check_inputs(outs, [args.run, args.graph])
    with RunProgress(1, sys.stderr) as progress:
        _predict(args, outs, progress.doing)


def _predict(
    args: argparse.Namespace, outs: dict[str, str | None], begin: Callable[[str, float], None]
) -> None:
    """Body of ``main``; ``begin`` is that of ``discover``."""
    begin("reading the graph", 0.5)
    model = build.load_model(args.run)
    folder, given = None, None
    if args.graph:
        graph, folder = model.read(args.graph)
    else:
        arguments.check_inputs(outs, [str(model.folder() or "")])
        task, folder = build.task_of(model), model.folder()
        graph, given = task.target, predictions.given_labels(model, task)
    if (wanted := model.config.get("num_threads")) is not None:
        torch.set_num_threads(environment.threads(wanted, graph.edge_index.size(1)))
    found = names.of_folder(folder, graph.num_nodes) if folder else names.Names()
    begin("predicting", 0.8)
    prediction = model.predict(graph)
    begin("writing the table", 1.0)
    columns = predictions.table(model, graph, prediction, found.ids, given, args.probabilities)
    lines = predictions.summary(model, prediction, columns["component_size"]).splitlines()
    warnings = records.warnings_of(model.result).values()
    for note in [*warnings, *predictions.notes(model, graph)]:
        lines.append(f"note: {note}")
    if labelled := sum(map(bool, given or ())):
        other = predictions.disagreements(columns)
        count, unknown = len(other["node"]), other["class"].count(UNKNOWN)
        hint = " The surest ones are:" * (count > 0)
        lines.append(
            f"The model disagrees with {count:,} of {labelled:,} given labels "
            f"({100 * count / labelled:.1f} %) and predicts {unknown:,} of these nodes as unknown. "
            "The label or the model may be wrong. The model has learned the training labels, so"
            f" wrong ones among them may be missing here.{hint}"
        )
        if count:
            lines += predictions.surest(other).splitlines()
        if count and not args.disagreements:
            lines.append("--disagreements FILE lists all of them.")
    files = {"--out": predictions.encode(args.out, columns)}
    if args.disagreements:
        if found.texts:
            other["text"] = [found.texts[node] for node in other["node"]]
        files["--disagreements"] = predictions.encode(args.disagreements, other)
    # Nothing is printed before, so that a reader such as head cannot end the command too early.
    lines += [arguments.write(option, str(outs[option]), data) for option, data in files.items()]
    for line in lines:
        tell(line)


def check_table(option: str, file: str | None, overwrite: bool) -> None:
    """Check before any work that a table of nodes can be written; see ``arguments.check_out``."""
    arguments.check_out(option, file, overwrite, (".csv", ".parquet"))
    if file and Path(file).suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        hint = "Write a .csv file, or install it with: pip install 'graphgym-srnc[parquet]'"
        raise InputError.plain(option, "the package pyarrow is not installed", hint)

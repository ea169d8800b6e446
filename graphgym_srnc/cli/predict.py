"""``graphgym-srnc predict``: predict the class of every node with a saved model."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import torch

from graphgym_srnc.cli import arguments
from graphgym_srnc.core import environment
from graphgym_srnc.data import names
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build, predictions


def main(args: argparse.Namespace) -> None:
    """Predict, write the table and print a summary.

    Raises:
        InputError: the run, the graph or the file is not what it must be; nothing was written.
    """
    check_table("--out", args.out, args.overwrite)
    if args.features and not args.graph:
        raise InputError.plain("--features", "it has no effect without --graph", "Add --graph")
    model = build.load_model(args.run)
    folder: Path | None
    if args.graph:
        graph, folder = model.read(args.graph, args.features)
    else:
        graph, folder = build.task_of(model).target, model.folder()
    if (wanted := model.config.get("num_threads")) is not None:
        torch.set_num_threads(environment.threads(wanted, graph.edge_index.size(1)))
    ids = None if folder is None else names.of_folder(folder, graph.num_nodes).ids
    prediction = model.predict(graph)

    columns = predictions.table(model, prediction, ids, args.probabilities)
    predictions.write(Path(args.out), columns, raw=args.raw)
    print(predictions.summary(model, prediction))
    doubts = model.result.get("verdict", {}).get("sentences", {})
    for note in [*doubts.values(), *predictions.notes(model, graph)]:
        print(f"note: {note}")
    print(f"wrote {args.out}")


def check_table(option: str, file: str, overwrite: bool) -> None:
    """Check before any work that a table of nodes can be written; see ``arguments.check_out``."""
    arguments.check_out(option, file, overwrite, (".csv", ".parquet"))
    if Path(file).suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        hint = "Write a .csv file, or install it with: pip install 'graphgym-srnc[parquet]'"
        raise InputError.plain(option, "the package pyarrow is not installed", hint)

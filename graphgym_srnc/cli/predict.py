"""``graphgym-srnc predict``: predict the class of every node with a saved model."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Sequence

from graphgym_srnc.cli import arguments
from graphgym_srnc.errors import InputError

EPILOG = """\
RUN is the folder of a run, <out-dir>/<name>/<seed>; the folder of an experiment, of which the
finished run with the lowest seed is read; or a model file of a run or of an estimator's save().
Give --graph the whole graph, old and new nodes together: a GNN needs the neighbours of a node."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "predict",
        help="predict the class of every node with a trained run",
        epilog=EPILOG,
        description="Predict the class of every node with a trained run.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "run", metavar="RUN", help="folder of a run or an experiment, or a model file"
    )
    parser.add_argument(
        "--graph",
        metavar="FILE",
        help="read another graph, in a format of the shift `file`; its labels are"
        " not read (default: the target graph of the run)",
    )
    parser.add_argument(
        "--features",
        metavar="FILE",
        default="",
        help="read the features of --graph from FILE if the graph is a list of edges",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        required=True,
        help="write the predictions to FILE, .csv or .parquet",
    )
    parser.add_argument(
        "--clusters",
        metavar="FILE",
        help="add the cluster numbers and names of"
        " FILE, a table of `discover --nodes` (default: add none)",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="add a column with the probability of each class (default: add none)",
    )
    arguments.add_raw(parser)
    arguments.add_overwrite(parser)
    arguments.add_trust(parser)


def main(args: argparse.Namespace) -> None:
    """Predict, write the table and print a summary.

    Raises:
        InputError: the run, the graph or the file is not what it must be; nothing was written.
    """
    from graphgym_srnc.core import environment
    from graphgym_srnc.io import store

    out = Path(args.out)
    others = [args.run, args.graph, args.features, args.clusters]
    check_out(args.out, args.overwrite, others)
    if args.features and not args.graph:
        raise InputError.plain("--features", "it has no effect without --graph", "Add --graph")
    if not Path(args.run).is_file():
        store.finished_run(Path(args.run))
    with environment.uncollected():
        import torch

        from graphgym_srnc.data import names
        from graphgym_srnc.gym import build, predictions
        from graphgym_srnc.own.discover import nodes

    model = build.load_model(args.run)
    wanted = model.config.get("num_threads")
    if wanted is not None:
        torch.set_num_threads(environment.threads(wanted))
    folder: Path | None
    if args.graph:
        graph, folder = model.read(args.graph, args.features)
    else:
        graph, folder = build.task_of(model).target, model.folder()
        check_out(args.out, args.overwrite, model.inputs())
    if wanted is not None:
        torch.set_num_threads(environment.threads(wanted, graph.edge_index.size(1)))
    ids = None if folder is None else names.of_folder(folder, graph.num_nodes).ids
    before = nodes.earlier("--clusters", Path(args.clusters)) if args.clusters else None
    prediction = model.predict(graph)

    columns = predictions.table(model, prediction, ids, args.probabilities)
    if before is not None:
        keys = nodes.keys(before, ids, graph.num_nodes)
        columns["cluster"] = [before.cluster.get(key, "") for key in keys]
        columns["cluster_name"] = [before.name.get(key, "") for key in keys]
    predictions.write(out, columns, raw=args.raw)
    print(predictions.summary(model, prediction))
    doubts = model.result.get("verdict", {}).get("sentences", {})
    for note in [*doubts.values(), *predictions.notes(model, graph)]:
        print(f"note: {note}")
    print(f"wrote {out}")


def check_out(
    file: str, overwrite: bool, others: Sequence[str | None] = (), option: str = "--out"
) -> None:
    """Check before any work that a table of nodes can be written; see ``arguments.check_out``."""
    arguments.check_out(option, file, overwrite, (".csv", ".parquet"), others=others)
    if Path(file).suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise InputError.plain(
            option,
            "the package pyarrow is not installed",
            "Write a .csv file, or install it with: pip install 'graphgym-srnc[parquet]'",
        )

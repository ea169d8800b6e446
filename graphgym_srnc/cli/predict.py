"""``graphgym-srnc predict``: what a saved model predicts for each node of a graph, in a file."""
from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from graphgym_srnc.cli import arguments
from graphgym_srnc.errors import InputError

EPILOG = """\
RUN is the directory of a run, <out-dir>/<name>/<seed>, that of an experiment (its finished run
with the lowest seed is taken), or a model file of a run or of an estimator's save(). A new graph
should hold the neighbours of its new nodes, so that it is best the whole graph, old nodes and new
ones: a GNN reads a node through its neighbours."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "predict", help="write what a saved run says of each node of a graph", epilog=EPILOG,
        allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="a run, an experiment, or a model file")
    parser.add_argument("--graph", metavar="FILE",
                        help="the graph, in a form that the shift `file` reads; labels are not"
                        " needed and not read (default: the target graph of the run)")
    parser.add_argument("--features", metavar="FILE", default="",
                        help="the features beside a graph that is a list of edges")
    parser.add_argument("--out", metavar="FILE", required=True, help="the table, .csv or .parquet")
    parser.add_argument("--clusters", metavar="FILE", help="a table of `discover --nodes`, whose"
                        " numbers and names of clusters are added")
    parser.add_argument("--probabilities", action="store_true", help="a column for each class, too")
    arguments.add_overwrite(parser)
    arguments.add_trust(parser)


def main(args: argparse.Namespace) -> None:
    """Predict, write the table, print what is in it.

    Raises:
        InputError: the run, the graph or the file is not what it must be; nothing was written.
    """
    from graphgym_srnc import environment, store
    out = Path(args.out)
    check_out(out, args.overwrite)
    if args.features and not args.graph:
        raise InputError("--features", args.features, "nothing without --graph")
    if not Path(args.run).is_file():
        store.finished_run(Path(args.run))
    with environment.uncollected():
        import torch

        from graphgym_srnc.data import names
        from graphgym_srnc.own.discover import nodes
        from graphgym_srnc.runs import model as models
        from graphgym_srnc.runs import predictions

    model = models.load(args.run)
    wanted = None if model.cfg is None else model.cfg.num_threads
    if wanted is not None:
        torch.set_num_threads(environment.threads(wanted))
    if args.graph:
        graph, folder = model.read(args.graph, args.features)
    else:
        graph, folder = model.task().target, model.folder()
    if wanted is not None:
        torch.set_num_threads(environment.threads(wanted, graph.edge_index.size(1)))
    ids = None if folder is None else names.of_folder(folder, graph.num_nodes).ids
    before = nodes.earlier("--clusters", Path(args.clusters)) if args.clusters else None
    prediction = model.predict(graph)

    columns = predictions.table(model, prediction, ids, args.probabilities)
    if before is not None:
        keys = nodes.keys(before.by, ids, graph.num_nodes)
        columns["cluster"] = [before.cluster.get(key, "") for key in keys]
        columns["cluster_name"] = [before.name.get(key, "") for key in keys]
    predictions.write(out, columns)
    print(predictions.summary(model, prediction))
    doubts = model.result.get("verdict", {}).get("sentences", {})
    for note in [*doubts.values(), *predictions.notes(model, graph)]:
        print(f"note: {note}")
    print(f"wrote {out}")


def check_out(out: Path, overwrite: bool, option: str = "--out") -> None:
    """Refuse a file that could not be written with an InputError, before any work."""
    arguments.check_out(option, str(out), overwrite, (".csv", ".parquet"))
    if out.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InputError(option, str(out), "a .csv file, or graphgym-srnc installed with the extra"
                         " parquet, as graphgym-srnc[parquet]")

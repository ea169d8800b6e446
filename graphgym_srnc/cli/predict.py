"""``graphgym-srnc predict``: what a saved model says of each node of a graph, as a table in a file."""
from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from torch_geometric.data import Data

    from graphgym_srnc.runs.model import Model, Prediction

FEW = 100
"""Nodes below which a mean over them is a rough one."""

KINDS = ("sparse", "dense")

EPILOG = """\
RUN is the directory of a run, <out-dir>/<name>/<seed>, that of an experiment (its finished run with the lowest seed is taken), or a file
that an estimator's save() has written. A new graph should hold the neighbours of its new nodes, so that it is best the whole graph, old
nodes and new ones: a GNN reads a node through its neighbours."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("predict", help="write what a saved run says of each node of a graph", epilog=EPILOG, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="a run, an experiment, or a model that save() has written")
    parser.add_argument("--graph", metavar="FILE", help="the graph, in a form that the shift `file` reads; labels are not needed and not"
                        " read (default: the target graph of the run)")
    parser.add_argument("--features", metavar="FILE", default="", help="the features beside a graph that is a list of edges")
    parser.add_argument("--out", metavar="FILE", required=True, help="the table, .csv or .parquet")
    parser.add_argument("--probabilities", action="store_true", help="a column for each class, too")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it is there")


def main(args: argparse.Namespace) -> None:
    """Predict, write the table, tell what is in it.

    Raises:
        InputError: the run, the graph or the file is not what it must be; nothing was written then.
    """
    import torch

    from graphgym_srnc import atomic
    from graphgym_srnc.errors import InputError
    out = Path(args.out)
    check_out(out, args.overwrite)
    if args.features and not args.graph:
        raise InputError("--features", args.features, "nothing without --graph")
    model = load(Path(args.run))
    if model.cfg is not None:
        torch.set_num_threads(model.cfg.num_threads)
    graph, folder = read(args.graph, args.features, model) if args.graph else own_graph(model)
    names = ids(folder, graph)
    prediction = model.predict(graph)
    try:
        atomic.write_bytes(out, encode(table(model, prediction, names, args.probabilities), out.suffix))
    except OSError as error:
        raise InputError("--out", args.out, f"a file that can be written ({error.strerror})") from error
    print(summary(model, prediction))
    verdict = (model.result or {}).get("verdict", {})
    for note in [*verdict.get("sentences", {}).values(), *notes(model, graph)]:
        print(f"note: {note}")
    print(f"wrote {out}")


def check_out(out: Path, overwrite: bool) -> None:
    """Refuse a file that could not be written, before any work.

    Raises:
        InputError: another type, its folder is not there, it is there already, or what Parquet needs is not installed.
    """
    from importlib.util import find_spec

    from graphgym_srnc.errors import InputError
    if out.suffix not in (".csv", ".parquet"):
        raise InputError("--out", str(out), "a .csv or .parquet file")
    if out.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InputError("--out", str(out), "a .csv file, or graphgym-srnc installed with the extra parquet, as graphgym-srnc[parquet]")
    if out.is_dir() or not os.access(out.absolute().parent, os.W_OK):
        raise InputError("--out", str(out), "a file in a folder that can be written to")
    if out.exists() and not overwrite:
        raise InputError("--out", str(out), "another file, or --overwrite, since it is there already")


def load(path: Path) -> Model:
    """The model of a run, an experiment or a file of an estimator.

    Raises:
        InputError: there is none.
    """
    from graphgym_srnc.runs import model as models
    if path.is_dir():
        return models.load(path)
    if path.name == models.FILE and (path.parent / "result.json").is_file():
        return models.load(path.parent)
    from graphgym_srnc.errors import InputError
    if not path.is_file():
        raise InputError("RUN", str(path), "the directory of a run or an experiment, or a model that save() has written")
    import graphgym_srnc
    estimator = graphgym_srnc.load(path)
    names = [*map(str, estimator.classes_)]
    if estimator.method_.task.open_set:
        names[-1] = models.UNKNOWN
    return models.Model(estimator.method_, tuple(names), result={"verdict": estimator.verdict_})


def read(path: str, features: str, model: Model) -> tuple[Data, Path]:
    """A graph without its labels, and where it lies.

    Raises:
        InputError: it cannot be read.
    """
    from graphgym_srnc.data import files
    from graphgym_srnc.errors import renamed
    from graphgym_srnc.shifts import unlabelled
    with renamed({"path": "--graph", "features": "--features"}):
        graph, place = files.load_unlabelled(path, features, model.cfg.dataset.dir if model.cfg is not None else "")
    return unlabelled(graph), place


def own_graph(model: Model) -> tuple[Data, Path | None]:
    """The target graph of the run, and where it lies if it is the user's own.

    Raises:
        InputError: the model is of no run, or its data are no longer there or no longer the same.
    """
    return model.task().target, own_folder(model)


def own_folder(model: Model) -> Path | None:
    """Where the graph of the run lies, if it is the user's own."""
    from graphgym_srnc.data import files
    dataset = model.cfg.dataset
    return files.locate(model.cfg.file.path or dataset.name, dataset.dir, "file.path") if dataset.format == "file" else None


def ids(folder: Path | None, graph: Data) -> list[str] | None:
    """The ids of the nodes in the user's own words, if the folder of the graph tells them."""
    from graphgym_srnc.data import names as _names
    return None if folder is None else _names.of_folder(folder, graph.num_nodes).ids


def table(model: Model, prediction: Prediction, ids: list[str] | None, probabilities: bool) -> dict[str, list[Any]]:
    """The columns of the file by name, a value a node."""
    label, posterior = prediction.label.tolist(), prediction.posterior
    columns: dict[str, list[Any]] = {"node": list(range(len(label)))}
    if ids is not None:
        columns["id"] = ids
    columns |= {"class": [model.classes[k] for k in label], "probability": posterior.gather(1, prediction.label[:, None])[:, 0].tolist()}
    if model.method.task.open_set:
        columns["known"] = (1 - posterior[:, -1]).tolist()
    if prediction.cluster is not None:
        columns["cluster"] = prediction.cluster.tolist()
    return columns | ({f"p_{name}": posterior[:, k].tolist() for k, name in enumerate(model.classes)} if probabilities else {})


def encode(columns: dict[str, list[Any]], suffix: str) -> bytes:
    """The file of a table."""
    import io
    if suffix == ".parquet":
        import pandas
        buffer = io.BytesIO()
        pandas.DataFrame(columns).to_parquet(buffer, engine="pyarrow", index=False)
        return buffer.getvalue()
    import csv

    from graphgym_srnc.text import guarded
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(guarded, columns))
    writer.writerows(zip(*(map(guarded, column) for column in columns.values())))
    return text.getvalue().encode()


def summary(model: Model, prediction: Prediction) -> str:
    """How many nodes are of each class, and how sure the model is of them."""
    from graphgym_srnc.text import aligned, clean
    label, sure = prediction.label, prediction.posterior.amax(1)
    lines = [["class", "nodes", "share", "mean probability"]]
    for k, name in enumerate(model.classes):
        mine = sure[label == k]
        lines.append([clean(name), str(len(mine)), f"{100 * len(mine) / len(label):.1f} %",
                      f"{float(mine.mean()):.3f}" if len(mine) else "-"])
    lines.append(["all", str(len(label)), "", f"{float(sure.mean()):.3f}"])
    return aligned(lines).rstrip("\n")


def notes(model: Model, graph: Data) -> list[str]:
    """What is odd about a graph as this model reads it."""
    import torch

    from graphgym_srnc.backbones import prepare
    features = model.method.encoder.features
    dense = isinstance(prepare(graph, features).x, torch.Tensor)
    if features != "auto" or not (dense or model.dense):
        return []
    if dense is (model.dense is False):
        return [f"the features of this graph are {KINDS[dense]}, those of training were {KINDS[not dense]}; scaled by `auto` dense ones are"
                " centred and sparse ones are not, so do not trust these predictions"]
    return [f"the features are centred by the mean of this graph, which of only {graph.num_nodes} nodes is a rough one; add them to the"
            " graph that they belong to"] * (graph.num_nodes < FEW)

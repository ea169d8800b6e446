"""``graphgym-srnc discover``: the clusters of a graph that no known class stands for, and what may be new in them."""
from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphgym_srnc.own.discover.clusters import Discovery
    from graphgym_srnc.own.discover.page import Names
    from graphgym_srnc.task import ShiftTask

EPILOG = """\
Clusters that you know can be named and fed back: --name 1="graph theory" --name 2=biology --labels-out FOLDER writes the graph with their
sure nodes as training nodes of new classes, which `graphgym-srnc run ... dataset.format file dataset.name FOLDER` reads."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("discover", help="show the clusters that no known class stands for", epilog=EPILOG, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="a finished run of open-set shift, or an experiment (its run of the lowest seed)")
    parser.add_argument("--graph", metavar="FILE", help="another graph, in a form that the shift `file` reads (default: the run's target)")
    parser.add_argument("--features", metavar="FILE", default="", help="the features beside a graph that is a list of edges")
    parser.add_argument("--texts", metavar="FILE", help="a text a node: a line each, or a .csv with the columns id and text"
                        " (default: nodes.csv in the folder of the graph)")
    parser.add_argument("--words", metavar="FILE", help="a name a feature column, a line each (default: words.txt in that folder)")
    parser.add_argument("--clusters", type=int, default=0, metavar="K", help="number of clusters |C|, known classes included"
                        " (default: what stability suggests)")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="words and typical nodes told of each cluster (default: 10)")
    parser.add_argument("--out", metavar="PAGE.html", help="also write an HTML page, with pictures in it")
    parser.add_argument("--csv", metavar="FILE", help="also write the table")
    parser.add_argument("--figures", metavar="FOLDER", help="also write the pictures as PNG")
    parser.add_argument("--evaluate", action="store_true", help="where true classes are at hand, score ranking and clusters by them")
    parser.add_argument("--name", action="append", default=[], metavar="CLUSTER=NAME", help="give a cluster a name; may be repeated")
    parser.add_argument("--labels-out", metavar="FOLDER", help="write the graph with named clusters as new classes, for the next run")
    parser.add_argument("--nodes-per-class", type=int, default=20, metavar="N", help="training nodes from each named cluster (default: 20)")


def main(args: argparse.Namespace) -> None:
    """Cluster, tell, write.

    Raises:
        InputError: the run, the graph, a file or an option is not what it must be; nothing was written then.
    """
    from graphgym_srnc.errors import InputError
    for option, value in {"--top": args.top, "--nodes-per-class": args.nodes_per_class}.items():
        if value < 1:
            raise InputError(option, value, "1 or more")
    if args.clusters < 0:
        raise InputError("--clusters", args.clusters, "a number of clusters above that of known classes")
    if bool(args.name) != bool(args.labels_out):
        raise InputError("--name" if args.name else "--labels-out", args.name or args.labels_out, "both --name and --labels-out")
    _check_places(args)

    import torch

    from graphgym_srnc.backbones import prepare
    from graphgym_srnc.own.discover import clusters, evidence, feedback, page
    from graphgym_srnc.runs import model as models
    model = models.load(args.run)
    if not model.method.task.open_set:
        raise InputError("RUN", args.run, "a run of open-set shift: this model has no unknown class")
    torch.set_num_threads(model.cfg.num_threads if model.cfg is not None else 1)
    task = None if args.graph else model.task()
    if args.labels_out and (task is None or task.source is not task.target):
        raise InputError("--labels-out", args.labels_out, "a run whose labelled nodes lie in the graph that is looked at")
    graph, folder = model.read(args.graph, args.features) if task is None else (task.target, model.folder())
    names = read_names(args.texts, args.words, folder, graph)
    # In words, since the next run reads labels that are all numbers as such.
    classes = [f"class {name}" if name.lstrip("-").isdecimal() else name for name in model.class_names[:-1]]

    posterior = model.predict(graph).posterior
    clusters.check(posterior, args.clusters or len(classes) + 1)
    state = clusters.states(graph, posterior)
    told = evidence.gather(prepare(graph, "auto").adjacency("raw").matrix, state, posterior.argmax(1), len(classes))
    found = clusters.find(graph, posterior, args.clusters or told.stability.suggestion, state=state)
    rows = page.tell(found, graph, classes, names, args.top)
    given = feedback.parse_names(args.name, len(found.new))
    scores = evaluation(found, task) if args.evaluate else ""
    if given:
        made = feedback.labels(found, given, classes, {part: getattr(task, part) for part in feedback.PARTS}, graph.y, args.nodes_per_class)

    print(page.text(rows))
    print(page.evidence_text(told))
    if scores:
        print(scores)
    if args.out or args.figures:
        title = f"New classes in {task.name if task is not None else Path(args.graph).name}"
        pictures = page.pictures(found, told)
        if args.out:
            again = shlex.join(["graphgym-srnc", *sys.argv[1:]])
            _write(Path(args.out), "--out", page.render(title, rows, found, told, pictures, classes, again).encode())
        for name, (_, content) in pictures.items() if args.figures else ():
            _write(Path(args.figures) / f"{name}.png", "--figures", content)
    if args.csv:
        _write(Path(args.csv), "--csv", page.to_csv(rows).encode())
    if given:
        feedback.write(Path(args.labels_out), graph, made, names)
        print(f"wrote {args.labels_out}; the next run reads it by: dataset.format file dataset.name {shlex.quote(args.labels_out)}")


def read_names(texts: str | None, words: str | None, folder: Path | None, graph: Data) -> Names:
    """Names of nodes and feature columns: those of the folder of the graph, then those of the files.

    Raises:
        InputError: a file cannot be read, or has another number of lines than the graph has nodes or features.
    """
    from graphgym_srnc.data import names as _names
    from graphgym_srnc.own.discover.page import Names
    ids, told, columns = _names.of_folder(folder, graph.num_nodes, graph.num_features) if folder is not None else (None, None, None)
    if texts:
        ids, told = _texts(Path(texts), graph.num_nodes)
    if words:
        columns = _lines("--words", words, graph.num_features, "features")
    return Names(ids, told, columns)


def evaluation(found: Discovery, task: ShiftTask | None) -> str:
    """Scores against the true classes of the run's target, in lines.

    Raises:
        InputError: they are not known.
    """
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.own.discover.scores import rate
    if task is None or "y_true" not in task.target:
        raise InputError("--evaluate", True, "the target graph of a run whose classes are all known")
    target = task.target
    free = target.y_true >= 0
    if task.source is target:
        free[task.train] = False
    scores = rate(found, target.y_true, target.y == task.unknown, free.nonzero().view(-1))
    lines = [f"all unlabelled nodes: ACC {100 * scores['acc']:.2f}, NMI {100 * scores['nmi']:.2f}"]
    if "unseen_acc" in scores:
        lines += [f"nodes of unseen classes: ACC {100 * scores['unseen_acc']:.2f}, NMI {100 * scores['unseen_nmi']:.2f}",
                  f"average precision of the ranking: {scores['ap_nodes']:.3f} over nodes (chance {scores['share_unseen']:.3f}), "
                  + (f"{scores['ap_clusters']:.3f} over clusters" if "ap_clusters" in scores else "no cluster is mostly unseen")]
    if "consistency" in scores:
        lines.append(f"the ten most typical nodes of a cluster are of one class: {100 * scores['consistency']:.0f} %")
    return "against true classes, " + "\n  ".join(lines)


def _check_places(args: argparse.Namespace) -> None:
    """Refuse places that could not be written, before any work."""
    from graphgym_srnc.errors import InputError
    for option, name, suffix in (("--out", args.out, ".html"), ("--csv", args.csv, ".csv")):
        if name and (Path(name).suffix != suffix or Path(name).is_dir() or not Path(name).absolute().parent.is_dir()):
            raise InputError(option, name, f"a {suffix} file in a folder that exists")
    folder = Path(args.figures or ".")
    if folder.exists() and not folder.is_dir() or not folder.absolute().parent.is_dir():
        raise InputError("--figures", args.figures, "a folder, or a new one in a folder that exists")
    if args.labels_out:
        from graphgym_srnc.own.discover.feedback import check_place
        check_place(Path(args.labels_out))


def _write(path: Path, option: str, content: bytes) -> None:
    from graphgym_srnc import atomic
    from graphgym_srnc.errors import InputError
    try:
        atomic.write_bytes(path, content)
    except OSError as error:
        raise InputError(option, str(path), f"a file that can be written ({error.strerror})") from error
    print(f"wrote {path}")


def _texts(file: Path, num_nodes: int) -> tuple[list[str] | None, list[str]]:
    """Ids, if any, and texts of nodes."""
    import csv

    from graphgym_srnc.errors import InputError
    if file.suffix != ".csv":
        return None, _lines("--texts", str(file), num_nodes, "nodes")
    try:
        rows = list(csv.DictReader(file.read_text(encoding="utf-8-sig").splitlines(keepends=True), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("--texts", str(file), f"a readable UTF-8 table ({error})") from error
    if not rows or any(row.get("text") is None for row in rows) or len(rows) != num_nodes:
        allowed = f"a first line with text, or id,text, and a line for each of {num_nodes} nodes"
        raise InputError("--texts", f"{file} with {len(rows)} lines", allowed)
    return [row["id"] or "" for row in rows] if "id" in rows[0] else None, [row["text"] for row in rows]


def _lines(option: str, file: str, count: int, what: str) -> list[str]:
    from graphgym_srnc.errors import InputError
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(option, file, f"a readable UTF-8 file ({error})") from error
    if len(lines) != count:
        raise InputError(option, f"{file} with {len(lines)} lines", f"one for each of {count} {what}")
    return lines

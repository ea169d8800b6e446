"""The graph folder that the shift ``file`` reads, with ids, texts and names of features."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import re
from collections import Counter
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.core.text import counted, listed, one_line, tell_changed
from graphgym_srnc.data import edges
from graphgym_srnc.data.labels import GIVEN
from graphgym_srnc.data.names import DATES, RECIPE
from graphgym_srnc.errors import InputError, option, reading
from graphgym_srnc.io import atomic, checksums

if TYPE_CHECKING:
    import pandas

TEXT = 2000  # longest text that a node keeps to be shown, in characters
MOST = 0.8  # share of the labels from which one of three classes or more may mean "no label"
MANY_SINGLE = 0.1  # share of nodes without a link from which a remedy is named
LOW = " If you expected more, check that the links name the right ids."
DENSE = 0.3  # share of features other than zero above which they are stored as a dense array
SHOWN = 20  # most classes in a line
PARENT = "parent.json"  # the run that ``discover`` read, in a folder that it wrote
# The files of a graph folder and of the example tables.
OURS = {"nodes.csv", "edges.csv", "features.npy", "features.npz", "words.txt", "labels.csv"}
OURS |= {"split.csv", "answers.csv", DATES, RECIPE, PARENT}


class Graph(NamedTuple):
    """A graph with ``V`` nodes; labels and parts of the split are empty where there is none."""

    edges: np.ndarray  # node numbers [2, E]
    features: sp.csr_matrix  # [V, F]
    words: Sequence[str]  # names of the feature columns [F], or none at all
    ids: Sequence[str]  # one a node, as are texts, labels and split
    texts: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    split: Sequence[str] | None = None
    recipe: dict[str, Any] | None = None
    origins: Mapping[int, str] = MappingProxyType({})  # of labels by node; others are ``GIVEN``
    weights: np.ndarray | None = None  # of the edges [E]; equal for both directions of one
    parent: Mapping[str, Any] | None = None  # see ``parent``
    urls: Sequence[str] | None = None  # web address of each node, or ""
    dates: Sequence[str] | None = None  # of each node, such as 1994-01-31, or ""


def check_place(out: Path, overwrite: bool, key: str = "out", inputs: Iterable[Path] = ()) -> None:
    """Refuse a place for a folder, unless it is free or a folder of ours to ``overwrite``.

    It must contain none of the ``inputs``. Errors name ``key``.
    """
    atomic.restore(out)
    if out.is_symlink() or not out.absolute().parent.is_dir() or out.name in ("", ".", ".."):
        raise InputError.plain(
            key, f"{out} cannot be made", "Give a new folder inside a folder that exists"
        )
    if not out.exists():
        return
    read = [path for path in inputs if path.resolve().is_relative_to(out.resolve())]
    hint = "Choose another folder"
    if not overwrite:
        raise InputError.plain(key, f"{out} exists", f"{hint}, or add `overwrite` to replace it")
    if read:
        raise InputError.plain(key, f"{out} contains {read[0]}, which this command reads", hint)
    problem = _foreign(out)
    if problem:
        hint += "; `overwrite` replaces only folders that graphgym-srnc wrote"
        raise InputError.plain(key, f"{out} {problem}", hint)


def changed(folder: Path) -> list[str]:
    """Edited or missing files of a folder of this program; a damaged list of them is one itself."""
    try:
        return [name for name, _ in checksums.verify(folder)]
    except OSError:
        return []


def tell_changes(folder: Path) -> None:
    """Say, once for each, which files of a folder of this program were edited."""
    for name in changed(folder):
        tell_changed(str(folder / name))


def _foreign(out: Path) -> str:
    """What in a place this program did not write, as a predicate; empty if there is nothing."""
    if not out.is_dir():
        return "is a file"
    sums: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        sums = checksums.read(out)
    ours = {checksums.FILE, *sums} if sums.keys() <= OURS else set()
    for path in sorted(out.iterdir(), key=lambda path: (path.name in OURS, path.name)):
        if path.name not in ours or path.is_symlink() or not path.is_file():
            return f"contains {path.name}, which graphgym-srnc did not write"
    edited = [name for name in changed(out) if (out / name).exists()]
    return f"contains an edited {edited[0]}" if edited else ""


@contextlib.contextmanager
def whole(out: Path, overwrite: bool = False, key: str = "out") -> Iterator[Path]:
    """A new folder beside ``out`` that takes its place at the end, and goes if there is an error.

    At any moment the old folder or the new one is there whole, with checksums of its files.
    """
    check = partial(check_place, out, overwrite, key)
    check()
    try:
        with atomic.replacing_folder(out, check) as new:
            yield new
            checksums.write(new, [path.name for path in new.iterdir()])
    except OSError as error:
        raise InputError.plain(key, f"{out} cannot be written ({error.strerror})") from error


def write(graph: Graph, out: Path, overwrite: bool, key: str = "out") -> None:
    """Write a graph folder, whole or not at all, see ``whole``."""
    tables = _tables(graph)
    features = graph.features.astype(np.float32)
    with whole(out, overwrite, key) as folder:
        for name, table in tables.items():
            _write_table(table, folder / name)
        if features.nnz > DENSE * math.prod(features.shape):
            np.save(folder / "features.npy", features.toarray(), allow_pickle=False)
        else:
            sp.save_npz(folder / "features.npz", features, compressed=False)
        if len(graph.words):
            words = "".join(f"{one_line(word)}\n" for word in graph.words)
            (folder / "words.txt").write_text(words, encoding="utf-8")
        if graph.dates is not None:
            dates = "".join(f"{date}\n" for date in graph.dates)
            (folder / DATES).write_text(dates, encoding="utf-8")
        for name, content in ((RECIPE, graph.recipe), (PARENT, graph.parent)):
            if content is not None:
                text = json.dumps(dict(content), ensure_ascii=False)
                (folder / name).write_text(text, encoding="utf-8")


def _write_table(table: pandas.DataFrame, path: Path) -> None:
    """Write a table without missing cells, far faster than pandas does."""
    columns = [table[name].to_numpy() for name in table]
    columns = [cells.astype(str) if cells.dtype.kind == "f" else cells for cells in columns]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*(cells.tolist() for cells in columns)))


def _tables(graph: Graph) -> dict[str, pandas.DataFrame]:
    """The tables of a graph folder by the names of their files."""
    import pandas  # slow, and reading a folder of arrays does without

    nodes = {"id": graph.ids}
    if graph.texts is not None:
        nodes["text"] = [text[:TEXT] for text in graph.texts]
    if graph.urls is not None:
        nodes["url"] = graph.urls
    links = pandas.DataFrame(graph.edges.T, columns=["from", "to"])
    if graph.weights is not None:
        links["weight"] = graph.weights
    links = links[links["from"] != links["to"]]
    pairs = links[["from", "to"]]
    number = pairs.min(axis=1) * len(graph.ids) + pairs.max(axis=1)
    links = links[~number.duplicated()]
    tables = {"edges.csv": links, "nodes.csv": pandas.DataFrame(nodes)}
    for name, what, cells in (
        ("labels.csv", "label", graph.labels),
        ("split.csv", "part", graph.split),
    ):
        if cells and any(cells):
            lines = {cell: one_line(cell) for cell in {*cells}}
            column = pandas.Series([lines[cell] for cell in cells], name=what, dtype=object)
            tables[name] = column[column != ""].rename_axis("node").reset_index()
    if graph.origins and "labels.csv" in tables:
        origins = tables["labels.csv"]["node"].map(dict(graph.origins))
        tables["labels.csv"]["origin"] = origins.fillna(GIVEN)
    return tables


def parent(folder: Path) -> dict[str, Any]:
    """The run from which ``discover`` wrote a graph folder; empty if it did not.

    ``run`` is the path of the run as the user gave it, ``changed`` are the nodes that got another
    label, ``unchanged`` is what :func:`~graphgym_srnc.train.held_out.unchanged` says of others that
    are judged, and ``unknown`` of the ``nodes`` were predicted as unknown. ``named`` has nodes of
    each named cluster. ``sampled`` is the accuracy of the run on nodes drawn at random, and
    ``skipped`` such nodes got no label.

    Raises:
        InputError: the file cannot be read.
    """
    path = folder / PARENT
    if not path.is_file():
        return {}
    with reading(path, "what discover writes about a run", "graph"):
        return {**json.loads(atomic.content(path))}


def summary(graph: Graph) -> list[str]:
    """The figures of a graph, a line each."""
    nodes = len(graph.ids)
    labels = np.array([*(graph.labels or [""] * nodes)], dtype=object)
    sizes = Counter(filter(None, labels))
    numbers, cleaned = edges.undirected(graph.edges, nodes)
    pairs = np.stack(np.divmod(numbers, max(nodes, 1)))
    links = len(numbers) // 2
    loops = cleaned["self_loops"]
    repeated = graph.edges.shape[1] - links - loops
    shown = listed([f"{name} {count:,}" for name, count in sizes.most_common()], SHOWN)
    parts = Counter(filter(None, graph.split or ()))
    ends = labels[pairs[:, (labels != "")[pairs].all(0)]]
    between = ends.shape[1] // 2
    same = float((ends[0] == ends[1]).mean()) if between else 0.0
    low = LOW if same < edges.LEAST_SAME else ""
    single = nodes - int(np.count_nonzero(np.bincount(pairs[0], minlength=nodes)))
    bare = int((np.diff(graph.features.indptr) == 0).sum())
    (most, count), *_ = [*sizes.most_common(1), ("", 0)]
    share = count / max(sizes.total(), 1)
    rare = [name for name, count in sizes.items() if count < 5]
    lines = {
        f"{nodes:,} nodes, {links:,} links, {graph.features.shape[1]:,} features": True,
        f"{counted(repeated, 'link')} merged: equal to another one or its reverse": repeated,
        f"{counted(loops, 'link')} from a node to itself left out": loops,
        f"{sizes.total():,} labelled nodes of {len(sizes)} classes: {shown}": sizes,
        f"split: {listed([f'{part} {count:,}' for part, count in parts.items()])}": parts,
        f"{counted(single, 'node')} without a link": 0 < single <= MANY_SINGLE * nodes,
        f"{counted(single, 'node')} without a link. If rows share a value, such as an author or a"
        f" place, {option('link_by', 'COLUMN')} links them": single > MANY_SINGLE * nodes,
        f"{counted(bare, 'node')} without a feature": bare,
        f"{len(sizes)} classes have labels; training needs two": graph.labels and len(sizes) < 2,
        f"classes with fewer than 5 labels: {listed(rare, 5)}": rare,
        f"{100 * share:.0f} % of the labels are {most!r}. If this means 'no label', empty these"
        " cells.": len(sizes) > 2 and share > MOST,
        f"{100 * same:.1f} % of the {counted(between, 'link')} between labelled nodes"
        f" join nodes of the same class.{low}": between >= edges.TELLING,
    }
    return [*_on_texts_and_ids(graph), *(line for line, holds in lines.items() if holds)]


def _on_texts_and_ids(graph: Graph) -> list[str]:
    """Texts that are cut in the table of nodes, and ids that other programs may change."""
    lines = []
    long = sum(len(text) > TEXT for text in graph.texts or ())
    if long:
        lines.append(
            f"{counted(long, 'text')} longer than {TEXT:,} characters: features are made of all of"
            " the text, and its start is shown"
        )
    zeros = next((id for id in graph.ids if id[:1] == "0" and re.fullmatch(r"0\d+", id)), "")
    if zeros:
        lines.append(
            f"ids have leading zeros, such as {zeros!r}: read later tables as text, in pandas with"
            " dtype=str"
        )
    return lines

"""The graph folder that the shift ``file`` reads, with ids, texts and names of features."""
from __future__ import annotations

import contextlib
import csv
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc import atomic
from graphgym_srnc.errors import InputError
from graphgym_srnc.text import one_line, tell_changed

TEXT = 2000
"""Longest text that a node keeps to be shown, in characters."""

DENSE = 0.3
"""Share of features other than zero above which they are stored as a dense array."""

RECIPE = "recipe.json"
"""How the features were made, so that another table gets the same columns."""

MARKER = "made_by.json"
"""Says that this program made a folder, of which files, and the SHA-256 of each."""

FEATURES = {"features.npy", "features.npz"}
GRAPH = {"nodes.csv", "edges.csv", "words.txt", "labels.csv", "split.csv", RECIPE, *FEATURES}
EXAMPLE = {"nodes.csv", "edges.csv", "answers.csv"}
"""The files of a graph folder, and of the tables to play with."""


class Graph(NamedTuple):
    """A graph with ``V`` nodes; labels and parts of the split are empty where there is none.

    Args:
        edges: node numbers ``[2, E]``.
        features: ``[V, F]``.
        words: names of the feature columns, ``[F]``, or none at all.
        ids, texts, labels, split: one a node, or None.
        recipe: how features are made of a table.
    """

    edges: np.ndarray
    features: sp.csr_matrix
    words: Sequence[str]
    ids: Sequence[str]
    texts: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    split: Sequence[str] | None = None
    recipe: dict[str, Any] | None = None


def check_place(out: Path, overwrite: bool, option: str = "--out",
                inputs: Iterable[Path] = ()) -> None:
    """Refuse, before any long work, a place that ``option`` named and no folder can be written to.

    Args:
        out: the folder.
        overwrite: whether one that this program made may be replaced.
        option: what errors name.
        inputs: files and folders that are read, none of which may lie in ``out``.

    Raises:
        InputError: it exists and is not to be replaced, or holds what this program did not write,
            or its parent does not exist.
    """
    atomic.restore(out)
    if out.is_symlink() or not out.absolute().parent.is_dir() or out.name in ("", ".", ".."):
        raise InputError.plain(option, f"{out} cannot be made",
                               "Give a new folder inside a folder that exists")
    if out.exists() and not overwrite:
        raise InputError.plain(option, f"{out} exists",
                               "Choose another folder, or add --overwrite to replace it")
    read = next((path for path in inputs if path.resolve().is_relative_to(out.resolve())), None)
    if out.exists() and read is not None:
        raise InputError.plain(option, f"{out} contains {read}, which this command reads",
                               "Choose another folder")
    foreign = _foreign(out) if out.exists() else ""
    if foreign:
        found = f"contains {foreign}, which graphgym-srnc did not write" * out.is_dir()
        raise InputError.plain(
            option, f"{out} {found or 'is a file'}",
            "Choose another folder; --overwrite replaces only folders that data make wrote")


def marker(folder: Path) -> bytes:
    """The marker of a folder, which says what is in its files; empty if there is none."""
    with contextlib.suppress(OSError):
        return (folder / MARKER).read_bytes()
    return b""


def changed(folder: Path) -> list[str]:
    """Files of a folder that this program made which are no longer as it wrote them, or gone.

    A folder without the marker, or of a version whose marker has no checksums, has none.
    """
    if not (folder / MARKER).is_file():
        return []
    try:
        digests = json.loads((folder / MARKER).read_bytes())["files"]
        known = digests.items() if isinstance(digests, dict) else ()
        return [name for name, digest in known
                if name in GRAPH | EXAMPLE and _digest(folder / name) != digest
                or name not in GRAPH | EXAMPLE]
    except (OSError, ValueError, LookupError, TypeError):
        return [MARKER]


def tell_changes(path: Path) -> None:
    """Say, once for each, which files of a folder are no longer as this program made them.

    Args:
        path: the folder, or a file in it, that is read.
    """
    folder = path if path.is_dir() else path.parent
    for file in (folder / name for name in changed(folder)):
        # A pipe or a folder in the place of a file is refused by whoever reads it.
        if file.is_file() or not file.exists():
            tell_changed(str(file))


def _digest(file: Path) -> str:
    """SHA-256 of a file; empty if there is none."""
    digest = hashlib.sha256()
    if not file.is_file():
        return ""
    with open(file, "rb") as opened:
        while block := opened.read(2 ** 20):
            digest.update(block)
    return digest.hexdigest()


def _foreign(out: Path) -> str:
    """Something in a folder that this program did not write; empty if there is nothing."""
    if not out.is_dir():
        return "a file"
    paths = sorted(out.iterdir(), key=lambda path: (path.name in GRAPH | EXAMPLE, path.name))
    names = {path.name for path in paths if path.is_file() and not path.is_symlink()}
    ours: set[str] = set()
    if MARKER in names:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            listed = json.loads((out / MARKER).read_text(encoding="utf-8"))["files"]
            ours = (GRAPH | EXAMPLE) & {*listed} | {MARKER}
    elif {"nodes.csv", "edges.csv"} <= names and names & FEATURES:
        ours = GRAPH  # of a version without the marker; so is the next one
    elif names == EXAMPLE:
        ours = EXAMPLE
    other = next((path.name for path in paths if path.name not in ours & names), "")
    edited = sorted({*changed(out)} & names)
    return other or "".join(f"an edited {name}" for name in edited[:1])


@contextlib.contextmanager
def whole(out: Path, overwrite: bool = False, option: str = "--out") -> Iterator[Path]:
    """A new folder beside ``out`` that takes its place at the end, and goes if there is an error.

    At any moment the old folder or the new one is there whole, see
    :func:`graphgym_srnc.atomic.replacing_folder`. The marker is written here.

    Raises:
        InputError: see :func:`check_place`; or it cannot be written.
    """
    def check() -> None:
        check_place(out, overwrite, option)

    check()
    try:
        with atomic.replacing_folder(out, check) as new:
            yield new
            digests = {path.name: _digest(path) for path in sorted(new.iterdir())}
            made = {"made_by": "graphgym-srnc", "files": digests}
            (new / MARKER).write_text(json.dumps(made) + "\n", encoding="utf-8")
    except OSError as error:
        message = f"{out} cannot be written ({error.strerror})"
        raise InputError.plain(option, message) from error


def write(graph: Graph, out: Path, overwrite: bool, option: str = "--out") -> None:
    """Write a graph folder, whole or not at all.

    Raises:
        InputError: see :func:`check_place`; or it cannot be written.
    """
    columns = {"id": graph.ids}
    if graph.texts is not None:
        columns["text"] = [text[:TEXT] for text in graph.texts]
    with whole(out, overwrite, option) as folder:
        write_csv(folder / "edges.csv", ("from", "to"), graph.edges.T.tolist())
        write_csv(folder / "nodes.csv", columns, zip(*columns.values()))
        features = graph.features.astype(np.float32)
        if features.nnz > DENSE * features.shape[0] * features.shape[1]:
            np.save(folder / "features.npy", features.toarray(), allow_pickle=False)
        else:
            sp.save_npz(folder / "features.npz", features)
        if len(graph.words):
            lines = "".join(f"{one_line(word)}\n" for word in graph.words)
            (folder / "words.txt").write_text(lines, encoding="utf-8")
        for name, header, values in (("labels.csv", ("node", "label"), graph.labels),
                                     ("split.csv", ("node", "part"), graph.split)):
            if values is not None and any(values):
                rows = ((node, one_line(value)) for node, value in enumerate(values) if value)
                write_csv(folder / name, header, rows)
        if graph.recipe is not None:
            recipe = json.dumps(graph.recipe, ensure_ascii=False)
            (folder / RECIPE).write_text(recipe, encoding="utf-8")


def write_csv(path: Path, header: Sequence[str], rows: Any) -> None:
    """Write a comma-separated file of a line of names and lines of values."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def summary(graph: Graph) -> list[str]:
    """What a user wants to know of a graph at once, and what looks odd, a line each."""
    nodes, (low, high) = len(graph.ids), np.sort(graph.edges, 0)
    links = len(np.unique((low * nodes + high)[low != high]))
    lines = [f"{nodes:,} nodes, {links:,} links, {graph.features.shape[1]:,} features"]
    sizes = Counter(filter(None, graph.labels or ()))
    if sizes:
        classes = [f"{name} {count:,}" for name, count in sizes.most_common(12)]
        classes += ["..."] * (len(sizes) > 12)
        labelled = f"{sum(sizes.values()):,} labelled nodes of {len(sizes)} classes"
        lines.append(f"{labelled}: {', '.join(classes)}")
    parts = Counter(filter(None, graph.split or ()))
    if parts:
        lines.append("split: " + ", ".join(f"{part} {count:,}" for part, count in parts.items()))

    single = nodes - len(np.unique(graph.edges[:, low != high]))
    bare = int((np.diff(graph.features.indptr) == 0).sum())
    rare = [name for name, count in sizes.items() if count < 5]
    odd = {f"{single:,} nodes have no link": single > 0,
           f"{bare:,} nodes have no feature": bare > 0,
           "only one class has labels; a classifier needs two": len(sizes) == 1,
           "classes with fewer than 5 labels: "
           f"{', '.join(rare[:5] + ['...'] * (len(rare) > 5))}": len(rare) > 0}
    return lines + [f"! {text}" for text, holds in odd.items() if holds]

"""The graph folder that the shift ``file`` reads, with ids, texts and names of features."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.core.text import listed, one_line, tell_changed
from graphgym_srnc.data import edges
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic

TEXT = 2000
"""Longest text that a node keeps to be shown, in characters."""

DENSE = 0.3
"""Share of features other than zero above which they are stored as a dense array."""

LARGE = 2**30
"""Bytes of a dense array above which it is stored so: a small file is not to need much memory."""

RECIPE = "recipe.json"
"""How the features were made, so that another table gets the same columns."""

MARKER = "made_by.json"
"""Says that this program made a folder, of which files, and the SHA-256 of each."""

OURS = {"nodes.csv", "edges.csv", "features.npy", "features.npz", "words.txt", "labels.csv"}
OURS |= {"split.csv", "answers.csv", RECIPE}
"""The files of a graph folder and of the example tables."""


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


def check_place(
    out: Path, overwrite: bool, option: str = "--out", inputs: Iterable[Path] = ()
) -> None:
    """Refuse, before any long work, a place to which no folder can be written.

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
        hint = "Give a new folder inside a folder that exists"
        raise InputError.plain(option, f"{out} cannot be made", hint)
    if not out.exists():
        return
    if not overwrite:
        hint = "Choose another folder, or add --overwrite to replace it"
        raise InputError.plain(option, f"{out} exists", hint)
    for path in inputs:
        if path.resolve().is_relative_to(out.resolve()):
            message = f"{out} contains {path}, which this command reads"
            raise InputError.plain(option, message, "Choose another folder")
    if foreign := _foreign(out):
        hint = "Choose another folder; --overwrite replaces only folders that data make wrote"
        raise InputError.plain(option, f"{out} {foreign}", hint)


def marker(folder: Path) -> bytes:
    """The marker of a folder, which says what is in its files; empty if there is none."""
    with contextlib.suppress(OSError):
        return (folder / MARKER).read_bytes()
    return b""


def changed(folder: Path) -> list[str]:
    """Files of a folder that this program made which are no longer as it wrote them, or gone.

    A folder without a marker has none; a damaged marker is one itself.
    """
    try:
        listed = json.loads((folder / MARKER).read_bytes())["files"].items()
        return [
            name for name, digest in listed if name not in OURS or _digest(folder / name) != digest
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
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
    if not file.is_file():
        return ""
    digest = hashlib.sha256()
    with open(file, "rb") as opened:
        for block in iter(lambda: opened.read(2**20), b""):
            digest.update(block)
    return digest.hexdigest()


def _foreign(out: Path) -> str:
    """What in a place this program did not write, as a predicate; empty if there is nothing."""
    if not out.is_dir():
        return "is a file"
    edited, listed = changed(out), {MARKER}
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        listed |= {*json.loads((out / MARKER).read_bytes())["files"]} & OURS
    for path in sorted(out.iterdir(), key=lambda path: (path.name in OURS, path.name)):
        if path.name not in listed or path.is_symlink() or not path.is_file():
            return f"contains {path.name}, which graphgym-srnc did not write"
        if path.name in edited:
            return f"contains an edited {path.name}"
    return ""


@contextlib.contextmanager
def whole(out: Path, overwrite: bool = False, option: str = "--out") -> Iterator[Path]:
    """A new folder beside ``out`` that takes its place at the end, and goes if there is an error.

    At any moment the old folder or the new one is there whole, see
    :func:`graphgym_srnc.io.atomic.replacing_folder`. The marker is written here.

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
    import pandas  # slow, and reading a folder of arrays does without

    nodes = {"id": graph.ids}
    if graph.texts is not None:
        nodes["text"] = [text[:TEXT] for text in graph.texts]
    links = pandas.DataFrame(graph.edges.T, columns=["from", "to"])
    tables = {"edges.csv": links, "nodes.csv": pandas.DataFrame(nodes)}
    words = {("labels.csv", "label"): graph.labels, ("split.csv", "part"): graph.split}
    for (name, what), cells in words.items():
        if cells and any(cells):
            column = pandas.Series([*map(one_line, cells)], name=what, dtype=object)
            tables[name] = column[column != ""].rename_axis("node").reset_index()
    with whole(out, overwrite, option) as folder:
        for name, table in tables.items():
            table.to_csv(folder / name, index=False, lineterminator="\n")
        features = graph.features.astype(np.float32)
        size = features.shape[0] * features.shape[1]
        if features.nnz > DENSE * size or 4 * size > LARGE:
            np.save(folder / "features.npy", features.toarray(), allow_pickle=False)
        else:
            sp.save_npz(folder / "features.npz", features)
        if len(graph.words):
            lines = "".join(f"{one_line(word)}\n" for word in graph.words)
            (folder / "words.txt").write_text(lines, encoding="utf-8")
        if graph.recipe is not None:
            recipe = json.dumps(graph.recipe, ensure_ascii=False)
            (folder / RECIPE).write_text(recipe, encoding="utf-8")


def summary(graph: Graph) -> list[str]:
    """The figures of a graph, and warnings, a line each."""
    nodes, sizes = len(graph.ids), Counter(filter(None, graph.labels or ()))
    pairs = edges.undirected(graph.edges, nodes)[0]
    linked = np.zeros(nodes, dtype=bool)
    linked[pairs // max(nodes, 1)] = True
    lines = [f"{nodes:,} nodes, {len(pairs) // 2:,} links, {graph.features.shape[1]:,} features"]
    if sizes:
        shown = ", ".join(f"{name} {count:,}" for name, count in sizes.most_common(12))
        shown += ", ..." * (len(sizes) > 12)
        lines.append(f"{sizes.total():,} labelled nodes of {len(sizes)} classes: {shown}")
    if parts := Counter(filter(None, graph.split or ())):
        lines.append("split: " + ", ".join(f"{part} {count:,}" for part, count in parts.items()))

    single, bare = int((~linked).sum()), int((np.diff(graph.features.indptr) == 0).sum())
    rare = [name for name, count in sizes.items() if count < 5]
    odd = {
        f"{single:,} nodes have no link": single,
        f"{bare:,} nodes have no feature": bare,
        "only one class has labels; a classifier needs two": len(sizes) == 1,
        f"classes with fewer than 5 labels: {listed(rare, 5)}": rare,
    }
    return lines + [f"! {text}" for text, holds in odd.items() if holds]

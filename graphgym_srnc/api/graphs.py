"""Conversion of pandas frames and networkx graphs to PyG's ``Data``."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Sequence

import numpy as np
import torch
from torch_geometric.data import Data

from graphgym_srnc.core.errors import InputError, InputErrors

if TYPE_CHECKING:
    import networkx
    import pandas

    from graphgym_srnc.data import frames

LABEL = "label"
"""Default name of the attribute that holds the classes."""


def from_frames(
    nodes: pandas.DataFrame,
    edges: pandas.DataFrame,
    *,
    id: str = "",
    label: str = "",
    split: str = "",
    ends: Sequence[str] = (),
    text: Sequence[str] = (),
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
    features: Sequence[str] = (),
    spectral: int = 0,
    like: Data | None = None,
    skip_missing: bool = False,
    keep: str = "",
) -> Data:
    """Convert two pandas frames to a graph for :meth:`~graphgym_srnc.api.Estimator.fit`.

    ``graphgym-srnc data make`` makes the same graph of the same tables. Warnings say which columns
    are not read and which cells are read differently from how they are written.

    Args:
        nodes: one row per node. The index holds the ids, unless it only counts the rows and there
            is a column of ids.
        edges: one row per edge, with two columns of ids.
        id: column of the ids; by default the index, or a column with a usual name such as ``id``.
        label: column of the classes; empty or missing cells mean no label. By default a column with
            a usual name such as ``label``; ``none`` = there is none.
        split: column of ``train``, ``val``, ``test`` or nothing; by default ``split``.
        ends: the two columns of ids in ``edges``; by default chosen by their names and cells.
        text: columns of text, which become TF-IDF features.
        numbers: columns of numbers, which are standardised. By default all, if no other feature is
            chosen.
        categories: columns of which each value becomes a feature.
        features: columns of numbers that are used as they are.
        spectral: number of features made of the edges alone.
        like: an earlier graph of this function, whose features are made again: the same words,
            categories, means and units. Other choices of features are then ignored.
        skip_missing: whether to leave out edges to unknown ids.
        keep: ``first`` or ``last``, which one of different rows with one id stays.

    Returns:
        A ``Data`` with ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``, ``ids``, ``feature_names``,
        ``recipe`` (of the features) and ``notes``. If there are labels, also ``y`` ``[V]`` and
        ``train_mask`` ``[V]``, which marks all labelled nodes, or those of the split.

    Raises:
        InputError: a column is missing or not clear, a node id is not unique, an edge has an
            unknown node, or a number is not finite.
    """
    import pandas

    from graphgym_srnc.data import frames

    for name, frame in (("nodes", nodes), ("edges", edges)):
        if not isinstance(frame, pandas.DataFrame):
            raise InputError.plain(
                name, f"it is a {type(frame).__name__}", "Give a pandas.DataFrame"
            )
    nodes, edges = (
        frame.set_axis([str(name).strip() for name in frame.columns], axis=1)
        for frame in (nodes, edges)
    )
    for name, frame in (("nodes", nodes), ("edges", edges)):
        if not len(frame):
            raise InputError.plain(name, "the frame has no rows")
        if not frame.columns.is_unique:
            repeated = frame.columns[frame.columns.duplicated()][0]
            raise InputError.plain(
                name, f"two columns have the same name, {repeated}", "Give each column its own name"
            )
    if "" not in nodes:
        nodes.insert(0, "", nodes.index.to_flat_index())
    if not label and not frames.usual(nodes, frames.LABELS):
        label = frames.NONE
    chosen = [
        [each] if isinstance(each, str) else [*map(str, each)]
        for each in (ends, text, numbers, features, categories)
    ]
    if not (any(chosen[1:]) or spectral):
        chosen[2] = ["*"]
    recipe = getattr(like, "recipe", None)
    if like is not None and not recipe:
        raise InputError.plain(
            "like",
            "this graph does not say how its features were made",
            "Give a graph that from_frames returned",
        )
    if like is not None:
        chosen[1:], spectral = [[]] * 4, 0
    ends, text, numbers, features, categories = chosen
    options = frames.Options(
        id,
        label,
        split,
        ends,
        text,
        numbers,
        features,
        categories,
        spectral,
        recipe,
        skip_missing,
        keep,
    )
    return _graph(nodes.reset_index(drop=True), edges, options)


def from_networkx(
    graph: networkx.Graph, *, label: str = LABEL, features: str | Sequence[str] = "x"
) -> Data:
    """Convert a networkx graph to a graph for :meth:`~graphgym_srnc.api.Estimator.fit`.

    Args:
        graph: the graph. Edge directions and parallel edges are dropped.
        label: node attribute of the classes; nodes without it are unlabelled. Only the default
            ``label`` may be missing on all nodes.
        features: one attribute that holds a vector, or several attributes that hold a number each.

    Returns:
        A ``Data`` as returned by :func:`from_frames`.

    Raises:
        InputError: a node lacks a feature, a feature is not a vector of finite numbers, or no node
            has the named label.
    """
    import pandas

    from graphgym_srnc.data import frames

    names = [features] if isinstance(features, str) else list(features)
    try:
        rows = [
            np.concatenate([np.ravel(fields[name]) for name in names])
            for _, fields in graph.nodes(data=True)
        ]
        x = np.array(rows, dtype=np.float64)
    except KeyError as error:
        message = f"some nodes have no attribute {error}"
        raise InputError.plain("features", message) from error
    except (TypeError, ValueError) as error:
        message = f"the attributes are not numbers or vectors of one length ({str(error)[:100]})"
        raise InputError.plain("features", message) from error
    ids = list(graph)
    if not np.isfinite(x).all():
        node = ids[int(np.argmin(np.isfinite(x).all(1)))]
        raise InputError.plain(
            "features", f"node {node} has NaN or Inf as a feature", "Give finite numbers"
        )
    labels = [fields.get(label) for _, fields in graph.nodes(data=True)]
    if label != LABEL and not any(label in fields for _, fields in graph.nodes(data=True)):
        raise InputError.plain("label", f"no node has the attribute {label!r}")
    place = {node: number for number, node in enumerate(ids)}
    nodes = pandas.DataFrame({"id": range(len(ids)), LABEL: pandas.Series(labels, dtype=object)})
    edges = pandas.DataFrame(
        [(place[a], place[b]) for a, b, *_ in graph.edges],
        columns=["source", "target"],
        dtype="int64",
    )
    made = _graph(nodes, edges, frames.Options("id", LABEL), x)
    made.ids = ids
    return made


def _graph(
    nodes: pandas.DataFrame,
    edges: pandas.DataFrame,
    options: frames.Options,
    x: np.ndarray | None = None,
) -> Data:
    """The graph of two frames, and of features ``[V, F]`` if they are given."""
    from graphgym_srnc.data import frames

    found = frames.look(
        frames.Look(("nodes", "edges"), options), nodes, lambda ids: edges, x is not None
    )
    try:
        made = frames.graph(found, x)
    except InputErrors as several:
        raise InputErrors([_renamed(error) for error in several.errors]) from several
    except InputError as error:
        raise _renamed(error) from error
    graph = Data(
        x=torch.from_numpy(made.features.toarray()), edge_index=torch.from_numpy(made.edges)
    )
    id = next(name for name, role in found.roles.items() if role == "id")
    graph.ids, graph.feature_names = found.table[id].tolist(), list(made.words)
    graph.recipe = made.recipe
    graph.notes = [_in_python(note).removeprefix("! ") for note in found.notes]
    if made.labels is not None and any(made.labels):
        names = {*made.labels} - {""}
        if all(name.isdecimal() and str(int(name)) == name and len(name) < 19 for name in names):
            graph.y = torch.tensor([int(name or -1) for name in made.labels])
        else:
            graph.y = list(made.labels)
        parts = made.split or ["train" if label else "" for label in made.labels]
        for part in frames.PARTS:
            if part == "train" or part in parts:
                graph[f"{part}_mask"] = torch.tensor([own == part for own in parts])
    for note in graph.notes:
        if "not read" in note or not note.startswith(("columns: ", "edges: links join")):
            warnings.warn(note, RuntimeWarning, stacklevel=3)
    return graph


def _renamed(error: InputError) -> InputError:
    """An error of ``data make`` with the names of Python's arguments."""
    error = InputError.plain(_in_python(error.key).replace("=", ""), _in_python(error.message))
    return error


def _in_python(text: str) -> str:
    return re.sub(r"--([a-z][a-z-]*)", lambda found: found[1].replace("-", "_") + "=", text)

"""Conversion of pandas frames and networkx graphs to PyG's ``Data``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np
import pandas
import torch
from pandas.api.types import is_integer_dtype
from torch_geometric.data import Data

from graphgym_srnc.core.text import counted, listed, warn
from graphgym_srnc.data import embeddings as arrays
from graphgym_srnc.data.cleaning import narrowed
from graphgym_srnc.data.labels import PARTS, as_numbers
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    import networkx

    from graphgym_srnc.data.look import Options

LABEL = "label"  # default name of the attribute that holds the classes
ENDS = ("source node", "target node")  # columns of the links of networkx


def from_frames(
    nodes: pandas.DataFrame,
    edges: pandas.DataFrame | None = None,
    *,
    id: str = "",
    label: str = "",
    split: str = "",
    ends: Sequence[str] = (),
    weight: str = "",
    link_by: Sequence[str] = (),
    text: Sequence[str] = (),
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
    date: str = "",
    spectral: int = 0,
    like: Data | None = None,
    embeddings: Any = None,
    skip_missing: bool = False,
) -> Data:
    """Convert two pandas frames to a graph for ``Estimator.fit``.

    ``graphgym-srnc data make`` makes the same graph of the same tables. Warnings say which columns
    are not read, which cells differ from how they are written, and what was left out.

    Args:
        nodes: one row per node. The index holds the ids, unless it is of numbers without a name and
            only a column has the ids of the edges.
        edges: one row per edge, with two columns of ids, or an adjacency matrix. It may be left out
            if ``link_by`` is given.
        id: column of the ids; by default the index, or the column that has the ids of the edges.
        label: column of the classes; empty or missing cells mean no label. By default a column with
            a usual name such as ``label``; ``none`` = there is none. It is asked for if another
            column may hold classes.
        split: column of ``train``, ``val``, ``test`` or nothing; by default ``split``, one whose
            cells are such words, or ``train_mask``, ``val_mask`` and ``test_mask``.
        ends: the two columns of ids in ``edges``; by default those whose cells are ids.
        weight: column of weights in ``edges``. Those of repeated edges, in either direction, are
            added. An edge of weight 0 is left out. By default that of ``like``, or none.
        link_by: columns of ``nodes`` whose equal values link two nodes, each to at most ten others.
            Such edges have the mean weight of the others. By default those of ``like``, or none.
        text: columns of text, which become TF-IDF features.
        numbers: columns of numbers, or of lists of numbers of one length, which are standardised;
            an empty cell is the mean. A further feature marks the empty cells of a column with two
            or more. A comma is decimal if a cell shows that it cannot separate thousands, as in
            12,6. By default all, if no other feature is chosen.
        categories: columns of which each value becomes a feature.
        date: column of dates. If the labels are of another time than many other nodes,
            ``drawn_mask`` ``[V]`` marks the nodes of that time, which SRNC+ compares with them.
        spectral: number of features made of the edges alone.
        like: an earlier graph of this function, whose features are made again: the same words,
            categories, means, units and decimal commas. Other choices of features are then refused.
        embeddings: your own features ``[V, D]`` in the order of ``nodes``, as an array, a tensor or
            a matrix of SciPy.
        skip_missing: whether to leave out edges to unknown ids.

    Returns:
        A ``Data`` with ``x`` ``[V, F]`` in float32 (float64 if different values would become
        equal), ``edge_index`` ``[2, E]``, ``ids``, ``feature_names``, ``recipe`` (of the features)
        and ``notes``. With weights, each edge is there in both directions, with ``edge_weight``
        ``[E]`` in float32. If there are labels, also ``y`` ``[V]`` and ``train_mask`` ``[V]``,
        which marks all labelled nodes, or those of the split.

    Raises:
        InputError: a column is missing or not clear, a node id is not unique, an edge has an
            unknown node, or a number is not finite.
    """
    from graphgym_srnc.data.graph_files import NO_LINKS
    from graphgym_srnc.data.look import Options

    nodes = _checked("nodes", nodes)
    single = {"id": id, "label": label, "split": split, "weight": weight, "date": date}
    for name, value in single.items():
        if not isinstance(value, str):
            raise InputError(name, type(value).__name__, "the name of a column")
    chosen = {"text": _list(text), "numbers": _list(numbers), "categories": _list(categories)}
    recipe = None
    if like is not None:
        recipe = _recipe(like, chosen, spectral)
        chosen = {}
        spectral = 0
    elif not any(chosen.values()) and not spectral and embeddings is None:
        chosen["numbers"] = ["*"]
    counts = nodes.index.name is None and is_integer_dtype(nodes.index)
    options = Options(
        id=id or (None if counts else ""),
        label=label,
        split=split,
        ends=_list(ends),
        weight=weight,
        link_by=_list(link_by),
        date=date,
        spectral=spectral,
        like=recipe,
        skip_missing=skip_missing,
        **chosen,  # type: ignore[arg-type]
    )
    if edges is None and options.links_by_values:
        edges = pandas.DataFrame(columns=NO_LINKS, dtype=object)
    else:
        edges = _checked("edges", edges)
    x = None
    if embeddings is not None:
        x = arrays.checked(embeddings, len(nodes), "embeddings")
    return _graph(nodes.reset_index(drop=True), edges, options, x)


def _checked(name: str, frame: Any) -> pandas.DataFrame:
    """A frame with rows and different names of columns, which are text."""
    if not isinstance(frame, pandas.DataFrame):
        raise InputError.plain(
            name,
            f"it is a {type(frame).__name__}",
            "Give a pandas.DataFrame, or a graph of networkx to from_networkx. Edges are"
            " DataFrame(edge_index.T, columns=['source', 'target']); of a sparse matrix,"
            " edge_index is numpy.stack(matrix.nonzero())",
        )
    if not len(frame):
        raise InputError.plain(name, "the frame has no rows")
    frame = frame.set_axis([str(column).strip() for column in frame], axis=1)
    if not frame.columns.is_unique:
        raise InputError.plain(
            name, "two columns have the same name", "Give each column its own name"
        )
    has_names = name == "nodes" or not frame.index.equals(pandas.RangeIndex(len(frame)))
    if has_names and "" not in frame:
        frame.insert(0, "", frame.index.to_flat_index())
    return frame


def _recipe(like: Data, chosen: Mapping[str, list[str]], spectral: int) -> dict[str, Any]:
    """The recipe of the features of an earlier graph; refuses another choice of features."""
    recipe = getattr(like, "recipe", None)
    if not recipe:
        raise InputError.plain(
            "like",
            "this graph does not say how its features were made",
            "Give a graph that from_frames returned",
        )
    made = {name: {*recipe[name]["columns"]} if name in recipe else {} for name in chosen}
    if spectral or any(names and {*names} != made[name] for name, names in chosen.items()):
        raise InputError.plain(
            "like",
            "it makes the features of the earlier graph, and others are chosen",
            "Leave out the choice of features, or `like`",
        )
    return recipe


def from_networkx(
    graph: networkx.Graph,
    *,
    label: str = LABEL,
    features: str | Sequence[str] = "x",
    weight: str = "",
) -> Data:
    """Convert a networkx graph to a graph for ``Estimator.fit``.

    Args:
        graph: the graph. Edge directions, parallel edges and other edge attributes are dropped.
            Node attributes ``train_mask``, ``val_mask`` and ``test_mask``, or ``split``, are the
            split.
        label: node attribute of the classes, whose values repeat; nodes without it are unlabelled.
            ``none`` = there is none. Only the default ``label`` may be missing on all nodes.
        features: one attribute that holds a vector, or several attributes that hold a number each.
        weight: edge attribute of weights, see ``from_frames``.

    Returns:
        A ``Data`` as returned by ``from_frames``.

    Raises:
        InputError: a node lacks a feature, a feature is not a vector of finite numbers, or no node
            has the named label.
    """
    from graphgym_srnc.data.classes import MASK
    from graphgym_srnc.data.look import NONE, Options

    if not hasattr(graph, "nodes") or not len(graph) or not features:
        raise InputError.plain(
            "graph",
            f"it is a {type(graph).__name__} without nodes, or no feature is named",
            "Give a networkx.Graph and features=['age']",
        )
    ids = [*graph]
    of_nodes = dict(graph.nodes(data=True))
    fields = [*of_nodes.values()]
    x, columns = _attributes(of_nodes, _list(features))
    attributes = {name for own in fields for name in own}
    if label not in (LABEL, NONE, *attributes):
        raise InputError.plain("label", f"no node has the attribute {label!r}")
    parts = [name for name in attributes if name == "split" or MASK.fullmatch(str(name))]
    read = {name: _column(fields, name) for name in parts}
    nodes = pandas.DataFrame({"id": range(len(ids)), LABEL: _column(fields, label)} | read)
    place = {id: number for number, id in enumerate(ids)}
    links = [*graph.edges(data=True)]
    edges = pandas.DataFrame([own for *_, own in links]).rename(columns=str)
    for side, end in enumerate(ENDS):
        edges[end] = [place[link[side]] for link in links]
    made = _graph(nodes.astype(object), edges, Options("id", LABEL, ends=ENDS, weight=weight), x)
    made.ids = ids
    made.feature_names = columns
    return made


def _attributes(fields: Mapping[Any, Any], names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Numbers ``[V, F]`` of some attributes of all nodes, and names of their columns."""
    from graphgym_srnc.data.features import values

    columns = []
    blocks = []
    for name in names:
        bare = [str(id) for id, own in fields.items() if name not in own]
        if bare:
            raise InputError.plain(
                "features",
                f"{counted(len(bare), 'node')} without the attribute {name!r}: {listed(bare, 3)}",
                "Name attributes of every node, as features=['age'], or set one:"
                " networkx.set_node_attributes(graph, dict(graph.degree), 'degree')",
            )
        rows = [values(own[name]) for own in fields.values()]
        width = len(rows[0])
        about = f"the attribute {name!r}, of vectors of one length,"
        array = np.array(rows, dtype=None if all(len(row) == width for row in rows) else object)
        blocks.append(arrays.checked(array, len(fields), "features", about))
        columns += [name] if width == 1 else [f"{name} {number}" for number in range(width)]
    return np.concatenate(blocks, 1), columns


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """An attribute of all nodes, None without it; a tensor of one value is the value."""
    values: list[Any] = [row.get(name) for row in rows]
    return [value.item() if hasattr(value, "item") else value for value in values]


def _list(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else [*map(str, names)]


def _graph(
    nodes: pandas.DataFrame, edges: pandas.DataFrame, options: Options, x: np.ndarray | None
) -> Data:
    """The graph of two frames, and of features ``[V, F]`` if they are given."""
    from graphgym_srnc.data import dates, frames
    from graphgym_srnc.data.look import Given

    given = Given(("nodes", "edges"), options._replace(in_python=True))
    found = frames.look(given, nodes, edges, x is not None)
    made = frames.graph(found, x)
    edge_index = torch.from_numpy(made.edges)
    graph = Data(x=narrowed(torch.from_numpy(made.features.toarray())), edge_index=edge_index)
    if made.weights is not None:
        graph.edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
        graph.edge_weight = torch.from_numpy(made.weights).repeat(2)
    graph.ids = found.nodes.table[found.nodes.id].tolist()
    graph.feature_names = [*made.words]
    graph.recipe = made.recipe
    if found.dates is not None:
        graph.dates = found.dates
        drawn = dates.drawn(found.dates, np.array([*map(bool, made.labels or found.dates)]))
        if drawn is not None:
            graph.drawn_mask = torch.from_numpy(drawn)
    if made.labels is not None and any(made.labels):
        numbers = as_numbers(made.labels)
        graph.y = made.labels if numbers is None else torch.tensor(numbers)
        parts = made.split or ["train" if label else "" for label in made.labels]
        for part in PARTS:
            if part == "train" or part in parts:
                graph[f"{part}_mask"] = torch.tensor([own == part for own in parts])
    for problem in [*given.problems, *given.unread]:
        warn(problem)
    graph.notes = [*given.notes, *given.problems, *given.chosen]
    return graph

"""Conversion of pandas frames and networkx graphs to PyG's ``Data``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np
import torch
from torch_geometric.data import Data

from graphgym_srnc.core.text import counted, listed, warn
from graphgym_srnc.data.edges import undirected
from graphgym_srnc.errors import InputError, renamed

if TYPE_CHECKING:
    import networkx
    import pandas

    from graphgym_srnc.data import frames


class FrameGraph(Data):
    """A ``Data`` made of tables, which says in words what it holds and from which columns."""

    def __repr__(self) -> str:
        if type(self) is not FrameGraph:  # a batch of several graphs
            return super().__repr__()
        names, notes = getattr(self, "feature_names", []), getattr(self, "notes", [])
        sizes = {"node": self.num_nodes, "edge": self.num_edges, "feature": self.num_features}
        if self.edge_index is not None:  # as training counts them
            pairs = undirected(self.edge_index.cpu().numpy(), self.num_nodes)[0]
            sizes["edge"] = len(pairs) // 2
        size = ", ".join(counted(number, noun) for noun, number in sizes.items())
        lines = [f"Graph of {size}" + f": {listed(names)}" * bool(names), *notes]
        tensors = [f"{name}={list(value.shape)}" for name, value in self if hasattr(value, "shape")]
        others = [name for name, value in self if not hasattr(value, "shape")]
        return "\n".join([*lines, f"Data({', '.join([*tensors, *others])})"])

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A plain ``Data`` in a file, so that it can be read without this package."""
        return Data, (), super().__reduce_ex__(protocol)[2]


LABEL = "label"  # default name of the attribute that holds the classes


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
        edges: one row per edge, with two columns of ids, or an adjacency matrix.
        id: column of the ids; by default the index, or the column that has the ids of the edges.
        label: column of the classes; empty or missing cells mean no label. By default a column with
            a usual name such as ``label``; ``none`` = there is none.
        split: column of ``train``, ``val``, ``test`` or nothing; by default ``split``, one whose
            cells are such words, or ``train_mask``, ``val_mask`` and ``test_mask``.
        ends: the two columns of ids in ``edges``; by default those whose cells are ids.
        text: columns of text, which become TF-IDF features.
        numbers: columns of numbers, or of lists of numbers of one length, which are standardised;
            an empty cell is the mean. By default all, if no other feature is chosen.
        categories: columns of which each value becomes a feature.
        spectral: number of features made of the edges alone.
        like: an earlier graph of this function, whose features are made again: the same words,
            categories, means and units. Other choices of features are then refused.
        embeddings: your own features ``[V, D]`` in the order of ``nodes``, as an array, a tensor or
            a matrix of SciPy.
        skip_missing: whether to leave out edges to unknown ids.

    Returns:
        A ``Data`` with ``x`` ``[V, F]`` in float32 (float64 if different values would become
        equal), ``edge_index`` ``[2, E]``, ``ids``, ``feature_names``, ``recipe`` (of the features)
        and ``notes``. If there are labels, also ``y`` ``[V]`` and ``train_mask`` ``[V]``, which
        marks all labelled nodes, or those of the split.

    Raises:
        InputError: a column is missing or not clear, a node id is not unique, an edge has an
            unknown node, or a number is not finite.
    """
    import pandas
    from pandas.api.types import is_integer_dtype

    from graphgym_srnc.data import embeddings as arrays
    from graphgym_srnc.data import frames

    _check_frame("nodes", nodes)
    _check_frame("edges", edges)
    for name, value in (("id", id), ("label", label), ("split", split)):
        if not isinstance(value, str):
            found, hint = f"it is a {type(value).__name__}", "Give the name of a column of nodes"
            raise InputError.plain(name, found, hint)
    nodes, edges = (
        frame.set_axis([str(name).strip() for name in frame], axis=1) for frame in (nodes, edges)
    )
    counts = nodes.index.name is None and is_integer_dtype(nodes.index)
    if "" not in edges and not edges.index.equals(pandas.RangeIndex(len(edges))):
        edges.insert(0, "", edges.index.to_flat_index())
    if "" not in nodes:
        nodes.insert(0, "", nodes.index.to_flat_index())
    chosen = {"text": text, "numbers": numbers, "categories": categories}
    named: dict[str, Any] = {name: _list(given) for name, given in chosen.items() if len(given)}
    recipe = getattr(like, "recipe", None)
    if recipe:
        made = {name: recipe.get(name, {}).get("columns", ()) for name in frames.COLUMNS}
        other = [name for name in named if {*named[name]} != {*made[name]}]
        if other := [*other, *["spectral"] * bool(spectral)]:
            found = "like makes the features of the earlier graph, of the same columns"
            raise InputError.plain(other[0], found, "Leave out this choice, or like")
        named, spectral = {}, 0
    elif like is not None:
        found = "this graph does not say how its features were made"
        raise InputError.plain("like", found, "Give a graph that from_frames returned")
    elif not named and not spectral and embeddings is None:
        named = {"numbers": ["*"]}
    options = frames.Options(
        id or (None if counts else ""),
        label,
        split,
        _list(ends),
        spectral=spectral,
        like=recipe,
        skip_missing=skip_missing,
    )._replace(**named)
    x = None
    if embeddings is not None:
        x = arrays.checked(embeddings, len(nodes), "embeddings")
    return _graph(nodes.reset_index(drop=True), edges, options, x)


def _check_frame(name: str, frame: Any) -> None:
    """Refuse what is no frame with rows and different names of columns."""
    import pandas

    if not isinstance(frame, pandas.DataFrame):
        found, hint = f"it is a {type(frame).__name__}", "Give a pandas.DataFrame"
        if hasattr(frame, "nodes"):
            hint = "Use from_networkx"
        elif name == "edges":
            hint += ", such as DataFrame(edge_index.T, columns=['source', 'target']); of a"
            hint += " sparse matrix, edge_index is numpy.stack(matrix.nonzero())"
        raise InputError.plain(name, found, hint)
    if not len(frame):
        raise InputError.plain(name, "the frame has no rows")
    if len({str(column).strip() for column in frame}) < frame.shape[1]:
        hint = "Give each column its own name"
        raise InputError.plain(name, "two columns have the same name", hint)


def from_networkx(
    graph: networkx.Graph, *, label: str = LABEL, features: str | Sequence[str] = "x"
) -> Data:
    """Convert a networkx graph to a graph for ``Estimator.fit``.

    Args:
        graph: the graph. Edge directions, parallel edges and edge attributes are dropped. Node
            attributes ``train_mask``, ``val_mask`` and ``test_mask``, or ``split``, are the split.
        label: node attribute of the classes, whose values repeat; nodes without it are unlabelled.
            ``none`` = there is none. Only the default ``label`` may be missing on all nodes.
        features: one attribute that holds a vector, or several attributes that hold a number each.

    Returns:
        A ``Data`` as returned by ``from_frames``.

    Raises:
        InputError: a node lacks a feature, a feature is not a vector of finite numbers, or no node
            has the named label.
    """
    import pandas

    from graphgym_srnc.data import features as features_of
    from graphgym_srnc.data import frames

    if not hasattr(graph, "nodes"):
        raise InputError.plain("graph", f"it is a {type(graph).__name__}", "Give a networkx.Graph")
    ids, all_fields = list(graph), [fields for _, fields in graph.nodes(data=True)]
    columns, blocks = list[str](), [np.empty((len(ids), 0))]
    hint = "Name attributes of every node, as features=['age']"
    hint += ", or set one: networkx.set_node_attributes(graph, dict(graph.degree), 'degree')"
    if not _list(features):
        raise InputError.plain("features", "no attribute is named", hint)
    for name in _list(features):
        try:
            block = np.array(
                [features_of.values(fields[name]) for fields in all_fields] or blocks[0]
            )
        except KeyError as error:
            bare = [str(id) for id, fields in zip(ids, all_fields) if name not in fields]
            message = f"{counted(len(bare), 'node')} without the attribute {name!r}: "
            raise InputError.plain("features", message + listed(bare, 3), hint) from error
        except ValueError:
            block = np.array("of different lengths")
        if block.dtype.kind not in "biuf" or not np.isfinite(block).all():
            message = f"the attribute {name!r} is not a finite number or vector of one length"
            raise InputError.plain("features", message, hint)
        blocks.append(block.astype(np.float64))
        width = blocks[-1].shape[1]
        columns += [name] if width == 1 else [f"{name} {number}" for number in range(width)]
    if label not in (LABEL, frames.NONE) and not any(label in fields for fields in all_fields):
        raise InputError.plain("label", f"no node has the attribute {label!r}")
    labels = _column(all_fields, label)
    place = {node: number for number, node in enumerate(ids)}
    pairs = np.array([(place[a], place[b]) for a, b, *_ in graph.edges], np.int64).reshape(-1, 2)
    attributes = dict.fromkeys(str(name) for fields in all_fields for name in fields)
    split = [name for name in attributes if name == "split" or frames.MASK.fullmatch(name)]
    parts = {name: _column(all_fields, name) for name in split}
    nodes = pandas.DataFrame({"id": range(len(ids)), LABEL: labels, **parts}, dtype=object)
    unread = {str(name): "" for *_, fields in graph.edges(data=True) for name in fields}
    edges = pandas.DataFrame({**unread, "source": pairs[:, 0], "target": pairs[:, 1]})
    options = frames.Options("id", LABEL, ends=("source", "target"))
    told = [f"edges: not read: {', '.join(unread)}; edge weights are not used"] * bool(unread)
    made = _graph(nodes, edges, options, np.concatenate(blocks, 1), told)
    made.ids, made.feature_names = ids, columns
    return made


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """An attribute of all nodes, None without it; a tensor of one value is the value."""
    values: list[Any] = [row.get(name) for row in rows]
    return [value.item() if hasattr(value, "item") else value for value in values]


def _list(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else [*map(str, names)]


def _graph(
    nodes: pandas.DataFrame,
    edges: pandas.DataFrame,
    options: frames.Options,
    x: np.ndarray | None = None,
    chosen: Sequence[str] | None = None,
) -> Data:
    """The graph of two frames, and of features ``[V, F]`` and notes if they are given."""
    from graphgym_srnc.data import frames
    from graphgym_srnc.data.cleaning import narrowed
    from graphgym_srnc.data.labels import PARTS, as_numbers

    found = frames.Look(("nodes", "edges"), options._replace(in_python=True))
    frames.look(found, nodes, edges, x is not None)
    with renamed({f"--{name}": name for name in options._fields}):
        made = frames.graph(found, x)
    dense, edge_index = map(torch.from_numpy, (made.features.toarray(), made.edges))
    graph = FrameGraph(x=narrowed(dense), edge_index=edge_index)
    graph.ids, graph.feature_names = found.table[found.name("id")].tolist(), list(made.words)
    graph.recipe = made.recipe
    if made.labels is not None and any(made.labels):
        numbers = as_numbers(made.labels)
        graph.y = list(made.labels) if numbers is None else torch.tensor(numbers)
        parts = made.split or ["train" if label else "" for label in made.labels]
        for part in PARTS:
            if part == "train" or part in parts:
                graph[f"{part}_mask"] = torch.tensor([own == part for own in parts])
    graph.notes = [*found.notes, *(found.chosen if chosen is None else chosen)]
    for number, note in enumerate(graph.notes):
        if number < len(found.notes) or "not read: " in note or " not used." in note:
            warn(note)
    return graph

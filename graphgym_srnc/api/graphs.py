"""Graphs of other libraries as PyG's ``Data``: pandas frames and networkx."""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np
import torch
from torch_geometric.data import Data

from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    import networkx
    import pandas

LABEL = "label"
"""Where classes are looked for if nobody says where."""


def from_frames(nodes: pandas.DataFrame, edges: pandas.DataFrame, *, label: str = LABEL,
                features: Sequence[str] = ()) -> Data:
    """A graph of two pandas frames, for :meth:`~graphgym_srnc.api.Estimator.fit`.

    Texts and categories are made into features by ``graphgym-srnc data make`` alone; a warning
    names such columns.

    Args:
        nodes: a row for each node, whose index is its id.
        edges: a row for each link, whose first two columns are ids.
        label: the column of classes; an empty or missing cell is no label. Without a column
            ``label`` no node has one.
        features: columns of numbers; by default all numeric ones but ``label``.

    Returns:
        The graph, whose ``train_mask`` ``[V]`` has all labelled nodes, with ``ids``.

    Raises:
        InputError: there is no such column, an id is there twice, a link leads to no node, or
            features are no finite numbers.
    """
    if label != LABEL and label not in nodes.columns:
        raise InputError("label", label, f"a column among {', '.join(map(str, nodes.columns))}")
    numeric = [name for name in nodes.columns if nodes[name].dtype.kind in "fiub"]
    columns = list(features) or [name for name in numeric if name != label]
    absent = [name for name in columns if name not in nodes.columns]
    if absent or not columns:
        raise InputError("features", absent or "none", "columns of numbers among "
                         f"{', '.join(map(str, nodes.columns))}")
    left_out = [str(name) for name in nodes.columns if name not in {*columns, label}]
    if left_out and not features:
        warnings.warn(f"from_frames: columns without numbers are not read: {', '.join(left_out)};"
                      " make numbers of them first", RuntimeWarning, stacklevel=2)
    if not nodes.index.is_unique:
        raise InputError("nodes", str(nodes.index[nodes.index.duplicated()][0]),
                         "an index that has each id once")
    labels = None
    if label in nodes.columns:
        found = nodes[label]
        labels = found.astype(object).where(found.notna(), "").tolist()
    pairs = [nodes.index.get_indexer(edges.iloc[:, end]) for end in (0, 1)]
    try:
        x = nodes[columns].to_numpy(dtype=np.float32, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise InputError("features", str(error)[:100], "columns of numbers") from error
    return _graph(x, np.stack(pairs), labels, nodes.index.tolist())


def from_networkx(graph: networkx.Graph, *, label: str = LABEL,
                  features: str | Sequence[str] = "x") -> Data:
    """A graph of networkx, for :meth:`~graphgym_srnc.api.Estimator.fit`.

    Args:
        graph: the graph; directions and several links between two nodes are not kept.
        label: the attribute of nodes that is the class, which nodes may lack; all of them only
            where none is named here.
        features: the attribute that holds a vector, or attributes that hold a number each.

    Returns:
        As :func:`from_frames`.

    Raises:
        InputError: a node lacks a feature, or it is no vector of finite numbers; or no node has
            the label that is named.
    """
    ids = list(graph)
    place = {node: number for number, node in enumerate(ids)}
    names = [features] if isinstance(features, str) else list(features)
    try:
        rows = [np.concatenate([np.ravel(fields[name]) for name in names])
                for _, fields in graph.nodes(data=True)]
        x = np.array(rows, dtype=np.float32)
    except KeyError as error:
        raise InputError("features", str(error), "attributes that all nodes have") from error
    except (TypeError, ValueError) as error:
        raise InputError("features", str(error)[:100],
                         "numbers, or vectors of one length") from error
    if label != LABEL and not any(label in fields for _, fields in graph.nodes(data=True)):
        raise InputError("label", label, "an attribute that nodes have")
    labels: list[Any] = [fields.get(label, "") for _, fields in graph.nodes(data=True)]
    pairs = np.array([[place[a], place[b]] for a, b, *_ in graph.edges], dtype=np.int64)
    return _graph(x, pairs.reshape(-1, 2).T, labels if any(map(_is_label, labels)) else None, ids)


def _graph(x: np.ndarray, pairs: np.ndarray, labels: list[Any] | None, ids: list[Any]) -> Data:
    if not np.isfinite(x).all():
        raise InputError("features", f"node {ids[int(np.argmin(np.isfinite(x).all(1)))]}",
                         "finite numbers for each node")
    if (pairs < 0).any():
        raise InputError("edges", f"link {int(np.argmax((pairs < 0).any(0)))}",
                         "links between ids that are in the index of the nodes")
    graph = Data(x=torch.tensor(x), edge_index=torch.from_numpy(pairs.astype(np.int64)))
    graph.ids = ids
    if labels is not None:
        numbers = all(isinstance(value, (int, float, np.number)) or value == "" for value in labels)
        if numbers:
            graph.y = torch.tensor([-1 if value == "" else int(value) for value in labels])
        else:
            graph.y = [str(value) if _is_label(value) else "" for value in labels]
        graph.train_mask = torch.tensor([_is_label(value) for value in labels])
    return graph


def _is_label(value: Any) -> bool:
    is_number = isinstance(value, (int, float, np.number))
    return value >= 0 if is_number else value not in ("", None)

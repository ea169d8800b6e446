"""Conversion of pandas frames and networkx graphs to PyG's ``Data``."""
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
"""Default name of the column or attribute that holds the classes."""


def from_frames(nodes: pandas.DataFrame, edges: pandas.DataFrame, *, label: str = LABEL,
                features: Sequence[str] = ()) -> Data:
    """Convert two pandas frames to a graph for :meth:`~graphgym_srnc.api.Estimator.fit`.

    Text and categorical columns are ignored with a warning. ``graphgym-srnc data make`` converts
    such columns to features.

    Args:
        nodes: one row per node; the index holds the node ids.
        edges: one row per edge; the first two columns hold node ids.
        label: column of the classes; empty or missing cells mean no label. If the frame has no
            column of the default name ``label``, no node is labelled.
        features: numeric columns to use; by default all numeric columns except ``label``.

    Returns:
        A ``Data`` with ``x`` ``[V, F]``, ``edge_index`` ``[2, E]`` and ``ids``. If there are
        labels, also ``y`` ``[V]`` and ``train_mask`` ``[V]``, which marks all labelled nodes.

    Raises:
        InputError: a column is missing, a node id is not unique, an edge has an unknown node, or a
            feature is not a finite number.
    """
    if label != LABEL and label not in nodes.columns:
        raise InputError("label", label, f"a column among {', '.join(map(str, nodes.columns))}")
    numeric = [name for name in nodes.columns if nodes[name].dtype.kind in "fiub"]
    columns = list(features) or [name for name in numeric if name != label]
    absent = [name for name in columns if name not in nodes.columns]
    if absent or not columns:
        message = (f"there is no column {', '.join(map(str, absent))}" if absent
                   else "there is no column of numbers")
        hint = f"The columns are {', '.join(map(str, nodes.columns))}"
        raise InputError.plain("features", message, hint)
    left_out = [str(name) for name in nodes.columns if name not in {*columns, label}]
    if left_out and not features:
        warnings.warn("from_frames: columns without numbers are not read: "
                      f"{', '.join(left_out)}. Convert them to numbers to use them.",
                      RuntimeWarning, stacklevel=2)
    if not nodes.index.is_unique:
        repeated = nodes.index[nodes.index.duplicated()][0]
        raise InputError.plain("nodes", f"the id {repeated} occurs several times in the index",
                               "Give each node its own id")
    labels = None
    if label in nodes.columns:
        found = nodes[label]
        labels = found.astype(object).where(found.notna(), "").tolist()
    pairs = [nodes.index.get_indexer(edges.iloc[:, end]) for end in (0, 1)]
    try:
        x = nodes[columns].to_numpy(dtype=np.float32, na_value=np.nan)
    except (TypeError, ValueError) as error:
        message = f"a column holds no numbers ({str(error)[:100]})"
        raise InputError.plain("features", message) from error
    return _graph(x, np.stack(pairs), labels, nodes.index.tolist())


def from_networkx(graph: networkx.Graph, *, label: str = LABEL,
                  features: str | Sequence[str] = "x") -> Data:
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
    ids = list(graph)
    place = {node: number for number, node in enumerate(ids)}
    names = [features] if isinstance(features, str) else list(features)
    try:
        rows = [np.concatenate([np.ravel(fields[name]) for name in names])
                for _, fields in graph.nodes(data=True)]
        x = np.array(rows, dtype=np.float32)
    except KeyError as error:
        message = f"some nodes have no attribute {error}"
        raise InputError.plain("features", message) from error
    except (TypeError, ValueError) as error:
        message = f"the attributes are not numbers or vectors of one length ({str(error)[:100]})"
        raise InputError.plain("features", message) from error
    if label != LABEL and not any(label in fields for _, fields in graph.nodes(data=True)):
        raise InputError.plain("label", f"no node has the attribute {label!r}")
    labels: list[Any] = [fields.get(label, "") for _, fields in graph.nodes(data=True)]
    pairs = np.array([[place[a], place[b]] for a, b, *_ in graph.edges], dtype=np.int64)
    return _graph(x, pairs.reshape(-1, 2).T, labels if any(map(_is_label, labels)) else None, ids)


def _graph(x: np.ndarray, pairs: np.ndarray, labels: list[Any] | None, ids: list[Any]) -> Data:
    if not np.isfinite(x).all():
        node = ids[int(np.argmin(np.isfinite(x).all(1)))]
        raise InputError.plain("features", f"node {node} has NaN or Inf as a feature",
                               "Give finite numbers")
    if (pairs < 0).any():
        link = int(np.argmax((pairs < 0).any(0)))
        raise InputError.plain("edges", f"link {link} names an id that is not in the index of the "
                               "nodes", "Add the node, or remove the link")
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

"""Tables of all nodes of a discovery, and the names of clusters in an earlier table.

The columns ``x``, ``y``, ``neighbors`` and ``text`` are those that embedding-atlas opens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from graphgym_srnc.core import progress
from graphgym_srnc.core.text import guarded
from graphgym_srnc.data import read
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.discover.page import layout

BLOCK, NEIGHBORS = 4096, 10
"""Number of nodes whose neighbours are searched at a time, and of neighbours in the table."""

SAME = 0.5
"""Two clusters are the same if they share more than this part of the nodes of either."""


class Earlier(NamedTuple):
    """An earlier table: the number and the name of a cluster, by the node's id or number."""

    by: str
    cluster: dict[str, str]
    name: dict[str, str]


def table(
    discovery: Discovery,
    posterior: Tensor,
    classes: Sequence[str],
    names: Names,
    cluster_names: Mapping[int, str],
    as_text: bool,
) -> dict[str, list[Any]]:
    """Columns by name, with one value per node.

    Args:
        discovery: the clusters.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        classes: names of known classes.
        names: of nodes.
        cluster_names: names given by the user, by number.
        as_text: whether neighbours are JSON text, for a CSV.
    """
    points, groups = layout(discovery), [*discovery.known, *discovery.new]
    called = [*classes, *(cluster_names.get(new.number, "") for new in discovery.new)]
    columns: dict[str, list[Any]] = {"node": list(range(len(points)))}
    if names.ids is not None:
        columns["id"] = list(names.ids)
    if names.texts is not None:
        columns["text"] = list(names.texts)
    of_node = discovery.cluster.tolist()
    return columns | {
        "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
        "neighbors": neighbors(discovery.state.numpy(), as_text),
        "class": [[*classes, "unknown"][k] for k in discovery.label.tolist()],
        "p_unknown": posterior[:, -1].tolist(),
        "cluster": [groups[k].number for k in of_node],
        "cluster_name": [called[k] for k in of_node],
        "newness": [groups[k].newness for k in of_node],
        "typical": discovery.typical.tolist(),
    }


def neighbors(state: np.ndarray, as_text: bool) -> list[Any]:
    """Nearest nodes of each node ``[V, D]`` with distances, as embedding-atlas reads them."""
    most = min(NEIGHBORS, len(state) - 1)
    search = NearestNeighbors(n_neighbors=most + 1, algorithm="brute").fit(state)
    rows: list[dict[str, list[Any]]] = []
    for step in progress.steps(-(-len(state) // BLOCK)):
        own = np.arange(step * BLOCK, min((step + 1) * BLOCK, len(state)))
        distance, found = search.kneighbors(state[own])
        others = found != own[:, None]
        others[others.all(1), -1] = False  # among many nodes at one place a node may miss itself
        ids, far = (x[others].reshape(-1, most).tolist() for x in (found, distance.round(5)))
        rows += [{"ids": near, "distances": away} for near, away in zip(ids, far)]
    return list(map(json.dumps, rows)) if as_text else rows


def earlier(option: str, path: Path) -> Earlier:
    """An earlier table of :func:`table`.

    Raises:
        InputError: the file cannot be read, or has other columns; names ``option``.
    """
    columns = read.table(path).to_dict("list")
    by = "id" if "id" in columns else "node"
    if not {by, "cluster", "cluster_name"} <= columns.keys():
        message = f"{path} has the columns {', '.join(columns)}"
        hint = "Give a table of `discover --nodes`, with node or id, cluster and cluster_name"
        raise InputError.plain(option, message, hint)
    cluster, name = (dict(zip(columns[by], columns[key])) for key in ("cluster", "cluster_name"))
    return Earlier(by, cluster, name)


def keys(before: Earlier, ids: Sequence[str] | None, count: int) -> list[str]:
    """The key of each node in an earlier table, which has guarded ids without ``--raw``."""
    if before.by == "node" or not ids:
        return list(map(str, range(count)))
    return [id if id in before.cluster else guarded(id) for id in ids]


def carried(discovery: Discovery, before: Earlier, ids: Sequence[str] | None) -> dict[int, str]:
    """Names of earlier clusters by number of the new cluster that is the same, see ``SAME``."""
    place = {key: node for node, key in enumerate(keys(before, ids, len(discovery.cluster)))}
    members: dict[str, set[int]] = {}
    for key, name in before.name.items():
        if name and before.cluster[key] != "0" and key in place:
            members.setdefault(name, set()).add(place[key])
    found = {}
    for new in discovery.new:
        own = set(new.nodes.tolist())
        for name, nodes in members.items():
            if len(own & nodes) > SAME * len(own | nodes):
                found[new.number] = name
    return found

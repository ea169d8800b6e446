"""Tables of all nodes of a discovery, and the names of clusters in an earlier table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from graphgym_srnc.core.text import guarded
from graphgym_srnc.data import read
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.discover.page import layout

if TYPE_CHECKING:
    import pandas as pd

SAME = 0.5
"""Two clusters are the same if they share more than this part of the nodes of either."""


def table(discovery: Discovery, names: Names) -> dict[str, list[Any]]:
    """Columns by name, with one value per node."""
    points, groups = layout(discovery), [discovery.every[k] for k in discovery.cluster.tolist()]
    given = {"id": names.ids, "text": names.texts}
    return {
        "node": list(range(len(points))),
        **{column: list(values) for column, values in given.items() if values is not None},
        "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
        "class": [[*discovery.classes, "unknown"][k] for k in discovery.label.tolist()],
        "p_unknown": discovery.posterior[:, -1].tolist(),
        "cluster": [cluster.number for cluster in groups],
        "cluster_name": [cluster.name for cluster in groups],
        "newness": [cluster.newness for cluster in groups],
        "typical": discovery.typical.tolist(),
    }


def earlier(path: Path) -> pd.DataFrame:
    """An earlier table of :func:`table`.

    Raises:
        InputError: the file cannot be read, or has other columns.
    """
    found = read.table(path)
    if not {"node", "cluster", "cluster_name"} <= {*found}:
        message = f"{path} has the columns {', '.join(found)}"
        raise InputError.plain("--before", message, "Give a table of `discover --nodes`")
    return found


def carried(
    discovery: Discovery, before: pd.DataFrame, ids: Sequence[str] | None
) -> dict[int, str]:
    """Names of earlier clusters by number of the new cluster that is the same, see ``SAME``.

    Nodes are those of equal ids, or of equal numbers if there are no ids.
    """
    by = "id" if ids and "id" in before else "node"
    own = ids if ids and by == "id" else map(str, range(len(discovery.cluster)))
    place = {guarded(key): node for node, key in enumerate(own)}
    members: dict[str, set[int]] = {}
    for key, cluster, name in zip(before[by], before["cluster"], before["cluster_name"]):
        if name and cluster != "0" and guarded(key) in place:
            members.setdefault(name, set()).add(place[guarded(key)])
    found = {}
    for new in discovery.new:
        nodes = set(new.nodes.tolist())
        for name, others in members.items():
            if len(nodes & others) > SAME * len(nodes | others):
                found[new.number] = name
    return found

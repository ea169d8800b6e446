"""Named clusters as classes of a graph folder, which the next run reads (shift ``file``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.text import guarded
from graphgym_srnc.data import folder, read
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import regular
from graphgym_srnc.own.discover.clusters import Discovery

UNKNOWN = "unknown"
"""Label of nodes of no known class; it has no training node, so it stays the unknown class."""

PARTS = ("train", "val", "test")

SAME = 0.5
"""Two clusters are the same if they share more than this part of the nodes of either."""


class Labels(NamedTuple):
    """The next run's labels and split by node: a class; ``train``, ``val`` or ``test``."""

    label: dict[int, str]
    part: dict[int, str]


def in_words(name: str) -> str:
    """A class name that is no number, since the next run reads numbers as original labels."""
    return f"class {name}" if name.lstrip("-").isdecimal() else name


def parse_names(given: Sequence[str], num_new: int) -> dict[int, str]:
    """Names by number of the new cluster, from words such as ``3=graph theory``.

    Two clusters may share a name, which makes them one class, and a cluster may have the name of a
    known class.

    Raises:
        InputError: a word has no number of a cluster or repeats one, or the name is empty, a whole
            number, ``unknown``, too long or not printable.
    """
    names: dict[int, str] = {}
    for text in given:
        number, _, name = (side.strip() for side in text.partition("="))
        if not number.isdecimal() or not 1 <= int(number) <= num_new or int(number) in names:
            allowed = f"CLUSTER=NAME with a cluster from 1 to {num_new}, each once"
            raise InputError("--name", text, allowed)
        is_number = name.lstrip("+-").isdecimal()
        if name in ("", UNKNOWN) or not name.isprintable() or len(name) > 100 or is_number:
            allowed = f"a name of at most 100 characters that is neither a number nor {UNKNOWN}"
            raise InputError("--name", text, allowed)
        names[int(number)] = name
    return names


def earlier(path: Path) -> pd.DataFrame:
    """An earlier table of all nodes, see :func:`table.of_nodes`.

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


def labels(
    discovery: Discovery, parts: Mapping[str, Tensor], y: Tensor, per_class: int = 20
) -> Labels:
    """The next run's labels: the existing ones, and certain nodes of named clusters.

    A certain node is one that the model predicts as unknown and that has no label. From the more
    typical half of them in each named cluster, ``per_class`` training nodes and half as many
    validation nodes are taken at equal distances. Validation and test nodes of no known class stay
    ``unknown`` outside named clusters. Inside them they are left out, because their class is not
    known.

    Args:
        discovery: the clusters, some of whose new ones have names.
        parts: nodes of ``train``, ``val`` and ``test``.
        y: classes, ``[V]``, :math:`N` for those of no known class; read at these nodes alone.
        per_class: training nodes from each named cluster.

    Raises:
        InputError: a named cluster has no certain node.
    """
    classes, result = [*discovery.classes, UNKNOWN], Labels({}, {})
    given = {node: part for part, nodes in parts.items() for node in nodes.tolist()}
    for node, part in given.items():
        k, cluster = int(y[node]), discovery.every[discovery.cluster[node]]
        if classes[k] is not UNKNOWN or not (cluster.number and cluster.name):
            result.label[node], result.part[node] = classes[k], part
    unknown = discovery.label == len(discovery.known)
    for cluster in discovery.new:
        nodes = cluster.nodes[unknown[cluster.nodes]].tolist()
        certain = [node for node in nodes if node not in given] if cluster.name else []
        if cluster.name and not certain:
            text = "has no node that the model predicts as unknown"
            message = f"cluster {cluster.number} ({cluster.name}) {text}"
            raise InputError.plain("--name", message, "Name another cluster")
        # Labels of the centre alone would teach a model that the rest is of another class.
        wanted = per_class + per_class // 2
        apart = max(1, len(certain) // (2 * wanted))
        for rank, node in enumerate(certain[::apart][:wanted]):
            held_out = rank % 3 == 2 and len(certain) >= wanted
            result.label[node] = cluster.name
            result.part[node] = "val" if held_out else "train"
    return result


def write(
    out: Path,
    graph: Data,
    labels: Labels,
    names: Names = Names(),
    overwrite: bool = False,
    source: Path | None = None,
) -> None:
    """Write a graph folder with these labels, completely or not at all.

    It also contains the recipe of the features that ``source``, the folder of the graph, contains.

    Raises:
        InputError: see :func:`graphgym_srnc.data.folder.check_place`; or it cannot be written.
    """
    nodes = range(graph.num_nodes)
    x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    label, part = ([column.get(node, "") for node in nodes] for column in labels)
    ids = names.ids or [f"node {node}" for node in nodes]
    recipe = None
    if source is not None:
        path, hint = source / folder.RECIPE, "Make the folder of the graph again"
        with reading(path, "a readable recipe of features", "--labels-out", hint):
            if path.exists():
                recipe = json.loads(regular(path).read_text(encoding="utf-8"))
    edges, features, words = graph.edge_index.numpy(), sp.csr_matrix(x.numpy()), names.words or ()
    made = folder.Graph(edges, features, words, ids, names.texts, label, part, recipe)
    folder.write(made, out, overwrite, option="--labels-out")

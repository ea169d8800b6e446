"""Named clusters as classes of a graph folder, which the next run reads (shift ``file``)."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any, Mapping, Sequence

import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.data import folder, tables
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io import atomic
from graphgym_srnc.own.discover.clusters import Discovery

# Label of nodes of no known class; it has no training node, so it stays the unknown class.
UNKNOWN = "unknown"
ON_NEXT = (
    "On the new classes of this graph, the column cluster_name of --nodes may be more accurate than"
    " the next run."
)


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


def labels(
    discovery: Discovery, parts: Mapping[str, Tensor], y: Tensor, per_class: int = 20
) -> tuple[list[str], list[str]]:
    """The next run's labels: the existing ones, and certain nodes of named clusters.

    From the more typical half of the nodes without a label in each named cluster, ``per_class``
    training nodes and half as many validation nodes are taken at equal distances. All of them train
    if the run has no validation nodes, since some of new classes alone would mislead the next one.
    Validation and test nodes of no known class stay ``unknown`` outside named clusters. Inside them
    they are left out, because their class is not known.

    Args:
        discovery: the clusters, some of whose new ones have names.
        parts: nodes of ``train``, ``val`` and ``test``.
        y: classes, ``[V]``, :math:`N` for those of no known class; read at these nodes alone.
        per_class: training nodes from each named cluster.

    Returns:
        The class, and ``train``, ``val`` or ``test``, of each node; "" = none.

    Raises:
        InputError: all nodes of a named cluster have labels.
    """
    label, split = [""] * len(y), [""] * len(y)
    given = {node: part for part, nodes in parts.items() for node in nodes.tolist()}
    validates = "val" in given.values()
    for node, part in given.items():
        k, cluster = int(y[node]), discovery.every[discovery.cluster[node]]
        is_known = k < len(discovery.known)
        if is_known or not (cluster.number and cluster.name):
            label[node], split[node] = discovery.classes[k] if is_known else UNKNOWN, part
    for cluster in filter(lambda new: new.name, discovery.new):
        certain = [node for node in cluster.nodes.tolist() if node not in given]
        if not certain:
            message = f"all nodes of cluster {cluster.number} ({cluster.name}) have labels"
            raise InputError.plain("--name", message, "Name another cluster")
        # Labels of the centre alone would teach a model that the rest is of another class. Nodes in
        # small components come last, since many of their predictions are wrong.
        wanted = per_class + per_class // 2
        apart = max(1, len(certain) // (2 * wanted))
        for rank, node in enumerate(certain[::apart][:wanted]):
            held_out = validates and rank % 3 == 2 and len(certain) >= wanted
            label[node], split[node] = cluster.name, "val" if held_out else "train"
    return label, split


def counts(
    discovery: Discovery, parts: Mapping[str, Tensor], made: tuple[Sequence[str], Sequence[str]]
) -> list[str]:
    """How many nodes of each named cluster got its name as their label, a line each."""
    given, lines = {*torch.cat([*parts.values()]).tolist()}, []
    for cluster in (new for new in discovery.new if new.name):
        own = [made[1][node] for node in cluster.nodes.tolist() if node not in given]
        labelled = f"{own.count('train')} training and {own.count('val')} validation nodes"
        lines.append(f"cluster {cluster.number}: {labelled} got the label {cluster.name}")
    every = [node for node, part in enumerate(made[1]) if part]
    kept = len(given.intersection(every))
    lines.append(f"labels: {kept:,} as before, {len(every) - kept:,} added for clusters")
    return lines


def write(
    out: Path,
    graph: Data,
    labels: tuple[Sequence[str], Sequence[str]],
    names: Names = Names(),
    overwrite: bool = False,
    source: Path | None = None,
    parts: Mapping[str, Tensor] = MappingProxyType({}),
    parent: Mapping[str, Any] | None = None,
) -> None:
    """Write a graph folder with these labels, completely or not at all.

    It also contains the recipe of the features that ``source``, the folder of the graph, contains.
    Labels of the ``parts`` are those of the run, which may be discovered ones of ``source``.
    ``parent`` is what the folder keeps of the run, see ``folder.parent``. If all labels train, the
    folder has no split, so that the next run holds out labels as this one did.

    Raises:
        InputError: see :func:`graphgym_srnc.data.folder.check_place`; or it cannot be written.
    """
    x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    ids = names.ids or [f"node {node}" for node in range(graph.num_nodes)]
    recipe = None
    given = {node for nodes in parts.values() for node in nodes.tolist()}
    new = {node for node, label in enumerate(labels[0]) if label and node not in given}
    if source is not None:
        new |= tables.discovered(source)
        path, hint = source / folder.RECIPE, "Make the folder of the graph again"
        with reading(path, "a readable recipe of features", "--labels-out", hint):
            if path.exists():
                recipe = json.loads(atomic.content(path))
    edges, features, words = graph.edge_index.numpy(), sp.csr_matrix(x.numpy()), names.words or ()
    label, split = labels
    if {*split} <= {"", "train"}:
        split = [""] * len(split)
    made = folder.Graph(edges, features, words, ids, names.texts, label, split, recipe, new)
    made = made._replace(parent=parent, urls=names.urls)
    folder.write(made, out, overwrite, option="--labels-out")

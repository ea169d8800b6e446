"""Clusters that were given a name, as classes of a graph folder that the next run reads (shift ``file``)."""
from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.data import folder
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.discover.page import Names

UNKNOWN = "unknown"
"""Label of nodes that are known to be of no known class; it has no training node, so it stays the unknown class."""

PLACE = "--labels-out"
"""The option that names the folder."""

PARTS = ("train", "val", "test")


class Labels(NamedTuple):
    """The next run's labels and split, by node.

    Args:
        label: names of classes.
        part: ``train``, ``val`` or ``test``.
    """

    label: dict[int, str]
    part: dict[int, str]


def parse_names(given: Sequence[str], num_new: int) -> dict[int, str]:
    """``3=graph theory`` and the like as names by number of the unaligned cluster. Two clusters may share a name, which makes them one
    class, and a cluster may have the name of a known class.

    Raises:
        InputError: no number of a cluster, one twice, or no name: a whole number, ``unknown`` or what cannot be printed.
    """
    names: dict[int, str] = {}
    for text in given:
        number, _, name = (part.strip() for part in text.partition("="))
        if not number.isdecimal() or not 1 <= int(number) <= num_new or int(number) in names:
            raise InputError("--name", text, f"CLUSTER=NAME with a cluster of 1 .. {num_new}, each once")
        if not name or name == UNKNOWN or not name.isprintable() or len(name) > 100 or name.lstrip("+-").isdecimal():
            raise InputError("--name", text, f"a name of at most 100 characters that is neither a number nor {UNKNOWN}")
        names[int(number)] = name
    return names


def labels(found: Discovery, names: Mapping[int, str], classes: Sequence[str], parts: Mapping[str, Tensor], y: Tensor,
           per_class: int = 20) -> Labels:
    """The next run's labels: those there were, and the sure nodes of named clusters.

    A sure node is one that the model calls unknown and that the user has not labelled; of each named cluster the ``per_class`` most typical
    ones are training nodes, and half as many after them validation nodes. Validation and test nodes that are known to be of no known class
    stay ``unknown`` outside named clusters. Inside them nobody knows whether they are of the new class, so they are left out.

    Args:
        found: the clusters.
        names: a name for some unaligned ones, by number.
        classes: names of known classes.
        parts: nodes of ``train``, ``val`` and ``test``.
        y: classes, ``[V]``, :math:`N` for those of no known class; read at these nodes alone.
        per_class: training nodes from each named cluster.

    Raises:
        InputError: a named cluster has no sure node.
    """
    num_known, out = found.num_known, Labels({}, {})
    named = {num_known - 1 + number for number in names}
    given = {node: part for part, nodes in parts.items() for node in nodes.tolist()}
    for node, part in given.items():
        known = int(y[node]) < num_known
        if known or int(found.cluster[node]) not in named:
            out.label[node], out.part[node] = classes[int(y[node])] if known else UNKNOWN, part
    for cluster in found.new:
        if cluster.number not in names:
            continue
        sure = [node for node in cluster.nodes.tolist() if node not in given and int(found.label[node]) == num_known]
        if not sure:
            raise InputError("--name", f"{cluster.number}={names[cluster.number]}", "a cluster with nodes that the model calls unknown")
        for place, node in enumerate(sure[:per_class + per_class // 2]):
            out.label[node], out.part[node] = names[cluster.number], "train" if place < per_class else "val"
    return out


def write(out: Path, graph: Data, made: Labels, names: Names = Names()) -> None:
    """Write a graph folder with these labels, whole or not at all.

    Raises:
        InputError: there is something in the place, or it cannot be written.
    """
    nodes, x = range(graph.num_nodes), graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    ids = names.ids or [f"node {i}" for i in nodes]
    folder.write(folder.Graph(graph.edge_index.numpy(), sp.csr_matrix(x.numpy()), names.words or (), ids, names.texts,
                              [made.label.get(i, "") for i in nodes], [made.part.get(i, "") for i in nodes]),
                 out, overwrite=False, option=PLACE)


def check_place(out: Path) -> None:
    """Refuse a place that holds anything, or whose folder is not there.

    Raises:
        InputError: as said.
    """
    folder.check_place(out, overwrite=False, option=PLACE)

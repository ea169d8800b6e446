"""Named clusters as classes of a graph folder, which the next run reads (shift ``file``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import scipy.sparse as sp
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.data import folder, folder_files
from graphgym_srnc.data.cleaning import strided
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io import atomic
from graphgym_srnc.own.discover.clusters import Discovery

# Label of nodes of no known class; it has no training node, so it stays the unknown class.
UNKNOWN = "unknown"


class Labels(NamedTuple):
    """Labels of nodes for the next run.

    Args:
        label: class of each node; "" = none.
        split: ``train``, ``val`` or ``test`` of each node; "" = none.
        added: nodes that the names of clusters label.
    """

    label: list[str]
    split: list[str]
    added: set[int]


def in_words(name: str) -> str:
    """A class name that is no number, since the next run reads numbers as original labels."""
    return f"class {name}" if name.lstrip("-").isdecimal() else name


def parse_names(given: Sequence[str]) -> dict[int, str]:
    """Names by number of the new cluster, from words such as ``3=graph theory``.

    Raises:
        InputError: a word has no number or repeats one, or see :func:`check_name`.
    """
    names: dict[int, str] = {}
    for text in given:
        number, _, name = (side.strip() for side in text.partition("="))
        if not number.isdecimal() or int(number) in names:
            raise InputError("names", text, "CLUSTER=NAME with the number of a new cluster, once")
        check_name(name, "names", text)
        names[int(number)] = name
    return names


def check_name(name: str, key: str, given: str) -> None:
    """Refuse the name of a new cluster that cannot be a class of the next run.

    Two clusters may share a name, which makes them one class, and a cluster may have the name of a
    known class.

    Raises:
        InputError: the name is empty, a whole number, ``unknown``, too long or not printable.
    """
    is_number = name.lstrip("+-").isdecimal()
    if name in ("", UNKNOWN) or not name.isprintable() or len(name) > 100 or is_number:
        allowed = f"a name of at most 100 characters that is neither a number nor {UNKNOWN}"
        raise InputError(key, given, allowed)


def labels(
    discovery: Discovery, parts: Mapping[str, Tensor], y: Tensor, per_class: int = 20
) -> Labels:
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

    Raises:
        InputError: all nodes of a named cluster have labels.
    """
    made = Labels([""] * len(y), [""] * len(y), set())
    given = {node: part for part, nodes in parts.items() for node in nodes.tolist()}
    named = [new for new in discovery.new if new.name]
    unsure = {node for new in named for node in new.nodes.tolist()}
    classes = dict(enumerate(discovery.classes))
    for node, part in given.items():
        name = classes.get(int(y[node]), UNKNOWN)
        if name != UNKNOWN or node not in unsure:
            made.label[node] = name
            made.split[node] = part
    wanted = per_class + per_class // 2
    for cluster in named:
        certain = [node for node in cluster.nodes.tolist() if node not in given]
        if not certain:
            message = f"all nodes of cluster {cluster.number} ({cluster.name}) have labels"
            raise InputError.plain("names", message, "Name another cluster")
        validates = "val" in given.values() and len(certain) >= wanted
        # Labels of the centre alone would teach a model that the rest is of another class. Nodes in
        # small components come last, since many of their predictions are wrong.
        apart = max(1, len(certain) // (2 * wanted))
        for rank, node in enumerate(certain[::apart][:wanted]):
            made.label[node] = cluster.name
            made.split[node] = "val" if validates and rank % 3 == 2 else "train"
            made.added.add(node)
    return made


def counts(discovery: Discovery, made: Labels) -> list[str]:
    """How many nodes of each named cluster got its name as their label, a line each."""
    lines = []
    for cluster in (new for new in discovery.new if new.name):
        split = [made.split[node] for node in made.added.intersection(cluster.nodes.tolist())]
        labelled = f"{split.count('train')} training and {split.count('val')} validation nodes"
        lines.append(f"cluster {cluster.number}: {labelled} got the label {cluster.name}")
    kept = sum(map(bool, made.split)) - len(made.added)
    return [*lines, f"labels: {kept:,} as before, {len(made.added):,} added for clusters"]


def write(
    out: Path,
    graph: Data,
    made: Labels,
    names: Names = Names(),
    overwrite: bool = False,
    source: Path | None = None,
    parent: Mapping[str, Any] | None = None,
) -> None:
    """Write a graph folder with these labels, completely or not at all.

    It also contains the recipe of the features that ``source``, the folder of the graph, contains.
    ``parent`` is what the folder keeps of the run, see ``folder.parent``. If all labels train, the
    folder has no split, so that the next run holds out labels as this one did.

    Raises:
        InputError: see :func:`graphgym_srnc.data.folder.check_place`; or it cannot be written.
    """
    x = strided(graph.x)
    weight = graph.edge_weight
    ids = names.ids or [f"node {node}" for node in range(graph.num_nodes)]
    found = folder.Graph(
        edges=graph.edge_index.numpy(),
        features=sp.csr_matrix(x.numpy()),
        words=names.words or (),
        ids=ids,
        texts=names.texts,
        labels=made.label,
        split=made.split if {"val", "test"} & {*made.split} else [""] * len(ids),
        recipe=_recipe(source) if source else None,
        discovered=made.added | (folder_files.discovered(source) if source else set()),
        weights=None if weight is None else weight.numpy(),
        parent=parent,
        urls=names.urls,
    )
    folder.write(found, out, overwrite, key="labels_out")


def _recipe(source: Path) -> dict[str, Any] | None:
    """The recipe of the features of a graph folder; None if it has none."""
    path = source / folder.RECIPE
    hint = "Make the folder of the graph again"
    with reading(path, "a readable recipe of features", "labels_out", hint):
        return json.loads(atomic.content(path)) if path.exists() else None

"""Heterogeneous graphs: one node type of theirs as a graph, linked by metapaths."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.data import cleaning, files, untrusted
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import features
from graphgym_srnc.own.tables.project import Limits, project, walk

MOST = 10 ** 9
"""Nodes of a type."""

MASKS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}


@dataclass
class Hetero:
    """Nodes of several types. All but ``sizes`` and ``links`` may lack a type.

    Args:
        sizes: number of nodes of each type.
        links: 0 or 1 for each two nodes of two types, ``[V_a, V_b]``, for both directions.
        ids, names, texts, labels, split: one a node; names are to be shown, texts make features; labels and parts of the split are empty
            where there is none.
        features: ``[V_a, F_a]``.
    """

    sizes: dict[str, int]
    links: dict[tuple[str, str], sp.csr_matrix]
    ids: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)
    split: dict[str, list[str]] = field(default_factory=dict)
    features: dict[str, sp.csr_matrix] = field(default_factory=dict)


def connect(links: dict[tuple[str, str], sp.csr_matrix], pair: tuple[str, str], found: sp.spmatrix) -> None:
    """Add links ``[V_a, V_b]`` of two types, in both directions; a link counts once however many relations say it."""
    for types, matrix in ((pair, found), (pair[::-1], found.T)):
        both = matrix if types not in links else links[types] + matrix
        links[types] = sp.csr_matrix((both != 0).astype(np.int64))


def read_pt(path: Path) -> Hetero:
    """A PyG ``HeteroData`` that ``torch.save`` wrote; no pickled code is run. Relations between the same two types are one.

    Raises:
        InputError: it cannot be read, holds something else, or a link leads to no node.
    """
    import torch
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, NodeStorage
    try:
        with untrusted.tensors_only(HeteroData, BaseStorage, NodeStorage, EdgeStorage):
            data = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # torch has no error of its own for a file that is none of its own
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        raise InputError("data make", f"{path.name} with {foreign[1]}" if foreign else path.name,
                         "a HeteroData saved by torch.save, with nothing but tensors in it") from error
    if not isinstance(data, HeteroData):
        raise InputError("data make", f"{path.name} with a {type(data).__name__}", "a HeteroData; file.path reads a Data as it is")
    hetero = Hetero({}, {})
    for kind in data.node_types:
        store = files.tensors(data[kind], ("x", "y", *MASKS.values()), kind)
        hetero.sizes[kind] = size = _size(data[kind], store, kind)
        hetero.ids[kind] = [str(node) for node in range(size)]
        if "x" in store:
            x, _ = cleaning.features_and_edges(Data(x=store["x"], edge_index=torch.empty(2, 0, dtype=torch.long)), kind)
            hetero.features[kind] = sp.csr_matrix(x.numpy())
        if "y" in store:
            y = store["y"].reshape(-1) if store["y"].numel() == size else store["y"]
            if y.shape != (size,) or not torch.equal(y, y.long().to(y.dtype)):
                raise InputError(f"{kind}: y", tuple(y.shape), f"one class a node, [{size}]")
            hetero.labels[kind] = ["" if label < 0 else str(label) for label in y.long().tolist()]
            parts = [""] * size
            for part, mask in ((part, mask) for part, mask in MASKS.items() if mask in store):
                if store[mask].shape != (size,):
                    raise InputError(f"{kind}: {mask}", tuple(store[mask].shape), f"one true or false a node, [{size}]")
                for node in store[mask].bool().nonzero().view(-1).tolist():
                    parts[node] = part if hetero.labels[kind][node] else ""
            hetero.split[kind] = parts
    for source, relation, target in data.edge_types:
        pairs = files.tensors(data[source, relation, target], ("edge_index",), f"{source}, {relation}, {target}").get("edge_index")
        shape = (hetero.sizes[source], hetero.sizes[target])
        if pairs is None or pairs.dim() != 2 or len(pairs) != 2 or pairs.is_floating_point():
            raise InputError(f"{source}, {relation}, {target}", None if pairs is None else (tuple(pairs.shape), pairs.dtype),
                             "an edge_index [2, E] of whole numbers")
        pairs = pairs.long()
        if pairs.numel() and (pairs.min() < 0 or pairs[0].max() >= shape[0] or pairs[1].max() >= shape[1]):
            raise InputError(f"{source}, {relation}, {target}", pairs.amax(1).tolist(), f"node numbers below {list(shape)}")
        connect(hetero.links, (source, target), sp.csr_matrix((np.ones(pairs.size(1)), pairs.numpy()), shape=shape))
    return hetero


def _size(store: Any, tensors: Mapping[str, Any], kind: str) -> int:
    # PyG guesses from x, but not from y.
    tensor = next((tensors[name] for name in ("x", "y") if name in tensors), None)
    size = store.num_nodes or 0 if tensor is None else tensor.size(0) if tensor.dim() else 1
    if not isinstance(size, int) or not 0 <= size < MOST:
        raise InputError(f"{kind}: num_nodes", size, f"a number of nodes below {MOST:,}")
    return size


def graph(hetero: Hetero, node: str, metapaths: Sequence[str], limits: Limits = Limits(), bag: str = "", labels_from: str = "",
          options: features.TextOptions = features.TextOptions()) -> tuple[Graph, list[str]]:
    """The nodes of one type, linked where a metapath leads from one to another, and what was made, in words.

    Args:
        hetero: the graph.
        node: the type whose nodes are kept.
        metapaths: types from ``node`` to ``node``, e.g. ``paper-author-paper``; two nodes that any of them links are neighbours.
        limits: see :class:`graphgym_srnc.own.tables.project.Limits`.
        bag: types from ``node`` to another, e.g. ``author-paper``: a node's features are the words of the texts there, or the mean of
            the features there, or how often it meets each node there; empty = the node's own features or text.
        labels_from: types from ``node`` to another, e.g. ``paper-conf``: a node has the label that most nodes there have, if one leads.
        options: how texts become features.

    Raises:
        InputError: no such type or link, too many links, or there are no features.
    """
    if node not in hetero.sizes:
        raise InputError("--node", node, ", ".join(hetero.sizes))
    if not metapaths:
        raise InputError("--metapath", None, f"types from {node} to {node}, of the links {_told(hetero)}")
    found, told = [], []
    for path in metapaths:
        steps = walk(hetero.links, path, node, limits.max_degree)
        if path.split("-")[-1] != node:
            raise InputError("--metapath", path, f"types from {node} to {node}")
        pairs, text = project(steps, path, limits)
        found.append(pairs)
        told.append(text)
    edges = np.unique(np.concatenate(found, 1), axis=1)
    if not edges.size:
        raise InputError("--metapath", ", ".join(metapaths), "a path that links two nodes")
    x, words, recipe = _features(hetero, node, bag, options)
    labels = _labels(hetero, node, labels_from) if labels_from else hetero.labels.get(node)
    return Graph(edges, x, words, hetero.ids[node], hetero.names.get(node), labels, None if labels_from else hetero.split.get(node),
                 recipe), told


def _features(hetero: Hetero, node: str, bag: str, options: features.TextOptions) -> tuple[sp.csr_matrix, list[str], dict | None]:
    end, reach = bag.split("-")[-1] if bag else node, sp.identity(hetero.sizes[node], dtype=np.int64, format="csr")
    for step in walk(hetero.links, bag, node, 0) if bag else ():
        reach = reach @ step
    if end in hetero.features:
        share = sp.diags(1 / np.maximum(np.asarray(reach.sum(1)).ravel(), 1))
        x = sp.csr_matrix(share @ reach @ hetero.features[end])
        return x, [f"{end} {column}" for column in range(x.shape[1])], None
    if end in hetero.texts:
        own = [hetero.texts[end][place] for place in reach.indices]
        texts = ["\n".join(own[low:high]) for low, high in zip(reach.indptr[:-1], reach.indptr[1:])]
        recipe = features.learn({"text": texts}, ["text"], [], [], options)
        (x,), words = features.apply(recipe, {"text": texts})
        return x, words, None
    if not bag:
        raise InputError("--bag", None, f"types from {node} to where its features come from, since it has none, of {_told(hetero)}")
    return reach.astype(float), hetero.names.get(end) or hetero.ids[end], None


def _labels(hetero: Hetero, node: str, path: str) -> list[str]:
    end = path.split("-")[-1]
    if end not in hetero.labels:
        raise InputError("--labels-from", path, f"a path to a type with labels: {', '.join(hetero.labels) or 'there is none'}")
    names = sorted(set(hetero.labels[end]) - {""})
    number = {name: column for column, name in enumerate(names)}
    hits = np.array([(place, number[name]) for place, name in enumerate(hetero.labels[end]) if name]).reshape(-1, 2).T
    votes = sp.csr_matrix((np.ones(hits.shape[1], dtype=np.int64), hits), shape=(hetero.sizes[end], len(names)))
    for step in reversed(walk(hetero.links, path, node, 0)):
        votes = step @ votes
    votes = votes.toarray()
    most = votes.max(1, initial=0)
    leads = (most > 0) & ((votes == most[:, None]).sum(1) == 1)
    return [names[choice] if sure else "" for choice, sure in zip(votes.argmax(1), leads)]


def _told(hetero: Hetero) -> str:
    return ", ".join(f"{a}-{b}" for a, b in sorted(hetero.links) if a <= b)

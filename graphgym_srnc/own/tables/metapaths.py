"""From a heterogeneous graph to one of a single node type, whose links are metapaths."""
from __future__ import annotations

from typing import Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import features
from graphgym_srnc.own.tables.hetero import Hetero
from graphgym_srnc.own.tables.projection import Limits, linked_types, project, steps_of


def make_graph(hetero: Hetero, node: str, metapaths: Sequence[str], limits: Limits = Limits(),
               bag: str = "", labels_from: str = "",
               options: features.TextOptions = features.TextOptions()) -> tuple[Graph, list[str]]:
    """The nodes of one type, linked where a metapath leads from one to another.

    Args:
        hetero: the graph.
        node: the type whose nodes are kept.
        metapaths: types from ``node`` to ``node``, e.g. ``paper-author-paper``; two nodes that any
            of them links are neighbours.
        limits: which links are kept.
        bag: types from ``node`` to another, e.g. ``author-paper``: a node's features are the mean
            of the features there, or the words of the texts there, or how often it meets each node
            there; empty = the node's own features or texts.
        labels_from: types from ``node`` to another, e.g. ``paper-conf``: a node has the label that
            most nodes there have, if one leads.
        options: how texts become features.

    Returns:
        The graph, and a line about each metapath.

    Raises:
        InputError: no such type or link, too many links, or there are no features.
    """
    if node not in hetero.nodes:
        raise InputError("--node", node, ", ".join(hetero.nodes))
    if not metapaths:
        hint = f"Give types from {node} to {node}; the links are {linked_types(hetero.links)}"
        raise InputError.plain("--metapath", "no path is given", hint)
    found, summary = [], []
    for path in metapaths:
        steps = steps_of(hetero.links, path, node, limits.max_degree)
        if path.split("-")[-1] != node:
            raise InputError("--metapath", path, f"a path from {node} to {node}")
        pairs, line = project(steps, path, limits)
        found.append(pairs)
        summary.append(line)
    edges = np.unique(np.concatenate(found, 1), axis=1)
    if not edges.size:
        raise InputError.plain("--metapath", f"{', '.join(metapaths)} links no two nodes",
                               "Give another path")

    x, words = _features(hetero, node, bag, options)
    kept = hetero.nodes[node]
    labels, split = kept.labels, kept.split
    if labels_from:
        labels, split = _labels(hetero, node, labels_from), None
    return Graph(edges, x, words, kept.ids, kept.names, labels, split), summary


def _features(hetero: Hetero, node: str, path: str, options: features.TextOptions,
              ) -> tuple[sp.csr_matrix, list[str]]:
    """Features ``[V, F]`` from the end of a path, and the names of their columns."""
    reach = sp.identity(len(hetero.nodes[node].ids), dtype=np.int64, format="csr")
    for step in steps_of(hetero.links, path, node) if path else ():
        reach = reach @ step
    kind = path.split("-")[-1] if path else node
    end = hetero.nodes[kind]
    if end.features is not None:
        share = sp.diags(1 / np.maximum(np.asarray(reach.sum(1)).ravel(), 1))
        x = sp.csr_matrix(share @ reach @ end.features)
        return x, [f"{kind} {column}" for column in range(x.shape[1])]
    if end.texts is not None:
        texts = [end.texts[number] for number in reach.indices]
        bounds = zip(reach.indptr[:-1], reach.indptr[1:])
        table = {"text": ["\n".join(texts[begin:stop]) for begin, stop in bounds]}
        recipe = features.learn(table, ["text"], [], [], options)
        (x,), words = features.apply(recipe, table)
        return x, words
    if not path:
        raise InputError.plain(
            "--bag", f"the type {node} has no features", "Give a path to a type whose nodes become "
            f"its features; the links are {linked_types(hetero.links)}")
    return reach.astype(float), end.names or end.ids


def _labels(hetero: Hetero, node: str, path: str) -> list[str]:
    """The label of most nodes at the end of a path for each node; empty where two lead or none."""
    end = hetero.nodes.get(path.split("-")[-1])
    if end is None or not any(end.labels or ()):
        labelled = [kind for kind, nodes in hetero.nodes.items() if any(nodes.labels or ())]
        raise InputError("--labels-from", path,
                         f"a path to a type with labels, here {', '.join(labelled) or 'none'}")
    names = sorted(set(end.labels) - {""})
    votes = features.one_hot(end.labels, names)
    for step in reversed(steps_of(hetero.links, path, node)):
        votes = step @ votes
    votes = votes.toarray()
    most = votes.max(1, initial=0)
    leads = (most > 0) & ((votes == most[:, None]).sum(1) == 1)
    return [names[choice] if sure else "" for choice, sure in zip(votes.argmax(1), leads)]

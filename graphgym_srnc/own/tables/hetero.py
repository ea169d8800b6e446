"""Heterogeneous graphs: from a PyG ``HeteroData`` to a graph of one node type."""
from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from graphgym_srnc.data import cleaning, features, files, limits, untrusted
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.text import listed, plain

MAX_ENTRIES = 50_000_000
"""Maximum number of entries of a product of matrices; so many links take 4 GiB."""

MASKS = {"train_mask": "train", "val_mask": "val", "test_mask": "test"}
TEXTS = ("text", "name", "ids")
"""Fields that are lists of one text per node."""

FIELDS = ("x", "y", *MASKS, *TEXTS)


class Limits(NamedTuple):
    """Which links of a metapath are kept.

    Args:
        top: keep this many strongest neighbours of each node; 0 = all.
        min_count: drop links that fewer paths support.
        max_degree: skip intermediate nodes with more links to one type; 0 = no limit.
        max_edges: more links are an error.
    """

    top: int = 0
    min_count: int = 1
    max_degree: int = 0
    max_edges: int = 5_000_000


def read_pt(path: Path) -> HeteroData:
    """Read a PyG ``HeteroData`` that ``torch.save`` wrote; no pickled code runs.

    Raises:
        InputError: it cannot be read, contains something else, or a link leads to no node.
    """
    data = untrusted.load(path, "data make")
    if not isinstance(data, HeteroData):
        raise InputError.plain("data make", f"{path.name} contains a {type(data).__name__}, not a "
                               "HeteroData", "A Data needs no conversion: set file.path to it")
    with untrusted.reading(path, "a valid HeteroData", "data make"):
        values = [value for store in data.stores for value in store.values()]
        untrusted.check_dense(filter(torch.is_tensor, values), path)
        for kind, store in data.node_items():
            sizes = {field: len(store[field]) for field in FIELDS if field in store}
            size = store.setdefault("num_nodes", next(iter(sizes.values()), None))
            if not isinstance(size, int) or size < 0 or {*sizes.values()} - {size}:
                raise ValueError(f"num_nodes of {kind} is {size}, and the lengths are {sizes}")
            for field in TEXTS:
                if not all(isinstance(text, str) for text in store.get(field, ())):
                    raise ValueError(f"{field} of {kind} is not a list of texts")
            limits.check(path, limits.CELL * size, path.stat().st_size)
        for types, store in data.edge_items():
            pairs = files.tensors(store, ("edge_index",), str(types)).get("edge_index")
            if pairs is None or pairs.is_floating_point() or pairs.dtype == torch.bool:
                raise ValueError(f"{types} has no edge_index of integers")
            store.edge_index = pairs.long()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a type may have no links
            data.validate()
        ", ".join([*data.node_types, *map(", ".join, data.edge_types)])  # names are texts
    return data


def make_graph(data: HeteroData, node: str, metapaths: Sequence[str], limits: Limits = Limits(),
               bag: str = "", labels_from: str = "",
               options: features.TextOptions = features.TextOptions()) -> tuple[Graph, list[str]]:
    """Make a graph of the nodes of one type, linked where a metapath leads from one to another.

    Node types may have ``x`` ``[V, F]``, ``y`` ``[V]`` with -1 for no label, ``train_mask``,
    ``val_mask`` and ``test_mask`` ``[V]``, and lists ``[V]`` of texts: ``ids``, ``name``, ``text``.

    Args:
        data: the heterogeneous graph, see :func:`read_pt`.
        node: the type whose nodes are kept.
        metapaths: types from ``node`` to ``node``, for example ``paper-author-paper``.
        limits: which links are kept.
        bag: types from ``node`` to another, for example ``author-paper``: a node's features are the
            mean of the features there, or the words of the texts there, or the number of paths to
            each node there. Empty = the node's own features or texts.
        labels_from: types from ``node`` to another, for example ``paper-conf``: a node has the
            label that most nodes there have, and none if two labels are equally frequent.
        options: how texts become features.

    Returns:
        The graph, and sentences about its links, features and labels, and what was not read.

    Raises:
        InputError: a type or link does not exist, a field is invalid, there are too many links, or
            no features.
    """
    if node not in data.node_types:
        raise InputError("--node", node, ", ".join(data.node_types))
    if not metapaths:
        hint = f"Give types from {node} to {node}; the links are {_linked(data)}"
        raise InputError.plain("--metapath", "no path is given", hint)
    found, notes = map(list, zip(*(_project(data, path, node, limits) for path in metapaths)))
    edges = np.stack(np.divmod(_distinct(np.concatenate(found)), data[node].num_nodes))
    if not edges.size:
        raise InputError.plain("--metapath", f"{', '.join(metapaths)} links no two nodes",
                               "Give another path")
    x, words, source = _features(data, node, bag, options)
    if not x.nnz:
        raise InputError.plain("--bag", f"all features ({source}) are zero", "Give another path")
    labels = _labels_from(data, node, labels_from) if labels_from else _labels(data, node)
    split = _split(data, node, labels) if labels and not labels_from else None
    notes += [f"features: {source}", f"labels: {labels_from or f'{node}.y'}" if labels else ""]
    read = {*FIELDS, "num_nodes", "edge_index"} - {*(() if split else MASKS)}
    unread = [plain(f"{types}.{field}") for types, store in data.to_dict().items()
              for field in store if field not in read]
    notes += [f"not read: {listed(unread)}" if unread else ""]
    ids = data[node].get("ids", [*map(str, range(data[node].num_nodes))])
    if len({*ids} - {""}) < len(ids):
        raise InputError.plain(f"{node}: ids", "an id is empty or occurs twice",
                               "Give each node its own id")
    texts = data[node].get("name", data[node].get("text"))
    return Graph(edges, x, words, ids, texts, labels, split), [*filter(None, notes)]


def _project(data: HeteroData, path: str, node: str, limits: Limits) -> tuple[np.ndarray, str]:
    r"""Numbers :math:`iV + j` of the pairs that a path links, and their number in words.

    Here :math:`i < j`. With :math:`M = A_1 \cdots A_L` the number of paths, :math:`S = M` if the
    path reads the same from both ends, else :math:`M + M^\top`. Pairs are kept if :math:`S_{ij}` is
    at least ``min_count``, and with ``top`` the strongest of either node; ties go to the smaller
    number. The strength is PathSim :math:`2 S_{ij} / (S_{ii} + S_{jj})` (Sun et al., VLDB 2011) if
    the path has a middle type and reads the same from both ends, else
    :math:`S_{ij} / \sqrt{d_i d_j}` with row sums :math:`d`.
    """
    types, steps = path.split("-"), _steps(data, "--metapath", path, node, limits.max_degree)
    if types[-1] != node:
        raise InputError("--metapath", path, f"a path from {node} to {node}")
    # AddMetaPaths of PyG multiplies from left to right, so author-paper-conf-paper-author passes
    # all pairs of authors and papers. It also counts in float32.
    half, symmetric = (len(steps) + 1) // 2, types == types[::-1]
    halves = [_product(part, path) for part in (steps[:half], steps[half:]) if part]
    paths = _product(halves, path)
    both = (paths if symmetric else paths + paths.T).tocoo()
    loops, degree = both.diagonal(), np.asarray(both.sum(1)).ravel()
    kept = (both.row != both.col) & (both.data >= limits.min_count)
    row, column, value = both.row[kept], both.col[kept], both.data[kept]
    if limits.top:
        strength = (2 * value / (loops[row] + loops[column]) if symmetric and len(types) % 2
                    else value / np.sqrt(degree[row] * degree[column]))
        order = np.lexsort((column, -strength, row))
        row, column = row[order], column[order]
        strongest = np.arange(len(row)) - np.searchsorted(row, row) < limits.top
        row, column = row[strongest], column[strongest]
    low, high = np.minimum(row, column).astype(np.int64), np.maximum(row, column)
    keys = _distinct(low * paths.shape[0] + high)
    words = f"{path}: {int(paths.sum()):,} paths, {len(keys):,} links"
    if len(keys) > limits.max_edges:
        hint = ("Raise it, or make fewer links: --top 20 keeps the strongest of each node, "
                "--min-count 2 drops the weakest, --max-degree 100 skips nodes that link nearly "
                "everything")
        raise InputError.plain("--max-edges", f"{words}, more than {limits.max_edges:,}", hint)
    return keys, words


def _steps(data: HeteroData, option: str, path: str, node: str,
           max_degree: int = 0) -> list[sp.csr_matrix]:
    """The links of each step of a path, ``[V_a, V_b]`` of 0 and 1.

    A link counts in both directions, and once if several relations contain it.
    """
    types, steps = path.split("-"), []
    if types[0] != node or len(types) < 2:
        raise InputError(option, path, f"types separated by -, beginning with {node}")
    for pair in zip(types, types[1:]):
        found = [store.edge_index for ends, store in data.edge_items() if ends[::2] == pair]
        found += [store.edge_index.flip(0) for ends, store in data.edge_items()
                  if ends[::-2] == pair]
        if not found:
            raise InputError(option, path, f"a path of these links: {_linked(data)}")
        ends = torch.cat(found, 1).numpy()
        steps.append(sp.csr_matrix((np.ones(ends.shape[1]), ends),
                                   [data[kind].num_nodes for kind in pair]))
        steps[-1].data[:] = 1
    for after in range(1, len(steps)) if max_degree else ():
        to, onward = steps[after - 1:after + 1]
        kept = sp.diags((np.maximum(to.getnnz(0), onward.getnnz(1)) <= max_degree).astype(float))
        steps[after - 1:after + 1] = sp.csr_matrix(to @ kept), sp.csr_matrix(kept @ onward)
    return steps


def _product(matrices: Sequence[sp.csr_matrix], path: str) -> sp.csr_matrix:
    """The product of the matrices of a path, if it fits into memory."""
    product = matrices[0]
    for matrix in matrices[1:]:
        there = sp.csr_matrix((np.ones(product.nnz), product.indices, product.indptr),
                              product.shape)
        entries = int(np.minimum(there @ matrix.getnnz(1), matrix.shape[1]).sum())
        if entries > MAX_ENTRIES:
            message = (f"the path {path} can link {entries:,} pairs of nodes; at most "
                       f"{MAX_ENTRIES:,} fit into memory")
            raise InputError.plain("data make", message, "Add --max-degree 100, which skips nodes "
                                   "that link nearly everything, or give a shorter path")
        product = sp.csr_matrix(product @ matrix)
    return product


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Sorted distinct numbers from 0 on; np.unique takes twenty times as long for millions."""
    keys.sort()
    return keys[np.diff(keys, prepend=-1) > 0]


def _features(data: HeteroData, node: str, path: str, options: features.TextOptions,
              ) -> tuple[sp.csr_matrix, Sequence[str], str]:
    """Features ``[V, F]`` from the end of a path, the names of their columns, and their source."""
    kind, over = path.split("-")[-1] if path else node, f" over {path}" if path else ""
    reach = sp.identity(data[node].num_nodes, format="csr")
    if path:
        reach = _product(_steps(data, "--bag", path, node), path)
    if given := files.tensors(data[kind], ("x",), kind):
        alone = Data(**given, edge_index=torch.empty(2, 0, dtype=torch.long))
        x = sp.csr_matrix(cleaning.features_and_edges(alone, kind)[0].numpy())
        share = sp.diags(1 / np.maximum(np.asarray(reach.sum(1)).ravel(), 1))
        names = [f"{kind} {column}" for column in range(x.shape[1])]
        return sp.csr_matrix(share @ reach @ x), names, f"{kind}.x{over}"
    if texts := data[kind].get("text"):
        rows = np.split(reach.indices, reach.indptr[1:-1])
        table = pandas.DataFrame({"text": ["\n".join(texts[end] for end in row) for row in rows]})
        (x,), words = features.apply(features.learn(table, ["text"], [], [], [], options), table)
        return x, words, f"words of {kind}.text{over}"
    if not path:
        hint = f"Give a path to a type that becomes the features; the links are {_linked(data)}"
        raise InputError.plain("--bag", f"the type {node} has no features", hint)
    names = data[kind].get("name", data[kind].get("ids", range(reach.shape[1])))
    return reach, [*map(str, names)], f"number of paths {path}"


def _labels(data: HeteroData, kind: str) -> list[str]:
    """The label of each node of a type, empty for a node without one; no list without ``y``."""
    return ["" if label < 0 else str(label)
            for y in files.tensors(data[kind], ("y",), kind).values()
            for label in cleaning.labels(y, data[kind].num_nodes, f"{kind}: y").tolist()]


def _labels_from(data: HeteroData, node: str, path: str) -> list[str]:
    """The most frequent label at the end of a path for each node; empty if two are, or none."""
    labelled = {kind: labels for kind in data.node_types if any(labels := _labels(data, kind))}
    labels = labelled.get(path.split("-")[-1])
    if not labels:
        raise InputError("--labels-from", path,
                         f"a path to a type with labels, here {', '.join(labelled) or 'none'}")
    names = sorted({*labels} - {""})
    votes = features.one_hot(labels, names)
    for step in reversed(_steps(data, "--labels-from", path, node)):
        votes = _product([step, votes], path)
    row = np.repeat(np.arange(votes.shape[0]), votes.getnnz(1))
    best = votes.data == votes.max(1).toarray().ravel()[row]
    sure = np.bincount(row[best], minlength=votes.shape[0]) == 1
    choices = np.asarray(votes.argmax(1)).ravel()
    return [names[choice] if only else "" for choice, only in zip(choices, sure)]


def _split(data: HeteroData, node: str, labels: Sequence[str]) -> list[str]:
    """The part of each node by the masks, empty for a node in none."""
    parts = np.full(len(labels), "", dtype=object)
    for field, mask in files.tensors(data[node], [*MASKS], node).items():
        here = cleaning.mask(mask, len(labels), f"{node}: {field}").numpy()
        bad = here & ((parts != "") | (np.array(labels) == ""))
        if bad.any():
            message = f"node {bad.argmax()} has no label, or is in another mask too"
            raise InputError.plain(f"{node}: {field}", message,
                                   "Put only labelled nodes into it, and each into one mask")
        parts[here] = MASKS[field]
    return parts.tolist()


def _linked(data: HeteroData) -> str:
    """The pairs of linked types, in words."""
    return ", ".join(sorted({"-".join(sorted(types[::2])) for types in data.edge_types}))

"""Heterogeneous graphs: from a PyG ``HeteroData`` to a graph of one node type."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import NodeStorage

from graphgym_srnc.core.text import listed, plain
from graphgym_srnc.data import cleaning, features, files, limits, untrusted
from graphgym_srnc.data.cleaning import MASKS
from graphgym_srnc.data.folder import Graph
from graphgym_srnc.errors import InputError, reading

# Maximum number of entries of a product of matrices; 50 million take 4 GiB.
MAX_ENTRIES = 50_000_000
TEXTS = ("text", "name", "ids")  # fields that are lists of one text per node
FIELDS = (*files.READ, *TEXTS)


class Limits(NamedTuple):
    """Which links of a metapath are kept."""

    top: int = 0  # this many strongest neighbours of each node; 0 = all
    min_count: int = 0  # minimum number of paths that support a link, at least 1
    max_degree: int = 0  # skip intermediate nodes with more links to one type; 0 = no limit


def read_pt(path: Path) -> HeteroData:
    """Read and check a PyG ``HeteroData`` that ``torch.save`` wrote; no pickled code runs."""
    data = untrusted.load(path, "data make")
    if not isinstance(data, HeteroData):
        message = f"{path.name} contains a {type(data).__name__}, not a HeteroData"
        hint = "A Data needs no conversion: set file.path to it"
        raise InputError.plain("data make", message, hint)
    with reading(path, "a valid HeteroData", "data make"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a type may have no links
        values = (value for store in data.stores for value in store.values())
        untrusted.check_dense(filter(torch.is_tensor, values), path)
        for kind, store in data.node_items():
            sizes = {len(store[field]) for field in FIELDS if field in store}
            size = store.setdefault("num_nodes", max(sizes, default=None))
            if not isinstance(size, int) or size < 0 or sizes - {size}:
                raise ValueError(f"num_nodes of {kind} is {size}, and the lengths are {sizes}")
            if {type(text) for field in TEXTS for text in store.get(field, ())} - {str}:
                raise ValueError(f"{kind} has a field {', '.join(TEXTS)} that is no list of texts")
            limits.check(path, limits.CELL * size, path.stat().st_size)
        for types, store in data.edge_items():
            pairs = files.tensors(store, ("edge_index",), ", ".join(types)).get("edge_index")
            if pairs is None or not cleaning.is_integer(pairs):
                raise ValueError(f"{types} has no edge_index of integers")
            store.edge_index = pairs.long()
        data.validate()
        ", ".join(data.node_types)  # names are texts
    return data


def make_graph(
    data: HeteroData,
    node: str,
    metapaths: Sequence[str],
    limits: Limits = Limits(),
    bag: str = "",
    options: features.TextOptions = features.TextOptions(),
) -> tuple[Graph, list[str]]:
    """A graph of the nodes of one type, linked where a metapath joins them, and notes on it.

    Node types may have ``x`` ``[V, F]``, ``y`` ``[V]`` with -1 for no label, masks ``[V]``, and
    lists ``[V]`` of texts: ``ids``, ``name``, ``text``. ``bag`` leads from a node to nodes whose
    mean features, words of texts, or numbers of paths are its features; empty = its own ones.
    """
    if node not in data.node_types:
        raise InputError("--node", node, ", ".join(data.node_types))
    size, store = data[node].num_nodes, data[node]
    found = [_project(data, path, node, limits) for path in metapaths]
    edges = np.stack(sum((links for links, _ in found), sp.csr_matrix((size, size))).nonzero())
    if not edges.size:
        message = f"none of the paths {[*metapaths]} links two nodes"
        hint = f"Give types from {node} to {node}; the links are {data.edge_types}"
        raise InputError.plain("--metapath", message, hint)
    x, words, source = _features(data, node, bag or node, options)
    if not x.nnz:
        raise InputError.plain("--bag", f"all features ({source}) are zero", "Give another path")
    labels = _labels(store, node)
    split = _split(data, node, labels) if labels else None
    ids = store.get("ids", [*map(str, range(size))])
    if len({*ids} - {""}) < size:
        hint = "Give each node its own id"
        raise InputError.plain(f"{node}: ids", "an id is empty or occurs twice", hint)
    notes = [*(words for _, words in found), f"features: {source}"]
    read = {*FIELDS, "num_nodes"} - {*(() if split else MASKS)}
    fields = [(name, field) for name, own in data.to_dict().items() for field in own]
    unread = [plain(f"{name}.{field}") for name, field in fields if field not in read]
    notes += [f"not read: {listed(unread)}"] if unread else []
    texts = store.get("name", store.get("text"))
    return Graph(edges.astype(np.int64), x, words, ids, texts, labels, split), notes


def _project(data: HeteroData, path: str, node: str, limits: Limits) -> tuple[sp.csr_matrix, str]:
    r"""Links ``[V, V]``, above the diagonal, between the ends of a path, and their number in words.

    With :math:`M = A_1 \cdots A_L` the number of paths, :math:`S = M` if the path reads the same
    from both ends, else :math:`M + M^\top`. Pairs are kept if :math:`S_{ij}` is at least
    ``min_count``, and with ``top`` the strongest of either node; ties go to the smaller number. The
    strength is PathSim :math:`2 S_{ij} / (S_{ii} + S_{jj})` (Sun et al., VLDB 2011) if the path has
    a middle type and reads the same from both ends, else :math:`S_{ij} / \sqrt{d_i d_j}` with row
    sums :math:`d`.
    """
    types, steps = path.split("-"), _steps(data, "--metapath", path, node, limits.max_degree)
    if types[-1] != node or len(types) < 2:
        raise InputError("--metapath", path, f"a path from {node} to {node}")
    # AddMetaPaths of PyG multiplies from left to right, so author-paper-conf-paper-author passes
    # all pairs of authors and papers. It also counts in float32.
    half, symmetric = (len(steps) + 1) // 2, types == types[::-1]
    paths = _product([_product(steps[:half], path), _product(steps[half:], path)], path)
    both = (paths if symmetric else paths + paths.T).tocoo()
    kept = (both.row != both.col) & (both.data >= max(limits.min_count, 1))
    row, column, value = both.row[kept], both.col[kept], both.data[kept]
    if limits.top:
        if symmetric and len(types) % 2:
            loops = both.diagonal()
            strength = 2 * value / (loops[row] + loops[column])
        else:
            degree = np.asarray(both.sum(1)).ravel()
            strength = value / np.sqrt(degree[row] * degree[column])
        order = np.lexsort((column, -strength, row))
        rank = np.arange(len(row)) - np.searchsorted(row[order], row[order])
        row, column = (ends[order[rank < limits.top]] for ends in (row, column))
    pairs = np.minimum(row, column), np.maximum(row, column)
    links = sp.csr_matrix((np.ones(len(row)), pairs), paths.shape)
    return links, f"{path}: {int(paths.sum()):,} paths, {links.nnz:,} links"


def _steps(
    data: HeteroData, option: str, path: str, node: str, max_degree: int = 0
) -> list[sp.csr_matrix]:
    """The identity, and the links of each step of a path, ``[V_a, V_b]`` of 0 and 1, both ways."""
    types, steps = path.split("-"), [sp.identity(data[node].num_nodes, format="csr")]
    linked = {pair for types in data.edge_types for pair in (types[::2], types[::-2])}
    if types[0] != node or {*zip(types, types[1:])} - linked:
        raise InputError(option, path, f"types from {node} on, along links of {data.edge_types}")
    both = [(ends[::2], store.edge_index) for ends, store in data.edge_items()]
    both += [(ends[::-2], store.edge_index.flip(0)) for ends, store in data.edge_items()]
    for pair in zip(types, types[1:]):
        ends = torch.cat([edges for ends, edges in both if ends == pair], 1).numpy()
        shape = [data[kind].num_nodes for kind in pair]
        steps.append(sp.csr_matrix((np.ones(ends.shape[1]), ends), shape))
        steps[-1].data[:] = 1
    for after in range(2, len(steps)) if max_degree else ():
        to, onward = steps[after - 1 : after + 1]
        kept = sp.diags((np.maximum(to.getnnz(0), onward.getnnz(1)) <= max_degree).astype(float))
        steps[after - 1 : after + 1] = sp.csr_matrix(to @ kept), sp.csr_matrix(kept @ onward)
    return steps


def _product(matrices: Sequence[sp.csr_matrix], path: str) -> sp.csr_matrix:
    """The product of the matrices of a path, if it fits into memory."""
    product, *others = matrices
    for matrix in others:
        entries = int(np.minimum((product != 0) @ matrix.getnnz(1), matrix.shape[1]).sum())
        if entries > MAX_ENTRIES:
            message = f"{path} can link {entries:,} pairs of nodes, more than {MAX_ENTRIES:,}"
            hint = "Skip nodes that link nearly everything by --max-degree 100"
            raise InputError.plain("data make", message, hint)
        product = sp.csr_matrix(product @ matrix)
    return product


def _features(
    data: HeteroData, node: str, path: str, options: features.TextOptions
) -> tuple[sp.csr_matrix, Sequence[str], str]:
    """Features ``[V, F]`` from the end of a path, the names of their columns, and their source."""
    reach = _product(_steps(data, "--bag", path, node), path)
    kind, over = path.split("-")[-1], f" over {path}" if path != node else ""
    if given := files.tensors(data[kind], ("x",), kind):
        alone = Data(**given, edge_index=torch.empty(2, 0, dtype=torch.long))
        x = sp.csr_matrix(cleaning.features_and_edges(alone, kind)[0].numpy())
        names = [f"{kind} {column}" for column in range(x.shape[1])]
        return sp.csr_matrix(normalize(reach, "l1") @ x), names, f"{kind}.x{over}"
    if texts := data[kind].get("text"):
        rows = np.split(reach.indices, reach.indptr[1:-1])
        table = pandas.DataFrame({"text": ["\n".join(texts[end] for end in row) for row in rows]})
        (x,), words = features.apply(features.learn(table, ["text"], options), table)
        return x, words, f"words of {kind}.text{over}"
    if path == node:
        hint = f"Give a path to a type that becomes the features; the links are {data.edge_types}"
        raise InputError.plain("--bag", f"the type {node} has no features", hint)
    names = data[kind].get("name", data[kind].get("ids", range(reach.shape[1])))
    return reach, [*map(str, names)], f"number of paths {path}"


def _labels(store: NodeStorage, node: str) -> list[str]:
    """The label of each node, empty for none; an empty list without the field ``y``."""
    given = files.tensors(store, ("y",), node)
    if not given:
        return []
    numbers = cleaning.labels(given["y"], store.num_nodes, f"{node}: y").tolist()
    return ["" if label < 0 else str(label) for label in numbers]


def _split(data: HeteroData, node: str, labels: Sequence[str]) -> list[str]:
    """The part of each node by the masks, empty for a node in none."""
    masks = {
        field.removesuffix("_mask"): cleaning.mask(mask, len(labels), f"{node}: {field}")
        for field, mask in files.tensors(data[node], MASKS, node).items()
    }
    wrong = sum(masks.values()) > torch.tensor([*map(bool, labels)])
    if wrong.any():
        message = f"node {int(wrong.int().argmax())} has no label, or is in another mask too"
        hint = "Put only labelled nodes into a mask, and each into one mask"
        raise InputError.plain(f"{node}: {listed([*masks])}", message, hint)
    every = np.ones(len(labels), dtype=bool)
    return np.select([*map(np.asarray, masks.values()), every], [*masks, ""], "").tolist()

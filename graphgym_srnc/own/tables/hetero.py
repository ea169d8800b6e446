"""Heterogeneous graphs: nodes of several types and the links between them."""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import BaseStorage, EdgeStorage, NodeStorage

from graphgym_srnc.atomic import regular
from graphgym_srnc.data import cleaning, files, untrusted
from graphgym_srnc.errors import InputError

MOST_NODES = 10 ** 9
"""Of a type."""

MASKS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}

Links = dict[tuple[str, str], sp.csr_matrix]
"""By two types of nodes, 0 or 1 for each two nodes of them, ``[V_a, V_b]``; in both directions."""


@dataclass
class Nodes:
    """The nodes of one type; None = there are none of these.

    Args:
        ids: one for each node.
        names: to be shown.
        texts: to make features of.
        labels: classes, empty for a node without one.
        split: ``train``, ``val``, ``test`` or empty for each node.
        features: ``[V, F]``.
    """

    ids: list[str]
    names: list[str] | None = None
    texts: list[str] | None = None
    labels: list[str] | None = None
    split: list[str] | None = None
    features: sp.csr_matrix | None = None


@dataclass
class Hetero:
    """A heterogeneous graph: nodes by type, and links by two types."""

    nodes: dict[str, Nodes]
    links: Links

    def connect(self, source: str, target: str, links: sp.spmatrix) -> None:
        """Add links ``[V_a, V_b]``; however many relations have a link, it counts once."""
        for types, matrix in (((source, target), links), ((target, source), links.T)):
            both = matrix if types not in self.links else self.links[types] + matrix
            self.links[types] = sp.csr_matrix((both != 0).astype(np.int64))


def read_pt(path: Path) -> Hetero:
    """A PyG ``HeteroData`` that ``torch.save`` wrote; no pickled code is run.

    Raises:
        InputError: it cannot be read, holds something else, or a link leads to no node.
    """
    data, hetero = _load(path), Hetero({}, {})
    for kind in data.node_types:
        hetero.nodes[kind] = _nodes(data[kind], kind)
    for source, relation, target in data.edge_types:
        shape = (len(hetero.nodes[source].ids), len(hetero.nodes[target].ids))
        hetero.connect(source, target, _links(data[source, relation, target], shape,
                                              f"{source}, {relation}, {target}"))
    return hetero


def _load(path: Path) -> HeteroData:
    try:
        untrusted.check_archive(path)
        with untrusted.tensors_only(HeteroData, BaseStorage, NodeStorage, EdgeStorage):
            data = torch.load(regular(path), weights_only=True, map_location="cpu")
    except Exception as error:  # torch has no error of its own for a file that is none of its own
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        message = f"{path.name} cannot be read"
        message += f": it contains {foreign[1]}" if foreign else ""
        message += f": {error}" * isinstance(error, untrusted.Damaged)
        hint = "Save a HeteroData of tensors with torch.save, and nothing else"
        raise InputError.plain("data make", message, hint) from error
    if not isinstance(data, HeteroData):
        raise InputError.plain("data make", f"{path.name} contains a {type(data).__name__}, not a "
                               "HeteroData", "A Data needs no conversion: set file.path to it")
    return data


def _nodes(store: NodeStorage, kind: str) -> Nodes:
    tensors = files.tensors(store, ("x", "y", *MASKS.values()), kind)
    size = _size(store, tensors, kind)
    nodes = Nodes([str(node) for node in range(size)])
    if "x" in tensors:
        alone = Data(x=tensors["x"], edge_index=torch.empty(2, 0, dtype=torch.long))
        nodes.features = sp.csr_matrix(cleaning.features_and_edges(alone, kind)[0].numpy())
    if "y" in tensors:
        y = tensors["y"].reshape(-1) if tensors["y"].numel() == size else tensors["y"]
        if y.shape != (size,) or not torch.equal(y, y.long().to(y.dtype)):
            raise InputError.plain(f"{kind}: y", f"the labels have the shape {tuple(y.shape)}",
                                   f"Give one class per node, shape [{size}]")
        nodes.labels = ["" if label < 0 else str(label) for label in y.long().tolist()]
        nodes.split = [""] * size
        for part, mask in MASKS.items():
            if mask not in tensors:
                continue
            if tensors[mask].shape != (size,):
                message = f"the mask has the shape {tuple(tensors[mask].shape)}"
                hint = f"Give one true or false per node, shape [{size}]"
                raise InputError.plain(f"{kind}: {mask}", message, hint)
            for node in tensors[mask].bool().nonzero().view(-1).tolist():
                nodes.split[node] = part if nodes.labels[node] else ""
    return nodes


def _size(store: NodeStorage, tensors: Mapping[str, Tensor], kind: str) -> int:
    # PyG guesses from x, but not from y.
    tensor = next((tensors[name] for name in ("x", "y") if name in tensors), None)
    size = store.num_nodes or 0 if tensor is None else tensor.size(0) if tensor.dim() else 1
    if not isinstance(size, int) or not 0 <= size < MOST_NODES:
        raise InputError(f"{kind}: num_nodes", size, f"fewer than {MOST_NODES:,}")
    return size


def _links(store: EdgeStorage, shape: tuple[int, int], name: str) -> sp.csr_matrix:
    pairs = files.tensors(store, ("edge_index",), name).get("edge_index")
    if pairs is None or pairs.dim() != 2 or len(pairs) != 2 or pairs.is_floating_point():
        found = "missing" if pairs is None else f"{pairs.dtype} of shape {tuple(pairs.shape)}"
        raise InputError.plain(name, f"edge_index is {found}", "Give whole numbers [2, E]")
    pairs = pairs.long()
    inside = (pairs >= 0) & (pairs < torch.tensor(shape)[:, None])
    if not inside.all():
        raise InputError.plain(name, f"the node ids go up to {pairs.amax(1).tolist()}",
                               f"Use ids from 0 and below {list(shape)}")
    return sp.csr_matrix((np.ones(pairs.size(1)), pairs.numpy()), shape=shape)

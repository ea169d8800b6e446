"""Checked graphs in the one form that methods see: undirected, simple, with dense features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.task import CHOSEN_MASK, DRAWN_MASK, HIDDEN, all_finite, check_ids
from graphgym_srnc.data import edges
from graphgym_srnc.errors import InputError, reading

# The fields in which a graph holds its own split, ``[V]`` each.
MASKS = ("train_mask", "val_mask", "test_mask")

# Magnitudes between which float32 holds the sum of the squares of a million features.
LARGEST = 1e16
SMALLEST = 1e-30
# Share of its magnitude by which a column must vary, so that float32 resolves its differences.
OFFSET = 2.0**-10
ROWS = 2**16  # number of rows of a matrix that are read at a time


def clean(data: Data, key: str = "graph") -> Data:
    """The checked graph with each edge once a direction and no self-loops; isolated nodes stay.

    The graph has ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``, and ``y`` ``[V]`` or ``[V, 1]``. It
    may have ``edge_weight`` ``[E]``, see :func:`weighted_edges`.
    Changes are counted in ``data.cleaned``: ``self_loops``, ``duplicates``, and ``one_way`` (edges
    without their reverse). Errors name ``key``.
    """
    x, edge_index = features_and_edges(data, key)
    nodes = len(x)
    edge_index, weight = weighted_edges(data.edge_weight, edge_index, nodes, key)
    y = labels(data.y, nodes, f"{key}: y")

    number, cleaned = edges.undirected(edge_index.numpy(), nodes)
    if not len(number):
        raise InputError.plain(
            f"{key}: edge_index",
            "no edge joins two different nodes",
            "Give a graph with at least one edge",
        )
    others = {mask: data[mask] for mask in MASKS if mask in data}
    for name in (CHOSEN_MASK, DRAWN_MASK):
        if name in data:
            others[name] = mask(data[name], nodes, f"{key}: {name}")
    if weight is not None:
        merged = edges.weights(number, edge_index.numpy(), weight.numpy(), nodes)[0]
        others["edge_weight"] = torch.from_numpy(merged)
    both = np.empty((2, len(number)), dtype=np.int64)
    both[1] = number
    del number  # each of these is most of the memory that a large graph takes
    np.divmod(both[1], nodes, out=(both[0], both[1]))

    if "node_year" in data:
        others["node_year"] = data.node_year.reshape(-1).long()
    return Data(
        x=x, edge_index=torch.from_numpy(both), y=y, num_nodes=nodes, cleaned=cleaned, **others
    )


def labels(y: Tensor | None, nodes: int, key: str) -> Tensor:
    """Labels ``[V]`` or ``[V, 1]`` as integers ``[V]``; -1, or NaN among floats, = no label."""
    if y is None or tuple(y.shape) not in ((nodes,), (nodes, 1)):
        shape = None if y is None else tuple(y.shape)
        raise InputError.plain(
            key, f"the labels have the shape {shape}", f"Give one label per node, shape [{nodes}]"
        )
    y = y.reshape(-1)
    if y.is_floating_point():
        y = torch.where(y.isnan(), HIDDEN, y.double())
    label = y.long()
    # Numbers beyond 64 bits wrap around or saturate in the conversion.
    wrong = label < (HIDDEN if y.dtype.is_signed else 0)
    if y.is_floating_point():
        wrong |= (label != y) | (y >= 2.0**63)
    if wrong.any():
        first = y.tolist()[int(wrong.int().argmax())]  # older torch cannot index unsigned numbers
        raise InputError.plain(
            key,
            f"the label {first:g} is not an integer from -1 to 2^63",
            "Give integer labels 0, 1, ..., or -1 where there is none",
        )
    return label


def mask(values: Tensor, nodes: int, key: str) -> Tensor:
    """A mask ``[V]`` of booleans, or of 0 and 1, or fewer different node numbers, as booleans."""
    shape = tuple(values.shape)
    is_index = values.dim() == 1 and 0 < len(values) < nodes and not values.is_floating_point()
    if is_index and values.dtype != torch.bool and len(values.unique()) == len(values):
        check_ids(key, values, nodes)
        return torch.zeros(nodes, dtype=torch.bool).index_fill(0, values.long(), True)
    if shape != (nodes,) or ((values != 0) & (values != 1)).any():
        raise InputError.plain(
            key,
            f"the mask of shape {shape} is no mask of the nodes",
            f"Give one true or false per node, shape [{nodes}]. Make it from node numbers with "
            f"torch_geometric.utils.index_to_mask(nodes, {nodes}), or take one of several "
            "splits: mask[:, 0]",
        )
    return values == 1


def features_and_edges(data: Data, key: str, exact: bool = False) -> tuple[Tensor, Tensor]:
    """Checked features ``[V, F]``, ``exact`` or else ``narrowed``, and edges ``[2, E]``."""
    x = _features(data.x, key, exact)
    return x, _edges(data.edge_index, len(x), f"{key}: edge_index")


def strided(x: Tensor) -> Tensor:
    """The matrix in strided layout."""
    return x if x.layout == torch.strided else x.to_dense()


def _features(x: Tensor | None, key: str, exact: bool) -> Tensor:
    at_x = f"{key}: x"
    if x is None or x.dim() != 2 or 0 in x.shape:
        raise InputError.plain(
            at_x,
            f"the features have the shape {None if x is None else tuple(x.shape)}",
            "Give features [V, F] of at least one node",
        )
    with reading(Path("x"), f"a matrix of shape {tuple(x.shape)} that fits into memory", at_x):
        if x.layout == torch.sparse_coo:  # whose indices torch trusts
            with torch.sparse.check_sparse_tensor_invariants():
                x = torch.sparse_coo_tensor(x._indices(), x._values(), x.shape)
        x = strided(x)
        x = (x.double() if exact else narrowed(x)).contiguous()
    if not all_finite(x):
        raise InputError.plain(
            at_x,
            f"{int((~torch.isfinite(x)).any(1).sum())} node(s) have NaN or Inf as a feature",
            "Give finite features",
        )
    if magnitude(x) > LARGEST:
        node, column = divmod(int(x.abs().argmax()), x.size(1))
        raise InputError.plain(
            at_x,
            f"feature {column} of node {node} is {x[node, column]:g}",
            f"Scale features to at most {LARGEST:g}",
        )
    return x


def _edges(edge_index: Tensor | None, nodes: int, key: str) -> Tensor:
    hint = "Give integer node pairs [2, E], such as the transpose of pairs [E, 2]"
    if edge_index is None:
        raise InputError.plain(key, "the edges are missing", hint)
    is_integer = not edge_index.is_floating_point() and edge_index.dtype != torch.bool
    if tuple(edge_index.shape[:-1]) != (2,) or not is_integer:
        found = f"{edge_index.dtype} of shape {tuple(edge_index.shape)}"
        raise InputError.plain(key, f"the edges are {found}", hint)
    edge_index = edge_index.long()
    check_ids(key, edge_index, nodes)
    return edge_index


def weighted_edges(
    weight: Tensor | None, edge_index: Tensor, nodes: int, key: str
) -> tuple[Tensor, Tensor | None]:
    """Edges ``[2, E]`` with a positive weight, and their weights as float32; None = all are 1.

    An edge of weight 0 is left out. Both directions of an edge must have the same weight.

    Raises:
        InputError: weights have another shape, are not finite, negative or out of range, or two
            copies of an edge have different weights.
    """
    if weight is None:
        return edge_index, None
    key = f"{key}: edge_weight"
    size = edge_index.size(1)
    if tuple(weight.shape) != (size,):
        raise InputError.plain(
            key,
            f"the weights have the shape {tuple(weight.shape)}",
            f"Give one weight per column of edge_index, shape [{size}]",
        )
    is_edge = weight != 0
    edge_index = edge_index[:, is_edge]
    weight = weight[is_edge]
    if (weight == 1).all():
        return edge_index, None
    wrong = weight[~((weight >= SMALLEST) & (weight <= LARGEST))]
    if len(wrong):
        raise InputError.plain(
            key,
            f"{len(wrong)} of {size} weights are out of range, such as {wrong[0]:g}",
            f"Give 0, or weights from {SMALLEST:g} to {LARGEST:g}, larger for closer nodes",
        )
    weight = weight.float()
    _check_copies(weight, edge_index, nodes, key)
    return edge_index, weight


def _check_copies(weight: Tensor, edge_index: Tensor, nodes: int, key: str) -> None:
    """Refuse different weights of two copies, or of both directions, of an edge."""
    pairs = edge_index.numpy()
    number = edges.undirected(pairs, nodes)[0]
    differ = edges.weights(number, pairs, weight.numpy(), nodes)[1]
    if len(differ):
        message = f"the copies of edge {pairs[:, differ[0]].tolist()} have different weights"
        hint = "Edges have no direction here. Merge both directions and all copies of an edge with "
        hint += 'torch_geometric.utils.to_undirected(edge_index, edge_weight, reduce="mean"), or '
        raise InputError.plain(key, message, hint + 'reduce="add" or "max"')


def narrowed(x: Tensor) -> Tensor:
    """Features ``[V, F]`` as float32, or as float64 where float32 would merge different values."""
    if x.dtype in (torch.float64, torch.int32, torch.int64, torch.uint32, torch.uint64):
        exact = x.double()
        size = magnitude(exact)
        if size and not SMALLEST <= size <= LARGEST or offset(*ends(exact)).any():
            return exact
    return x.float()


def ends(x: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest value of each column of ``[V, F]``."""
    low, high = zip(*((rows.amin(0), rows.amax(0)) for rows in x.split(ROWS)))
    return torch.stack(low).amin(0), torch.stack(high).amax(0)


def offset(low: Tensor, high: Tensor, share: float = OFFSET) -> Tensor:
    """Which columns vary, but by less than a share of their magnitude; see ``ends``."""
    return (low < high) & (high - low < share * torch.maximum(low.abs(), high.abs()))


def magnitude(x: Tensor) -> float:
    """How far the farthest feature is from zero."""
    return max(abs(float(end)) for end in x.aminmax())

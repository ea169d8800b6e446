"""Sorted numbers of edges against PyG's sets of pairs and SciPy's matrices, on random graphs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from graphgym_srnc.backbones import Graph
from graphgym_srnc.data import edges
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.losses.modularity import modularity


def pairs(seed: int) -> tuple[torch.Tensor, int]:
    """Edges of a few nodes: one way, both ways, or sorted and simple already; of two types."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(2, 40))
    found = torch.from_numpy(rng.integers(nodes, size=(2, int(rng.integers(1, 200)))))
    if seed % 3:
        found = torch.cat([found, found.flip(0)], 1)
    if seed % 3 == 2:
        found = coalesce(found, num_nodes=nodes)
    return found.int() if seed % 2 else found, nodes


@pytest.mark.parametrize("seed", range(6))
def test_edges_are_those_of_pyg_and_scipy(seed):
    given, nodes = pairs(seed)
    kept = given.clone()
    loops = given[0] == given[1]
    single = coalesce(given[:, ~loops].long(), num_nodes=nodes)
    both = to_undirected(single, num_nodes=nodes)
    number, found = edges.undirected(given.numpy(), nodes)
    assert np.array_equal(number, (both[0] * nodes + both[1]).numpy())
    assert found == {
        "self_loops": int(loops.sum()),
        "duplicates": int((~loops).sum()) - single.size(1),
        "one_way": both.size(1) - single.size(1),
    }
    if len(number):
        data = clean(Data(x=torch.ones(nodes, 1), edge_index=given, y=torch.zeros(nodes)))
        assert torch.equal(data.edge_index, both) and data.cleaned == found
    whole = sp.coo_array(
        (np.ones(both.size(1), dtype=np.float32), tuple(both.numpy())), shape=(nodes, nodes)
    ).tocsr()
    raw = Graph(Data(x=torch.ones(nodes, 1), edge_index=given), "none").adjacency("raw").matrix
    assert all(
        np.array_equal(getattr(raw, part), getattr(whole, part))
        for part in ("data", "indices", "indptr")
    )
    assert raw.indices.dtype == raw.indptr.dtype == np.int32 and raw.has_canonical_format
    assert torch.equal(given, kept)


def test_no_edges():
    number, found = edges.undirected(np.empty((2, 0), dtype=np.int64), 3)
    assert not len(number) and not any(found.values())
    empty = Graph(Data(x=torch.ones(3, 1), edge_index=torch.zeros(2, 0).long()), "none")
    assert modularity(torch.arange(3), empty.adjacency("raw"), empty.degree) == 0

"""Encoders against PyG's layers; views, operators and the sparse product against dense ones."""

from __future__ import annotations

import copy

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import refused
from tasks import (
    DENSE_GRAPH,
    ENCODERS,
    SPARSE_GRAPH,
    biased_encoder,
    logits_of,
    pyg_layer,
    sparse_graph,
)
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import SGConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj

from graphgym_srnc import backbones
from graphgym_srnc.backbones.encoder import dropout
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse


@pytest.mark.parametrize(
    "layers, act, skip, data",
    [(2, "relu", False, DENSE_GRAPH), (3, "selu", True, SPARSE_GRAPH)],
    ids=["dense", "sparse"],
)
@pytest.mark.parametrize("kind", ["gcnconv", "sageconv", "gatconv", "gatdrop", "mlp"])
def test_encoder_is_pygs_stack(kind, layers, act, skip, data):
    model = biased_encoder(kind, layers=layers, act=act, skip=skip)
    h = data.x
    for i, layer in enumerate(model.layers):
        last = i == layers - 1
        twin = pyg_layer(layer, kind, last)
        edges = () if kind == "mlp" else (data.edge_index,)
        out = twin(h, *edges)
        if skip and i > 0:
            out = out + h @ model.skips[i - 1].weight.T
        h = getattr(torch, act, getattr(nn.functional, act))(out)
    assert torch.allclose(logits_of(model, data), out, atol=2e-5)


@pytest.mark.parametrize("data", [DENSE_GRAPH, SPARSE_GRAPH], ids=["dense", "sparse"])
def test_sgc_is_pygs(data, layers=2):
    model = biased_encoder("sgconv", layers=layers)
    twin = SGConv(40, 3, K=layers)
    twin.load_state_dict({"lin.weight": model.layers[0].weight.T, "lin.bias": model.output_bias})
    assert torch.allclose(logits_of(model, data), twin(data.x, data.edge_index), atol=2e-5)


@pytest.mark.parametrize("kind", [kind for kind in ENCODERS if kind != "dgi"])
def test_view_of_some_nodes_is_rows_of_the_whole(kind):
    model = biased_encoder(kind, layers=3, skip=True)
    data = sparse_graph(0.1, 300)
    assert isinstance(Graph(data, "none").x, Sparse)
    whole = logits_of(model, data)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    for nodes in (order[:1], order[:7], order[:150], order):
        assert torch.allclose(logits_of(model, data, nodes), whole[nodes], atol=2e-5)


def test_sparse_product_and_gradient():
    matrix = sp.random_array(
        (30, 20), density=0.2, random_state=np.random.default_rng(0), dtype=np.float32
    )
    h = torch.randn(20, 5, requires_grad=True, generator=torch.Generator().manual_seed(0))
    scale = torch.arange(150.0).reshape(30, 5)
    dense = torch.from_numpy(matrix.toarray())
    ours = Sparse(matrix) @ h
    theirs = dense @ h
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert torch.allclose(
        *(torch.autograd.grad((out * scale).sum(), h)[0] for out in (ours, theirs)), atol=1e-3
    )
    rows = torch.tensor([4, 4, 0])
    assert torch.equal(torch.from_numpy(Sparse(matrix)[rows].matrix.toarray()), dense[rows])


def test_operators():
    graph = Graph(DENSE_GRAPH)
    n = 90
    index, weight = gcn_norm(DENSE_GRAPH.edge_index, num_nodes=n)
    twin = nx.Graph(DENSE_GRAPH.edge_index.T.tolist())
    a = nx.to_numpy_array(twin, nodelist=range(n))
    expected = {
        "raw": a,
        "gcn": to_dense_adj(index, edge_attr=weight)[0].numpy(),
        "mean": a / a.sum(1, keepdims=True),
        "loops": a + np.eye(n),
    }
    for kind, matrix in expected.items():
        assert np.allclose(graph.adjacency(kind).matrix.toarray(), matrix, atol=1e-6), kind
    assert graph.degree.tolist() == [twin.degree[v] for v in range(n)]
    assert np.allclose(
        graph.propagated("gcn", 2).numpy(),
        expected["gcn"] @ expected["gcn"] @ graph.x.numpy(),
        atol=1e-5,
    )


def test_dropout():
    torch.manual_seed(0)
    h = torch.rand(500, 401) + 1
    assert dropout(h, 0.0) is h
    for p in (0.25, 0.5, 0.6):
        out = dropout(h, p)
        kept = out != 0
        assert float(kept.float().mean()) == pytest.approx(1 - p, abs=0.006)
        assert float(out.mean() / h.mean()) == pytest.approx(1, abs=0.02)
        scale = (out / h)[kept]
        assert scale.unique().numel() < 5
        assert float(scale.mean()) == pytest.approx(1 / (1 - p), rel=0.01)
        assert abs(float(torch.corrcoef(kept.float().T[:2])[0, 1])) < 0.15
    assert not torch.equal(dropout(h, 0.5), dropout(h, 0.5))
    torch.manual_seed(1)
    first = dropout(h, 0.5)
    torch.manual_seed(1)
    assert torch.equal(first, dropout(h, 0.5))


@pytest.mark.parametrize("data", [DENSE_GRAPH, SPARSE_GRAPH], ids=["dense", "sparse"])
def test_gatdrop_drops_features_and_attention_weights(data):
    model = biased_encoder("gatdrop", layers=1, dropout=0.4)
    layer = model.layers[0]
    graph = Graph(data, "none")
    torch.manual_seed(5)
    ours = model.train()(model.view(graph))

    # The same draws on dense matrices, by the equation.
    torch.manual_seed(5)
    x = data.x.clone()
    loops = torch.from_numpy(graph.adjacency("loops").matrix.toarray()) > 0
    place = x != 0 if data is SPARSE_GRAPH else torch.ones_like(x, dtype=torch.bool)
    x[place] = dropout(x[place], 0.4)
    z = (x @ layer.weight).view(len(x), 2, 3)
    score = nn.functional.leaky_relu(
        torch.einsum("vhk,hk->vh", z, layer.target)[:, None]
        + torch.einsum("vhk,hk->vh", z, layer.neighbour),
        0.2,
    )
    attention = score.masked_fill(~loops[..., None], -torch.inf).softmax(1)
    weights = torch.zeros_like(attention)
    place = loops[:, None].expand(-1, 2, -1)
    # A node stands among the edges once a head.
    weights.transpose(1, 2)[place] = dropout(attention.transpose(1, 2)[place], 0.4)
    theirs = torch.einsum("vuh,uhk->vhk", weights, z).mean(1) + layer.bias
    assert torch.allclose(ours, theirs, atol=1e-5)
    gradients = [
        torch.autograd.grad(out.square().sum(), [layer.weight, layer.target])
        for out in (ours, theirs)
    ]
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(*gradients))


@pytest.mark.parametrize(
    "key, changes",
    [
        ("kind", {"kind": "nonesuch"}),
        ("act", {"act": "nonesuch"}),
        ("hidden", {"kind": "gatconv", "hidden": 15}),
        ("dropout", {"dropout": float("nan")}),
    ],
)
def test_bad_specs(key, changes):
    assert refused(key, lambda: backbones.build(backbones.EncoderSpec(**changes), 4, 2)).key == key


@pytest.mark.parametrize("density, features", [(1.0, "auto"), (0.1, "row")])
def test_scaled_features_are_renewed_after_a_change_in_place(density, features):
    data = sparse_graph(density)
    before = copy.deepcopy(Graph(data, features).x)
    data.x[:, 3] += 2
    after, fresh = (
        Graph(Data(x=x, edge_index=data.edge_index), features).x for x in (data.x, data.x.clone())
    )
    was, now, wanted = (
        part.matrix.toarray() if isinstance(part, Sparse) else part.numpy()
        for part in (before, after, fresh)
    )
    assert (now == wanted).all() and not np.allclose(was, now)
    assert Graph(data, features).x is after


@pytest.mark.parametrize("features", ["row", "l2", "auto"])
def test_sparse_scaling_is_the_dense_formula(features):
    negative = torch.rand(90, 40, generator=torch.Generator().manual_seed(5)) < 0.5
    x = sparse_graph(0.1).x * torch.where(negative, -1.0, 3.0)
    x[4:6] = 0
    x[5, 7] = -2.0
    graph = Graph(Data(x=x, edge_index=DENSE_GRAPH.edge_index), features)
    assert isinstance(graph.x, Sparse)
    order = 1 if features == "row" else 2
    length = np.linalg.norm(x.numpy(), ord=order, axis=1, keepdims=True)
    assert np.allclose(
        graph.x.matrix.toarray(), x.numpy() / np.where(length > 0, length, 1), atol=1e-6
    )
    assert graph.x.matrix[5, 7] == -1 and graph.x.matrix[[4]].nnz == 0
    coo = Graph(Data(x=x.to_sparse(), edge_index=DENSE_GRAPH.edge_index, num_nodes=90), features)
    assert (coo.x.matrix != graph.x.matrix).nnz == 0

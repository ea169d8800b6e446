"""Weights of edges against PyG's layers, networkx and dense algebra, and from input to output."""

from __future__ import annotations

import re
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from conftest import refused, within_errors
from scipy.stats import chisquare
from sklearn.metrics import accuracy_score
from tasks import (
    DENSE_GRAPH,
    biased_encoder,
    known_options,
    logits_of,
    pyg_layer,
    synthetic_task,
    tiny_method,
)
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, SGConv

from graphgym_srnc import api, methods
from graphgym_srnc.backbones import Batches, Graph, infer
from graphgym_srnc.backbones.sign import HopFeatures
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.data.describe import describe
from graphgym_srnc.losses.modularity import label_assortativity, modularity, newman_resolution
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN
from graphgym_srnc.own.discover.clusters import separation
from graphgym_srnc.shifts import file, splits
from graphgym_srnc.shifts.given import from_data, unlabelled
from graphgym_srnc.train import diagnostics, source_first

NETWORKS = {"karate": nx.karate_club_graph(), "miserables": nx.les_miserables_graph()}
"""Public networks whose weights count shared activities, and common scenes."""


def random_weights(edge_index: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """Symmetric weights from 0.2 to 3, ``[E]``."""
    size = int(edge_index.max()) + 1
    drawn = torch.rand(size, size, generator=torch.Generator().manual_seed(seed))
    return 0.2 + 1.4 * (drawn + drawn.T)[tuple(edge_index)]


def with_weights(data: Data, seed: int = 0) -> Data:
    """The graph with random weights."""
    data = data.clone()
    data.edge_weight = random_weights(data.edge_index, seed)
    return data


def planted(nodes: int = 240, classes: int = 3) -> Data:
    """A graph whose edges join classes at random and weigh 20 times as much within a class."""
    rng = np.random.default_rng(0)
    y = torch.arange(nodes) % classes
    pairs = torch.from_numpy(rng.integers(nodes, size=(2, 8 * nodes)))
    pairs = torch.unique(pairs[:, pairs[0] < pairs[1]], dim=1)
    x = torch.from_numpy(rng.normal(size=(nodes, 8))).float() + 0.7 * torch.eye(8)[y]
    same = y[pairs[0]] == y[pairs[1]]
    return Data(
        x=x,
        edge_index=pairs,
        edge_weight=torch.where(same, 2.0, 0.1),
        y=y,
        train_mask=torch.arange(nodes) < 30,
        val_mask=torch.arange(nodes) >= nodes - 60,
    )


WEIGHTED = with_weights(DENSE_GRAPH)
A = torch.zeros(90, 90).index_put(tuple(WEIGHTED.edge_index), WEIGHTED.edge_weight)
MEAN = A / A.sum(1, keepdim=True)


# ---- encoders ----


@pytest.mark.parametrize("kind", ["gcnconv", "sageconv", "sgconv"])
def test_an_encoder_with_weights_is_pygs_or_dense(kind):
    model = biased_encoder(kind, act="relu")
    data = WEIGHTED
    if kind == "sgconv":
        twin = SGConv(40, 3, K=2)
        twin.load_state_dict(
            {"lin.weight": model.layers[0].weight.T, "lin.bias": model.output_bias}
        )
        h = twin(data.x, data.edge_index, data.edge_weight)
    else:
        h = data.x
        for i, layer in enumerate(model.layers):
            h = h.relu() if i else h
            if kind == "gcnconv":
                h = pyg_layer(layer, kind, i == 1)(h, data.edge_index, data.edge_weight)
            else:
                h = MEAN @ h @ layer.weight + h @ layer.root_weight + layer.bias
    assert torch.allclose(logits_of(model, data), h, atol=2e-5)
    assert not torch.allclose(logits_of(model, DENSE_GRAPH), h, atol=1e-2)
    graph = Graph(data, "none")
    assert torch.allclose(infer(model, graph), h, atol=2e-5)
    if kind != "sgconv":
        some = torch.tensor([80, 3, 3, 0])
        assert torch.allclose(model(model.sample(graph, some, 0)), h[some], atol=2e-5)
        assert torch.allclose(logits_of(model, data, some), h[some], atol=2e-5)


def test_hop_features_are_weighted_means():
    x = WEIGHTED.x
    parts = [torch.nn.functional.normalize(part) for part in (x, MEAN @ x, MEAN @ MEAN @ x)]
    assert torch.allclose(HopFeatures(40)(Graph(WEIGHTED, "none")), torch.cat(parts, 1), atol=1e-5)


@pytest.mark.parametrize("kind, reads", [("gatconv", False), ("gcnconv", True), ("mlp", True)])
def test_attention_ignores_weights_and_says_so(kind, reads):
    """A perceptron reads no edge at all, so there is nothing to say."""
    if kind == "gatconv":
        model = biased_encoder(kind)
        assert torch.equal(logits_of(model, WEIGHTED), logits_of(model, DENSE_GRAPH))
    task, _ = from_data(planted(), open_set=False)
    method = tiny_method("erm", kind=kind, steps=1)
    method.start(task.blind())
    assert ("edge weights" in method.warnings) == (not reads)


def test_smoothing_is_pygs_appnp():
    method = tiny_method("erm", smoothing=10)
    task = from_data(planted(), open_set=False)[0].blind()
    method.start(task)
    smooth = method.smooth(method.logits(task.target).softmax(1), task.target)
    assert torch.allclose(method.predict(task.target).exp(), smooth, atol=1e-5)
    p = torch.rand(90, 3).softmax(1)
    data = WEIGHTED
    wanted = APPNP(K=10, alpha=0.1)(p, data.edge_index, data.edge_weight)
    wanted = torch.nn.functional.normalize(wanted, p=1, dim=1)
    assert torch.allclose(method.smooth(p, data), wanted, atol=1e-5)


def test_factors_of_a_method_multiply_the_weights():
    graph = Graph(WEIGHTED, "none")
    row, column = graph.adjacency("raw").entries
    factor = np.linspace(1, 2, len(row), dtype=np.float32)
    found = graph.reweighted(factor).adjacency("raw").matrix.toarray()
    assert np.allclose(found[row, column], A.numpy()[row, column] * factor)


# ---- modularity ----


@pytest.mark.parametrize("name", NETWORKS)
def test_modularity_is_networkx(name):
    network = nx.convert_node_labels_to_integers(NETWORKS[name])
    pairs = torch.tensor([*network.edges]).T
    weight = torch.tensor([fields["weight"] for *_, fields in network.edges(data=True)]).float()
    graph = Graph(Data(x=torch.ones(len(network), 1), edge_index=pairs, edge_weight=weight), "none")
    degree = [value for _, value in network.degree(weight="weight")]
    assert graph.degree.tolist() == pytest.approx(degree)

    found = nx.community.greedy_modularity_communities(network, weight="weight")
    cluster = torch.zeros(len(network), dtype=torch.long)
    for k, nodes in enumerate(found):
        cluster[list(nodes)] = k
    wanted = nx.community.modularity(network, found, weight="weight")
    adjacency = graph.adjacency("raw")
    assert modularity(cluster, adjacency, graph.degree) == pytest.approx(wanted, abs=1e-5)
    assert abs(wanted - nx.community.modularity(network, found, weight=None)) > 0.01
    parts, conductance, lift = separation(adjacency.matrix, cluster.numpy(), len(found))
    assert parts.sum() == pytest.approx(wanted, abs=1e-5)
    for k, nodes in enumerate(found):
        exact = nx.conductance(network, nodes, weight="weight")
        assert conductance[k] == pytest.approx(exact, abs=1e-5)
        inside = 2 * network.subgraph(nodes).size(weight="weight")
        ends = sum(value for _, value in network.degree(nodes, weight="weight"))
        exact = 2 * network.size(weight="weight") * inside / ends**2
        assert lift[k] == pytest.approx(exact, abs=1e-4)
    # A tenth of a millionth of each weight is the same clustering.
    tiny = Graph(Data(x=graph.x, edge_index=pairs, edge_weight=weight * 1e-7), "none")
    found = modularity(cluster, tiny.adjacency("raw"), tiny.degree)
    assert found == pytest.approx(wanted, abs=1e-5)


def test_whole_weights_are_repeated_edges():
    network = NETWORKS["karate"]
    label = torch.tensor([int(club == "Officer") for _, club in network.nodes(data="club")])
    pairs = torch.tensor([*network.edges]).T
    pairs = torch.cat([pairs, pairs.flip(0)], 1)
    weight = torch.randint(1, 5, (pairs.size(1) // 2,), generator=torch.Generator().manual_seed(0))
    weight = weight.repeat(2)
    repeated = pairs.repeat_interleave(weight, 1)
    degree = torch.bincount(repeated[0]).float()
    for function in (label_assortativity, newman_resolution):
        wanted = function(repeated, degree, label)
        assert function(pairs, degree, label, weight.float()) == pytest.approx(wanted, abs=1e-5)
        assert function(pairs, degree, label) != pytest.approx(wanted, abs=1e-3)


def test_edges_are_drawn_by_their_weight():
    graph = Graph(WEIGHTED, "none")
    ends = Batches(biased_encoder("gcnconv"), graph, [], 8).draw_edges(200_000)
    times = torch.zeros(90, 90).index_put(tuple(ends), torch.ones(()), accumulate=True)
    row, column = graph.adjacency("raw").entries
    expected = A[row, column].double() / A.double().sum() * ends.size(1)
    assert chisquare(times[row, column].double(), expected, sum_check=False).pvalue > 1e-4
    assert float(times.sum()) == float(times[row, column].sum())


@pytest.mark.parametrize("data", [WEIGHTED, DENSE_GRAPH], ids=["weighted", "plain"])
def test_the_cluster_gnn_estimates_its_loss(data):
    graph = Graph(data, "none")
    a = (A > 0).float() if data is DENSE_GRAPH else A
    options = {"resolution": 1.2, "collapse": 0.0, "modularity_weight": 2.0, "lr": 0.01}
    spec = biased_encoder("gcnconv").spec
    cluster = ClusterGNN(spec, 4, 3, graph, graph, batch_size=64, fanout=0, **options)
    cluster.encoder.eval()
    with torch.no_grad():
        q = cluster.encoder(cluster.encoder.view(graph)).softmax(1)
        total = a.sum()
        degree = a.sum(1)
        wanted = -2 * ((q * (a @ q)).sum() / total - 1.2 * ((degree @ q / total) ** 2).sum())
        assert torch.allclose(cluster.target_loss(q.log()), wanted, atol=1e-5)
        draw = cluster.on_target()
        assert within_errors(
            torch.stack([draw()[0]["cluster_target"] for _ in range(100)]), wanted, 4.0
        )


# ---- input ----


def graph_with(weight: object, pairs: list[list[int]]) -> Data:
    x = torch.eye(5)
    y = torch.arange(5)
    return Data(x=x, y=y, edge_index=torch.tensor(pairs), edge_weight=weight)


def test_copies_of_an_edge_keep_its_weight():
    """Loops and edges of weight 0 are left out; rounding may make the directions differ."""
    weight = torch.tensor([2.0, 2.000001, 0.0, 7.0, 0.5, 0.5])
    given = graph_with(weight, [[0, 1, 2, 3, 3, 3], [1, 0, 3, 3, 4, 4]])
    data = clean(given)
    assert data.edge_index.tolist() == [[0, 1, 3, 4], [1, 0, 4, 3]]
    assert data.edge_weight.tolist() == pytest.approx([2, 2, 0.5, 0.5])
    assert data.edge_weight.dtype == torch.float32
    raw = Graph(unlabelled(given), "none").adjacency("raw").matrix
    dense = np.zeros((5, 5))
    dense[tuple(data.edge_index.numpy())] = data.edge_weight
    assert np.allclose(raw.toarray(), dense) and raw.nnz == 4


@pytest.mark.parametrize(
    "weight, words",
    [
        ([1.0, -2.0, 3.0], "1 of 3 weights are out of range, such as -2"),
        ([1.0, 1.0, float("nan")], "such as nan"),
        ([1.0, float("inf"), 1.0], "such as inf"),
        ([1.0, 2.0], "shape \\(2,\\).*shape \\[3\\]"),
        ([[1.0], [2.0], [1.0]], "shape \\(3, 1\\)"),
        ([1.0, 1e20, 1.0], "such as 1e\\+20. Give 0, or weights from 1e-30 to 1e\\+16"),
        ([1.0, 2.0, 3.0], "copies of edge \\[0, 1\\] have different weights.*to_undirected"),
    ],
)
def test_wrong_weights_are_refused(weight, words):
    given = graph_with(torch.tensor(weight), [[0, 1, 1], [1, 2, 0]])
    error = refused("graph: edge_weight", clean, given)
    assert re.search(words, str(error))
    refused("graph: edge_weight", unlabelled, given)


def test_weights_of_1_are_none():
    ones = planted()
    ones.edge_weight = torch.ones(ones.num_edges, dtype=torch.float64)
    without = planted()
    del without.edge_weight
    tasks = [from_data(graph, open_set=False)[0] for graph in (ones, without, planted())]
    assert tasks[0].fingerprint() == tasks[1].fingerprint() != tasks[2].fingerprint()
    assert "edge_weight" not in tasks[0].blind().target


def test_a_task_carries_weights(tmp_path):
    data = clean(planted())
    given = planted()
    half = data.subgraph(data.y < 2)
    inside = (data.y[data.edge_index] < 2).all(0)
    assert torch.equal(half.edge_weight, data.edge_weight[inside])
    assert torch.equal(splits.relabelled(data, [0, 1]).edge_weight, data.edge_weight)
    torch.save(given, tmp_path / "a.pt")
    arrays = {key: given[key].numpy() for key in given.keys()}
    np.savez(tmp_path / "a.npz", **arrays)
    tasks = [file.build(path=str(tmp_path / f"a{end}")) for end in (".pt", ".npz")]
    tasks.append(from_data(given)[0])
    for task in tasks:
        assert torch.equal(task.target.edge_weight, data.edge_weight)
        assert torch.equal(task.blind().target.edge_weight, data.edge_weight)
        assert task.to("cpu") is task
    weight = data.edge_weight
    same = data.y[data.edge_index[0]] == data.y[data.edge_index[1]]
    wanted = float(weight[same].sum() / weight.sum())
    assert describe(tasks[0])["graphs"]["graph"]["homophily"] == pytest.approx(wanted, abs=1e-5)
    assert "graph: edges have weights from 0.1 to 2" in describe(tasks[0])["notes"]


# ---- methods ----


FEW = {"rounds": 1, "steps": 20, "pretrain_steps": 20, "fit_steps": 5, "cluster_steps": 5}


@pytest.mark.parametrize("name", ["erm", "srnc", "srnc_plus"])
def test_weights_tell_classes_that_links_do_not(name):
    """Edges join classes at random, and heavy ones join equal classes."""
    scores = {}
    for kind in ("weights", "none"):
        graph = planted()
        if kind == "none":
            del graph.edge_weight
        options = {"hidden": 16, "open_set": False, "random_state": 0, "lr": 0.06}
        options |= known_options(methods.find(name), FEW)
        model = api.estimator(name)(**options).fit(graph)
        test = ~(graph.train_mask | graph.val_mask)
        scores[kind] = accuracy_score(graph.y[test], model.predict(graph)[test])
        if kind == "weights":
            order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(0))
            turned = graph.edge_index[:, order].flip(0)
            same = Data(x=graph.x, edge_index=turned, edge_weight=graph.edge_weight[order])
            assert np.array_equal(model.predict(same), model.predict(graph))
    assert scores["weights"] > scores["none"] + 0.1


@pytest.mark.parametrize("name", ["strurw", "pairalign", "udagcn", "a2gnn", "uaga"])
def test_methods_of_two_graphs_read_weights(name):
    task = replace(synthetic_task("close_set"), val_graph=None, oracle=None)
    source = with_weights(task.source)
    target = with_weights(task.target, seed=1)
    weighted = replace(task, source=source, target=target)
    losses = [tiny_method(name).start(given.blind()) for given in (task, weighted)]
    assert all(np.isfinite([*losses[1].values()])) and losses[0] != losses[1]


def test_labelled_edges_count_by_their_weight():
    task = from_data(planted(), open_set=False)[0]
    graph = task.source
    a, b = graph.edge_index
    known = torch.isin(graph.edge_index, torch.cat([task.train, task.val])).all(0)
    same = graph.y[a] == graph.y[b]
    weight = graph.edge_weight
    share = float(weight[known & same].sum() / weight[known].sum())
    assert diagnostics.homophily(task) == (pytest.approx(share, abs=1e-5), int(known.sum()) // 2)
    found = graph.y.index_fill(0, torch.arange(100, 110), 3)
    for own in (source_first.source_alone(task), source_first.with_found_class(task, found)):
        assert torch.equal(own.source.edge_weight, weight)

"""Mini-batches: draws against exact distributions, and full batch as a limit.

Sampled operators and the sampled modularity are compared with those of the whole graph.
"""

from __future__ import annotations

import itertools
from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from conftest import make_task, within_errors
from scipy.stats import chisquare
from tasks import DENSE_GRAPH, ENCODERS, SPARSE_GRAPH, biased_encoder, tiny_method
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from graphgym_srnc import methods
from graphgym_srnc.backbones import Graph, batches, dense, infer
from graphgym_srnc.backbones.sampling import draw_neighbours, neighbourhoods
from graphgym_srnc.losses.modularity import modularity_loss, sampled_modularity_loss
from graphgym_srnc.train import trainer

IN_BATCHES = [name for name in methods.names() if methods.find(name).in_batches]
DRAWING = ("srnc", "srnc_plus", "mmd")  # methods whose losses draw nodes at each step
EDGED = [kind for kind in ENCODERS if kind in ("gcnconv", "sageconv", "gatconv")]


def small(num_nodes: int = 30, seed: int = 0) -> Graph:
    """A connected graph with degrees from 2 to about 12."""
    edges = np.array(nx.barabasi_albert_graph(num_nodes, 2, seed=seed).edges).T
    x = torch.rand(num_nodes, 5, generator=torch.Generator().manual_seed(seed))
    return Graph(Data(x=x, edge_index=to_undirected(torch.from_numpy(edges))), "none")


# ---- draws ----


@pytest.mark.parametrize("degree, fanout", [(6, 3), (6, 1)])
def test_subsets_are_uniform(degree, fanout):
    indptr = torch.tensor([0, 4, 4 + degree])
    _, entry = draw_neighbours(indptr, torch.ones(20000, dtype=torch.long), fanout)
    count = Counter(map(tuple, entry.view(-1, fanout).sort(1).values.tolist()))
    every = list(itertools.combinations(range(4, 4 + degree), fanout))
    times = [count[subset] for subset in every]
    assert chisquare(times).pvalue > 1e-4 and sum(times) == 20000


# ---- operators ----


@pytest.mark.parametrize(
    "kind, weighted", [("gcn", True), ("mean", False), ("raw", True), ("loops", False)]
)
def test_a_drawn_operator_is_right_on_average(kind, weighted):
    graph = small(25)
    if weighted and kind != "loops":
        upper = torch.rand(25, 25, generator=torch.Generator().manual_seed(1))
        row, column = graph.adjacency("raw").entries
        graph = graph.reweighted((upper + upper.T).numpy()[row, column])
    exact = dense(graph.adjacency(kind))
    nodes = torch.tensor([4, 0, 17, 24])
    near = neighbourhoods(graph)
    draws = []
    for _ in range(100):
        block, needed = near.block(kind, nodes, 3)
        drawn = torch.zeros(len(nodes), 25)
        drawn[:, needed] = dense(block.adjacency)
        assert torch.equal(needed[block.outputs], nodes)
        draws.append(drawn)
    assert within_errors(torch.stack(draws), exact[nodes])
    block, needed = near.block(kind, nodes, 0)
    assert torch.allclose(dense(block.adjacency), exact[nodes][:, needed], atol=1e-6)


@pytest.mark.parametrize("kind", EDGED)
def test_a_view_with_all_neighbours_is_the_exact_one(kind, layers=3, data=SPARSE_GRAPH):
    graph = Graph(data, "none")
    nodes = torch.tensor([80, 3, 3, 0])
    model = biased_encoder(kind, layers=layers, skip=True)
    with torch.no_grad():
        for exact, drawn in zip(
            model.embed(model.view(graph, nodes)), model.embed(model.sample(graph, nodes, 0))
        ):
            assert torch.allclose(exact, drawn, atol=1e-5)


@pytest.mark.parametrize("data", [DENSE_GRAPH, SPARSE_GRAPH], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", ENCODERS)
def test_inference_by_layers_is_exact(kind, data, monkeypatch):
    graph = Graph(data, "none")
    model = biased_encoder(kind, layers=3, skip=kind != "dgi").train()
    for chunk in (batches.CHUNK, 64):
        monkeypatch.setattr(batches, "CHUNK", chunk)
        found = infer(model, graph)
        assert not model.training
        assert torch.allclose(found, model(model.view(graph)).detach(), atol=1e-5)


# ---- modularity ----


def graph_and_posterior(num_nodes: int, clusters: int = 4) -> tuple[Graph, torch.Tensor]:
    logits = 2 * torch.randn(num_nodes, clusters, generator=torch.Generator().manual_seed(1))
    return small(num_nodes, seed=3), logits.requires_grad_()


def test_sampled_modularity_has_no_bias():
    graph, logits = graph_and_posterior(9)
    q = logits.softmax(1)
    ends = torch.from_numpy(np.stack(graph.adjacency("raw").entries)).long()
    count = ends.size(1)
    # Two edges drawn uniformly are every pair of edges as often as any other: the mean over all
    # pairs is the expectation.
    pairs = [ends[:, list(pair)] for pair in itertools.product(range(count), repeat=2)]
    mean = sum(sampled_modularity_loss(q[i], q[j], 1.5) for i, j in pairs) / len(pairs)
    exact = modularity_loss(q, graph.adjacency("raw"), graph.degree, 1.5)
    assert float((mean - exact).detach().abs()) < 1e-5
    gradients = [torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (mean, exact)]
    assert torch.allclose(*gradients, atol=1e-6) and float(gradients[1].abs().max()) > 1e-3


# ---- methods ----


@pytest.mark.parametrize("name", sorted(set(IN_BATCHES) - set(DRAWING)))
def test_one_batch_of_everything_is_full_batch(name, kind="gcnconv"):
    # Without dropout, draws of nodes and draws of neighbours nothing is left to chance.
    closed = {"two_graphs": True, "open_set": False, "oracle": False}
    task = make_task(**closed if name != "iid" else {})
    scores = []
    for options in ({}, {"batch_size": 1000, "fanout": 0}):
        method = tiny_method(name, kind, **options)
        method.encoder = biased_encoder(kind).spec.__class__(kind=kind, hidden=8, dropout=0.0)
        trainer.fit(method, task, max_episodes=1)
        scores.append(method.predict(task.target))
    assert torch.allclose(*scores, atol=1e-3)

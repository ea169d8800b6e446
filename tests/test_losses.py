"""Losses against networkx, scipy, PyG's dense layer and plain numpy."""

from __future__ import annotations

from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.stats import entropy
from torch_geometric.nn import DMoNPooling

from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.losses.alignment import align, alignment_cost, evidence_lower_bound, map_clusters
from graphgym_srnc.losses.modularity import (
    assortativity,
    collapse_loss,
    label_assortativity,
    modularity_loss,
    newman_resolution,
)

KARATE = nx.karate_club_graph()
RANDOM = nx.gnp_random_graph(60, 0.1, seed=1)


def matrices(graph: nx.Graph) -> tuple[Sparse, torch.Tensor]:
    a = nx.to_scipy_sparse_array(graph, weight=None, dtype=np.float32, format="csr")
    return Sparse(a), torch.from_numpy(a.sum(1))


def posterior(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).softmax(-1)


def test_assortativity_of_certain_classes_is_networkx(graph=KARATE):
    adjacency, degree = matrices(graph)
    label = np.random.RandomState(1).randint(0, 3, len(graph))
    labelled = nx.Graph(graph.edges)
    nx.set_node_attributes(labelled, dict(enumerate(label.tolist())), "label")
    wanted = nx.attribute_assortativity_coefficient(labelled, "label")
    p = torch.eye(3)[label]
    assert assortativity(p, adjacency, degree) == pytest.approx(wanted, abs=1e-5)
    assert assortativity(p, adjacency, degree, 0.5) == pytest.approx(4 * wanted, abs=1e-5)

    edges = torch.tensor([*graph.edges]).T
    both = torch.cat([edges, edges.flip(0)], 1)
    classes = torch.from_numpy(label)
    assert label_assortativity(both, degree, classes) == pytest.approx(wanted, abs=1e-5)
    assert label_assortativity(both, degree, only(classes, 0)) == 0


def test_modularity_gradient():
    a = torch.from_numpy(nx.to_numpy_array(KARATE, weight=None))
    logits = torch.from_numpy(np.random.RandomState(0).randn(len(KARATE), 3)).requires_grad_()

    def tripled(z: torch.Tensor) -> torch.Tensor:
        return 3 * modularity_loss(z.softmax(1), a, a.sum(1), 1.4)

    assert torch.autograd.gradcheck(tripled, logits)
    value = modularity_loss(logits.float().softmax(1), *matrices(KARATE), 1.4)
    ours = torch.autograd.grad(value, logits)[0]
    q = logits.softmax(1)
    d = a.sum(1)
    dense = -torch.trace(q.T @ (a - 1.4 * torch.outer(d, d) / d.sum()) @ q) / d.sum()
    assert torch.allclose(ours, torch.autograd.grad(dense, logits)[0], atol=1e-7)


def test_modularity_and_collapse_are_dmon():
    torch.manual_seed(0)
    pool = DMoNPooling(8, 4)
    x = torch.randn(len(RANDOM), 8)
    q, _, _, spectral, _, cluster = pool(x, torch.from_numpy(nx.to_numpy_array(RANDOM)).float())
    q = q[0].detach()
    found = modularity_loss(q, *matrices(RANDOM)).item(), collapse_loss(q).item()
    assert found == pytest.approx((spectral.item(), cluster.item()), abs=1e-6)


def labelled_graph(
    p_in: float, p_out: float, seed: int = 0
) -> tuple[nx.Graph, torch.Tensor, torch.Tensor, np.ndarray]:
    """An SBM, its edges in both directions, degrees, and labels."""
    chances = [[p_in if a == b else p_out for a in range(3)] for b in range(3)]
    graph = nx.stochastic_block_model([40, 30, 20], chances, seed=seed)
    edges = torch.tensor([(u, v) for u, v in graph.edges] + [(v, u) for u, v in graph.edges]).T
    degree = torch.tensor([float(graph.degree[v]) for v in range(90)])
    return graph, edges, degree, np.repeat([0, 1, 2], [40, 30, 20])


def only(classes: torch.Tensor, *nodes: int) -> torch.Tensor:
    """Classes ``[V]`` of some nodes, -1 for the others."""
    return torch.full_like(classes, -1).index_copy(0, torch.tensor(nodes), classes[list(nodes)])


def test_newman_resolution_is_brute_force():
    graph, edges, degree, label = labelled_graph(0.3, 0.03)
    nodes = np.random.RandomState(0).choice(90, 50, replace=False)
    known = {int(v): label[v] for v in nodes}
    inside = [known[u] == known[v] for u, v in combinations(known, 2) if graph.has_edge(u, v)]
    volume = np.array([sum(graph.degree[v] for v in known if known[v] == c) for c in range(3)])
    h = np.mean(inside)
    e = sum((volume / volume.sum()) ** 2)
    expected = (h / e - (1 - h) / (1 - e)) / np.log((h / e) / ((1 - h) / (1 - e)))
    classes = torch.from_numpy(label)
    ours = newman_resolution(edges, degree, only(classes, *nodes.tolist()))
    assert ours == pytest.approx(expected, rel=1e-5) and expected > 0

    # There is no edge, or no sign of homophily, or no edge between classes.
    assert newman_resolution(edges[:, :0], degree, classes) == 1
    assert newman_resolution(edges, degree, only(classes, 0, 41)) == 1
    _, mixed, degree, _ = labelled_graph(0.02, 0.3)
    assert newman_resolution(mixed, degree, classes) == 1
    _, split, degree, _ = labelled_graph(0.3, 0.0)
    assert newman_resolution(split, degree, classes) == 1


def test_alignment_cost_is_scipys_entropy():
    p = posterior(12, 3)
    q = posterior(12, 5, seed=1)
    cost = alignment_cost(p, q.log()).numpy()
    p = p.double().numpy()
    q = q.double().numpy()
    for k in range(5):
        for n in range(3):
            # scipy scales both columns to sum to one.
            scipys = entropy(p[:, n], q[:, k]) + np.log(p[:, n].sum() / q[:, k].sum())
            assert cost[k, n] == pytest.approx(scipys, abs=1e-5)
    # A class without mass costs nothing.
    assert (alignment_cost(torch.zeros(12, 1).double(), torch.from_numpy(q).log()) == 0).all()


def test_align_is_brute_force(clusters=5, classes=3):
    cost = torch.rand(clusters, classes, generator=torch.Generator().manual_seed(0))

    def total(chosen: tuple) -> float:
        return sum(float(cost[k, n]) for n, k in enumerate(chosen))

    best = min(permutations(range(clusters), classes), key=total)
    mapping, mean = align(cost)
    assert mapping.tolist() == [best.index(k) if k in best else classes for k in range(clusters)]
    assert mean == pytest.approx(total(best) / classes, abs=1e-6)


def test_map_clusters_adds_probabilities(mapping=(2, 0, 2, 1, 2), outputs=3):
    q = posterior(7, len(mapping))
    expected = np.stack([q.numpy()[:, np.array(mapping) == n].sum(1) for n in range(outputs)], 1)
    found = map_clusters(torch.tensor(mapping), outputs)(q.log()).exp().numpy()
    assert np.allclose(found, expected, atol=1e-6)


def test_saturated_posterior_keeps_its_gradient():
    logits = torch.tensor([[200.0, 0.0, -200.0, 0.0]], requires_grad=True)
    log_c = map_clusters(torch.tensor([0, 1, 2, 2]), 3)(logits.log_softmax(1))
    (-log_c[0, 2]).backward()
    assert torch.isfinite(log_c).all() and torch.isfinite(logits.grad).all()
    assert logits.grad[0].tolist() == pytest.approx([1, 0, 0, -1], abs=1e-6)


def test_evidence_lower_bound():
    q = posterior(8, 4)
    p = posterior(8, 4, seed=1)
    expected = np.mean([-entropy(a, b) for a, b in zip(q.double().numpy(), p.double().numpy())])
    found = float(evidence_lower_bound(q.log(), p.log()))
    assert found == pytest.approx(expected, abs=1e-6) and expected < 0
    assert float(evidence_lower_bound(q.log(), q.log())) == 0
    hard = torch.eye(4)[torch.arange(8) % 4]
    assert torch.isfinite(evidence_lower_bound(hard.log(), p.log()))

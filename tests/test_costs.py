"""Counts of operations, which do not depend on the machine: a regression of speed fails here."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse
import torch
from conftest import make_graph

from graphgym_srnc import ERM, PGL, SRNC, SRNCPlus
from graphgym_srnc.backbones import Batches, EncoderSpec, build, prepare
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.losses.alignment import map_clusters

KNOWN = {
    # estimator, and its most gradient steps and sparse products per step
    "ERM": (ERM(steps=30), 60, 1.1),
    "PGL": (PGL(), 1100, 2.0),
    "SRNC": (SRNC(rounds=2), 410, 1.6),
    "SRNCPlus": (SRNCPlus(rounds=2), 2900, 0.7),
}


@pytest.fixture
def counts(monkeypatch):
    """Numbers of gradient steps and of sparse products since the test began."""
    found = {"steps": 0, "products": 0}
    step = torch.optim.Adam.step
    product = Sparse.__matmul__

    def counted_step(self, *args, **options):
        found["steps"] += 1
        return step(self, *args, **options)

    def counted_product(self, dense):
        found["products"] += 1
        return product(self, dense)

    monkeypatch.setattr(torch.optim.Adam, "step", counted_step)
    monkeypatch.setattr(Sparse, "__matmul__", counted_product)
    return found


@pytest.mark.parametrize("name", KNOWN)
def test_a_fit_takes_no_more_steps_and_products_than_before(name, counts):
    estimator, steps, products = KNOWN[name]
    graph = make_graph(num_nodes=120, num_features=40)
    graph.train_mask = torch.arange(120) < 60
    graph.y[60:] = -1
    estimator.fit(graph)
    assert steps / 2 < counts["steps"] <= steps
    assert counts["products"] <= products * counts["steps"]


def operations(function) -> Counter:
    """How often a function calls each operation of torch."""
    with torch.profiler.profile() as profile:
        function()
    return Counter({event.key: event.count for event in profile.key_averages()})


def test_a_product_prepares_no_gradient_of_its_own():
    matrix = Sparse(scipy.sparse.random_array((30, 20), density=0.2, dtype=np.float32))
    dense = torch.ones(20, 4, requires_grad=True)
    found = operations(lambda: (matrix @ dense).sum().backward())
    assert found["aten::_embedding_bag"] == 0
    assert found["aten::_embedding_bag_forward_only"] == 2


def test_classes_of_a_single_cluster_are_not_summed():
    log_q = torch.randn(50, 9).log_softmax(1).requires_grad_()
    mapped = map_clusters(torch.tensor([0, 1, 2, 3, 3, 4, 5, 5, 5]), 6)
    found = operations(lambda: mapped(log_q).sum().backward())
    assert found["LogsumexpBackward0"] == 2
    assert found["aten::index_select"] == 1


@pytest.mark.parametrize(("size", "views"), [(60, 1), (59, 12)])
def test_batches_of_all_nodes_share_one_view(size, views):
    graph = prepare(make_graph(), "row")
    encoder = build(EncoderSpec(kind="mlp", hidden=4), graph.num_features, 3)
    batches = Batches(encoder, graph, [torch.arange(60)], size)
    drawn = [batches()[0] for _ in range(12)]
    assert len({id(view) for view in drawn}) == views

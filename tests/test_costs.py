"""Counts of operations, which do not depend on the machine: a regression of speed fails here."""

from __future__ import annotations

import pytest
import torch
from conftest import make_graph

from graphgym_srnc import ERM, PGL, SRNC, SRNCPlus
from graphgym_srnc.backbones.sparse import Sparse

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

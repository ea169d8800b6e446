"""The random forest of SRNC+, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph
from graphgym_srnc.methods.shared import forest as module
from graphgym_srnc.methods.shared.forest import PRIOR, Forest
from graphgym_srnc.methods.shared.training import Term


def numbers(count: int = 400, width: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Features ``[V, F]``, and classes that follow from the signs of two of them, ``[V]``."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(count, width))).float()
    return x, 2 * (x[:, 0] > 0).long() + ((x[:, 0] > 0) == (x[:, 1] > 0)).long()


def graph_of(x: torch.Tensor) -> Graph:
    return Graph(Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long)), "l2")


@pytest.mark.parametrize("is_sparse", [False, True])
def test_it_predicts_as_the_trees_of_scikit_learn(is_sparse):
    x, y = numbers()
    if is_sparse:
        x = x.where(torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.1, 0.0)
    nodes = torch.arange(0, 400, 2)
    forest = Forest(6, 5)
    graph = graph_of(x.to_sparse_coo().coalesce() if is_sparse else x)
    forest.fit([Term("source", graph, nodes, y[nodes])])

    oracle = RandomForestClassifier(module.TREES, max_depth=20, max_samples=200, random_state=0)
    oracle.fit(x[nodes].numpy(), y[nodes].numpy(), sample_weight=np.ones(200))
    mean = np.pad(oracle.predict_proba(x.numpy()), ((0, 0), (0, 1)))  # no node is of class 4
    wanted = (module.TREES * mean + PRIOR / 5) / (module.TREES + PRIOR)
    np.testing.assert_allclose(forest.logits(graph).exp().numpy(), wanted, atol=1e-6)


def test_it_reads_numbers_before_rows_are_scaled():
    x, y = numbers()
    nodes = torch.arange(0, 400, 2)
    forest = Forest(6, 4)
    forest.fit([Term("source", graph_of(x), nodes, y[nodes])])
    longer = x * torch.linspace(1, 2, 400)[:, None]
    rest = torch.arange(1, 400, 2)
    assert (forest.logits(graph_of(x)).argmax(1) == y)[rest].float().mean() > 0.9
    assert not torch.equal(forest.logits(graph_of(longer)), forest.logits(graph_of(x)))


def test_terms_weigh_the_same_whatever_their_size():
    x = torch.zeros(420, 1)
    few, many = torch.arange(20), torch.arange(20, 420)
    labels = torch.zeros(20, dtype=torch.long), torch.ones(400, dtype=torch.long)
    graph = graph_of(x)
    forest = Forest(1, 2)
    forest.fit([Term("labels", graph, few, labels[0]), Term("pseudo", graph, many, labels[1])])
    assert float(forest.logits(graph)[0].exp()[0]) == pytest.approx(0.5, abs=0.1)
    nodes = torch.cat([few, many])
    weights = torch.cat([torch.ones(20), torch.full((400,), 0.05)])
    one = Term("labels", graph, nodes, torch.cat(labels), node_weights=weights)
    forest.fit([one])
    assert float(forest.logits(graph)[0].exp()[0]) == pytest.approx(0.5, abs=0.1)
    forest.fit([one._replace(node_weights=None)])
    assert float(forest.logits(graph)[0].exp()[0]) < 0.2


def test_it_reads_the_features_that_most_nodes_have(monkeypatch):
    monkeypatch.setattr(module, "COLUMNS", 2)
    x, y = numbers()
    x[::2, 0] = 0
    x[::3, 3:] = 0
    forest = Forest(6, 4)
    forest.fit([Term("source", graph_of(x), torch.arange(400), y)])
    assert forest.columns.tolist() == [1, 2]


def test_a_loaded_forest_predicts_the_same():
    x, y = numbers()
    graph = graph_of(x)
    forest = Forest(6, 4)
    forest.fit([Term("source", graph, torch.arange(300), y[:300])])
    other = Forest(6, 4)
    other.load_state_dict(forest.state_dict())
    assert torch.equal(other.logits(graph), forest.logits(graph))
    for name in ("roots", "branches", "feature", "columns"):
        for wrong in (-1, 10**9):
            state = {key: value.clone() for key, value in forest.state_dict().items()}
            state[name].view(-1)[-1] = wrong
            with pytest.raises(ValueError, match="random forest"):
                other.load_state_dict(state)

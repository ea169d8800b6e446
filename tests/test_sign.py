"""Hop features against dense numpy, and their reduction against numpy's decomposition."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from graphgym_srnc import backbones
from graphgym_srnc.backbones import sign
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sign import HopFeatures
from graphgym_srnc.backbones.sparse import Sparse

SPEC = backbones.EncoderSpec(kind="sign", hidden=8, features="none")


def graph(num_features: int, density: float = 1.0, num_nodes: int = 310) -> Graph:
    """A random graph; its features have 20 strong directions and noise in the others."""
    draw = np.random.default_rng(0)
    strong = draw.normal(size=(num_nodes, 20)) @ draw.normal(size=(20, num_features))
    x = strong + draw.normal(size=(num_nodes, num_features))
    x = x * (draw.uniform(size=x.shape) < density)
    edge_index = to_undirected(torch.from_numpy(draw.integers(0, num_nodes, (2, 4 * num_nodes))))
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    return Graph(Data(x=torch.from_numpy(x).float(), edge_index=edge_index), "none")


def normalised(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def hops(of: Graph, x: np.ndarray) -> np.ndarray:
    """Features and their means over one and two hops, in dense algebra."""
    a = np.zeros((len(x), len(x)))
    a[tuple(of.data.edge_index.numpy())] = 1
    mean = a / np.maximum(a.sum(1, keepdims=True), 1)
    return np.concatenate([normalised(part) for part in (x, mean @ x, mean @ mean @ x)], 1)


def test_few_features_are_kept():
    given = graph(30)
    features = HopFeatures(30)
    features.fit(given)
    assert np.allclose(features(given).numpy(), hops(given, given.data.x.numpy()), atol=1e-5)
    assert features(given) is features(given)


@pytest.mark.parametrize("density", [1.0, 0.05], ids=["dense", "sparse"])
def test_many_features_are_reduced_as_by_numpys_decomposition(density):
    given = graph(320, density)
    assert isinstance(given.x, Sparse) == (density < 1)
    features = HopFeatures(320)
    features.fit(given)
    v = features.components.double().numpy()
    assert v.shape == (320, 256) and np.allclose(v.T @ v, np.eye(256), atol=1e-4)

    x = given.data.x.double().numpy()
    singular = np.linalg.svd(x, compute_uv=False)
    least = (singular[256:] ** 2).sum() ** 0.5
    error = np.linalg.norm(x - x @ v @ v.T)
    assert least < error < 1.1 * least
    assert np.allclose(features(given).numpy(), hops(given, x @ v), atol=1e-4)


@pytest.mark.parametrize("density", [1.0, 0.05], ids=["dense", "sparse"])
def test_large_graphs_have_hop_features_of_16_bits(density, monkeypatch):
    """And a sample of the nodes reduces the features of all nearly as well."""
    given = graph(320, density, num_nodes=2000)
    features = HopFeatures(320)
    features.fit(given)
    exact = features(given)
    monkeypatch.setattr(sign, "LARGE", 1000)
    sampled = HopFeatures(320)
    sampled.fit(given)
    x = given.data.x.double().numpy()
    errors = [
        np.linalg.norm(x - x @ v @ v.T)
        for v in (own.components.double().numpy() for own in (features, sampled))
    ]
    assert errors[0] < errors[1] < 1.5 * errors[0]

    sampled.components.copy_(features.components)
    assert sampled(given).dtype == torch.half
    torch.testing.assert_close(sampled(given).float(), exact, rtol=1e-3, atol=1e-3)
    model = backbones.build(dataclasses.replace(SPEC, base=sampled), 320, 3).eval()
    plain = backbones.build(dataclasses.replace(SPEC, base=features), 320, 3).eval()
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        wanted = plain(plain.view(given))
        torch.testing.assert_close(model(model.view(given)), wanted, rtol=0.01, atol=0.01)


def test_a_loaded_encoder_reduces_features_alike():
    given = graph(320)
    spec = backbones.pretrained(SPEC, given)
    model = backbones.build(spec, 320, 3).eval()
    assert model.base is spec.base and model.base.components.any()
    assert backbones.build(spec, 320, 3).base is model.base

    other = backbones.build(SPEC, 320, 3).eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(other(other.view(given)), model(model.view(given)))


def test_a_pickled_encoder_predicts_the_same():
    given = graph(30)
    model = backbones.build(backbones.pretrained(SPEC, given), 30, 3).eval()
    with torch.no_grad():
        wanted = model(model.view(given))
        for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert not twin.base.cached and torch.equal(twin(twin.view(given)), wanted)

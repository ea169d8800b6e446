"""Weights of training nodes against scikit-learn's definitions, in every method that reads them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import make_graph, make_task, refused
from sklearn.utils.class_weight import compute_sample_weight
from tasks import task_for, tiny_estimator, tiny_method
from torch.nn import functional as F

from graphgym_srnc import api
from graphgym_srnc.api.weights import weighted
from graphgym_srnc.methods.shared.training import cross_entropy

WEIGHING = sorted(cls.__name__ for cls in api.estimators().values() if cls._method.weighs_labels)
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("hardly_pretrained"),
]
COUNTS = torch.arange(90) % 3


def test_whole_weights_are_repeated_nodes():
    logits = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(90) % 4
    repeated = logits.repeat_interleave(COUNTS, 0), labels.repeat_interleave(COUNTS)
    found = cross_entropy(logits, labels, COUNTS.float())
    assert torch.allclose(found, F.cross_entropy(*repeated), atol=1e-6)
    assert torch.equal(cross_entropy(logits, labels, None), F.cross_entropy(logits, labels))


@pytest.mark.parametrize("name", WEIGHING)
def test_a_method_follows_the_weights_of_its_labels(name):
    """With all weight on one class more nodes are predicted as this class.

    Later episodes of some methods learn pseudo-labels, too.
    """
    task = task_for(name)
    task = task.oracle if name == "IID" else task
    settings = {"dropout": 0.0, "lr": 0.1, "random_state": 0, "max_episodes": 0}
    numbers = {"steps": 8, "pretrain_steps": 8}
    settings |= {
        key: numbers[key] for key in numbers.keys() & tiny_estimator(name).get_params().keys()
    }
    only = torch.where(task.source.y == 1, 1.0, 0.0)
    shares = []
    for weight in (None, only):
        model = tiny_estimator(name, **settings)
        given = task_for(name) if name == "IID" else task
        model.fit(given, sample_weight=weight)
        p = model.predict_proba(task.target)
        shares.append(p[:, 1] / (p[:, 0] + p[:, 1]))
    assert shares[1].mean() > shares[0].mean() + 0.05


def test_weight_0_is_no_label():
    graph = make_graph()
    every = torch.arange(90)
    graph.train_mask = every < 40
    weight = np.where(every < 30, 1.0, 0.0)
    fewer = graph.clone()
    fewer.train_mask = every < 30
    options = {"dropout": 0.0, "open_set": False, "steps": 30, "selection": "last"}
    p = tiny_estimator("ERM", **options).fit(graph, sample_weight=weight).predict_proba(graph)
    np.testing.assert_allclose(
        p, tiny_estimator("ERM", **options).fit(fewer).predict_proba(graph), atol=1e-4
    )


@pytest.mark.parametrize("given", ["balanced", {0: 3.0, 2: 0.5}])
def test_class_weights_are_scikit_learns(given):
    graph = make_graph()
    every = torch.arange(90)
    graph.train_mask = (every < 60) & ((every % 3 == 0) | (every < 20))
    train = graph.train_mask.numpy()
    weight = np.ones(90)
    own = 0.5 + COUNTS.numpy()
    weight[train] = compute_sample_weight(given, graph.y.numpy()[train])
    options = {"open_set": False, "steps": 10, "batch_size": 16, "max_episodes": 0}
    one = tiny_estimator("ERM", class_weight=given, **options).fit(graph, sample_weight=own)
    other = tiny_estimator("ERM", **options).fit(graph, sample_weight=own * weight)
    np.testing.assert_allclose(one.predict_proba(graph), other.predict_proba(graph), atol=1e-4)
    plain = tiny_estimator("ERM", **options).fit(graph, sample_weight=own)
    assert np.abs(plain.predict_proba(graph) - other.predict_proba(graph)).max() > 1e-3
    named = graph.clone()
    named.y = np.array([*"abc"])[graph.y.numpy()]
    words = given if given == "balanced" else {"abc"[key]: value for key, value in given.items()}
    again = tiny_estimator("ERM", class_weight=words, **options).fit(named, sample_weight=own)
    np.testing.assert_array_equal(again.predict_proba(named), one.predict_proba(graph))


def test_equal_weights_are_none():
    task = make_task()
    given = tiny_method("erm"), task, [0, 1]
    assert weighted(*given, np.full(90, 2.0), None) is task
    assert weighted(*given, np.arange(90.0), None) is not task


def test_wrong_weights_are_refused():
    task = make_task()
    model = tiny_estimator("ERM")
    for weight, words in (
        (np.ones(89), "shape"),
        (np.full(90, -1.0), "negative"),
        (np.full(90, np.nan), "NaN"),
        (["a"] * 90, "not a list of numbers"),
        (np.zeros(90), "above 0"),
    ):
        assert words in str(refused("sample_weight", model.fit, task, sample_weight=weight))
    for given in ("even", {0: -1.0}, {"7": 1.0}, 3.0):
        refused("class_weight", tiny_estimator("ERM", class_weight=given).fit, task)
    refused("sample_weight", tiny_estimator("SRNCPlus").fit, task, sample_weight=np.ones(90))
    refused("class_weight", tiny_estimator("DOC", class_weight="balanced").fit, task)

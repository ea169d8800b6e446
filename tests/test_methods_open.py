"""DOC, OpenWGL and G2Pxy: the terms of their losses, their options, and an easy graph."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from tasks import started_method, synthetic_task
from torch.distributions import Normal

from graphgym_srnc.losses.openness import doc_thresholds, logit_spread
from graphgym_srnc.methods import doc, g2pxy, nodesafe, openwgl


@pytest.fixture
def rng() -> np.random.RandomState:
    return np.random.RandomState(0)


# ---- DOC ----


def test_one_against_rest_is_brute_force(rng):
    logits = rng.randn(9, 3)
    label = np.array([0, 0, 0, 0, 1, 1, 2, 1, 0])
    expected = 0.0
    for i in range(9):
        for c in range(3):
            p = expit(logits[i, c])
            positive = (label == c).sum()
            weight = (9 - positive) / positive
            expected -= weight * math.log(p) if label[i] == c else math.log(1 - p)
    found = doc.one_against_rest(torch.tensor(logits), torch.tensor(label), balanced=True)
    assert float(found) == pytest.approx(expected / 9)


def test_doc_confidence(smoothing=2):
    task = synthetic_task()
    method = started_method("doc", task, episodes=1, smoothing=smoothing)
    scores = method.predict(task.target)
    p = method.logits(task.target).sigmoid()
    # Restart 0.1 over the symmetric operator, each classifier's yes over its yes and no.
    adjacency = method.target.adjacency("gcn").matrix.toarray()
    yes = p.numpy()
    no = 1 - p.numpy()
    for _ in range(smoothing):
        yes, no = (
            0.9 * adjacency @ now + 0.1 * first
            for now, first in ((yes, p.numpy()), (no, 1 - p.numpy()))
        )
    p = torch.tensor(yes / (yes + no))
    cut = doc_thresholds(p[task.train], task.source.y[task.train])
    assert torch.allclose(scores[:, :2].sigmoid(), p, atol=1e-5)
    assert torch.allclose(method.confidence(scores), (p - cut).amax(1), atol=1e-5)
    method.threshold.zero_()
    assert torch.equal(method.decide(scores) == 2, (scores[:, :2].sigmoid() < cut).all(1))


# ---- NODESafe ----


def test_nodesafe_penalises_the_spread_of_logits_after_the_warm_up():
    method = started_method("nodesafe", synthetic_task(), weight=2.0).eval()
    method.steps_done = nodesafe.WARMUP
    assert method.losses().keys() == {"source"}
    method.steps_done = nodesafe.WARMUP + 1
    spread = logit_spread(method.classifier(method.on_source)).item()
    assert method.losses()["spread"].item() == pytest.approx(2 * spread) and spread > 0


# ---- OpenWGL ----


def test_openwgl_kl_is_torchs(rng):
    mean = torch.tensor(rng.randn(5, 4))
    log_sigma = torch.tensor(rng.randn(5, 4))
    given = Normal(mean, log_sigma.exp())
    standard = Normal(0.0, 1.0)
    expected = torch.distributions.kl_divergence(given, standard).mean()
    assert float(openwgl.kl_divergence(mean, log_sigma)) == pytest.approx(float(expected))


def test_openwgl_edge_loss_is_brute_force(rng):
    z = rng.randn(6, 3)
    edges = rng.randint(6, size=(2, 7))
    others = rng.randint(6, size=(2, 7))
    losses = [-math.log(expit(z[i] @ z[j])) for i, j in edges.T]
    losses += [-math.log(1 - expit(z[i] @ z[j])) for i, j in others.T]
    found = openwgl.edge_loss(torch.tensor(z), torch.tensor(edges), torch.tensor(others))
    assert float(found) == pytest.approx(np.mean(losses))


def test_openwgl_uncertainty_is_brute_force(rng):
    logits = np.concatenate([rng.randn(30, 4), np.zeros((1, 4))])
    p = softmax(logits, 1)
    chosen = [row for row in p if 1 / 4 < row.max() < 0.5]
    assert 0 < len(chosen) < 30
    expected = np.mean([sum(q * math.log(q) for q in row) for row in chosen])
    assert float(openwgl.uncertainty_loss(torch.tensor(logits))) == pytest.approx(expected)
    assert float(openwgl.uncertainty_loss(torch.randn(50, 2))) == 0


# ---- G2Pxy ----


def test_g2pxy_losses_are_brute_force(rng):
    logits = rng.randn(8, 4)
    label = rng.randint(3, size=8)
    masked = []
    for row, y in zip(logits, label):
        kept = np.delete(row, y)
        masked.append(math.log(np.exp(kept).sum()) - row[3])
    found = g2pxy.masked_cross_entropy(torch.tensor(logits), torch.tensor(label))
    assert float(found) == pytest.approx(np.mean(masked))
    expected = -np.log(softmax(logits, 1)[:, 3]).mean()
    assert float(g2pxy.unknown_cross_entropy(torch.tensor(logits))) == pytest.approx(expected)

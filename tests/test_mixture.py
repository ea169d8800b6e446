"""Weights of several classifiers and their temperature, against grids and properties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

from graphgym_srnc.losses.calibration import temperature
from graphgym_srnc.losses.mixture import log_linear_weights


def classifiers(*signals: float, size: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """Log posteriors ``[M, n, 3]`` that know the class by so much, and the classes."""
    draw = np.random.default_rng(0)
    label = draw.integers(0, 3, size)
    logits = [s * np.eye(3)[label] + draw.normal(size=(size, 3)) for s in signals]
    return torch.from_numpy(log_softmax(logits, 2)), torch.from_numpy(label)


def objective(weight: np.ndarray, log_p: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The mean log-likelihood with the prior, as written, of weights ``[..., 2]``."""
    mixed = log_softmax(np.tensordot(weight, log_p, 1), -1)
    size = len(label)
    prior = 3 / size * ((weight - 1 / 2) ** 2).sum(-1)
    return mixed[..., np.arange(size), label].mean(-1) - prior


@pytest.mark.parametrize("signals", [(2.0, 1.0), (2.0, 0.0), (1.0, -1.0)])
def test_weights_have_the_largest_likelihood_of_a_grid(signals):
    log_p, label = classifiers(*signals)
    found = log_linear_weights(log_p, label).numpy()
    step = 0.02
    axis = np.arange(0, 3, step)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)
    values = objective(grid, log_p.numpy(), label.numpy())
    best = np.unravel_index(np.argmax(values), values.shape)
    assert found == pytest.approx(axis[list(best)], abs=step)
    assert objective(found, log_p.numpy(), label.numpy()) >= np.max(values) - 1e-6
    assert (found >= 0).all() and found[0] > found[1]


def test_weights_are_equal_without_information():
    log_p, label = classifiers(1.0, 1.0, 1.0)
    same = torch.full_like(log_p, -np.log(3))
    assert log_linear_weights(same, label).tolist() == pytest.approx([1 / 3] * 3)


def test_classifiers_that_are_always_wrong_keep_their_predictions():
    log_p, label = classifiers(-6.0, -6.0)
    weight = log_linear_weights(log_p, label)
    assert weight.tolist() == pytest.approx([0.005, 0.005])
    mixed = torch.tensordot(weight, log_p, 1)
    assert torch.equal(mixed.argmax(1), log_p.mean(0).argmax(1))


@pytest.mark.parametrize("accuracy", [0.45, 0.7, 0.95])
def test_temperature_gives_the_expected_accuracy(accuracy):
    (log_p,), _ = classifiers(1.5)
    found = temperature(log_p, accuracy)
    p = (log_p / found).softmax(1)
    assert float(p.amax(1).mean()) == pytest.approx(accuracy, abs=1e-5)
    assert torch.equal(p.argmax(1), log_p.argmax(1))

    def excess(log_t: float) -> float:
        return softmax(log_p.numpy() / np.exp(log_t), 1).max(1).mean() - accuracy

    assert np.log(found) == pytest.approx(brentq(excess, -4, 4), abs=1e-4)


@pytest.mark.parametrize("accuracy, log_bound", [(0.0, 4), (1.1, -4)])
def test_an_accuracy_that_no_temperature_gives_leads_to_a_bound(accuracy, log_bound):
    (log_p,), _ = classifiers(1.5)
    assert np.log(temperature(log_p, accuracy)) == pytest.approx(log_bound, abs=1e-5)

"""Prior correction and the estimates behind it, against scipy's optimiser, numpy and loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import kstest, norm
from test_methods import make, toy

from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.prior import (
    black_box_weights,
    em_prior,
    equal_ranks_p_value,
    known_share,
    posterior_correlation,
    unknown_share,
)
from graphgym_srnc.train import trainer

MEANS = np.array([-1.5, 0.0, 2.0])


def drawn(prior: list[float], size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes, and a figure of each that is normal about the mean of its class."""
    generator = np.random.default_rng(seed)
    label = generator.choice(len(MEANS), size, p=prior)
    return label, MEANS[label] + generator.normal(size=size)


def bayes(x: np.ndarray, prior: list[float]) -> torch.Tensor:
    joint = norm.pdf(x[:, None] - MEANS) * prior
    return torch.from_numpy(joint / joint.sum(1, keepdims=True))


def test_em_finds_the_prior_of_the_largest_likelihood():
    before, after = [0.6, 0.3, 0.1], [0.1, 0.3, 0.6]
    _, x = drawn(after, 4000, seed=0)
    p = bayes(x, before).numpy()

    def loss(free: np.ndarray) -> float:
        return -np.log(p @ (softmax(free) / before)).mean()

    expected = softmax(minimize(loss, np.zeros(3), tol=1e-10).x)
    found = em_prior(torch.from_numpy(p), torch.tensor(before))
    assert found.numpy() == pytest.approx(expected, abs=1e-3)
    assert found.numpy() == pytest.approx(after, abs=0.03)


def test_black_box_weights_solve_the_system():
    confusion = torch.tensor([[0.3, 0.05, 0.0], [0.05, 0.25, 0.05], [0.0, 0.1, 0.2]]).double()
    wanted = torch.tensor([0.4, 2.0, 0.7]).double()
    found = black_box_weights(confusion, confusion @ wanted)
    assert found.tolist() == pytest.approx(wanted.tolist())
    assert (black_box_weights(confusion, torch.tensor([1.0, 0.0, 0.0])) >= 0).all()


def test_known_share_is_the_best_bin():
    generator = np.random.default_rng(1)
    known = generator.beta(8, 2, 300)
    mixture = np.concatenate([generator.beta(8, 2, 350), generator.beta(2, 6, 150)])

    def bound(cut: float) -> tuple[float, float]:
        p, u = (known >= cut).mean(), (mixture >= cut).mean()
        slack = sum(math.sqrt(math.log(40) / 2 / n) for n in (300, 500))
        return (u / p + 1.01 / p * slack, u / p) if p else (math.inf, math.inf)

    expected = min(map(bound, np.concatenate([known, mixture])))[1]
    found = known_share(torch.from_numpy(known), torch.from_numpy(mixture))
    assert found == pytest.approx(expected)
    assert found == pytest.approx(0.7, abs=0.08)


def test_division_by_the_mean(smoothing=2):
    method = make("erm", smoothing=smoothing, correction="mean", correction_power=0.5)
    task = toy("close_set")
    trainer.fit(method, task)
    p = method.uncorrected(task.target).softmax(1).double().numpy()
    expected = p / p.mean(0) ** 0.5
    expected /= expected.sum(1, keepdims=True)
    assert method.predict(task.target).softmax(1).numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("correction", ["em", "bbse"])
def test_estimated_priors_weigh_the_classes(correction):
    """Of label shift alone, each estimate makes predictions better; the labels are never read."""
    method = make("erm", correction=correction)
    method.build(toy("close_set"))
    before, after = [0.6, 0.3, 0.1], [0.05, 0.25, 0.7]
    source_label, at_source = drawn(before, 3000, seed=2)
    label, at_target = drawn(after, 3000, seed=3)
    if correction == "em":
        method.learn_prior(torch.from_numpy(source_label))
    else:
        method.learn_confusion(bayes(at_source, before).log(), torch.from_numpy(source_label))
    scores = bayes(at_target, before).log()
    corrected = method.corrected(scores, method.estimated_weight(scores))
    right = [
        float((part.argmax(1).numpy() == label).mean())
        for part in (scores, corrected, bayes(at_target, after))
    ]
    assert right[0] + 0.03 < right[1] and right[1] == pytest.approx(right[2], abs=0.02)


def test_what_cannot_be_estimated_is_refused():
    task = toy("open_set")
    blank = replace(task, val=task.val[:0], scored=False)
    for option, value in (("correction", "bbse"), ("cut", "share")):
        with pytest.raises(InputError, match=f"erm.{option}"):
            trainer.fit(make("erm", **{option: value}), blank, selection="last")
    with pytest.raises(InputError, match="doc.correction"):
        make("doc", correction="mean")


def test_cut_by_share_reads_no_unknown_label():
    task, methods = toy("open_set", nodes=400, num_val=90), []
    known = task.val[task.target.y[task.val] < task.num_known]
    for val in (task.val, known):
        methods.append(make("erm", cut="share"))
        trainer.fit(methods[-1], replace(task, val=val), selection="last")
    assert methods[0].threshold == methods[1].threshold


def test_posterior_correlation_is_that_of_covariances():
    label, x = drawn([0.5, 0.3, 0.2], 500, seed=3)
    p, known = bayes(x, [0.5, 0.3, 0.2]), torch.from_numpy(label)
    one_hot = np.eye(3)[label]
    both = np.cov(p.numpy().T, one_hot.T)
    shared = np.trace(both[:3, 3:])
    wanted = shared / np.sqrt(np.trace(both[:3, :3]) * np.trace(both[3:, 3:]))
    assert posterior_correlation(p, known) == pytest.approx(wanted)
    right = torch.from_numpy(one_hot)
    assert posterior_correlation(right, known) == pytest.approx(1)
    assert posterior_correlation(0.1 * right + 0.3, known) == pytest.approx(1)
    assert posterior_correlation(torch.full((500, 3), 1 / 3), known) == pytest.approx(0, abs=1e-3)
    assert posterior_correlation(right, torch.zeros_like(known)) == 0
    assert posterior_correlation(right[:0], known[:0]) == 0


@pytest.mark.parametrize("low", [0.0, 0.3])
def test_equal_ranks_use_the_one_sided_distance_of_kolmogorov(low):
    ranks = np.random.default_rng(0).uniform(low, 1, 200)
    distance = kstest(ranks, "uniform", alternative="less").statistic
    found = equal_ranks_p_value(torch.from_numpy(ranks), torch.ones(200))
    assert found == pytest.approx(math.exp(-2 * 200 * distance**2))
    assert (found < 1e-6) == (low > 0)


def test_a_rank_of_weight_two_counts_as_two():
    draw = np.random.default_rng(0)
    ranks, weight = draw.uniform(0.2, 1, 100), draw.integers(1, 4, 100)
    twice = torch.from_numpy(np.repeat(ranks, weight))
    distance = kstest(twice.numpy(), "uniform", alternative="less").statistic
    count = weight.sum() ** 2 / (weight**2).sum()
    given = torch.from_numpy(ranks), torch.from_numpy(weight)
    assert equal_ranks_p_value(*given) == pytest.approx(math.exp(-2 * count * distance**2))
    # Only ratios of weights count, and certain nodes of large weight raise the known share.
    even = unknown_share(given[0], torch.ones(100), 5000)
    assert unknown_share(given[0], torch.full((100,), 3), 5000) == pytest.approx(even)
    assert unknown_share(given[0], 1 + 9 * (given[0] > 0.6), 5000) > even

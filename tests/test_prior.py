"""Prior correction and the estimates behind it, against scipy's optimiser, numpy and loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import chi2, kstest, norm
from tasks import synthetic_task, tiny_method

from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.prior import (
    black_box_weights,
    effective_number,
    em_prior,
    expected_labels,
    known_share,
    posterior_correlation,
    shares_differ,
    unknown_evidence,
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
    before = [0.6, 0.3, 0.1]
    after = [0.1, 0.3, 0.6]
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
        p = (known >= cut).mean()
        u = (mixture >= cut).mean()
        slack = sum(math.sqrt(math.log(40) / 2 / n) for n in (300, 500))
        return (u / p + 1.01 / p * slack, u / p) if p else (math.inf, math.inf)

    expected = min(map(bound, np.concatenate([known, mixture])))[1]
    found = known_share(torch.from_numpy(known), torch.from_numpy(mixture))
    assert found == pytest.approx(expected)
    assert found == pytest.approx(0.7, abs=0.08)


def test_division_by_the_mean(smoothing=2):
    method = tiny_method("erm", smoothing=smoothing, correction="mean", correction_power=0.5)
    task = synthetic_task("close_set")
    trainer.fit(method, task)
    p = method.uncorrected(task.target).softmax(1).double().numpy()
    expected = p / p.mean(0) ** 0.5
    expected /= expected.sum(1, keepdims=True)
    assert method.predict(task.target).softmax(1).numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("correction", ["em", "bbse"])
def test_estimated_priors_weigh_the_classes(correction):
    """Of label shift alone, each estimate makes predictions better; the labels are never read."""
    method = tiny_method("erm", correction=correction)
    method.build(synthetic_task("close_set"))
    before = [0.6, 0.3, 0.1]
    after = [0.05, 0.25, 0.7]
    source_label, at_source = drawn(before, 3000, seed=2)
    label, at_target = drawn(after, 3000, seed=3)
    if correction == "em":
        method.prior.learn(torch.from_numpy(source_label))
    else:
        method.prior.learn_confusion(bayes(at_source, before).log(), torch.from_numpy(source_label))
    scores = bayes(at_target, before).log()
    corrected = method.prior.corrected(scores, method.prior.weights(correction, scores), 1.0)
    right = [
        float((part.argmax(1).numpy() == label).mean())
        for part in (scores, corrected, bayes(at_target, after))
    ]
    assert right[0] + 0.03 < right[1] and right[1] == pytest.approx(right[2], abs=0.02)


def test_what_cannot_be_estimated_is_refused():
    task = synthetic_task("open_set")
    blank = replace(task, val=task.val[:0], scored=False)
    for option, value in (("correction", "bbse"), ("cut", "share")):
        with pytest.raises(InputError, match=f"erm.{option}"):
            trainer.fit(tiny_method("erm", **{option: value}), blank, selection="last")
    with pytest.raises(InputError, match="doc.correction"):
        tiny_method("doc", correction="mean")


def test_cut_by_share_reads_no_unknown_label():
    task = synthetic_task("open_set", nodes=400, num_val=90)
    methods = []
    known = task.val[task.target.y[task.val] < task.num_known]
    for val in (task.val, known):
        methods.append(tiny_method("erm", cut="share"))
        trainer.fit(methods[-1], replace(task, val=val), selection="last")
    assert methods[0].threshold == methods[1].threshold


def test_posterior_correlation_is_that_of_covariances():
    label, x = drawn([0.5, 0.3, 0.2], 500, seed=3)
    p = bayes(x, [0.5, 0.3, 0.2])
    known = torch.from_numpy(label)
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


def ranked(low: float, size: int = 200, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Ranks that are uniform above ``low``, and whether each node is predicted correctly."""
    draw = np.random.default_rng(seed)
    ranks = draw.uniform(low, 1, size).round(2)  # some are equal
    return torch.from_numpy(ranks), torch.from_numpy(draw.uniform(size=size) < 0.4 + ranks / 2)


def test_expected_labels_by_loops():
    p = np.random.default_rng(0).dirichlet([1, 2, 3], 20)
    labels = [0, 0, 2, 2, 2]  # the second class has none
    want = [
        sum(row[k] * labels.count(k) / sum(other[k] for other in p) for k in range(3)) for row in p
    ]
    got = expected_labels(torch.from_numpy(p), torch.tensor(labels))
    np.testing.assert_allclose(got.numpy(), want)
    assert float(got.sum()) == pytest.approx(len(labels))


@pytest.mark.parametrize("low", [0.0, 0.3])
def test_unknown_evidence_uses_the_one_sided_distance_of_kolmogorov(low):
    ranks, correct = ranked(low)
    distance = kstest(ranks.numpy(), "uniform", alternative="less").statistic
    found = unknown_evidence(ranks, torch.ones(200), correct)
    assert found.least_share == pytest.approx(distance)


@pytest.mark.parametrize("low", [0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_rank_is_the_nearest_to_the_share_of_those_with_almost_the_best_accuracy(low, seed):
    ranks, correct = ranked(low, 50, seed)
    found = unknown_evidence(ranks, torch.ones(50), correct)
    share = found.least_share
    known = 1 - share

    def per_node(rank: float) -> np.ndarray:
        """What each known node adds: 1 if right, -1 if it uses up a node that is called unknown."""
        return known * np.where(ranks < rank, -1.0, correct).astype(float)

    def accuracy(rank: float) -> float:
        return rank + per_node(rank).mean()

    tried = [0.0, *ranks[ranks <= 2 * share].tolist()]
    best = max(tried, key=accuracy)
    errors = {rank: (per_node(best) - per_node(rank)).std() / 50**0.5 for rank in tried}
    near = [rank for rank in tried if accuracy(best) - accuracy(rank) <= errors[rank] / 4 + 1e-12]
    wanted = min((rank for rank in near if rank or not best), key=lambda rank: abs(rank - share))
    assert found.rank == pytest.approx(wanted)
    assert found.accuracy == pytest.approx(accuracy(found.rank))
    assert found.error == pytest.approx(per_node(found.rank).std() / 50**0.5)
    gained = found.gained(ranks, correct)
    assert gained.numpy() == pytest.approx(found.rank + per_node(found.rank))


def test_accuracies_of_both_sides_of_the_rank_are_those_of_a_large_sample():
    """A third is unknown and ranks low, beside known nodes of which some rank low, too."""
    draw = np.random.default_rng(0)
    unknown = draw.normal(-2, 1, 10_000)
    known = draw.normal(2, 1, 20_000)
    correct = draw.random(20_000) < 0.8
    pool = np.sort(np.concatenate([unknown, known]))
    held_out = known[:2000]
    ranks = torch.from_numpy(np.searchsorted(pool, held_out) / len(pool))
    found = unknown_evidence(ranks, torch.ones(2000), torch.from_numpy(correct[:2000]))
    threshold = pool[round(found.rank * len(pool))]
    below = (unknown < threshold).sum()
    assert found.precision == pytest.approx(below / (pool < threshold).sum(), abs=0.03)
    above = (correct & (known >= threshold)).sum()
    assert found.known_accuracy == pytest.approx(above / (pool >= threshold).sum(), abs=0.03)


def test_a_few_labels_do_not_promise_that_all_nodes_below_the_rank_are_unknown():
    ranks = 0.3 + 0.7 * torch.arange(20) / 20
    found = unknown_evidence(ranks, torch.ones(20), torch.ones(20))
    assert found.rank == pytest.approx(0.3)
    assert 0.7 < found.precision < 0.95
    assert found.known_accuracy <= 1


def test_all_nodes_may_be_unknown():
    """Each held-out node ranks above all others, so that no known node seems to be among them."""
    found = unknown_evidence(torch.ones(5), torch.ones(5), torch.zeros(5))
    assert found.least_share == found.rank == 1
    assert found.known_accuracy == 0 and 0 < found.precision <= 1


def test_no_node_is_called_unknown_if_that_only_costs_accuracy():
    ranks = torch.linspace(0, 0.99, 100)
    found = unknown_evidence(ranks, torch.ones(100), torch.ones(100))
    assert found.rank == 0 and found.accuracy == pytest.approx(1, abs=0.02)


def test_at_most_twice_as_many_nodes_as_estimated_are_called_unknown():
    """No prediction is right, so nothing is lost by calling all nodes unknown."""
    ranks, _ = ranked(0.2, 100)
    found = unknown_evidence(ranks, torch.ones(100), torch.zeros(100))
    assert found.least_share < found.rank <= 2 * found.least_share < float(ranks.max())


def test_a_rank_of_weight_two_counts_as_two():
    ranks, correct = ranked(0.2, 100)
    weight = torch.from_numpy(np.random.default_rng(0).integers(1, 4, 100))
    found = unknown_evidence(ranks, weight, correct)
    repeated = ranks.repeat_interleave(weight)
    ones = torch.ones(len(repeated))
    twice = unknown_evidence(repeated, ones, correct.repeat_interleave(weight))
    assert (found.least_share, found.rank, found.accuracy) == pytest.approx(
        (twice.least_share, twice.rank, twice.accuracy)
    )
    count = float(weight.sum() ** 2 / (weight**2).sum())
    assert effective_number(weight) == pytest.approx(count)
    assert found.error == pytest.approx(twice.error * (len(repeated) / count) ** 0.5)
    assert unknown_evidence(ranks, 3 * weight, correct) == pytest.approx(found)


@pytest.mark.parametrize("accuracy", [0.6, 0.9])
def test_equal_shares_seldom_differ_and_others_do(accuracy):
    """Labels of equally many nodes of each class, against pools with and without these shares."""
    classes, each = 5, 20
    draw = np.random.default_rng(0)
    error = np.full((classes, classes), (1 - accuracy) / (classes - 1))
    np.fill_diagonal(error, accuracy)
    rates = []
    for prior in (np.full(classes, 0.2), np.array([0.1, 0.1, 0.15, 0.25, 0.4])):
        shares = torch.from_numpy(error @ prior)
        found = []
        for _ in range(400):
            confusion = np.stack([draw.multinomial(each, error[:, k]) for k in range(classes)], 1)
            found.append(shares_differ(torch.from_numpy(confusion), shares))
        rates.append(np.mean(found))
    assert rates[0] < 0.08 and rates[1] > 0.7


def test_the_variance_of_predicted_classes_is_that_of_errors():
    confusion = np.array([[18.0, 4, 1], [1, 15, 2], [1, 1, 17]])
    shares = np.array([0.3, 0.3, 0.4])
    labels = confusion.sum(0)
    variance = [
        sum(n * (m + 1 / 3) / (n + 1) * (1 - (m + 1 / 3) / (n + 1)) for m, n in zip(row, labels))
        for row in confusion
    ]
    statistic = 2 / 3 * sum((confusion.sum(1) - 60 * shares) ** 2 / variance)
    for size in (1.0, 1.5, 2.0, 3.0):
        moved = confusion.sum(1) / 60 + size * (shares - confusion.sum(1) / 60)
        differs = chi2.sf(size**2 * statistic, 2) < 0.05
        assert shares_differ(torch.from_numpy(confusion), torch.from_numpy(moved)) == differs

"""The test of unknown classes by low ranks, against scipy's binomial distribution and draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom, binomtest, kstest

from graphgym_srnc.losses.ranks import DRAWS, SHARES, least_detectable_share, low_rank_p_value

MANY = 10**6  # nodes of a pool that is as good as all nodes


def smallest_chance(ranks: np.ndarray) -> float:
    below = (ranks[:, None] < SHARES).sum(0)
    return float(binom.cdf(below, len(ranks), SHARES).min())


@pytest.mark.parametrize("count", [1, 6, 40])
@pytest.mark.parametrize("least", [0.0, 0.03, 0.15, 0.5])
def test_the_p_value_is_the_share_of_draws_with_as_few_low_ranks(count, least):
    ranks = least + (1 - least) * (np.arange(count) + 0.5) / count
    observed = smallest_chance(ranks)
    draw = np.random.default_rng(1)
    drawn = [smallest_chance(draw.random(count)) <= observed + 1e-9 for _ in range(300)]
    p_value = low_rank_p_value(torch.from_numpy(ranks), torch.ones(count), MANY)
    assert binomtest(sum(drawn), 300, p_value).pvalue > 0.001
    assert 1 / (DRAWS + 1) <= p_value <= 1


@pytest.mark.parametrize("smallest", [0.2, 1.0])
@pytest.mark.parametrize("count", [30, 250])
def test_p_values_of_uniform_ranks_are_uniform(count, smallest):
    draw = np.random.default_rng(0)
    weight = torch.linspace(smallest, 1, count)
    found = [
        low_rank_p_value(torch.from_numpy(draw.random(count)), weight, MANY) for _ in range(300)
    ]
    for level in (0.05, 0.3):
        below = int((np.array(found) <= level).sum())
        assert binomtest(below, 300, level).pvalue > 0.001


def test_it_shows_a_share_that_the_distance_of_kolmogorov_does_not():
    ranks = 0.05 + 0.95 * (np.arange(233) + 0.5) / 233
    assert low_rank_p_value(torch.from_numpy(ranks), torch.ones(233), MANY) < 0.001
    assert kstest(ranks, "uniform", alternative="less").pvalue > 0.1


def test_a_rank_of_weight_zero_does_not_count():
    ranks = torch.linspace(0.1, 1, 50)
    weight = torch.ones(50)
    more = torch.cat([ranks, torch.zeros(20)]), torch.cat([weight, torch.zeros(20)])
    assert low_rank_p_value(*more, MANY) == low_rank_p_value(ranks, weight, MANY)


@pytest.mark.parametrize("count", [40, 233, 2000])
def test_the_least_detectable_share_is_that_of_the_level(count):
    share = least_detectable_share(count, 0.025)
    for factor, is_shown in ((0.8, False), (1.25, True)):
        least = factor * share
        # All held-out nodes rank above the unknown ones, evenly.
        ranks = least + (1 - least) * (torch.arange(count) + 0.5) / count
        assert (low_rank_p_value(ranks, torch.ones(count), MANY) <= 0.025) == is_shown


def test_equal_calls_give_equal_p_values_and_leave_random_draws_alone():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    ranks = torch.linspace(0.1, 1, 77)
    first = low_rank_p_value(ranks, torch.ones(77), MANY)
    assert first == low_rank_p_value(ranks, torch.ones(77), MANY)
    assert torch.equal(state, torch.get_rng_state())


def test_p_values_in_a_small_pool_are_uniform_or_larger():
    draw = np.random.default_rng(0)
    found = []
    for _ in range(200):
        pool = np.sort(draw.random(60))
        ranks = np.searchsorted(pool, draw.random(300)) / 60
        found.append(low_rank_p_value(torch.from_numpy(ranks), torch.ones(300), 60))
    assert (np.array(found) <= 0.05).mean() < 0.1

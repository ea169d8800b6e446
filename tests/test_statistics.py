"""Statistics of repeated runs against enumeration, worked examples and other libraries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from pandas import DataFrame

from graphgym_srnc.report import statistics

# Demšar (JMLR 2006), table 6: AUC in 1/1000 of four trees (plain, with m, with cf, with both) on 14
# data sets. On the last but one the third and the fourth are printed alike, but ranked 2 and 3.
TREES = """
763 768 771 798  599 591 590 569  954 971 968 967  628 661 654 657  882 888 886 898
936 931 916 931  661 668 609 685  583 583 563 625  775 838 866 875  1000 1000 1000 1000
940 962 965 962  619 666 614 669  972 981 975.5 975  957 978 946 970
""".split()
DEMSAR = {
    row: dict(enumerate(float(score) / 1000 for score in TREES[number::4]))
    for number, row in enumerate(("plain", "m", "cf", "both"))
}


def test_an_interval_is_students():
    values = [0.70, 0.72, 0.75, 0.78, 0.80]
    theirs = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert statistics.interval(values, 0.9) == pytest.approx(tuple(theirs))
    assert all(map(math.isnan, statistics.interval([0.5])))
    assert statistics.interval([0.5] * 2) == (0.5, 0.5)


def test_pairs_are_the_common_units_and_equal_differences_tie():
    assert 0.9 - 0.8 != 0.55 - 0.45
    ours = [0.9, 0.55, 0.5, math.nan, 0.3]
    theirs = [0.8, 0.45, math.nan, 0.1, 0.1]
    index = pd.MultiIndex.from_tuples([("x", unit) for unit in "abcdb"], names=["column", "unit"])
    first, second = statistics.gaps(DataFrame({"a": ours, "b": theirs}, index), "a", "b")
    assert first == pytest.approx(0.1) and second == pytest.approx(0.15)
    first, second = statistics.gaps(DataFrame({"a": ours, "b": theirs}, index)[:4], "a", "b")
    assert first == second


def signed_rank_p(differences: list[float]) -> float:
    """Wilcoxon's two-sided p by all signs of the ranks of what is not zero."""
    values = [value for value in differences if value]
    ranks = scipy.stats.rankdata(np.abs(values))
    seen = sum(rank for rank, value in zip(ranks, values) if value > 0)
    sums = [
        sum(rank for rank, sign in zip(ranks, signs) if sign)
        for signs in itertools.product((0, 1), repeat=len(values))
    ]
    above = sum(s >= seen - 1e-9 for s in sums)
    below = sum(s <= seen + 1e-9 for s in sums)
    return min(1.0, 2 * min(above, below) / len(sums))


@pytest.mark.parametrize("seed", [2, 3])
def test_wilcoxon_is_exact_with_ties_and_zeros(seed):
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0.01, 0.02, 5 + seed), 2 if seed % 2 else 6).tolist()
    assert statistics.p_value(values) == pytest.approx(signed_rank_p(values))


def test_tests_on_worked_examples():
    darwin = [6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75]
    assert statistics.p_value(darwin) == pytest.approx(0.041259765625)
    t = np.mean(darwin) * math.sqrt(15) / np.std(darwin, ddof=1)
    assert (
        statistics.p_value(darwin, "t")
        == pytest.approx(2 * scipy.stats.t.sf(t, 14))
        == pytest.approx(0.0497, abs=5e-5)
    )
    tied = [0.01, 0.01, -0.02, 0.03, 0.03, 0.04, 0.0] * 5
    approximate = scipy.stats.wilcoxon(tied, method="asymptotic", correction=True).pvalue
    assert statistics.p_value(tied) == pytest.approx(approximate, rel=0.2)


def test_tests_of_what_cannot_be_tested():
    for test in statistics.TESTS:
        assert math.isnan(statistics.p_value([], test))
        assert math.isnan(statistics.p_value([0.1], test))
        assert statistics.p_value([0.0] * 5, test) == 1
    for tests, alpha in itertools.product((1, 3, 7), (0.05, 0.01)):
        n = statistics.least_pairs(tests, "wilcoxon", alpha)
        few, enough = (statistics.p_value([0.1] * pairs) * tests for pairs in (n - 1, n))
        assert enough <= alpha < few
        assert statistics.p_value([0.1] * statistics.least_pairs(tests, "t", alpha), "t") == 0
    assert math.isnan(statistics.mean([])) and statistics.mean_std([0.3]) == (0.3, 0.0)


def test_holm():
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    nan = math.nan
    assert statistics.holm([0.02, nan, 0.5]) == pytest.approx([0.04, nan, 0.5], nan_ok=True)
    assert statistics.holm([]) == [] and statistics.holm([0.7, 0.6]) == [1, 1]
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = np.random.default_rng(0).uniform(0, 0.2, 9).tolist()
    assert statistics.holm(p) == pytest.approx(multitest.multipletests(p, method="holm")[1])


def test_ranks_of_demsar():
    table = DataFrame(DEMSAR)
    ranks = statistics.mean_ranks(table)
    assert ranks == pytest.approx(
        {"plain": 3.143, "m": 2.000, "cf": 2.893, "both": 1.964}, abs=5e-4
    )
    assert statistics.mean_ranks(table, less=True)["m"] == pytest.approx(3)


def test_critical_differences_of_demsars_table():
    for k, q in ((2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)):
        difference = statistics.critical_difference(k, 20)
        assert difference == pytest.approx(q * math.sqrt(k * (k + 1) / 120), abs=1e-3)


def test_blocks_that_rows_have_in_common():
    whole = [0.5] * 10
    nan = math.nan
    few = [0.5] + [nan] * 9
    nine = [nan] + [0.5] * 9
    other = [nan, 0.5] + [nan] * 8
    for scores, rows, blocks in (
        ({"a": whole, "b": whole, "few": few}, ["a", "b"], range(10)),
        ({"a": whole, "b": whole, "nine": nine}, ["a", "b", "nine"], range(1, 10)),
        ({}, [], []),
    ):
        found = statistics.common_blocks(DataFrame(scores))
        assert [*found] == rows and [*found.index] == [*blocks]
    assert not len(statistics.common_blocks(DataFrame({"a": few, "b": other})))

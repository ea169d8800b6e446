"""Statistics of repeated runs: spread, intervals, paired tests, ranks over data sets.

Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7 (2006), is the source
unless another is named.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Sequence

import numpy as np

from graphgym_srnc.io.stats import mean, mean_std

if TYPE_CHECKING:
    from pandas import DataFrame

TESTS = {"wilcoxon": "Wilcoxon's signed-rank test", "t": "paired t-test"}

# Rounding of scores and differences before they are ranked: 0.9 - 0.8 and 0.55 - 0.45 tie.
DECIMALS = 10
# Minimum number of blocks for the tests of ranks. Their p-values are approximations for many
# blocks: of 4 blocks and 3 equal rows, Friedman's test finds p <= 0.05 in 6.9 % of all cases. With
# fewer pairs, a t-test rarely finds a difference, so it does not show that rows are alike.
LEAST_BLOCKS = 6


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Both ends of Student's interval of the mean; NaN of fewer than 2 values.

    Args:
        values: one score or difference per run, ``[n]``.
        confidence: share of such intervals that contain the true mean, if values are about normal.
    """
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return math.nan, math.nan
    centre, std = mean_std(values)
    half = float(t.ppf((1 + confidence) / 2, n - 1)) * std / math.sqrt(n - 1)
    return centre - half, centre + half


def gaps(scores: DataFrame, row: str, other: str) -> list[float]:
    """Row minus another one on each common unit, rounded so that equal differences tie.

    Args:
        scores: a column per row and a line per block; levels ``column`` and ``unit`` of the index
            name the unit of a block. Blocks of one unit are no independent observations, so the
            difference of a unit is the mean over its blocks.
        row, other: columns of ``scores``.
    """
    found = (scores[row] - scores[other]).dropna()
    units = found.groupby(level=["column", "unit"], sort=False).agg(mean)
    return [round(value, DECIMALS) for value in units]


def p_value(differences: Sequence[float], test: str = "wilcoxon") -> float:
    """Two-sided p that paired differences come from a distribution around zero.

    Wilcoxon's signed-rank test (Biometrics Bulletin, 1945) drops zeros and is exact up to 13 pairs,
    without ties up to 50. Its smallest p is :math:`2^{1-n}`. The t-test, for differences that are
    about normal, is :math:`t = \\bar d \\sqrt n / s` with n - 1 degrees of freedom.

    Args:
        differences: one per split, ``[n]``; p is NaN if n is less than 2.
        test: one of ``TESTS``.
    """
    from scipy.stats import permutation_test, rankdata, ttest_1samp, wilcoxon

    if len(differences) < 2:
        return math.nan
    if not any(differences):
        return 1.0
    if test == "t":  # which can say nothing of differences without any spread
        return 0.0 if len(set(differences)) == 1 else float(ttest_1samp(differences, 0).pvalue)
    values = np.array([value for value in differences if value])
    ranks = rankdata(np.abs(values))
    if len(values) > 13 or len(np.unique(ranks)) == len(ranks):
        return float(wilcoxon(differences).pvalue)
    # scipy's wilcoxon does the same, but calls Python for each of 2^n signs, which takes seconds.
    return float(
        permutation_test(
            (values,),
            lambda signed, axis: (ranks * (signed > 0)).sum(axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        ).pvalue
    )


def least_pairs(tests: int, test: str, alpha: float) -> int:
    """The fewest pairs with which Holm's corrected p of a number of tests can be at most alpha."""
    return 1 + math.ceil(math.log2(max(1, tests) / alpha)) if test == "wilcoxon" else 2


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction (Scandinavian Journal of Statistics, 1979) of a family of tests.

    The i-th smallest of m p-values becomes :math:`\\max_{j \\le i} \\min(1, (m - j + 1) p_{(j)})`.
    NaN (not tested) is no part of the family and stays NaN.
    """
    values = np.array(p, dtype=float)
    order = values.argsort()[: np.isfinite(values).sum()]  # NaN comes last
    factors = np.arange(len(order), 0, -1)
    values[order] = np.maximum.accumulate(np.minimum(factors * values[order], 1.0))
    return values.tolist()


def common_blocks(scores: DataFrame) -> DataFrame:
    """The rows to rank on their common blocks, chosen so that most scores are kept.

    A row with few blocks is left out rather than all blocks but its own, and a block that one row
    lacks is left out rather than the row.

    Args:
        scores: a column per row and a line per block (a split of a data set, or a data set); NaN
            where a score is missing.
    """
    counts = scores.notna().sum()
    best = scores.iloc[:0, :0]
    for least in sorted(set(counts), reverse=True):
        found = scores.loc[:, counts >= least].dropna()
        best = found if found.size > best.size else best
    return best


def mean_ranks(scores: DataFrame, less: bool = False) -> dict[str, float]:
    """Mean rank of each row over blocks, 1 = best; tied rows share the mean of their ranks.

    Args:
        scores: a column per row and a line per block, without missing scores.
        less: whether a lower score is better.
    """
    return scores.round(DECIMALS).rank(axis=1, ascending=less).mean().to_dict()


def critical_difference(rows: int, blocks: int, alpha: float = 0.05) -> float:
    r"""Nemenyi's critical difference :math:`q_\alpha \sqrt{k(k+1) / 6N}` of mean ranks.

    :math:`q_\alpha` is the studentised range for k groups and infinite degrees of freedom, divided
    by :math:`\sqrt 2`.

    Args:
        rows: k, at least 2.
        blocks: N.
        alpha: probability that any two of k equal rows differ significantly.
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - alpha, rows, math.inf)) / math.sqrt(2)
    return q * math.sqrt(rows * (rows + 1) / (6 * blocks))

"""Label propensity: the statistic by pairs of nodes, its p-values and ranks, and its use."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import within_errors
from torch_geometric.data import Data

import graphgym_srnc
from graphgym_srnc.backbones.sign import HOPS
from graphgym_srnc.losses.ranks import low_rank_p_value
from graphgym_srnc.methods.shared import propensity
from graphgym_srnc.methods.shared.plan import Judged, promises_more
from graphgym_srnc.methods.shared.propensity import Contrast, Propensity
from graphgym_srnc.train import model as models

WIDTH = 4
FEW = {"hidden": 16, "steps": 25, "fit_steps": 5, "cluster_steps": 5, "open_set": True, "lr": 0.03}


def drawn(seed: int, count: int = 400, unknown: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Hop features of nodes, the first of which are unknown, and 60 known nodes with labels."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(count, (1 + HOPS) * WIDTH, generator=random)
    hidden = round(unknown * count)
    x[:hidden, 1] += 4.0
    return x, hidden + torch.randperm(count - hidden, generator=random)[:60]


def contrast_of(x: torch.Tensor, labelled: torch.Tensor, weight: torch.Tensor | None = None):
    pool = torch.tensor(np.setdiff1d(np.arange(len(x)), labelled))
    return Contrast(x, labelled, torch.ones(len(labelled)) if weight is None else weight, pool)


def by_pairs(x: np.ndarray, weight: np.ndarray, is_pool: np.ndarray, ridge: float) -> float:
    """The statistic from the kernel of each pair of different nodes."""
    own = x - x.mean(0)
    covariance = own.T @ own / len(own)
    inverse = np.linalg.inv(
        covariance + ridge * np.trace(covariance) / len(covariance) * np.eye(x.shape[1])
    )
    kernel = own @ inverse @ own.T
    np.fill_diagonal(kernel, 0)
    first = weight / weight.sum()
    second = is_pool / is_pool.sum()
    squared = sum(part @ kernel @ part / (1 - part @ part) for part in (first, second))
    way = inverse @ (own.T @ (first - second))
    return (squared - 2 * first @ kernel @ second) / np.sqrt(way @ covariance @ way)


def test_the_statistic_is_that_of_all_pairs_of_different_nodes():
    x, labelled = drawn(0, unknown=0.2)
    weight = torch.rand(60, generator=torch.Generator().manual_seed(1))
    weight[:5] = 0  # neither labelled nor unlabelled
    made = contrast_of(x.double(), labelled, weight.double())
    found = made._statistics(made.weight[None], made.is_pool[None])[:, 0]
    kept = np.r_[labelled[5:], np.setdiff1d(np.arange(400), labelled)]
    weights = np.r_[weight[5:], np.zeros(340)]
    expected = [
        by_pairs(x[kept, :width].double().numpy(), weights, weights == 0, ridge)
        for width in (WIDTH, 3 * WIDTH)
        for ridge in propensity.RIDGES
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_p_values_are_uniform_without_unknown_nodes(monkeypatch, draws=120):
    monkeypatch.setattr(propensity, "DRAWS", 99)
    values = torch.tensor([contrast_of(*drawn(seed)).p_value() for seed in range(draws)])
    for level in (0.1, 0.5):
        assert within_errors((values <= level).double(), torch.tensor(level), errors=3.5)


def test_without_unlabelled_nodes_there_is_no_sign():
    x, _ = drawn(0)
    assert contrast_of(x, torch.arange(len(x))).p_value() == 1
    assert contrast_of(x, torch.arange(len(x) - 1)).p_value() == 1


def test_ranks_are_uniform_without_unknown_nodes(draws=60):
    """Though the classifier learned that the other nodes have no label."""
    ranks = []
    for seed in range(draws):
        x, labelled = drawn(seed, count=150)
        ranks.append(contrast_of(x, labelled).ranks(labelled[:20]))
    assert within_errors(torch.cat(ranks).double(), torch.tensor(0.5))


def test_unknown_nodes_are_found_and_score_low():
    x, labelled = drawn(0, unknown=0.2)
    made = contrast_of(x, labelled)
    assert made.p_value() == 1 / (1 + propensity.DRAWS)
    model = Propensity(x.size(1))
    pool = torch.tensor(np.setdiff1d(np.arange(400), labelled))
    for left_out in (labelled[:30], labelled[:0]):
        made.fit(model, left_out)
        assert model(x)[pool].std() == pytest.approx(1, rel=1e-4)
    score = model(x)
    assert (score[:80, None] < score[None, 80:]).double().mean() > 0.95
    assert low_rank_p_value(made.ranks(labelled), torch.ones(60), 10**6) < 0.001
    assert not model.direction[WIDTH:].any()  # hop features would add noise


def of_two_numbers(hidden: bool) -> tuple[Data, torch.Tensor]:
    """Classes by one number, an unknown one beside them by another, and random links."""
    random = np.random.default_rng(0)
    y = random.integers(0, 4, 600)
    x = random.normal(size=(600, 6))
    x[:, 0] += 3 * (y % 3)
    x[:, 1] += 4 * (y == 3)
    known = (y < 3) if hidden else np.ones(600, bool)
    labelled = random.permutation(np.flatnonzero(known))[:120]
    given = np.full(600, -1)
    given[labelled] = y[labelled]
    edges = torch.tensor(random.integers(0, 600, (2, 900)))
    edge_index = torch.cat([edges, edges.flip(0)], 1)
    data = Data(x=torch.tensor(x).float(), edge_index=edge_index, y=torch.tensor(given))
    data.train_mask = data.y >= 0
    return data, torch.tensor(y)


@pytest.mark.filterwarnings("ignore::graphgym_srnc.ShiftWarning")
def test_an_unknown_class_without_links_of_its_own_is_found(tmp_path):
    data, y = of_two_numbers(hidden=True)
    model = graphgym_srnc.SRNCPlus(**FEW).fit(data)
    plan = model.method_.plan
    assert plan.by_propensity and plan.is_clear
    found = torch.as_tensor(model.predict(data)) == -1
    rest = ~data.train_mask
    assert found[rest & (y == 3)].double().mean() > 0.8
    assert found[rest & (y < 3)].double().mean() < 0.1
    model.save(tmp_path / "model.safetensors")
    loaded = models.load(tmp_path / "model.safetensors")
    assert torch.equal(loaded.method.predict(data), model.method_.predict(data))


@pytest.mark.filterwarnings("ignore::graphgym_srnc.ShiftWarning")
def test_without_an_unknown_class_it_is_not_used():
    data, _ = of_two_numbers(hidden=False)
    model = graphgym_srnc.SRNCPlus(**FEW).fit(data)
    assert not model.method_.plan.by_propensity


def test_a_confidence_promises_more_for_both_shares_or_not_at_all(count=1000):
    """One that calls more nodes unknown than there seem to be promises more for one of them."""
    correct = torch.ones(count)
    weight = torch.ones(count)
    even = (torch.arange(count) + 0.5) / count
    sharp = Judged(0.2 + 0.8 * even, weight, correct)  # a fifth of the nodes has lower scores
    dull = Judged(torch.where(even < 0.1, 2 * even, (0.7 + 8 * even) / 9 + 0.03), weight, correct)
    assert promises_more(sharp, dull) and not promises_more(dull, sharp)
    assert not promises_more(sharp, sharp)
    wrong = Judged(sharp.ranks, weight, correct * 0)
    assert promises_more(dull, wrong) and not promises_more(wrong, dull)
    many = Judged(0.4 + 0.6 * even, weight, correct)
    few = Judged(0.2 + 0.8 * even, weight, correct)
    assert not promises_more(many, few) and not promises_more(few, many)

"""Held-out labels and the mixtures that they judge, against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tasks import Known

from graphgym_srnc.losses.prior import black_box_weights
from graphgym_srnc.methods.shared.cross_fit import (
    Fold,
    HeldOut,
    cross_fit,
    folds,
)


def test_each_label_is_held_out_once():
    train = torch.arange(100, 147)
    labels = torch.arange(47) % 4
    seen = []

    def fit(nodes, classes):
        seen.append((nodes, classes))
        return Known(torch.zeros(1, 1, 4))

    torch.manual_seed(0)
    made = cross_fit(fit, train, labels, 47)
    assert sorted(torch.cat([fold.held_out for fold in made]).tolist()) == train.tolist()
    assert len(made) == 5
    for fold, (nodes, classes) in zip(made, seen):
        both = torch.cat([fold.train, fold.held_out])
        assert sorted(both.tolist()) == train.tolist()
        assert torch.equal(fold.train, nodes) and torch.equal(fold.labels, classes)
        assert torch.equal(fold.held_out_labels, labels[fold.held_out - 100])
        assert torch.equal(fold.labels, labels[fold.train - 100])
        counts = fold.held_out_labels.bincount(minlength=4)
        assert counts.max() - counts.min() <= 1  # each class is divided evenly

    torch.manual_seed(0)
    few = cross_fit(fit, train, labels, 15)
    assert len(few) == 2 and torch.equal(few[1].held_out, made[1].held_out)


def test_some_labels_are_in_no_fold():
    labels = torch.arange(60) % 3
    always = torch.arange(60) >= 40
    fold = folds(labels, 5, always)
    assert (fold[always] == -1).all() and {*fold[~always].tolist()} == {*range(5)}
    seen = []
    made = cross_fit(
        lambda nodes, classes: seen.append(nodes) or Known(torch.zeros(1, 60, 3)),
        torch.arange(60),
        labels,
        40,
        always,
    )
    assert len(made) == 5 and torch.cat([one.held_out for one in made]).sort().values.tolist() == [
        *range(40)
    ]
    assert all(torch.isin(torch.arange(40, 60), nodes).all() for nodes in seen)


@pytest.mark.parametrize("flat", [1.0, 5.0])
def test_probabilities_of_held_out_labels_are_as_large_as_their_accuracy(flat):
    found = held_out()
    log_p = [own / flat for own in found.log_p]
    out = found.out_of_fold(log_p)
    right = sum(
        int(own[node].argmax() == label)
        for own, fold in zip(log_p, found.folds)
        for node, label in zip(fold.held_out, fold.held_out_labels)
    )
    assert float(out.log_p.exp().amax(1).mean()) == pytest.approx(right / 17, abs=1e-3)
    assert float(out.correct.sum()) == right
    assert out.log_p.logsumexp(1).abs().max() < 1e-5


@pytest.mark.parametrize("sharpness, is_used", [(4.0, True), (0.3, False), (0.0, False)])
def test_a_forest_takes_part_if_it_makes_labels_clearly_likelier(sharpness, is_used):
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (200,), generator=draw)
    signal = torch.nn.functional.one_hot(labels, 3).float()
    log_p = torch.randn(3, 200, 3, generator=draw)
    log_p[:2] += signal
    log_p[2] += sharpness * signal
    log_p = log_p.log_softmax(2)
    nodes = torch.arange(200)
    found = {}
    for count, with_forest in ((3, True), (3, False), (2, False)):
        fold = Fold(Known(log_p[:count], with_forest), nodes[:0], labels[:0], nodes, labels)
        found[count, with_forest] = HeldOut([fold], None, 3).weight
    if is_used:
        assert torch.equal(found[3, True], found[3, False]) and found[3, True][2] > 0.1
    else:
        assert torch.equal(found[3, True][:2], found[2, False]) and found[3, True][2] == 0


def test_ranks_among_nodes_of_some_classes():
    found = held_out()
    scores = [torch.rand(40, generator=torch.Generator().manual_seed(k)) for k in range(2)]
    pool = torch.arange(16, 40)
    classes = torch.tensor([0, 2])
    ranks = found.ranks(scores, pool, classes)
    expected = []
    for score, log_p, fold in zip(scores, found.log_p, found.folds):
        others = [float(score[i]) for i in pool if int(log_p[i].argmax()) in (0, 2)]
        expected += [np.mean([o < float(score[i]) for o in others]) for i in fold.held_out]
    assert ranks.tolist() == pytest.approx(expected)
    assert not torch.equal(ranks, found.ranks(scores, pool))


def test_a_random_sample_is_divided_as_it_was_drawn():
    labels = torch.repeat_interleave(torch.arange(4), torch.tensor([100, 60, 30, 10]))
    draw = np.random.default_rng(0)
    torch.manual_seed(0)
    first = torch.stack([folds(labels, 5) == 0 for _ in range(400)]).double()
    assert set(first.sum(1).tolist()) == {40.0}
    of_class = first[:, :100].sum(1)
    expected = draw.hypergeometric(100, 100, 40, 4000)
    assert of_class.mean() == pytest.approx(20, abs=0.6)
    assert of_class.std() == pytest.approx(expected.std(), rel=0.15)


def held_out(num_folds: int = 2, num_nodes: int = 40, counts=(9, 3, 4)) -> HeldOut:
    """Two folds of two random classifiers, judged by labels of three classes."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    order = torch.randperm(len(labels), generator=draw)
    folds = []
    for part in order.chunk(num_folds):
        log_p = torch.randn(2, num_nodes, len(counts), generator=draw)
        log_p[0, part, labels[part]] += 1  # the first classifier is better
        rest = order[~torch.isin(order, part)]
        known = Known(log_p.log_softmax(2))
        folds.append(Fold(known, rest, labels[rest], part, labels[part]))
    return HeldOut(folds, None, len(counts))


def test_all_mixtures_have_the_weights_that_held_out_labels_chose():
    found = held_out()
    assert found.weight[0] > found.weight[1]
    for fold in found.folds:
        assert torch.equal(fold.evidence.weight, found.weight)
    right = [
        int(log_p[node].argmax() == label)
        for fold, log_p in zip(found.folds, found.log_p)
        for node, label in zip(fold.held_out, fold.held_out_labels)
    ]
    assert found.correct(found.log_p).tolist() == right and 0 < sum(right) < len(right)


def test_the_gnn_is_judged_alone_on_the_labels_that_it_did_not_learn():
    found = held_out()
    right = [
        int(fold.evidence.log_p[0, node].argmax() == label)
        for fold in found.folds
        for node, label in zip(fold.held_out, fold.held_out_labels)
    ]
    assert found.out_of_fold(found.log_p).gnn.tolist() == right and 0 < sum(right) < len(right)


def test_ranks_are_shares_of_the_pool_with_lower_scores():
    found = held_out()
    pool = torch.arange(16, 40)
    scores = [torch.randn(40).round(decimals=1) for _ in found.folds]
    wanted = [
        float((score[pool] < score[node]).float().mean())
        for fold, score in zip(found.folds, scores)
        for node in fold.held_out
    ]
    assert found.ranks(scores, pool).tolist() == pytest.approx(wanted)


def sampled(per_class: tuple[int, ...], in_pool: tuple[int, ...]) -> tuple[HeldOut, torch.Tensor]:
    """One fold whose classifier is right nine times in ten, and a pool of classes ``in_pool``."""
    draw = np.random.default_rng(0)
    label = np.concatenate([np.repeat(np.arange(3), size) for size in (per_class, in_pool)])
    other = draw.integers(0, 3, len(label))
    predicted = np.where(draw.uniform(size=len(label)) < 0.9, label, other)
    log_p = torch.from_numpy(np.log(np.eye(3)[predicted] * 0.9 + 0.05))[None]
    count = sum(per_class)
    held = torch.arange(count)
    labels = torch.from_numpy(label[:count])
    fold = Fold(Known(log_p.float()), held[:0], labels[:0], held, labels)
    return HeldOut([fold], None, 3), torch.arange(count, len(label))


def test_labels_drawn_per_class_are_weighted_by_the_ratio_of_shares():
    found, pool = sampled((60, 60, 60), (500, 300, 100))
    ratio = found.class_ratios(pool)
    assert ratio.tolist() == pytest.approx([5 / 3, 1, 1 / 3], abs=0.15)
    predicted = found.log_p[0].argmax(1)
    confusion = np.zeros((3, 3))
    for k, j in zip(predicted[:180].tolist(), found.labels.tolist()):
        confusion[k, j] += 1 / 180
    shares = predicted[pool].bincount(minlength=3) / len(pool)
    exact = black_box_weights(torch.from_numpy(confusion), shares)
    assert ratio.tolist() == pytest.approx(exact.tolist(), abs=1e-4)


@pytest.mark.parametrize(
    "per_class, in_pool",
    [((60, 60, 60), (300, 300, 300)), ((100, 60, 20), (500, 300, 100))],
    ids=["equal shares", "labels drawn at random"],
)
def test_other_labels_have_equal_weights(per_class, in_pool):
    found, pool = sampled(per_class, in_pool)
    assert found.class_ratios(pool).tolist() == [1] * 3

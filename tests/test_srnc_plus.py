"""SRNC+: log-odds, label density, weights and thresholds against oracles."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from graphgym_srnc.methods.shared.held_out import HeldOut
from test_methods_universal import universal

from graphgym_srnc import methods
from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.losses.prior import known_share, unknown_share
from graphgym_srnc.methods.shared import first_scores
from graphgym_srnc.methods.shared.cluster_gnn import log_softmax
from graphgym_srnc.methods.shared.training import Term
from graphgym_srnc.methods.srnc_plus import SRNCPlus, lower_threshold
from graphgym_srnc.shifts import synthetic
from graphgym_srnc.train import source_first, trainer

SPEC = EncoderSpec(hidden=16, features="auto")
LONG = {"steps": 200, "fit_steps": 60, "cluster_steps": 60}
"""What it takes to find the unknown class."""

PAIR = {"mode": "close_set", "num_features": 60, "class_imbalance": 1.0}
"""Settings of two graphs."""


def make(**options) -> SRNCPlus:
    """A method that learns for few steps."""
    few = {"steps": 40, "fit_steps": 10, "cluster_steps": 10}
    return SRNCPlus(**{"encoder": SPEC, "rounds": 2} | few | options)


def started(task: ShiftTask, **options) -> SRNCPlus:
    """A method after episode 0."""
    method = make(**options)
    method.start(task.blind())
    return method


def own(seed: int = 0, **changes) -> ShiftTask:
    """One graph, one of its five classes masked."""
    settings = {
        **{"num_nodes": 500, "num_classes": 5, "num_unseen": 1, "num_features": 80},
        **{"avg_degree": 12.0, "homophily": 0.9, "signal": 0.5, "class_imbalance": 1.0},
        **{"split_seed": seed, "num_val": 60, "num_test": 200},
    }
    return synthetic.build(**settings | changes)


def test_log_odds_are_propagated_as_written(few=4):
    task = own()
    of_first = task.source.y[task.train] == 0
    task = dataclasses.replace(
        task, train=torch.cat([task.train[of_first][:few], task.train[~of_first]])
    )
    method = started(task, missing=0.0)
    logits = method.logits(task.target)[:, : task.num_known].double()
    shares = np.bincount(task.source.y[task.train].numpy())
    p = torch.softmax(logits, 1).numpy() / shares
    p = (p / p.sum(1, keepdims=True)).max(1)
    odds = np.log(p / np.maximum(1 - p, 1e-6))

    edges = task.target.edge_index.numpy()
    adjacency = np.eye(task.target.num_nodes)
    adjacency[edges[0], edges[1]] = adjacency[edges[1], edges[0]] = 1
    degree = adjacency.sum(1)
    adjacency /= np.sqrt(np.outer(degree, degree))
    wanted = odds
    for _ in range(10):
        wanted = 0.9 * (adjacency @ wanted) / adjacency.sum(1) + 0.1 * odds

    confidence = method.confidence(method.uncorrected(task.target))
    assert np.allclose(confidence.numpy(), wanted, atol=1e-3)


def test_labels_are_missing_where_a_class_has_none():
    task = own()
    method, target = started(task), task.target
    p = method.logits(target)[:, : task.num_known].double().softmax(1).numpy()
    label = task.source.y[task.train].numpy()
    expected = p @ (np.bincount(label) / p.sum(0))

    wanted = []
    for cluster in method.first.density.clusters:
        q = cluster.log_posterior(method.target).double().exp().numpy()
        found = np.array([sum(q[j, c] for j in task.train.tolist()) for c in range(q.shape[1])])
        due = np.array(
            [sum(q[j, c] * expected[j] for j in range(len(q))) for c in range(q.shape[1])]
        )
        wanted.append(q @ np.log((1 + found) / (1 + due)))
    density = method.first.density(method.first.posteriors(target))
    assert len(wanted) == 4 and np.allclose(density.numpy(), np.mean(wanted, 0), atol=1e-4)

    unknown = target.y == task.num_known
    assert float(density[unknown].quantile(0.9)) < 0 < float(density[~unknown].mean())
    method.first.weight = 0.0
    plain = method.confidence(method.uncorrected(target))
    method.first.weight = 2.0
    assert torch.allclose(
        method.confidence(method.uncorrected(target)), plain + 2 * density, atol=1e-4
    )


@pytest.mark.parametrize("graphs, batch_size", [("one", 1000), ("two", 0)])
def test_cluster_gnn_learns_labels_and_pseudo_labels_by_its_classes(graphs, batch_size):
    task = own() if graphs == "one" else universal()
    method = started(task, fanout=0, missing=0.0)
    method.batch_size = batch_size
    cluster = method.new_cluster_gnn(method.predict(task.target).argmax(1))
    cluster.encoder.spec = dataclasses.replace(cluster.encoder.spec, dropout=0.0)
    learned, named = torch.tensor([3, 7, 1]), torch.tensor([0, task.num_known, 1])
    labels = task.source.y[task.train]
    parts = [
        Term("source", cluster.source, task.train, labels),
        Term("decisions", cluster.target, learned, named, 0.5),
    ]

    def log_p(graph):
        q = cluster.log_posterior(graph).double().exp().numpy()
        return np.log(np.c_[q[:, : task.num_known], q[:, task.num_known :].sum(1)])

    wanted = {
        "source": -log_p(cluster.source)[task.train, labels].mean(),
        "decisions": -0.5 * log_p(cluster.target)[learned, named].mean(),
    }
    cluster.encoder.train()
    found = cluster.losses(parts, modularity=False)()
    assert {name: float(term.detach()) for name, term in found.items()} == pytest.approx(
        wanted, abs=1e-4
    )

    found = cluster.losses(parts, modularity=True)()
    assert set(found) == {*wanted, "cluster_target"}
    if not batch_size:
        whole = float(cluster.target_loss(cluster.log_posterior(cluster.target)))
        assert float(found["cluster_target"].detach()) == pytest.approx(whole, abs=1e-5)


def test_rows_that_are_filled_up_have_the_same_log_posteriors_and_gradients(count=3):
    logits = 5 * torch.randn(40, count, requires_grad=True)
    weight = torch.randn(40, count)
    found, wanted = log_softmax(logits), torch.log_softmax(logits.double(), 1)
    assert torch.allclose(found.double(), wanted, atol=1e-5)
    (gradient,) = torch.autograd.grad(found, logits, weight, retain_graph=True)
    (exact,) = torch.autograd.grad(wanted, logits, weight.double())
    assert torch.isfinite(gradient).all() and torch.allclose(gradient, exact, atol=1e-5)


def unnamed(nodes: int = 600, seed: int = 0) -> ShiftTask:
    """Two graphs; the last class of four has no label on either, but for held-out nodes."""
    settings = {"num_classes": 4, "avg_degree": 10.0, "homophily": 0.9, "signal": 0.6, "shift": 0.1}
    task = synthetic.build(num_nodes=nodes, split_seed=seed, **PAIR | settings)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
    held_out, rest = order[: nodes // 5], order[nodes // 5 : nodes * 3 // 5]
    every = torch.arange(nodes)
    graphs = {"source": task.source, "target": task.target, "val_graph": task.source}
    sets = {"train": rest[task.source.y[rest] < 3].sort().values, "val": held_out}
    sets |= {"test": every, "pool": every}
    return ShiftTask("unnamed", **graphs, **sets, num_known=3, open_set=True)


def test_the_unknown_class_is_found_on_the_source_first():
    task, method = unnamed(), make(**LONG)
    record = trainer.fit(method, task, selection="last")
    assert len(record.history) == 3  # both stages start with a classifier; two iterations
    seen, source, every = method.task, task.source.y, torch.arange(600)
    assert (seen.num_known, seen.open_set, seen.unknown) == (4, False, 3)
    assert torch.equal(seen.source.y[task.train], source[task.train])
    assert torch.equal(seen.train, every[~torch.isin(every, task.val)])
    assert not seen.source.y[task.val].ge(0).any()

    rest = every[~torch.isin(every, torch.cat([task.train, task.val]))]
    found = seen.source.y[rest]
    assert float((found == source[rest]).float().mean()) > 0.85
    share = float((source == 3).float().mean())
    assert record.history[0].losses["source_unknown_share"] == pytest.approx(share, abs=0.08)
    assert record.test["micro_f1"] > 0.9 and record.test["unknown_recall"] > 0.8
    assert record.test["unknown_auroc"] > 0.9

    unknown = method.decide(method.predict(task.target)) == 3
    sure = method.confidence(method.predict(task.target))
    assert float(sure[unknown].max()) < 0 <= float(sure[~unknown].min())


@pytest.mark.parametrize("name", ["erm", "pgl"])
def test_every_method_can_find_the_unknown_class_on_the_source_first(name):
    task, scores = unnamed(), {}
    for first in (False, True):
        method = methods.find(name)(encoder=SPEC, source_first=first)
        scores[first] = trainer.fit(method, task, selection="last").test
        assert (method.task.unknown, method.task.open_set) == (3, not first)
    assert scores[True]["micro_f1"] > scores[False]["micro_f1"]
    assert {*scores[True]} == {*scores[False]}


def test_the_source_is_not_solved_first_without_unknown_held_out_nodes():
    task = unnamed()
    known = dataclasses.replace(task, val=task.val[task.source.y[task.val] < 3])
    assert source_first.applies(task) and not source_first.applies(known)
    assert not source_first.applies(own())


def test_pseudo_labels_have_the_largest_margins_of_each_class():
    task = own()
    method = started(task, doubt=1.0, missing=0.0)
    method.accuracy = 0.5
    scores = torch.randn(task.target.num_nodes, task.num_known + 1).double()
    learned = set(method.pseudo_labels("", method.target, scores).nodes.tolist())

    pool = task.pool.tolist()
    ordered = np.sort(scores.numpy(), 1)
    margin, label = ordered[:, -1] - ordered[:, -2], scores.numpy().argmax(1)
    for k in range(task.num_known + 1):
        members = sorted((i for i in pool if label[i] == k), key=lambda i: -margin[i])
        size = int(np.ceil(0.5 * len(members)))
        assert learned & set(members) == set(members[:size])


def test_held_out_labels_that_rank_like_a_share_of_the_nodes_give_this_share():
    draw = np.random.default_rng(0)
    unlabelled = np.r_[draw.normal(0, 1, 3000), draw.normal(2.5, 1, 7000)]
    held_out = draw.normal(2.5, 1, 300)
    ranks = torch.tensor([(unlabelled < score).mean() for score in held_out])
    exact = 1 - known_share(torch.tensor(held_out), torch.tensor(unlabelled))
    assert unknown_share(ranks, torch.ones(300), 10_000) == pytest.approx(exact, abs=2e-3)
    assert exact == pytest.approx(0.3, abs=0.05)


def test_held_out_nodes_choose_the_weight_and_the_smoothing_by_accuracy():
    right, wrong = torch.eye(3).repeat(4, 1), torch.eye(3).repeat(4, 1).roll(1, 1)
    nodes, labels = torch.arange(12), torch.arange(12) % 3
    some = HeldOut(nodes, labels, 3)
    assert not some.unknown and HeldOut(nodes, labels, 2).unknown
    assert some.best_weight(right, 3 * wrong) == 0.9  # each weight above 0.75 is right
    assert some.best_weight(right, right) == 0.5
    assert some.not_worse(right, wrong) and not some.not_worse(wrong, right)
    assert some.not_worse(wrong[[*range(11), 0]], right[[*range(11), 0]].roll(1, 1))
    nothing = HeldOut(nodes[:0], labels[:0], 3)
    assert nothing.best_weight(wrong, right) == 0.5 and not nothing.not_worse(right, wrong)


def one_graph(unseen: int) -> ShiftTask:
    """One graph of six classes, some of them masked, without unknown validation nodes."""
    changes = {"num_nodes": 800, "num_classes": 6, "avg_degree": 8.0, "homophily": 0.8}
    task = own(num_unseen=unseen, **changes)
    return dataclasses.replace(task, val=task.val[task.target.y[task.val] < task.num_known])


@pytest.mark.parametrize("unseen", [0, 2])
def test_no_node_is_unknown_if_the_labels_show_no_sign_of_it(unseen, tmp_path):
    task = one_graph(unseen)
    method = make(**LONG)
    record = trainer.fit(method, task, selection="last")
    p_value = record.history[1].losses["no_unknown_p_value"]
    called = method.decide(method.predict(task.target)) == task.num_known
    if unseen:
        assert p_value < 0.01 and not method.absent
        share = record.history[1].losses["unknown_share"]
        truth = float((task.target.y[task.pool] == task.num_known).float().mean())
        assert share == pytest.approx(truth, abs=0.1)
        assert float(called[task.pool].float().mean()) == pytest.approx(share, abs=2e-3)
        assert not any("no sign" in text for text in record.warnings)
        return
    assert p_value > 0.01 and method.absent and not called.any()
    sign = "no significant" if p_value > 0.1 else "only a weak"
    told = next(text for text in record.warnings if f"show {sign} sign of an unknown" in text)
    assert "set srnc_plus.abstain False" in told
    p = method.posterior(method.predict(task.target))
    assert p[:, 6].max() < 1e-6 and torch.allclose(p.sum(1), torch.ones(800).double())
    assert record.test["micro_f1"] > record.history[0].test["micro_f1"]

    method = make(abstain=False)
    trainer.fit(method, task)
    assert not method.absent


def test_a_class_with_one_label_does_not_spoil_the_ranks():
    task = one_graph(0)
    of_first = task.source.y[task.train] == 0
    train = torch.cat([task.train[of_first][:1], task.train[~of_first]])
    method = started(dataclasses.replace(task, train=train), missing=0.0)
    fold = torch.arange(len(train)) % 5
    logits = method.logits(task.source)[:, :6]
    method.first.count_labels([], logits, train[fold != 0], method.labels[fold != 0])
    assert torch.isfinite(method.first(logits, method.target, [])).all()


@pytest.mark.parametrize("known, found", [((4, 6), 3), ((1, 2, 2) + (9,) * 13, 2), ((), 3)])
def test_a_threshold_below_which_known_nodes_prevail_is_lowered(known, found):
    unlabelled = torch.arange(10.0)
    lower = lower_threshold(torch.tensor(3.0), torch.tensor(known, dtype=torch.float), unlabelled)
    assert float(lower) == found  # of 16 known nodes 1 is below 2, and 3 are below 3


def test_with_many_labels_one_part_is_held_out(monkeypatch):
    method = started(one_graph(1))
    monkeypatch.setattr(first_scores, "MAX_HELD_OUT", 10)
    parts = []
    monkeypatch.setattr(
        method, "train_classifier", lambda *of: parts.append(of) or (method.classifier, {})
    )
    method.estimate_unknown()
    assert len(parts) == 1 and 0 <= method.unknown_share <= 1


def pair(homophily: float, signal: float = 0.6) -> ShiftTask:
    """Two graphs of the same three classes."""
    settings = {"num_nodes": 600, "num_classes": 3, "avg_degree": 8.0, "labels_per_class": -1}
    return synthetic.build(homophily=homophily, signal=signal, **PAIR | settings)


@pytest.mark.parametrize(
    "homophily, signal, adapts, mixes",
    [
        (0.9, 0.6, True, False),
        (0.9, 0.0, True, False),
        (0.33, 0.6, False, True),
        (0.33, 0.0, False, False),
    ],
)
def test_it_adapts_to_a_target_whose_edges_join_equal_classes(homophily, signal, adapts, mixes):
    task = pair(homophily, signal)
    torch.manual_seed(0)
    plain = started(task, abstain=False, steps=100)
    method = make(steps=100)
    record = trainer.fit(method, task, selection="last")
    assert bool(method.adapts) == adapts and bool(method.features_weight) == mixes
    assert len(record.history) == (3 if adapts else 1)
    assert any("did not adapt" in text for text in record.warnings) == (not adapts)
    if adapts:
        return

    # Neither smoothing nor correction: the plain classifier, or its weighted mean with the MLP.
    logits = plain.logits(task.target).log_softmax(1)
    if mixes:
        features = method.features_only.log_posterior(method.target)
        weight = min(0.5, 0.5 - 2.5 * record.history[0].losses["assortativity"])
        assert 0 < weight <= 0.5
        logits = (1 - weight) * logits + weight * features
    assert torch.allclose(
        method.predict(task.target).log_softmax(1), logits.log_softmax(1), atol=1e-5
    )

"""SRNC+: log-odds, label density, weights and thresholds against oracles."""

from __future__ import annotations

import copy
import dataclasses
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from tasks import Known, universal_task
from torch_geometric.data import Data

import graphgym_srnc
from graphgym_srnc import methods
from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.losses.prior import UnknownEvidence
from graphgym_srnc.methods import srnc_plus
from graphgym_srnc.methods.shared import cross_fit, evidence, twins, unknown_test
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN
from graphgym_srnc.methods.shared.cross_fit import HeldOut
from graphgym_srnc.methods.shared.evidence import Evidence
from graphgym_srnc.methods.shared.first_scores import FirstScores
from graphgym_srnc.methods.shared.plan import TESTS, Judged, Plan, weighted_mean
from graphgym_srnc.methods.shared.training import Term, adam, log_softmax
from graphgym_srnc.methods.shared.unknown_share import (
    NO_UNKNOWN,
    UNUSUAL,
    Unlabelled,
    decide_on_unknown,
)
from graphgym_srnc.methods.shared.unknown_test import UnknownTest
from graphgym_srnc.methods.shared.validation import Validation, calibrated, is_better
from graphgym_srnc.methods.srnc_plus import SRNCPlus
from graphgym_srnc.shifts import synthetic
from graphgym_srnc.train import model as models
from graphgym_srnc.train import source_first, trainer
from graphgym_srnc.train.model import TrainedModel

SPEC = EncoderSpec(hidden=16, features="auto")
LONG = {"steps": 20, "fit_steps": 7, "cluster_steps": 7}
"""What it takes to find the unknown class."""

FAST = partial(adam, lr=0.05)

PAIR = {"mode": "close_set", "num_features": 60, "class_imbalance": 1.0}
"""Settings of two graphs."""


def make(**options) -> SRNCPlus:
    """A method that learns for few steps."""
    few = {"steps": 10, "fit_steps": 3, "cluster_steps": 3, "make_optimizer": FAST}
    return SRNCPlus(**{"encoder": SPEC, "rounds": 2} | few | options)


def started(task: ShiftTask, **options) -> SRNCPlus:
    """A method after episode 0."""
    method = make(**options)
    method.start(task.blind())
    return method


def masked_task(seed: int = 0, **changes) -> ShiftTask:
    """One graph, one of its five classes masked."""
    settings = {
        **{"num_nodes": 500, "num_classes": 5, "num_unseen": 1, "num_features": 80},
        **{"avg_degree": 12.0, "homophily": 0.9, "signal": 0.5, "class_imbalance": 1.0},
        **{"split_seed": seed, "num_val": 60, "num_test": 200},
    }
    return synthetic.build(**settings | changes)


def test_log_odds_are_propagated_as_written(few=4):
    task = masked_task()
    of_first = task.source.y[task.train] == 0
    task = dataclasses.replace(
        task, train=torch.cat([task.train[of_first][:few], task.train[~of_first]])
    )
    method = started(task, missing=0.0)
    logits = method.known_logits(task.target).double()
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
    task = masked_task()
    method = started(task)
    target = task.target
    p = method.known_logits(target).double().softmax(1).numpy()
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
    assert len(wanted) == 2 and np.allclose(density.numpy(), np.mean(wanted, 0), atol=1e-4)

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
    task = masked_task() if graphs == "one" else universal_task()
    method = started(task, fanout=0, missing=0.0)
    method.batch_size = batch_size
    cluster = method.new_cluster_gnn(method.predict(task.target).argmax(1))
    cluster.encoder.spec = dataclasses.replace(cluster.encoder.spec, dropout=0.0)
    learned = torch.tensor([3, 7, 1])
    named = torch.tensor([0, task.num_known, 1])
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
    found = log_softmax(logits)
    wanted = torch.log_softmax(logits.double(), 1)
    assert torch.allclose(found.double(), wanted, atol=1e-5)
    (gradient,) = torch.autograd.grad(found, logits, weight, retain_graph=True)
    (exact,) = torch.autograd.grad(wanted, logits, weight.double())
    assert torch.isfinite(gradient).all() and torch.allclose(gradient, exact, atol=1e-5)


def task_with_unnamed_class(nodes: int = 600, seed: int = 0) -> ShiftTask:
    """Two graphs; the last class of four has no label on either, but for held-out nodes."""
    settings = {"num_classes": 4, "avg_degree": 10.0, "homophily": 0.9, "signal": 0.6, "shift": 0.1}
    task = synthetic.build(num_nodes=nodes, split_seed=seed, **PAIR | settings)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
    held_out = order[: nodes // 5]
    rest = order[nodes // 5 : nodes * 3 // 5]
    every = torch.arange(nodes)
    graphs = {"source": task.source, "target": task.target, "val_graph": task.source}
    sets = {"train": rest[task.source.y[rest] < 3].sort().values, "val": held_out}
    sets |= {"test": every, "pool": every}
    return ShiftTask("unnamed", **graphs, **sets, num_known=3, open_set=True)


def test_the_unknown_class_is_found_on_the_source_first():
    task = task_with_unnamed_class()
    method = make(**LONG, rounds=1)
    record = trainer.fit(method, task, selection="last")
    assert len(record.history) == 2  # both stages start with a classifier; one iteration
    seen = method.task
    source = task.source.y
    every = torch.arange(600)
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


@pytest.mark.parametrize("name, options", [("erm", {}), ("pgl", {"enlarging": 0.5})])
def test_every_method_can_find_the_unknown_class_on_the_source_first(name, options):
    task = task_with_unnamed_class(300)
    scores = {}
    for first in (False, True):
        learns = {"steps": 30, "make_optimizer": FAST}
        method = methods.find(name)(encoder=SPEC, source_first=first, **learns, **options)
        scores[first] = trainer.fit(method, task, selection="last").test
        assert (method.task.unknown, method.task.open_set) == (3, not first)
    assert scores[True]["micro_f1"] > scores[False]["micro_f1"]
    assert {*scores[True]} == {*scores[False]}


def test_the_source_is_not_solved_first_without_unknown_held_out_nodes():
    task = task_with_unnamed_class()
    known = dataclasses.replace(task, val=task.val[task.source.y[task.val] < 3])
    assert source_first.applies(task) and not source_first.applies(known)
    assert not source_first.applies(masked_task())


def test_pseudo_labels_have_the_largest_margins_of_each_class():
    task = masked_task()
    method = started(task, doubt=1.0, missing=0.0)
    method.change(accuracy=0.5)
    scores = torch.randn(task.target.num_nodes, task.num_known + 1).double()
    learned = set(method.pseudo_labels("", method.target, scores).nodes.tolist())

    pool = task.pool.tolist()
    ordered = np.sort(scores.numpy(), 1)
    margin = ordered[:, -1] - ordered[:, -2]
    label = scores.numpy().argmax(1)
    for k in range(task.num_known + 1):
        members = sorted((i for i in pool if label[i] == k), key=lambda i: -margin[i])
        size = int(np.ceil(0.5 * len(members)))
        assert learned & set(members) == set(members[:size])


def test_validation_nodes_choose_the_weight_and_the_smoothing_by_accuracy():
    right = torch.eye(3).repeat(4, 1)
    wrong = torch.eye(3).repeat(4, 1).roll(1, 1)
    nodes = torch.arange(12)
    labels = torch.arange(12) % 3
    some = Validation(nodes, labels, 3)
    assert not some.unknown and Validation(nodes, labels, 2).unknown
    assert some.best_weight(right, 3 * wrong) == 0.9  # each weight above 0.75 is right
    assert some.best_weight(right, right) == 0.5
    good = some.correct(right)
    bad = some.correct(wrong)
    assert is_better(good, bad) and not is_better(bad, good) and is_better(good, good)
    assert not is_better(good, good - torch.eye(12)[0], errors=2.0)  # one node is no clear sign
    nothing = Validation(nodes[:0], labels[:0], 3)
    assert nothing.best_weight(wrong, right) == 0.5


def test_the_likelihood_of_labels_does_not_depend_on_how_certain_a_posterior_is():
    labels = torch.arange(90) % 3
    logits = 2.0 * torch.eye(3)[labels] + torch.randn(90, 3)
    found = calibrated(logits, labels)
    accuracy = float((logits.argmax(1) == labels).sum()) / 91
    assert float(found.exp().amax(1).mean()) == pytest.approx(accuracy, abs=1e-4)
    assert torch.allclose(calibrated(5.0 * logits, labels), found, atol=1e-3)


def judged_by(log_p: torch.Tensor, labels: torch.Tensor) -> HeldOut:
    """All nodes held out, by a classifier with these log posteriors."""
    nodes = torch.arange(len(labels))
    fold = cross_fit.Fold(Known(log_p[None]), nodes[:0], labels[:0], nodes, labels)
    return HeldOut([fold], None, log_p.size(1))


@pytest.mark.parametrize("power, corrects", [(1.0, False), (2.0, True)])
def test_the_prior_is_corrected_where_this_makes_held_out_labels_likelier(power, corrects):
    task = masked_task()
    method = started(task)
    share = torch.tensor([0.5, 0.25, 0.15, 0.1])
    labels = torch.multinomial(share, 4000, replacement=True)
    # Bayes' posterior with the shares to the power 1; with 2, frequent classes are too probable.
    noisy = 1.5 * torch.eye(4)[labels] + torch.randn(4000, 4)
    log_p = (1.5 * noisy + power * share.log()).log_softmax(1)
    held_out = judged_by(log_p, labels)
    method.prior.learn(labels)
    method.change(finds_unknown=True)
    method.out_of_fold = plain = held_out.out_of_fold([log_p])
    found = method.choose_correction(held_out, [log_p])
    assert method.plan.corrects == corrects
    assert method.prior_correction == (("labels", 0.5) if corrects else ("none", 1.0))
    counts = labels.bincount()
    wanted = (log_p - 0.5 * (counts / 4000).log()) if corrects else log_p
    assert torch.equal(found.correct, (wanted.argmax(1) == labels).float())
    assert corrects == (found is method.out_of_fold is not plain)


def test_a_correction_that_the_user_chose_is_not_judged():
    task = masked_task()
    method = started(task, correction="labels")
    log_p = torch.randn(40, 4).log_softmax(1)
    held_out = judged_by(log_p, torch.arange(40) % 4)
    method.out_of_fold = held_out.out_of_fold([log_p])
    method.change(finds_unknown=True)
    assert method.choose_correction(held_out, [log_p]) is method.out_of_fold
    assert method.prior_correction == ("labels", 1.0)


@pytest.mark.parametrize("homophily, smooths", [(0.9, True), (0.0, False)])
def test_posteriors_are_smoothed_where_this_makes_held_out_labels_likelier(homophily, smooths):
    task = masked_task(homophily=homophily)
    method = started(task)
    labels = task.target.y.clamp(0, 3)
    log_p = (torch.eye(4)[labels] + torch.randn(len(labels), 4)).log_softmax(1)
    held_out = judged_by(log_p, labels)
    found = method.choose_smoothing(held_out)
    assert method.plan.smooths == smooths
    assert (found is held_out.log_p) != smooths


def one_graph(unseen: int) -> ShiftTask:
    """One graph of six classes, some of them masked, without unknown validation nodes."""
    changes = {"num_nodes": 800, "num_classes": 6, "avg_degree": 8.0, "homophily": 0.8}
    task = masked_task(num_unseen=unseen, **changes)
    return dataclasses.replace(task, val=task.val[task.target.y[task.val] < task.num_known])


class Trained(NamedTuple):
    """A method after one iteration without validation nodes, and as it was before that."""

    task: ShiftTask
    method: SRNCPlus
    record: trainer.RunRecord
    first: SRNCPlus


def trained(unseen: int) -> Trained:
    task = without_validation(one_graph(unseen))
    method = make(**LONG, rounds=1)
    seen = []

    def note(episode: trainer.Episode, method: SRNCPlus, task: ShiftTask) -> None:
        seen.append(copy.deepcopy(method))

    record = trainer.fit(method, task, selection="last", callbacks=[note])
    return Trained(task, method, record, seen[0])


@pytest.fixture(scope="module")
def two_hidden_classes() -> Trained:
    """What several tests train; they leave it as it is."""
    return trained(2)


@pytest.fixture(scope="module")
def no_hidden_class() -> Trained:
    """The same where labels show no sign of an unknown class."""
    return trained(0)


@pytest.mark.parametrize("validated", [True, False])
@pytest.mark.parametrize("unseen", [0, 2])
def test_no_node_is_unknown_if_the_labels_show_no_sign_of_it(unseen, validated, request):
    if validated:
        task = one_graph(unseen)
        method = make(**LONG, rounds=1)
        record = trainer.fit(method, task, selection="last")
    else:
        name = "two_hidden_classes" if unseen else "no_hidden_class"
        task, method, record, _ = request.getfixturevalue(name)
    figures = record.history[0].losses
    called = method.decide(method.predict(task.target)) == task.num_known
    share = method.plan.unknown_share
    if unseen:
        assert figures["no_unknown_p_value"] <= 0.05 and method.plan.finds_unknown
        truth = float((task.target.y[task.pool] == task.num_known).float().mean())
        assert share == pytest.approx(truth, abs=0.12)
        assert 0 < figures["least_unknown_share"] < truth + 0.1
        assert float(called[task.pool].float().mean()) == pytest.approx(share, abs=2e-3)
        assert NO_UNKNOWN not in record.warnings
        return
    p_value = figures["no_unknown_p_value"]
    assert p_value > 0.05 and not method.plan.finds_unknown and not called.any()
    sign = "no significant" if p_value > 0.2 else "only a weak"
    assert sign in record.warnings[NO_UNKNOWN]
    assert ("four seeds" in record.warnings[NO_UNKNOWN]) == (p_value <= 0.5)
    assert "`abstain=False`" in record.warnings["detectable share"]
    p = method.posterior(method.predict(task.target))
    assert p[:, 6].max() < 1e-6 and torch.allclose(p.sum(1), torch.ones(len(p)).double())

    method = make(abstain=False, steps=5)
    trainer.fit(method, task, max_episodes=0, selection="last")
    assert method.plan.finds_unknown


@pytest.mark.parametrize("state", ["first", "method"])  # the unknown class has two kinds of scores
def test_probabilities_are_as_large_as_the_expected_accuracy(state, two_hidden_classes):
    task = two_hidden_classes.task
    method = getattr(two_hidden_classes, state)
    scores = method.predict(task.target)
    p = method.posterior(scores)
    decision = method.decide(scores)
    assert torch.equal(p.argmax(1), decision)
    largest = p[task.pool].amax(1)
    unknown = decision[task.pool] == task.num_known
    assert unknown.any()
    # Equal scores at the threshold have probability 0.5 at every temperature.
    assert float(largest[unknown].mean()) == pytest.approx(method.plan.precision, abs=5e-3)
    assert float(largest[~unknown].mean()) == pytest.approx(method.plan.expected, abs=1e-3)


@pytest.mark.parametrize("validated", [True, False])
def test_pseudo_labels_are_not_learned_if_edges_do_not_join_equal_classes(validated):
    task = masked_task(homophily=0.2, num_nodes=300, num_features=40)
    task = task if validated else without_validation(task)
    method = make()
    record = trainer.fit(method, task, selection="last")
    assert len(record.history) == 1 and method.plan.iteration == 0
    assert record.history[0].losses["assortativity"] < 0.1
    assert "not iterated" in record.warnings
    assert "weight_gcnconv" in record.history[0].losses

    method = make(abstain=False, rounds=1, steps=2)
    assert len(trainer.fit(method, task, selection="last").history) == 2


@pytest.mark.parametrize("unseen", [0, 1])
def test_groups_show_an_unknown_class_that_ranks_do_not(unseen, monkeypatch):
    """One of 16 classes has no labels."""
    monkeypatch.setattr(unknown_test, "low_rank_p_value", lambda *_: 0.4)
    changes = {"num_nodes": 800, "num_classes": 16, "avg_degree": 10.0, "labels_per_class": 10}
    task = without_validation(masked_task(num_unseen=unseen, **changes))
    task = dataclasses.replace(task, open_set=True)
    method = make(steps=30)
    figures = method.start(task.blind())
    assert len(task.train) == 10 * (16 - unseen)
    of_groups = figures["few_labels_p_value"]
    assert method.plan.p_value == figures["no_unknown_p_value"]
    smallest = min(0.4, of_groups, figures["propensity_p_value"])
    assert method.plan.p_value == min(TESTS * smallest, 1.0)
    assert method.plan.finds_unknown == method.plan.is_clear == (unseen == 1)
    assert (of_groups <= 0.025) == (unseen == 1)


def test_labels_judge_if_no_node_validates(monkeypatch):
    task = without_validation(one_graph(1))
    known = task.target.y < task.num_known
    assert not len(task.val) and set(task.train.tolist()) <= set(known.nonzero().ravel().tolist())
    learned = []
    judged = []
    original = HeldOut.__init__

    def watched(self, folds, *rest):
        judged.extend(torch.cat([fold.held_out for fold in folds]).tolist())
        original(self, folds, *rest)

    monkeypatch.setattr(HeldOut, "__init__", watched)
    plain = SRNCPlus.train_evidence

    def train(self, evidence, train, *rest):
        learned.append(len(train))
        return plain(self, evidence, train, *rest)

    monkeypatch.setattr(SRNCPlus, "train_evidence", train)
    method = make(rounds=1, steps=2)
    trainer.fit(method, task, selection="last")
    size = len(task.train)
    assert sorted(judged) == task.train.tolist()
    assert sum(learned[:5]) == 4 * size and learned[5] == size and size in learned[6:]


def test_labels_of_chosen_nodes_are_learned_and_do_not_judge(monkeypatch):
    """But for a class that has no others, which the test for unknown nodes leaves out."""
    task = without_validation(one_graph(1))
    chosen = torch.zeros(task.source.num_nodes, dtype=torch.bool)
    chosen[task.train[::3]] = True
    chosen[task.train[task.source.y[task.train] == 0]] = True
    graph = copy.copy(task.source)
    graph.chosen_mask = chosen
    task = dataclasses.replace(task, source=graph, target=graph)
    label = graph.y[task.train]
    always = task.train[chosen[task.train] & (label != 0)]
    judging = task.train[~chosen[task.train] | (label == 0)]
    tested = []
    monkeypatch.setattr(
        unknown_test, "low_rank_p_value", lambda ranks, *_: tested.append(len(ranks)) or 0.001
    )
    method = make(rounds=0, steps=2, abstain=True)
    trainer.fit(method, task, selection="last")
    assert sorted(method.out_of_fold.nodes.tolist()) == judging.tolist()
    assert tested == [int((graph.y[judging] != 0).sum())]
    assert method.twins
    for twin in method.twins:
        assert torch.isin(always, twin.labelled).all()
    graph.chosen_mask = torch.ones_like(chosen)  # all are, so all judge
    alike = make(rounds=1, steps=2)
    trainer.fit(alike, task, selection="last")
    assert sorted(alike.out_of_fold.nodes.tolist()) == task.train.tolist()


@pytest.mark.parametrize("p_value", [0.0001, 0.5])
def test_labels_of_a_part_of_the_nodes_are_compared_with_this_part(p_value, monkeypatch):
    """Others are unknown if they are less certain than nearly all of it, or than it tells."""
    task = without_validation(one_graph(1))
    graph = copy.copy(task.source)
    drawn = torch.arange(graph.num_nodes) % 2 == 0
    drawn[task.train] = True
    drawn[task.train[:10]] = False  # labels of other nodes are learned and held out, but not tested
    graph.drawn_mask = drawn
    task = dataclasses.replace(task, source=graph, target=graph)
    part = task.pool[drawn[task.pool]]
    pools = []
    plain = UnknownTest.__init__

    def watched(self, graph, pool, *rest):
        pools.append(pool)
        plain(self, graph, pool, *rest)

    found = dict.fromkeys(("low_ranks", "propensity", "few_labels"), p_value)
    monkeypatch.setattr(UnknownTest, "__init__", watched)
    monkeypatch.setattr(UnknownTest, "p_values", lambda *_: found)
    method = make(steps=15, rounds=0, abstain=True)
    record = trainer.fit(method, task, selection="last")
    assert [pool.tolist() for pool in pools] == [part.tolist()]
    assert sorted(method.out_of_fold.nodes.tolist()) == task.train.tolist()
    if method.twins:
        assert len(method.judge()[1].ranks) == len(task.train) - 10
    assert bool(method.twins) == (p_value < 0.05)
    unknown = method.decide(method.predict(task.target)) == task.num_known
    share = float(unknown[part].float().mean())
    assert share == pytest.approx(method.plan.unknown_share, abs=2 / len(part))
    is_weak = p_value == 0.5
    assert (
        is_weak == (NO_UNKNOWN in record.warnings) == ("unusual_share" in record.history[0].losses)
    )
    assert method.plan.finds_unknown and method.plan.is_clear != is_weak
    if is_weak:
        assert (
            "less certain than 95 % of the nodes that labels were drawn from"
            in record.warnings[NO_UNKNOWN]
        )
        assert len(record.history) == 2  # one iteration
        pool = task.pool[unknown[task.pool]]
        posterior = method.posterior(method.predict(task.target)[pool])
        assert float(posterior[:, -1].mean()) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("drawn", [100, 60, 20])  # of 100 nodes; 50 suffice for a comparison
@pytest.mark.parametrize("is_clear", [True, False])
@pytest.mark.parametrize("low", [0, 40])
def test_what_labels_decide_on_unknown_nodes(drawn, is_clear, low):
    """Of the nodes that no labels represent, ``low`` are less certain than all others."""
    judged = Judged(torch.linspace(0.3, 1, 50), torch.ones(50), torch.ones(50))
    nodes = torch.arange(100)
    confidence = torch.where(nodes < 100 - low, 1.0 + nodes, -1.0)
    plan = Plan(True, p_value=0.01 if is_clear else 0.5, is_clear=is_clear, tested=50)
    unlabelled = Unlabelled(nodes, nodes < drawn, drawn == 100)
    found = decide_on_unknown(judged, unlabelled, confidence, plan, abstain=True)
    assert plan == Plan(True, p_value=plan.p_value, is_clear=is_clear, tested=50)
    assert ("least_unknown_share" in found.figures) == (drawn > 20)
    text = found.warnings.get(NO_UNKNOWN, "")
    if drawn == 60 and low:
        assert not found.plan.finds_unknown and not found.plan.is_clear and "changed. New" in text
    elif drawn == 20:
        assert found.plan.unknown_share == float(judged.ranks.quantile(UNUSUAL))
        assert found.episodes == 1 and "nothing tests" in text
    elif is_clear:
        assert "expected_accuracy" in found.figures and not text
        assert found.kept == (judged.ranks >= found.plan.unknown_share).float().mean()
    elif drawn == 60:
        assert (found.plan.unknown_share, found.episodes) == (UNUSUAL, 1) and "Only 60 %" in text
    else:
        assert not found.plan.finds_unknown and "no significant sign" in text
        assert found.reported == ("unknown share",)


@pytest.mark.parametrize("by_density", [False, True])
def test_no_node_is_unknown_where_classifiers_doubt_most_others(by_density, monkeypatch):
    """Nodes without labels around them alone may well be of new classes."""
    task = without_validation(one_graph(1))
    graph = copy.copy(task.source)
    graph.drawn_mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
    graph.drawn_mask[: graph.num_nodes // 2] = True
    graph.drawn_mask[task.train] = True
    task = dataclasses.replace(task, source=graph, target=graph)
    plain = FirstScores.forward

    def low(self, logits, graph_, posteriors):
        score = plain(self, logits, graph_, posteriors)
        return score - 100.0 * ~graph.drawn_mask if posteriors or not by_density else score

    monkeypatch.setattr(FirstScores, "forward", low)
    method = make(steps=5, rounds=0, abstain=True)
    record = trainer.fit(method, task, selection="last")
    is_unknown = method.decide(method.predict(task.target)) == task.num_known
    assert method.plan.finds_unknown == is_unknown[~graph.drawn_mask].any() == by_density
    told = "less certain of 100 % of the nodes from which no labels were drawn"
    assert (told in record.warnings.get(NO_UNKNOWN, "")) != by_density


def test_without_such_nodes_held_out_labels_bound_the_confidence(monkeypatch):
    """As if all old nodes had labels."""
    task = without_validation(one_graph(1))
    graph = copy.copy(task.source)
    graph.drawn_mask = torch.zeros(graph.num_nodes, dtype=torch.bool).index_fill(
        0, task.train, True
    )
    task = dataclasses.replace(task, source=graph, target=graph)
    judges = []
    plain = UnknownTest.judged
    monkeypatch.setattr(
        UnknownTest, "judged", lambda *given: judges.append(plain(*given)) or judges[-1]
    )
    method = make(steps=15, rounds=0, abstain=True)
    record = trainer.fit(method, task, selection="last")
    assert method.plan.p_value == -1 and "no_unknown_p_value" not in record.history[0].losses
    below = (judges[0].ranks < method.plan.unknown_share).float().mean()
    assert float(below) == pytest.approx(UNUSUAL, abs=1 / len(judges[0].ranks))
    unknown = method.decide(method.predict(task.target)) == task.num_known
    share = float(unknown[task.pool].float().mean())
    assert share == pytest.approx(method.plan.unknown_share, abs=2 / len(task.pool))
    assert "have labels, so nothing tests for an unknown class" in record.warnings[NO_UNKNOWN]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_estimator_uses_every_label(num_labelled=40):
    task = one_graph(1)
    graph = task.target.clone()
    labelled = task.train[:: len(task.train) // num_labelled]
    mask = torch.zeros(graph.num_nodes, dtype=torch.bool).index_fill(0, labelled, True)
    graph = Data(x=graph.x, edge_index=graph.edge_index, y=graph.y, train_mask=mask)
    few = {"steps": 3, "fit_steps": 2, "cluster_steps": 2, "rounds": 1, "hidden": 8}
    shown = []
    callbacks = [lambda episode, method, task: shown.append(method.task)]
    model = graphgym_srnc.SRNCPlus(open_set=True, callbacks=callbacks, **few).fit(graph)
    assert torch.equal(shown[0].train, labelled.sort().values) and not len(shown[0].val)
    assert 0 < model.record_.history[0].losses["held_out_accuracy"] < 1


def test_labels_judge_once_even_if_the_first_iteration_is_undone():
    task = masked_task()
    method = started(task, steps=3)
    assert "held_out_accuracy" in method.learn_validation(task.source.y[task.val])
    assert "held_out_accuracy" not in method.learn_validation(task.source.y[task.val])


def test_between_two_graphs_labels_of_the_source_weigh_the_classifiers(monkeypatch):
    """Fifths of these are held out until 100 are judged."""
    for task in (universal_task(), two_graphs(0.9)):
        seen = []

        def kept(*args, seen=seen):
            seen.append(HeldOut(*args))
            return seen[-1]

        monkeypatch.setattr(srnc_plus, "HeldOut", kept)
        method = started(task, rounds=1, steps=3)
        kinds = [spec.kind for spec in method.evidence.specs]
        assert kinds[1:] == ["sign", "mlp"]
        (held_out,) = seen
        count = len(held_out.folds)
        judged = len(held_out.labels)
        assert judged == pytest.approx(count * len(task.train) / 5, abs=task.num_known)
        assert count == 5 or judged >= 100
        assert torch.equal(method.evidence.weight, held_out.weight)


def test_logits_are_computed_once_until_the_classifiers_are_trained_or_loaded(monkeypatch):
    task = one_graph(0)
    method = started(task)
    calls = []
    plain = evidence.all_logits
    monkeypatch.setattr(
        evidence,
        "all_logits",
        lambda network, *rest: calls.append(network) or plain(network, *rest),
    )
    graph = method.target
    own = method.evidence
    own.cached.clear()
    before = own.log_posterior(graph, 6)
    assert torch.equal(own.log_posterior(graph, 6), before)
    assert len(calls) == len(own.used) - 1  # the forest has no logits of a network

    state = {name: value.clone() for name, value in own.state_dict().items()}
    method.train_evidence(own, method.labelled, method.labels)
    assert not torch.equal(own.log_posterior(graph, 6), before)
    own.load_state_dict(state)
    assert torch.equal(own.log_posterior(graph, 6), before)
    assert not copy.deepcopy(own).cached


def test_no_classifier_is_in_the_mixture_twice():
    spec = dataclasses.replace(SPEC, kind="sign")
    method = started(masked_task(), encoder=spec)
    assert method.evidence.kinds == ["sign", "mlp", "forest"]


@pytest.mark.parametrize("graphs", ["two_hidden_classes", "no_hidden_class", "two"])
def test_a_loaded_model_has_the_plan_and_predicts_the_same(graphs, tmp_path, request):
    if graphs == "two":
        task = two_graphs(0.33)
        method = make(rounds=1)
        trainer.fit(method, task, selection="last")
    else:
        task, method, *_ = request.getfixturevalue(graphs)
    before = method.plan
    assert before != Plan(task.open_set, smooths=not task.open_set)

    loaded = make(rounds=1)
    loaded.build(task.sizes)
    loaded.load_state_dict(method.state_dict())
    assert loaded.plan == before
    assert [type(value) for value in loaded.plan] == [type(value) for value in before]

    options = {"missing": 3.0}
    classes = range(task.num_known + task.open_set)
    TrainedModel.of(method, task, options, list(classes), {}).save(tmp_path / "model.safetensors")
    read = models.load(tmp_path / "model.safetensors").method
    wanted = method.predict(task.target)
    for other in (loaded, read):
        scores = other.predict(task.target)
        assert torch.equal(scores, wanted)
        assert torch.equal(other.decide(scores), method.decide(wanted))
        assert torch.equal(other.posterior(scores), method.posterior(wanted))


def test_a_class_with_one_label_does_not_spoil_the_ranks():
    task = without_validation(one_graph(0))
    of_first = task.source.y[task.train] == 0
    train = torch.cat([task.train[of_first][:1], task.train[~of_first]])
    method = started(dataclasses.replace(task, train=train), missing=0.0)
    assert np.isfinite(method.plan.accuracy) and 0 < method.plan.expected <= 1


def test_labels_without_any_information_give_finite_scores(monkeypatch):
    monkeypatch.setattr(
        cross_fit, "log_linear_weights", lambda p, y: torch.full((len(p),), 0.01 / len(p))
    )
    task = without_validation(masked_task(num_nodes=300, num_features=40))
    method = started(task, steps=5)
    logits = method.known_logits(task.target)
    assert torch.isfinite(logits).all() and torch.isfinite(method.predict(task.target)).all()
    wanted = method.evidence.log_posteriors(method.target, 4).mean(0).softmax(1)
    assert torch.allclose(logits.softmax(1), wanted, atol=1e-3)


def test_an_iteration_counts_unknown_nodes_again_or_is_undone(two_hidden_classes):
    task = two_hidden_classes.task
    method = copy.deepcopy(two_hidden_classes.method)
    method.iterate_twins = lambda: None  # they have done the iteration
    share = method.plan.unknown_share
    truth = float((task.target.y[task.pool] == task.num_known).float().mean())
    found, judged = method.judge()
    gained = found.gained(judged.ranks, judged.correct)
    mean, _ = weighted_mean(gained, judged.weight)
    assert mean == pytest.approx(found.accuracy, abs=0.03)
    after = method.evidence
    before = after.untrained()

    noise = torch.linspace(-0.5, 0.5, len(gained))

    def recount(accuracy_before: float, least_share: float = found.least_share) -> None:
        method.gained = gained - mean + accuracy_before + noise
        method.change(unknown_share=0.5, iteration=1, least_share=least_share)
        method.episodes = 5
        method.recount_unknown(method.gained, before)

    accuracy = mean
    recount(accuracy - 0.3, least_share=0.0)
    assert method.plan.unknown_share == found.rank == pytest.approx(truth, abs=0.15)
    assert method.plan.least_share == found.least_share

    recount(accuracy - 0.3)
    assert method.plan.unknown_share == pytest.approx((0.5 + found.rank) / 2)
    assert method.episodes == 5 and method.evidence is after and torch.equal(method.gained, gained)

    recount(accuracy - 0.01)  # not clearly better
    assert method.episodes == 1 and method.evidence is after

    method.change(is_clear=False)  # without evidence of an unknown class, pseudo-labels give none
    recount(accuracy - 0.3)
    assert method.episodes == 1 and method.plan.unknown_share == 0.5

    recount(accuracy + 0.3)
    assert method.evidence is before and method.plan.iteration == method.episodes - 1 == 0
    assert method.plan.unknown_share == 0.5
    assert "iteration 1" in method.warnings["undone"]
    assert share == two_hidden_classes.method.plan.unknown_share


def test_twins_never_learn_the_labels_that_they_judge(monkeypatch, two_hidden_classes):
    method = two_hidden_classes.method
    left_out = [method.labelled[~twin.learned] for twin in method.twins]
    assert torch.equal(torch.cat(left_out).sort().values, method.labelled.sort().values)

    learned = []

    def note(fit, terms, *rest):
        learned.append(torch.cat([term.nodes for term in terms]))
        return fit(terms, *rest)

    for network in (Evidence, ClusterGNN):
        fit = network.fit
        monkeypatch.setattr(
            network, "fit", lambda self, *args, fit=fit: note(partial(fit, self), *args)
        )
    for twin, nodes in zip(copy.deepcopy(method.twins), left_out):
        assert not torch.isin(nodes, twin.labelled).any()
        learned.clear()
        twin.episode()
        assert len(learned) == 2  # the clusters and the classifiers
        assert all(torch.isin(twin.labelled, nodes_learned).all() for nodes_learned in learned)
        assert not torch.isin(nodes, torch.cat(learned)).any()


def test_many_labels_need_one_twin_only(monkeypatch):
    monkeypatch.setattr(twins, "ENOUGH", 10)
    method = started(without_validation(one_graph(2)))
    assert len(method.twins) == 1


def test_a_run_without_a_better_ranking_predicts_as_before_it(monkeypatch, two_hidden_classes):
    task = two_hidden_classes.task
    accuracies = iter([0.9, 0.8])
    judged = Judged(*torch.ones(3, 4))

    def judge(self: SRNCPlus) -> tuple[UnknownEvidence, Judged]:
        rank = next(accuracies)
        return UnknownEvidence(1.0, rank, rank, 0.01, 0.9, 0.9), judged

    method = make(**LONG)
    monkeypatch.setattr(SRNCPlus, "judge", judge)
    record = trainer.fit(method, task, selection="last")
    assert len(record.history) == 2
    assert "(from 90.0 to 80.0 % of the unlabelled nodes that" in record.warnings["undone"]
    scores = method.predict(task.target)
    wanted = two_hidden_classes.first.predict(task.target)
    assert torch.allclose(scores, wanted, atol=1e-5)


def without_validation(task: ShiftTask) -> ShiftTask:
    return dataclasses.replace(task, val=task.val[:0], scored=False)


def two_graphs(homophily: float, signal: float = 0.6) -> ShiftTask:
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
    task = two_graphs(homophily, signal)
    method = make(rounds=1)
    record = trainer.fit(method, task, selection="last")
    assert method.plan.adapts == adapts
    assert len(record.history) == (2 if adapts else 1)
    assert ("not adapted" in record.warnings) == (not adapts)
    if adapts:
        return

    torch.manual_seed(0)
    plain = started(task, abstain=False)
    # Neither smoothing nor correction. The MLP has a larger share than on the source.
    logits = method.logits(task.target).log_softmax(1)
    share = min(0.5, 0.5 - 2.5 * record.history[0].losses["assortativity"]) if mixes else 0.0
    weight = (1 - share) * plain.evidence.weight
    weight[2] += share * plain.evidence.weight.sum()
    assert (share > 0) == mixes
    assert torch.allclose(method.evidence.weight, weight, atol=1e-5)
    assert torch.allclose(
        method.predict(task.target).log_softmax(1), logits.log_softmax(1), atol=1e-5
    )

"""Every method keeps the contract; PGL and SRNC do what their definitions say."""
from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from functools import cache

import networkx as nx
import numpy as np
import pytest
import torch
from conftest import make_task
from scipy.stats import entropy
from sklearn.metrics import normalized_mutual_info_score
from torch_geometric.utils import to_dense_adj

from graphgym_srnc import backbones, methods
from graphgym_srnc.backbones import EncoderSpec, Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.modularity import newman_resolution
from graphgym_srnc.methods.cluster_gnn import ClusterGNN
from graphgym_srnc.methods.cut import best_threshold
from graphgym_srnc.methods.pgl import PGL
from graphgym_srnc.methods.srnc import LADDER, SRNC
from graphgym_srnc.shifts import synthetic
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.train import trainer

TINY = {"steps": 3, "rounds": 2, "enlarging": 0.5, "pretrain_steps": 3, "cluster_pretrain_steps": 3, "cluster_steps": 2}
"""Options that make a method quick, where it has them."""
MODES = ("open_set", "close_set")


@cache
def toy(mode: str = "open_set", seed: int = 0, nodes: int = 160, **options) -> ShiftTask:
    fields = {"num_classes": 3, "num_unseen": 1, "num_features": 30, "labels_per_class": 8, "num_val": 30, "num_test": 60}
    return synthetic.build(mode=mode, split_seed=seed, num_nodes=nodes, **fields | options)


EASY = {"nodes": 300, "num_classes": 4, "avg_degree": 10.0, "homophily": 0.95, "signal": 0.6, "num_features": 60, "class_imbalance": 1.0}


def some(cls: type, options: dict) -> dict:
    """Those of some options that a method or what it inherits has."""
    known = {key for part in cls.__mro__ if part.__module__.startswith("graphgym_srnc") for key in inspect.signature(part).parameters}
    return {key: value for key, value in options.items() if key in known}


def make(name: str, kind: str = "gcnconv", hidden: int = 8, **options) -> methods.base.Method:
    cls = methods.find(name)
    return cls(encoder=EncoderSpec(kind=kind, hidden=hidden, heads=2), **some(cls, TINY) | options)


def started(task: ShiftTask, **options) -> SRNC:
    """An SRNC after episode 0."""
    torch.manual_seed(0)
    method = make("srnc", **options)
    method.start(task.blind())
    return method


def noisy(task: ShiftTask, *keep: str) -> ShiftTask:
    """The same task with other labels on all nodes but the training nodes and those of the sets named."""
    graphs = {}
    for graph in task.graphs().values():
        noise = torch.randint(task.num_outputs, (graph.num_nodes,), generator=torch.Generator().manual_seed(9))
        for key, owner in (("train", task.source), *((key, task.target) for key in keep)):
            if owner is graph:
                noise[getattr(task, key)] = graph.y[getattr(task, key)]
        graphs[id(graph)] = copy.copy(graph)
        graphs[id(graph)].y = noise
    return dataclasses.replace(task, source=graphs[id(task.source)], target=graphs[id(task.target)],
                               oracle=task.oracle and noisy(task.oracle, *keep))


# ---- the contract ----


@pytest.mark.parametrize("kind", sorted(backbones.BACKBONES))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", methods.names())
def test_contract(name, mode, kind):
    task, method, states = toy(mode), make(name, kind), []
    shown = task.oracle if method.oracle else task
    untouched = {role: {key: value.clone() for key, value in graph.to_dict().items() if torch.is_tensor(value)}
                 for role, graph in task.graphs().items()}

    def keep(episode, method, task):
        states.append((copy.deepcopy(method.state_dict()), method.predict(task.target)))

    record = trainer.fit(method, task, callbacks=[keep])
    scores = method.predict(task.target)
    assert len(record.history) == method.episodes + 1 > 1 and all(episode.losses for episode in record.history)
    assert scores.shape[0] == task.target.num_nodes and scores.shape[1] in (shown.num_known, shown.num_outputs)
    assert torch.isfinite(scores).all() and not scores.requires_grad
    assert torch.equal(scores, states[record.best][1])
    decided = method.decide(scores)
    assert decided.shape == scores.shape[:1] and 0 <= int(decided.min()) <= int(decided.max()) < shown.num_outputs
    assert float((decided[shown.test] == shown.target.y[shown.test]).float().mean()) == pytest.approx(record.test["micro_f1"])

    fresh = make(name, kind)
    fresh.start(shown.blind())
    for state, expected in states:
        fresh.load_state_dict(state)
        assert torch.equal(fresh.predict(task.target), expected)

    unseen = toy(mode, seed=1, nodes=120).target
    elsewhere = method.predict(unseen)
    assert elsewhere.shape[0] == 120 and torch.isfinite(elsewhere).all()
    order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    moved = unseen.clone()
    moved.x, moved.edge_index = unseen.x[order], order.argsort()[unseen.edge_index]
    assert torch.allclose(method.predict(moved), elsewhere[order], atol=1e-4)
    for role, graph in task.graphs().items():
        assert all(torch.equal(graph[key], value) for key, value in untouched[role].items())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", methods.names())
def test_hidden_labels_change_no_bit(name, mode):
    task, bits = toy(mode), []
    for labels in (task, noisy(task)):
        method = make(name)
        trainer.fit(method, labels, selection="last")
        bits.append(method.predict(task.target))
    assert torch.equal(*bits)
    decided = []
    for labels in (task, noisy(task, "val")):
        method = make(name)
        record = trainer.fit(method, labels)
        decided.append((method.decide(method.predict(task.target)).tolist(), record.best, record.val))
    assert decided[0] == decided[1]


def test_visible_labels_do_matter():
    task = toy()
    other = noisy(task)
    other.source.y[task.train] = 1 - task.source.y[task.train]
    bits = []
    for labels in (task, other):
        method = make("erm")
        trainer.fit(method, labels, selection="last")
        bits.append(method.predict(task.target))
    assert not torch.equal(*bits)


@pytest.mark.parametrize("name", methods.names())
def test_same_seed_same_bits(name):
    runs = []
    for seed in (3, 3, 4):
        torch.rand(seed + len(runs))
        method = make(name)
        record = trainer.fit(method, toy(), seed=seed)
        runs.append(([episode.losses for episode in record.history], method.predict(toy().target)))
    assert runs[0][0] == runs[1][0] and torch.equal(runs[0][1], runs[1][1])
    assert runs[0][0] != runs[2][0] and not torch.equal(runs[0][1], runs[2][1])


@pytest.mark.parametrize("name", methods.names())
def test_learns_an_easy_graph(name):
    options = some(methods.find(name), {"steps": 80, "pretrain_steps": 80, "cluster_pretrain_steps": 120, "cluster_steps": 20})
    record = trainer.fit(make(name, hidden=32, **options), toy(**EASY))
    assert record.test["micro_f1"] > 0.8


@pytest.mark.parametrize("name", methods.names())
def test_odd_graphs_are_no_obstacle(name):
    task = make_task(unknown_nodes=False)
    source = task.source.clone()
    lonely = (source.edge_index < 80).all(0)
    source.edge_index = torch.cat([source.edge_index[:, lonely], torch.arange(0, 90, 2).repeat(2, 1)], 1)
    task = dataclasses.replace(task, source=source, target=source,
                               oracle=dataclasses.replace(task.oracle, source=source, target=source))
    method = make(name)
    trainer.fit(method, task)
    assert torch.isfinite(method.predict(source)).all()


def test_unknown_method():
    with pytest.raises(InputError) as error:
        methods.find("nonesuch")
    assert error.value.key == "train.mode"
    with pytest.raises(InputError):
        methods.find("base")


# ---- the threshold ----


def hits(cut: float, confidence, prediction, label) -> np.ndarray:
    """Who is right at a cut."""
    return np.array([float((2 if c < cut else p) == y) for c, p, y in zip(confidence.tolist(), prediction.tolist(), label.tolist())])


def intervals(confidence) -> list[tuple[float, float]]:
    """The half-open intervals (low, high] of cuts that name the same nodes unknown."""
    values = sorted(set(confidence.tolist()))
    return list(zip([-math.inf, *values], [*values, math.inf]))


def random_scores(seed: int, ties: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    confidence = torch.rand(30, generator=generator)
    confidence = (confidence * 6).floor() / 6 if ties else confidence
    return confidence, torch.randint(2, (30,), generator=generator), torch.randint(3, (30,), generator=generator)


@pytest.mark.parametrize("ties", [False, True])
def test_best_threshold_is_brute_force(ties):
    for seed in range(20):
        scores = random_scores(seed, ties)
        right = [hits(high, *scores).sum() for _, high in intervals(scores[0])]
        assert hits(best_threshold(*scores, unknown=2), *scores).sum() == max(right)


def test_best_threshold_at_the_ends():
    confidence = torch.tensor([0.2, 0.5, 0.9])
    assert best_threshold(confidence, torch.tensor([0, 1, 0]), torch.tensor([0, 1, 0]), 2) <= confidence[0]
    assert best_threshold(confidence, torch.tensor([0, 1, 0]), torch.tensor([2, 2, 2]), 2) > 0.9
    assert best_threshold(torch.full((4,), 0.5), torch.zeros(4).long(), torch.tensor([0, 2, 2, 2]), 2) > 0.5


@pytest.mark.parametrize("prior", [0.0, 0.45, 2.0])
@pytest.mark.parametrize("ties", [False, True])
def test_best_threshold_near_a_prior_is_brute_force(ties, prior):
    for seed in range(20):
        scores = random_scores(seed, ties)
        found = {interval: hits(interval[1], *scores) for interval in intervals(scores[0])}
        best = max(found.values(), key=np.sum)
        near = [0.0 if low < prior <= high else min(abs(low - prior), abs(high - prior)) for (low, high), right in found.items()
                if (best - right).mean() <= (best - right).std() / len(right) ** 0.5 + 1e-9]
        cut = best_threshold(*scores, unknown=2, prior=prior)
        lost = best - hits(cut, *scores)
        assert lost.mean() <= lost.std() / len(lost) ** 0.5 + 1e-9
        assert abs(cut - prior) == pytest.approx(min(near), abs=1e-6)


def test_cut_between_neighbouring_floats():
    above = torch.tensor(1.0)
    for _ in range(4):
        below = torch.nextafter(above, torch.tensor(0.0))
        cut = torch.tensor(0.0).fill_(best_threshold(torch.stack([above, below]), torch.tensor([0, 0]), torch.tensor([0, 2]), 2))
        assert below < cut <= above
        above = below


# ---- PGL ----


@pytest.mark.parametrize("enlarging, confident, unknown_loss", [
    (0.1, 0.6, "extra_class"), (0.25, 0.4, "uniform"), (0.2, 0.8, "extra_class")])
def test_pgl_names_as_many_as_defined(enlarging, confident, unknown_loss):
    method = make("pgl", enlarging=enlarging, confident=confident, unknown_loss=unknown_loss, steps=1)
    record = trainer.fit(method, toy())
    size = len(toy().pool)
    assert len(record.history) == 1 + round(1 / enlarging)
    for m, episode in enumerate(record.history):
        for term, share in (("pseudo_labels", confident), ("pseudo_unknowns", 1 - confident)):
            assert abs(episode.losses.get(term, 0) - m * enlarging * share * size) < 1.001
    assert {"pseudo_known", "pseudo_unknown"} <= record.history[1].losses.keys()


@pytest.mark.parametrize("unknown_loss", ["none", "uniform", "extra_class"])
def test_pgl_takes_the_surest_and_the_least_sure(unknown_loss):
    class Spy(PGL):
        def _train(self, nodes, labels, unknown):
            self.given = nodes, labels, unknown
            return super()._train(nodes, labels, unknown)

    torch.manual_seed(0)
    task, method = toy(), Spy(encoder=EncoderSpec(hidden=8), unknown_loss=unknown_loss, enlarging=0.5, steps=5)
    method.start(task.blind())
    for _ in range(2):
        p = method.predict(task.target).softmax(1)[:, :2]
        method.episode()
        (nodes, labels, unknown), confidence = method.given, p.max(1).values
        assert torch.isin(nodes, task.pool).all() and torch.isin(unknown, task.pool).all() and not torch.isin(nodes, unknown).any()
        assert (labels == p[nodes].argmax(1)).all()
        others = task.pool[~torch.isin(task.pool, torch.cat([nodes, unknown]))]
        assert confidence[nodes].min() >= confidence[torch.cat([others, unknown])].max()
        assert confidence[unknown].max() <= confidence[torch.cat([others, nodes])].min()
    assert len(others) <= 1


@pytest.mark.parametrize("mode, unknown_loss, outputs, terms", [
    ("open_set", "extra_class", 3, {"pseudo_known", "pseudo_unknown"}), ("open_set", "uniform", 2, {"pseudo_known", "pseudo_unknown"}),
    ("open_set", "none", 2, {"pseudo_known"}), ("close_set", "extra_class", 3, {"pseudo_known"})])
def test_pgl_unknown_loss(mode, unknown_loss, outputs, terms):
    method = make("pgl", unknown_loss=unknown_loss)
    record = trainer.fit(method, toy(mode), selection="last")
    assert method.predict(toy(mode).target).size(1) == outputs
    assert {"pseudo_known", "pseudo_unknown"} & record.history[-1].losses.keys() == terms


# ---- the cluster GNN ----


def cluster_gnn(task: ShiftTask, clusters: int, **options) -> ClusterGNN:
    torch.manual_seed(0)
    fields = {"resolution": 1.0, "collapse": 1.0, "modularity_weight": 1.0, "lr": 0.01, "weight_decay": 0.0}
    source, target = (Graph(graph, "l2") for graph in (task.source, task.target))
    spec = EncoderSpec(hidden=32, act="selu", skip=True)
    return ClusterGNN(spec, clusters, task.num_outputs, source, source if task.source is task.target else target, **fields | options)


def test_cluster_gnn_finds_planted_blocks():
    task = toy(**EASY)
    cluster = cluster_gnn(task, 4)
    before = float(cluster.target_loss(cluster.log_posterior(cluster.target)))
    assert cluster.pretrain(100)["cluster_target"] < before - 0.1
    hard = cluster.log_posterior(cluster.target).argmax(1)
    assert normalized_mutual_info_score(task.target.y_true, hard) > 0.85
    state = cluster.state()
    graph = nx.Graph(task.target.edge_index.T.tolist())
    graph.add_nodes_from(range(300))
    parts = [set(np.flatnonzero(hard == k)) for k in range(4)]
    assert state["modularity"] == pytest.approx(nx.community.modularity(graph, parts), abs=1e-5) and state["used_clusters"] == 4


def test_a_posterior_is_made_once_while_the_weights_stay():
    cluster = cluster_gnn(toy("close_set"), 4)
    first, other = (cluster.log_posterior(graph) for graph in (cluster.target, cluster.source))
    assert cluster.log_posterior(cluster.target) is first and cluster.log_posterior(cluster.source) is other is not first
    cluster.pretrain(1)  # the fused optimiser leaves no mark on the versions of weights
    second = cluster.log_posterior(cluster.target)
    assert not torch.equal(second, first)
    with torch.no_grad():
        cluster.encoder.output_bias.add_(1.0)
    assert cluster.log_posterior(cluster.target) is not second


def test_alignment_names_the_planted_blocks():
    task = toy(**EASY)
    cluster = cluster_gnn(task, 6)
    cluster.pretrain(100)
    mean = cluster.align(task.train, torch.nn.functional.one_hot(task.source.y[task.train], 3).float())
    assert sorted(cluster.mapping.tolist()) == [0, 1, 2, 3, 3, 3] and mean >= 0
    decided = cluster.log_class_posterior(cluster.target).argmax(1)
    assert float((decided == task.target.y)[task.target.y < 3].float().mean()) > 0.6


def test_fitting_the_source_makes_alignment_the_identity():
    task = toy("close_set", signal=0.9)
    cluster = cluster_gnn(task, 3)
    cluster.pretrain_on_source(task.train, task.source.y[task.train], 60)
    cluster.align(task.train, torch.eye(3)[task.source.y[task.train]])
    assert cluster.mapping.tolist() == [0, 1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_source_regularizer_pulls_clusters_to_classes(mode):
    task, right = toy(mode, homophily=0.55, signal=0.5), {}
    for regularized in (True, False):
        method = started(task, source_regularizer=regularized, cluster_init="modularity", cluster_hidden=32, num_clusters=4, source_batch=0,
                         cluster_pretrain_steps=30, cluster_steps=60)
        method.episode()
        decided = method.cluster_posterior(method.cluster_source)[task.train].argmax(1)
        right[regularized] = float((decided == task.source.y[task.train]).float().mean())
    assert right[True] > right[False] + 0.2


# ---- SRNC ----


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [
    {"source_posterior": "classifier"}, {"pseudo_labels": "classifier"}, {"cluster_init": "modularity"}, {"cluster_init": "source"},
    {"alpha": 1.0}, {"product": 0.5}, {"drop_unsure": 0.5}, {"hard_labels": True}, {"resolutions": []}, {"resolutions": [1.0, 3.0]},
    {"members": 3}, {"smoothing": 2}, {"self_training": 1, "calibrated": True}, {"calibrated": True}, {"source_regularizer": False},
    {"num_clusters": 0}, {"source_batch": 0},
    {"collapse": 0.0}, {"modularity_weight": 0.0}, {"cluster_hidden": 4}, {"cluster_features": "row"}, {"cluster_features": "none"},
    {"target_ratio": 50.0}, {"pretrain_steps": 1, "cluster_pretrain_steps": 1, "cluster_steps": 0}], ids=str)
def test_every_option_runs(options, mode):
    task, method = toy(mode), make("srnc", **options)
    record = trainer.fit(method, task, selection="last")
    assert len(record.history) == 1 + (2 + method.self_training) * len(method.resolutions)
    assert torch.isfinite(method.predict(task.target)).all()
    assert all(episode.losses["bound"] <= 1e-6 for episode in record.history[1:])


def test_terms_follow_the_options():
    def terms(**options):
        return trainer.fit(make("srnc", **options), toy(), max_episodes=1).history[1].losses.keys()

    faithful = terms()
    assert {"cluster_target", "cluster_source", "classifier_source", "classifier_target", "alignment_cost", "bound"} <= faithful
    assert terms(alpha=1.0) - faithful == {"classifier_unlabelled"}
    assert faithful - terms(source_regularizer=False) == {"cluster_source"}
    assert {"cluster_target", "alignment_cost"}.isdisjoint(terms(pseudo_labels="classifier"))


def test_first_episode_alone_is_an_ablation():
    whole, first = (trainer.fit(make("srnc"), toy(), max_episodes=number) for number in (-1, 1))
    assert len(first.history) == 2 < len(whole.history)
    assert [episode.losses for episode in first.history] == [episode.losses for episode in whole.history[:2]]


@pytest.mark.parametrize("num_clusters, mode, classes, expected", [(0, "open_set", 3, 16), (0, "open_set", 8, 24), (9, "open_set", 3, 9),
                                                                   (9, "close_set", 3, 3)])
def test_number_of_clusters(num_clusters, mode, classes, expected):
    method = started(toy(mode, num_classes=classes), num_clusters=num_clusters)
    assert method.num_clusters == expected == method.clusters[0].log_posterior(method.cluster_target).size(1)


def test_drawn_nodes_and_labels():
    task = toy()
    method = started(task)
    q = torch.tensor([0.2, 0.3, 0.5]).repeat(160, 1)
    nodes, label = method.draw_target(q)
    assert len(nodes) == len(task.train) == len(label) and torch.isin(nodes, task.pool).all() and nodes.unique().numel() == len(nodes)
    method.target_ratio = 2.0
    counts = sum(torch.bincount(method.draw_target(q)[1], minlength=3) for _ in range(100))
    assert np.allclose(counts / counts.sum(), [0.2, 0.3, 0.5], atol=0.04)
    method.hard_labels = True
    assert (method.draw_target(q)[1] == 2).all()


def test_the_least_sure_are_never_drawn():
    task = toy()
    method = started(task, drop_unsure=0.25, target_ratio=100.0)
    q = torch.rand(160, 3, generator=torch.Generator().manual_seed(0)).softmax(1)
    nodes, _ = method.draw_target(q)
    dropped = task.pool[~torch.isin(task.pool, nodes)]
    assert len(dropped) == pytest.approx(len(task.pool) / 4, abs=1) and q[dropped].amax(1).max() <= q[nodes].amax(1).min()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_without_clusters_the_least_sure_are_unknown(share):
    task = toy()
    method = started(task, pseudo_labels="classifier", unknown_share=share)
    q, p = method.pseudo_posterior()[task.pool], method.class_posterior(task.target)[task.pool]
    unknown = q.argmax(1) == 2
    assert float(unknown.float().mean()) == pytest.approx(share, abs=0.03)
    assert (q[~unknown].argmax(1) == p[~unknown].argmax(1)).all() and not unknown[p.amax(1).argmax()]
    if share:
        assert p[unknown].amax(1).max() < p[~unknown].amax(1).min()


@pytest.mark.parametrize("mode", MODES)
def test_source_posteriors(mode):
    task = toy(mode)
    nodes, p = started(task).source_posteriors()
    assert torch.equal(nodes, task.train) and torch.equal(p, torch.eye(task.num_known)[task.source.y[task.train]])
    method = started(task, source_posterior="classifier")
    nodes, p = method.source_posteriors()
    labelled = torch.isin(nodes, task.train)
    assert torch.equal(nodes, torch.arange(160)) and torch.allclose(p.sum(1), torch.ones(160))
    assert torch.equal(p[task.train], torch.eye(task.num_outputs)[task.source.y[task.train]])
    assert torch.equal(p[~labelled], method.class_posterior(task.source)[~labelled])
    assert started(task, source_regularizer=False).source_posteriors()[0].numel() == 0


def test_product_of_posteriors():
    method = started(toy(), product=0.5, steps=20)
    q, p = method.cluster_posterior(method.cluster_target).numpy(), method.class_posterior(toy().target).numpy()
    known = p[:, :2] * (1 - q[:, 2:])
    expected = q * np.maximum(np.concatenate([known, q[:, 2:]], 1), 1e-6) ** 0.5
    assert np.allclose(method.pseudo_posterior().numpy(), expected / expected.sum(1, keepdims=True), atol=1e-5)
    method.episode()
    q, p = method.cluster_posterior(method.cluster_target).numpy(), method.class_posterior(toy().target).numpy()
    expected = q * np.maximum(p, 1e-6) ** 0.5
    assert p[:, 2].max() > 0 and np.allclose(method.pseudo_posterior().numpy(), expected / expected.sum(1, keepdims=True), atol=1e-5)


def test_members_are_averaged():
    method = started(toy(), members=3, cluster_pretrain_steps=20)
    parts = [cluster.log_class_posterior(method.cluster_target).exp() for cluster in method.clusters]
    assert len(parts) == 3 and not torch.allclose(parts[0], parts[1], atol=1e-3)
    assert torch.allclose(method.cluster_posterior(method.cluster_target), sum(parts) / 3, atol=1e-6)


def test_smoothing_is_personalised_pagerank():
    task, method = toy(), started(toy(), steps=20)
    method.episode()
    p = method.class_posterior(task.target).numpy()
    a = to_dense_adj(task.target.edge_index, max_num_nodes=160)[0].numpy() + np.eye(160)
    a = a / np.sqrt(np.outer(a.sum(1), a.sum(1)))
    smooth = p
    for _ in range(3):
        smooth = 0.9 * a @ smooth + 0.1 * p
    method.smoothing = 3
    assert np.allclose(method.predict(task.target).exp().numpy(), smooth / smooth.sum(1, keepdims=True), atol=1e-5)


def test_bound_is_of_the_labelled_source():
    task, method = toy(), started(toy(), steps=10)
    figures = method.episode()
    q = method.cluster_posterior(method.cluster_source)[task.train].double().numpy()
    p = method.class_posterior(task.source)[task.train].double().numpy()
    assert figures["bound"] == pytest.approx(-np.mean([entropy(a, b) for a, b in zip(q, p)]), rel=1e-3)


def test_calibration_moves_the_cut_on_validation_only_if_asked():
    task = toy()
    for asked in (False, True):
        method = started(task, calibrated=asked, steps=20)
        method.episode()
        scores = method.predict(task.target)
        method.calibrate(scores[task.val], scores[task.val, :2].argmax(1))
        before, after = ((decided[task.val] == 2).sum() for decided in (scores.argmax(1), method.decide(scores)))
        assert before > after if asked else before == after > 0


def test_before_episode_one_nothing_is_unknown():
    record = trainer.fit(make("srnc"), toy(), max_episodes=0)
    assert record.test["unknown_recall"] == 0


def test_rule_for_resolutions():
    task = toy(**EASY)
    method = started(task, resolutions=[], candidates=2, cluster_pretrain_steps=60)
    assert 1 <= len(method.resolutions) <= 2 and set(method.resolutions) <= set(LADDER) and method.resolutions == sorted(method.resolutions)
    assert method.episodes == 2 * len(method.resolutions)
    task = toy("close_set")
    graph = nx.Graph(task.source.edge_index.T.tolist())
    graph.add_nodes_from(range(160))
    degree = torch.tensor([float(graph.degree[v]) for v in range(160)])
    expected = newman_resolution(task.source.edge_index, degree, task.train, task.source.y[task.train])
    assert started(task, resolutions=[]).resolutions == pytest.approx([expected])


def test_rule_does_not_see_self_loops():
    task = toy("close_set", homophily=0.6, labels_per_class=20)
    source = task.source.clone()
    source.edge_index = torch.cat([source.edge_index, torch.arange(160).repeat(2, 1)], 1)
    looped = dataclasses.replace(task, source=source, oracle=None)
    assert started(looped, resolutions=[]).resolutions == pytest.approx(started(task, resolutions=[]).resolutions)


def test_each_resolution_starts_anew():
    record = trainer.fit(make("srnc", resolutions=[1.0, 4.0]), toy())
    assert [episode.losses["resolution"] for episode in record.history[1:]] == [1, 1, 4, 4]


@pytest.mark.parametrize("mode", MODES)
def test_collapse_is_told(mode):
    options = {"collapse": 0.0, "source_regularizer": False, "cluster_lr": 0.1, "cluster_pretrain_steps": 40, "cluster_init": "modularity"}
    record = trainer.fit(make("srnc", resolutions=[0.01], **options), toy(mode))
    assert any("collapsed" in text and "resolution 0.01" in text for text in record.warnings)
    assert record.history[1].losses["used_clusters"] < toy(mode).num_outputs and record.history[1].losses["modularity"] < 0.05
    assert any("no communities" in text for text in record.warnings)


def test_no_false_alarm():
    method = make("srnc", cluster_hidden=32, cluster_pretrain_steps=120, cluster_steps=20)
    assert trainer.fit(method, toy(**EASY)).warnings == []


@pytest.mark.parametrize("key, value", [
    ("srnc.source_posterior", "x"), ("srnc.pseudo_labels", "x"), ("srnc.cluster_init", "x"), ("srnc.cluster_features", "x"),
    ("srnc.rounds", 0), ("srnc.pretrain_steps", 0), ("erm.steps", 0), ("iid.steps", 0), ("pgl.steps", 0), ("srnc.steps", 0),
    ("srnc.members", 0), ("srnc.candidates", 0), ("srnc.num_clusters", -1),
    ("srnc.cluster_steps", -1), ("srnc.source_batch", -1), ("srnc.alpha", -0.1), ("srnc.collapse", -1.0), ("srnc.product", -1.0),
    ("srnc.smoothing", -1), ("srnc.unknown_share", 1.0), ("srnc.drop_unsure", 1.0), ("srnc.cluster_lr", 0.0), ("srnc.target_ratio", 0.0),
    ("srnc.resolutions", [1.0, 0.0]),
    ("pgl.enlarging", 0.0), ("pgl.enlarging", 1.5), ("pgl.confident", -0.1), ("pgl.confident", 1.1), ("pgl.unknown_loss", "x")])
def test_bad_option_values(key, value):
    name, option = key.split(".")
    with pytest.raises(InputError) as error:
        methods.find(name)(**{option: value})
    assert error.value.key == key and error.value.value == value


@pytest.mark.parametrize("num_clusters", [1, 161])
def test_impossible_number_of_clusters(num_clusters):
    with pytest.raises(InputError) as error:
        started(toy(), num_clusters=num_clusters)
    assert error.value.key == "srnc.num_clusters"


@pytest.mark.parametrize("kind", ["gcnconv", "sgconv"])
def test_views_are_dense(kind):
    task = toy(num_features=2000, avg_degree=3.0)
    for embed in started(task, kind=kind).views().values():
        hidden, group = embed(task.target)
        assert torch.is_tensor(hidden) and hidden.shape[0] == group.shape[0] == 160

"""The cluster GNN and SRNC do what their definitions say."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from conftest import refused
from sklearn.metrics import normalized_mutual_info_score
from tasks import EASY, MODES, started_method, synthetic_task, tiny_method

from graphgym_srnc.backbones import EncoderSpec, Graph
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.methods import srnc
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN
from graphgym_srnc.train import trainer

# ---- the cluster GNN ----


def cluster_gnn(task: ShiftTask, clusters: int) -> ClusterGNN:
    torch.manual_seed(0)
    fields = {"resolution": 1.0, "collapse": 1.0, "modularity_weight": 1.0, "lr": 0.01}
    graph = Graph(task.target, "l2")
    spec = EncoderSpec(hidden=32, act="selu", skip=True)
    return ClusterGNN(spec, clusters, task.num_outputs, graph, graph, **fields)


def test_cluster_gnn_finds_planted_blocks():
    task = synthetic_task(**EASY)
    cluster = cluster_gnn(task, 4)
    before = float(cluster.target_loss(cluster.log_posterior(cluster.target)))
    cluster.pretrain(100)
    log_q = cluster.log_posterior(cluster.target)
    assert float(cluster.target_loss(log_q)) < before - 0.1
    hard = log_q.argmax(1)
    assert normalized_mutual_info_score(task.target.y_true, hard) > 0.85
    graph = nx.Graph(task.target.edge_index.T.tolist())
    graph.add_nodes_from(range(300))
    wanted = nx.community.modularity(graph, [set(np.flatnonzero(hard == k)) for k in range(4)])
    figures = cluster.figures(log_q)
    assert figures == {"modularity": pytest.approx(wanted, abs=1e-5), "used_clusters": 4}
    # The alignment names the blocks of the three known classes.
    cluster.align(log_q[task.train], torch.eye(3)[task.source.y[task.train]])
    known = task.target.y < 3
    right = cluster.log_class_posterior(log_q).argmax(1) == task.target.y
    assert float(right[known].float().mean()) > 0.6


# ---- SRNC ----


def test_terms_follow_the_options():
    def terms(**options):
        record = trainer.fit(
            method := tiny_method("srnc", **options), synthetic_task(), max_episodes=1
        )
        assert torch.isfinite(method.predict(synthetic_task().target)).all()
        return record.history[1].losses.keys()

    faithful = terms()
    assert {"classifier_source", "classifier_target", "alignment_cost", "bound"} <= faithful
    assert {"cluster_target", "cluster_source"} <= faithful
    literal = terms(cluster_init="modularity", alpha=1.0, collapse=0.0)
    assert literal - faithful == {"classifier_unlabelled"}
    assert faithful - terms(cluster_init="source", source_regularizer=False) == {"cluster_source"}
    without = {"cluster_target", "alignment_cost", "bound", "num_clusters"}
    assert without.isdisjoint(terms(pseudo_labels="classifier"))


@pytest.mark.parametrize(("given", "share"), [(0.3, 0.3), (0.0, 1 / 3)])
def test_without_clusters_the_least_sure_are_unknown(given, share):
    """By default as many as of each of the two known classes."""
    task = synthetic_task()
    method = started_method("srnc", task, pseudo_labels="classifier", unknown_share=given)
    q = method.pseudo_posterior()[task.pool]
    p = method.class_posterior(task.target)[task.pool]
    unknown = q.argmax(1) == 2
    assert float(unknown.float().mean()) == pytest.approx(share, abs=0.03)
    assert (q[~unknown].argmax(1) == p[~unknown].argmax(1)).all()
    assert not unknown[p.amax(1).argmax()]
    assert p[unknown].amax(1).max() < p[~unknown].amax(1).min()


@pytest.mark.parametrize("mode", MODES)
def test_source_posteriors(mode):
    task = synthetic_task(mode)
    label = task.source.y[task.train]
    nodes, p = started_method("srnc", task).source_posterior()
    assert torch.equal(nodes, task.train) and torch.equal(p, torch.eye(task.num_known)[label])
    # The classifier completes the labels of a semi-supervised source.
    method = started_method("srnc", task, alpha=0.5)
    nodes, p = method.source_posterior()
    labelled = torch.isin(nodes, task.train)
    assert torch.equal(nodes, torch.arange(160)) and torch.allclose(p.sum(1), torch.ones(160))
    assert torch.equal(p[task.train], torch.eye(task.num_outputs)[label])
    assert torch.equal(p[~labelled], method.class_posterior(task.source)[~labelled])
    assert started_method("srnc", task, source_regularizer=False).source_posterior()[0].numel() == 0


def test_validation_does_not_move_the_threshold(monkeypatch):
    monkeypatch.setattr(srnc, "PRETRAIN_STEPS", 3)
    task = synthetic_task()
    method = started_method("srnc", synthetic_task(), steps=20, pretrain_steps=5)
    method.episode()
    scores = method.predict(task.target)
    label = scores[task.val, :2].argmax(1)
    label[method.confidence(scores[task.val]).argmin()] = 2
    method.calibrate(scores[task.val], label, scores)
    before, after = (
        (decided[task.val] == 2).sum() for decided in (scores.argmax(1), method.decide(scores))
    )
    assert before == after > 0


@pytest.mark.parametrize("num_clusters", [1, 161])
def test_impossible_number_of_clusters(num_clusters):
    refused(
        "srnc.num_clusters", started_method, "srnc", synthetic_task(), num_clusters=num_clusters
    )

"""The verdict: each figure against brute force, sentences on the right side of their bounds, no label read that must not be."""
from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import make_task
from torch_geometric.data import Data

from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.methods.erm import ERM
from graphgym_srnc.methods.srnc import SRNC
from graphgym_srnc.train import trainer, verdict
from graphgym_srnc.train.metrics import expected_calibration_error, reliability

SMALL = {"encoder": EncoderSpec(hidden=8)}
QUICK = {"pretrain_steps": 20, "cluster_pretrain_steps": 20, "cluster_source_steps": 10, "rounds": 1, "cluster_steps": 3, "steps": 5,
         **SMALL}

BAD = {
    "homophily": {"homophily": 0.2, "labelled_edges": 40.0}, "collapse": {"clusters": 1.4, "classes": 5.0}, "alignment": {"margin": 0.01},
    "balance": {"balance": 0.6}, "unknown share": {"unknown_share": 0.0, "val_unknown_share": 0.3}, "agreement": {"agreement": 0.31},
    "calibration": {"overconfidence": 0.4},
}
"""Figures beyond the bound of each sentence."""


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("clusters", "classes"), [(2, 2), (3, 3), (4, 4), (5, 3), (6, 2)])
def test_second_best_assignment_against_all_of_them(clusters, classes, seed):
    rng = np.random.default_rng(seed)
    cost = rng.integers(0, 5, (clusters, classes)).astype(float) if seed % 2 else rng.normal(size=(clusters, classes))
    every = {own: sum(cost[cluster, k] for k, cluster in enumerate(own)) for own in itertools.permutations(range(clusters), classes)}
    ordered = sorted(every.values())
    best, second = verdict.second_best(cost)
    assert best == pytest.approx(ordered[0]) and second == pytest.approx(ordered[1])


def test_one_assignment_has_no_second():
    assert verdict.second_best(np.ones((1, 1))) == (1.0, np.inf)


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_reliability_against_brute_force(bins):
    rng = np.random.default_rng(0)
    sure, right = np.concatenate([rng.random(60), [1 / 15, 0.25, 1.0, 0.0]]), rng.random(64) < 0.5
    want = []
    for m in range(bins):
        mine = (sure > m / bins) & (sure <= (m + 1) / bins) if m else sure <= 1 / bins
        if mine.any():
            want.append([sure[mine].mean(), right[mine].mean(), mine.sum()])
    curve = reliability(torch.tensor(sure), torch.tensor(right), bins)
    np.testing.assert_allclose(curve, want)
    assert expected_calibration_error(curve) == pytest.approx(sum(n * abs(a - p) for p, a, n in want) / len(sure))
    assert expected_calibration_error(reliability(torch.tensor([1.0, 1.0]), torch.tensor([True, True]))) == 0


def test_perfect_probabilities_are_calibrated():
    generator = torch.Generator().manual_seed(0)
    sure = torch.rand(20000, generator=generator, dtype=torch.double)
    right = torch.rand(20000, generator=generator) < sure
    assert expected_calibration_error(reliability(sure, right)) < 0.02
    assert expected_calibration_error(reliability((sure + 1) / 2, right)) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("two_graphs", [False, True])
def test_homophily_against_a_loop(two_graphs):
    task = make_task(num_known=2, two_graphs=two_graphs)
    train, val = task.train.tolist(), task.val.tolist()
    # In one graph edges between training and validation nodes count, too.
    parts = [(task.source, train), (task.target, val)] if two_graphs else [(task.source, train + val)]
    same = edges = 0
    for graph, nodes in parts:
        for a, b in graph.edge_index.T.tolist():
            if a < b and {a, b} <= set(nodes) and max(graph.y[a], graph.y[b]) < 2:
                same, edges = same + int(graph.y[a] == graph.y[b]), edges + 1
    assert verdict.homophily(task) == (pytest.approx(same / edges), edges)


def test_agreement():
    plain, said = torch.tensor([0, 1, 2, 0, 2]), torch.tensor([0, 1, 1, 2, 2])
    assert verdict.agreement(plain, said, 2) == pytest.approx(2 / 3)
    assert verdict.agreement(plain, torch.full((5,), 2), 2) is None


@pytest.mark.parametrize("kind", BAD)
def test_each_sentence_tells_its_figure_and_its_bound(kind):
    told = verdict.sentences(BAD[kind])
    assert list(told) == [kind] and "bound" in told[kind] and any(c.isdigit() for c in told[kind])
    assert not verdict.sentences({"homophily": 0.9, "labelled_edges": 50.0, "clusters": 3.0, "classes": 4.0, "margin": 2.0, "balance": 0.05,
                                  "unknown_share": 0.2, "val_unknown_share": 0.25, "agreement": 0.9, "overconfidence": -0.4})
    assert verdict.sentences({}) == {}


@pytest.mark.parametrize(("share", "expected", "odd"), [(0, 0, True), (0.95, 0.9, True), (0.3, 0.25, False), (0.1, 0.31, True),
                                                       (0.31, 0.1, True), (0.2, 0, False)])
def test_the_unknown_share(share, expected, odd):
    assert bool(verdict.sentences({"unknown_share": share, "val_unknown_share": expected})) == odd


@pytest.mark.parametrize("method", [ERM, SRNC])
def test_a_fit_leaves_a_verdict_that_reads_no_hidden_label(method):
    def judged(task):
        return trainer.fit(method(**(QUICK if method is SRNC else {**SMALL, "steps": 20})), task).verdict

    task = make_task(oracle=False)
    first = judged(task)
    other = Data(x=task.source.x, edge_index=task.source.edge_index, y=task.source.y.clone())
    hidden = ~torch.isin(torch.arange(90), torch.cat([task.train, task.val]))
    other.y[hidden] = torch.randint(0, 3, (int(hidden.sum()),), generator=torch.Generator().manual_seed(3))
    second = judged(replace(task, source=other, target=other))
    assert first["figures"].pop("test_ece") != second["figures"].pop("test_ece")
    assert first["reliability"].pop("test") != second["reliability"].pop("test")
    assert first == second == json.loads(json.dumps(first))
    assert sum(count for _, _, count in first["reliability"]["val"]) == len(task.val)
    assert {"balance", "unknown_share", "agreement", "val_ece", "overconfidence"} <= set(first["figures"])
    assert ({"clusters", "margin", "classes"} <= set(first["figures"])) == (method is SRNC)


def test_figures_of_a_collapsed_cluster_gnn():
    task = make_task(open_set=False, num_known=3, oracle=False)
    method = SRNC(**QUICK)
    trainer.fit(method, task)
    sound = verdict.judge(method, task).figures
    with torch.no_grad():
        method.clusters[0].encoder.output_bias[0] += 100
    broken = verdict.judge(method, task)
    assert broken.figures["clusters"] == pytest.approx(1) and sound["clusters"] > 2
    assert "collapse" in broken.sentences and "agreement" not in broken.figures
    label = torch.bincount(task.source.y[task.train]).double() / len(task.train)
    assert broken.figures["classes"] == pytest.approx(float(np.exp(-(label * label.log()).sum())))


def test_a_task_without_validation_or_test_nodes():
    none = torch.empty(0, dtype=torch.long)
    task = replace(make_task(oracle=False), val=none, test=none, scored=False)
    found = trainer.fit(ERM(steps=5, **SMALL), task, selection="last").verdict
    assert found["reliability"] == {} and "balance" not in found["figures"]


def test_it_is_told_everywhere(gym, tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from graphgym_srnc import store
    from graphgym_srnc.report import page, table
    from graphgym_srnc.report.read import collect
    from graphgym_srnc.runs import run
    monkeypatch.setattr(verdict, "AGREEMENT", 1.1)
    cfg = gym.load_config(None, ["out_dir", str(tmp_path), "train.mode", "erm", "erm.steps", "5", "synthetic.num_nodes", "200",
                                 "synthetic.num_val", "40", "synthetic.num_test", "80", "synthetic.num_classes", "5", "gnn.dim_inner", "8"])
    place = run.experiment(cfg, "told")
    for seed in (0, 1):
        result = run.run(cfg, seed, place, extras=run.Extras(figures=True))
    sentence = result["verdict"]["sentences"]["agreement"]
    row = table.summarise("told", place.aggregate(), tmp_path)
    assert any("told: agreement, 2 of 2 run(s): the plain GNN" in note for note in table.notes([row]))
    assert "verdict" not in table.to_csv([row])
    events = EventAccumulator(str(place.path / "1"))
    events.Reload()
    texts = [e.tensor_proto.string_val[0].decode() for e in events.Tensors("verdict/text_summary")]
    assert sentence in texts and (place.path / "1" / "figures" / "reliability.png").is_file()
    broken = store.read_result(place.path / "0")
    broken["verdict"]["sentences"]["agreement"] = "<script>alert(1)</script>"
    (place.path / "0" / "result.json").write_text(json.dumps(broken))
    text = page.render(collect([tmp_path]))
    assert "Verdicts" in text and "<script>alert(1)" not in text and "agreement, 2 of 2 run(s)" in text


def test_an_estimator_has_it_too(tmp_path):
    from graphgym_srnc import load
    from graphgym_srnc.api import estimator
    task = make_task(oracle=False)
    model = estimator("erm")(hidden=8, steps=5).fit(task)
    model.save(tmp_path / "model.pt")
    assert model.verdict_ == model.record_.verdict == load(tmp_path / "model.pt").verdict_
    assert set(model.verdict_) == {"figures", "sentences", "reliability"}

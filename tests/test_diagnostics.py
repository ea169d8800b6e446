"""Diagnostics: figures against brute force, sentences beyond their bounds, no hidden label read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import make_task
from torch_geometric.data import Data

from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.methods.erm import ERM
from graphgym_srnc.methods.srnc import SRNC
from graphgym_srnc.train import diagnostics, trainer
from graphgym_srnc.train.metrics import expected_calibration_error, reliability

SMALL = {"encoder": EncoderSpec(hidden=8)}
QUICK = {"pretrain_steps": 20, "rounds": 1, "cluster_steps": 3, "steps": 5, **SMALL}


def test_reliability_against_brute_force(bins=15):
    rng = np.random.default_rng(0)
    sure = np.concatenate([rng.random(60), [1 / 15, 0.25, 1.0, 0.0]])
    right = rng.random(64) < 0.5
    want = []
    for m in range(bins):
        mine = (sure > m / bins) & (sure <= (m + 1) / bins) if m else sure <= 1 / bins
        if mine.any():
            want.append([sure[mine].mean(), right[mine].mean(), mine.sum()])
    curve = reliability(torch.tensor(sure), torch.tensor(right), bins)
    np.testing.assert_allclose(curve, want)
    wanted = sum(n * abs(a - p) for p, a, n in want) / len(sure)
    assert expected_calibration_error(curve) == pytest.approx(wanted)
    perfect = reliability(torch.tensor([1.0, 1.0]), torch.tensor([True, True]))
    assert expected_calibration_error(perfect) == 0


def grid_task(train: list[int]) -> tuple[ShiftTask, torch.Tensor]:
    """A grid of 40 x 40 nodes of two classes, and the classes."""
    node = torch.arange(1600).view(40, 40)
    across = [node[:, :-1], node[:, 1:]]
    down = [node[:-1], node[1:]]
    edges = torch.cat([torch.stack([a.ravel(), b.ravel()]) for a, b in (across, down)], 1)
    y = (torch.arange(1600) % 40 >= 20).long()
    graph = Data(x=torch.ones(1600, 1), edge_index=torch.cat([edges, edges.flip(0)], 1), y=y)
    chosen = torch.tensor(train)
    rest = torch.arange(1600)[~torch.isin(torch.arange(1600), chosen)]
    parts = {"train": chosen, "val": rest[:20], "test": rest[20:], "pool": rest}
    return ShiftTask("grid", graph, graph, num_known=2, open_set=False, **parts), y


def test_locality_of_labels_by_hand():
    corner = [40 * row + column for row in range(10) for column in (*range(5), *range(35, 40))]
    task, y = grid_task(corner)
    # Each half has 20 columns of 40 nodes; the labels are two blocks of 10 x 5.
    inside = 40 * 19 + 39 * 20
    block = 10 * 4 + 9 * 5
    expected = inside * (50 * 49) / (800 * 799)
    # Inside a half are 38 * 18 nodes with four edges, 112 with three and four with two.
    paired = (38 * 18 * 12 + 112 * 6 + 4 * 2) * (50 / 800) ** 3
    wanted = (2 * block - 3 * (2 * block + 2 * paired) ** 0.5) / (2 * expected)
    alone = (block - 3 * (block + paired) ** 0.5) / expected
    found = diagnostics.label_locality(task, y)
    got = found["label_locality"], found["class_locality"], found["class_edges_expected"]
    assert got == pytest.approx((wanted, alone, expected)) and alone > 9
    told = diagnostics.sentences(found | {"class_locality": 1.0})["locality"]
    assert (
        f"{2 * block} edges join labelled nodes of the same class, and {2 * expected:.1f}" in told
    )
    drawn = np.random.default_rng(0).permutation(1600)[:400].tolist()
    task, y = grid_task(drawn)
    random = diagnostics.label_locality(task, y)
    assert all(0.4 < random[f"{kind}_locality"] < 1 for kind in ("label", "class"))
    assert "locality" not in diagnostics.sentences(random)
    # Nodes without links say nothing.
    graph = task.source
    graph.x = torch.ones(2000, 1)
    graph.y = torch.cat([graph.y, torch.zeros(400).long()])
    assert diagnostics.label_locality(task, graph.y) == random
    # One class lies in a corner.
    task, y = grid_task([node for node in corner if y[node]] + [v for v in drawn if not y[v]])
    found = diagnostics.label_locality(task, y)
    assert found["class_locality"] == pytest.approx(alone)
    assert "nodes of rust, and" in diagnostics.sentences(found, ["go", "rust"])["locality"]


def test_the_edges_of_a_labelled_hub_are_no_locality():
    drawn = np.random.default_rng(0).permutation(np.arange(1, 1600))[:160].tolist()
    task, y = grid_task([0, *drawn])
    spokes = torch.stack([torch.zeros(799).long(), (y == 0).nonzero().ravel()[1:]])
    task.source.edge_index = torch.cat([task.source.edge_index, spokes, spokes.flip(0)], 1)
    found = diagnostics.label_locality(task, y)
    assert found["class_edges"] > 1.3 * found["class_edges_expected"]
    assert max(found["label_locality"], found["class_locality"]) < 1


@pytest.mark.parametrize("two_graphs", [False, True])
def test_homophily_against_a_loop(two_graphs):
    task = make_task(num_known=2, two_graphs=two_graphs)
    train = task.train.tolist()
    val = task.val.tolist()
    # In one graph edges between training and validation nodes count, too.
    parts = [(task.source, train + val)]
    if two_graphs:
        parts = [(task.source, train), (task.target, val)]
    same = edges = 0
    for graph, nodes in parts:
        for a, b in graph.edge_index.T.tolist():
            if a < b and {a, b} <= set(nodes) and max(graph.y[a], graph.y[b]) < 2:
                same += int(graph.y[a] == graph.y[b])
                edges += 1
    assert diagnostics.homophily(task) == (pytest.approx(same / edges), edges)


@pytest.mark.parametrize("least, is_enough", [(23, True), (24, False)])
def test_few_labelled_edges_say_nothing_of_homophily(monkeypatch, least, is_enough):
    monkeypatch.setattr(diagnostics, "TELLING", least)
    task = make_task(oracle=False)
    assert diagnostics.homophily(task)[1] == 23
    figures = judged(ERM(**SMALL, steps=2), task)["figures"]
    assert ("homophily" in figures) == is_enough


def test_sound_figures_need_no_sentence():
    sound = {"homophily": 0.9, "labelled_edges": 50.0, "balance": 0.05, "unknown_share": 0.2}
    sound |= {"val_unknown_share": 0.25, "agreement": 0.9, "overconfidence": -0.4}
    assert diagnostics.sentences(sound) == diagnostics.sentences({}) == {}
    assert "Only 49.6 %" in diagnostics.sentences(sound | {"homophily": 0.496})["homophily"]
    assert (
        "`open_set=False`" in diagnostics.sentences({"known_as_unknown": 0.16})["known as unknown"]
    )
    for odd in ({"val_unknown_share": 0.7}, {"unknown_share": 0.0}, {"unknown_share": 0.95}):
        assert list(diagnostics.sentences(sound | odd)) == ["unknown share"]
        ranked = diagnostics.sentences(sound | odd | {"val_unknown_auroc": 0.41})
        assert "(AUROC on validation nodes: 41 %" in ranked["unknown share"]


@pytest.mark.parametrize(
    ("train", "predicted", "told"),
    [
        ([0] * 14 + [1] * 86, [0] * 98 + [1] * 2, "^98 % of the target nodes are .* class 0"),
        ([0, 1], [0] * 75 + [1] * 25, ""),  # balanced labels of an unbalanced target
        ([0, 0, 0, 1], [0] * 90 + [1] * 10, ""),
        ([0, 0, 0, 1], [0] * 100, "^100 % of the .* predicted as class 0, which has 75 %"),
        ([0, 0, 0, 1], [2] * 100, ""),  # unknown
    ],
)
def test_collapse(train, predicted, told):
    nodes = torch.arange(len(train))
    graph = Data(y=torch.tensor(train))
    parts = {"source": graph, "validation": graph, "train": nodes, "val": nodes[:0]}
    task = SimpleNamespace(num_known=2, **parts)
    figures = diagnostics.collapse(task, torch.tensor(predicted)) | {"overconfidence": 0.5}
    found = diagnostics.sentences(figures)
    assert ("collapse" in found) == bool(told) != ("calibration" in found)
    assert re.search(told, found.get("collapse", ""))


def judged(method, task) -> dict:
    """The verdict on a method after its training."""
    record = trainer.fit(method, task)
    return diagnostics.judge(method, task, record.first)


@pytest.mark.parametrize("cls", [ERM, SRNC])
def test_a_verdict_reads_no_hidden_label(cls):
    def of(task) -> dict:
        return judged(cls(**(QUICK if cls is SRNC else {**SMALL, "steps": 20})), task)

    task = make_task(oracle=False)
    first = of(task)
    other = Data(x=task.source.x, edge_index=task.source.edge_index, y=task.source.y.clone())
    hidden = ~torch.isin(torch.arange(90), torch.cat([task.train, task.val]))
    generator = torch.Generator().manual_seed(3)
    other.y[hidden] = torch.randint(0, 3, (int(hidden.sum()),), generator=generator)
    second = of(replace(task, source=other, target=other))
    assert first["figures"].pop("test_ece") != second["figures"].pop("test_ece")
    assert first["reliability"].pop("test") != second["reliability"].pop("test")
    assert first == second == json.loads(json.dumps(first))
    assert sum(count for _, _, count in first["reliability"]["val"]) == len(task.val)
    figures = set(first["figures"])
    assert {"balance", "unknown_share", "agreement", "val_ece", "overconfidence"} <= figures
    assert "known_as_unknown" not in figures
    known = task.val[task.target.y[task.val] < task.num_known]
    assert 0 <= of(replace(task, val=known))["figures"]["known_as_unknown"] < 1


@pytest.mark.parametrize("count", [0, 1, 9, 10])
def test_scores_of_few_unknown_nodes_are_rough(count):
    task = make_task(2, open_set=True)
    label = torch.zeros(len(task.test), dtype=torch.long)
    label[:count] = task.num_known
    task.target.y[task.test] = label
    told = diagnostics.few_unknown(task)
    assert (f"has {count} of " in told) == (count in (1, 9)) == bool(told)


@pytest.mark.parametrize(("found", "is_told"), [(0, True), (4, True), (5, False)])
def test_a_class_that_hardly_any_other_node_gets_is_lost(found, is_told):
    task, y = grid_task([*range(5), *range(20, 25)])
    predicted = torch.zeros_like(y)
    predicted[100 : 100 + found] = 1
    told = diagnostics.lost_classes(task, predicted)
    assert (f"1 (10 labels, {found} predicted)" in told) == is_told == bool(told)
    many, _ = grid_task([*range(400)])
    assert not diagnostics.lost_classes(many, predicted)

"""The loop over episodes: what it selects, when it stops, what it restores, and what it refuses."""

from __future__ import annotations

import dataclasses
import math

import networkx as nx
import pytest
import torch
from conftest import make_task, refused
from torch import Tensor

from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import trainer

CURVE = (0.2, 0.4, 0.4, 0.12, 0.8, 0.0)
"""Share of right answers on the nodes that selection looks at, by episode."""


class Scripted(Method):
    """Right on as large a share of the nodes as its script says, so that the best episode is known
    in advance."""

    def __init__(self, task, curve=CURVE, nodes=None, losses=None, grows=0) -> None:
        super().__init__()
        self.truth = task
        self.curve = curve
        self.nodes = task.val if nodes is None else nodes
        self.losses = losses or {}
        self.grows = grows
        self.episodes = len(curve) - 1
        self.register_buffer("number", torch.tensor(-1))
        self.seen = []

    def start(self, task) -> dict[str, float]:
        self.setup(task)
        self.seen.append(task)
        self.episodes += self.grows
        return self.episode()

    def episode(self) -> dict[str, float]:
        self.number += 1
        return {"plain": 1.0} | self.losses.get(int(self.number), {})

    def predict(self, graph, role="target") -> Tensor:
        label = self.truth.source.y.clone()
        share = self.curve[min(int(self.number), len(self.curve) - 1)]
        wrong = self.nodes[round(share * len(self.nodes)) :]
        label[wrong] = (label[wrong] + 1) % self.truth.num_outputs
        return torch.eye(self.truth.num_outputs)[label]

    def calibrate(self, scores, label, on_target) -> None:
        """There is no threshold."""

    def decide(self, scores) -> Tensor:
        return scores.argmax(1)


def test_keeps_the_first_best_episode(task):
    method = Scripted(task)
    record = trainer.fit(method, task)
    assert [episode.val["micro_f1"] for episode in record.history] == pytest.approx(CURVE)
    assert [episode.number for episode in record.history] == list(range(6))
    assert record.best == 4 == int(method.number)
    assert record.score == record.history[4].val["micro_f1"] == pytest.approx(max(CURVE))
    assert record.val == record.history[4].val and record.test == record.history[4].test
    assert record.stopped == "all 5 episode(s) done" and record.selection == "target_val"
    assert record.task == task.name and record.fingerprint == task.fingerprint()


@pytest.mark.parametrize(
    "options, episodes, best, stopped",
    [
        ({"patience": 2}, 4, 1, "no better score by target_val for 2 episode(s)"),
        ({"max_episodes": 0}, 1, 0, "all 0 episode(s) done"),
    ],
)
def test_when_training_stops(task, options, episodes, best, stopped):
    method = Scripted(task)
    record = trainer.fit(method, task, **options)
    assert (len(record.history), record.best, int(method.number)) == (episodes, best, best)
    assert record.stopped == stopped


def test_source_val_looks_at_source_nodes(task):
    task = dataclasses.replace(task, source_val=task.test[:20], test=task.test[20:])
    method = Scripted(task, nodes=task.source_val)
    record = trainer.fit(method, task, selection="source_val")
    assert record.score == pytest.approx(max(CURVE))
    assert record.best == 4 and all(episode.val["micro_f1"] == 1 for episode in record.history)
    assert trainer.fit(Scripted(task, nodes=task.source_val), task).best == 0


def validated_on_source():
    """A task of two graphs whose validation nodes are on the source."""
    task = make_task(two_graphs=True)
    val = torch.arange(90)[~torch.isin(torch.arange(90), task.train)][:10]
    return dataclasses.replace(
        task, val_graph=task.source, val=val, source_val=torch.tensor([], dtype=torch.long)
    )


@pytest.mark.parametrize("held_out, rule, best", [(0, "last", 5), (2, "source_val", 4)])
def test_source_nodes_of_known_classes_select_no_episode(held_out, rule, best):
    task = validated_on_source()
    task.source.y[task.val] = held_out  # 2 = unknown
    task = dataclasses.replace(task, source_val=task.val)
    record = trainer.fit(Scripted(task, nodes=task.val), task)
    assert (record.selection, record.best) == (rule, best)
    assert [*record.warnings] == (["last episode"] if rule == "last" else [])


def test_validation_graph_of_its_own():
    task = validated_on_source()
    graphs = []

    class Spy(Scripted):
        def predict(self, graph, role="target") -> Tensor:
            graphs.append((graph, role))
            return super().predict(graph, role)

    method = Spy(task, curve=(1.0,))
    assert trainer.fit(method, task).val["micro_f1"] == 1
    blind = method.seen[0]
    assert [role for graph, role in graphs if graph is blind.target] == ["target"]
    assert [role for graph, role in graphs if graph is blind.validation] == ["source"]


def test_warnings_of_the_source_stage_say_so(monkeypatch):
    class Warns(Scripted):
        def start(self, task) -> dict[str, float]:
            self.warnings["few"] = "few labels"
            self.reported.append("homophily")
            return super().start(task)

    monkeypatch.setattr(
        trainer.source_first, "applies", lambda task: task.source is not task.target
    )
    task = validated_on_source()
    method = Warns(task, curve=(1.0,))
    method.source_first = True
    warnings = trainer.fit(method, task).warnings
    assert [*warnings.values()] == ["On the source alone: few labels", "few labels"]
    assert method.reported == ["homophily"]


@pytest.mark.parametrize("number, value", [(0, math.nan), (3, -math.inf)])
def test_a_loss_that_is_no_number_stops_the_run(task, number, value):
    told = rf"Scripted, episode {number}: cluster_target is -?(nan|inf)"
    with pytest.raises(FloatingPointError, match=told):
        trainer.fit(Scripted(task, losses={number: {"cluster_target": value}}), task)


@pytest.mark.parametrize("selection", ["test", "target_val"])
def test_bad_selections(selection):
    task = make_task(oracle=False)
    if selection == "target_val":
        task = dataclasses.replace(task, val=task.val[:0], test=task.test[:0], scored=False)
    error = str(refused("selection", trainer.fit, Scripted(task), task, selection=selection))
    assert selection in error and "last" in error


# ---- selection by the modularity of the predicted classes ----


def partition(edges: torch.Tensor, label: torch.Tensor) -> float:
    """Newman's modularity by networkx."""
    graph = nx.Graph(edges[:, edges[0] != edges[1]].T.tolist())
    graph.add_nodes_from(range(len(label)))
    classes = [{v for v in range(len(label)) if label[v] == c} for c in label.unique().tolist()]
    return nx.community.modularity(graph, classes)


class Labellings(Scripted):
    """Predicts one labelling after another."""

    def __init__(self, task, *labels) -> None:
        super().__init__(task, curve=[0.0] * len(labels))
        self.labels_of = labels

    def predict(self, graph, role="target") -> Tensor:
        return torch.eye(self.truth.num_outputs)[self.labels_of[int(self.number)]]


def labellings(task) -> list[Tensor]:
    """A plain one, a better one, and one of yet higher modularity that has swapped its classes."""
    truth = task.target.y
    draw = torch.rand(90, generator=torch.Generator().manual_seed(0))
    blurred = [torch.where(draw < share, (truth + 1) % 3, truth) for share in (0.4, 0.1, 0.25)]
    return [*blurred[:2], (truth + 1) % 3, blurred[2]]


def test_target_modularity_selects_by_edges_alone():
    task = make_task(num_known=3, open_set=False)
    labels = labellings(task)
    method = Labellings(task, *labels)
    record = trainer.fit(method, task, selection="target_modularity")
    modularity, agreement = (
        [episode.losses[key] for episode in record.history]
        for key in ("class_modularity", "agreement")
    )
    edges = task.target.edge_index
    assert modularity == pytest.approx([partition(edges, label) for label in labels], abs=1e-6)
    same = [float((label == labels[0]).float().mean()) for label in labels]
    assert agreement == pytest.approx(same)
    assert modularity[2] > modularity[1] > modularity[3] > modularity[0]
    assert agreement[0] == 1 and agreement[2] < 0.6 < agreement[1]
    assert record.best == 1 == int(method.number) and record.score == modularity[1]
    wrong = dataclasses.replace(task, source=task.source.clone(), oracle=None)
    wrong.source.y[task.val] = (wrong.source.y[task.val] + 1) % 3
    wrong = dataclasses.replace(wrong, target=wrong.source)
    assert trainer.fit(Labellings(task, *labels), wrong, selection="target_modularity").best == 1


def test_agreement_is_of_nodes_that_are_known_both_times(task):
    first = task.target.y
    draw = torch.rand(90, generator=torch.Generator().manual_seed(0))
    second = torch.where(draw < 0.3, (first + 1) % 3, first)
    record = trainer.fit(Labellings(task, first, second), task, selection="target_modularity")
    known = (first < 2) & (second < 2)
    same = (first == second).float()
    expected = float(same[known].mean())
    assert record.history[1].losses["agreement"] == pytest.approx(expected)
    assert expected != pytest.approx(float(same.mean()), abs=0.01)

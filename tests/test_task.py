"""ShiftTask refuses what is no task, hides all labels but the training ones, hashes the split."""

from __future__ import annotations

import math

import pytest
import torch
from conftest import refused
from torch_geometric.data import Data

from graphgym_srnc.core.task import HIDDEN, ShiftTask, all_finite

EDGES = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])


def graph(y=(0, 0, 1, 1, 2, 2), **changes) -> Data:
    fields = {"x": torch.arange(12.0).reshape(6, 2), "edge_index": EDGES, "y": torch.tensor(y)}
    return Data(num_nodes=6, **fields | changes)


def task(**changes) -> ShiftTask:
    own = changes.pop("graph", None) or graph()
    nodes = {"train": [0, 2], "val": [1, 4], "test": [3, 5], "pool": [1, 3, 4, 5]}
    given = {key: torch.tensor(ids) for key, ids in nodes.items()}
    given |= {"name": "toy", "source": own, "target": own, "num_known": 2, "open_set": True}
    return ShiftTask(**given | changes)


def test_labels_and_roles_of_graphs():
    assert (task().unknown, task().num_outputs) == (2, 3)
    closed = task(graph=graph(y=(0, 0, 1, 1, 0, 1)), open_set=False)
    assert (closed.unknown, closed.num_outputs) == (None, 2)
    other = graph()
    third = graph()
    one = task()
    two = task(target=other, val_graph=third)
    assert one.role_of(one.source) == "target" and two.role_of(two.source) == "source"
    assert [two.role_of(g) for g in (other, third, graph())] == ["target"] * 3


@pytest.mark.parametrize(
    "changes, key",
    [
        ({"num_known": 1}, "num_known"),
        ({"train": torch.tensor([], dtype=torch.long)}, "train"),
        ({"pool": torch.tensor([6])}, "pool"),
        ({"val": torch.tensor([1, 1])}, "val"),
        ({"train": torch.tensor([0, 3])}, "train and test"),
        ({"graph": graph(y=(0, 0, 0, 1, 2, 2))}, "train"),
        ({"graph": graph(x=torch.zeros(6))}, "source graph x"),
        ({"target": graph(x=torch.zeros(6, 3))}, "target graph x"),
        ({"val": torch.tensor([0, 4])}, "train and val"),
        ({"pool": torch.tensor([0, 4])}, "train and pool"),
        ({"test": torch.tensor([1])}, "val and test"),
        ({"graph": graph(y=(0, 0, 1, 1, 3, 2))}, "source graph y"),
        ({"graph": graph(x=torch.tensor([[float("nan")] * 2] * 6))}, "source graph x"),
        ({"graph": graph(edge_index=torch.tensor([[0], [6]]))}, "source graph edge_index"),
    ],
)
def test_refuses_what_is_no_task(changes, key):
    assert refused(key, task, **changes).key == key


def test_blind_shows_training_labels_only():
    chosen = torch.arange(6) < 1
    full = task(
        graph=graph(y_true=torch.arange(6), chosen_mask=chosen), info={"unseen": [2]}, oracle=task()
    )
    blind = full.blind()
    assert blind.source is blind.target and torch.equal(blind.source.chosen_mask, chosen)
    assert blind.source.y.tolist() == [0, HIDDEN, 1, HIDDEN, HIDDEN, HIDDEN]
    assert "y_true" not in blind.source and blind.oracle is None and not blind.info
    assert full.source.y.tolist() == [0, 0, 1, 1, 2, 2]
    blind = task(target=graph(), val_graph=graph()).blind()
    assert (blind.target.y == HIDDEN).all() and (blind.validation.y == HIDDEN).all()
    assert blind.source.y[blind.train].tolist() == [0, 1]


CHANGES = {
    "a label": {"graph": graph(y=(0, 0, 1, 1, 2, 1))},
    "an edge": {"graph": graph(edge_index=EDGES.clone().index_fill(1, torch.tensor([5]), 3))},
    "the direction of an edge": {"graph": graph(edge_index=EDGES.flip(0)[:, :5])},
    "a feature": {"graph": graph(x=torch.tensor([*range(7), 7.0001, *range(8, 12)]).reshape(6, 2))},
    "train": {"train": torch.tensor([0, 3]), "test": torch.tensor([5]), "pool": torch.tensor([1])},
    "val": {"val": torch.tensor([1])},
    "test": {"test": torch.tensor([3])},
    "pool": {"pool": torch.tensor([1, 3, 4])},
    "held-out nodes": {"source_val": torch.tensor([1])},
    "the order of nodes": {"val": torch.tensor([4, 1])},
    "a second graph": {"target": graph()},
    "a third graph": {"target": graph(), "val_graph": graph()},
}


@pytest.mark.parametrize("what", CHANGES)
def test_fingerprint_differs_with(what):
    first = task()
    changed = task(**CHANGES[what])
    assert changed.fingerprint() != first.fingerprint() == task(info={"a": 1}).fingerprint()
    assert changed.fingerprint() == task(**CHANGES[what]).fingerprint()


def test_fingerprint_is_stable_and_of_the_label_space():
    closed = {"graph": graph(y=(0, 0, 1, 1, 0, 1))}
    assert task(**closed).fingerprint() != task(**closed, open_set=False).fingerprint()
    named = task(graph=graph(y_true=torch.arange(6)), class_names=("a", "b"))
    assert task().fingerprint() == named.fingerprint()
    strided = torch.arange(12.0).reshape(2, 6).T
    tasks = [task(graph=graph(x=x)) for x in (strided, strided.contiguous())]
    assert tasks[0].fingerprint() == tasks[1].fingerprint()


@pytest.mark.parametrize("bad", [[math.nan], [math.inf, -math.inf]], ids=str)
def test_what_is_not_finite_is_found(bad):
    x = torch.rand(50, 20)
    assert all_finite(x)
    x[torch.arange(len(bad)) * 7, 3] = torch.tensor(bad)
    assert not all_finite(x)
    large = torch.full((40, 10), 3e38)
    assert math.isinf(float(large.sum())) and all_finite(large)

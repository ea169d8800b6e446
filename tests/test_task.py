"""ShiftTask refuses what is no task, hides every label but the training ones, and hashes the split."""
from __future__ import annotations

import dataclasses

import pytest
import torch
from torch_geometric.data import Data

from graphgym_srnc.errors import InputError
from graphgym_srnc.task import HIDDEN, ShiftTask

EDGES = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])


def graph(y=(0, 0, 1, 1, 2, 2), **changes) -> Data:
    fields = {"x": torch.arange(12.0).reshape(6, 2), "edge_index": EDGES, "y": torch.tensor(y)} | changes
    return Data(num_nodes=6, **fields)


def task(**changes) -> ShiftTask:
    own = changes.pop("graph", None) or graph()
    ids = {key: torch.tensor(nodes) for key, nodes in {"train": [0, 2], "val": [1, 4], "test": [3, 5], "pool": [1, 3, 4, 5]}.items()}
    return ShiftTask(**{"name": "toy", "source": own, "target": own, "num_known": 2, "open_set": True} | ids | changes)


def test_label_space():
    assert (task().unknown, task().num_outputs) == (2, 3)
    closed = task(graph=graph(y=(0, 0, 1, 1, 0, 1)), open_set=False)
    assert (closed.unknown, closed.num_outputs) == (None, 2)


def test_graphs_are_listed_once():
    other, third = graph(), graph()
    assert list(task().graphs()) == ["source"]
    assert list(task(target=other).graphs()) == ["source", "target"]
    assert list(task(target=other, val_graph=third).graphs()) == ["source", "target", "validation"]
    assert task(target=other, val_graph=third).validation is third


@pytest.mark.parametrize("changes, key", [
    ({"num_known": 1}, "num_known"),
    ({"train": torch.tensor([], dtype=torch.long)}, "train"),
    ({"test": torch.tensor([], dtype=torch.long)}, "test"),
    ({"pool": torch.tensor([6])}, "pool"),
    ({"val": torch.tensor([-1])}, "val"),
    ({"val": torch.tensor([1, 1])}, "val"),
    ({"train": torch.tensor([0])}, "train"),
    ({"train": torch.tensor([0, 2, 4]), "val": torch.tensor([1]), "pool": torch.tensor([1])}, "train"),
    ({"val": torch.tensor([0, 4])}, "train and val"),
    ({"pool": torch.tensor([0, 4])}, "train and pool"),
    ({"test": torch.tensor([1])}, "val and test"),
    ({"graph": graph(y=(0, 0, 1, 1, 3, 2))}, "source graph y"),
    ({"graph": graph(y=(0, 0, 1, 1, 2))}, "source graph y"),
    ({"graph": graph(x=torch.tensor([[float("nan")] * 2] * 6))}, "source graph x"),
    ({"graph": graph(edge_index=torch.tensor([[0], [6]]))}, "source graph edge_index"),
])
def test_refuses_what_is_no_task(changes, key):
    with pytest.raises(InputError) as error:
        task(**changes)
    assert error.value.key == key


def test_blind_shows_training_labels_only():
    full = task(graph=graph(y_true=torch.arange(6)), info={"unseen": [2]}, oracle=task())
    blind = full.blind()
    assert blind.source is blind.target
    assert blind.source.y.tolist() == [0, HIDDEN, 1, HIDDEN, HIDDEN, HIDDEN]
    assert "y_true" not in blind.source and blind.oracle is None and not blind.info
    assert full.source.y.tolist() == [0, 0, 1, 1, 2, 2]


def test_blind_target_of_two_graphs_has_no_label():
    blind = task(target=graph(), val_graph=graph()).blind()
    assert (blind.target.y == HIDDEN).all() and (blind.validation.y == HIDDEN).all()
    assert blind.source.y[blind.train].tolist() == [0, 1]


def test_fingerprint_is_of_content():
    assert task().fingerprint() == task().fingerprint()
    assert task(info={"a": 1}, name="other").fingerprint() == task().fingerprint()
    others = [task(val=torch.tensor([1])), task(graph=graph(y=(0, 0, 1, 1, 2, 1))), task(graph=graph(x=torch.ones(6, 2))),
              task(target=graph()), task(pool=torch.tensor([1, 3]))]
    assert len({t.fingerprint() for t in [task(), *others]}) == 6


def test_task_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        task().num_known = 3

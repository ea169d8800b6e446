"""Every method: what it promises, and that it sees no hidden label.

ERM is tried on every kind of shift and backbone, and each other method on one of both, which depend
on its name alone.
"""

from __future__ import annotations

import copy
import itertools
import math
from functools import partial
from zlib import crc32

import numpy as np
import pytest
import torch
from conftest import make_graph, refused
from tasks import known_options, tiny_method
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc import backbones, methods, shifts
from graphgym_srnc.backbones import dgi
from graphgym_srnc.core.options import OneOf, options
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.data import datasets
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.data.networks import OCNNC
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import trainer

pytestmark = pytest.mark.usefixtures("hardly_pretrained")

SMALL = {"labels_per_class": 5, "num_val": 20, "num_test": 30, "num_nodes": 90}
SMALL |= {"num_classes": 3, "num_features": 12, "num_unseen": 1, "scale": 0.002}
FILES = {"path": "given.npz", "source": "a.npz", "target": "b.npz"}

VARIANTS = {
    "synthetic": {"open": {"mode": "open_set"}, "close": {"mode": "close_set"}},
    "cross_graph": {"close": {}, "open": {"num_unseen": 1}},
    "ocnnc": {"open": {"source": "citation-v1", "target": "dblp-v4"}},
    "temporal": {"close": {"name": "arxiv_like"}},
    "own_split": {"small": {"name": "Cora"}},
}

TASKS = {
    f"{shift}-{variant}": (shift, changes)
    for shift in shifts.names()
    for variant, changes in VARIANTS.get(shift, {"small": {}}).items()
}
"""Each task: its shift, and the options that it has beside the small ones."""

KINDS = [*backbones.BACKBONES]
CASES = [("erm", task, kind) for task, kind in zip(TASKS, itertools.cycle(KINDS))]
for name in [name for name in methods.names() if name != "erm"]:
    task, kind = (crc32(word.encode()) for word in (name, name[::-1]))
    CASES.append((name, [*TASKS][task % len(TASKS)], KINDS[kind % len(KINDS)]))
CASES.append(("srnc_plus", "synthetic-open", "dgi"))


def small_options(shift: str) -> dict:
    """Options of a shift that make its task small, or its default where that is smaller still."""
    defaults = {option.key: option.default for option in options(shifts.find(shift))}
    small = {key: min(value, defaults[key]) for key, value in SMALL.items() if key in defaults}
    return small | {key: file for key, file in FILES.items() if key in defaults}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, ShiftTask]:
    """Each task, made once."""
    folder = tmp_path_factory.mktemp("graphs")
    for seed, name in enumerate("ab"):
        graph = make_graph(seed=seed)
        graph.y[80:] = HIDDEN
        np.savez(folder / f"{name}.npz", **graph.to_dict())
    # Of the last class there is no training node.
    node = torch.arange(90)
    masks = {
        "train_mask": (node < 30) & (graph.y < 2),
        "val_mask": (node >= 30) & (node < 50),
        "test_mask": (node >= 50) & (node < 80),
    }
    np.savez(folder / "given.npz", **graph.to_dict(), **masks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load", lambda *args: clean(make_graph()))
        split = {**masks, "train_mask": node < 30}
        whole = clean(make_graph().update(split))
        patch.setattr(datasets, "load_all", lambda *args: (whole,))
        patch.setattr(OCNNC, "load", lambda name, *args: clean(make_graph(seed=len(name))))
        patch.setattr("graphgym_srnc.shifts.ocnnc.KNOWN", 2)
        return {
            name: shifts.find(shift)(root=str(folder), **small_options(shift) | changes)
            for name, (shift, changes) in TASKS.items()
        }


@pytest.fixture
def shown_tasks(monkeypatch) -> list[ShiftTask]:
    """The tasks that methods are shown; what has no option for it is trained for few steps."""
    shown = []
    for cls in map(methods.find, methods.names()):

        def start(self, task, start=cls.start):
            shown.append(task)
            return start(self, task)

        monkeypatch.setattr(cls, "start", start)
    monkeypatch.setattr(dgi, "train_infomax", partial(dgi.train_infomax, steps=2))
    return shown


@pytest.mark.parametrize("name, task_name, kind", CASES)
def test_contract(tasks, shown_tasks, name, task_name, kind):
    task = tasks[task_name]
    method = small(name, kind)
    kept = []
    if method.oracle and task.oracle is None:
        pytest.skip(f"{task_name} has no oracle")
    task = task.oracle if method.oracle else task
    before = [graph.clone() for graph in task.graphs().values()]

    def note(episode, method, task):
        kept.append((copy.deepcopy(method.state_dict()), method.predict(task.target)))

    record = trainer.fit(method, task, max_episodes=2, callbacks=[note])
    blind, *parts = dict.fromkeys(shown_tasks)  # a method may solve a part of the task first
    check_blind(blind, task)
    assert all(part.source is part.target is blind.source for part in parts)
    assert record.fingerprint == task.fingerprint() and torch.equal(blind.train, task.train)
    assert (blind.num_known, blind.open_set) == (task.num_known, task.open_set)
    assert len(record.history) == min(2, method.episodes) + 1 > 1
    for episode in record.history:
        assert episode.losses and all(map(math.isfinite, episode.losses.values()))

    scores = method.predict(task.target)
    assert torch.equal(scores, kept[record.best][1])
    right = method.decide(scores)[task.test] == task.target.y[task.test]
    assert float(right.float().mean()) == pytest.approx(record.test["micro_f1"])
    for graph in (task.source, task.target, task.validation):
        check_prediction(method, task, graph)
    roles = [method.predict(task.target, role) for role in ("source", "target")]
    assert torch.equal(*roles) == (name != "a2gnn")
    check_identities(method, task, lambda: small(name, kind), kept)
    for graph, untouched in zip(task.graphs().values(), before):
        assert all(torch.equal(graph[key], untouched[key]) for key in ("x", "edge_index", "y"))


def small(name: str, kind: str) -> Method:
    """A method that is quick, with enough clusters for all classes of any task."""
    return tiny_method(
        name, kind, hidden=4, **known_options(methods.find(name), {"num_clusters": 40})
    )


def check_blind(blind: ShiftTask, full: ShiftTask) -> None:
    """The labels of training nodes are all that is left."""
    assert blind.oracle is None and not blind.info
    assert blind.graphs().keys() == full.graphs().keys()
    for role, graph in blind.graphs().items():
        allowed = torch.full((full.graphs()[role].num_nodes,), HIDDEN)
        if role == "source":
            allowed[full.train] = full.source.y[full.train]
        assert torch.equal(graph.y, allowed), role
        assert set(graph.keys()) == {"x", "edge_index", "y", "num_nodes"}, role


def check_prediction(method: Method, task: ShiftTask, graph: Data) -> None:
    """Scores are finite and of every node, decisions are classes."""
    scores = method.predict(graph, task.role_of(graph))
    assert scores.shape[0] == graph.num_nodes
    assert scores.shape[1] in (task.num_known, task.num_outputs)
    assert torch.isfinite(scores).all() and not scores.requires_grad
    decided = method.decide(scores)
    assert decided.shape == (graph.num_nodes,)
    assert 0 <= int(decided.min()) <= int(decided.max()) < task.num_outputs


def check_identities(method: Method, task: ShiftTask, new, kept: list) -> None:
    """Predictions take what a graph holds and the weights: no object's identity, no training."""
    rebuilt = new()
    rebuilt.build(task.sizes)

    def load(state: dict[str, Tensor]) -> None:
        rebuilt.load_state_dict({key: state[key] for key in rebuilt.state_dict()})

    load(kept[0][0])
    assert torch.equal(rebuilt.predict(task.target), kept[0][1])
    load(method.state_dict())
    for role, graph in (("target", task.target), ("source", task.source)):
        expected = method.predict(graph, role)
        for model, given in ((method, graph.clone()), (rebuilt, graph), (rebuilt, graph.clone())):
            assert torch.equal(model.predict(given, role), expected), role
            assert torch.equal(model.decide(expected), method.decide(expected))


@pytest.mark.parametrize("name", methods.names())
def test_options_are_explained_and_checked_before_anything_is_built(name, monkeypatch):
    cls = methods.find(name)
    assert {"smoothing", "batch_size", "fanout"} <= {option.key for option in options(cls)}
    monkeypatch.setattr(cls, "__init__", lambda self, **_: pytest.fail("it was built"))
    for option in options(cls):
        assert option.doc, f"{name}.{option.key} is not explained"
        assert option.type is bool or option.allowed is not None, f"{name}.{option.key}"
        if option.allowed is None:
            continue
        assert option.allowed.allows(option.default), f"the default of {option.key}"
        bad = "nonesuch" if isinstance(option.allowed, OneOf) else math.nan
        error = refused(f"{name}.{option.key}", cls, **{option.key: bad})
        assert error.key == f"{name}.{option.key}" and error.value is bad
        assert error.allowed == str(option.allowed)

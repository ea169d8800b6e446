"""Every method on every shift with every backbone: two episodes that see no hidden label."""
from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from conftest import make_graph
from test_methods import make, some
from torch_geometric.data import Data

from graphgym_srnc import backbones, methods, shifts
from graphgym_srnc.backbones import dgi
from graphgym_srnc.data import datasets
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.options import options
from graphgym_srnc.task import HIDDEN, ShiftTask
from graphgym_srnc.train import trainer

SMALL = {"labels_per_class": 5, "num_val": 20, "num_test": 30, "num_nodes": 90, "num_classes": 3,
         "num_features": 12, "num_unseen": 1, "scale": 0.002}
"""What makes a task small: each shift has those of these options that it knows, or its default
where that is smaller still."""

FILES = {"path": "given.npz", "source": "a.npz", "target": "b.npz"}
"""Values of options that name graphs in files."""

VARIANTS = {
    "synthetic": {"open": {"mode": "open_set"}, "close": {"mode": "close_set"}},
    "cross_graph": {"close": {}, "open": {"num_unseen": 1}},
    "temporal": {"close": {"name": "arxiv_like"}, "open": {"name": "arxiv_like", "num_unseen": 2}},
}
"""Options of the toy tasks of a shift, where small options alone are not all there is to try."""

TOYS = {f"{shift}-{variant}": (shift, changes) for shift in shifts.names()
        for variant, changes in VARIANTS.get(shift, {"small": {}}).items()}
"""Each toy task: its shift, and the options that it has beside the small ones."""

TINY = {"steps": 2, "pretrain_steps": 2, "cluster_pretrain_steps": 2, "cluster_source_steps": 2,
        "cluster_steps": 1, "num_clusters": 0, "samples": 3, "proxy_dim": 8}
"""Options that make a method quick, where it has them, beside those of ``make``."""


def small_options(shift: str) -> dict:
    """Options of a shift that make its task small and read the files of the fixture."""
    defaults = {option.key: option.default for option in options(shifts.find(shift))}
    small = {key: min(value, defaults[key]) for key, value in SMALL.items() if key in defaults}
    return small | {key: file for key, file in FILES.items() if key in defaults}


@pytest.fixture(scope="module")
def toys(tmp_path_factory) -> dict[str, ShiftTask]:
    """Each task, made once."""
    folder = tmp_path_factory.mktemp("graphs")
    for seed, name in enumerate("ab"):
        graph = make_graph(seed=seed)
        graph.y[80:] = HIDDEN
        np.savez(folder / f"{name}.npz", **graph.to_dict())
    # Of the last class there is no training node.
    node = torch.arange(90)
    masks = {"train_mask": (node < 30) & (graph.y < 2), "val_mask": (node >= 30) & (node < 50),
             "test_mask": (node >= 50) & (node < 80)}
    np.savez(folder / "given.npz", **graph.to_dict(), **masks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load", lambda *args: clean(make_graph()))
        return {toy: shifts.find(shift)(root=str(folder), **small_options(shift) | changes)
                for toy, (shift, changes) in TOYS.items()}


@pytest.fixture
def started(monkeypatch):
    """The tasks that methods are shown; Infomax is trained for few steps."""
    shown = []
    for cls in map(methods.find, methods.names()):
        def start(self, task, start=cls.start):
            shown.append(task)
            return start(self, task)

        monkeypatch.setattr(cls, "start", start)
    monkeypatch.setattr(dgi, "train_infomax", partial(dgi.train_infomax, steps=2))
    return shown


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


@pytest.mark.parametrize("toy", TOYS)
def test_toys_are_what_they_stand_for(toys, toy):
    task = toys[toy]
    assert bool((task.target.y[task.test] == task.num_known).any()) == task.open_set
    assert toy.endswith(("small", "open" if task.open_set else "close"))


@pytest.mark.parametrize("kind", sorted(backbones.BACKBONES))
@pytest.mark.parametrize("toy", TOYS)
@pytest.mark.parametrize("name", methods.names())
def test_contract(toys, started, name, toy, kind):
    task, method = toys[toy], make(name, kind, hidden=4, **some(methods.find(name), TINY))
    if method.oracle and task.oracle is None:
        pytest.skip(f"{toy} has no oracle")
    full = task.oracle if method.oracle else task
    record = trainer.fit(method, task, max_episodes=2)
    blind, = started
    check_blind(blind, full)
    assert record.fingerprint == full.fingerprint() and torch.equal(blind.train, full.train)
    assert (blind.num_known, blind.open_set) == (full.num_known, full.open_set)
    assert len(record.history) == 3 and all(episode.losses for episode in record.history)
    assert all(math.isfinite(value) for episode in record.history
               for value in episode.losses.values())
    for graph in (full.source, full.target, full.validation):
        check_predictions(method, full, graph)


def check_predictions(method: methods.base.Method, task: ShiftTask, graph: Data) -> None:
    scores = method.predict(graph)
    assert scores.shape[0] == graph.num_nodes
    assert scores.shape[1] in (task.num_known, task.num_outputs)
    assert torch.isfinite(scores).all() and not scores.requires_grad
    decided = method.decide(scores)
    assert decided.shape == (graph.num_nodes,)
    assert 0 <= int(decided.min()) <= int(decided.max()) < task.num_outputs

"""What holds of every method, the threshold of the unknown class, and PGL."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from functools import partial

import pytest
import torch
from conftest import refused
from tasks import EASY, MODES, known_options, started_method, synthetic_task, tiny_method

from graphgym_srnc import methods
from graphgym_srnc.backbones import EncoderSpec, prepare
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.methods.pgl import PGL
from graphgym_srnc.methods.shared.prediction import best_threshold
from graphgym_srnc.methods.shared.training import adam
from graphgym_srnc.train import trainer


def noisy(task: ShiftTask, *keep: str) -> ShiftTask:
    """The same task with other labels but on training nodes and those of the sets named."""
    graphs = {}
    for graph in task.graphs().values():
        generator = torch.Generator().manual_seed(9)
        noise = torch.randint(task.num_outputs, (graph.num_nodes,), generator=generator)
        for key, owner in (("train", task.source), *((key, task.target) for key in keep)):
            if owner is graph:
                noise[getattr(task, key)] = graph.y[getattr(task, key)]
        graphs[id(graph)] = copy.copy(graph)
        graphs[id(graph)].y = noise
    return dataclasses.replace(
        task,
        source=graphs[id(task.source)],
        target=graphs[id(task.target)],
        oracle=task.oracle and noisy(task.oracle, *keep),
    )


def fit(method: methods.base.Method, task: ShiftTask, **settings) -> trainer.RunRecord:
    """Train on what a method is to be given."""
    return trainer.fit(method, task.oracle if method.oracle else task, **settings)


# ---- every method ----


@pytest.mark.parametrize("name, mode", zip(methods.names(), itertools.cycle(MODES)))
def test_a_seed_decides_every_bit_and_hidden_labels_none(name, mode):
    """Validation labels are read by ``srnc_plus``, and by the selection of an episode."""
    task = synthetic_task(mode)
    runs = []
    seen = ("val",) if name == "srnc_plus" else ()
    for labels in (task, noisy(task, *seen)):
        torch.rand(1 + len(runs))
        method = tiny_method(name)
        record = fit(method, labels, selection="last", seed=3)
        runs.append(([e.losses for e in record.history], method.predict(task.target)))
    assert runs[0][0] == runs[1][0] and torch.equal(runs[0][1], runs[1][1])


@pytest.mark.parametrize("name", ["erm", "srnc_plus"])
def test_hidden_labels_select_no_episode(name):
    task = synthetic_task()
    found = []
    for labels in (task, noisy(task, "val")):
        method = tiny_method(name)
        record = fit(method, labels)
        classes = method.decide(method.predict(task.target)).tolist()
        found.append((classes, record.best, record.val))
    assert found[0] == found[1]


def test_visible_labels_and_the_seed_do_matter():
    task = synthetic_task()
    other = noisy(task)
    other.source.y[task.train] = 1 - task.source.y[task.train]
    bits = []
    for labels, seed in ((task, 0), (other, 0), (task, 1)):
        method = tiny_method("erm")
        trainer.fit(method, labels, selection="last", seed=seed)
        bits.append(method.predict(task.target))
    assert not torch.equal(*bits[:2]) and not torch.equal(*bits[::2])


SLOW = ("a2gnn", "adalign", "mmd", "udagcn", "uaga")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow]) if n in SLOW else n for n in methods.names()],
)
def test_learns_an_easy_graph(name):
    changes = {"steps": 30, "pretrain_steps": 30, "cluster_steps": 10, "rounds": 1}
    # The authors' weight is for raw counts of words; rows of length 1 it draws to one point.
    own = {"a2gnn": {"weight": 1.0}, "adalign": {"steps": 40}, "udagcn": {"steps": 150}}
    changes = known_options(methods.find(name), changes)
    fast = partial(adam, lr=0.03)
    method = tiny_method(name, hidden=32, make_optimizer=fast, **changes | own.get(name, {}))
    assert fit(method, synthetic_task("close_set", **EASY)).test["micro_f1"] > 0.8


def test_progress_is_the_share_of_the_steps_that_are_done():
    seen = []

    class Spy(methods.find("erm")):
        def losses(self):
            seen.append(self.progress)
            return super().losses()

    trainer.fit(Spy(encoder=EncoderSpec(hidden=8), steps=4, rounds=2), synthetic_task())
    assert seen == pytest.approx([k / 12 for k in range(12)])


def test_unknown_method():
    assert "srnc, srnc_plus" in refused("method", methods.find, "nonesuch").allowed
    refused("method", methods.find, "base")


# ---- the threshold ----


@pytest.mark.parametrize("ties", [False, True])
def test_best_threshold_is_brute_force(ties):
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(30, generator=generator)
    confidence = (confidence * 6).floor() / 6 if ties else confidence
    prediction = torch.randint(2, (30,), generator=generator)
    label = torch.randint(3, (30,), generator=generator)

    def right(threshold: float) -> int:
        return int((torch.where(confidence < threshold, 2, prediction) == label).sum())

    best = max(map(right, [*confidence.tolist(), math.inf]))
    assert right(best_threshold(confidence, prediction, label, unknown=2)) == best


def test_threshold_between_neighbouring_floats():
    above = torch.tensor(1.0)
    below = torch.nextafter(above, torch.tensor(0.0))
    confidence = torch.stack([above, below])
    label = torch.tensor([0, 2])
    found = best_threshold(confidence, torch.tensor([0, 0]), label, unknown=2)
    assert below < torch.tensor(found) <= above


# ---- PGL ----


def test_pgl_members_are_averaged(smoothing=2):
    task = synthetic_task()
    method = started_method("pgl", task, members=3, steps=5, smoothing=smoothing)
    for columns in (2, 3):
        members = (method.classifier, *method.others)
        graph = prepare(task.target, "row")
        alone = [m.eval()(m.view(graph)).detach()[:, :columns].softmax(1) for m in members]
        assert not torch.allclose(alone[0], alone[1], atol=1e-3)
        assert torch.allclose(method.logits(task.target).exp(), sum(alone) / 3, atol=1e-6)
        method.episode()


def test_pgl_takes_the_surest_and_the_least_sure():
    class Spy(PGL):
        def _train(self, nodes, labels, unknown):
            self.given = nodes, labels, unknown
            return super()._train(nodes, labels, unknown)

    torch.manual_seed(0)
    task = synthetic_task()
    method = Spy(encoder=EncoderSpec(hidden=8), enlarging=0.5, steps=5)
    method.start(task.blind())
    for _ in range(2):
        p = method.predict(task.target).softmax(1)[:, :2]
        method.episode()
        nodes, labels, unknown = method.given
        confidence = p.max(1).values
        assert torch.isin(nodes, task.pool).all() and torch.isin(unknown, task.pool).all()
        assert not torch.isin(nodes, unknown).any()
        assert (labels == p[nodes].argmax(1)).all()
        others = task.pool[~torch.isin(task.pool, torch.cat([nodes, unknown]))]
        assert confidence[nodes].min() >= confidence[torch.cat([others, unknown])].max()
        assert confidence[unknown].max() <= confidence[torch.cat([others, nodes])].min()
    assert len(others) <= 1

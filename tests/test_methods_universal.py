"""UAGA: its losses, pseudo-labels and clusters against oracles, and an easy pair of graphs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from tasks import universal_task
from torch.nn import functional as F

from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.losses.openness import half_unknown
from graphgym_srnc.methods.shared.training import adam
from graphgym_srnc.methods.uaga import UAGA
from graphgym_srnc.train import trainer


def started(task: ShiftTask) -> UAGA:
    torch.manual_seed(0)
    method = UAGA(encoder=EncoderSpec(hidden=16, dropout=0.0), pretrain_steps=40, steps=5)
    method.start(task.blind())
    return method


def test_half_unknown_is_its_formula():
    logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    p = (np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(1, keepdims=True))[:, -1]
    assert float(half_unknown(logits)) == pytest.approx(-np.mean(np.log(p) + np.log(1 - p)) / 2)
    even = torch.tensor([[0.0, 0.0, np.log(2)]])
    assert float(half_unknown(even)) == pytest.approx(np.log(2))
    assert torch.isfinite(half_unknown(torch.tensor([[90.0, 0.0, -90.0], [-90.0, 0.0, 90.0]])))


def test_pseudo_labels_are_as_documented():
    method = started(universal_task())
    found = method.pseudo_labels()
    with torch.no_grad():
        source = method.classifier.embed(method.on_source)[1]
        logits, target = method.classifier.embed(method.on_target)
    likeliest = logits.softmax(1)[:, 3].argsort(descending=True)[:66]
    centres = [source[method.labels == c].mean(0) for c in range(3)] + [target[likeliest].mean(0)]
    cluster = KMeans(4, init=torch.stack(centres).numpy(), n_init=1, tol=0).fit_predict(target)
    said = logits.argmax(1)
    for v in range(300):
        wanted = int(said[v]) if said[v] == cluster[v] else 3 if v in likeliest else -1
        assert found[v] == wanted
    assert {-1, 0, 3} <= set(found.tolist())


def test_losses_are_their_formulas():
    method = started(universal_task())
    method.pseudo = method.pseudo_labels()
    method.eval()
    terms = {name: term.detach() for name, term in method.losses().items()}
    with torch.no_grad():
        logits, source = method.classifier.embed(method.on_source)
        on_target, target = method.classifier.embed(method.on_target)
    named = method.pseudo >= 0
    assert float(terms["source"]) == pytest.approx(float(F.cross_entropy(logits, method.labels)))
    wanted = 0.1 * float(F.cross_entropy(on_target[named], method.pseudo[named]))
    assert float(terms["target"]) == pytest.approx(wanted, rel=1e-5)
    p, q = (method.domain(h).sigmoid().detach().numpy() for h in (source, target))
    wanted = -0.5 * (np.log(p).mean() + np.log(1 - q).mean())
    assert float(terms["domain"]) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.slow
def test_it_finds_the_unknown_class():
    task = universal_task()
    optimizer = partial(adam, weight_decay=1e-4)
    options = {"encoder": EncoderSpec(hidden=64), "rounds": 12, "target_weight": 0.3}
    method = UAGA(make_optimizer=optimizer, **options)
    record = trainer.fit(method, task, selection="last")
    assert record.test["hs"] > 0.85 and record.test["unknown_auroc"] > 0.95
    assert record.history[-1].losses["pseudo_labels"] > 0.8
    scores = method.predict(task.target)
    assert method.threshold == 0 and torch.equal(method.decide(scores), scores.argmax(1))

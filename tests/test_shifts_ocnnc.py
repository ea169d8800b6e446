"""Open-set cross-network classification: its files, what is deleted, hidden and refused."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
import written
from test_shifts_cross import unreachable
from torch_geometric.utils import contains_self_loops, is_undirected

from graphgym_srnc import shifts
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import matlab, ocnnc
from graphgym_srnc.methods.erm import ERM
from graphgym_srnc.train import trainer

build = shifts.find("ocnnc")
DATA = Path(os.environ.get("GRAPHGYM_SRNC_DATA") or Path(__file__).parents[2] / "shared" / "data")
published = pytest.mark.skipif(
    not (DATA / "ocnnc" / "acm-v8.mat").is_file(), reason=f"no networks of the benchmark in {DATA}"
)


@pytest.fixture
def home(tmp_path, monkeypatch) -> str:
    """A data folder with small networks, in a world without a network."""
    written.ocnnc(tmp_path)
    monkeypatch.setattr(ocnnc, "NODES", written.OCNNC)
    monkeypatch.setattr(ocnnc, "WORDS", written.WORDS)
    monkeypatch.setattr(matlab, "urlopen", unreachable)
    monkeypatch.setenv("GRAPHGYM_SRNC_CACHE", str(tmp_path / "cache"))
    return str(tmp_path)


def refused(key: str, function, **options) -> InputError:
    with pytest.raises(InputError) as error:
        function(**options)
    assert error.value.key.startswith(key) and "\n" not in str(error.value)
    return error.value


@published
@pytest.mark.parametrize(
    "name, nodes, edges, unknown",
    [
        ("citation-v1", 9737, 14054, 3586),
        ("dblp-v4", 8653, 12967, 3612),
        ("acm-v8", 8806, 17661, 3012),
    ],
)
def test_the_published_networks(name, nodes, edges, unknown):
    data = ocnnc.load(name, str(DATA))
    assert (data.num_nodes, data.num_edges // 2, data.num_features) == (nodes, edges, 7786)
    assert is_undirected(data.edge_index) and not contains_self_loops(data.edge_index)
    assert data.y.unique().tolist() == list(range(9)) and int((data.y >= 5).sum()) == unknown
    assert data.x.min() == 0 and data.x.max() > 1 and torch.equal(data.x, data.x.round())


@published
def test_the_published_task():
    task = build(root=str(DATA), source="ACM-v8", target="Citation-v1")
    assert task.name == "ocnnc/acm-v8-citation-v1" and task.num_known == 5 and task.open_set
    assert (len(task.train), len(task.test), len(task.pool)) == (5794, 9737, 9737)
    assert 0.34 < float((task.target.y == 5).float().mean()) < 0.42


def test_files_are_read_as_documented(home):
    fields, data = written.ocnnc_network("acm-v8"), ocnnc.load("ACM-v8", home)
    assert data.y.tolist() == fields["labels"][0].tolist()
    assert torch.equal(data.x, torch.from_numpy(fields["features"].toarray()).float())
    wanted = fields["adjacency_matrix"].toarray() > 0
    np.fill_diagonal(wanted, False)
    found = np.zeros_like(wanted)
    found[tuple(data.edge_index.numpy())] = True
    assert (found == wanted).all()
    assert data.cleaned == {"self_loops": 1, "duplicates": 0, "one_way": 0}


def test_unknown_classes_leave_the_source_alone(home):
    task = build(root=home, source="citation-v1", target="dblp-v4")
    fields, known = written.ocnnc_network("citation-v1"), np.arange(90) % 9 < 5
    assert task.source.num_nodes == known.sum() == 50 and task.target.num_nodes == 72
    assert torch.equal(task.source.x, torch.from_numpy(fields["features"].toarray()[known]).float())
    wanted = fields["adjacency_matrix"].toarray()[known][:, known] > 0
    np.fill_diagonal(wanted, False)
    found = np.zeros_like(wanted)
    found[tuple(task.source.edge_index.numpy())] = True
    assert (found == wanted).all()
    assert task.source.y.tolist() == fields["labels"][0][known].tolist()
    assert torch.equal(task.target.y, task.target.y_true.clamp(max=5))
    assert task.info["unseen"] == [5, 6, 7, 8] and task.oracle is None


def test_all_source_nodes_teach_and_all_target_nodes_are_tested(home):
    task = build(root=home)
    assert torch.equal(task.train, torch.arange(50)) and not len(task.source_val)
    assert task.val is task.train and task.validation is task.source
    assert task.test.tolist() == task.pool.tolist() == list(range(72))
    assert task.fingerprint() == build(root=home, split_seed=1).fingerprint()


def test_nodes_held_out(home):
    task = build(root=home, val_share=0.2, split_seed=1)
    assert len(task.train) == 40 and torch.equal(task.val, task.source_val)
    assert sorted([*task.train.tolist(), *task.val.tolist()]) == list(range(50))
    other = build(root=home, val_share=0.2, split_seed=2)
    assert not torch.equal(task.val, other.val)


def test_no_leak(home):
    blind = build(root=home, val_share=0.2).blind()
    assert (blind.target.y == -1).all() and "y_true" not in blind.target and blind.info == {}
    assert set((blind.source.y >= 0).nonzero().view(-1).tolist()) == set(blind.train.tolist())


def test_sets_that_overlap_are_refused_unless_they_are_one(home):
    task = build(root=home)
    fields = {name: getattr(task, name) for name in ("source", "target", "train", "test", "pool")}
    with pytest.raises(InputError):
        ShiftTask(
            "copy",
            val=task.train.clone(),
            val_graph=task.source,
            num_known=5,
            open_set=True,
            **fields,
        )


def test_the_cut_without_unknown_validation_nodes(home):
    task, method = build(root=home, val_share=0.4), ERM(steps=20)
    trainer.fit(method, task, selection="last")
    sure = method.confidence(method.predict(task.source, "source")[task.val])
    assert float((sure >= method.threshold).float().mean()) == pytest.approx(0.95)


@pytest.mark.parametrize(
    "key, options",
    [
        ("source", {"source": "acmv9"}),
        ("target", {"target": ""}),
        ("target", {"source": "acm-v8", "target": "ACM-v8"}),
        ("val_share", {"val_share": 1.0}),
        ("val_share", {"val_share": 0.001}),
    ],
)
def test_refused_options(home, key, options):
    refused(f"ocnnc.{key}", build, root=home, **options)


def test_refused_files(home):
    file, fields = Path(home) / "ocnnc" / "acm-v8.mat", written.ocnnc_network("acm-v8")
    refused("name", ocnnc.load, name="acmv9", root=home)
    for field, wrong in (
        ("features", fields["features"][:, 1:]),
        ("labels", fields["labels"].T),
        ("labels", fields["labels"] + 1),
        ("labels", fields["labels"] + 0.5),
        ("adjacency_matrix", fields["adjacency_matrix"][1:]),
        ("labels", np.array([["a"] * 81])),
    ):
        scipy.io.savemat(file, fields | {field: wrong})
        refused(f"ocnnc/acm-v8.mat: {field}", ocnnc.load, name="acm-v8", root=home)
    for content in (b"", b"<html>not found</html>", file.read_bytes()[:300]):
        file.write_bytes(content)
        refused("ocnnc/acm-v8.mat", ocnnc.load, name="acm-v8", root=home)


def test_download(home, monkeypatch):
    file = Path(home) / "ocnnc" / "acm-v8.mat"
    content = file.read_bytes()
    before = ocnnc.load("acm-v8", home)
    file.unlink()
    error = refused("ocnnc.target", build, root=home, target="acm-v8")
    assert "acm-v8.mat" in error.allowed and str(file.parent) in error.allowed
    monkeypatch.setattr(matlab, "urlopen", lambda url, timeout: io.BytesIO(content[:200]))
    refused("ocnnc/acm-v8.mat", ocnnc.load, name="acm-v8", root=home)
    assert not file.exists()
    asked = []
    monkeypatch.setattr(
        matlab, "urlopen", lambda url, timeout: asked.append(url) or io.BytesIO(content)
    )
    assert torch.equal(ocnnc.load("acm-v8", home).edge_index, before.edge_index)
    assert asked == [f"{ocnnc.URL}acm-v8.mat"] and file.read_bytes() == content

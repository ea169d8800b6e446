"""Counts of operations, which do not depend on the machine: a regression of speed fails here."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from conftest import ended, make_graph
from sklearn.feature_extraction.text import TfidfVectorizer

from graphgym_srnc import ERM, PGL, SRNC, SRNCPlus
from graphgym_srnc.backbones import Batches, EncoderSpec, build, prepare
from graphgym_srnc.backbones import graph as graphs
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.cli.main import main
from graphgym_srnc.core import text
from graphgym_srnc.data import features, read, readings
from graphgym_srnc.methods import srnc
from graphgym_srnc.methods.shared import label_density, label_scan
from graphgym_srnc.train import model
from graphgym_srnc.train.explain import explain

MAKE = "data make tables/nodes.csv tables/edges.csv --text title".split()
KNOWN = {
    # estimator, and its most gradient steps and sparse products per step
    "ERM": (ERM(steps=30), 60, 1.1),
    "PGL": (PGL(enlarging=0.3, steps=20), 80, 1.9),
    "SRNC": (SRNC(rounds=2, pretrain_steps=20, steps=20), 130, 1.7),
    "SRNCPlus": (SRNCPlus(rounds=2, steps=15, fit_steps=5, cluster_steps=5), 422, 1.35),
}


@pytest.fixture
def counts(monkeypatch):
    """Numbers of gradient steps and of sparse products since the test began."""
    monkeypatch.setattr(srnc, "PRETRAIN_STEPS", 30)
    monkeypatch.setattr(label_density, "STEPS", 20)
    found = {"steps": 0, "products": 0}
    step = torch.optim.Adam.step
    product = Sparse.__matmul__

    def counted_step(self, *args, **options):
        found["steps"] += 1
        return step(self, *args, **options)

    def counted_product(self, dense):
        found["products"] += 1
        return product(self, dense)

    monkeypatch.setattr(torch.optim.Adam, "step", counted_step)
    monkeypatch.setattr(Sparse, "__matmul__", counted_product)
    return found


@pytest.mark.parametrize("name", KNOWN)
def test_a_fit_takes_no_more_steps_and_products_than_before(name, counts):
    estimator, steps, products = KNOWN[name]
    graph = make_graph(num_nodes=120, num_features=40)
    graph.train_mask = torch.arange(120) < 60
    graph.y[60:] = -1
    estimator.fit(graph)
    assert steps / 2 < counts["steps"] <= steps
    assert counts["products"] <= products * counts["steps"]


def counted(monkeypatch: pytest.MonkeyPatch, owner, name: str, key=lambda *args: "") -> Counter:
    """How often a function is called from now on, by a key of its arguments."""
    calls = Counter()
    function = getattr(owner, name)

    def count(*args, **options):
        calls[key(*args)] += 1
        return function(*args, **options)

    monkeypatch.setattr(owner, name, count)
    return calls


@pytest.mark.parametrize(("columns", "products"), [(64, 3), (100, 6), (8, 1)])
def test_a_large_operand_is_read_in_blocks(columns, products, monkeypatch):
    rng = np.random.default_rng(0)
    values = scipy.sparse.random_array((13_000, 40), density=0.1, dtype=np.float32, rng=rng)
    matrix = Sparse(values)
    dense = torch.randn(13_000, columns)
    calls = counted(monkeypatch, torch.nn.functional, "embedding_bag")
    found = matrix.transposed_product(dense)
    assert calls.total() == products
    expected = torch.from_numpy(values.toarray()).T @ dense
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("size", "views"), [(60, 1), (59, 12)])
def test_batches_of_all_nodes_share_one_view(size, views):
    graph = prepare(make_graph(), "row")
    encoder = build(EncoderSpec(kind="mlp", hidden=4), graph.num_features, 3)
    batches = Batches(encoder, graph, [torch.arange(60)], size)
    drawn = [batches()[0] for _ in range(12)]
    assert len({id(view) for view in drawn}) == views


@pytest.fixture(scope="module")
def own_run(tmp_path_factory) -> Path:
    """A folder with example tables, their graph and a run on it."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert not main("data example tables --nodes 300 --labelled 0.3".split())
        assert not main([*MAKE, "--out", "graph"])
        run = "run --cfg own dataset.name graph --name a train.mode erm erm.steps 5"
        assert not main(run.split())
    return folder


def test_tables_are_read_and_their_texts_counted_once(own_run, tmp_path, monkeypatch):
    monkeypatch.chdir(own_run)
    files = counted(monkeypatch, read, "sheet", lambda path, *_: path.name)
    passes = counted(monkeypatch, TfidfVectorizer, "build_analyzer")
    texts = counted(monkeypatch, features, "documents")
    columns = counted(monkeypatch, features, "as_written", len)
    by_rows = counted(monkeypatch, read, "_uneven")
    ids = counted(monkeypatch, readings.columns, "unique")
    assert not main([*MAKE, "--out", str(tmp_path / "graph")])
    assert files == {"nodes.csv": 1, "edges.csv": 1}
    assert passes.total() == 2  # for words and for their parts
    assert texts.total() == 1
    assert columns[max(columns)] <= 19  # others are of labelled nodes alone
    assert not by_rows  # no cell has quotes
    assert ids.total() == 1


def test_a_text_is_guarded_once_wherever_it_occurs(own_run, tmp_path, monkeypatch):
    monkeypatch.chdir(own_run)
    cells = counted(monkeypatch, text, "guarded")
    assert not main(["predict", "results/a", "--out", str(tmp_path / "all.csv")])
    assert 600 < cells.total() < 700  # ids and titles of 300 nodes, names of columns and classes


def test_groups_of_labels_are_learned_from_a_sample(monkeypatch):
    monkeypatch.setattr(label_scan, "LEARNED", 500)
    learned = counted(monkeypatch, label_scan, "kmeans", lambda unit, *_: len(unit))
    topics = torch.randn(2000, 4)
    label = torch.randint(-1, 2, (2000,))
    label_scan.Scan(topics, torch.full((2000, 2), 0.5), label)
    assert learned == {500: 1}


def test_a_prediction_prepares_its_graph_once(own_run, monkeypatch):
    loaded = model.load(own_run / "results/a")
    task_graph = make_graph(num_nodes=50, num_features=loaded.method.task.num_features)
    prepared = counted(monkeypatch, graphs.Graph, "__init__")
    loaded.predict(task_graph)
    assert prepared.total() == 1


def test_an_explanation_checks_a_graph_once_and_reads_edges_only_where_they_differ(
    own_run, monkeypatch
):
    loaded = model.load(own_run / "results/a")
    graph = make_graph(num_nodes=50, num_features=loaded.method.task.num_features)
    checks = counted(monkeypatch, model, "unlabelled")
    edges = counted(monkeypatch, graphs, "_read_edges")
    prepared = counted(monkeypatch, graphs.Graph, "__init__")
    found = explain(loaded, graph, 4)
    assert checks.total() == 1
    assert edges.total() == 2 + len(found.links)  # all, without its own, without one
    assert prepared.total() == 3 + len(found.links) + len(found.words)


COMPILER = """
import sys
from graphgym_srnc.cli.main import main
assert main() == 0  # of a process of its own
sys.exit("torch._dynamo.utils" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "predict results/a --out {}/all.csv",
        "discover results/a --out {}/page.html",
        "run --cfg own dataset.name graph --out-dir {} train.mode erm erm.steps 1",
    ],
)
def test_commands_do_not_load_the_compiler(command, own_run, tmp_path):
    """Its import takes a third of the time of all imports."""
    words = [sys.executable, "-c", COMPILER, *command.format(tmp_path).split()]
    done = ended(words, cwd=own_run)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("few_numbers")
@pytest.mark.parametrize("command", ["predict", "discover"])
def test_a_graph_folder_is_read_once(command, own_run, tmp_path, monkeypatch):
    monkeypatch.chdir(own_run)
    files = counted(monkeypatch, read, "sheet", lambda path, *_: path.name)
    out = {"predict": "all.csv", "discover": "page.html"}[command]
    assert not main([command, "results/a", "--out", str(tmp_path / out)])
    assert files["nodes.csv"] == files["edges.csv"] == 1

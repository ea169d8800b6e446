"""Nodes drawn at random for the user to label, whose labels judge predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from conftest import NO_PICTURES, make_graph, refusal
from statsmodels.stats.proportion import proportion_confint

from graphgym_srnc.cli.main import main
from graphgym_srnc.core.task import ENOUGH, covers
from graphgym_srnc.data import files, folder
from graphgym_srnc.data.dates import drawn
from graphgym_srnc.methods.shared.unknown_test import Labelled
from graphgym_srnc.own import sample
from graphgym_srnc.own.discover import feedback
from graphgym_srnc.own.sample import Sample, on_accuracy

COUNT = 400
OLD = 200  # nodes of the time of the labels
WORDS = ("rod reel hook", "rock quartz lava", "leaf root stem")
CLASSES = ("fish", "stone", "plant")
FEW = "srnc_plus.steps 20 srnc_plus.fit_steps 5 srnc_plus.cluster_steps 5".split()


def class_of(node: int) -> str:
    """The first two classes in turn; later there are plants, too."""
    return CLASSES[node % 3 if node >= OLD else node % 2]


@pytest.fixture(scope="module")
def dated(tmp_path_factory) -> Path:
    """A folder with a run on a graph whose labels are of the first half of its time."""
    folder = tmp_path_factory.mktemp("dated")
    place = [CLASSES.index(class_of(node)) for node in range(COUNT)]
    draw = np.random.default_rng(0)
    nodes = pandas.DataFrame({"id": [f"n{node}" for node in range(COUNT)]})
    nodes["title"] = [" ".join(draw.permutation(WORDS[k].split())[:2]) for k in place]
    nodes["day"] = pandas.date_range("1990-01-01", periods=COUNT).astype(str)
    is_labelled = (nodes.index < OLD) & (nodes.index % 4 < 2)
    nodes["label"] = np.where(is_labelled, [CLASSES[k] for k in place], "")
    nodes.to_csv(folder / "nodes.csv", index=False)
    ends = [(f"n{node}", f"n{(node + 6) % COUNT}") for node in range(COUNT)]
    pandas.DataFrame(ends, columns=["a", "b"]).to_csv(folder / "edges.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make = "data make nodes.csv edges.csv --text title --date day --out graph"
        assert not main(make.split())
        assert not run("r", "graph")
    return folder


def run(name: str, graph: str) -> int:
    """The status of a run of few steps."""
    return main(["run", "--cfg", "own", "--name", name, *NO_PICTURES, "dataset.name", graph, *FEW])


@pytest.fixture
def labelled(dated, monkeypatch) -> Path:
    """The same folder as the current one, with a sample whose nodes have true labels but a few."""
    monkeypatch.chdir(dated)
    if not Path("typed.csv").exists():
        assert not main("predict results/r --out all.csv --sample sample.csv".split())
        rows = pandas.read_csv("sample.csv", dtype=str, keep_default_na=False)
        rows["new_label"] = [class_of(int(node)) for node in rows.node]
        rows.loc[[3, 8, 99], "new_label"] = ""
        rows.to_csv("typed.csv", index=False)
    return dated


def test_a_sample_is_drawn_from_nodes_of_which_no_label_tells(labelled, capsys):
    rows = pandas.read_csv("sample.csv", dtype=str, keep_default_na=False)
    nodes = rows.node.astype(int)
    assert len(rows) == sample.SIZE and nodes.is_unique
    is_of_time = files.load(Path("graph"))[0]["drawn_mask"]
    assert not is_of_time[nodes].any() and is_of_time[10 : OLD - 10].all()
    assert rows["sample"].tolist() == [str(number) for number in range(1, sample.SIZE + 1)]
    assert not nodes.is_monotonic_increasing and (rows.new_label == "").all()
    assert [*rows] == ["node", "id", "title", "date", "sample", "new_label", "text"]
    words = "predict results/r --out all.csv --sample typed.csv --overwrite".split()
    assert "labels that you typed" in refusal(main(words), capsys)


def test_without_dates_all_unlabelled_nodes_may_be_drawn():
    graph = make_graph(num_nodes=90)
    assert sorted(sample.draw(graph, {*range(40)})) == [*range(40, 90)]
    graph.drawn_mask = torch.arange(90) < 80
    assert sorted(sample.draw(graph, {*range(40)})) == [*range(80, 90)]
    graph.drawn_mask = torch.arange(90) >= ENOUGH
    assert covers(graph, torch.arange(ENOUGH)) and not covers(graph, torch.arange(ENOUGH - 1))
    assert sorted(sample.draw(graph, {*range(ENOUGH)})) == [*range(ENOUGH, 90)]
    graph.chosen_mask = torch.arange(90) == 0
    assert not covers(graph, torch.arange(ENOUGH))


def test_the_run_is_judged_on_the_sample(labelled, capsys):
    capsys.readouterr()
    assert not main("discover results/r --labels typed.csv --labels-out next --overwrite".split())
    told = capsys.readouterr().out.splitlines()
    predicted = pandas.read_csv("all.csv", index_col="node")["class"]
    rows = pandas.read_csv("typed.csv").dropna(subset="new_label")
    truth = rows.new_label.where(rows.new_label != "plant", "unknown")
    right = (predicted[rows.node].values == truth.values).sum()
    low, high = (100 * end for end in proportion_confint(right, 97, method="wilson"))
    assert (
        f"97 nodes drawn at random (2 skipped; {100 * right / 99:.1f} % if these are wrong)"
        in "\n".join(told)
    )
    line = next(line.split() for line in told if line.startswith("  all"))
    assert line == ["all", "97", f"{100 * right / 97:.1f}", "%", f"{low:.1f}", "to", f"{high:.1f}"]
    assert any(line.split()[:4] == ["of", "other", "classes,", "right"] for line in told)
    assert "197 labels: 100 as before, 97 typed by you" in told
    origins = pandas.read_csv("next/labels.csv", index_col="node").origin
    assert origins[origins == "sampled"].index.tolist() == sorted(rows.node)


def test_the_next_run_tells_the_accuracy_of_the_sample_apart(labelled, capsys):
    assert not main("discover results/r --labels typed.csv --labels-out next --overwrite".split())
    graph = files.load(Path("next"))[0]
    # Of nodes of the other time labels tell now, and these are tested.
    assert graph["drawn_mask"][OLD:].all() and not graph["drawn_mask"][10 : OLD - 10].any()
    capsys.readouterr()
    assert not run("s", "next")
    out = capsys.readouterr().out
    assert "SRNC+, 97 nodes drawn at random (2 skipped) " in out and "--sample" not in out
    record = json.loads(Path("results/s/0/result.json").read_text())
    assert record["held_out"]["labels"] == 100 and record["held_out"]["sampled"]["labels"] == 97
    assert record["verdict"]["figures"]["unknown_share"] == 0  # all classes have labels
    assert any("97 labels may not show" in text for text in record["warnings"].values())
    assert record["held_out"]["sampled"]["accuracy"] > 0.9
    for one in record["held_out"]["alone"].values():
        assert one["sampled"]["labels"] == 97 and 0 < one["sampled"]["accuracy"] <= 1
    assert "  logistic regression on features, drawn at random " in out
    # The run after it compares its own accuracy with this one.
    Path("one.csv").write_text("node,new_label\n3,fish\n")
    assert not main("discover results/s --labels one.csv --labels-out third".split())
    assert folder.parent(Path("third"))["sampled"] == record["held_out"]["sampled"]


def test_labels_of_the_other_time_do_not_test_for_an_unknown_class():
    known = [f"19{90 + node // 10:02d}-01-01" for node in range(100)]
    is_labelled = np.arange(100) < 30
    few = drawn(known, is_labelled | (np.arange(100) >= 90), sampled=range(90, 100))
    assert np.flatnonzero(few).tolist() == [*range(30)]
    many = drawn(known, is_labelled | (np.arange(100) >= 45), sampled=range(45, 100))
    assert np.flatnonzero(many).tolist() == [*range(30, 100)]
    graph = make_graph(num_nodes=100)
    graph.drawn_mask = torch.from_numpy(few)
    graph.chosen_mask = torch.arange(100) == 0
    nodes = torch.tensor([0, 1, 2, 90, 91])
    own = Labelled.of(graph, nodes, torch.tensor([0, 0, 1, 1, 2]))
    assert own.drawn.tolist() == [False, True, True, False, False]
    assert own.elsewhere.tolist() == [False, False, False, True, True]
    assert own.never_held_out.tolist() == [True, False, False, False, False]
    assert own.drawn_classes.tolist() == [0, 1]
    # Two labels of the other time weigh less than three others already.
    assert own.weight is None


def test_labels_of_another_time_weigh_together_as_much_as_the_others():
    graph = make_graph(num_nodes=100)
    graph.drawn_mask = torch.arange(100) >= 60
    nodes = torch.arange(20, 70)
    own = Labelled.of(graph, nodes, torch.zeros(50, dtype=torch.long))
    assert own.weight is not None
    assert own.weight[40:].eq(1).all() and own.weight[:40].eq(0.25).all()
    earlier = Labelled.of(graph, nodes[:40], torch.zeros(40, dtype=torch.long))
    assert earlier.weight is None


def test_accuracy_on_a_sample_counts_the_unknown_class():
    predicted = ["a", "a", "unknown", "b", "unknown", "b"]
    found = Sample({0: "a", 1: "b", 2: "new", 3: "unknown", 4: "unknown", 5: "b"}, 0)
    lines = [line.split() for line in on_accuracy(found, predicted, {"a", "b"})]
    assert lines[2][:3] == ["all", "6", "66.7"]
    assert lines[3][:5] == ["of", "known", "classes", "3", "66.7"]
    assert lines[4][-6:-3] == ["3", "66.7", "%"]
    assert lines[5][:7] == ["predicted", "as", "unknown,", "right", "if", "of", "other"]
    assert lines[5][-6:-3] == ["2", "100.0", "%"]
    assert on_accuracy(Sample({}, 0), predicted, {"a", "b"}) == []


def test_a_typed_sample_tells_what_was_skipped(tmp_path):
    text = "id,sample,new_label\na,1,go\nb,2,\nc,3,unknown\nd,4,?\ne,5,rust\nf,6,\ng,,go\n"
    (tmp_path / "s.csv").write_text(text)
    labels, found = feedback.read_labels(tmp_path / "s.csv", [*"abcdefg"], 7)
    assert labels == {0: "go", 2: "", 3: "", 4: "rust", 6: "go"}
    assert found == Sample({0: "go", 2: "unknown", 4: "rust"}, 2)

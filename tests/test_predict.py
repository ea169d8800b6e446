"""``predict`` as a user types it, on the graph of a saved run and on one with new nodes."""

from __future__ import annotations

import os
import re
from collections import Counter
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from conftest import NO_PICTURES, make_graph, refusal, rows
from sklearn.metrics import f1_score
from torch_geometric.data import Data

from graphgym_srnc import ERM
from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.main import main
from graphgym_srnc.cli.predict import _find_node, _with_held_out
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build, predictions
from graphgym_srnc.gym.folds import assigned
from graphgym_srnc.own import example

SIZES = """synthetic.num_nodes 200 synthetic.num_val 40 synthetic.num_test 80 gnn.dim_inner 8
synthetic.num_features 40 synthetic.num_classes 5 train.max_episodes 1""".split()

pytestmark = pytest.mark.usefixtures("hardly_pretrained", "unchanged_globals")


def status_of(*words: object) -> int:
    """The exit status of a command, in this process, which is faster."""
    return main(list(map(str, words)))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    from torch_geometric.graphgym.config import cfg

    config = cfg.clone()
    assert status_of("run", "--out-dir", folder, "--name", "one", *NO_PICTURES, *SIZES) == 0
    cfg.clear()
    cfg.update(config)
    return folder


@pytest.fixture
def saved(run_folder):
    """The model of that run."""
    return build.load_model(run_folder / "one")


@pytest.fixture
def target(saved) -> Data:
    """The graph of that run."""
    return build.task_of(saved).target


def told_of(run: Path, capsys, *words: object) -> str:
    """What a prediction prints."""
    assert status_of("predict", run, *words) == 0
    return capsys.readouterr().out


def test_a_node_to_explain_may_be_named_by_its_title():
    texts = ["Kronos\na ship", "Twin\none", "alpha", "", *["twin\nother"] * 6]
    ids = [f"I{node}" for node in range(10)]
    found = Names(ids, texts)
    for given, node in {"I3": 3, "Kronos": 0, " kronos": 0, "alpha": 2}.items():
        assert _find_node(given, found, 10) == node
    assert _find_node("Kronos", found._replace(ids=["a", "Kronos", *ids[2:]]), 10) == 1, "ids first"
    several = "7 nodes have the title 'Twin'. Give the id of one: I1, I4, I5, I6, I7 and 2 more"
    for given, message in {"Twin": several, "": "no node ''", "I33": "Did you mean I3?"}.items():
        with pytest.raises(InputError) as error:
            _find_node(given, found, 10)
        assert message in str(error.value)
    with pytest.raises(InputError, match="no node 'Kronos'"):
        _find_node("Kronos", Names(), 10)


def test_a_second_network_needs_no_labels(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example.write(Path("old"), 400, 0.5)
    example.write(Path("new"), 300, seed=1)
    few = "--no-tensorboard optim.base_lr 0.06 srnc_plus.rounds 1 srnc_plus.steps 12"
    few += " srnc_plus.fit_steps 5 srnc_plus.cluster_steps 5"
    pair = "cross_graph.source a cross_graph.target b --name pair"
    for command in (
        "data make old/nodes.csv old/edges.csv --text title --out a",
        "data make new/nodes.csv new/edges.csv --like a --label none --out b",
        f"run --cfg own-networks {pair} --no-figures {few}",
        "predict results/pair --out p.csv",
    ):
        assert status_of(*command.split()) == 0, command
    words = "predict results/pair --out q.csv --disagreements d.csv"
    told = capsys.readouterr().out
    assert "no node of the graph has" in refusal(status_of(*words.split()), capsys)
    assert "no test node has a label" in told and "report results" not in told
    assert "keeps 100 labels" not in told  # that is for one graph
    assert f"run --cfg own-networks {pair[:41]}\n" in told
    answers = pandas.read_csv("p.csv").merge(pandas.read_csv("new/answers.csv"), on="id")
    assert answers["id"].tolist() == pandas.read_csv("new/nodes.csv")["id"].tolist()
    known = answers[answers["topic"].isin(answers["class"])]
    assert len(known) > 100 and (known["class"] == known["topic"]).mean() > 0.7
    for name in ("compare", "report"):
        assert status_of(name, "results") == 2 and "--split val" in capsys.readouterr().err


def test_its_own_target_gives_the_stored_scores(run_folder, saved, capsys):
    out = run_folder / "own.csv"
    told = told_of(run_folder / "one", capsys, "--out", out, "--probabilities")
    task = build.task_of(saved)
    table = rows(out)
    assert [int(row["node"]) for row in table] == list(range(200))
    names = ["node", "class", "given_label", "split", "probability", "p_given_label", "p_known"]
    assert list(table[0])[:7] == names
    assert "wrote" in told
    label = np.array([saved.class_names.index(row["class"]) for row in table])
    found = f1_score(task.target.y[task.test], label[task.test], average="micro")
    assert found == pytest.approx(saved.result["test"]["micro_f1"])
    each = np.array([[float(row[f"p_{name}"]) for name in saved.class_names] for row in table])
    np.testing.assert_allclose(each.sum(1), 1, atol=1e-3)
    assert max(len(row["probability"]) for row in table) == len("0.1234")
    np.testing.assert_array_equal(each.argmax(1), label)
    np.testing.assert_allclose([float(row["probability"]) for row in table], each.max(1))
    np.testing.assert_allclose([float(row["p_known"]) for row in table], 1 - each[:, -1], atol=2e-4)
    lines = told.splitlines()
    for k, name in enumerate(saved.class_names):
        line = next(line for line in lines if line.startswith(f"{name} "))
        assert int(line.split()[1]) == (label == k).sum()
    small = [row["class"] for row in table if int(row["component_size"]) <= 5]
    assert small and lines[0].endswith("in components of at most 5 nodes")
    assert lines[1].split()[-1] == str(small.count(lines[1].split()[0]))
    assert next(line for line in lines if line.startswith("all ")).split()[-1] == str(len(small))


def test_labels_that_the_model_disagrees_with(run_folder, capsys):
    out, other_out = run_folder / "labels.csv", run_folder / "other.csv"
    told = told_of(run_folder / "one", capsys, "--out", out, "--disagreements", other_out)
    table, other = rows(out), rows(other_out)
    wrong = [row for row in table if row["given_label"] not in ("", row["class"])]
    listed = [row | {"new_label": ""} for row in wrong]
    assert sorted(other, key=lambda row: int(row["node"])) == listed and wrong
    labelled = sum(row["given_label"] != "" for row in table)
    unknown = sum(row["class"] == "unknown" for row in wrong)
    assert f"disagrees with {len(wrong)} of {labelled} given labels" in told
    assert f"Of these nodes, {unknown} are predicted as unknown" in told
    assert Counter(row["split"] for row in table) == {"train": 60, "val": 35, "test": 71, "": 34}
    assert " of 60 train, " in told
    first = other[0]
    least = f"{float(first['p_given_label']):.2f}"
    shown = (first["node"], first["given_label"], least, first["class"])
    order = [(row["class"] == "unknown", float(row["p_given_label"])) for row in other]
    assert order == sorted(order)
    assert re.search(r"more of them. The first ones are:\n.*\n  " + " +".join(shown), told)
    classes = ["b", "unknown", "c", "unknown", "b"]
    given = {"node": [*range(5)], "class": classes, "given_label": ["a"] * 5}
    given |= {"component_size": [1, 9, 9, 5, 6], "p_given_label": [0.1, 0.0, 0.3, 0.2, 0.1]}
    assert [*predictions.disagreements(pandas.DataFrame(given))["node"]] == [0, 4, 2, 1, 3]


def test_folds_find_wrong_labels_that_the_model_has_learned(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = make_graph()
    graph.y[:30:6] = (graph.y[:30:6] + 1) % 3
    torch.save(Data(x=graph.x, edge_index=graph.edge_index, y=graph.y), "g.pt")
    words = "train.mode erm erm.steps 60 gnn.layer_type mlp file.open_set False file.num_val 9"
    fixed = ["--cfg", "own", *NO_PICTURES, "--name", "r", "dataset.name", "g.pt"]
    assert status_of("run", *fixed, *words.split()) == 0
    wrong = {*range(0, 30, 6)}
    for folds, found in (0, False), (3, True):
        files = ["--out", f"{folds}.csv", "--disagreements", f"d{folds}.csv"]
        assert status_of("predict", "results/r", *files, "--folds", folds) == 0
        table = rows(f"{folds}.csv")
        held_out = [row for row in table if row.get("class_without_label")]
        assert len(held_out) == (sum(row["given_label"] != "" for row in table) if folds else 0)
        nodes = {int(row["node"]) for row in rows(f"d{folds}.csv")}
        assert (wrong <= nodes) == found, (folds, nodes)
    assert "Models that were not trained on the label disagree" in capsys.readouterr().out
    of_final = [{key: row[key] for key in rows("0.csv")[0]} for row in rows("3.csv")]
    assert rows("0.csv") == of_final


def test_the_only_label_of_a_class_is_in_no_fold():
    graph = make_graph()
    graph.y[:] = torch.arange(90) % 2
    graph.y[7] = 2
    nodes = torch.arange(90)
    parts = {"train": nodes[:30], "val": nodes[30:40], "test": nodes[40:], "pool": nodes[30:]}
    task = ShiftTask("a", graph, graph, num_known=3, open_set=False, **parts)
    labelled, fold = assigned(task, 4, seed=0)
    assert labelled[fold < 0].tolist() == [7]
    assert fold[fold >= 0].bincount().tolist() == [20, 20, 20, 19]


@pytest.mark.parametrize("method, learns", [("srnc_plus", True), ("erm", False)])
def test_validation_labels_that_a_model_learned_are_training_labels(
    tmp_path, capsys, monkeypatch, method, learns
):
    monkeypatch.chdir(tmp_path)
    graph = make_graph(num_nodes=140)
    graph.y[120:] = -1
    torch.save(graph, "own.pt")
    few = f"{method}.rounds 1 {method}.steps 5"
    if learns:
        few += " srnc_plus.fit_steps 5 srnc_plus.cluster_steps 5"
    words = ["--cfg", "own", "dataset.name", "own.pt", "train.mode", method, "gnn.dim_inner", "8"]
    pictures = NO_PICTURES if learns else []  # also of a run that tests no node
    assert not main(["run", "--name", "a", *pictures, *words, *few.split()])
    assert ("(held-out labels" in capsys.readouterr().out) == learns
    assert not main(["predict", "results/a", "--out", "all.csv"])
    counts = Counter(row["split"] for row in rows("all.csv"))
    assert ("val" in counts) != learns and "test" not in counts
    assert counts["train"] == (120 if learns else 60)

    capsys.readouterr()
    assert not main(["data", "show", "--out", "data.html", *words])
    told = capsys.readouterr().out
    assert ("validation nodes" in told) != learns
    assert "labelled        120" in told and f"unlabelled      {graph.num_nodes - 120}" in told
    assert "class  labelled  %" in told and "of these for training" in told
    assert "target" not in told and "\nunknown" not in told
    page = Path("data.html").read_text()
    assert "of these for training" in page and "target" not in page


@pytest.mark.parametrize("name", ["new.pt", "new.npz", "folder"])
def test_a_graph_with_new_nodes_in_every_form(name, run_folder, saved, target, tmp_path):
    """Ten nodes more, each a copy of an old one, hanging on it."""
    x = torch.cat([target.x, target.x[:10]])
    links = torch.stack([torch.arange(10), torch.arange(200, 210)])
    edges = torch.cat([target.edge_index, links], 1)
    want = saved.predict(Data(x=x, edge_index=edges))
    torch.save(Data(x=x, edge_index=edges), tmp_path / "new.pt")
    np.savez(tmp_path / "new.npz", x=x.numpy(), edge_index=edges.numpy())
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "edges.npy", edges.numpy())
    np.save(folder / "features.npy", x.numpy())
    others = "".join(f"n{v},text\n" for v in range(1, 210))
    (folder / "nodes.csv").write_text('id,text\n=1+2,"=A1\nbody"\n' + others)

    words = ["--graph", tmp_path / name, "--out", tmp_path / "new.csv"]
    assert status_of("predict", run_folder / "one" / "0", *words) == 0
    table = rows(tmp_path / "new.csv")
    assert [saved.class_names.index(row["class"]) for row in table] == want.label.tolist()
    assert [int(row["gnn_cluster"]) for row in table] == want.cluster.tolist()
    known = [float(row["p_known"]) for row in table]
    np.testing.assert_allclose(known, 1 - want.posterior[:, -1], atol=1e-4)
    ids = [(row.get("id"), row.get("title")) for row in table[:2]]
    named = [("'=1+2", "'=A1"), ("n1", "text")]
    assert ids == (named if name == "folder" else [(None, None)] * 2)
    assert predictions.notes(saved, Data(x=x, edge_index=target.edge_index)) == []


def test_nodes_predicted_as_unknown_that_are_more_likely_known_are_told():
    some = {"class": ["unknown"] * 12, "p_known": [0.6] * 3 + [0.4] * 9}
    (doubt,) = predictions.on_unknown(pandas.DataFrame(some))
    assert doubt.startswith("3 of 12 nodes predicted as unknown are more likely of some known")
    few = {"class": ["unknown", "unknown", "a"], "p_known": [0.96, 0.97, 0.1]}
    (doubt,) = predictions.on_unknown(pandas.DataFrame(few))
    told = "2 nodes predicted as unknown: P(unknown) is 0.04 on average, so most are probably of"
    assert doubt.startswith(told) and "Unknown is likelier than each known class, but" in doubt
    half = {"class": ["unknown"] * 2, "p_known": [0.7, 0.308]}
    assert "1 of 2 nodes" in predictions.on_unknown(pandas.DataFrame(half))[0]
    assert predictions.on_unknown(pandas.DataFrame(some | {"p_known": [0.4] * 12})) == []


def test_a_later_graph_is_compared_with_that_of_training(run_folder, saved, target, capsys):
    bare = Data(x=target.x, edge_index=target.edge_index[:, ::4])
    torch.save(bare, run_folder / "few.pt")
    here = (saved.predict(bare).label == saved.method.task.unknown).double().mean()
    there = saved.result["verdict"]["figures"]["unknown_share"]
    words = ["--graph", run_folder / "few.pt", "--out", run_folder / "few.csv"]
    told = told_of(run_folder / "one", capsys, *words)
    assert re.search(rf"unknown +{100 * here:.1f} % +{100 * there:.1f} %", told)
    links = target.num_edges / 200
    pairs = {(min(edge), max(edge)) for edge in bare.edge_index.T.tolist()}
    few = 2 * len(pairs) / 200
    assert re.search(rf"links per node +{few:.1f} +{links:.1f}", told)
    assert few < links / 2 and "warning: Nodes of this graph have far fewer links" in told
    frame = pandas.DataFrame({"class": ["unknown", "0"]})
    told = predictions.beside_training(saved, target, frame)
    assert "50.0 %" in told[1] and not any("warning" in line for line in told)
    saved.result["held_out"] = {"as_known": {"accuracy": 0.75}}
    assert predictions.beside_training(saved, target, frame)[-1].endswith("not known   75.0 %")
    saved.facts.clear()
    saved.result.clear()
    assert predictions.beside_training(saved, target, frame) == []


def test_a_model_of_an_estimator(run_folder, target, capsys):
    links = {"x": target.x, "edge_index": target.edge_index}
    y = np.array(["art", "@law"])[np.arange(200) % 2]
    graph = Data(**links, y=y, train_mask=torch.arange(200) < 100)
    estimator = ERM(hidden=8, steps=5, random_state=1, open_set=True).fit(graph)
    estimator.save(run_folder / "erm.pt")
    torch.save(links, run_folder / "bare.pt")
    words = ["--graph", run_folder / "bare.pt", "--out", run_folder / "erm.csv"]
    assert status_of("predict", run_folder / "erm.pt", *words) == 0
    table = rows(run_folder / "erm.csv")
    assert [row["class"] for row in table] == estimator.predict(graph).tolist()
    assert "gnn_cluster" not in table[0]
    status = status_of("predict", run_folder / "erm.pt", "--out", run_folder / "none.csv")
    assert "--graph" in refusal(status, capsys) and not (run_folder / "none.csv").exists()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["nothing"], "RUN: nothing contains no"),
        (["one", "--graph", "nothing.pt"], "--graph: 'nothing.pt' does not exist"),
        (["one/0/result.json"], "damaged"),
        (["one", "--graph", "wide.npz"], "7 features"),
        (["one", "--graph", "bare.npz"], "graph: x"),
        (["one", "--out", "nowhere/a.csv"], "--out"),
        (["one", "--out", "there.csv"], "--overwrite"),
        (["one", "--graph", "there.csv", "--out", "there.csv", "--overwrite"], "also an input"),
        (["one", "--graph", "wide.npz", "--disagreements", "d.csv"], "--graph are not read"),
        (["one", "--folds", "1"], "--folds: got 1"),
        (["one", "--out", "d.csv", "--disagreements", "d.csv"], "is also --out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_take_one_line(run_folder, monkeypatch, capsys, words, match):
    monkeypatch.chdir(run_folder)
    np.savez("wide.npz", x=np.ones((4, 7)), edge_index=np.array([[0], [1]]))
    np.savez("bare.npz", edge_index=np.array([[0], [1]]))
    Path("there.csv").write_text("kept")
    before = sorted(os.listdir())
    out = [] if "--out" in words else ["--out", "new_file.csv"]
    assert match in refusal(status_of("predict", *words, *out), capsys)
    assert sorted(os.listdir()) == before and Path("there.csv").read_text() == "kept"


def test_parquet(tmp_path, monkeypatch):
    columns = {"node": [0, 1], "class": ["=a", "b"], "probability": [0.25, 0.5]}
    if find_spec("pyarrow"):
        arguments.check_out("--out", tmp_path / "a.parquet", False)
        (tmp_path / "a.parquet").write_bytes(predictions.encode("a.parquet", columns))
        assert pandas.read_parquet(tmp_path / "a.parquet").to_dict("list") == columns
    monkeypatch.setattr(arguments, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"graphgym-srnc\[parquet\]"):
        arguments.check_out("--out", tmp_path / "b.parquet", False)


@pytest.mark.usefixtures("few_numbers")
def test_a_damaged_seed_is_not_replaced_by_the_next(tmp_path, capsys):
    """Also if the folder of the run itself is given, and if nothing but its checksum is gone."""
    words = ["run", "--cfg", "testing/erm", "--name", "two", "--repeat", "2", *NO_PICTURES]
    assert main([*words, "--out-dir", str(tmp_path), "erm.steps", "3"]) == 0
    home = tmp_path / "two"
    outputs = {"predict": tmp_path / "out.csv", "discover": tmp_path / "out.html"}
    commands = [[name, "--out", str(out)] for name, out in outputs.items()]
    record = bytearray((home / "0" / "result.json").read_bytes())
    record[300] ^= 1
    (home / "0" / "result.json").write_bytes(record)
    capsys.readouterr()
    for (command, *out), run in product(commands, (home, home / "0")):
        error = refusal(main([command, str(run), *out]), capsys)
        assert str(home / "0" / "result.json") in error and "damaged" in error
    (home / "0" / "SHA256SUMS").unlink()
    for command, *out in commands:
        assert "cannot be verified" in refusal(main([command, str(home), *out]), capsys)
        assert main([command, str(home / "1"), *out]) == 0
        capsys.readouterr()


def test_a_label_that_every_fold_learned_has_no_held_out_prediction():
    frame = pandas.DataFrame({"node": [0, 1, 2], "class": [*"aba"]})
    judging = frame.assign(
        given_label=["b", "", "a"],
        probability=[0.9, 0.8, 0.7],
        p_given_label=[0.1, float("nan"), 0.7],
    )
    made = _with_held_out(frame, judging, [2])
    assert made["class"].tolist() == [*"aba"]
    assert made.class_without_label.tolist() == ["a", "", ""]
    assert made.probability_without_label.dropna().to_dict() == {0: 0.9}
    assert made.p_given_label_without_label.dropna().to_dict() == {0: 0.1}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".html"])
def test_a_file_of_the_user_is_not_replaced(suffix, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = Path(f"mine{suffix}")
    table = pandas.DataFrame({"node": ["a", "b"], "class": ["x", ""], "title": ["t", "u"]})
    (table.to_parquet if suffix == ".parquet" else table.to_csv)(file)
    kept = file.read_bytes()
    words = ["discover" if suffix == ".html" else "predict", "run", "--out", file.name]
    # Not a whole table, and longer than a cell that is read.
    for content in (kept, b"PAR1" * 50_000):
        file.write_bytes(content)
        assert "graphgym-srnc did not write it" in refusal(main([*words, "--overwrite"]), capsys)
    assert "add --overwrite" in refusal(main(words), capsys)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_labels_that_the_user_typed_are_not_replaced(suffix, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = Path(f"check{suffix}")
    words = f"predict run --out new.csv --disagreements {file} --overwrite".split()
    for typed, said in (("", "contains no finished run"), ("x", "has labels that you typed, such")):
        table = {"node": [1, 2], "given_label": ["a", "b"], "new_label": ["", typed]}
        table = pandas.DataFrame(table)
        (table.to_csv if suffix == ".csv" else table.to_parquet)(file, index=False)
        kept = file.read_bytes()
        assert said in refusal(main(words), capsys)
        assert file.read_bytes() == kept

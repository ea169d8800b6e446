"""Labels that a run on your own graph holds out: its accuracy, simpler models, and wrong labels."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from conftest import NO_PICTURES, make_graph, refusal, rows
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.preprocessing import normalize
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint
from stored import Page

from graphgym_srnc import SRNCPlus, load
from graphgym_srnc.backbones.graph import prepare
from graphgym_srnc.cli.main import main
from graphgym_srnc.cli.predict import WITHOUT_LABEL
from graphgym_srnc.data.edges import component_sizes
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build, predictions
from graphgym_srnc.io import checksums, settings
from graphgym_srnc.methods.shared.unknown_test import Labelled
from graphgym_srnc.methods.shared.validation import OutOfFold
from graphgym_srnc.report import held_out as words
from graphgym_srnc.report import summary, why
from graphgym_srnc.report.tables import ABSENT
from graphgym_srnc.train import held_out, model
from graphgym_srnc.train.explain import Effect, explain

pytestmark = pytest.mark.usefixtures("unchanged_globals")
FEW = "srnc_plus.rounds 1 srnc_plus.steps 15 srnc_plus.fit_steps 5 srnc_plus.cluster_steps 5"
FEW += " optim.base_lr 0.02"
WRONG = [*range(0, 30, 6)]


def own_run(folder: Path, name: str, *words: str) -> int:
    """The status of a run on the graph of a folder."""
    places = ["--out-dir", str(folder), "--name", name, *NO_PICTURES]
    return main(["run", "--cfg", "own", *places, "dataset.name", str(folder / "g.pt"), *words])


@pytest.fixture(scope="module")
def run_with_wrong_labels(tmp_path_factory):
    """A run of SRNC+ on a graph with two thirds of its labels, of which five are wrong."""
    run_with_wrong_labels = tmp_path_factory.mktemp("held_out")
    graph = make_graph(num_nodes=120)
    graph.y[WRONG] = (graph.y[WRONG] + 1) % 3
    graph.y[80:] = -1
    torch.save(graph, run_with_wrong_labels / "g.pt")
    assert own_run(run_with_wrong_labels, "r", *FEW.split()) == 0
    return run_with_wrong_labels


def record(experiment: Path) -> dict[str, Any]:
    """The record of its first run, as it is stored."""
    return json.loads((experiment / "0/result.json").read_text())


@pytest.fixture
def loaded(run_with_wrong_labels):
    """The model of that run."""
    return build.load_model(run_with_wrong_labels / "r")


def store_result(place: Path, result: dict[str, Any], time: int) -> None:
    """Write the record of a run into a folder, as at some time."""
    place.mkdir(parents=True)
    (place / "result.json").write_text(json.dumps(result))
    checksums.write(place, ["result.json"])
    os.utime(place / "result.json", (time, time))


def report_of(results: Path, page: Path) -> Page:
    """The page about a folder of results, taken apart."""
    assert main(["report", str(results), "--out", str(page)]) == 0
    return Page(page.read_text())


def cells_of(table: list) -> list[list[str]]:
    """The texts in a table of a page."""
    return [[text for text, _ in row] for row in table]


def all_cells(page: Page) -> list[list[str]]:
    """The rows of all tables of a page."""
    return [row for table in page.tables for row in cells_of(table)]


def test_the_exact_test_is_that_of_statsmodels():
    rng = np.random.default_rng(0)
    for size in (1, 8, 60):
        pairs = rng.integers(0, 2, (2, size))
        table = np.zeros((2, 2))
        np.add.at(table, tuple(pairs), 1)
        expected = min(mcnemar(table, exact=True).pvalue, 1.0)
        assert held_out.mcnemar(*torch.from_numpy(pairs).float()) == pytest.approx(expected)


def wilson(right: float, count: int) -> tuple[float, float]:
    """The interval of a share, by statsmodels."""
    return pytest.approx(proportion_confint(round(right), count, method="wilson"))


def test_the_record_has_accuracy_interval_and_simpler_models(run_with_wrong_labels, loaded):
    result = record(run_with_wrong_labels / "r")
    found = result["held_out"]
    method = loaded.method
    held = method.out_of_fold
    correct = held.log_p.argmax(1) == held.labels
    assert found["labels"] == found["of"] == 80
    assert found["accuracy"] == pytest.approx(float(correct.float().mean()))
    assert (found["low"], found["high"]) == wilson(int(correct.sum()), 80)
    kept = round(float(correct.sum() * held.kept))
    as_known = found["as_known"]
    assert as_known["accuracy"] == pytest.approx(kept / 80) and kept <= correct.sum()
    assert (as_known["low"], as_known["high"]) == wilson(kept, 80)
    assert load(run_with_wrong_labels / "r").record_.best == result["selected"] > 0
    assert found["unchanged"] == {"labels": 80} | as_known
    task = build.task_of(loaded)
    changed = held.nodes[:30].tolist()
    same = held_out.unchanged(method, task, changed)
    assert same["labels"] == 50
    assert 50 * same["accuracy"] == round(float(correct[30:].sum() * held.kept))
    assert held_out.unchanged(method, task, held.nodes.tolist()) == {}
    chosen = held.nodes[20:40].tolist()
    judged = held_out.judge(method, task, with_controls=False, chosen=chosen, changed=changed)
    assert judged["labels"] == 60 and judged["unchanged"]["labels"] == 40
    apart = held_out.judge(method, task, with_controls=False, chosen=chosen, sampled=changed)
    assert apart["labels"] == 40 and apart["sampled"]["labels"] == 20
    assert sum(one["labels"] for one in apart["classes"].values()) == 60
    every = held.nodes.tolist()
    alone = held_out.judge(method, task, with_controls=False, chosen=chosen, sampled=every)
    assert alone["labels"] == 60 and alone["sampled"] == {}
    right = f"(held-out labels {100 * judged['accuracy']:.1f} % right)"
    assert right in summary.line(result | {"held_out": judged})
    assert [*found["alone"]] == ["gcnconv", "forest", "linear", "linear_hops"]
    assert result["test"] == {} and not {*held.nodes.tolist()} - {*range(80)}
    for one in found["alone"].values():
        assert (one["low"], one["high"]) == wilson(80 * one["accuracy"], 80)
    assert found["alone"]["gcnconv"]["accuracy"] == pytest.approx(float(held.gnn.mean()))
    assert found["alone"]["forest"]["accuracy"] == pytest.approx(float(held.forest.mean()))


def test_the_controls_are_cross_validated(loaded):
    task = build.task_of(loaded)
    noisy = task.source.clone()
    noisy.x = noisy.x + 2 * torch.rand(noisy.x.shape, generator=torch.Generator().manual_seed(0))
    noisy.x[:, 0] *= 100
    graph = prepare(noisy, "l2")
    held = loaded.method.out_of_fold
    right = held_out.controls(graph, task, held)
    x, y = noisy.x.numpy().copy(), held.labels.numpy()
    x[:, 0] /= x[held.nodes, 0].std()
    scaled = graph.x.numpy()
    links = np.zeros((120, 120))
    links[tuple(task.source.edge_index.numpy())] = 1
    mean = links / links.sum(1, keepdims=True).clip(1)
    hops = np.hstack([normalize(part) for part in (scaled, mean @ scaled, mean @ mean @ scaled)])
    settings = {"C": held_out.INVERSE_PENALTY, "class_weight": "balanced", "max_iter": 200}
    linear = LogisticRegression(**settings)
    folds = PredefinedSplit(held.fold.numpy())
    for name, inputs in {"linear": x, "linear_hops": hops}.items():
        expected = cross_val_predict(linear, inputs[held.nodes.numpy()], y, cv=folds)
        assert right[name].tolist() == (expected == y).tolist(), name
    assert right["linear"].tolist() != right["linear_hops"].tolist()
    task.source.drawn_mask = torch.zeros(120, dtype=torch.bool)
    task.source.drawn_mask[held.nodes[::8]] = True
    own = Labelled.of(task.source, held.nodes, held.labels)
    few = own.elsewhere.logical_not()
    assert own.weight is not None
    expected = []
    for number in range(5):
        rest = held.fold != number
        linear.fit(x[held.nodes[rest]], y[rest], sample_weight=own.weight[rest])
        expected += (linear.predict(x[held.nodes[~rest]]) == y[~rest]).tolist()
    assert 0 < few.sum() < 20
    assert held_out.controls(graph, task, held)["linear"].tolist() == expected


def test_a_control_with_too_many_numbers_is_left_out(loaded, monkeypatch):
    task = build.task_of(loaded)
    graph = loaded.method.prepared(task.source)
    monkeypatch.setattr(held_out, "MAX_ENTRIES", int((graph.x[:80] != 0).sum()))
    assert [*held_out.controls(graph, task, loaded.method.out_of_fold)] == ["linear"]
    monkeypatch.setattr(held_out, "MAX_ENTRIES", 10)
    assert held_out.controls(graph, task, loaded.method.out_of_fold) == {}


def test_validation_nodes_judge_other_methods(run_with_wrong_labels, capsys):
    settings = ["train.mode", "erm", "erm.steps", "30", "gnn.layer_type", "mlp"]
    assert own_run(run_with_wrong_labels, "erm", *settings) == 0
    told = capsys.readouterr().out
    found = record(run_with_wrong_labels / "erm")
    held, val = found["held_out"], found["val"]
    as_known = held["as_known"]
    assert held["labels"] == 40 and [*held["alone"]] == ["linear", "linear_hops"]
    assert as_known["accuracy"] == pytest.approx(val["known_accuracy"])
    assert held["accuracy"] == pytest.approx(val["closed_accuracy"])
    assert held["accuracy"] > as_known["accuracy"]
    assert (as_known["low"], as_known["high"]) == wilson(40 * as_known["accuracy"], 40)
    right, low, high = (f"{100 * as_known[key]:.1f}" for key in ("accuracy", "low", "high"))
    last = f"MLP, unknown counted as wrong {right} % {low} to {high}"
    assert last in " ".join(told.split())
    assert "accuracy on 40 (of 80) labels" in told and "logistic regression on features" in told


def test_the_difference_to_the_best_simpler_model_is_stated():
    right = torch.tensor([1.0] * 90 + [0.0] * 10)
    best = torch.tensor([1.0] * 75 + [0.0] * 25)
    worse = torch.tensor([0.0] * 100)
    alone = {
        name: {"accuracy": float(one.mean()), "p_value": held_out.mcnemar(one, right)}
        for name, one in (("linear", worse), ("linear_hops", best))
    }
    found = {"accuracy": 0.9, "alone": alone}
    # 15 labels are right by one of the two alone, each of them by the same one.
    assert words.on_best_alone("SRNC+", found) == (
        "SRNC+ minus the best simpler model, logistic regression on features and hop means: +15.0"
        f" points, significant (McNemar test, p = {2 * 0.5**15:.2g})."
    )
    alone["linear_hops"] |= {"accuracy": 0.92, "p_value": 0.2}
    text = words.on_best_alone("SRNC+", found)
    assert "-2.0 points, not significant (McNemar test, p = 0.2)" in text
    assert words.on_best_alone("SRNC+", {"accuracy": 0.9, "alone": {}}) == ""


def test_the_page_of_a_run_without_test_labels_has_the_accuracy_of_the_terminal(
    run_with_wrong_labels, tmp_path
):
    result = record(run_with_wrong_labels / "r")
    found = report_of(run_with_wrong_labels / "r", tmp_path / "page.html")
    _, rows, _ = words.figures(result)
    names = [name for name, *_ in rows]
    assert names[0] == "SRNC+" and names[1:5] == [*map(words.name_of, result["held_out"]["alone"])]
    terminal = words.accuracy(result)
    cells = all_cells(found)
    for (name, right, interval), line in zip(rows, terminal[2:]):
        assert line.split() == [*name.split(), *right.split(), *interval.split()]
        unknown = "0.0 %" if name == "SRNC+" else ABSENT
        assert [name, "r", "0", "80", right, interval, unknown] in cells
    # The final model learned all labels, which it did not where other nodes validate.
    row = "last" if words.AS_KNOWN in names[-1] else "first"
    assert f"as the {row} row says." in terminal[-1]
    validated = result | {"held_out": result["held_out"] | {"cross_fitted": False}}
    assert "somewhat more" not in words.accuracy(validated)[-1]
    for name, counts in result["held_out"]["classes"].items():
        assert [name, f"{counts['right']} of {counts['labels']}"] in cells
    some = {**result, "verdict": {"figures": {"unknown_share": 0.362}}}
    p_value = result["history"][0]["losses"]["no_unknown_p_value"]
    assert words.details(some)[1:] == [
        "36.2 % of the nodes are predicted as unknown"
        f" (test for an unknown class: p = {p_value:.2g}); discover groups them"
    ]
    for said in (
        "Scores are in %, on held-out labels",
        "sorted by data set and then by method.",
        "Node classification of g.pt",
        "are those of the last episode",
        "file.num_test 100",
    ):
        assert said in found.text, said
    # A table of a single number compares nothing, without a score of each episode there is no
    # curve, and a single run has no deviation.
    for other in ("earliest", "Rows are methods", "Training curves", "deviation", "`"):
        assert other not in found.text, other
    summary = (run_with_wrong_labels / "r/summary.md").read_text()
    assert "file.num_test 100" in summary and "`" not in summary


def test_experiments_are_in_the_order_of_their_time(run_with_wrong_labels, tmp_path):
    """Counts of a class are added over the runs of an experiment."""
    for time, name, seed in ((3, "a", 0), (4, "a", 1), (1, "c", 0), (2, "b", 0)):
        result = record(run_with_wrong_labels / "r") | {"seed": seed}
        classes = {"x": {"labels": 3, "right": 1}, name: {"labels": 4, "right": 4}}
        result["held_out"]["classes"] = classes
        store_result(tmp_path / "all" / name / str(seed), result, time)
    found = report_of(tmp_path / "all", tmp_path / "page.html")
    assert "The earliest run comes first." in found.text
    cells = all_cells(found)
    runs = [(row[1], row[2]) for row in cells if row[0] == "SRNC+" and len(row) == 7]
    assert runs == [("c", "0"), ("b", "0"), ("a", "0"), ("a", "1")]
    start = cells.index(["class", "c", "b", "a"])
    assert cells[start + 1] == ["x", "1 of 3", "1 of 3", "2 of 6"]
    assert ["a", ABSENT, ABSENT, "8 of 8"] in cells


def test_a_report_says_in_which_settings_runs_differ(run_with_wrong_labels, tmp_path):
    """Of a second run with the same controls only its own rows are shown."""
    for time, (name, steps) in enumerate({"first": 30, "more": 31, "same": 30}.items()):
        result = record(run_with_wrong_labels / "r")
        result["config"]["srnc_plus"]["steps"] = steps
        result["digest"] = settings.digest(result["config"])
        if name == "same":
            result["held_out"]["alone"]["linear"] |= {"accuracy": 0.123}
        store_result(tmp_path / "all" / name / "0", result, time + 1)
    found = report_of(tmp_path / "all", tmp_path / "page.html")
    (table,) = [one for one in found.tables if one[0][-1][0] == words.UNLIKE]
    _, *rows = cells_of(table)
    models = {
        name: [row[0] for row in rows if row[1] == name] for name in ("first", "more", "same")
    }
    own = [name for name in models["first"] if name.startswith("SRNC+")]
    assert len(models["first"]) > len(own) and models["more"] == own
    assert models["same"] == [own[0], words.NAMES["linear"], *own[1:]]
    assert {row[1]: row[-1] for row in rows} == {
        "first": "", "more": "srnc_plus.steps 31", "same": ""
    }  # fmt: skip


def test_wrong_labels_come_first_without_more_training(run_with_wrong_labels, monkeypatch, capsys):
    monkeypatch.chdir(run_with_wrong_labels)
    assert main("predict r --out p.csv --disagreements d.csv".split()) == 0
    disagreeing = rows("d.csv")
    first = [int(row["node"]) for row in disagreeing][: len(WRONG)]
    assert len({*first} & {*WRONG}) >= len(WRONG) - 1
    assert "Models that were not trained on the label" in capsys.readouterr().out
    # The table of all nodes has the held-out predictions, with the accuracy of the run.
    table = rows("p.csv")
    judged = [row for row in table if row["class_without_label"]]
    right = sum(row["class_without_label"] == row["given_label"] for row in judged)
    figures = record(Path("r"))["held_out"]
    assert len(judged) == figures["labels"] and right / len(judged) == figures["accuracy"]
    assert not [row for row in table if row["p_given_label_without_label"] and row not in judged]
    by_node = {row["node"]: row for row in table}
    for row in disagreeing:
        for name in WITHOUT_LABEL.values():
            assert row[name] == by_node[row["node"]][name] != ""


def test_corrected_labels_are_those_of_the_next_graph(run_with_wrong_labels, monkeypatch, capsys):
    monkeypatch.chdir(run_with_wrong_labels)
    assert main("predict r --out q.csv --disagreements fix.csv".split()) == 0
    (command,) = [line for line in capsys.readouterr().out.splitlines() if "--labels fix" in line]
    table = pandas.read_csv("fix.csv", dtype=str)
    assert table.new_label.isna().all()
    # As pandas writes whole numbers beside empty cells.
    table.loc[[0, 1], "new_label"] = ["0.0", "unknown"]
    table.to_csv("fix.csv", index=False)
    assert main(command.split()[1:]) == 0
    out = capsys.readouterr().out
    assert "2 labels as in your table" in out and "new classes" not in out
    # Whether every class has labels only the user knows.
    command, closed = (line for line in out.splitlines() if line.startswith("  graphgym-srnc run"))
    assert "some class may still have no label" in out and "every class has labels now" in out
    assert closed == command.replace("NEXT", "NEXT-closed", 1) + " file.open_set False"
    assert "least certain" not in out  # no cluster has a name
    before = pandas.read_csv("q.csv").set_index("node").given_label
    wanted = {int(node): f"class {int(label)}" for node, label in before.dropna().items()}
    wanted[int(table.node[0])] = "class 0"
    del wanted[int(table.node[1])]
    after = pandas.read_csv("NEXT/labels.csv")
    assert dict(zip(after.node, after.label)) == wanted

    (run_with_wrong_labels / "typo.csv").write_text("node,new_label\n1,klass 0\n")
    assert main("discover r --labels typo.csv --labels-out TYPO".split()) == 0
    told = capsys.readouterr().out
    assert "warning: 'klass 0' (1 label) becomes a new class. Did you mean 'class 0'?" in told

    for text, said in (
        ("node,label\n1,a\n", "has no column new_label"),
        ("node,new_label\n1,\n", "has no label in the column new_label"),
        ("node,new_label\n120,a\n", "the graph has no node 120"),
        ("node,new_label\n1,a\n1,b\n", "1 has two labels"),
        (f"node,new_label\n1,{'a' * 101}\n", "at most 100 characters"),
    ):
        (run_with_wrong_labels / "bad.csv").write_text(text)
        status = main("discover r --labels bad.csv --labels-out OTHER".split())
        assert said in refusal(status, capsys)
    assert "--labels: no output" in refusal(main("discover r --labels typo.csv".split()), capsys)


def test_learned_labels_that_were_not_held_out_are_not_compared():
    held = OutOfFold(*[torch.tensor([0, 3])] * 3, torch.zeros(2, 2), torch.tensor(1.0))
    parts = ["train", "train", "test", "train", ""]
    assert predictions.judged(["a", "b", "c", "a", ""], parts, held) == ["a", "", "c", "a", ""]
    frame = pandas.DataFrame({"given_label": ["a", ""], "split": ["train", "train"]})
    none = pandas.DataFrame({"split": [], "class": []})
    (line,) = predictions.on_disagreements(frame, none, True)
    assert "0 of 1 given labels" in line and "--folds 5 compares the other labels" in line


def test_the_least_certain_nodes_of_each_class_are_the_next_to_label():
    draw = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "node": range(60),
            "class": draw.choice(["a", "b", "unknown"], 60),
            "given_label": draw.choice(["", "a"], 60),
            "probability": draw.random(60),
        }
    )
    posterior = torch.from_numpy(draw.random((60, 3)))
    names = ["a", "b", "unknown"]
    found = predictions.uncertain(frame, posterior, names)
    assert [*found] == ["node", "class", "probability"]
    assert found["probability"].is_monotonic_increasing
    for name in ("a", "b"):
        free = frame[(frame["given_label"] == "") & (frame["class"] == name)]
        wanted = free["probability"].nsmallest(3)
        assert found["probability"][found["class"] == name].tolist() == wanted.tolist()
    assert len(found) == 6
    left_out = {*found["node"]}
    assert not left_out & {*predictions.uncertain(frame, posterior, names, left_out)["node"]}


def test_nodes_that_may_be_of_a_class_with_few_labels_are_next_to_label():
    draw = np.random.default_rng(0)
    given = ["a"] * 30 + ["b"] * 5 + [""] * 65
    frame = pandas.DataFrame(
        {
            "node": range(100),
            "class": draw.choice(["a", "b", "c", "unknown"], 100),
            "given_label": given,
            "probability": draw.random(100),
        }
    )
    p = draw.random((100, 4))
    found = predictions.uncertain(frame, torch.from_numpy(p), ["a", "b", "c", "unknown"])
    others = frame[(frame["given_label"] == "") & (frame["class"] != "b")]
    wanted = others.loc[others.index[np.argsort(-p[others.index, 1])][: predictions.MOST_LIKE]]
    least = found[found["may_be"] == ""]
    assert len(least) == 9 and {*found["may_be"]} == {"b", ""}
    assert {*wanted["node"]} - {*least["node"]} == {*found["node"]} - {*least["node"]}


def test_labels_of_uncertain_nodes_make_the_next_graph(run_with_wrong_labels, monkeypatch, capsys):
    monkeypatch.chdir(run_with_wrong_labels)
    words = "predict r --out all.csv".split()
    assert main([*words, "--overwrite"]) == 0
    command = f"{' '.join(words)} --overwrite --disagreements check-2.csv --uncertain next.csv"
    Path("check.csv").touch()
    assert main([*words, "--overwrite"]) == 0
    assert f"  graphgym-srnc {command}" in capsys.readouterr().out.splitlines()
    words += "--uncertain next.csv --overwrite".split()
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "--disagreements check-2.csv" in told and "check-2.csv --uncertain" not in told
    command = "  graphgym-srnc discover r --labels next.csv --labels-out NEXT"
    assert command in told.splitlines() and "Fill in their new_label" in told
    table = pandas.read_csv("next.csv", dtype=str)
    assert 0 < len(table) <= 9 and table["new_label"].isna().all()
    table.loc[0, "new_label"] = "old"
    table.to_csv("next.csv", index=False)
    assert "labels that you typed" in refusal(main(words), capsys)
    assert main([*command.split()[1:-1], "UNCERTAIN"]) == 0
    other = table.assign(new_label=["other"] + [""] * (len(table) - 1))
    other.to_csv("other.csv", index=False)
    both = [*command.split()[1:-1], "BOTH", "--labels", "other.csv"]
    assert f"node {table['node'][0]} has another label, other" in refusal(main(both), capsys)
    other["new_label"] = ["", "other"] + [""] * (len(table) - 2)
    other.to_csv("other.csv", index=False)
    assert main(both) == 0
    labels = pandas.read_csv("BOTH/labels.csv", dtype=str).set_index("node").label
    assert labels[table["node"][:2]].tolist() == ["old", "other"]
    both = "predict r --out all.csv --disagreements d.csv --uncertain u.csv --overwrite".split()
    capsys.readouterr()
    assert main(both) == 0
    trains = "  graphgym-srnc discover r --labels d.csv --labels u.csv --labels-out NEXT"
    assert capsys.readouterr().out.splitlines().count(trains) == 1
    rows_of = pandas.read_csv("UNCERTAIN/labels.csv", dtype=str).set_index("node")
    assert rows_of.loc[table["node"][0], "origin"] == "added"
    graph = "predict r --out g.csv --uncertain h.csv --graph g.pt".split()
    assert "the labels of --graph are not read" in refusal(main(graph), capsys)
    assert not (run_with_wrong_labels / "h.csv").exists()


def test_where_to_begin_with_labels_that_disagree():
    frame = pandas.DataFrame(
        [
            (0, "a", "b", 0.0, 0.9, "train"),
            (1, "a", "b", 0.3, 0.6, "train"),
            (2, "a", "unknown", 0.01, 0.95, "train"),
            (3, "b", "b", 0.97, 0.97, "train"),
        ],
        columns=["node", "given_label", "class", "p_given_label", "probability", "split"],
    )
    told, *_ = predictions.on_disagreements(frame, frame[:3], True, from_clusters={1, 3})
    assert "Check the first, whose label has a probability below 0.02" in told
    assert "1 label came from names of clusters." in told
    told, *_ = predictions.on_disagreements(frame, frame[1:3], True)
    assert "Check the first" not in told and "names of clusters" not in told
    for unlikely, shown in ((2, 3), (7, 7), (30, 10)):
        many = pandas.concat([frame[:1]] * unlikely + [frame[1:2]] * 4)
        assert len(predictions.on_disagreements(frame, many, True)) == shown + 2


def test_accuracy_is_told_by_probability():
    frame = pandas.DataFrame(
        [
            # Without a label: counted by its probability, unless it is predicted as unknown.
            ("a", "", 0.95, "", None),
            ("b", "", 0.94, "", None),
            ("unknown", "", 0.99, "", None),
            # With one: counted by the probability without the label.
            ("a", "a", 1.0, "a", 0.96),
            ("a", "a", 1.0, "b", 0.97),
            ("b", "b", 1.0, "b", 0.1),
            ("b", "b", 1.0, "unknown", 0.7),
            ("b", "b", 1.0, "", None),
        ],
        columns=[
            "class",
            "given_label",
            "probability",
            "class_without_label",
            "probability_without_label",
        ],
    )
    frame["node"] = frame.index
    _, _, *rows = predictions.by_probability(frame, {})
    cells = [[cell.strip() for cell in row.split("  ") if cell] for row in rows]
    assert cells == [
        ["0.95 or more", "1", "1 of 2 (50 %)"],
        ["0.8 to 0.95", "1", "none"],
        ["0.5 to 0.8", "0", "none"],
        ["below 0.5", "0", "1 of 1 (100 %)"],
    ]
    *_, last = predictions.by_probability(frame, {5: "added"})
    assert last.split()[-1] == "none"


def test_enough_nodes_drawn_at_random_alone_tell_accuracy_by_probability():
    count = 60
    frame = pandas.DataFrame(
        {
            "node": range(2 * count),
            "class": "a",
            "given_label": "a",
            "probability": 1.0,
            "class_without_label": ["b"] * count + ["a"] * count,
            "probability_without_label": 0.9,
        }
    )
    head, columns, _, row, *_ = predictions.by_probability(
        frame, dict.fromkeys(range(count), "sampled")
    )
    assert "0 of 60 (0 %)" in row and "drawn at random" in columns
    few = predictions.by_probability(frame, {node: "sampled" for node in range(49)})
    assert "60 of 120 (50 %)" in few[3] and "held-out" in few[1]


def test_damaged_predictions_of_held_out_labels_are_refused(loaded, tmp_path):
    held = loaded.method.out_of_fold
    good = {model.HELD_OUT + name: value for name, value in held._asdict().items()}
    read = model._read_out_of_fold(good, 3)
    assert isinstance(read, OutOfFold) and read.log_p.equal(held.log_p)
    for name, value in (
        ("nodes", held.nodes[:-1]),
        ("labels", held.labels + 3),
        ("log_p", held.log_p * torch.nan),
        ("kept", held.kept[None]),
        ("gnn", held.labels),
    ):
        with pytest.raises(ValueError, match="held-out label"):
            model._read_out_of_fold({**good, model.HELD_OUT + name: value}, 3)


def test_held_out_predictions_without_a_forest_are_saved(loaded, tmp_path):
    """As of a run in mini-batches."""
    found = loaded.method.out_of_fold._replace(forest=None)
    loaded.method.out_of_fold = found
    loaded.save(tmp_path / "m.safetensors")
    read = model.load(tmp_path / "m.safetensors").method.out_of_fold
    assert read.forest is None and torch.equal(read.log_p, found.log_p)


def test_a_better_simple_model_gives_a_warning_and_its_command(
    run_with_wrong_labels, capsys, monkeypatch
):
    result = record(run_with_wrong_labels / "r")
    assert words.on_better(result) == ""
    (unknown,) = words.alternatives(result)
    assert unknown.settings == {"srnc_plus.abstain": "False"}
    other = {**result["config"], "srnc_plus": {"abstain": False}}
    assert words.alternatives({**result, "config": other}) == []
    assert words.alternatives({**result, "history": [{"losses": {}}]}) == []
    better = {"accuracy": 1.0, "p_value": 0.01}
    result["held_out"]["accuracy"] = 0.5
    for kind, layer in (("gcnconv", "gcnconv"), ("linear_hops", "sign"), ("linear", "mlp")):
        alone = {kind: better, "other": {"accuracy": 0.9, "p_value": 0.01}}
        one = {**result, "held_out": {**result["held_out"], "alone": alone}}
        other, also = words.alternatives(one)
        assert also == unknown
        assert other.settings == {"train.mode": "erm", "gnn.layer_type": layer}
    alone = {"forest": better}
    one = {**result, "held_out": {**result["held_out"], "alone": alone}}
    assert words.alternatives(one) == [unknown] and "with scikit-learn" in words.on_better(one)
    result["held_out"]["alone"]["linear"] = better
    assert "logistic regression on features" in words.on_better(result)
    result["held_out"]["alone"]["linear"]["p_value"] = 0.2
    assert words.on_better(result) == ""
    classes = {"a": (3, 19), "b": (90, 90), "c": (1, 4)}
    counts = {name: {"right": r, "labels": n} for name, (r, n) in classes.items()}
    result["held_out"]["classes"] = counts
    assert "labels of a are predicted right" in held_out.on_weak_classes({"classes": counts})
    assert held_out.on_weak_classes({"classes": {"b": counts["b"]}}) == ""
    assert words.by_class(counts)[0].endswith("first: a 3 of 19, c 1 of 4, b 90 of 90")
    many = {f"k{i:02}": {"right": i, "labels": 30} for i in range(21)}
    assert words.by_class(many)[0].endswith("k19 19 of 30 and 1 more")
    del many["k20"]
    assert words.by_class(many)[0].endswith("k18 18 of 30, k19 19 of 30")


def test_the_command_of_another_run_keeps_the_place_of_results(run_with_wrong_labels, capsys):
    path = run_with_wrong_labels
    command = f"run --cfg own --out-dir {path} --name r"
    keys = f"dataset.name {path / 'g.pt'} {FEW}"
    assert main([*command.split(), "--resume", *keys.split()]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    other = f"  graphgym-srnc {command}-unknown {keys} srnc_plus.abstain False  # predicts"
    assert last.startswith(other)


def test_a_run_with_new_labels_is_compared_on_the_labels_that_stayed():
    def held_out(accuracy: float) -> dict:
        found = {"labels": 60, "unchanged": {"labels": 50, "accuracy": accuracy}}
        return {"held_out": found, "verdict": {"figures": {}}}

    before = {"labels": 50, "accuracy": 0.85, "low": 0.72}
    parent = {"run": "results/x", "unchanged": before}
    (same,) = words.since_labels(held_out(0.9), parent)
    assert same == (
        "Of these 60 held-out labels, 50 did not change: results/x predicted 85.0 % of them right,"
        " and this run 90.0 %, unknown counted as wrong. Chance alone may make a"
        " difference of 13 points."
    )
    assert len(words.since_labels(held_out(0.72), parent)) == 1
    (same, warning) = words.since_labels(held_out(0.7), parent)
    assert "this run 70.0 %, unknown" in same and "set `open_set=False`" in warning
    assert warning.startswith("warning: The known classes")
    for missing in ({}, {"run": "results/x"}, {"run": "results/x", "unchanged": {}}):
        assert words.since_labels(held_out(0.7), missing) == []
    assert words.since_labels({"held_out": {}, "verdict": {"figures": {}}}, parent) == []

    sampled = held_out(0.9)
    sampled["held_out"]["sampled"] = {"labels": 60, "accuracy": 0.75}
    before = parent | {"sampled": {"labels": 58, "accuracy": 0.8}}
    (_, told) = words.since_labels(sampled, before)
    assert told == (
        "Of 58 nodes drawn at random, results/x predicted 80.0 % right, and this run 75.0 % of 60."
        " Chance alone may make a difference of 15 points. If the new labels are right, compare"
        " both predictions of nodes that changed."
    )
    before["sampled"]["accuracy"] = 0.7
    assert words.since_labels(sampled, before)[1].endswith("points.")
    assert len(words.since_labels(sampled, parent)) == 1

    verdict = {"verdict": {"figures": {"unknown_share": 0.07}}}
    (_, told) = words.since_labels(held_out(0.9) | verdict, parent | {"unknown": 1, "nodes": 2000})
    assert told.startswith("Predicted as unknown: 1 node before the new labels, 140 now. W")
    verdict["verdict"]["figures"]["unknown_share"] = 0.0
    (_, told) = words.since_labels(held_out(0.9) | verdict, parent | {"unknown": 9, "nodes": 2000})
    assert told == "Predicted as unknown: 9 nodes before the new labels, 0 now."


def test_an_explanation_leaves_out_one_part_at_a_time(loaded):
    graph = build.task_of(loaded).target
    node = 4
    found = explain(loaded, graph, node)
    whole = loaded.predict(graph)
    assert found.label == int(whole.label[node])
    assert found.posterior.equal(whole.posterior[node])
    changed = graph.clone()
    source, target = graph.edge_index
    changed.edge_index = graph.edge_index[:, (source != node) & (target != node)]
    alone = loaded.predict(changed).posterior[node, found.label]
    assert found.without_links.probability == pytest.approx(float(alone))
    effect = found.words[0]
    changed = graph.clone()
    changed.x = graph.x.clone()
    changed.x[node, effect.part] = 0
    less = loaded.predict(changed).posterior[node, found.label]
    assert effect.probability == pytest.approx(float(less))
    assert set(found.neighbours) == set(target[source == node].tolist())
    assert [one.probability for one in found.links] == sorted(o.probability for o in found.links)
    assert set(found.votes) <= {"gcnconv", "sign", "mlp", "forest"}


def test_an_explanation_tries_the_heaviest_links(loaded, monkeypatch):
    monkeypatch.setattr("graphgym_srnc.train.explain.MOST_LINKS", 1)
    graph = build.task_of(loaded).target.clone()
    source, target = graph.edge_index
    heaviest = int(target[source == 4].max())
    is_heavy = torch.isin(source, torch.tensor([4, heaviest]))
    is_heavy &= torch.isin(target, torch.tensor([4, heaviest]))
    graph.edge_weight = torch.where(is_heavy, 2.0, 1.0)
    assert [one.part for one in explain(loaded, graph, 4).links] == [heaviest]


def test_an_explanation_follows_a_probability_through_the_mixture(loaded):
    """By hand from the classifiers' posteriors to the final one."""
    graph = build.task_of(loaded).target
    method = loaded.method
    found = explain(loaded, graph, 4)
    log_p = 0
    for weight, posterior in method.votes(loaded.checked(graph)).values():
        log_p = log_p + weight * posterior.log()
    first, *_, last = found.steps.values()
    assert first == pytest.approx(float(log_p.softmax(1)[4, found.label]), abs=1e-5)
    assert last == pytest.approx(float(found.posterior[found.label]), abs=1e-5)
    told = why.lines(["0", "1", "2"], found, 4, Names(), None)
    start = told.index(next(line for line in told if line.startswith("  classifier")))
    shares = [
        float(line.partition(" %")[0].split()[-1]) for line in told[start + 1 :][: len(found.votes)]
    ]
    assert (
        sum(shares) == pytest.approx(100, abs=0.2)
        and f"{100 * first:.1f} %" in told[start + len(shares) + 2]
    )


def test_the_steps_of_a_known_class_end_at_its_calibrated_probability(tmp_path):
    graph = make_graph(num_nodes=120)
    graph.y[80:] = -1
    graph.train_mask = torch.arange(120) < 80
    few = {"rounds": 1, "steps": 5, "fit_steps": 2, "cluster_steps": 2}
    SRNCPlus(open_set=False, **few).fit(graph).save(tmp_path / "closed.pt")
    loaded = model.load(tmp_path / "closed.pt")
    for node in range(3):
        found = explain(loaded, graph, node)
        assert [*found.steps][-1] == "after calibration"
        assert found.steps["after calibration"] == float(found.posterior[found.label])


def test_why_says_that_nothing_alone_changes_a_prediction(loaded):
    found = explain(loaded, build.task_of(loaded).target, 4)
    before = float(found.posterior[found.label])

    def told(change: float, label: int = found.label, **fields) -> str:
        effects = [Effect(part, before - change, label) for part in (7, 8, 9)]
        other = {"links": effects, "words": effects, "neighbours": {7: 0, 8: 2, 9: 0}} | fields
        return "\n".join(why.lines(["a", "b", "c"], found._replace(**other), 4, Names(), None))

    own = "abc"[found.label]
    small = told(0.0009)
    assert f"No single link of 3 tried changes P({own}) by 0.1 points or more." in small
    assert small.count("Classes of the neighbours: a 2 and c 1.") == 1
    assert f"No single feature of 3 tried raises P({own}) by 0.1 points or more." in small
    assert "without the link to" not in small and "were missing" not in small
    for shown in (told(0.0011), told(0.0001, (found.label + 1) % 3)):
        assert "without the link to" in shown and "were missing: column 7" in shown
        assert "No single" not in shown
    alone = told(0.5, neighbours={}, links=[], words=[], steps={})
    assert "It has no links." in alone and " link" not in alone.replace("no links", "")
    for features, links, needed in ((0.1, 0.2, "features"), (0.2, 0.1, "links"), (0.1, 0.1, "")):
        effects = {"without_features": features, "without_links": links}
        both = {name: Effect(-1, p, found.label) for name, p in effects.items()}
        shares = f"would be {100 * features:.1f} %; without its 3 links {100 * links:.1f} %."
        assert shares in told(0, **both)
        assert [
            word for word in ("features", "links") if f"its {word} more" in told(0, **both)
        ] == ([needed] if needed else [])


def test_why_names_the_node_its_links_and_its_label(run_with_wrong_labels, loaded, capsys):
    assert main(["predict", str(run_with_wrong_labels / "r"), "--why", "4", "6"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("4: predicted ") and "\n6: predicted " in told
    assert "Its given label is 1." in told and "without the link to" in told
    held_out = loaded.method.out_of_fold
    place = held_out.nodes.tolist().index(4)
    p = held_out.log_p[place].exp()
    first = told.partition("\n6: ")[0]
    assert f"did not learn it predict {p.argmax()} ({100 * p.max():.1f} %)." in first
    assert why.on_label(["0", "1", "2"], 119, held_out) == why.on_label([], 4, None) == []
    for given, message in (("x", "no node 'x'"), ("1190", "Did you mean 119?")):
        assert main(["predict", str(run_with_wrong_labels / "r"), "--why", given]) == 2
        assert message in capsys.readouterr().err
    assert main(["predict", str(run_with_wrong_labels / "r")]) == 2
    assert "Give --out FILE, or --why ID" in refusal(2, capsys)


def test_masked_classes_need_test_nodes(run_with_wrong_labels):
    masked = ["file.num_unseen", "1"]
    cfg = build.load_config("own", ["dataset.name", str(run_with_wrong_labels / "g.pt"), *masked])
    with pytest.raises(InputError, match="without a test node"):
        build.build_task(cfg)
    assert own_run(run_with_wrong_labels, "masked", *masked) == 2


@pytest.mark.usefixtures("few_numbers")
def test_an_estimator_says_how_good_it_is_on_held_out_labels(tmp_path):
    graph = make_graph(num_nodes=120)
    graph.train_mask = torch.arange(120) < 60
    graph.y[60:] = -1
    fitted = SRNCPlus(rounds=1, steps=5, fit_steps=2, cluster_steps=2).fit(graph)
    found = fitted.scores_["held_out"]
    assert found["labels"] == found["of"] == 60
    assert found["low"] <= found["accuracy"] <= found["high"]
    assert found["as_known"]["high"] <= 1
    fitted.save(tmp_path / "model.pt")
    np.savez(tmp_path / "graph.npz", x=graph.x, edge_index=graph.edge_index)
    page = str(tmp_path / "page.html")
    words = ["discover", str(tmp_path / "model.pt"), "--graph", str(tmp_path / "graph.npz")]
    assert main([*words, "--new", "1", "--out", page]) == 0
    assert "60 labels that the models had not learned" in Path(page).read_text()


def test_probabilities_in_small_components(loaded):
    """Labelled nodes 0 to 3 and others 80 to 89 have no link."""
    task = build.task_of(loaded)
    alone = torch.tensor([0, 1, 2, 3, *range(80, 90)])
    edges = task.target.edge_index
    task.target.edge_index = edges[:, ~torch.isin(edges, alone).any(0)]
    sizes = component_sizes(task.target.edge_index.numpy(), 120)
    small = set(np.flatnonzero(sizes <= 5).tolist())
    held = loaded.method.out_of_fold
    found = held_out.judge(loaded.method, task, with_controls=False)["small_components"]
    places = [place for place, node in enumerate(held.nodes.tolist()) if node in small]
    assert found["labels"] == len(places) >= 4
    assert found["right"] == held.correct[places].sum()
    others = sorted(small - set(task.train.tolist()))
    p = loaded.predict(task.target).posterior[others].max(1).values
    assert {*range(80, 90)} <= {*others}
    assert found["mean_probability"] == pytest.approx(float(p.mean()), abs=1e-5)
    task.target.edge_index = edges
    found = held_out.judge(loaded.method, task, with_controls=False)["small_components"]
    assert found == {"labels": 0, "right": 0}


def test_too_high_probabilities_in_small_components():
    def warning(right: int, labels: int, mean: float) -> str:
        figures = {"labels": labels, "right": right, "mean_probability": mean}
        return held_out.on_small_components({"small_components": figures})

    text = warning(50, 100, 0.7)
    assert "at most 5 nodes are too high: their mean is 70 %, but 50 of 100 held-out" in text
    assert "right (50 %)" in text
    none = {"labels": 0, "right": 0}
    assert held_out.on_small_components({"small_components": none}) == ""
    assert warning(90, 100, 0.7) == held_out.on_small_components({}) == ""
    assert warning(9, 10, 1.0 + 1e-9)
    # If probabilities are right, 1 % of the draws may give a warning.
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.3, 1.0, 40)
    draws = (rng.random((400, 40)) < chances).sum(1).tolist()
    assert sum(warning(right, 40, chances.mean()) != "" for right in draws) <= 8
    assert sum(warning(right, 40, chances.mean() + 0.3) != "" for right in draws) >= 300

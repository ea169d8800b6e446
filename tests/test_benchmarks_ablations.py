"""The benchmark of the parts of SRNC+: its tasks, what it takes away, its table."""

from __future__ import annotations

import inspect
import json

import pytest
import torch
from torch_geometric.data import Data

from graphgym_srnc.methods import srnc_plus
from graphgym_srnc.methods.srnc_plus import SRNCPlus


@pytest.fixture
def ablations(benchmark_of, monkeypatch):
    """The program, with smaller block models."""
    program = benchmark_of("ablations")
    monkeypatch.setattr(program, "BLOCKS", {"num_nodes": 600, "num_classes": 5, "num_features": 40})
    return program


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["own", "few", "gone", "stays", "close"])
def test_a_kind_of_shift_is_what_it_says(ablations, kind, seed):
    make, _ = ablations.KINDS[kind]
    task = make(".9", seed)
    source, unknown = task.source.y, task.num_known
    assert (task.source is task.target) == (kind in ("own", "few"))
    assert task.open_set == (kind != "close")
    masked = {"own": 3, "few": 3, "close": 0}.get(kind, (1, 3)[seed])
    assert task.num_known == 5 - masked
    assert bool((task.target.y[task.test] == unknown).any()) == task.open_set
    assert bool((source == unknown).any()) == (kind in ("own", "few", "stays"))
    held_out = task.validation.y[task.val] == unknown
    assert bool(held_out.any()) == (kind in ("few", "stays")) and not held_out.all()
    if kind == "own":
        labelled = torch.cat([task.train, task.val])
        for k in range(unknown):
            size = int((source == k).sum())
            assert int((source[labelled] == k).sum()) == max(5, round(0.1 * size))
    if kind in ("gone", "close"):
        assert len(task.train) + len(task.val) == len(source)
    if kind == "stays":
        others = torch.ones(len(source), dtype=torch.bool)
        others[torch.cat([task.train, task.val])] = False
        # Those without a label are of all classes, as on the target.
        assert 0 < int((source[others] == unknown).sum()) < int(others.sum())


def test_nodes_without_a_class_are_not_scored(ablations, monkeypatch):
    """As some of CiteSeer's."""
    task = ablations.few(".9", 0)
    task.source.y[::50] = -1
    monkeypatch.setattr(ablations, "one_graph", lambda name: lambda **keys: task)
    own = ablations.own("CiteSeer", 0)
    assert (own.source.y[own.test] >= 0).all() and (own.source.y[own.pool] < 0).any()

    graph = Data(x=task.source.x, edge_index=task.source.edge_index, y=task.source.y_true.clone())
    graph.y[::50] = -1
    monkeypatch.setattr(ablations.datasets, "load", lambda *_: graph)
    halves = ablations.pair("CiteSeer", 0)
    assert sum(half.num_nodes for half in halves) == int((graph.y >= 0).sum())
    assert all((half.y >= 0).all() for half in halves)


def test_what_is_taken_away_is_there(ablations):
    options = inspect.signature(SRNCPlus).parameters.keys()
    for part in ablations.PARTS.values():
        assert part.options.keys() <= options
        assert part.constants.keys() <= vars(srnc_plus).keys()
        assert {*part.kinds.split()} <= ablations.KINDS.keys()
        own = {name for name, value in vars(part.method).items() if inspect.isfunction(value)}
        assert part.method is SRNCPlus or own <= vars(SRNCPlus).keys()
        assert part._replace(kinds="") != ablations.Part("")


def test_runs_resume_and_the_table_has_differences(ablations, monkeypatch, tmp_path, capsys):
    results, page = tmp_path / "runs.jsonl", tmp_path / "page.md"
    page.write_text("Before.\n<!-- table of benchmarks/ablations.py -->\n<!-- end of table -->\n")
    constants = dict(vars(srnc_plus))
    words = [
        "ablations.py",
        "--graphs",
        ".9",
        "--only",
        "gone",
        "--parts",
        "all dec*,no mod*",
        "--results",
        str(results),
        "--page",
        str(page),
    ]
    monkeypatch.setattr("sys.argv", words)
    assert ablations.begin() == 0
    runs = [json.loads(line) for line in results.read_text().splitlines()]
    assert [run["part"] for run in runs] == ["SRNC+", "no modularity", "all decisions are learned"]
    assert vars(srnc_plus) == constants
    whole, *others = (100 * run["score"] for run in runs)
    text = page.read_text()
    assert text.startswith("Before.") and f"| SRNC+ itself | {whole:.1f} |" in text
    for run, score in zip(runs[1:], others):
        better = int(score > whole)
        assert f"| {run['part']} | {score - whole:+.1f} ({better}/1) |" in text

    monkeypatch.setattr(ablations, "run", None)
    assert ablations.begin() == 0 and page.read_text() == text


def test_the_table_has_the_kinds_that_were_run_and_the_unknown_class(ablations):
    runs = [
        {
            "kind": kind,
            "graph": "Cora",
            "seed": seed,
            "part": part,
            "score": value,
            "auroc": None if kind == "close" else 1 - value,
        }
        for kind in ("few", "close")
        for seed in (0, 1)
        for part, value in (("SRNC+", 0.5), ("one turn", (0.25, 0.65)[seed]))
    ]
    lines = [line for line in ablations.table(runs).splitlines() if line.startswith("| ")]
    head, _, whole, part = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    assert head[:4] == ["without", "few", "close", "all"] and "AUROC" in head
    assert whole[:3] == ["SRNC+ itself", "50.0", "50.0"] and not any(whole[3:])
    assert part[:4] == ["one turn", "-5.0 (1/2)", "-5.0 (1/2)", "-5.0 (2/4)"]
    assert part[head.index("AUROC")] == "+5.0 (1/2)"


def test_a_page_without_marks_is_refused_before_any_run(ablations, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing here")
    monkeypatch.setattr("sys.argv", ["ablations.py", "--page", str(page)])
    monkeypatch.setattr(ablations, "run", None)
    with pytest.raises(SystemExit, match="ablations.py"):
        ablations.begin()


@pytest.mark.parametrize(
    "option, given, allowed",
    [("--only", "own,fewer", "own, few"), ("--graphs", ".7,Pubmed", "PubMed")],
)
def test_a_wrong_name_is_refused_before_any_run(
    ablations, monkeypatch, capsys, option, given, allowed
):
    monkeypatch.setattr("sys.argv", ["ablations.py", option, given])
    monkeypatch.setattr(ablations, "run", None)
    with pytest.raises(SystemExit):
        ablations.begin()
    error = capsys.readouterr().err
    assert f"{option}: got {given.split(',')[1]}; allowed: " in error and allowed in error

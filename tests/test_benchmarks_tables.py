"""What the tables of the benchmarks say of runs: who leads, what counts once, who is marked."""
from __future__ import annotations

from pathlib import Path

import pytest

from graphgym_srnc import store
from graphgym_srnc.report.read import collect

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def harness(benchmark_of):
    return benchmark_of("_harness")


def runs(*scores: float, masked: tuple[str, ...] = (), splits: tuple[str, ...] = ()) -> dict:
    """Results with these Micro-F1s, by seed."""
    return {seed: {"split": splits[seed] if splits else f"split {seed}",
                   "info": {"unseen": list(masked[seed])} if masked else {},
                   "test": {"micro_f1": score}} for seed, score in enumerate(scores)}


def test_splits_that_mask_the_same_classes_count_once(harness):
    masked = ("ab", "c", "ab")
    ours, others = runs(0.9, 0.5, 0.7, masked=masked), runs(0.8, 0.6, 0.2, masked=masked)
    assert harness.differences(ours, others, "micro_f1") == pytest.approx([30.0, -10.0])
    same = runs(0.9, 0.5, masked=("a", "a")), runs(0.8, 0.6, masked=("a", "a"))
    assert harness.differences(*same, "micro_f1") == pytest.approx([10.0, -10.0])


def test_runs_of_one_split_are_averaged(harness):
    ours, others = (runs(*scores, splits=("s", "s", "t"))
                    for scores in ((0.9, 0.7, 0.5), (0.5, 0.5, 0.6)))
    assert harness.differences(ours, others, "micro_f1") == pytest.approx([30.0, -10.0])


def test_the_leader_is_first_and_the_oracle_before_it(harness):
    table = {"erm": {"x": runs(0.5), "y": runs(0.6)}, "iid": {"x": runs(0.9), "y": runs(0.9)},
             "dann": {"x": runs(0.99)}, "cmd": {"x": runs(0.7), "y": runs(0.5)}}
    assert harness.leading(table) == ["iid", "cmd", "erm", "dann"]
    assert harness.leader(table) == "cmd"


def test_a_rival_is_marked_until_it_has_reproduced_its_paper(harness, monkeypatch, tmp_path):
    file = tmp_path / "reproduction.csv"
    file.write_text("row,reproduced,difference,runs\na2gnn,yes,+0.1,5\ncmd,no,-3.0,5\n")
    monkeypatch.setattr(harness, "REPRODUCED", file)
    harness.reproduced.cache_clear()
    names = [harness.marked(row, row) for row in ("erm", "a2gnn-ppr", "cmd", "dann", "srnc-plus")]
    assert names == ["erm", "a2gnn-ppr", "cmd‡", "dann‡", "srnc-plus"]
    harness.reproduced.cache_clear()


def test_records_of_many_runs_are_read_as_those_of_a_grid(benchmark_of, tmp_path):
    records = benchmark_of("records")
    experiment = store.Experiment(tmp_path, "toy", {
        "seed": 0, "optim": {"base_lr": 0.01}, "dataset": {"format": "synthetic"}})
    experiment.begin(0)
    scores = {"micro_f1": 0.99, "loss": 2.0}
    episode = {"number": 0, "losses": {}, "train": scores, "val": scores, "test": scores,
               "seconds": 0.1}
    pattern = experiment.finish(0, {
        "method": "erm", "backbone": "gcnconv", "task": "synthetic", "split": "s", "selected": 0,
        "history": [episode], "val": scores, "test": scores, "lr": 0.01, "params": 1,
        "seconds": 1.0, "warnings": []})
    records.fill(tmp_path / "many", pattern, 20)
    found = collect([tmp_path / "many"])
    assert len(found.runs) == 20 and not found.remarks()
    assert len({run.pair for run in found.runs}) == 10
    assert {run.facts["optim.base_lr"] for run in found.runs} == {0.001, 0.002}
    one = records.Cost(2.0, 3.0, 100.0)
    taken = {(command, number): [one._replace(cpu=number / 100)]
             for command in records.COMMANDS for number in (100, 1000)}
    assert "| slope |  1.00 |" in records.render(taken, [100, 1000])


def test_a_claim_is_judged_by_its_mean(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import reproduction
    claim = reproduction.Claim("X", "p", "micro_f1", "c", {"a": {}, "b": {}}, (70.0, 60.0), "s")
    monkeypatch.setitem(reproduction.CLAIMS, "x", claim)
    for scores, verdict in (((0.69, 0.62), "yes"), ((0.66, 0.60), "**no**"), ((0.8, 0.6), "above")):
        found = dict(zip("ab", map(runs, scores)))
        assert reproduction.line("x", found)[6] == verdict
    assert reproduction.line("x", {"a": runs(0.7)})[3] == "1 of 2"

"""What the tables of the benchmarks say of runs: who leads, what counts once, who is marked."""
from __future__ import annotations

from pathlib import Path

import pytest

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


def test_a_claim_is_judged_by_its_mean(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import reproduction
    claim = reproduction.Claim("X", "p", "micro_f1", "c", {"a": {}, "b": {}}, (70.0, 60.0), "s")
    monkeypatch.setitem(reproduction.CLAIMS, "x", claim)
    for scores, verdict in (((0.69, 0.62), "yes"), ((0.66, 0.60), "**no**"), ((0.8, 0.6), "above")):
        found = dict(zip("ab", map(runs, scores)))
        assert reproduction.line("x", found)[6] == verdict
    assert reproduction.line("x", {"a": runs(0.7)})[3] == "1 of 2"

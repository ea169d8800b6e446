"""``benchmarks/unchanged.py`` repeats stored runs, and notices a number that is not theirs."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from graphgym_srnc.gym import load_config, run

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
unchanged = pytest.importorskip("unchanged")

WORDS = (
    "synthetic.num_nodes 120 synthetic.num_val 20 synthetic.num_test 30"
    " synthetic.labels_per_class 3 gnn.dim_inner 4 train.mode erm erm.steps 2 erm.rounds 1"
).split()

pytestmark = pytest.mark.usefixtures("gym")


def store_run(folder: Path, name: str, *words: str) -> Path:
    """A finished run of a tiny config."""
    cfg = load_config(None, [*WORDS, "out_dir", str(folder), *words])
    run.run(cfg, cfg.seed, run.experiment(cfg, name), extras=run.Extras(False))
    return folder / name / str(cfg.seed)


@pytest.mark.usefixtures("unchanged_globals")
def test_equal_runs_are_equal_and_a_changed_number_is_found(tmp_path, capsys):
    store_run(tmp_path / "deep", "same", "erm.smoothing", "1")
    path = store_run(tmp_path, "tampered", "seed", "3")
    assert unchanged.main([str(tmp_path), "--per-method", "2"]) == 0
    assert "erm: 2 of 2 equal" in capsys.readouterr().out

    record = json.loads((path / "result.json").read_text())
    loss = record["history"][1]["losses"]["source"]
    record["history"][1]["losses"]["source"] = math.nextafter(loss, 2 * loss)
    unchanged.records.write_record(path, record)
    assert unchanged.main([str(tmp_path), "--per-method", "2"]) == 1
    out = capsys.readouterr().out
    assert "erm: 1 of 2 equal" in out
    there = math.nextafter(loss, 2 * loss)
    assert f"{path}: history[1].losses.source: {there!r} there, {loss!r} now" in out


def test_the_first_difference_of_two_trees():
    difference = unchanged.difference
    assert not difference({"a": [1.0, math.nan], "seconds": 1.0}, {"a": [1.0, math.nan]})
    assert difference({"test": {"hs": 1.0}}, {"test": {"hs": 0.5}}) == ("test.hs", 1.0, 0.5)
    assert difference({"a": [1.0, 2.0]}, {"a": [1.0, math.nan]})[:2] == ("a[1]", 2.0)
    assert difference({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}) == ("a.c", "absent", 2)
    assert difference({"a": ["x"]}, {"a": []}) == ("a[0]", "x", "absent")


def test_runs_are_chosen_by_setting_and_spread_over_data():
    def stored(smoothing: int, data: str, seed: int) -> unchanged.Stored:
        config = {"seed": seed, "train": {"mode": "erm"}, "erm": {"smoothing": smoothing}}
        config |= {"dataset": {"format": "open_set", "name": data}}
        config |= {"open_set": {"split_seed": seed}}
        return unchanged.Stored(Path(data, str(seed)), {"config": config})

    runs = [stored(0, data, seed) for data in ("Cora", "PubMed") for seed in range(3)]
    runs.append(stored(10, "Cora", 0))
    chosen = unchanged.choose(runs, 3)
    assert [str(one.path) for one in chosen] == ["Cora/0", "PubMed/0", "Cora/1", "Cora/0"]

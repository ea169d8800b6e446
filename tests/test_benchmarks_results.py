"""The pages of docs/results follow from the stored scores, and claims are judged by their mean."""

from __future__ import annotations

import pandas as pd
import pytest


@pytest.fixture(scope="module")
def results(benchmark_of):
    return benchmark_of("results")


@pytest.fixture(scope="module")
def scores(benchmark_of):
    return benchmark_of("scores")


def runs(row: str, block: str, *scores: float, val: tuple[float, ...] = ()) -> pd.DataFrame:
    """Runs with these Micro-F1s, and the same or other ones on validation, by seed."""
    splits = [f"split {seed}" for seed in range(len(scores))]
    table = {"row": row, "block": block, "seed": range(len(scores)), "split": splits}
    table |= {"unit": splits, "micro_f1": scores, "val_micro_f1": val or scores}
    return pd.DataFrame(table)


@pytest.mark.slow
def test_the_committed_pages_are_what_the_files_give(results, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["results.py", "--check"])
    assert results.main() == 0, capsys.readouterr().out


def test_differences_count_units_and_directions_once(scores):
    on_a = runs("srnc-plus", "a", 90.0, 70.0), runs("erm", "a", 80.0, 80.0)
    on_b = runs("srnc-plus", "b", 50.0), runs("erm", "b", 40.0, 10.0)
    every = pd.concat([*on_a, *on_b])
    names = {"a": "A", "b": "B"}
    shift = scores.Shift(every, names, {"micro_f1": "Micro-F1"}, "directions", {})
    assert shift.gaps("erm") == pytest.approx([0.0, 10.0])
    # Student's interval, t(0.975, 1) = 12.706
    assert shift.gaps("erm").ends == pytest.approx((5 - 12.706 * 5, 5 + 12.706 * 5), abs=0.01)
    assert shift.gaps("erm", unit="runs") == pytest.approx([10.0, -10.0, 10.0])
    assert shift.mean("srnc-plus") == pytest.approx(65.0)
    one = scores.replace(shift, runs=every.assign(unit="the same classes"))
    assert one.gaps("erm", unit="runs") == pytest.approx([0.0, 10.0])


def test_a_claim_is_judged_by_its_mean(benchmark_of, monkeypatch):
    reproduction = benchmark_of("reproduction")
    claim = {"rival": "X", "protocol": "public", "published": [70.0, 60.0], "source": "s"}
    monkeypatch.setitem(
        reproduction.PLAN["claims"], "x", claim | {"blocks": {"a": "", "b": "erm.steps 3"}}
    )
    for scores, verdict in (((69, 62), "yes"), ((66, 60), "**no**"), ((80, 60), "above")):
        found = {block: [score] for block, score in zip("ab", scores)}
        assert reproduction.line("x", found)[6] == verdict
    near = {block: [score - 1.02] for block, score in zip("ab", (70, 60))}
    assert reproduction.line("x", near)[4::2] == ["-1.02", "**no**"]  # -1.0 would look reproduced
    assert reproduction.line("x", {"a": [70.0]})[3] == "1 of 2"
    settings = reproduction.settings(reproduction.claim("x"), "b")
    assert settings[-4:] != ["erm.steps", "20"] and "3" in settings


def test_the_settings_of_every_claim_load(benchmark_of, gym):
    reproduction = benchmark_of("reproduction")
    for key in reproduction.PLAN["claims"]:
        claim = reproduction.claim(key)
        assert len(claim["published"]) in (1, len(claim["blocks"]))
        for block in claim["blocks"]:
            gym.load_config(claim["cfg"], reproduction.settings(claim, block))

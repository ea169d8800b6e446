"""The pages of docs/results follow from the stored scores, and claims are judged by their mean."""

from __future__ import annotations

import pandas as pd
import pytest
from scipy.stats import sem, t


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


def test_a_changed_page_and_one_without_a_template_are_found(
    results, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(results, "DOCS", tmp_path)
    monkeypatch.setattr(results, "pages", lambda: {tmp_path / "a.md": "one\ntwo\n"})
    monkeypatch.setattr("sys.argv", ["results.py", "--check"])
    (tmp_path / "a.md").write_text("one\n2\n")
    (tmp_path / "old.md").write_text("")
    assert results.main() == 1
    found = capsys.readouterr().out
    assert "a.md differs" in found and "old.md has no template" in found

    monkeypatch.setattr("sys.argv", ["results.py", "--no-plots"])
    (tmp_path / "old.md").unlink()
    assert results.main() == 0 and results.check(results.pages()) == []


def test_the_variant_is_chosen_on_validation_and_the_first_if_equal(scores):
    first = runs("a", "x", 0.1, 0.2, 0.3, val=(0.5, 0.5, 0.9))
    chosen = scores.best_on_validation([first, runs("b", "x", 0.7, 0.8, val=(0.6, 0.5))], "c")
    assert dict(zip(chosen.seed, chosen.micro_f1)) == {0: 0.7, 1: 0.2} and set(chosen.row) == {"c"}


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


def test_intervals_on_own_graphs_are_of_the_runs(scores):
    gaps = scores.own_gaps("Cora", "PGL+GCN, threshold by unknown share")
    assert gaps.ends == pytest.approx(t.interval(0.95, 9, gaps.mean, sem(gaps)))


def test_every_look_of_a_difference_is_in_the_legend(benchmark_of):
    figures = benchmark_of("figures")
    made, axes = figures.figure(2, 2)
    for gap, low in ((2, 1), (-2, -3), (1, -1), (1, float("nan"))):
        figures.draw_difference(axes, gap, 0, (low, 2 * gap - low))
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    looks = [(dot.get_color(), dot.get_markerfacecolor()) for dot in dots]
    assert looks == [*figures.DIFFERENCES.values()]


def test_a_rival_is_marked_until_it_has_reproduced_its_paper(scores, monkeypatch):
    monkeypatch.setattr(scores, "reproduced", lambda: {"a2gnn"})
    rows = ["erm", "a2gnn-ppr", "cmd", "srnc-plus"]
    shift = scores.Shift(pd.DataFrame(), {}, {}, "runs", {row: row for row in rows})
    assert list(map(shift.name, rows)) == ["erm", "a2gnn-ppr", "cmd‡", "**srnc-plus**"]


def test_the_summary_names_the_strongest_other_method(scores):
    for label, name, row, _ in scores.SUMMARY:
        shift = scores.shifts()[name]
        others = [one for one in shift.rows() if not one.startswith((scores.OURS, "iid"))]
        assert row == others[0], label


def test_new_runs_replace_stored_ones(scores, monkeypatch, tmp_path, record_of_a_run):
    file = tmp_path / "runs.csv"
    old = (scores.DATA / "runs.csv").read_text(encoding="utf-8")
    file.write_text(old, encoding="utf-8")
    monkeypatch.setattr(scores, "DATA", tmp_path)
    for _ in range(2):
        assert scores.add("open_set:toy:erm", record_of_a_run) == 1
    new = file.read_text(encoding="utf-8").splitlines()
    (line,) = set(new) - set(old.splitlines())
    assert line.startswith("open_set,toy,erm,0,") and len(new) == len(old.splitlines()) + 1


@pytest.fixture
def record_of_a_run(gym, tmp_path):
    from graphgym_srnc.cli.main import main

    folder = tmp_path / "runs"
    words = "--no-figures --no-tensorboard erm.steps 1 train.max_episodes 0".split()
    assert main(["run", "--cfg", "testing/erm", "--out-dir", str(folder), *words]) == 0
    return folder


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

"""The pages of docs/results follow from the stored scores."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture
def results(benchmark_of):
    return benchmark_of("results")


def runs(*scores: float, val: tuple[float, ...] = ()) -> dict:
    """Results with these Micro-F1s, and the same or other ones on validation, by seed."""
    return {
        seed: {
            "split": f"split {seed}",
            "info": {"unseen": []},
            "val": {"micro_f1": (val or scores)[seed]},
            "test": {"micro_f1": score},
        }
        for seed, score in enumerate(scores)
    }


def test_the_committed_pages_are_what_the_files_give(results, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["results.py", "--check"])
    assert results.main() == 0, capsys.readouterr().out


def test_a_changed_page_and_one_without_a_template_are_found(
    results, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(results, "pages", lambda: {"a.md": "one\ntwo\n"})
    monkeypatch.setattr("sys.argv", ["results.py", "--check"])
    (tmp_path / "a.md").write_text("one\n2\n")
    (tmp_path / "old.md").write_text("")
    assert results.main() == 1
    found = capsys.readouterr().out
    assert "-2\n+two" in found and "old.md has no template" in found

    monkeypatch.setattr("sys.argv", ["results.py", "--no-plots"])
    (tmp_path / "old.md").unlink()
    assert results.main() == 0 and results.check(results.pages()) == []


def test_the_variant_is_chosen_on_validation_and_the_first_if_equal(results):
    chosen = results.best_on_validation(
        [runs(0.1, 0.2, 0.3, val=(0.5, 0.5, 0.9)), runs(0.7, 0.8, val=(0.6, 0.5))]
    )
    assert {seed: run["test"]["micro_f1"] for seed, run in chosen.items()} == {0: 0.7, 1: 0.2}


def test_the_interval_is_students(results):
    from scipy.stats import t

    gaps = [1.0, 2.0, 4.0, 7.0]
    error = math.sqrt(sum((gap - 3.5) ** 2 for gap in gaps) / 3 / 4)
    low, high = results.interval(gaps)
    assert (low, high) == pytest.approx(
        (3.5 - t.ppf(0.975, 3) * error, 3.5 + t.ppf(0.975, 3) * error)
    )
    assert math.isnan(results.interval([1.0])[0]) and results.shown((math.nan, 0.0)) == "-"


def test_directions_count_once_and_runs_each(results):
    table = {
        "srnc-plus": {"a": runs(0.9, 0.7), "b": runs(0.5)},
        "erm": {"a": runs(0.8, 0.8), "b": runs(0.4)},
    }
    shift = results.Shift(table, {"a": "A", "b": "B"}, {"micro_f1": "Micro-F1"}, "directions", str)
    assert results.test(shift, "erm").gaps == pytest.approx([0.0, 10.0])
    assert results.test(shift, "erm", unit="runs").gaps == pytest.approx([10.0, -10.0, 10.0])
    assert results.mean_of(shift, "srnc-plus") == pytest.approx(65.0)


def test_the_summary_names_the_strongest_other_method(results):
    for label, name, row, _ in results.SUMMARY:
        shift = results.shifts()[name]
        means = {
            other: results.mean_of(shift, other)
            for other in shift.table
            if not other.startswith(results.OURS) and other != results.ORACLE
        }
        assert row == max(
            means, key=lambda other: -math.inf if math.isnan(means[other]) else means[other]
        ), label


def test_rows_of_earlier_forms_are_left_out(results):
    left_out = {
        name
        for name, shift in results.shifts().items()
        if name.startswith("tuned-") and results.OURS not in shift.table
    }
    assert left_out == {"tuned-pubmed", "tuned-both"}


def test_tables_become_files_with_one_figure_per_cell(benchmark_of, tmp_path, capsys):
    harness = benchmark_of("_harness")
    text = (
        "### Cora\n\n"
        + harness.markdown(
            ["method", "score", "gap"], [["A", "82.6 ± 3.4", "-0.5 (5/16)"], ["B", "-", ""]]
        )
        + "A sentence.\n\n"
        + harness.markdown(["graph", "n"], [["Cora", 3]])
    )
    harness.publish(text, tmp_path / "out.csv")
    assert capsys.readouterr().out == text
    assert (tmp_path / "out.csv").read_text() == (
        "graph,method,score,score ±,gap,gap wins\nCora,A,82.6,3.4,-0.5,5/16\nCora,B,,,,\n"
    )
    assert (tmp_path / "out-2.csv").read_text() == "graph,n\nCora,3\n"


def test_a_wrong_directive_is_refused(results):
    for text in ("{{nothing cora}}", "{{_p 1}}", "{{cell own-graphs Micro-F1 graph=Nowhere}}"):
        with pytest.raises(SystemExit):
            results.render(text, results.Pages())


def test_plots_are_small_and_every_one_is_drawn(benchmark_of):
    names = benchmark_of("_figures").PLOTS
    files = {file.stem: file.stat().st_size for file in (DOCS / "results").glob("*.png")}
    assert files.keys() == names.keys() and max(files.values()) < 120_000
    used = set(re.findall(r"\((\w+)\.png\)", (DOCS / "results/index.md").read_text()))
    assert used == set(names)


def test_own_graphs_are_compared_in_pairs(benchmark_of):
    own = benchmark_of("own")
    scores = {"SRNC+": (0.9, 0.8, 0.7), "GCN": (0.8, 0.6)}
    found = [
        {
            "graph": "Cora",
            "row": row,
            "seed": seed,
            "seconds": 1.0,
            "excess": 0.1,
            "verdict": [],
            **dict.fromkeys(own.SCORES, score),
        }
        for row, values in scores.items()
        for seed, score in enumerate(values)
    ]
    text = own.table(found)
    assert text.endswith("| Cora | GCN | 2 | +15.0 ± 5.0 | 2/2 | 0.5 |\n\n")
    assert "| SRNC+ | 3 | 80.0 ± 8.2 |" in text

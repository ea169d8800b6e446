"""Comparisons: settings are chosen on validation alone, numbers are those of other code, output and
errors are clean."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from conftest import refusal
from conftest import rows as csv_rows
from stored import store_failure, store_runs, three_scores

import graphgym_srnc
from graphgym_srnc import methods
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.text import escape_markdown
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import records, store
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.plots import events
from graphgym_srnc.report import (
    citations,
    compare,
    names,
    paper,
    render,
    sentences,
    statistics,
    summary,
    tables,
)
from graphgym_srnc.report.frame import collect

RNG = np.random.default_rng(0)
SCORES = {
    row: np.round(RNG.normal(centre, 0.02, 10), 3).tolist()
    for row, centre in (("erm", 0.70), ("pgl", 0.755), ("srnc", 0.76), ("iid", 0.9))
}
ROWS = {"erm": "GCN", "pgl": "PGL+GCN", "srnc": "SRNC", "iid": "GCN (IID)"}


def table_of(*folders: Path, **options) -> compare.Table:
    return compare.table(collect(folders, records=False), **options)


def cell(table: compare.Table, row: str, column: str = "Cora", metric: str = "micro_f1"):
    return table.of(metric)[row, column]


def chosen(table: compare.Table) -> dict:
    return {
        (of.row, of.column): (of.tried, of.fewer, pytest.approx(of.validation), of.setting)
        for of in table.chosen
    }


def remarks(table: compare.Table) -> str:
    return " ".join(sentences.remarks(table))


@pytest.fixture(scope="module")
def three_methods(tmp_path_factory) -> Path:
    """Three methods and the oracle on two graphs, ten splits each."""
    root = tmp_path_factory.mktemp("several")
    for task, shift in (("open_set/Cora", 0.0), ("open_set/CiteSeer", 0.05)):
        for method, scores in SCORES.items():
            shifted = [score - shift for score in scores]
            store_runs(root / "deep" / method, task[9:], shifted, method, task)
    return root


@pytest.fixture(scope="module")
def their_table(three_methods) -> compare.Table:
    """Their comparison without options."""
    return table_of(three_methods)


# Numbers.


def test_mean_and_deviation_are_those_of_graphgym(tmp_path):
    from torch_geometric.graphgym.utils.agg_runs import agg_batch, agg_runs

    for lr, layer in itertools.product((0.1, 0.2), ("gcnconv", "gatconv")):
        name = f"toy-lr={lr}-l={layer}"
        scores = RNG.uniform(0.4, 0.9, 3).tolist()
        store_runs(tmp_path, name, scores, val=scores[::-1], backbone=layer, optim__lr=lr)
        results = records.read_results(tmp_path / name)
        store.Experiment(tmp_path, name, results[0]["config"]).aggregate()
        events.write_aggregate(tmp_path / name, results)  # GraphGym does not mind it
        agg_runs(str(tmp_path / name), "auto")
    agg_batch(str(tmp_path), "auto")
    for split in ("val", "test"):
        lines = csv_rows(tmp_path / "agg" / f"{split}_best.csv")
        found = table_of(tmp_path, split=split, by=["optim.lr"], columns=["backbone"])
        assert len(lines) == 4 == len(found.cells)
        for line in lines:
            column = {"gcnconv": "GCN", "gatconv": "GAT"}[line["l"]]
            one = cell(found, f"lr {line['lr']}", column)
            theirs = float(line["micro_f1"]), float(line["micro_f1_std"])
            assert (one.runs, round(one.mean, 4), round(one.std, 4)) == (3, *theirs)


def test_numbers_of_a_cell_and_its_line_of_csv(three_methods):
    metrics = ["micro_f1", "unknown_fpr95", "seconds"]
    found = table_of(three_methods, metrics=metrics, against="erm", intervals=True)
    order = sorted(("erm", "pgl", "srnc"), key=lambda row: -np.mean(SCORES[row]))
    assert found.rows == ["GCN (IID)", *(ROWS[row] for row in order)]  # the best first
    assert found.columns == ["CiteSeer", "Cora"] and found.against == "GCN"
    one = cell(found, "SRNC")
    scores = SCORES["srnc"]
    numbers = np.mean(scores), np.std(scores), np.median(scores)
    assert (one.mean, one.std, one.median) == pytest.approx(numbers)
    assert (one.low, one.high) == statistics.interval(scores)
    assert cell(found, "PGL+GCN", metric="seconds").mean == pytest.approx(6.5)
    assert cell(table_of(three_methods, split="train"), "GCN").mean == 1
    gaps = np.round(np.subtract(scores, SCORES["erm"]), 9)
    assert (one.pairs, one.wins) == (10, (gaps > 0).sum())
    assert one.difference == pytest.approx(gaps.mean())
    assert one.p == pytest.approx(scipy.stats.wilcoxon(gaps).pvalue) and one.p_holm >= one.p
    lines = list(csv.DictReader(io.StringIO(render.to_csv(found))))
    assert len(lines) == 3 * 4 * 2
    place = {"metric": "micro_f1", "row": "SRNC", "column": "Cora"}
    (line,) = [line for line in lines if place.items() <= line.items()]
    for key in ("mean", "std", "median", "low", "high", "rank", "p", "p_holm", "difference"):
        assert float(line[key]) == getattr(one, key)
    assert (line["best"], line["against"], line["paper_mean"]) == (str(one.best), "GCN", "")


@pytest.mark.parametrize("method", methods.own_names())
def test_printed_names_are_those_of_the_classes(method):
    found = methods.find(method)
    assert names.title(method) == (found.title or found.__name__)
    name = found.with_backbone.format("SAGE") or f"{names.title(method)} with SAGE"
    assert names.method_name(method, "sageconv") == name


def test_marks_and_ranks_against_scipy(three_methods, their_table):
    found = their_table
    ranked = ("erm", "pgl", "srnc")
    best = max(ranked, key=lambda row: np.mean(SCORES[row]))
    others = [row for row in ranked if row != best]
    gaps = {row: np.round(np.subtract(SCORES[best], SCORES[row]), 9) for row in others}
    raw = {row: scipy.stats.wilcoxon(gap).pvalue for row, gap in gaps.items()}
    low, high = sorted(others, key=raw.get)
    corrected = {low: min(1, 2 * raw[low]), high: max(min(1, 2 * raw[low]), raw[high])}
    cells = {row: cell(found, name) for row, name in ROWS.items()}
    assert [row for row in cells if cells[row].best] == [best]
    assert {row: cells[row].p_best_holm for row in others} == pytest.approx(corrected)
    assert {row for row in others if cells[row].tied} == {"pgl"} == {high}
    assert not cells["iid"].best and not cells["iid"].tied
    strict = cell(table_of(three_methods, alpha=1e-3, test="t"), "GCN")
    p = scipy.stats.ttest_rel(SCORES[best], SCORES["erm"]).pvalue
    corrected = strict.p_best_holm
    assert strict.tied == (corrected > 1e-3) and p <= corrected <= 2 * p * (1 + 1e-9)

    # Each graph has its own test: splits of two graphs are never blocks of one.
    blocks = np.array([[SCORES[row][seed] for row in ranked] for seed in range(10)])
    expected = scipy.stats.rankdata(-blocks, axis=1).mean(0)
    for column in ("Cora", "CiteSeer"):
        ranking = found.rankings["micro_f1", column]
        assert ranking.blocks == 10
        assert ranking.ranks == pytest.approx(dict(zip(("GCN", "PGL+GCN", "SRNC"), expected)))
        assert ranking.difference == statistics.critical_difference(3, 10)
    assert found.mean_ranks("micro_f1") == pytest.approx(ranking.ranks)
    # Of a metric of which less is better, the same rows are best.
    less = table_of(three_methods, metrics=["unknown_fpr95"])
    assert cell(less, ROWS[best], metric="unknown_fpr95").best
    assert less.mean_ranks("unknown_fpr95") == pytest.approx(ranking.ranks)


def test_pairs_are_common_splits_only(tmp_path):
    scores = [0.7, 0.71, 0.73, 0.74, 0.69, 0.7, 0.72]
    store_runs(tmp_path, "a", scores)
    store_runs(tmp_path, "b", [score + 0.05 for score in scores], "pgl", seeds=range(3, 10))
    store_runs(tmp_path, "c", scores, "doc", split="another")
    store_runs(tmp_path, "d", [0.9], "cmd")
    found = table_of(tmp_path, against="erm")
    pairs = {row: cell(found, row).pairs for row in ("PGL+GCN", "DOC", "GCN-CMD")}
    assert pairs == {"PGL+GCN": 4, "DOC": 0, "GCN-CMD": 1}
    assert np.isnan(cell(found, "GCN-CMD").p) and "*" not in render.text(found)
    assert "No row is marked as the best: no two competing rows" in remarks(found)
    told = r"difference to GCN\n(.*\n)*GCN-CMD +-\nPGL\+GCN +\+\d\.\d \[\+\d.*\] \(0\.\d+\)\n"
    assert re.search(told, render.text(found))
    one_run = table_of(
        tmp_path / "a", tmp_path / "b", tmp_path / "d"
    )  # the highest mean, of one run
    assert cell(one_run, "PGL+GCN").best and not cell(one_run, "GCN-CMD").best
    (first,) = sentences.findings(one_run)
    assert "PGL+GCN has the best mean of the rows with the same splits" in first
    assert "Too few pairs of runs for a test." in first
    # A t-test of 4 pairs may find a difference, but does not show that rows are alike.
    for alpha, told in ((0.01, "Too few pairs"), (0.5, "all other rows differ significantly")):
        alike = table_of(tmp_path / "a", tmp_path / "b", test="t", alpha=alpha)
        assert not cell(alike, "GCN").tied and told in sentences.findings(alike)[0]
    with pytest.raises(InputError, match="^against: .*2 splits"):
        table_of(tmp_path / "a", tmp_path / "c", against="erm")


def test_runs_that_mask_the_same_classes_count_once(tmp_path):
    masked = [[0], [1], [2], [0], [1], [2], [0]]
    ours, theirs = RNG.uniform(0.5, 0.9, (2, 7)).round(2).tolist()
    for seed, unseen in enumerate(masked):
        record = {"info": {"unseen": unseen}}
        for method, scores in (("erm", ours), ("pgl", theirs)):
            store_runs(tmp_path, method, [scores[seed]], method, seeds=[seed], record=record)
            store_runs(tmp_path / "same", method, [scores[seed]], method, seeds=[seed])
    found = table_of(tmp_path / "erm", tmp_path / "pgl", against="pgl", intervals=True)
    sets = [[seed for seed in range(7) if masked[seed] == [k]] for k in range(3)]
    gaps = [np.mean([ours[seed] - theirs[seed] for seed in seeds]) for seeds in sets]
    one = cell(found, "GCN")
    assert one.pairs == 3 and one.difference == pytest.approx(np.mean(gaps))
    assert one.p == pytest.approx(scipy.stats.wilcoxon(gaps).pvalue)
    assert found.rankings["micro_f1", "Cora"].blocks == 3
    means = [np.mean([ours[seed] for seed in seeds]) for seeds in sets]
    assert (one.low, one.high) == statistics.interval(means)
    ends = one.difference_low, one.difference_high
    assert ends == pytest.approx(statistics.interval(gaps))
    assert (one.runs, one.mean) == (7, pytest.approx(np.mean(ours)))
    assert "set of masked classes" in remarks(found)
    same = table_of(tmp_path / "same", against="pgl")
    assert cell(same, "GCN").pairs == 7 and "set of masked classes" not in remarks(same)


def test_runs_without_a_result_are_told_below_the_means(tmp_path, capsys):
    store_runs(tmp_path, "a", [0.5, 0.6, 0.7])
    store_runs(tmp_path, "b", [0.6, 0.7, 0.8], "pgl")
    for name, seed, file in (("b", 4, "error.txt"), ("b", 8, "error.txt"), ("b", 9, "run.json")):
        store_failure(tmp_path, name, seed, "why" if file == "error.txt" else None)
    store_failure(tmp_path, "c", 0, "why")
    found = table_of(tmp_path)
    told = (
        "Runs that failed: PGL+GCN (2 of 6 runs, seeds 4, 8) and c (1 of 1 run, seed 0).",
        "Runs that did not finish: PGL+GCN (1 of 6 runs, seed 9). Means are over the others.",
    )
    for text in (remarks(found), render.to_markdown(found), " ".join(sentences.findings(found))):
        assert all(one in text for one in told)
    (note,) = re.findall(r"^\{\\footnotesize (.*)\\par\}$", render.to_latex(found), re.M)
    assert all(one in note for one in told)
    lines = [*csv.DictReader(io.StringIO(render.to_csv(found)))]
    assert [(line["row"], line["failed"], line["unfinished"]) for line in lines] == [
        ("PGL+GCN", "2", "1"),
        ("GCN", "0", "0"),
    ]
    assert main(["compare", str(tmp_path)]) == 0
    assert "skipped 3 failed run(s)\nnote: skipped 1 unfinished" in capsys.readouterr().err


def test_a_row_that_finds_no_unknown_class_does_not_compete(tmp_path):
    for method, score, recall, auroc in (
        ("erm", 0.9, 0.0, 0.4),
        ("pgl", 0.7, 0.5, 0.8),
        ("doc", 0.6, 0.4, 0.6),
    ):
        test = {"micro_f1": score, "unknown_recall": recall, "hs": recall, "unknown_auroc": auroc}
        store_runs(tmp_path, method, [score] * 6, method, record={"test": test})
    found = table_of(tmp_path)
    assert found.metrics == ("micro_f1", "hs") and found.rows == ["GCN", "PGL+GCN", "DOC"]
    assert [cell(found, row).best for row in found.rows] == [0, 1, 0]
    assert "GCN" not in found.rankings["micro_f1", "Cora"].ranks
    told = remarks(found)
    assert "GCN: unknown recall 0, so neither ranked nor marked as the best" in told
    other = table_of(tmp_path, metrics=["unknown_auroc"], against="erm")
    assert "neither ranked" not in remarks(other) and other.against == "GCN"
    store_runs(tmp_path, "old", [0.9], record={"test": {"micro_f1": 0.9, "unknown_recall": 0.1}})
    assert table_of(tmp_path / "old").metrics == ("micro_f1", "unknown_recall")


def test_what_cannot_be_averaged_is_not_averaged(tmp_path, their_table):
    head = ["method", "CiteSeer", "Cora", "mean", "rank"]
    assert tables.means(their_table, "micro_f1").head == head
    store_runs(tmp_path, "one", [0.5], task="synthetic/open_set")
    alone = table_of(tmp_path)
    (grid,) = tables.grids(alone)
    assert grid.title == "Micro-F1 on test, %" and remarks(alone) == "One run per cell."
    store_runs(tmp_path, "other", [0.5, 0.6])
    store_runs(tmp_path, "z", [0.5], task="synthetic/small")
    mixed = table_of(tmp_path)
    assert mixed.columns == ["synthetic/open_set", "Cora", "synthetic/small"]
    assert not {"mean", "rank"} & {*tables.means(mixed, "micro_f1").head}
    for method, unseen in itertools.product(("erm", "pgl"), ([], [3])):
        record = {"info": {"unseen": unseen}, "test": three_scores(0.5) | {"own": 3.25}}
        words = {"task": "file/mine", "record": record, "file__num_unseen": len(unseen)}
        store_runs(tmp_path / "own", f"{method}-{len(unseen)}", [0.5, 0.6], method, **words)
    hidden = table_of(tmp_path / "own", metrics=["own"])
    assert hidden.columns == tables.means(hidden, "own").head[1:] and not hidden.mean_ranks("own")
    assert render.text(hidden).count(" 3.25 ± 0* ") == 2  # equal means have equal marks


def test_graphs_of_your_own_have_no_mean(tmp_path):
    """Their labels differ; with hidden classes they are a benchmark."""
    for unseen, is_averaged in (([], False), ([3], True)):
        folder = tmp_path / str(len(unseen))
        for graph in ("first", "second"):
            record = {"info": {"unseen": unseen}}
            words = {"record": record, "file__num_unseen": len(unseen), "task": f"file/{graph}"}
            store_runs(folder, graph, [0.5, 0.6], **words)
        found = table_of(folder)
        assert found.columns == ["first", "second"]
        assert ("mean" in tables.means(found, "micro_f1").head) == is_averaged


# Settings, rows and columns.


def test_the_test_score_is_that_of_the_setting_chosen_on_validation(tmp_path):
    store_runs(tmp_path, "a", [0.9, 0.9], val=[0.5, 0.6], gnn__dim_inner=16)
    store_runs(tmp_path, "b", [0.6, 0.7], val=[0.7, 0.7], gnn__dim_inner=64)
    store_runs(tmp_path, "c", [0.8, 0.8], val=[0.6, 0.6], gnn__dim_inner=128)
    store_runs(tmp_path, "lucky", [0.9], val=[0.99], gnn__dim_inner=256)
    found = table_of(tmp_path, metrics=["micro_f1", "macro_recall"])
    assert chosen(found) == {("GCN", "Cora"): (4, 1, 0.7, "dim_inner 64")}
    assert cell(found, "GCN", metric="macro_recall").mean == pytest.approx(0.325)
    told = r"\nGCN +Cora +4 settings \(1 with fewer runs left out\) +70.0 +dim_inner 64\n"
    assert re.search(told, render.text(found))
    for result in (tmp_path / "c").glob("*/result.json"):  # other test scores choose the same
        record = json.loads(result.read_text())
        records.write_record(result.parent, record | {"test": three_scores(0.01)})
    assert chosen(table_of(tmp_path)) == chosen(found)
    less = chosen(table_of(tmp_path, metrics=["unknown_fpr95"]))
    assert less["GCN", "Cora"][3] == "dim_inner 64"


def test_each_cell_has_its_own_setting_and_pooling_is_told(tmp_path):
    for task, (low, high) in {"open_set/Cora": (0.5, 0.6), "open_set/PubMed": (0.8, 0.7)}.items():
        for steps, val in ((10, low), (20, high)):
            own = {"task": task, "erm__steps": steps, "optim__lr": steps / 100}
            store_runs(tmp_path, f"{task[9:]}-{steps}", [0.5, 0.6], val=[val, val], **own)
    settings = {
        column: setting for (_, column), (*_, setting) in chosen(table_of(tmp_path)).items()
    }
    assert {column: setting.partition(", ")[0] for column, setting in settings.items()} == {
        "Cora": "steps 20",
        "PubMed": "steps 10",
    }
    pooled = table_of(tmp_path, select=[])
    assert cell(pooled, "GCN").runs == 4
    assert "pool runs that differ in erm.steps, optim.lr" in remarks(pooled)
    partly = table_of(tmp_path, select=["erm.steps"])
    assert chosen(partly)["GCN", "Cora"][3] == "steps 20"
    assert "pool" not in remarks(partly)
    by_step = table_of(tmp_path, by=["erm.steps"])
    assert by_step.rows == ["steps 10", "steps 20"] and not chosen(by_step)


def test_data_are_never_selected_over(tmp_path):
    for unseen, score in ((1, 0.9), (3, 0.6)):
        data = {"open_set__num_unseen": unseen, "open_set__split_seed": unseen}
        store_runs(tmp_path, f"u{unseen}", [score, score], split=str(unseen), **data)
    found = table_of(tmp_path)
    assert found.columns == ["Cora, num_unseen 1", "Cora, num_unseen 3"] and not chosen(found)
    one = table_of(tmp_path, columns=["task"])
    assert cell(one, "GCN").runs == 4 and "open_set.num_unseen" in remarks(one)
    by_data = table_of(tmp_path, by=["open_set.num_unseen"])
    assert by_data.rows == ["num_unseen 1", "num_unseen 3"] and by_data.columns == ["Cora"]
    store_runs(tmp_path, "oracle", [1.0, 1.0], "iid", open_set__num_unseen=1)
    by_data = table_of(tmp_path, by=["open_set.num_unseen"])  # the oracle is never the best setting
    assert cell(by_data, "num_unseen 1").mean < 1 and "Left out: 2 runs" in remarks(by_data)
    store_runs(tmp_path, "other", [0.5], task="open_set/PubMed", open_set__num_unseen=1)
    assert {*table_of(tmp_path).columns} == {*found.columns, "PubMed"}
    for unseen in (1, 3):  # a key that only repeats another one is in no header
        data = {"open_set__num_unseen": unseen, "open_set__num_val": unseen}
        store_runs(tmp_path / "both", f"u{unseen}", [0.5], **data)
    both = table_of(tmp_path / "both")
    assert both.columns == found.columns


def test_a_column_is_a_task_whatever_keys_its_shift_ignores(tmp_path):
    task = {"task": "cross_graph/acmv9-dblpv7"}
    for name in ("citation", "synthetic"):
        store_runs(tmp_path, name, [0.5, 0.6], dataset__name=name, **task)
    other = {"task": "open_set/Cora", "cross_graph": {"val_share": 0.3}}
    store_runs(tmp_path, "other", [0.5], **other)
    store_runs(tmp_path, "another", [0.5], "pgl", **other | {"cross_graph": {"val_share": 0.4}})
    found = table_of(tmp_path)
    assert found.columns == ["Cora", "acmv9-dblpv7"] and "dataset.name" not in remarks(found)
    store_runs(tmp_path, "third", [0.5], task="open_set/PubMed")
    pooled = table_of(tmp_path, columns=["method"], select=[])
    assert "differ in dataset.format, dataset.name" in remarks(pooled)
    by_name = table_of(tmp_path, columns=["dataset.name"])
    assert {*by_name.columns} == {"Cora", "PubMed", "citation", "synthetic"}


def test_one_row_for_each_config(tmp_path):
    for config, correction in (("erm", "none"), ("erm_corrected", "em")):
        for target in "ab":
            name = f"default-cfg={config}-t={target}"
            store_runs(tmp_path, name, [0.5, 0.6], task=f"x/{target}", erm__correction=correction)
    store_runs(tmp_path, "citation-srnc-plus-target=a", [0.7], task="x/a", dataset__name="citation")
    found = table_of(tmp_path, by=["config"], columns=["task"], against="erm", select=[])
    assert found.rows == ["srnc-plus", "erm", "erm-corrected"] and not chosen(found)
    store_runs(
        tmp_path, "default-cfg=erm-m=srnc", [0.4], "srnc", task="x/a"
    )  # no run of the method erm
    assert "erm with srnc" in table_of(tmp_path, by=["config"], columns=["task"]).rows
    with pytest.raises(InputError, match="Use config"):
        table_of(tmp_path, by=["cfg"])


def test_labels_say_what_tells_rows_apart(tmp_path):
    store_runs(
        tmp_path, "a", [0.5], backbone="gatconv", erm__confidence="energy", erm__widths=[8, 4]
    )
    store_runs(tmp_path, "b", [0.5], task="file/Cora")
    store_runs(tmp_path, "c", [0.5], "doc", task="synthetic/open_set", doc__flag=True)
    found = table_of(tmp_path)
    assert found.rows == ["DOC", "GAT", "GCN"]  # ties by name
    assert found.columns == ["open_set/Cora", "file/Cora", "synthetic/open_set"]
    with pytest.raises(InputError, match="GCN shares fewer than 2"):  # the plain row of erm
        table_of(tmp_path, against="erm")
    with pytest.raises(InputError, match=r"allowed: ERM \| ERM, confidence energy$"):
        table_of(tmp_path, against="erm", by=["method", "erm.confidence"])
    by_both = table_of(tmp_path, by=["method", "erm.confidence"])
    assert by_both.rows == ["DOC", "ERM", "ERM, confidence energy"]
    assert table_of(tmp_path, by=["erm.confidence"]).rows == ["-", "confidence energy"]
    assert table_of(tmp_path, by=["erm.widths"]).rows == ["-", "widths [8, 4]"]


def test_settings_without_validation_scores_are_not_chosen_from(tmp_path):
    for name, width in (("a", 16), ("b", 64)):
        store_runs(tmp_path, name, [0.5, 0.6], record={"val": {}}, gnn__dim_inner=width)
    with pytest.raises(InputError, match="gnn.dim_inner") as error:
        table_of(tmp_path)
    assert (error.value.key, error.value.code) == ("select", "no_choice")
    assert table_of(tmp_path, by=["gnn.dim_inner"]).rows == ["dim_inner 16", "dim_inner 64"]
    assert cell(table_of(tmp_path, select=[]), "GCN").runs == 4
    # A page takes all of them, since its reader gives no such option.
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 0


# What is read.


def test_folders_at_any_depth_and_what_is_passed_over(tmp_path, three_methods):
    found = collect([three_methods])
    assert len(found.runs) == 80 and found.remarks() == []
    one = three_methods / "deep" / "erm" / "Cora"
    assert [len(collect(f).runs) for f in ([one], [one, one], [one / "3"])] == [10, 10, 1]

    home = store_runs(tmp_path, "a", [0.5, 0.6, 0.7, 0.8])
    store_runs(tmp_path / "copy", "of a", [0.5])
    (home / "1" / "result.json").write_text("garbage")
    record = json.loads((home / "2" / "result.json").read_text())
    records.write_record(home / "2", record | {"test": 7})
    (home / "3" / "result.json").unlink()
    for name, text in (("5", "[" * 100_000), ("6", "{}"), ("7", "\x00"), (".old", "hidden")):
        (home / name).mkdir()
        (home / name / "result.json").write_text(text)
    (home / "linked").symlink_to(three_methods, target_is_directory=True)
    (home / "8").mkdir()
    (home / "8" / "result.json").symlink_to(one / "8" / "result.json")
    found = collect([tmp_path])
    assert len(found.runs) == 1 and len(found.unreadable) == 6
    unreadable, unfinished, repeated = found.remarks()
    assert "6 unreadable" in unreadable and str(home / "1") in unreadable
    assert "1 unfinished" in unfinished and "skipped 1 run of copy/of a" in repeated


@pytest.mark.parametrize(
    "words, told",
    [
        ("--metric nothing", "macro_recall.*micro_f1.*unknown_fpr95"),
        ("--metric macro_recall --split train", "micro_f1"),
        ("--by no.key", "method, backbone, task, config, dataset.name, train.mode"),
        ("--select no.key", "--select"),
        ("--against nobody", r"got 'nobody'; allowed: GCN \(IID\) \| .*PGL\+GCN.* \| GCN"),
        ("--alpha 2", "--alpha"),
        ("--out /dev/null/x.md", "--out"),
        ("--figure ranks.doc", "--figure"),
        ("--select --by dataset.name --columns train.mode --figure x.png", "three rows"),
    ],
)
def test_bad_input_is_one_line_that_says_what_there_is(three_methods, capsys, words, told):
    assert re.search(told, refusal(main(["compare", str(three_methods), *words.split()]), capsys))
    assert not Path("x.png").exists()


# The paper.


@pytest.mark.parametrize(
    "table, name, words, row, column",
    [
        ("open_set", "open_set/cora-iid", "", "GCN (IID)", "Cora"),
        ("open_set", "open_set/cora-srnc", "train.max_episodes 1", "SRNC Ep.1", "Cora"),
        ("open_set", "open_set/cora-srnc", "srnc.pseudo_labels classifier", "SRNC w.o. Φ", "Cora"),
        ("open_set", "open_set/cora-srnc", "open_set.unseen [1,2,3]", "SRNC", "Cora"),
        ("open_set", "open_set/cora-srnc-plus", "", None, "Cora"),
        ("close_set", "close_set/arxiv/cmd", "gnn.layer_type dgi", "DGI-CMD", "2014-2016"),
        ("close_set", "close_set/citation/erm", "", "GCN", None),
        ("clustering", "clustering/cora-srnc-no-source", "", "SRNC w.o. L_Φ,θ,S", "Cora"),
    ],
)
def test_configs_stand_beside_their_row_of_the_paper(table, name, words, row, column):
    from graphgym_srnc.gym import load_config

    cfg = load_config(f"paper/{name}", words.split())
    published = paper.TABLES[table]
    flat = flatten(cfg).items()
    facts = {key: tuple(value) if isinstance(value, list) else value for key, value in flat}
    facts |= {"method": cfg.train.mode, "backbone": cfg.gnn.layer_type}
    assert (published.row_of(facts), published.column_of(facts)) == (row, column)


def test_the_papers_tables_are_whole():
    from graphgym_srnc.gym import schema

    known = {f"{block}.{option.key}" for block, options in schema().items() for option in options}
    known |= {"method", "backbone", "data", "unseen", "dataset.format"}
    for published in paper.TABLES.values():
        assert set(published.variants) <= set(published.numbers)
        assert set().union(*published.variants.values(), *published.columns.values()) <= known
        for row, numbers in published.numbers.items():
            assert len(numbers.split()) == len(published.columns) * len(published.metrics), row
    clusters = {"acc": (49.16, None), "nmi": (46.22, None)}
    assert paper.TABLES["clustering"].find("SRNC", "CiteSeer") == clusters
    assert paper.TABLES["open_set"].find("SRNC", "DBLP") == {}


def test_the_papers_numbers_beside_ours(tmp_path):
    for unseen in (1, 3):
        data = {"open_set__num_unseen": unseen}
        store_runs(tmp_path, f"pgl-{unseen}", [0.7, 0.8], "pgl", backbone="sageconv", **data)
    store_runs(tmp_path, "erm", [0.6, 0.7], **data)
    store_runs(tmp_path, "pgl-ppr", [0.75, 0.8], "pgl", pgl__smoothing=10, **data)
    store_runs(tmp_path, "plus", [0.8], "srnc_plus", **data)
    store_runs(tmp_path, "other", [0.8], "srnc", srnc__source_regularizer=False, **data)
    found = table_of(tmp_path, paper="open_set")
    assert found.metrics == ("micro_f1", "macro_recall")
    other = "SRNC, not the paper's settings"
    assert {*found.rows} == {"PGL+SAGE", "GCN", "PGL+GCN with smoothing", other, "SRNC+"}
    assert found.columns == ["Cora, num_unseen 3", "Cora, num_unseen 1"]
    beside = found.cells[found.cells["paper_mean"].notna()]
    assert beside[["metric", "row", "column", "paper_mean", "paper_std"]].values.tolist() == [
        ["micro_f1", "PGL+SAGE", "Cora, num_unseen 3", 0.733, 0.043],
        ["macro_recall", "PGL+SAGE", "Cora, num_unseen 3", 0.718, 0.05],
    ]
    assert (Path(__file__).parents[1] / paper.DETAILS).is_file() and paper.DETAILS in remarks(found)
    text = render.text(found)
    assert re.search(r"PGL\+SAGE +75\.0 ± 5\.0 \(2\) +73\.3 ± 4\.3 ", text)
    assert re.search(r"GCN +65\.0 ± 5\.0 \(2\) +- ", text)
    for options in ({"by": ["method"], "select": []}, {"split": "val"}):
        beside = table_of(tmp_path, paper="open_set", **options).cells.dropna(subset="paper_mean")
        assert not (beside["row"].isin(["PGL"]) | (beside["split"] == "val")).any()


# Output.


def test_names_are_escaped_everywhere(tmp_path, capsys):
    evil = "=1+1|<b>_%&\\{}~^$#\x1b[31m\nend"
    store_runs(tmp_path, "a", [0.5, 0.6], evil, warnings=("x",))
    store_runs(tmp_path, "b", [0.7, 0.6], "-2+3")
    found = table_of(tmp_path, against="-2+3")
    seen = "=1+1|<b>_%&\\{}~^$#?[31m end"
    assert found.rows == ["-2+3", seen] and "\x1b" not in render.text(found)
    assert f"Warning in 2 of 4 runs ({seen}: 2): x" in remarks(found)
    lines = list(csv.DictReader(io.StringIO(render.to_csv(found))))
    assert [line["row"] for line in lines] == ["'-2+3", "'" + seen]
    assert lines[1]["against"] == "'-2+3" and float(lines[1]["difference"]) < 0
    assert "would be formulas" in capsys.readouterr().err
    latex = render.to_latex(found)
    escaped = r"=1+1\textbar{}\textless{}b\textgreater{}\_\%\&\textbackslash{}\{\}"
    assert escaped + r"\textasciitilde{}\textasciicircum{}\$\#?[31m end" in latex
    assert all(line.startswith("%") for line in latex.splitlines() if seen in line)
    assert latex.count(r"\caption[{") == 2 == len({*re.findall(r"\\label\{.*\}", latex)})
    assert "& $-10.0$ [$-137.1$, $+117.1$] (1) \\" in latex and "\n-2+3 &" in latex
    assert (
        latex.count("population") == 1
        and "in the divisor) over 2 runs. Bold: the best mean" in latex
    )


LINKS = r"""
[x](http://a.b)
![x](http://a.b)
[x][y]
<a href=x>http://y</a>
www.a.b a@b.c
`[x](y)`
\[x](y)
&lt;b&gt; &#91; a | b
""".split("\n")[1:-1]


def test_no_name_becomes_a_link_or_html(tmp_path):
    special = r"(?<!\\)(\\\\)*[\[\]`|]|[<>@]|://|www\.|&(?!amp;|lt;|gt;|#\d+;)"
    for name in LINKS:
        escaped = escape_markdown(name)
        assert not re.search(special, escaped), escaped
        assert unescape(re.sub(r"\\(.)", r"\1", escaped)) == name  # the name is what is shown
        store_runs(tmp_path, str(LINKS.index(name)), [0.5, 0.6], method=name, task="x")
    made = render.to_markdown(table_of(tmp_path))
    assert all(escape_markdown(name) in made for name in LINKS)
    assert not re.search(special.replace("|]", "]"), made), made


@pytest.mark.usefixtures("without_figures")
def test_the_deviation_may_have_n_less_1(tmp_path, capsys):
    scores = [0.5, 0.6, 0.9]
    store_runs(tmp_path, "a", scores)
    store_runs(tmp_path, "b", [0.7], method="pgl")
    for ddof, word in ((0, "population"), (1, "sample")):
        found = table_of(tmp_path, ddof=ddof)
        assert cell(found, "GCN").std == pytest.approx(np.std(scores, ddof=ddof))
        assert f"std: {word} standard deviation" in remarks(found)
        assert ("mean ± std (n - 1)" in render.text(found)) == bool(ddof)
        assert f"{word} standard deviation" in citations.measured(found)
        page = tmp_path / f"{word}.html"
        assert main(["report", str(tmp_path), "--ddof", str(ddof), "--out", str(page)]) == 0
        text = page.read_text()
        assert f"{100 * np.std(scores, ddof=ddof):.1f}</span>" in text and word in text
        assert ("population" in text) == (not ddof) and ("sample standard" in text) == bool(ddof)
    assert "--ddof: got 2; allowed: 0 or 1" in refusal(
        main(["compare", str(tmp_path), "--ddof", "2"]), capsys
    )


def test_several_scores_are_one_table_that_explains_itself(three_methods):
    metrics = ["micro_f1", "unknown_fpr95"]
    found = table_of(three_methods, metrics=metrics, columns=["task"], against="erm")
    latex = render.to_latex(found)
    markdown = render.to_markdown(found)
    assert latex.count(r"\begin{tabular}") == 2 == markdown.count("###")
    groups = r" & \multicolumn{4}{c}{Micro-F1} & \multicolumn{4}{c}{unknown FPR95} \\"
    assert groups + "\n\\cmidrule(lr){2-5}\\cmidrule(lr){6-9}\nmethod & CiteSeer" in latex
    (caption, _) = re.findall(r"^\{\\footnotesize (.*)\\par\}$", latex, re.M)
    assert all(text in caption for text in ("over 10 runs", "Holm", "the oracle"))
    assert "| method | Micro-F1: CiteSeer | Micro-F1: Cora | Micro-F1: mean |" in markdown
    alone = render.to_latex(table_of(*(three_methods / "deep").glob("*/Cora")))
    assert r"\begin{table}[t]" in alone and "multicolumn" not in alone
    labels = [r"\label{tab:cora-micro-f1-means}", r"\label{tab:citeseer-cora-micro-f1-means}"]
    assert [label in latex for label in labels] == [False, True] and labels[0] in alone
    assert re.search(r"\n(SRNC|PGL\+GCN) & \\textbf\{.*\} & 1\.\d ", alone)


def test_files_and_notes_of_the_command(tmp_path, three_methods, their_table, capsys):
    found = their_table
    out = tmp_path / "out"
    out.mkdir()
    assert main(["compare", str(three_methods), "--format", "csv"]) == 0
    assert capsys.readouterr().out.endswith(render.to_csv(found))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "table", lambda *words: found)  # the same one, in each form
        for suffix, form in render.SUFFIXES.items():
            assert main(["compare", str(three_methods), "--out", str(out / f"t{suffix}")]) == 0
            assert (out / f"t{suffix}").read_text() == render.FORMATS[form](found, list)
        assert main(["compare", str(three_methods), "--figure", str(out / "ranks.png")]) == 0
    for column in ("Cora", "CiteSeer"):
        assert (out / f"ranks-{column}.png").read_bytes().startswith(b"\x89PNG")
    home = store_runs(tmp_path, "a", [0.5, 0.6], "-2+3")
    (home / "1" / "result.json").write_text("garbage")
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "a"), "--out", str(out / "a.csv")]) == 0
    assert "'-2+3" in (out / "a.csv").read_text()
    assert "note: skipped 1 unreadable" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "a"), "--figure", str(out / "one.png")]) == 2
    told = capsys.readouterr()  # the table is printed nevertheless
    assert "50.0" in told.out and "three rows" in told.err


# The summary of an experiment.


def test_scores_without_an_unknown_test_node_say_so(tmp_path):
    known = {"test": {"micro_f1": 1.0, "known_accuracy": 1.0}}
    known["verdict"] = {"figures": {"test_unknown_share": 0.1012}, "sentences": {}}
    home = store_runs(tmp_path, "mine", [1.0], task="file/mine", record=known)
    row = summary.summarise("mine", records.read_results(home))
    _, note = summary.notes([row, row | {"name": "too"}])
    assert note.startswith("mine and too: no test node")
    other = known | {"test": {"micro_f1": 0.9, "known_accuracy": 1.0}}
    control = store_runs(tmp_path, "pgl", [0.9], "pgl", task="file/mine", record=other)
    compared = compare.table(collect([home, control]))
    assert compared.metrics == ("micro_f1", "unknown_share")
    assert re.search(r"\nGCN +100\.0 +10\.1\n", render.text(compared))
    best, first = sentences.findings(compared)
    notes = sentences.remarks(compared)
    assert best.endswith(": GCN 100.0 and PGL+GCN 90.0.") and "run 6 seeds" in notes[0]
    assert not compared.cells["best"].any() and first.endswith("No row is marked as the best.")
    assert first in notes and "known classes only" in first and "`num_unseen=1`" in first
    assert "known classes only" in note and "`open_set=False`" in note
    assert "known classes only" not in summary.to_csv([row])
    closed = store_runs(tmp_path, "closed", [1.0], task="file/mine")
    assert len(summary.notes([summary.summarise("closed", records.read_results(closed))])) == 1


def test_labels_that_a_method_held_out_stand_for_validation_nodes(tmp_path):
    store_runs(tmp_path / "tested", "own", [0.5], task="file/mine")
    assert table_of(tmp_path / "tested").split == "test"
    share = {"low": 0.6, "high": 0.9}
    known = {"accuracy": 0.75, **share}
    held_out = {"accuracy": 0.85, **share, "as_known": known, "alone": {"linear": known}}
    record = {"val": {}, "test": {}, "held_out": held_out}
    own = store_runs(tmp_path, "own", [0.5, 0.6], task="file/mine", record=record)
    found = table_of(own)
    assert found.metrics == ("closed_accuracy", "micro_f1") and found.split == "val"
    cells = [found.of(metric)["GCN", "mine"].mean for metric in found.metrics]
    assert cells == pytest.approx([0.85, 0.75])
    # A method that predicts no node as unknown has no threshold.
    record = {"val": {"micro_f1": 0.8}, "test": {}}
    closed = store_runs(tmp_path, "closed", [0.5], "doc", task="file/mine", record=record)
    found = table_of(own, closed)
    cells = [found.of(metric)["DOC", "mine"].mean for metric in found.metrics]
    assert cells == pytest.approx([0.8, 0.8])


def test_a_share_of_held_out_labels_that_is_no_number_makes_a_record_unreadable(tmp_path):
    bad = {"accuracy": 0.8, "low": 0.7, "high": "much"}
    record = {"val": {}, "held_out": {**bad, "high": 0.9, "as_known": bad, "alone": {}}}
    home = store_runs(tmp_path, "own", [0.5, 0.6], task="file/mine", record=record)
    with pytest.raises(InputError, match="2 unreadable"):
        collect([home])


def test_tables_are_written_and_shown(tmp_path, capsys):
    def warned(value: int) -> dict[str, str]:
        return {"fall": f"fell to {value}"}

    told = {"warnings": warned(1), "verdict": {"figures": {}, "sentences": {"balance": "Bad."}}}
    settings = {"backbone": "sageconv", "record": told | {"hidden_classes": ["a", "b"]}}
    home = store_runs(tmp_path, "one", [0.5, 0.7], "srnc_plus", **settings)
    records.write_record(home / "1", records.read_results(home)[1] | {"warnings": warned(2)})
    rows = [summary.summarise("one|two", records.read_results(home))]
    summary.write(tmp_path, rows)
    (read,) = csv_rows(tmp_path / "summary.csv")
    assert (read["runs"], read["warned"]) == ("2", "2")
    assert [float(read[key]) for key in ("micro_f1", "micro_f1_std")] == pytest.approx([0.6, 0.1])
    markdown = (tmp_path / "summary.md").read_text()
    assert "one\\|two" in markdown and "60.0 ± 10.0" in markdown and "population" in markdown
    found = collect([home])
    for text in ("for example: fell to 1", "Bad."):  # counted alike everywhere
        assert f"warning in 2 of 2 runs: {text}" in markdown
        told = f"Warning in 2 of 2 runs (SRNC+ with SAGE: 2): {text}"
        assert told in sentences.remarks(compare.table(found))
        assert text in [row[1].text for row in summary.warnings(found.experiments).rows]
    assert graphgym_srnc.results(home)["warnings"].tolist() == [2, 2]
    assert summary.hidden_classes(found.experiments).rows[0][1].text == "a, b"
    render.show([summary.grid(rows)], summary.notes(rows), sys.stdout)
    assert "one|two     SRNC+ with SAGE  2     60.0 ± 10.0" in capsys.readouterr().out


# From Python.


def test_results_as_a_frame(three_methods):
    frame = graphgym_srnc.results(three_methods)
    first = "experiment seed method backbone task split selection selected seconds peak_memory_mib"
    assert [*frame.columns][:12] == [*first.split(), "params", "warnings"]
    assert len(frame) == 20 * len(SCORES)
    kinds = [frame.dtypes[name].kind for name in ("seed", "params", "test_micro_f1")]
    assert kinds == ["i", "i", "f"]
    means = frame[frame.task == "open_set/Cora"].groupby("method").test_micro_f1.mean()
    assert means.to_dict() == pytest.approx({row: np.mean(of) for row, of in SCORES.items()})
    assert "gnn.layer_type" in graphgym_srnc.results(three_methods, config=True)

"""Comparisons of runs: settings chosen on validation alone, numbers against other code, clean
output and clean errors."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from matplotlib.figure import Figure

from graphgym_srnc.cli.main import main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.text import escape_markdown
from graphgym_srnc.io import store
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.report import compare, layout, paper, render, sentences, statistics
from graphgym_srnc.report.read import collect

SRC = Path(__file__).parent.parent
RNG = np.random.default_rng(0)
SCORES = {
    row: np.round(RNG.normal(centre, 0.02, 10), 3).tolist()
    for row, centre in (("erm", 0.70), ("pgl", 0.755), ("srnc", 0.76), ("iid", 0.9))
}
ROWS = {"erm": "GCN", "pgl": "PGL+GCN", "srnc": "SRNC", "iid": "GCN (IID)"}


def both(score: float) -> dict[str, float]:
    return {"micro_f1": score, "macro_recall": score / 2, "unknown_fpr95": 1 - score}


def keep(
    root: Path,
    name: str,
    scores: list[float],
    val: list[float] | None = None,
    method: str = "erm",
    task: str = "open_set/Cora",
    seeds: range | None = None,
    split: str = "split",
    backbone: str = "gcnconv",
    warnings: tuple[str, ...] = (),
    masked: list[list[int]] | None = None,
    **config,
) -> Path:
    """An experiment with a test score for each seed; ``config`` has ``__`` for the dot of a key."""
    block, _, data = task.partition("/")
    settings: dict = {
        "seed": 0,
        "dataset": {"name": data, "format": block},
        "train": {"mode": method},
        "gnn": {"layer_type": backbone},
    }
    for key, value in config.items():
        head, _, last = key.partition("__")
        settings.setdefault(head, {})[last] = value
    for seed, test, valid in zip(seeds or range(len(scores)), scores, val or scores):
        experiment = store.Experiment(root, name, settings | {"seed": seed})
        experiment.begin(seed)
        episode = {
            "number": 0,
            "losses": {},
            "train": {"micro_f1": 1.0},
            "val": both(valid),
            "test": both(test),
            "seconds": 0.5,
        }
        experiment.finish(
            seed,
            {
                "method": method,
                "backbone": backbone,
                "task": task,
                "split": f"{task} {split} {seed}",
                "selected": 0,
                "history": [episode],
                "val": both(valid),
                "test": both(test),
                "lr": 0.01,
                "params": 10,
                "seconds": 2.0 + seed,
                "info": {"unseen": masked[seed]} if masked else {},
                "warnings": list(warnings),
            },
        )
    return root / name


def of(*folders: Path, **options) -> compare.Table:
    return compare.table(collect(folders).runs, **options)


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> Path:
    """Three methods and the oracle on two graphs, ten splits each."""
    root = tmp_path_factory.mktemp("several")
    for task, shift in (("open_set/Cora", 0.0), ("open_set/CiteSeer", 0.05)):
        for method, scores in SCORES.items():
            keep(
                root / "deep" / method,
                task.rpartition("/")[2],
                [score - shift for score in scores],
                method=method,
                task=task,
            )
    return root


# Numbers.


def test_mean_and_deviation_are_those_of_graphgym(tmp_path):
    pytest.importorskip("pandas")
    from torch_geometric.graphgym.utils.agg_runs import agg_batch, agg_runs

    for lr, layer in itertools.product((0.1, 0.2), ("gcnconv", "gatconv")):
        name = f"toy-lr={lr}-l={layer}"
        keep(
            tmp_path,
            name,
            RNG.uniform(0.4, 0.9, 3).tolist(),
            RNG.uniform(0.4, 0.9, 3).tolist(),
            backbone=layer,
            optim__lr=lr,
        )
        results = store.read_results(tmp_path / name)
        store.Experiment(tmp_path, name, results[0]["config"]).aggregate()
        agg_runs(str(tmp_path / name), "auto")
    agg_batch(str(tmp_path), "auto")
    for split in ("val", "test"):
        lines = list(csv.DictReader((tmp_path / "agg" / f"{split}_best.csv").open()))
        found = of(
            tmp_path,
            metrics=["micro_f1", "macro_recall"],
            split=split,
            by=["optim.lr"],
            columns=["backbone"],
        )
        layers = {"gcnconv": "GCN", "gatconv": "GAT", "sageconv": "SAGE"}
        assert len(lines) == 4 == len(found.settings)
        for line, metric in itertools.product(lines, found.metrics):
            cell = found.cells[metric, f"lr={line['lr']}", layers[line["l"]]]
            assert cell.runs == 3
            assert (round(cell.mean, 4), round(cell.std, 4)) == (
                float(line[metric]),
                float(line[f"{metric}_std"]),
            )


def test_every_number_of_a_cell(several):
    found = of(several, metrics=["micro_f1", "unknown_fpr95", "seconds"], intervals=True)
    assert found.rows == ["GCN (IID)", "GCN", "PGL+GCN", "SRNC"]
    assert found.columns == ["CiteSeer", "Cora"]
    cell = found.cells["micro_f1", "PGL+GCN", "Cora"]
    assert (cell.mean, cell.std, cell.median) == pytest.approx(
        (np.mean(SCORES["pgl"]), np.std(SCORES["pgl"]), np.median(SCORES["pgl"]))
    )
    assert cell.interval == statistics.bootstrap_interval(SCORES["pgl"], 0.95)
    assert found.cells["seconds", "PGL+GCN", "Cora"].mean == pytest.approx(6.5)
    on_train = of(several, split="train")
    assert on_train.cells["micro_f1", "GCN", "Cora"].mean == 1
    assert ("micro_f1", "GCN", "Cora") in on_train.cells


def test_marks_against_scipy(several):
    found = of(several)
    best = max(("erm", "pgl", "srnc"), key=lambda row: np.mean(SCORES[row]))
    others = [row for row in ("erm", "pgl", "srnc") if row != best]
    raw = {
        row: scipy.stats.wilcoxon(np.round(np.subtract(SCORES[best], SCORES[row]), 9)).pvalue
        for row in others
    }
    low, high = sorted(others, key=raw.get)
    corrected = {low: min(1, 2 * raw[low]), high: max(min(1, 2 * raw[low]), raw[high])}
    cells = {row: found.cells["micro_f1", name, "Cora"] for row, name in ROWS.items()}
    assert [row for row, cell in cells.items() if cell.best] == [best]
    assert {row: cells[row].p for row in others} == pytest.approx(corrected)
    assert (
        {row: cells[row].tied for row in others}
        == {row: p > 0.05 for row, p in corrected.items()}
        == {"erm": False, "pgl": True}
    )
    assert not cells["iid"].best and not cells["iid"].tied
    strict = of(several, alpha=1e-3, test="t").cells["micro_f1", "GCN", "Cora"]
    p = scipy.stats.ttest_rel(SCORES[best], SCORES["erm"]).pvalue
    assert strict.tied == (strict.p > 1e-3) and p <= strict.p <= 2 * p * (1 + 1e-9)


def test_less_is_better_where_it_is(several):
    found = of(several, metrics=["unknown_fpr95"])
    upward = of(several)
    assert [row for row in found.rows if found.cells["unknown_fpr95", row, "Cora"].best] == [
        row for row in upward.rows if upward.cells["micro_f1", row, "Cora"].best
    ]
    assert found.rankings["unknown_fpr95"].ranks == pytest.approx(upward.rankings["micro_f1"].ranks)


def test_ranks_of_cells_that_all_rows_have(several):
    found = of(several).rankings["micro_f1"]
    blocks = [[SCORES[row][seed] for row in ("erm", "pgl", "srnc")] for seed in range(10)] * 2
    expected = scipy.stats.rankdata(-np.array(blocks), axis=1)
    assert found.blocks == 20
    assert found.ranks == pytest.approx(dict(zip(("GCN", "PGL+GCN", "SRNC"), expected.mean(0))))
    assert found.friedman == pytest.approx(
        scipy.stats.friedmanchisquare(*np.array(blocks).T).pvalue
    )
    assert (found.difference, found.cliques) == statistics.critical_difference(found.ranks, 20)


def test_a_row_against_the_others(several):
    found = of(several, against="erm")
    columns = ["Cora", "CiteSeer", compare.POOLED]
    places = itertools.product(["micro_f1"], ["PGL+GCN", "SRNC"], columns)
    assert found.against == "GCN" == of(several, against="GCN").against
    assert set(found.comparisons) == set(places)
    gaps = np.round(np.subtract(SCORES["srnc"], SCORES["erm"]), 9)
    one, pooled = (
        found.comparisons["micro_f1", "SRNC", column] for column in ("Cora", compare.POOLED)
    )
    assert (one.pairs, one.wins) == (10, (gaps > 0).sum())
    assert one.difference == pytest.approx(gaps.mean())
    assert one.p == pytest.approx(scipy.stats.wilcoxon(gaps).pvalue) and one.holm >= one.p
    assert pooled.pairs == 20 and pooled.p < one.p


def test_pairs_are_common_splits_only(tmp_path):
    scores = [0.7, 0.71, 0.73, 0.74, 0.69, 0.7, 0.72]
    keep(tmp_path, "a", scores, method="erm")
    keep(tmp_path, "b", [score + 0.05 for score in scores], method="pgl", seeds=range(3, 10))
    keep(tmp_path, "c", scores, method="doc", split="another")
    keep(tmp_path, "d", [0.9], method="cmd")
    found = of(tmp_path, against="erm")
    assert {
        row: found.comparisons["micro_f1", row, "Cora"].pairs
        for row in ("PGL+GCN", "DOC", "GCN-CMD")
    } == {"PGL+GCN": 4, "DOC": 0, "GCN-CMD": 1}
    assert np.isnan(found.comparisons["micro_f1", "GCN-CMD", "Cora"].p)
    assert found.cells["micro_f1", "GCN-CMD", "Cora"].best
    assert not any(found.cells["micro_f1", row, "Cora"].tied for row in found.rows)
    text = render.text(found)
    assert re.search(r"\nGCN-CMD +-\n", text) and "n 4" in text and "fewer than 2 splits" in text
    assert "fewer than 6 pairs" in text
    with pytest.raises(InputError, match="--against.*2 splits"):
        of(tmp_path / "a", tmp_path / "c", against="erm")


# Settings, rows and columns.


def test_the_test_score_is_that_of_the_setting_chosen_on_validation(tmp_path):
    keep(tmp_path, "a", [0.9, 0.9], val=[0.5, 0.6], gnn__dim_inner=16)
    keep(tmp_path, "b", [0.6, 0.7], val=[0.7, 0.7], gnn__dim_inner=64)
    keep(tmp_path, "c", [0.8, 0.8], val=[0.6, 0.6], gnn__dim_inner=128)
    keep(tmp_path, "lucky", [0.9], val=[0.99], gnn__dim_inner=256)
    found = of(tmp_path, metrics=["micro_f1", "macro_recall"])
    setting = found.settings["GCN", "Cora"]
    assert setting == layout.Setting({"gnn.dim_inner": 64}, tried=4, fewer=1, validation=0.7)
    assert found.cells["micro_f1", "GCN", "Cora"].mean == pytest.approx(0.65)
    assert found.cells["macro_recall", "GCN", "Cora"].mean == pytest.approx(0.325)
    text = render.text(found)
    assert (
        "best of 4 settings (1 with fewer runs left out), validation 70.0: gnn.dim_inner=64"
    ) in text
    # Other test scores choose the same.
    for result in (tmp_path / "c").glob("*/result.json"):
        record = json.loads(result.read_text())
        result.write_text(json.dumps(store.sealed(record | {"test": both(0.01)})))
    assert (
        of(tmp_path).settings
        == of(tmp_path, metrics=["micro_f1"]).settings
        == {("GCN", "Cora"): setting}
    )
    assert of(tmp_path, metrics=["unknown_fpr95"]).settings["GCN", "Cora"].values == {
        "gnn.dim_inner": 64
    }


def test_each_cell_has_its_own_setting_and_pooling_is_told(tmp_path):
    for task, (low, high) in {"open_set/Cora": (0.5, 0.6), "open_set/PubMed": (0.8, 0.7)}.items():
        for steps, val in ((10, low), (20, high)):
            keep(
                tmp_path,
                f"{task[9:]}-{steps}",
                [0.5, 0.6],
                val=[val, val],
                task=task,
                erm__steps=steps,
                optim__lr=steps / 100,
            )
    found = of(tmp_path)
    assert {place: setting.values["erm.steps"] for place, setting in found.settings.items()} == {
        ("GCN", "Cora"): 20,
        ("GCN", "PubMed"): 10,
    }
    pooled = of(tmp_path, select=[])
    assert pooled.cells["micro_f1", "GCN", "Cora"].runs == 4
    assert "pool runs that differ in erm.steps, optim.lr" in " ".join(sentences.remarks(pooled))
    partly = of(tmp_path, select=["erm.steps"])
    assert partly.settings["GCN", "Cora"].values == {"erm.steps": 20}
    assert "pool" not in " ".join(sentences.remarks(partly))
    by_step = of(tmp_path, by=["erm.steps"])
    assert by_step.rows == ["steps=10", "steps=20"]
    assert all(setting.tried == 1 for setting in by_step.settings.values())


def test_data_are_never_selected_over(tmp_path):
    for unseen, score in ((1, 0.9), (3, 0.6)):
        keep(
            tmp_path,
            f"u{unseen}",
            [score, score],
            open_set__num_unseen=unseen,
            open_set__split_seed=unseen,
            split=str(unseen),
        )
    found = of(tmp_path)
    assert found.columns == ["Cora/num_unseen=1", "Cora/num_unseen=3"]
    assert all(one.tried == 1 for one in found.settings.values())
    one = of(tmp_path, columns=["task"])
    assert one.cells["micro_f1", "GCN", "Cora"].runs == 4
    assert "open_set.num_unseen" in " ".join(sentences.remarks(one))
    by_data = of(tmp_path, by=["open_set.num_unseen"])
    assert by_data.rows == ["num_unseen=1", "num_unseen=3"] and by_data.columns == ["Cora"]


def test_srnc_and_srnc_plus_are_two_rows_also_beside_the_paper(tmp_path):
    data = {"open_set__num_unseen": 3, "train__max_episodes": -1}
    keep(tmp_path, "a", [0.7], method="srnc", srnc__pseudo_labels="cluster", **data)
    keep(tmp_path, "b", [0.8], method="srnc_plus", srnc_plus__spare=5, **data)
    keep(tmp_path, "c", [0.8], method="srnc_plus", backbone="gatconv", **data)
    for beside in (None, "open_set"):
        found = of(tmp_path, paper=beside)
        assert found.rows == ["SRNC", "SRNC+", "SRNC+ (GAT)"]
        assert all(setting.tried == 1 for setting in found.settings.values())
    assert of(tmp_path, by=["method"]).rows == ["SRNC", "SRNC+"]


def test_labels_say_what_tells_rows_apart(tmp_path):
    keep(tmp_path, "a", [0.5], backbone="gatconv", erm__score="energy")
    keep(tmp_path, "b", [0.5], task="file/Cora")
    keep(tmp_path, "c", [0.5], method="doc")
    found = of(tmp_path)
    assert found.rows == ["GAT", "GCN", "DOC"]
    with pytest.raises(InputError, match="against"):  # two rows are of that method
        of(tmp_path, against="erm")
    assert found.columns == ["open_set/Cora", "file/Cora"]
    assert of(tmp_path, by=["method", "erm.score"]).rows == ["ERM/score=energy", "ERM", "DOC"]
    assert of(tmp_path, by=["erm.score"]).rows == ["score=energy", "-"]


# What is read.


def test_folders_at_any_depth_and_what_is_passed_over(tmp_path, several):
    found = collect([several])
    assert len(found.runs) == 80 and found.remarks() == []
    one = several / "deep" / "erm" / "Cora"
    assert [len(collect(folders).runs) for folders in ([one], [one, one], [one / "3"])] == [
        10,
        10,
        1,
    ]

    home = keep(tmp_path, "a", [0.5, 0.6, 0.7, 0.8])
    keep(tmp_path / "copy", "of a", [0.5])
    (home / "1" / "result.json").write_text("garbage")
    record = json.loads((home / "2" / "result.json").read_text())
    (home / "2" / "result.json").write_text(json.dumps(store.sealed(record | {"test": 7})))
    (home / "3" / "result.json").unlink()
    for name, text in (("5", "[" * 100_000), ("6", "{}"), ("7", "\x00")):
        (home / name).mkdir()
        (home / name / "result.json").write_text(text)
    (home / "linked").symlink_to(several, target_is_directory=True)
    (home / "8").mkdir()
    (home / "8" / "result.json").symlink_to(several / "deep" / "erm" / "Cora" / "8" / "result.json")
    (home / ".old").mkdir()
    (home / ".old" / "result.json").write_text("hidden")
    found = collect([tmp_path])
    assert len(found.runs) == 1 and len(found.unreadable) == 6
    assert (found.unfinished, found.repeated) == (1, 1)
    assert "6 unreadable" in found.remarks()[0] and str(home / "1") in found.remarks()[0]


def test_runs_share_what_their_configs_have_in_common_and_nothing_else(tmp_path):
    for name, value in (("a", 1), ("b", 1.0), ("c", True)):
        keep(tmp_path, name, [0.5, 0.6], erm__steps=value)
    found = collect([tmp_path])
    configs = {
        name: [result["config"] for _, result in sorted(results.items())]
        for name, results in found.results.items()
    }
    assert {
        name: [(config["seed"], repr(config["erm"]["steps"])) for config in own]
        for name, own in configs.items()
    } == {"a": [(0, "1"), (1, "1")], "b": [(0, "1.0"), (1, "1.0")], "c": [(0, "True"), (1, "True")]}
    assert configs["a"][0]["erm"] is configs["a"][1]["erm"]
    assert [run.facts["seed"] for run in found.runs] == [0, 1] * 3
    runs = collect([tmp_path], records=False)
    assert runs.runs == found.runs and not runs.results


def test_a_digest_of_another_config_does_not_pass(tmp_path):
    first, second = keep(tmp_path, "a", [0.5, 0.6]) / "0", tmp_path / "a" / "1"
    record = json.loads((second / "result.json").read_text())
    record["config"]["train"]["mode"] = "pgl"
    (second / "result.json").write_text(json.dumps(store.sealed(record)))
    assert store.read_result(first) and store.read_result(second) is None


def test_nothing_to_read(tmp_path):
    with pytest.raises(InputError, match="DIR.*nowhere"):
        collect([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="result.json"):
        collect([tmp_path])
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "result.json").write_text("garbage")
    with pytest.raises(InputError, match="1 unreadable"):
        collect([tmp_path])


@pytest.mark.parametrize(
    "options, told",
    [
        ({"metrics": ["nothing"]}, "macro_recall.*micro_f1.*unknown_fpr95"),
        ({"metrics": ["macro_recall"], "split": "train"}, "micro_f1"),
        ({"split": "all"}, "train, val, test"),
        ({"by": ["no.key"]}, "method, backbone, task, dataset.name, train.mode"),
        ({"columns": ["no.key"]}, "--columns"),
        ({"select": ["no.key"]}, "--select"),
        ({"against": "nobody"}, r"GCN \(IID\) \| GCN \| PGL\+GCN \| SRNC"),
        ({"test": "sign"}, "wilcoxon, t"),
        ({"paper": "table"}, "open_set, close_set, clustering"),
        ({"alpha": 1.0}, "--alpha"),
    ],
)
def test_bad_input_says_what_there_is(several, options, told):
    with pytest.raises(InputError, match=told):
        of(several, **options)


def test_settings_without_validation_scores_are_not_chosen_from(tmp_path):
    for home in (
        keep(tmp_path, name, [0.5, 0.6], gnn__dim_inner=width)
        for name, width in (("a", 16), ("b", 64))
    ):
        for result in home.glob("*/result.json"):
            record = json.loads(result.read_text()) | {"val": {}}
            result.write_text(json.dumps(store.sealed(record)))
    with pytest.raises(InputError, match="gnn.dim_inner.*--by"):
        of(tmp_path)
    assert of(tmp_path, by=["gnn.dim_inner"]).rows == ["dim_inner=16", "dim_inner=64"]
    assert of(tmp_path, select=[]).cells["micro_f1", "GCN", "Cora"].runs == 4


# The paper.


def facts(name: str, *words: str) -> dict:
    from graphgym_srnc.gym import load_config

    cfg = load_config(name, list(words))
    flat = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in flatten(cfg).items()
    }
    return flat | {"method": cfg.train.mode, "backbone": cfg.gnn.layer_type}


@pytest.mark.parametrize(
    "table, name, words, row, column",
    [
        ("open_set", "open_set/cora-iid", (), "GCN (IID)", "Cora"),
        ("open_set", "open_set/citeseer-pgl-gat", (), "PGL+GAT", "CiteSeer"),
        ("open_set", "open_set/pubmed-pgl", (), "PGL+GCN", "PubMed"),
        ("open_set", "open_set/pubmed-srnc", (), "SRNC", "PubMed"),
        ("open_set", "open_set/cora-srnc", ("train.max_episodes", "1"), "SRNC Ep.1", "Cora"),
        (
            "open_set",
            "open_set/cora-srnc",
            ("srnc.pseudo_labels", "classifier"),
            "SRNC w.o. Φ",
            "Cora",
        ),
        ("open_set", "open_set/cora-srnc", ("srnc.cluster_steps", "5"), "SRNC", "Cora"),
        ("open_set", "open_set/cora-srnc", ("open_set.num_unseen", "1"), "SRNC", None),
        (
            "open_set",
            "open_set/cora-srnc",
            ("open_set.unseen", "[1,2,3]", "open_set.num_unseen", "1"),
            "SRNC",
            "Cora",
        ),
        ("open_set", "open_set/cora-srnc-plus", (), None, "Cora"),
        ("open_set", "open_set/cora-erm", (), None, "Cora"),
        ("open_set", "open_set/cora-pgl", ("pgl.smoothing", "10"), None, "Cora"),
        ("close_set", "close_set/arxiv/erm", ("temporal.period", "3"), "GCN", "2018-2020"),
        ("close_set", "close_set/arxiv/cmd", ("gnn.layer_type", "dgi"), "DGI-CMD", "2014-2016"),
        ("close_set", "close_set/arxiv/srnc-paper", (), "SRNC", "2014-2016"),
        ("close_set", "close_set/citation/erm", (), "GCN", None),
        ("clustering", "clustering/cora-srnc-no-source", (), "SRNC w.o. L_Φ,θ,S", "Cora"),
    ],
)
def test_configs_stand_beside_their_row_of_the_paper(table, name, words, row, column):
    found, published = facts(f"paper/{name}", *words), paper.TABLES[table]
    assert (published.row_of(found), published.column_of(found)) == (row, column)


def test_the_papers_tables_are_whole():
    from graphgym_srnc.gym import schema

    known = {f"{block}.{option.key}" for block, options in schema().items() for option in options}
    known |= {"method", "backbone", "data", "unseen", "dataset.format"}
    for published in paper.TABLES.values():
        assert set(published.rows) == set(published.numbers)
        assert set().union(*published.rows.values(), *published.columns.values()) <= known
        for row, numbers in published.numbers.items():
            assert len(numbers.split()) == len(published.columns) * len(published.metrics), row
    assert paper.OPEN_SET.find("SRNC", "PubMed") == {
        "micro_f1": (69.1, 4.4),
        "macro_recall": (69.4, 2.5),
    }
    assert paper.CLOSE_SET.find("GCN-SRGNN", "2018-2020") == {"micro_f1": (55.0, 1.1)}
    assert paper.CLUSTERING.find("DGI", "CiteSeer") == {"acc": (37.68, None), "nmi": (42.20, None)}
    assert paper.CLUSTERING.row_of({"method": "deepwalk", "backbone": "gcnconv"}) == "DeepWalk"
    assert paper.OPEN_SET.find("SRNC+", "Cora") == paper.OPEN_SET.find("SRNC", "DBLP") == {}


def test_the_papers_numbers_beside_ours(tmp_path):
    for unseen in (1, 3):
        keep(
            tmp_path,
            f"pgl-{unseen}",
            [0.7, 0.8],
            method="pgl",
            backbone="sageconv",
            open_set__num_unseen=unseen,
        )
    keep(tmp_path, "erm", [0.6, 0.7], open_set__num_unseen=3)
    keep(tmp_path, "pgl-ppr", [0.75, 0.8], method="pgl", open_set__num_unseen=3, pgl__smoothing=10)
    found = of(tmp_path, paper="open_set")
    assert found.metrics == ("micro_f1", "macro_recall")
    assert found.rows == ["PGL+SAGE", "GCN", "PGL+GCN (beyond the paper)"]
    assert found.columns == ["Cora/num_unseen=3", "Cora/num_unseen=1"]
    assert found.cells["macro_recall", "PGL+SAGE", "Cora/num_unseen=3"].paper == paper.Score(
        71.8, 5.0
    )
    assert {
        place[1:]: cell.paper
        for place, cell in found.cells.items()
        if place[0] == "micro_f1" and cell.paper
    } == {("PGL+SAGE", "Cora/num_unseen=3"): paper.Score(73.3, 4.3)}
    text = render.text(found)
    assert re.search(r"PGL\+SAGE +75\.0 ± 5\.0°? +73\.3 ± 4\.3 ", text)
    assert re.search(r"GCN +65\.0 ± 5\.0°? +- ", text)
    mixed = of(tmp_path, paper="open_set", by=["method"], select=[])
    assert mixed.cells["micro_f1", "PGL", "Cora/num_unseen=3"].paper is None
    assert not any(
        cell.paper for cell in of(tmp_path, paper="open_set", split="val").cells.values()
    )


# Output.


def test_csv_has_every_number_in_full(several):
    found = of(several, metrics=["micro_f1", "seconds"], against="erm", intervals=True)
    lines = list(csv.DictReader(io.StringIO(render.to_csv(found))))
    assert len(lines) == 2 * (4 * 2 + 2)
    line = next(
        line
        for line in lines
        if (line["metric"], line["row"], line["column"]) == ("micro_f1", "SRNC", "Cora")
    )
    cell = found.cells["micro_f1", "SRNC", "Cora"]
    one = found.comparisons["micro_f1", "SRNC", "Cora"]
    assert [
        float(line[key])
        for key in ("mean", "std", "median", "low", "high", "rank", "p", "p_holm", "difference")
    ] == [
        cell.mean,
        cell.std,
        cell.median,
        *cell.interval,
        found.rankings["micro_f1"].ranks["SRNC"],
        one.p,
        one.holm,
        one.difference,
    ]
    assert (line["runs"], line["best"], line["against"], line["pairs"], line["paper_mean"]) == (
        "10",
        str(int(cell.best)),
        "GCN",
        "10",
        "",
    )


def test_names_are_escaped_everywhere(tmp_path):
    evil = "=1+1|<b>_%&\\{}~^$#\x1b[31m\nend"
    keep(tmp_path, "a", [0.5, 0.6], method=evil, warnings=("x",))
    keep(tmp_path, "b", [0.7, 0.6], method="-2+3")
    found = of(tmp_path, against="-2+3")
    seen = "=1+1|<b>_%&\\{}~^$#?[31m end"
    assert found.rows == [seen, "-2+3"] and "\x1b" not in render.text(found)
    assert f"{seen}: 2 of 2 runs gave a warning" in "".join(sentences.remarks(found))
    lines = list(csv.DictReader(io.StringIO(render.to_csv(found))))
    assert [line["row"] for line in lines] == ["'" + seen, "'-2+3"]
    assert lines[0]["against"] == "'-2+3" and float(lines[0]["difference"]) < 0
    markdown = render.to_markdown(found)
    assert r"=1+1\|&lt;b&gt;_%&amp;\\{}~^$#?\[31m end" in markdown and "<b>" not in markdown
    latex = render.to_latex(found)
    assert (
        r"=1+1\textbar{}\textless{}b\textgreater{}\_\%\&\textbackslash{}\{\}\textasciitilde{}"
        r"\textasciicircum{}\$\#?[31m end"
    ) in latex
    assert all(line.startswith("%") for line in latex.splitlines() if seen in line)


LINKS = (
    "[x](http://a.b)",
    "![x](http://a.b)",
    "[x][y]",
    "<http://a.b>",
    "<a href=x>y</a>",
    "http://a.b",
    "www.a.b",
    "a@b.c",
    "`[x](y)`",
    "\\[x](y)",
    "&lt;b&gt; &#91;",
    "a | b",
)


@pytest.mark.parametrize("name", LINKS)
def test_no_name_becomes_a_link_or_html(tmp_path, name):
    from html import unescape

    escaped = escape_markdown(name)
    special = r"(?<!\\)(\\\\)*[\[\]`|]|[<>@]|://|www\.|&(?!amp;|lt;|gt;|#\d+;)"
    assert not re.search(special, escaped), escaped
    # What is shown is the name.
    assert unescape(re.sub(r"\\(.)", r"\1", escaped)) == name
    keep(tmp_path, "a", [0.5, 0.6], method=name, task=name)
    keep(tmp_path, "b", [0.7, 0.6], method="b", task=name)
    made = render.to_markdown(of(tmp_path, against="b"))
    assert escaped in made and not re.search(special.replace("|]", "]"), made), made


def test_latex_is_a_table_as_in_the_paper(several):
    latex = render.to_latex(of(several, metrics=["micro_f1", "macro_recall"]))
    for rule in (
        "toprule",
        "midrule",
        "bottomrule",
        "begin{tabular}{lcccccccc}",
        "multicolumn{2}{c}{Cora}",
        "cmidrule(lr){2-3}",
    ):
        assert latex.count(f"\\{rule}") == 1, rule
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 6 and {len(re.findall(r"(?<!\\)&", row)) for row in rows[1:]} == {8}
    assert latex.count(r"\textbf{") == 4 == latex.count(r"\underline{")
    assert latex.startswith(r"% Needs \usepackage{booktabs}") and "%" not in "".join(rows)
    assert {row[:4] for row in rows if "underline" in row} <= {"PGL+", "SRNC"}
    body = "".join(line for line in latex.splitlines() if not line.startswith("%"))
    assert body.count("{") == body.count("}") and body.isascii()
    one = render.to_latex(of(several, columns=["dataset.format"]))
    assert r"\cmidrule" not in one and "pool runs that differ in dataset.name" in one


def test_text_fits_the_width(several):
    found = of(several, metrics=["micro_f1"], against="erm", intervals=True)
    for width in (40, 60, 120):
        assert max(map(len, render.text(found, width).splitlines())) <= width
    whole = render.text(found)
    assert re.search(r"SRNC +7\d\.\d ± \d\.\d[*°] +7\d\.\d ± \d\.\d[*°] +7\d\.\d +\d\.\d\n", whole)
    assert "GCN (IID): the oracle" in whole
    assert re.search(r"95 % bootstrap interval.*\n.*\nGCN \(IID\) +8\d\.\d to 8\d\.\d", whole)
    assert "difference to GCN (p), n pairs" in whole


def test_a_terminal_has_rules_and_bold(several):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown, plain = Terminal(), io.StringIO()
    render.show(of(several), shown)
    render.show(of(several), plain)
    assert "━" in shown.getvalue() and "Micro-F1 on test" in shown.getvalue()
    assert "━" not in plain.getvalue()


# The command.


def test_the_command_as_a_user_types_it(tmp_path, several):
    path = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def run(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "graphgym_srnc", "compare", *words],
            env=environment,
            capture_output=True,
            text=True,
        )

    done = run(
        str(several), "--against", "erm", "--metric", "micro_f1", "macro_recall", "--intervals"
    )
    assert done.returncode == 0 and done.stdout.startswith("Micro-F1 on test, %, mean ± std\n")
    assert not done.stderr
    assert "macro recall on test, %, difference to GCN" in done.stdout


def test_files_and_notes_of_the_command(tmp_path, several, capsys):
    pytest.importorskip("graphgym_srnc.plots.charts")
    found = of(several)
    for name, expected in (
        ("t.csv", render.to_csv),
        ("t.md", render.to_markdown),
        ("t.tex", render.to_latex),
        ("t.txt", render.text),
    ):
        assert main(["compare", str(several), "--out", str(tmp_path / "out" / name)]) == 0
        assert (tmp_path / "out" / name).read_text() == expected(found)
    assert main(["compare", str(several), "--format", "csv"]) == 0
    assert capsys.readouterr().out.endswith(render.to_csv(found))
    for suffix, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        assert main(["compare", str(several), "--figure", str(tmp_path / f"ranks{suffix}")]) == 0
        assert (tmp_path / f"ranks{suffix}").read_bytes().startswith(start)
    home = keep(tmp_path, "a", [0.5, 0.6])
    (home / "1" / "result.json").write_text("garbage")
    capsys.readouterr()
    assert main(["compare", str(tmp_path)]) == 0
    assert "note: skipped 1 unreadable" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, told",
    [
        (["--by", "no.key"], "--by"),
        (["--metric", "nothing"], "--metric"),
        (["--against", "nobody"], "--against"),
        (["--figure", "ranks.doc"], "figure"),
        (["--out", "/dev/null/x.md"], "--out"),
        (["--alpha", "2"], "--alpha"),
        (["--select", "no.key"], "--select"),
        (
            ["--columns", "dataset.name", "--by", "method", "--figure", "/dev/null/x.png"],
            "--figure",
        ),
    ],
)
def test_errors_of_the_command_are_one_line(several, capsys, words, told):
    assert main(["compare", str(several), *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith("error: ") and told in error


def test_no_figure_of_what_has_no_ranks(tmp_path, capsys):
    keep(tmp_path, "a", [0.5, 0.6])
    keep(tmp_path, "b", [0.6, 0.7], method="pgl")
    assert main(["compare", str(tmp_path), "--figure", str(tmp_path / "x.png")]) == 2
    assert "three rows" in capsys.readouterr().err and not (tmp_path / "x.png").exists()
    assert main(["compare", str(tmp_path / "nowhere")]) == 2


def test_runs_that_mask_the_same_classes_count_once(tmp_path):
    masked = [[0], [1], [2], [0], [1], [2], [0]]
    ours = [0.7, 0.8, 0.6, 0.72, 0.83, 0.61, 0.9]
    theirs = [0.6, 0.75, 0.62, 0.61, 0.7, 0.66, 0.5]
    keep(tmp_path, "erm", ours, masked=masked)
    keep(tmp_path, "pgl", theirs, method="pgl", masked=masked)
    found = of(tmp_path, against="pgl", intervals=True)
    gaps = [np.mean([a - b for a, b, c in zip(ours, theirs, masked) if c == [k]]) for k in range(3)]
    (column,) = found.columns
    comparison = found.comparisons["micro_f1", "GCN", column]
    assert comparison.pairs == 3 and comparison.difference == pytest.approx(np.mean(gaps))
    assert comparison.p == pytest.approx(scipy.stats.wilcoxon(gaps).pvalue)
    assert found.rankings["micro_f1"].blocks == 3
    means = [np.mean([a for a, c in zip(ours, masked) if c == [k]]) for k in range(3)]
    cell = found.cells["micro_f1", "GCN", column]
    assert cell.interval == statistics.bootstrap_interval(means)
    assert (cell.runs, cell.mean) == (7, pytest.approx(np.mean(ours)))
    assert "set of masked classes" in " ".join(sentences.remarks(found))


def test_one_masked_set_for_all_is_no_unit(tmp_path):
    for name, scores in (("erm", [0.7, 0.8, 0.6]), ("pgl", [0.6, 0.75, 0.62])):
        keep(tmp_path, name, scores, method=name, masked=[[2]] * 3)
    found = of(tmp_path, against="pgl")
    assert found.comparisons["micro_f1", "GCN", found.columns[0]].pairs == 3
    assert "set of masked classes" not in " ".join(sentences.remarks(found))


# From Python.


def test_results_as_a_frame_and_ranks_on_given_axes(several):
    import graphgym_srnc
    from graphgym_srnc import plot

    frame = graphgym_srnc.results(several)
    assert len(frame) == 20 * len(SCORES) and {
        "experiment",
        "seed",
        "method",
        "task",
        "split",
        "test_micro_f1",
        "seconds",
    } <= {*frame.columns}
    means = frame[frame.task == "open_set/Cora"].groupby("method").test_micro_f1.mean()
    for method, scores in SCORES.items():
        assert means[method] == pytest.approx(np.mean(scores))
    assert "gnn.layer_type" in graphgym_srnc.results(several, config=True)

    axes = Figure().subplots()
    assert plot.ranks(several, ax=axes) is axes
    words = " ".join(text.get_text() for text in axes.texts)
    assert "CD = " in words
    assert all(name in words for name in of(several).rankings["micro_f1"].ranks)
    with pytest.raises(InputError, match="two methods with a no_such|no_such"):
        plot.ranks(several, metric="no_such", ax=axes)

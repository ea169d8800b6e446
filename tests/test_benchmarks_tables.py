"""What the tables of the benchmarks say of runs: who leads, what counts once, who is marked."""

from __future__ import annotations

import json
from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest

from graphgym_srnc.io import store
from graphgym_srnc.report.frame import collect
from graphgym_srnc.sweep import local, worker
from graphgym_srnc.sweep.jobs import Outcome, attempt

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def harness(benchmark_of):
    return benchmark_of("_harness")


def runs(*scores: float, masked: tuple[str, ...] = (), splits: tuple[str, ...] = ()) -> dict:
    """Results with these Micro-F1s, by seed."""
    return {
        seed: {
            "split": splits[seed] if splits else f"split {seed}",
            "info": {"unseen": list(masked[seed])} if masked else {},
            "test": {"micro_f1": score},
        }
        for seed, score in enumerate(scores)
    }


def test_splits_that_mask_the_same_classes_count_once(harness):
    masked = ("ab", "c", "ab")
    ours, others = runs(0.9, 0.5, 0.7, masked=masked), runs(0.8, 0.6, 0.2, masked=masked)
    assert harness.differences(ours, others, "micro_f1") == pytest.approx([30.0, -10.0])
    same = runs(0.9, 0.5, masked=("a", "a")), runs(0.8, 0.6, masked=("a", "a"))
    assert harness.differences(*same, "micro_f1") == pytest.approx([10.0, -10.0])


def test_runs_of_one_split_are_averaged(harness):
    ours, others = (
        runs(*scores, splits=("s", "s", "t")) for scores in ((0.9, 0.7, 0.5), (0.5, 0.5, 0.6))
    )
    assert harness.differences(ours, others, "micro_f1") == pytest.approx([30.0, -10.0])


def test_the_leader_is_first_and_the_oracle_before_it(harness):
    table = {
        "erm": {"x": runs(0.5), "y": runs(0.6)},
        "iid": {"x": runs(0.9), "y": runs(0.9)},
        "dann": {"x": runs(0.99)},
        "cmd": {"x": runs(0.7), "y": runs(0.5)},
    }
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
    experiment = store.Experiment(
        tmp_path, "toy", {"seed": 0, "optim": {"base_lr": 0.01}, "dataset": {"format": "synthetic"}}
    )
    experiment.begin(0)
    scores = {"micro_f1": 0.99, "loss": 2.0}
    episode = {
        "number": 0,
        "losses": {},
        "train": scores,
        "val": scores,
        "test": scores,
        "seconds": 0.1,
    }
    pattern = experiment.finish(
        0,
        {
            "method": "erm",
            "backbone": "gcnconv",
            "task": "synthetic",
            "split": "s",
            "selected": 0,
            "history": [episode],
            "val": scores,
            "test": scores,
            "lr": 0.01,
            "params": 1,
            "seconds": 1.0,
            "warnings": [],
        },
    )
    records.fill(tmp_path / "many", pattern, 20)
    found = collect([tmp_path / "many"])
    assert len(found.runs) == 20 and not found.remarks()
    assert len(found.runs.drop_duplicates(["split", "seed"])) == 10
    assert {*found.runs["optim.base_lr"]} == {0.001, 0.002}
    one = records.Cost(2.0, 3.0, 100.0)
    taken = {
        (command, number): [one._replace(cpu=number / 100)]
        for command in records.COMMANDS
        for number in (100, 1000)
    }
    assert "| slope |  1.00 |" in records.render(taken, [100, 1000])


def test_a_row_has_its_authors_values_on_their_block_alone(benchmark_of):
    close_set = benchmark_of("close_set")
    own, common = (
        close_set.reported_cell(block, "uaga").changes for block in ("cd-ocnnc", "ca-ocnnc")
    )
    assert own["gnn.dropout"] == 0.4 and "gnn.dropout" not in common
    assert "gnn.dropout" not in close_set.reported_cell("cd-ocnnc", "erm").changes
    for block, row in close_set.OWN_VALUES:
        assert row in close_set.rows_of("ocnnc") and block in close_set.TABLES["ocnnc"]


def test_a_claim_is_judged_by_its_mean(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import reproduction

    claim = reproduction.Claim("X", "p", "micro_f1", "c", {"a": {}, "b": {}}, (70.0, 60.0), "s")
    monkeypatch.setitem(reproduction.CLAIMS, "x", claim)
    for scores, verdict in (((0.69, 0.62), "yes"), ((0.66, 0.60), "**no**"), ((0.8, 0.6), "above")):
        found = dict(zip("ab", map(runs, scores)))
        assert reproduction.line("x", found)[6] == verdict
    assert reproduction.line("x", {"a": runs(0.7)})[3] == "1 of 2"


@pytest.fixture
def tuned(benchmark_of, monkeypatch, tmp_path):
    """The program of tuned tables with a toy table, and a function that runs it in this process."""
    program = benchmark_of("tuned")
    rows = {"erm": ("GCN", "erm", {}), "gnnsafe": ("GNNSafe", "erm", {"erm.score": "gnnsafe"})}
    monkeypatch.setitem(
        program.TABLES,
        "toy",
        program.Plan(
            "Toy",
            rows,
            "testing/{}",
            {"few": {}, "more": {"synthetic.num_unseen": 2}},
            ("few",),
            range(100, 101),
            range(2),
            "target_val",
            "open_set",
        ),
    )

    def run_here(jobs, execute, *_):
        for job in jobs:
            yield Outcome(job, *attempt(partial(execute, job)))

    monkeypatch.setattr(local, "run", run_here)
    monkeypatch.setattr(worker, "_release_memory", lambda: None)

    def begin(*words: str) -> int:
        small = (
            "synthetic.num_nodes",
            "120",
            "synthetic.num_val",
            "30",
            "synthetic.num_test",
            "30",
            "synthetic.labels_per_class",
            "5",
            "erm.steps",
            "2",
            "erm.rounds",
            "1",
        )
        monkeypatch.setattr(
            "sys.argv", ["tuned.py", "--out-dir", str(tmp_path), *words, "--set", *small]
        )
        return program.begin()

    return begin


def test_runs_count_where_splits_are_draws_and_else_means_of_blocks(benchmark_of):
    program = benchmark_of("tuned")
    ours = {"a": runs(0.9, 0.5), "b": runs(0.4, 0.4)}
    others = {"a": runs(0.8, 0.6), "b": runs(0.3, 0.1)}
    drawn, fixed = program.TABLES["localized"], program.TABLES["citation"]
    assert program.gaps(drawn, ours, others) == pytest.approx([10.0, -10.0, 10.0, 30.0])
    assert program.gaps(fixed, ours, others) == pytest.approx([0.0, 20.0])


def test_all_masked_sets_are_run_but_those_that_the_file_of_scores_has(
    benchmark_of, monkeypatch, tmp_path
):
    program, file = benchmark_of("open_set"), tmp_path / "runs.csv"
    monkeypatch.setattr(program, "ALL_SETS", {"cora": range(3)})
    monkeypatch.setattr(program, "SET_ROWS", ("srnc-plus", "pgl-gcn"))
    monkeypatch.setattr(program, "REPORTED_SEEDS", range(2))
    args = Namespace(csv=file, only="*", set=[], out_dir=tmp_path, test=None)
    assert [[*cell.seeds] for cell in program.set_cells(args).values()] == [[0, 1, 2]] * 2

    def known_of(*scores: float) -> dict:
        found = runs(*scores, masked=("a", "b", "c"))
        for result in found.values():
            result |= {
                "selected": 0,
                "val": {"micro_f1": 0.5},
                "seconds": 1.0,
                "digest": "d",
                "peak_memory_mib": None,
                "warnings": [],
                "commit": "c",
            }
            result["test"] |= {"macro_recall": 0.5, "unknown_auroc": 0.5, "macro_f1": 0.5}
        return {"cora": found}

    table = {"srnc-plus": known_of(0.9, 0.8, 0.7), "pgl-gcn": known_of(0.8, 0.6)}
    program.save_csv(file, "open_set", table)
    cells = program.set_cells(args)
    assert {key: [*cell.seeds] for key, cell in cells.items()} == {("cora", "pgl-gcn"): [2]}
    assert "PGL" not in program.sets_table(args), "a set is missing"

    program.save_csv(file, "open_set", {"pgl-gcn": known_of(0.8, 0.6, 0.6)})
    text = program.sets_table(args)
    assert not program.set_cells(args)
    assert "| SRNC+ | 3 | 80.0 ± 8.2 |" in text and "| 3 | +13.3 | 3/3 | 0.25 | 0.25 |" in text
    rows, _ = program.graph_results("cora", args)
    assert {len(results) for results in rows.values()} == {2}, "the large table has its ten splits"


def test_every_row_is_tuned_and_run_on_other_seeds(tuned, tmp_path, capsys):
    page = tmp_path / "page.md"
    words = ("toy", "--trials", "2", "--out", str(page), "--csv", str(tmp_path / "runs.csv"))
    assert tuned(*words) == 0
    capsys.readouterr()

    text = page.read_text()
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith(("| GCN", "| GNNSafe"))
    ]
    scores, chosen = lines[:2], lines[2:]
    assert {line[0] for line in scores} == {"GCN", "GNNSafe"} == {line[0] for line in chosen}
    assert float(scores[0][2]) >= float(scores[1][2])
    assert float(scores[0][6]) == -float(scores[1][6])
    assert [(line[1], line[10]) for line in scores] == [("2", "2")] * 2
    for row in ("erm", "gnnsafe"):
        record = json.loads((tmp_path / f"tune/toy-{row}/tuned.json").read_text())
        assert record["study"]["seeds"] == [100, 100]
    assert not list(tmp_path.glob("tune/toy-gnnsafe/trials/*/*/error.txt"))
    files = {file: file.stat().st_mtime_ns for file in tmp_path.glob("**/result.json")}
    assert {file.parent.name for file in files} == {"0", "1", "100"}
    assert len((tmp_path / "runs.csv").read_text().splitlines()) == 1 + 2 * 2 * 2

    assert tuned(*words) == 0 and page.read_text() == text
    assert tuned(*words, "--only", "erm") == 0 and page.read_text() == text
    (tmp_path / "tune/toy-gnnsafe").rename(tmp_path / "elsewhere")
    assert tuned(*words, "--no-run") == 0
    kept = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.read_text().splitlines()
        if line.startswith(("| GCN", "| GNNSafe"))
    ]
    # All but seconds are the same: rows whose study is gone are in the files.
    assert [line[:11] for line in kept] == [line[:11] for line in lines]
    (tmp_path / "elsewhere").rename(tmp_path / "tune/toy-gnnsafe")
    assert files == {file: file.stat().st_mtime_ns for file in tmp_path.glob("**/result.json")}


def test_tables_that_are_not_tuned_yet_are_told(tuned, tmp_path, capsys):
    assert tuned("toy", "--no-run") == 0 and capsys.readouterr().out == "no results yet\n"
    with pytest.raises(SystemExit):
        tuned("nonsense")
    assert "no table nonsense" in capsys.readouterr().err
    assert not (tmp_path / "tune").exists()


def test_every_program_of_the_page_of_performance_has_a_place_there(benchmark_of):
    pages = benchmark_of("_pages")
    page = FOLDER.parent / "docs" / "research" / "performance.md"
    for words in benchmark_of("performance").PARTS.values():
        program, _, rest = words.partition(" ")
        command = rest.split()[:1] if rest and not rest.startswith("-") else []
        assert (FOLDER / program).exists()
        pages.check(page, " ".join([program, *command]))
        assert "--out" in (FOLDER / program).read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="no lines"):
        pages.check(page, "none.py")


def test_the_summary_of_performance_has_the_measured_rows(benchmark_of, tmp_path):
    page, copy = FOLDER.parent / "docs" / "performance.md", tmp_path / "page.md"
    copy.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    benchmark_of("performance").summarise(copy)
    assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")

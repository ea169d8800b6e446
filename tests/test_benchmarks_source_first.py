"""The benchmark of other methods that find an unseen class on the source first."""

from __future__ import annotations

import json

import pytest
import torch
from test_srnc_plus import unnamed


@pytest.fixture
def program(benchmark_of):
    return benchmark_of("source_first")


def test_the_source_is_one_graph_and_its_decisions_are_labels_of_one_more_class(program):
    task = unnamed(300)
    source = program.alone(task)
    assert source.source is source.target is source.validation is task.source
    nodes = torch.cat([source.train, source.val, source.test])
    assert nodes.sort().values.equal(torch.arange(300)) and source.open_set
    assert torch.isin(source.val, source.pool).all() and source.val.equal(task.val)

    decided = torch.arange(len(source.test)) % 4
    taught = program.with_decisions(task, source.test, decided)
    assert (taught.num_known, taught.open_set) == (4, False)
    assert taught.target is task.target and taught.validation is taught.source
    assert taught.source.y[source.test].equal(decided)
    assert taught.source.y[task.train].equal(task.source.y[task.train])
    assert not torch.isin(taught.train, task.val).any()
    assert len(taught.train) == 300 - len(task.val)


def test_differences_are_those_of_the_same_splits(program, tmp_path, monkeypatch):
    cells = [("ca-unseen", 0), ("ca-unseen", 1), ("dc-unseen", 0)]
    head = (
        "table,block,row,seed,split,masked,episode,micro_f1,macro_recall,val_micro_f1,seconds,"
        "warnings,config,commit"
    )
    lines = [
        f"both,{block},{row},{seed},s{seed},{seed},1,{score},{score},0.5,1,0,c,c"
        for block, seed in cells
        for row, score in (("srnc-plus", 0.8 + seed / 100), ("srnc-plus-source", 0.75))
    ]
    csv, file = tmp_path / "scores.csv", tmp_path / "runs.jsonl"
    csv.write_text("\n".join([head, *lines, ""]))
    runs = [
        {
            "block": block,
            "row": row,
            "seed": seed,
            "on_source": 0.9,
            "micro_f1": score,
            "macro_recall": 0.5,
        }
        for block, seed in cells
        for row, score in (("GCN", 0.7), ("PGL+GCN", 0.805 - seed / 50))
    ]
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    page = tmp_path / "page.md"
    monkeypatch.setattr(program.close_set, "TABLES", {"both": {}})
    monkeypatch.setattr(
        "sys.argv",
        ["source_first.py", "--results", str(file), "--csv", str(csv), "--out", str(page)],
    )
    assert program.begin() == 0
    found = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.read_text().splitlines()
        if line.startswith("| ")
    ]
    rows = {row[0]: row[1:] for row in found[2:]}
    assert [*rows][0] == "SRNC+, with iterations on the target"
    assert rows["GCN"][:7] == ["3", "90.0", "70.0", "50.0", "+10.3", "3/3", "0.25"]
    assert rows["PGL+GCN"][4:6] == ["+0.5", "1/3"]
    assert rows["SRNC+, first iteration only"][:5] == ["3", "-", "75.0", "75.0", "+5.3"]

"""The summary of an experiment, and the description of a task on a terminal."""

from __future__ import annotations

import csv
import sys

import pytest
from stored import keep

from graphgym_srnc.io import records
from graphgym_srnc.report import compare, frame, render, summary, tables


def test_scores_without_an_unknown_test_node_say_so(tmp_path):
    known = {"test": {"micro_f1": 1.0, "known_accuracy": 1.0}}
    known["verdict"] = {"figures": {"test_unknown_share": 0.1012}}
    home = keep(tmp_path, "mine", [1.0], task="file/mine", record=known)
    row = summary.summarise("mine", records.read_results(home))
    _, note, share = summary.notes([row, row | {"name": "too"}])
    assert note.startswith("mine and too: no test node")
    assert "10.1 % of the labelled test nodes" in share
    control = keep(tmp_path, "pgl", [0.9], "pgl", task="file/mine", record=known)
    compared = compare.table(frame.collect([home, control]).runs)
    (first,), notes = tables.findings(compared), tables.remarks(compared)  # and no best row
    assert not compared.cells["best"].any() and first.endswith("No row is marked as the best.")
    assert first in notes and "known classes only" in first and "file.num_unseen 1" in first
    assert "known classes only" in note and "file.open_set False" in note
    assert "known classes only" not in summary.to_csv([row])
    closed = keep(tmp_path, "closed", [1.0], task="file/mine")
    assert len(summary.notes([summary.summarise("closed", records.read_results(closed))])) == 1


def test_tables_are_written_and_shown(tmp_path, capsys):
    told = {"warnings": ["fell to 1"], "verdict": {"sentences": {"balance": "Bad."}}}
    settings = {"backbone": "sageconv", "record": told | {"hidden_classes": ["a", "b"]}}
    home = keep(tmp_path, "one", [0.5, 0.7], "srnc_plus", **settings)
    records.write_record(home / "1", records.read_results(home)[1] | {"warnings": ["fell to 2"]})
    rows = [summary.summarise("one|two", records.read_results(home))]
    summary.write(tmp_path, rows)
    (read,) = csv.DictReader((tmp_path / "summary.csv").open())
    assert (read["runs"], read["warned"]) == ("2", "2")
    assert [float(read[key]) for key in ("micro_f1", "micro_f1_std")] == pytest.approx([0.6, 0.1])
    markdown = (tmp_path / "summary.md").read_text()
    assert "one\\|two" in markdown and "60.0 ± 10.0" in markdown and "population" in markdown
    found = frame.collect([home])
    for text in ("for example: fell to 1", "Bad."):  # counted alike everywhere
        assert f"warning in 2 of 2 runs: {text}" in markdown
        told = f"Warning in 2 of 2 runs (SRNC+ with SAGE: 2): {text}"
        assert told in tables.remarks(compare.table(found.runs))
        assert text in [row[1].text for row in summary.warnings(found.experiments).rows]
    assert frame.results(home)["warnings"].tolist() == [2, 2]
    assert summary.hidden_classes(found.experiments).rows[0][1].text == "a, b"
    render.show([summary.grid(rows)], summary.notes(rows), sys.stdout)
    assert "one|two     SRNC+ with SAGE  2     60.0 ± 10.0" in capsys.readouterr().out

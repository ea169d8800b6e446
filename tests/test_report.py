"""Tables are right."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest
from conftest import make_task

from graphgym_srnc.data.describe import describe
from graphgym_srnc.io import store
from graphgym_srnc.report import shift, table


def result(
    split: str, score: float, method: str = "srnc", backbone: str = "gcnconv", **other
) -> dict:
    scores = {
        "micro_f1": score,
        "macro_f1": 0.5,
        "macro_recall": 0.5,
        "unknown_recall": 0.25,
        "unknown_precision": 0.5,
    }
    history = [
        {
            "number": 0,
            "losses": {},
            "train": {"micro_f1": 1.0},
            "val": scores,
            "test": scores,
            "seconds": 0.1,
        }
    ]
    return {
        "method": method,
        "backbone": backbone,
        "split": split,
        "warnings": [],
        "selected": 0,
        "lr": 0.01,
        "params": 1,
        "history": history,
        "val": scores,
        "test": scores,
    } | other


def keep(root, name: str, scores: dict[int, float], **other) -> dict[int, dict]:
    experiment = store.Experiment(root, name, {"name": name})
    for seed, score in scores.items():
        experiment.begin(seed)
        experiment.finish(seed, result(f"split {seed}", score, **other))
    return experiment.results()


def test_summary_and_the_distance_to_the_oracle(tmp_path):
    results = keep(tmp_path, "ours", {0: 0.7, 1: 0.8, 2: 0.6})
    row = table.summarise("ours", results, tmp_path)
    assert row["runs"] == 3 and row["micro_f1"] == pytest.approx(0.7)
    assert row["micro_f1_std"] == pytest.approx(np.std([0.7, 0.8, 0.6]))
    assert "drop" not in row
    keep(
        tmp_path, "another backbone", {0: 0.99, 1: 0.99, 2: 0.99}, method="iid", backbone="gatconv"
    )
    oracle = keep(tmp_path, "oracle", {1: 0.9, 2: 0.8, 7: 0.1}, method="iid")
    row = table.summarise("ours", results, tmp_path)
    assert (row["oracle"], row["drop_pairs"]) == ("oracle", 2)
    assert row["drop"] == pytest.approx(0.15) and row["drop_std"] == pytest.approx(0.05)
    assert "drop" not in table.summarise("oracle", oracle, tmp_path)


def test_scores_without_an_unknown_test_node_say_so():
    known = {"micro_f1": 1.0, "known_accuracy": 1.0}
    own = {"dataset": {"format": "file"}}
    row = table.summarise("mine", {0: result("a", 1.0) | {"test": known, "config": own}})
    (note,) = [note for note in table.notes([row]) if note.startswith("mine")]
    assert "known classes only" in note and "file.open_set False" in note
    assert "untested" not in table.to_csv([row])
    closed = {0: result("a", 1.0) | {"test": {"micro_f1": 1.0}, "config": own}}
    assert len(table.notes([table.summarise("mine", closed)])) == 1
    assert len(table.notes([table.summarise("mine", {0: result("a", 0.5)})])) == 1


def test_tables_are_written_and_shown(tmp_path):
    warned = {0: result("a", 0.5, warnings=["collapsed"]), 1: result("b", 0.7)}
    rows = [table.summarise("one|two", warned)]
    table.write(tmp_path, rows)
    read = list(csv.DictReader((tmp_path / "summary.csv").open()))
    assert float(read[0]["micro_f1"]) == pytest.approx(0.6)
    assert float(read[0]["micro_f1_std"]) == pytest.approx(0.1)
    markdown = (tmp_path / "summary.md").read_text()
    assert "one\\|two" in markdown and "60.0 ± 10.0" in markdown and "population" in markdown
    assert "1 of 2 runs gave a warning" in markdown
    plain = io.StringIO()
    table.show(rows, plain)
    assert "60.0 ± 10.0" in plain.getvalue() and "\x1b" not in plain.getvalue()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    table.show(rows, shown)
    assert "one|two" in shown.getvalue().replace("\n", "")


def test_a_shift_on_a_terminal_has_the_same_words_as_in_a_file():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    summary = describe(make_task()) | {"warnings": ["one [bold] warning"]}
    plain, terminal = io.StringIO(), Terminal()
    shift.show(summary, plain)
    shift.show(summary, terminal)
    words = set(re.sub(r"\x1b\[[0-9;]*m|[^\w\s.%\[\]!]", " ", terminal.getvalue()).split())
    assert {"!", "[bold]", "warning"} <= words
    assert set(re.findall(r"[\w.%]+", plain.getvalue())) <= set(
        re.findall(r"[\w.%]+", " ".join(words))
    )


def test_numbers_of_numpy_are_stored_as_numbers(tmp_path):
    experiment = store.Experiment(tmp_path, "ours", {"name": "ours"})
    experiment.begin(0)
    experiment.finish(0, result("a", 0.5, info={"of numpy": np.float32(0.5), "path": tmp_path}))
    assert experiment.results()[0]["info"] == {"of numpy": 0.5, "path": str(tmp_path)}

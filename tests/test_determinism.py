"""The same command gives the same bits, whatever else is run, drawn or written beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import ended

TINY = (
    "synthetic.num_nodes 90 synthetic.num_val 20 synthetic.num_test 30 synthetic.num_classes 3 "
    "synthetic.labels_per_class 5 synthetic.num_unseen 1 gnn.dim_inner 8 train.max_episodes 2"
).split()
NUMBERS = ("val", "test", "selected", "fingerprint", "split", "digest", "history")


def run(out: Path, *words: str) -> dict[str, dict]:
    """The numbers of each seed after a command in a process of its own."""
    command = [sys.executable, "-m", "graphgym_srnc", "run", "--name", "default"]
    command += ["--out-dir", str(out), *words, *TINY]
    done = ended(command)
    assert done.returncode == 0, done.stderr
    numbers = {}
    for file in sorted((out / "default").glob("*/result.json")):
        record = json.loads(file.read_text())
        for episode in record["history"]:
            del episode["seconds"]
        numbers[file.parent.name] = {key: record[key] for key in NUMBERS}
    return numbers


@pytest.mark.slow
def test_same_command_same_bits(tmp_path):
    words = "train.mode srnc srnc.pretrain_steps 10 srnc.steps 5 num_threads 1".split()
    first = run(tmp_path / "a", "--repeat", "2", *words)
    # Alone, with figures and without events, the second seed is still the same run.
    drawn = ("--figures", "--no-tensorboard", "seed", "1")
    second = run(tmp_path / "b", *drawn, *words)
    assert list(first) == ["0", "1"] and second["1"] == first["1"]
    assert first["0"]["history"] != first["1"]["history"]
    assert first["0"]["split"] != first["1"]["split"]

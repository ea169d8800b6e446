"""No changed bit of what is stored goes unseen, and ``check`` finds what is wrong in a folder."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import make_task
from stored import finish_run, new_experiment, run_record

from graphgym_srnc import ERM
from graphgym_srnc.cli.main import main
from graphgym_srnc.data import folder
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import checksums, records
from graphgym_srnc.train import model

FLIPS = 100


def a_record(place: Path) -> tuple[Path, Callable[[], Any]]:
    finish_run(new_experiment(place), 0, [0.5, 0.7])
    path = place / "toy" / "0"
    return path / "result.json", lambda: records.read_result(path)


def a_model(place: Path) -> tuple[Path, Callable[[], Any]]:
    path = place / "model.pt"
    ERM(hidden=8, steps=1, rounds=0).fit(make_task()).save(path)

    def read() -> Any:
        try:
            found = model.load(path)
        except InputError:
            return None
        state = {name: value.tolist() for name, value in found.method.state_dict().items()}
        return state, found.options, found.classes, found.facts

    return path, read


@pytest.mark.parametrize("make", [a_record, a_model])
def test_a_changed_bit_is_refused_or_changes_nothing(tmp_path, make):
    path, read = make(tmp_path)
    whole = path.read_bytes()
    before = read()
    assert before is not None
    draw = random.Random(0)
    places = [*range(8), *(draw.randrange(len(whole)) for _ in range(FLIPS))]
    for place in places:
        content = bytearray(whole)
        content[place] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        assert read() is None, place
    for end in range(0, len(whole), len(whole) // 50):
        path.write_bytes(whole[:end])
        assert read() is None
    path.write_bytes(whole + b" ")
    assert read() is None
    path.write_bytes(whole)
    assert read() == before


def test_paths_of_a_list_stay_in_its_folder(tmp_path):
    for name in ("/etc/passwd", "../a", "a/../../b", "a/..", ""):
        (tmp_path / checksums.FILE).write_text(f"{'0' * 64}  {name}\n")
        assert list(checksums.verify(tmp_path)) == [(checksums.FILE, "is damaged")], name


def lines(capsys: pytest.CaptureFixture, place: Path, status: int) -> list[str]:
    assert main(["check", str(place)]) == status
    captured = capsys.readouterr()
    assert not captured.err
    return captured.out.replace(str(place), "").splitlines()


@pytest.fixture
def two_experiments(tmp_path: Path) -> Path:
    """Two experiments of three runs."""
    for name in ("a", "b"):
        exp = new_experiment(tmp_path, name)
        for seed in (0, 1, 2):
            picture = exp.begin(seed) / "figures" / "a.png"
            picture.parent.mkdir()
            picture.write_bytes(b"a picture")
            exp.finish(seed, run_record([0.5, 0.7] + [0.6] * seed))
        exp.aggregate()
    return tmp_path


def test_a_folder_as_it_was_written(two_experiments, capsys):
    graph = np.array([[0, 1], [1, 2]]), sp.eye(3, format="csr"), ["a", "b", "c"], ["p", "q", "r"]
    folder.write(folder.Graph(*graph), two_experiments / "graph", False)
    assert lines(capsys, two_experiments, 0) == [
        "2 experiments, 6 runs, 1 graph folder: 0 damaged, 0 failed, 0 unfinished"
    ]
    assert lines(capsys, two_experiments / "a", 0)[-1].startswith("1 experiment, 3 runs: 0 damaged")
    flip(two_experiments / "graph" / "edges.csv", 9)
    assert lines(capsys, two_experiments / "graph", 1)[0].startswith("damaged: /edges.csv ")


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name, change, kind",
    [
        ("a/0/result.json", lambda path: flip(path, 400), "damaged"),
        ("a/1/result.json", lambda path: (path.parent / "SHA256SUMS").unlink(), "damaged"),
        ("a/0/run.json", lambda path: path.write_text("{}"), "damaged"),
        ("a/0/figures/a.png", lambda path: flip(path, 1), "damaged"),
        ("a/1/figures/a.png", Path.unlink, "damaged"),
        ("b/config.yaml", lambda path: flip(path, 0), "damaged"),
        ("a/0/checkpoint.safetensors", lambda path: path.write_text("nothing"), "damaged"),
    ],
)
def test_what_is_wrong_is_told_by_name(two_experiments, capsys, name, change, kind):
    change(two_experiments / name)
    *found, last = lines(capsys, two_experiments, kind == "damaged")
    assert any(line.startswith(f"{kind}: /{name} ") for line in found), found
    assert f" {kind}" in last and f"0 {kind}" not in last


def test_what_a_stopped_process_leaves_is_unfinished(two_experiments, capsys):
    (two_experiments / "a" / "SHA256SUMS").unlink()
    (two_experiments / "b" / "0" / "result.json").unlink()
    (two_experiments / "b" / "SHA256SUMS").unlink()
    shutil.rmtree(two_experiments / "b" / "1")
    (new_experiment(two_experiments, "b").begin(1) / "error.txt").write_text("why")
    *found, last = lines(capsys, two_experiments, 0)
    for text in ("/a has no", "/b/0 has no", "/b has no"):
        assert f"unfinished: {text}" in "".join(found)
    assert "failed: /b/1 has no result, see its error.txt" in found
    assert last.endswith(": 0 damaged, 1 failed, 3 unfinished")


def test_an_edited_config_is_told(gym, tmp_path, capsys):
    (tmp_path / "tuned").mkdir()
    path = tmp_path / "tuned" / "erm.yaml"
    text = "train:\n  mode: erm\n  patience: 5\n"
    path.write_text(text)
    checksums.write(tmp_path, ["tuned/erm.yaml"])
    gym.load_config(path)
    assert not capsys.readouterr().err
    path.write_text(text.replace("patience: 5", "patience: 7"))
    assert gym.load_config(path).train.patience == 7
    assert capsys.readouterr().err == f"note: {path} is no longer as graphgym-srnc wrote it\n"

"""No changed bit of what is stored goes unseen, and ``check`` finds what is wrong in a folder."""

from __future__ import annotations

import io
import json
import random
import shutil
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import make_task
from matplotlib.figure import Figure
from test_store import experiment, record, run
from torch.utils.tensorboard.summary import scalar

from graphgym_srnc import ERM
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import datasets, folder
from graphgym_srnc.gym import checkpoint
from graphgym_srnc.io import seal, store
from graphgym_srnc.plots.events import Events
from graphgym_srnc.plots.style import encode
from graphgym_srnc.report import intact
from graphgym_srnc.train import model

FLIPS = 400


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return type(a) is type(b) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def a_record(place: Path) -> tuple[Path, Callable[[], Any]]:
    run(experiment(place), 0, [0.5, 0.7])
    path = place / "toy" / "0"
    return path / "result.json", lambda: store.read_result(path)


def a_model(place: Path) -> tuple[Path, Callable[[], Any]]:
    path = place / "model.pt"
    ERM(hidden=8, steps=1, rounds=0).fit(make_task()).save(path)

    def read() -> Any:
        try:
            found = model.load(path)
        except InputError:
            return None
        return {
            **found.method.state_dict(),
            "options": found.options,
            "classes": found.classes,
            "facts": found.facts,
            "dense": found.dense,
        }

    return path, read


def a_checkpoint(place: Path) -> tuple[Path, Callable[[], Any]]:
    path, content = place / "checkpoint.pt", io.BytesIO()
    torch.save(
        {
            "key": json.dumps({"format": checkpoint.FORMAT, "seed": 3}),
            "number": 7,
            "weights": torch.rand(40),
            "order": torch.arange(9),
        },
        content,
    )
    seal.seal(content)
    path.write_bytes(content.getvalue())

    def read() -> Any:
        try:
            return checkpoint.unpack(path.read_bytes())[0]
        except Exception:
            return None

    return path, read


def a_parsed_graph(place: Path) -> tuple[Path, Callable[[], Any]]:
    path = place / "parsed.pt"
    datasets._store_parsed(make_task().target, path)

    def read() -> Any:
        data = datasets._load_parsed(path)
        return data and {key: value.clone() for key, value in data.to_dict().items()}

    return path, read


@pytest.mark.parametrize("make", [a_record, a_model, a_checkpoint, a_parsed_graph])
def test_a_changed_bit_is_refused_or_changes_nothing(tmp_path, make):
    path, read = make(tmp_path)
    whole, before = path.read_bytes(), read()
    assert before is not None
    draw, refused = random.Random(0), 0
    # The end of an archive is its directory and its seal.
    places = [draw.randrange(len(whole)) for _ in range(FLIPS)]
    places += [len(whole) - 1 - draw.randrange(min(900, len(whole))) for _ in range(FLIPS)]
    for place in places:
        content = bytearray(whole)
        content[place] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        found = read()
        assert found is None or same(found, before), place
        refused += found is None
    assert refused > FLIPS
    # Without its last byte, a line break, a record is still whole.
    for end in range(0, len(whole) - 1, len(whole) // 50):
        path.write_bytes(whole[:end])
        assert read() is None
    path.write_bytes(whole)
    assert same(read(), before)


def test_older_files_have_no_seal(tmp_path):
    path, read = a_model(tmp_path)
    content = torch.load(path, weights_only=True)
    about = json.loads(content["about"]) | {"format": model.UNSEALED}
    torch.save(content | {"about": json.dumps(about)}, path)
    assert read() is not None
    torch.save(content, path)
    with pytest.raises(InputError, match="checksum is missing"):
        model.load(path)


def lines(capsys: pytest.CaptureFixture, place: Path, status: int) -> list[str]:
    assert main(["check", str(place)]) == status
    captured = capsys.readouterr()
    assert not captured.err
    return captured.out.replace(str(place), "").splitlines()


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Two experiments of three runs."""
    for name in ("a", "b"):
        exp = experiment(tmp_path, name)
        for seed in (0, 1):
            run(exp, seed, [0.5, 0.7] + [0.6] * seed)
        exp.text = json.dumps(exp.config) + "\n"
        exp.begin(2)
        exp.finish(2, record([0.4]))
        exp.aggregate()
    return tmp_path


def test_a_folder_as_it_was_written(whole, capsys):
    assert lines(capsys, whole, 0) == [
        "2 experiments, 6 runs, 0 models: 0 damaged, 0 newer, 0 older, 0 foreign, 0 unfinished"
    ]
    assert lines(capsys, whole / "a", 0)[-1].startswith("1 experiment, 3 runs")


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def write(text: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    "name, change, kind",
    [
        ("a/0/result.json", lambda path: flip(path, 400), "damaged"),
        ("a/0/result.json", write('{"format": 99}'), "newer"),
        ("a/0/result.json", Path.unlink, "unfinished"),
        ("a/0/run.json", write("{}"), "damaged"),
        ("a/1/val/stats.json", lambda path: flip(path, 50), "damaged"),
        ("b/agg/test/best.json", lambda path: flip(path, 40), "damaged"),
        ("b/agg/test/best.json", Path.unlink, "unfinished"),
        (
            "b/config.yaml",
            lambda path: write(path.read_text().replace("erm", "pgl"))(path),
            "damaged",
        ),
        ("b/config.yaml", write("&a [*a]"), "damaged"),
        (
            "b/config.yaml",
            lambda path: write(path.read_text().replace("{", '{"other": 1, ', 1))(path),
            "damaged",
        ),
        ("a/0/model.pt", write("nothing"), "damaged"),
        ("a/0/checkpoint.pt", write("nothing"), "damaged"),
        ("a/.3.new", Path.mkdir, "unfinished"),
        ("a/7", Path.mkdir, "foreign"),
        ("a/8", lambda path: path.symlink_to(path.parent / "0"), "foreign"),
    ],
)
def test_what_is_wrong_is_told_by_name(whole, capsys, name, change, kind):
    change(whole / name)
    *found, last = lines(capsys, whole, kind == "damaged")
    place = name.removesuffix("/result.json") if kind == "unfinished" and "result" in name else name
    assert any(line.startswith(f"{kind}: /{place} ") for line in found), found
    assert f" {kind}" in last and f"0 {kind}" not in last


def test_models(whole, capsys):
    def save(name: str, **facts: str) -> None:
        fitted = ERM(hidden=8, steps=1, rounds=0).fit(make_task())
        fitted.save(whole / name)
        content = torch.load(whole / name, weights_only=True)
        about = json.loads(content["about"])
        about["facts"] = facts
        about["format"] = int(facts.pop("format", about["format"]))
        torch.save(content | {"about": json.dumps(about)}, whole / name)
        with open(whole / name, "r+b") as archive:
            seal.seal(archive)

    digest = store.read_result(whole / "a" / "0")["digest"]
    save("a/0/model.pt", digest=digest, split="s0")
    assert "6 runs, 1 model: 0 damaged" in lines(capsys, whole, 0)[-1]
    save("a/1/model.pt", digest="another", split="s0")
    save("b/0/model.pt", format="99")
    save("b/1/model.pt", format="1")
    kinds = [line.split()[0] for line in lines(capsys, whole, 0)[:-1]]
    assert kinds == ["foreign:", "newer:", "older:"]


def test_nothing_to_look_at(tmp_path, capsys):
    for place in (tmp_path, tmp_path / "nowhere"):
        assert main(["check", str(place)]) == 2
        assert capsys.readouterr().err.startswith(("error: DIR: the folder", "error: DIR: /"))


@pytest.mark.usefixtures("unchanged_globals")
def test_a_run_of_the_command_line_is_whole(tmp_path, capsys):
    words = [
        "--out-dir",
        str(tmp_path),
        "--name",
        "default",
        "train.mode",
        "erm",
        "erm.steps",
        "5",
        "gnn.dim_inner",
        "8",
        "synthetic.num_nodes",
        "300",
        "synthetic.num_val",
        "60",
        "synthetic.num_test",
        "100",
        "train.max_episodes",
        "1",
    ]
    assert main(["run", "--repeat", "2", "--no-figures", *words]) == 0
    capsys.readouterr()
    assert lines(capsys, tmp_path, 0) == [
        "1 experiment, 2 runs, 2 models, 3 event files: 0 damaged, 0 newer, 0 older, 0 foreign, "
        "0 unfinished"
    ]
    shutil.copy(tmp_path / "default" / "0" / "model.pt", tmp_path / "default" / "1")
    assert lines(capsys, tmp_path, 0)[0].startswith("foreign: /default/1/model.pt ")


def a_picture(place: Path) -> Path:
    figure = Figure(figsize=(1, 1))
    figure.add_subplot().plot([0, 1])
    path = place / "a.png"
    path.write_bytes(encode(figure))
    return path


def an_event_file(place: Path) -> Path:
    events = Events(place)
    for step in range(20):
        events.add(scalar("val/micro_f1", step / 20), step)
    events.flush()
    return events.path


@pytest.mark.parametrize(
    "make, look", [(a_picture, intact.picture), (an_event_file, intact.events)]
)
def test_every_changed_bit_of_what_is_only_looked_at_is_seen(tmp_path, make, look):
    content = make(tmp_path).read_bytes()
    assert look(content) == ""
    draw = random.Random(0)
    for place in draw.sample(range(len(content)), 300):
        changed = bytearray(content)
        changed[place] ^= 1 << draw.randrange(8)
        assert look(bytes(changed)), place
    assert look(content[:-1]) == intact.TORN and look(content + b"x")


def test_pictures_event_files_and_graph_folders_are_looked_over(whole, tmp_path, capsys):
    a_picture(whole / "a" / "0")
    event_file = an_event_file(whole / "b" / "1")
    folder.write(
        folder.Graph(
            np.array([[0, 1], [1, 2]]), sp.eye(3, format="csr"), ["a", "b", "c"], ["n0", "n1", "n2"]
        ),
        whole / "graph",
        False,
    )
    assert lines(capsys, whole, 0)[-1].startswith(
        "2 experiments, 6 runs, 0 models, 1 event file, 1 picture, 1 graph folder: 0 damaged"
    )
    flip(whole / "a" / "0" / "a.png", 60)
    flip(event_file, 60)
    flip(whole / "graph" / "edges.csv", 9)
    found = lines(capsys, whole, 1)
    for name in ("a/0/a.png", f"b/1/{event_file.name}", "graph/edges.csv"):
        assert any(line.startswith(f"damaged: /{name} ") for line in found), found
    assert lines(capsys, whole / "graph", 1)[0].startswith("damaged: /edges.csv ")


def test_what_a_killed_run_leaves_of_its_events_is_no_damage(whole, capsys):
    path = an_event_file(whole / "b" / "1")
    path.write_bytes(path.read_bytes()[:-3])
    assert lines(capsys, whole, 1)[0].startswith("damaged: ")
    (whole / "b" / "1" / "result.json").unlink()
    assert f"unfinished: /b/1/{path.name} {intact.TORN}" in lines(capsys, whole, 0)


def test_an_edited_config_is_told(gym, whole, tmp_path, capsys):
    text = seal.signed("train:\n  mode: erm\n  patience: 5\n")
    path = tmp_path / "own.yaml"
    path.write_text(text)
    gym.load_config(path)
    assert not capsys.readouterr().err
    path.write_text(text.replace("patience: 5", "patience: 7"))
    assert gym.load_config(path).train.patience == 7
    assert capsys.readouterr().err == f"note: {path} is no longer as graphgym-srnc wrote it\n"
    config = whole / "a" / "config.yaml"
    assert seal.SIGNATURE in config.read_text()

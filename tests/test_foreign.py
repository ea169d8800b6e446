"""Files and words of strangers with the right checksum: their values are checked before use."""

from __future__ import annotations

import copy
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from conftest import NO_PICTURES, make_graph, make_task, refusal
from torch_geometric.data import Data

from graphgym_srnc import ERM, PGL, InputError, from_frames, load
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.task import MOST_CLASSES
from graphgym_srnc.data import limits
from graphgym_srnc.io import atomic, checksums, records, tensors

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

Model = tuple[dict[str, Any], dict[str, torch.Tensor]]


@pytest.fixture(scope="module")
def model_values(tmp_path_factory) -> Model:
    """The values and the tensors of a model file."""
    path = tmp_path_factory.mktemp("model") / "model.pt"
    ERM(hidden=4, steps=2, rounds=0, correction="mean").fit(make_task()).save(path)
    return tensors.read(path)


def changed(saved: Model, path: Path, about: dict[str, Any], **state: torch.Tensor) -> Path:
    """A model file in which blocks have other entries, and its checksum is right."""
    values = copy.deepcopy(saved[0])
    for block, entries in about.items():
        values[block] = values[block] | entries if isinstance(entries, dict) else entries
    tensors.write(path, values, saved[1] | state)
    return path


@pytest.mark.parametrize(
    "about",
    [
        {"options": {"smoothing": [1]}},
        {"options": {"smoothing": 10**12}},
        {"options": {"smoothing": 1.5}},
        {"options": {"correction_power": "1"}},
        {"options": {"confidence": 5}},
        {"options": {"unheard": 1}},
        {"options": {"steps": 0}},
        {"encoder": {"features": "l3"}},
        {"encoder": {"act": "gelu"}},
        {"sizes": {"num_known": "3"}},
        {"classes": "abcd"},
        {"facts": []},
        {"format": 9},
        {"encoder": {"layers": 10**9}},
        {"encoder": {"layers": "2"}},
        {"encoder": {"hidden": 10**12}},
        {"sizes": {"num_known": 10**12}},
        {"sizes": {"num_features": -1}},
        {"classes": ["\ud800", "b", "c"]},
        {"classes": [1.5, "b", "c"]},
        {"classes": [["a"], "b", "c"]},
        {"facts": {"feature_names": ["\udfff"] * 12}},
        {"facts": {"feature_names": 7}},
        {"facts": {"recipes": 7}},
        {"facts": {"record": [1]}},
        {"facts": {"record": {"warnings": 7}}},
        {"facts": {"record": {"verdict": {"sentences": [1]}}}},
    ],
    ids=str,
)
def test_a_model_file_with_impossible_values_is_refused(model_values, tmp_path, about):
    path = changed(model_values, tmp_path / "model.pt", about)
    begin = time.monotonic()
    with pytest.raises(InputError, match="cannot be read as a trained model"):
        load(path)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("change", ["double", "short", "absent"])
def test_a_model_file_with_other_weights_is_refused(model_values, tmp_path, change):
    name = "classifier.layers.0.weight"
    about, state = model_values
    weight = state[name]
    changed = {"double": weight.double(), "short": weight[:1]}.get(change)
    state = {key: value for key, value in state.items() if key != name}
    if changed is not None:
        state[name] = changed
    tensors.write(tmp_path / "model.pt", about, state)
    with pytest.raises(InputError, match=f"{name} is not torch.float32"):
        load(tmp_path / "model.pt")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_file_with_weights_that_are_no_numbers_is_refused(model_values, tmp_path, value):
    name = next(name for name in model_values[1] if name.startswith("classifier"))
    weight = model_values[1][name].clone()
    weight.view(-1)[-1] = value
    path = changed(model_values, tmp_path / "model.pt", {}, **{name: weight})
    with pytest.raises(InputError, match=f"{name} contains {value}"):
        load(path)
    mean = model_values[1]["scaling.target.mean"]
    for wrong in (torch.full_like(mean, float("nan")), mean[:-1].clone()):
        path = changed(model_values, tmp_path / "model.pt", {}, **{"scaling.target.mean": wrong})
        with pytest.raises(InputError, match="mean"):
            load(path)


def test_a_threshold_may_be_infinite(model_values, tmp_path):
    path = changed(model_values, tmp_path / "model.pt", {}, threshold=torch.tensor(float("inf")))
    assert (load(path).predict(make_graph()) == -1).all()


def test_a_model_file_alone_names_no_folder_of_data(model_values, tmp_path, capsys):
    record = {"config": {"dataset": {"format": "file", "dir": 5}, "file": {"path": "x"}}}
    path = changed(model_values, tmp_path / "model.pt", {"facts": {"record": record}})
    graph = tmp_path / "graph.npz"
    np.savez(graph, **make_graph().to_dict())
    assert main(["predict", str(path), "--graph", str(graph), "--out", f"{tmp_path}/p.csv"]) == 0


def test_the_most_parts_of_a_network():
    with pytest.raises(InputError, match="members: got 1001"):
        PGL(members=1001).fit(make_task())


# ---- stored results ----


@pytest.fixture(scope="module")
def experiment_folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("out")
    words = ["run", "--cfg", "testing/erm", "--name", "e", "--repeat", "2", "--out-dir", str(out)]
    assert main([*words, *NO_PICTURES, "erm.steps", "2"]) == 0
    return out / "e"


def forge(run: Path, change: Any) -> None:
    """Change the record of a run, and its checksum accordingly."""
    record = json.loads((run / "result.json").read_text())
    change(record)
    text = json.dumps(record)
    (run / "result.json").write_text(text)
    sums = checksums.read(run) | {"result.json": checksums.of(text.encode())}
    lines = "".join(f"{value}  {name}\n" for name, value in sums.items())
    (run / checksums.FILE).write_text(lines)


BEYOND = [
    lambda record: record["test"].update(micro_f1=1e308),
    lambda record: record["test"].update(macro_recall=1.5),
    lambda record: record["val"].update(unknown_auroc=-0.1),
    lambda record: record["history"][0]["test"].update(micro_f1=float("nan")),
    lambda record: record["test"].update(own_metric=1e200),
    lambda record: record["history"][0]["losses"].update(source=-1e308),
    lambda record: record.update(warnings=["w"] * 100_000),
    lambda record: record.update(warnings="w"),
]


def test_a_record_beyond_its_range_is_refused(experiment_folder, tmp_path, capsys):
    for k, change in enumerate(BEYOND):
        run = shutil.copytree(experiment_folder / "1", tmp_path / str(k) / "1")
        forge(run, change)
        assert records.read_result(run) is None, k
    folder = shutil.copytree(experiment_folder, tmp_path / "one")
    forge(folder / "1", BEYOND[0])
    assert main(["compare", str(folder)]) == 0
    assert "is not what this program writes" in capsys.readouterr().err
    within = shutil.copytree(experiment_folder / "1", tmp_path / "within" / "1")
    forge(within, lambda record: record["test"].update(own_metric=-1e100))
    assert records.read_result(within) is not None


# ---- words of a command and tables ----


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gnn.dim_inner", "9" * 20], "gnn.dim_inner: got 9"),
        (["synthetic.num_nodes", "1" + "0" * 12], "synthetic.num_nodes: got 1"),
        (["dataset.name", "\udcff"], "no text in UTF-8"),
    ],
)
def test_absurd_words_are_refused(tmp_path, capsys, words, told):
    command = ["run", "--cfg", "testing/erm", "--out-dir", str(tmp_path / "out"), *words]
    assert told in refusal(main(command), capsys)
    assert not (tmp_path / "out").exists()


def test_too_little_memory_is_a_sentence(tmp_path, capsys, monkeypatch):
    from graphgym_srnc.cli import run

    torch_says = "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"
    for error in (MemoryError("Unable to allocate 7 TiB"), RuntimeError(torch_says)):

        def fail(args: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(run, "main", fail)
        assert main(["run", "--cfg", "testing/erm", "--out-dir", str(tmp_path)]) == 1
        assert "error: the memory of this machine does not suffice" in capsys.readouterr().err


def test_names_of_classes_do_not_steer_the_terminal(tmp_path, capsys):
    names = ["a", "b", "\x1b]0;owned\x07\x1b[2J\u202ez"]
    rows = "".join(f"{i},{names[i % 3]},{i}\n" for i in range(30))
    (tmp_path / "n.csv").write_text(f"id,label,x\n{rows}", encoding="utf-8")
    links = "".join(f"{i},{(i + 3) % 30}\n" for i in range(30))
    (tmp_path / "e.csv").write_text(f"a,b\n{links}")
    words = [f"{tmp_path}/n.csv", f"{tmp_path}/e.csv", "--numbers", "x", "--out", f"{tmp_path}/g"]
    assert main(["data", "make", *words]) == 0
    told = capsys.readouterr()
    assert "owned" in told.out
    assert not {"\x1b", "\x07", "\u202e"} & {*told.out, *told.err}


def test_more_columns_and_classes_than_can_be_handled(monkeypatch):
    monkeypatch.setattr(limits, "COLUMNS", 5)
    nodes = pandas.DataFrame({f"c{i}": [float(i), 1.0] for i in range(6)}, index=["a", "b"])
    with pytest.raises(InputError, match="columns, and at most 5 are read"):
        from_frames(nodes, pandas.DataFrame({"from": ["a"], "to": ["b"]}))
    count = MOST_CLASSES + 1
    y = torch.arange(2 * count) % count
    links = torch.stack([torch.arange(count), torch.arange(count) + count])
    mask = torch.ones(2 * count, dtype=torch.bool)
    graph = Data(x=torch.rand(2 * count, 3), edge_index=links, y=y, train_mask=mask)
    with pytest.raises(InputError, match="there are 10,001 classes, and at most 10,000"):
        ERM(steps=1).fit(graph)


# ---- causes that errors name ----


def test_a_loss_that_is_nan_names_the_likely_cause():
    class Entropy(ERM._method):
        def losses(self) -> dict[str, torch.Tensor]:
            p = self.classifier(self.on_source).softmax(1).round()
            return super().losses() | {"entropy": -(p * p.log()).sum()}

    from graphgym_srnc.train import trainer

    with pytest.raises(FloatingPointError, match="entropy is nan. A lower learning rate"):
        trainer.fit(Entropy(steps=1), make_task())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders on this system")
def test_a_pipe_that_takes_the_place_of_a_file_is_refused_at_once(tmp_path):
    """Also one that comes after a check of the path; no reader waits for a writer."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path(os.devnull)):
        with pytest.raises(OSError):
            atomic.content(path)
    link = tmp_path / "link"
    file = tmp_path / "file"
    file.write_bytes(b"0.5")
    link.symlink_to(file)
    assert atomic.content(link) == b"0.5"
    with atomic.opened(file) as opened:
        file.unlink()
        os.mkfifo(file)
        assert opened.read() == b"0.5"

"""Bad data: one error that names the key, the value and what is allowed; nothing is written."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import zipfile
from pathlib import Path
from typing import Any, Iterator, NoReturn

import numpy as np
import pytest
import torch
from conftest import refused
from torch_geometric.data import Data
from written import DATA, Trap, real, unreachable

import graphgym_srnc
from graphgym_srnc import shifts
from graphgym_srnc.data import catalogue, home, untrusted
from graphgym_srnc.data.read import text as read_text
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import records
from graphgym_srnc.io.atomic import regular

open_set, synthetic, own_file = (shifts.find(name) for name in ("open_set", "synthetic", "file"))


def fields(**changes) -> dict[str, torch.Tensor]:
    nodes = torch.arange(12)
    return {
        "x": torch.eye(12),
        "edge_index": torch.stack([nodes, (nodes + 1) % 12]),
        "y": torch.tensor([0, 1, 2] * 4),
    } | changes


def edges(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs).T


EYE, NONE, EVERY = torch.eye(12), torch.empty(2, 0, dtype=torch.long), torch.ones(12).bool()
EMPTY = {"x": torch.empty(0, 3), "y": torch.empty(0), "edge_index": NONE}
BAD_GRAPHS = [
    ({"edge_index": edges((0, 12))}, "edge_index", "0 to 11"),
    ({"edge_index": NONE}, "edge_index", "at least one edge"),
    ({"x": torch.full((12, 12), float("nan"))}, "x", "finite"),
    (EMPTY, "x", "at least one node"),
    ({"y": torch.tensor([0, 1, 3] * 4)}, "y", "without a gap"),
    ({"y": torch.zeros(12, dtype=torch.long)}, "y", "two classes"),
    ({"y": None}, "graph.pt", "has no y"),
    ({"train_mask": EVERY, "y": torch.tensor([0, 1, -1] * 4)}, "train_mask", "labelled nodes"),
]


@pytest.mark.parametrize("number", range(len(BAD_GRAPHS)))
def test_graph(tmp_path, number):
    changes, key, allowed = BAD_GRAPHS[number]
    torch.save(fields(**changes), tmp_path / "graph.pt")
    error = refused(key, own_file, path=str(tmp_path / "graph.pt"), labels_per_class=1)
    assert allowed in str(error)
    assert [path.name for path in tmp_path.iterdir()] == ["graph.pt"]


def test_synthetic_options():
    wrong = {"num_unseen": 6, "unseen": [1, 1], "mode": "other", "avg_degree": 900.0}
    for option, value in wrong.items():
        refused(f"synthetic.{option}", synthetic, **{option: value})


def test_too_few_labels_names_the_class_and_the_way_out(tmp_path):
    torch.save(fields(y=torch.tensor([0, 1] * 5 + [2, 2])), tmp_path / "graph.pt")
    error = refused(
        "file.labels_per_class", own_file, path=str(tmp_path / "graph.pt"), labels_per_class=3
    )
    assert "class 2 has 2 nodes" in str(error) and "unseen" in str(error)
    assert own_file(path=str(tmp_path / "graph.pt"), labels_per_class=3, unseen=[2]).num_known == 2


def test_pickled_code_is_never_run(tmp_path):
    torch.save(Data(**fields(), trap=Trap(tmp_path / "ran")), tmp_path / "graph.pt")
    refused("file.path", own_file, path=str(tmp_path / "graph.pt"))
    trap = np.array([Trap(tmp_path / "ran")], dtype=object)
    np.savez(tmp_path / "graph.npz", **fields() | {"y": trap})
    refused("file.path", own_file, path=str(tmp_path / "graph.npz"))
    np.savez(tmp_path / "graph.npz", **fields(), trap=trap)
    own_file(path=str(tmp_path / "graph.npz"), labels_per_class=2)
    assert not (tmp_path / "ran").exists()


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail what is kept waiting."""

    def late(*_: Any) -> NoReturn:
        raise BaseException("it waits")  # which nobody catches

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_pipes_from_python(tmp_path):
    os.mkfifo(tmp_path / "a")
    os.mkfifo(tmp_path / "words.txt")
    with at_most(20):
        assert records.read_result(tmp_path) is None and list(home.files_below(tmp_path)) == []
        for read in (graphgym_srnc.load, read_text, regular):
            with pytest.raises((InputError, OSError), match="regular file"):
                read(tmp_path / "a")


def packed(path: Path, **headers: tuple[str, bytes]) -> Path:
    """An ``.npz`` of arrays with these shapes in their headers, and this content."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (shape, content) in headers.items():
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
            header += " " * (-(len(header) + 11) % 64) + "\n"
            begin = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
            archive.writestr(f"{name}.npy", begin + header.encode() + content)
    return path


@pytest.mark.parametrize("shape", ["(100000, 100000)", "(-1, 4)", "(3,)"])
def test_a_header_that_promises_more_than_there_is(tmp_path, shape, monkeypatch):
    monkeypatch.setattr(np, "ndarray", None)  # nothing is made of it
    with pytest.raises(ValueError):
        untrusted.arrays(packed(tmp_path / "a.npz", x=(shape, b"1234")), ["x"])
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        (tmp_path / "a.npy").write_bytes(archive.read("x.npy"))
    with pytest.raises(ValueError):
        untrusted.array(tmp_path / "a.npy")
    packed(tmp_path / "b.npz", data=(shape, b"1234"), shape=("(2,)", b"12345678"))
    with pytest.raises(ValueError):
        untrusted.sparse_npz(tmp_path / "b.npz")


def test_a_header_that_promises_less_than_there_is(tmp_path):
    """Of an array that is not read to its end NumPy compares no checksum."""
    packed(tmp_path / "a.npz", x=("(1,)", b"12345678"))
    with pytest.raises(ValueError, match="the file holds something else"):
        untrusted.arrays(tmp_path / "a.npz", ["x"])
    packed(tmp_path / "b.npz", x=("(2,)", b"12345678"))
    assert untrusted.arrays(tmp_path / "b.npz", ["x"])["x"].shape == (2,)


@pytest.mark.parametrize("name, near", [("__name__", ""), ("Coar", "Cora")])
def test_a_name_that_is_no_data_set_is_refused_in_one_line(name, near):
    error = str(refused("name", catalogue.resolve, name))
    assert near in error and (not near or "Did you mean" in error)
    assert catalogue.resolve("WebKB/Cornell") == ("WebKB", "Cornell")


def test_no_network_and_no_data_says_which_files_go_where(tmp_path, monkeypatch):
    monkeypatch.setattr("torch_geometric.datasets.Planetoid.download", unreachable)
    error = refused("name", open_set, name="Cora", root=str(tmp_path / "data"))
    for words in (tmp_path / "data/planetoid/Cora/raw", "ind.cora.allx", "ind.cora.test.index"):
        assert str(words) in str(error)
    assert not list(tmp_path.iterdir())


@real("planetoid/Cora/raw")
def test_a_missing_file_does_not_let_a_download_write_through_links(tmp_path, monkeypatch):
    from torch_geometric.datasets import Planetoid

    raw = tmp_path / "planetoid" / "Cora" / "raw"
    shutil.copytree(DATA / "planetoid" / "Cora" / "raw", raw)
    (raw / "ind.cora.y").chmod(0o644)
    (raw / "ind.cora.y").unlink()
    before = {path: path.read_bytes() for path in raw.iterdir()}

    def download(self):
        for path in self.raw_paths[:3]:
            Path(path).write_bytes(b"half")
        raise OSError("lost")

    monkeypatch.setattr(Planetoid, "download", download)
    refused("name", open_set, name="Cora", root=str(tmp_path))
    assert {path: path.read_bytes() for path in raw.iterdir()} == before

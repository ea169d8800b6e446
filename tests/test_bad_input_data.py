"""Bad data: one error that names the key, the value and what is allowed; nothing is written."""
from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphgym_srnc import shifts
from graphgym_srnc.cli import data as data_command
from graphgym_srnc.data import datasets, pyg
from graphgym_srnc.errors import InputError

open_set, synthetic, own_file = (shifts.find(name) for name in ("open_set", "synthetic", "file"))
DATA = Path(os.environ.get("GRAPHGYM_SRNC_DATA") or Path(__file__).parents[2] / "shared" / "data")
planetoid = pytest.mark.skipif(not (DATA / "planetoid" / "Cora" / "raw").is_dir(),
                               reason=f"no Planetoid files in {DATA}")


def fields(**changes) -> dict[str, torch.Tensor]:
    nodes = torch.arange(12)
    return {"x": torch.eye(12), "edge_index": torch.stack([nodes, (nodes + 1) % 12]),
            "y": torch.tensor([0, 1, 2] * 4)} | changes


def refused(key: str, build, **options) -> InputError:
    with pytest.raises(InputError) as error:
        build(**options)
    assert key in error.value.key and "\n" not in str(error.value)
    return error.value


def edges(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs).T


@pytest.mark.parametrize("changes, key, allowed", [
    ({"edge_index": edges((0, 12))}, "edge_index", "0 .. 11"),
    ({"edge_index": edges((0, -1))}, "edge_index", "0 .. 11"),
    ({"edge_index": edges((0, 1), (1, 2), (2, 3)).T}, "edge_index", "[2, E]"),
    ({"edge_index": torch.eye(2)}, "edge_index", "integer"),
    ({"edge_index": torch.empty(2, 0, dtype=torch.long)}, "edge_index", "at least one edge"),
    ({"edge_index": edges((3, 3))}, "edge_index", "at least one edge"),
    ({"x": torch.eye(12).fill_(float("nan"))}, "x", "finite"),
    ({"x": torch.eye(12).index_fill(0, torch.tensor([4]), float("inf"))}, "x", "finite"),
    ({"x": torch.ones(12)}, "x", "[V, F]"),
    ({"x": torch.empty(0, 3), "y": torch.empty(0),
      "edge_index": torch.empty(2, 0, dtype=torch.long)}, "x", "at least one node"),
    ({"y": torch.tensor([0, 1, 2])}, "y", "[12]"),
    ({"y": torch.tensor([0, 1, -2] * 4)}, "y", "-1 where there is none"),
    ({"y": torch.tensor([0, 1, 3] * 4)}, "y", "without a gap"),
    ({"y": torch.tensor([0, 1, 1.5] * 4)}, "y", "integer labels"),
    ({"y": torch.zeros(12, dtype=torch.long)}, "y", "two classes"),
    ({"y": None}, "graph.pt", "y missing"),
    ({"train_mask": torch.ones(12, 2, dtype=torch.bool)}, "train_mask", "[12]"),
    ({"train_mask": torch.ones(12, dtype=torch.bool), "y": torch.tensor([0, 1, -1] * 4)},
     "train_mask", "labelled nodes"),
])
def test_graph(tmp_path, changes, key, allowed):
    torch.save(fields(**changes), tmp_path / "graph.pt")
    error = refused(key, own_file, path=str(tmp_path / "graph.pt"), labels_per_class=1)
    assert allowed in error.allowed
    assert [path.name for path in tmp_path.iterdir()] == ["graph.pt"]


def test_isolated_nodes_self_loops_duplicates_and_directed_edges_work(tmp_path):
    torch.save(fields(edge_index=edges((0, 1), (0, 1), (2, 2), (4, 3))), tmp_path / "graph.pt")
    task = own_file(path=str(tmp_path / "graph.pt"), labels_per_class=1)
    assert task.source.num_edges == 4
    assert task.info["cleaned"] == {"self_loops": 1, "duplicates": 1, "one_way": 2}


@pytest.mark.parametrize("options, key", [
    ({"num_unseen": 6}, "synthetic.num_unseen"), ({"num_unseen": -1}, "synthetic.num_unseen"),
    ({"unseen": [7]}, "synthetic.unseen"),
    ({"unseen": [1, 1]}, "synthetic.unseen"), ({"unseen": [0, 1, 2, 3, 4, 5]}, "synthetic.unseen"),
    ({"labels_per_class": 500}, "synthetic.labels_per_class"),
    ({"labels_per_class": 0}, "synthetic.labels_per_class"),
    ({"num_val": 0}, "synthetic.num_val"), ({"num_val": -1}, "synthetic.num_val"),
    ({"num_test": 0}, "synthetic.num_test"),
    ({"mode": "other"}, "synthetic.mode"), ({"homophily": 1.5}, "synthetic.homophily"),
    ({"avg_degree": 0.0}, "synthetic.avg_degree"),
    ({"avg_degree": 900.0}, "synthetic.avg_degree"),
    ({"degree_exponent": 1.5}, "synthetic.degree_exponent"),
    ({"class_imbalance": 0.5}, "synthetic.class_imbalance"),
    ({"num_nodes": 10}, "synthetic.num_nodes"),
    ({"blocks_per_class": 0}, "synthetic.blocks_per_class"),
    ({"num_classes": 1}, "synthetic.num_classes"),
    ({"num_features": 0}, "synthetic.num_features"), ({"signal": 2.0}, "synthetic.signal"),
    ({"shift": -0.1}, "synthetic.shift"),
    ({"split_seed": -1}, "split_seed"),
])
def test_synthetic_options(options, key):
    refused(key, synthetic, **options)


def test_too_few_labels_names_the_class_and_the_way_out(tmp_path):
    torch.save(fields(y=torch.tensor([0, 1] * 5 + [2, 2])), tmp_path / "graph.pt")
    error = refused("file.labels_per_class", own_file, path=str(tmp_path / "graph.pt"),
                    labels_per_class=3)
    assert "class 2" in error.allowed and "at most 2" in error.allowed and "unseen" in error.allowed
    assert own_file(path=str(tmp_path / "graph.pt"), labels_per_class=3, unseen=[2]).num_known == 2


def test_files(tmp_path):
    refused("file.path", own_file)
    assert str(tmp_path) in refused("file.path", own_file, path="nowhere.pt",
                                    root=str(tmp_path)).allowed
    (tmp_path / "graph.xlsx").write_text("")
    assert ".npz" in refused("file.path", own_file, path=str(tmp_path / "graph.xlsx")).allowed
    for name in ("broken.pt", "broken.npz"):
        (tmp_path / name).write_bytes(b"nonsense")
        refused("file.path", own_file, path=str(tmp_path / name))
    (tmp_path / "folder").mkdir()
    assert "edges" in refused("file.path", own_file, path=str(tmp_path / "folder")).allowed
    refused("file.split", own_file, path=str(tmp_path / "folder"), split="mine")
    torch.save(fields(), tmp_path / "graph.pt")
    refused("file.split", own_file, path=str(tmp_path / "graph.pt"), split="given")
    refused("file.open_set", own_file, path=str(tmp_path / "graph.pt"), open_set=False,
            num_unseen=1)


def test_tables(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n2,3\n3,0\n")
    (tmp_path / "features.csv").write_text("1,0\n0,1\n1,1\n0,1\n")
    (tmp_path / "labels.csv").write_text("0\n1\n0\n1\n")
    assert own_file(path=str(tmp_path), labels_per_class=1).num_known == 2
    for name, text, key in (("edges.csv", "0,1\n1,x\n", "file.path"),
                            ("edges.csv", "0,1,2\n", "file.path"),
                            ("features.csv", "1,0\n1\n", "file.path"),
                            ("labels.csv", "0\n1\n0\n", "y"),
                            ("labels.csv", "9,0\n", "file.labels"),
                            ("split.csv", "0,other\n", "split.csv")):
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path, folder)
        (folder / name).write_text(text)
        refused(key, own_file, path=str(folder), labels_per_class=1)


class Trap:
    """Runs code when a careless reader loads it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_pickled_code_is_never_run(tmp_path):
    torch.save(Data(**fields(), trap=Trap(tmp_path / "ran")), tmp_path / "graph.pt")
    refused("file.path", own_file, path=str(tmp_path / "graph.pt"))
    np.savez(tmp_path / "graph.npz", **fields(),
             trap=np.array([Trap(tmp_path / "ran")], dtype=object))
    refused("file.path", own_file, path=str(tmp_path / "graph.npz"))
    assert not (tmp_path / "ran").exists()


@planetoid
def test_wrong_checksum_is_told_before_the_pickle_is_read(tmp_path):
    raw = tmp_path / "planetoid" / "Cora" / "raw"
    shutil.copytree(DATA / "planetoid" / "Cora" / "raw", raw)
    (raw / "ind.cora.tx").chmod(0o644)
    (raw / "ind.cora.tx").write_bytes(pickle.dumps(Trap(tmp_path / "ran")))
    error = refused("ind.cora.tx", open_set, name="Cora", root=str(tmp_path))
    assert error.key == str(raw / "ind.cora.tx") and "SHA-256" in error.value
    assert "b9afbaa4a400" in error.allowed
    assert "--trust" in error.allowed and not (tmp_path / "ran").exists()


@pytest.fixture
def offline(monkeypatch):
    from torch_geometric.datasets import Amazon, Planetoid

    def download(self):
        raise OSError("no network")

    for family in (Planetoid, Amazon):
        monkeypatch.setattr(family, "download", download)


@pytest.mark.parametrize("name, files",
                         [("Cora", ("planetoid/Cora/raw", "ind.cora.allx", "ind.cora.test.index")),
                                         ("Photo", ("amazon/Photo/raw",
                                                    "amazon_electronics_photo.npz"))])
def test_no_network_and_no_data_says_which_files_go_where(tmp_path, offline, monkeypatch, name,
                                                          files):
    monkeypatch.setenv("GRAPHGYM_SRNC_CACHE", str(tmp_path / "cache"))
    error = refused("name", open_set, name=name, root=str(tmp_path / "data"))
    assert str(tmp_path / "data") in error.allowed and all(file in error.allowed for file in files)
    assert not list(tmp_path.iterdir())


@planetoid
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


@planetoid
def test_a_download_is_kept_whole(tmp_path, monkeypatch):
    from torch_geometric.datasets import Planetoid
    source = DATA / "planetoid" / "Cora" / "raw"

    def download(self):
        for path in self.raw_paths:
            shutil.copyfile(source / Path(path).name, path)

    monkeypatch.setattr(Planetoid, "download", download)
    task = open_set(name="Cora", root=str(tmp_path / "data"))
    raw = tmp_path / "data" / "planetoid" / "Cora" / "raw"
    assert {path.name: path.read_bytes()
            for path in raw.iterdir()} == {path.name: path.read_bytes()
                                           for path in source.iterdir()}
    assert not (raw.parent / "processed").exists()
    monkeypatch.setattr(Planetoid, "download", lambda self: pytest.fail("downloaded twice"))
    datasets.load.cache_clear()
    assert open_set(name="Cora", root=str(tmp_path / "data")).fingerprint() == task.fingerprint()


@pytest.mark.parametrize("options, key", [
    ({"num_unseen": 6}, "open_set.num_unseen"), ({"unseen": [9]}, "open_set.unseen"),
    ({"split": "mine"}, "open_set.split"),
    ({"labels_per_class": 100}, "open_set.labels_per_class"), ({"num_val": 0}, "open_set.num_val")])
@planetoid
def test_open_set_options(options, key):
    refused(key, open_set, name="Cora", root=str(DATA), **options)


@pytest.mark.parametrize("name", ["Coraa", "Planetoid/Foo", "Nothing/Cora", "", "../x"])
def test_unknown_data_set(name):
    assert "Planetoid/Cora" in refused("name", open_set, name=name).allowed


def test_missing_ogb_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(pyg, "find_spec", lambda name: None)
    assert "graphgym-srnc[ogb]" in refused("name", open_set, name="ogbn-arxiv",
                                           root=str(tmp_path)).allowed


def test_picture_of_unknown_kind():
    refused("--out", data_command.show, cfg=None, overrides=[], out="picture.doc")

"""Data sets are downloaded and parsed once, whoever else is at it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
import torch
import torch_geometric.datasets
from test_shifts_temporal import write_arxiv
from torch_geometric.data import Data, InMemoryDataset

from graphgym_srnc.data import datasets, pyg
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import prepare as gym_prepare
from graphgym_srnc.io import cache


def tell(log: Path, pause: float) -> None:
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(pause)


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.stride() == y.stride() and torch.equal(x, y) for x, y in zip(a, b)
    )


def together(*calls: Callable[[], None]) -> list[int | None]:
    """Run functions in a process each, at the same time; returns how they ended."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system cannot fork")
    processes = [multiprocessing.get_context("fork").Process(target=call) for call in calls]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


# ---- hits are as misses ----


class Harm:
    """Unpickled it would make a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def test_the_environment_chooses(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "here"))
    assert cache.cache_folder() == tmp_path / "here"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(cache.FOLDER, "")
    assert cache.cache_folder() == tmp_path / "graphgym_srnc"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A data set that takes long to download, and the log of its downloads."""
    log = tmp_path / "log"

    class Small(InMemoryDataset):
        def __init__(self, root: str) -> None:
            super().__init__(root)
            self.load(self.processed_paths[0])

        raw_file_names = ("edges.npy", "labels.npy")
        processed_file_names = "data.pt"

        def download(self) -> None:
            order = np.arange(30)
            np.save(Path(self.raw_dir) / "edges.npy", np.stack([order, (order + 1) % 30]))
            tell(log, 0.5)
            np.save(Path(self.raw_dir) / "labels.npy", order % 3)

        def process(self) -> None:
            edges, labels = (torch.from_numpy(np.load(path)) for path in self.raw_paths)
            self.save([Data(x=torch.eye(30), edge_index=edges, y=labels)], self.processed_paths[0])

    monkeypatch.setattr(torch_geometric.datasets, "Small", Small, raising=False)
    monkeypatch.setattr(pyg, "SAFE", {*pyg.SAFE, "Small"})
    monkeypatch.setattr(Small, "__module__", "torch_geometric.datasets")
    datasets.load.cache_clear()
    yield log
    datasets.load.cache_clear()


def graph_of(name: str, root: Path, out: Path) -> None:
    data = datasets.load(name, str(root))
    torch.save([data.x, data.edge_index, data.y], out)


def test_two_processes_download_once(small, tmp_path):
    root = tmp_path / "data"
    calls = [lambda out=out: graph_of("Small", root, tmp_path / out) for out in "ab"]
    assert together(*calls) == [0, 0] and len(small.read_text().split()) == 1
    assert same(*(torch.load(tmp_path / out, weights_only=True) for out in "ab"))
    files = sorted(path.name for path in root.rglob("*") if path.is_file())
    assert files == ["edges.npy", "labels.npy"]
    assert not list(cache.cache_folder().glob("*.lock"))
    graph_of("Small", root, tmp_path / "c")
    assert len(small.read_text().split()) == 1


def test_two_processes_parse_once(tmp_path, monkeypatch):
    root = write_arxiv(tmp_path / "data", np.array([2005] * 20 + [2013] * 10))
    log, read = tmp_path / "log", pyg.read
    monkeypatch.setattr(pyg, "read", lambda *args: tell(log, 0.5) or read(*args))
    datasets.load.cache_clear()
    calls = [lambda out=out: graph_of("ogbn-arxiv", root, tmp_path / out) for out in "ab"]
    assert together(*calls) == [0, 0] and len(log.read_text().split()) == 1
    assert same(*(torch.load(tmp_path / out, weights_only=True) for out in "ab"))
    (parsed,) = cache.cache_folder().iterdir()
    for spoilt in (parsed.read_bytes()[:-50], pickle.dumps(Harm(tmp_path / "harm"), 2)):
        parsed.write_bytes(spoilt)
        datasets.load.cache_clear()
        graph_of("ogbn-arxiv", root, tmp_path / "c")
        assert same(*(torch.load(tmp_path / out, weights_only=True) for out in "ac"))
    assert len(log.read_text().split()) == 3 and not (tmp_path / "harm").exists()
    datasets.load.cache_clear()
    graph_of("ogbn-arxiv", root, tmp_path / "d")
    assert len(log.read_text().split()) == 3
    assert same(*(torch.load(tmp_path / out, weights_only=True) for out in "ad"))


def test_each_data_set_is_prepared_once(gym, small, tmp_path, monkeypatch):
    words = "dataset.format open_set dataset.name Small open_set.num_unseen 1".split()
    words += "open_set.labels_per_class 2 open_set.num_val 6 open_set.num_test 9".split()
    words += ["dataset.dir", str(tmp_path / "data")]
    configs = [
        gym.load_config(None, [*words, *more])
        for more in (
            [],
            ["seed", "3"],
            ["train.mode", "erm"],
            ["open_set.split_seed", "4"],
            ["open_set.unseen", "[1]"],
            ["gnn.dim_inner", "3"],
        )
    ]
    made = []
    monkeypatch.setattr(
        gym_prepare, "build_task", lambda cfg: made.append(cfg) or gym.build_task(cfg)
    )
    found = gym_prepare.prepare(configs, "012345")
    assert made == [configs[0], configs[4]] and len(small.read_text().split()) == 1
    assert found == {gym_prepare.data_key(cfg): gym.build_task(cfg).fingerprint() for cfg in made}
    keys = [gym_prepare.data_key(cfg) for cfg in configs]
    assert keys[0] == keys[2] == keys[5] and len({*keys}) == 4
    assert datasets.load.cache_info().misses == 1


def test_what_cannot_be_prepared_is_named(gym, tmp_path, monkeypatch):
    good = gym.load_config(None, ["synthetic.num_nodes", "400"])
    bad = gym.load_config(
        None, ["dataset.format", "file", "dataset.name", "nothing.pt", "dataset.dir", str(tmp_path)]
    )
    with pytest.raises(
        InputError, match=r"file.path: 'nothing.pt' does.*\(file/nothing.pt, config two\)"
    ):
        gym_prepare.prepare([good, bad], ["one", "two"])

    def torn(cfg: object) -> None:
        raise EOFError("file ends early")

    monkeypatch.setattr(gym_prepare, "build_task", torn)
    where = r"\(EOFError: file ends early\)\. \(synthetic/synthetic, config mine\)"
    with pytest.raises(InputError, match=f"dataset.name: 'synthetic'.*{where}"):
        gym_prepare.prepare([good], ["mine"])

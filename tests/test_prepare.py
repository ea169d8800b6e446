"""Each data set is downloaded and read once before workers start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.datasets
from torch_geometric.data import Data, InMemoryDataset

from graphgym_srnc.data import datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import prepare as gym_prepare


@pytest.fixture
def downloads(monkeypatch):
    """The downloads of a small data set of PyG, ``Small``."""
    found = []

    class Small(InMemoryDataset):
        def __init__(self, root: str) -> None:
            super().__init__(root)
            self.load(self.processed_paths[0])

        raw_file_names = ("edges.npy", "labels.npy")
        processed_file_names = "data.pt"

        def download(self) -> None:
            found.append(self.raw_dir)
            order = np.arange(30)
            np.save(Path(self.raw_dir) / "edges.npy", np.stack([order, (order + 1) % 30]))
            np.save(Path(self.raw_dir) / "labels.npy", order % 3)

        def process(self) -> None:
            edges, labels = (torch.from_numpy(np.load(path)) for path in self.raw_paths)
            self.save([Data(x=torch.eye(30), edge_index=edges, y=labels)], self.processed_paths[0])

    monkeypatch.setattr(torch_geometric.datasets, "Small", Small, raising=False)
    monkeypatch.setattr(datasets, "SAFE", {*datasets.SAFE, "Small"})
    monkeypatch.setattr(Small, "__module__", "torch_geometric.datasets")
    datasets.load.cache_clear()
    yield found
    datasets.load.cache_clear()


def test_downloads_are_kept_where_the_folder_takes_them(downloads, tmp_path):
    root = tmp_path / "data"
    for _ in range(2):
        datasets.load("Small", str(root))
        datasets.load.cache_clear()
    files = sorted(path.name for path in root.rglob("*") if path.is_file())
    assert files == ["edges.npy", "labels.npy"] and len(downloads) == 1
    (tmp_path / "file").touch()
    assert datasets.load("Small", str(tmp_path / "file")).num_nodes == 30


def test_each_data_set_is_prepared_once(gym, downloads, tmp_path, monkeypatch):
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
    found = gym_prepare.prepare([*zip(configs, "012345")])
    assert made == [configs[0], configs[4]] and len(downloads) == 1
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
        gym_prepare.prepare([(good, "one"), (bad, "two")])

    def torn(cfg: object) -> None:
        raise EOFError("file ends early")

    monkeypatch.setattr(gym_prepare, "build_task", torn)
    where = r"\(EOFError: file ends early\)\. \(synthetic/synthetic, config mine\)"
    with pytest.raises(InputError, match=f"dataset.name: 'synthetic'.*{where}"):
        gym_prepare.prepare([(good, "mine")])

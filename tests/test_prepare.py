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


def test_downloads_are_kept_where_the_folder_takes_them(monkeypatch, tmp_path):
    downloads = []

    class Small(InMemoryDataset):
        raw_file_names, processed_file_names = ("edges.npy",), "data.pt"

        def __init__(self, root: str) -> None:
            super().__init__(root)
            self.load(self.processed_paths[0])

        def download(self) -> None:
            downloads.append(self.raw_dir)
            np.save(Path(self.raw_dir) / "edges.npy", np.arange(30).reshape(2, 15))

        def process(self) -> None:
            edges = torch.from_numpy(np.load(self.raw_paths[0]))
            graph = Data(x=torch.eye(30), edge_index=edges, y=torch.arange(30) % 3)
            self.save([graph], self.processed_paths[0])

    monkeypatch.setattr(torch_geometric.datasets, "Small", Small, raising=False)
    monkeypatch.setattr(datasets, "SAFE", {*datasets.SAFE, "Small"})
    monkeypatch.setattr(Small, "__module__", "torch_geometric.datasets")
    for _ in range(2):
        datasets.load.cache_clear()
        datasets.load("Small", str(tmp_path / "data"))
    files = [path.name for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files == ["edges.npy"] and len(downloads) == 1
    (tmp_path / "file").touch()
    assert datasets.load("Small", str(tmp_path / "file")).num_nodes == 30
    datasets.load.cache_clear()


def test_each_data_set_is_prepared_once(gym, monkeypatch):
    configs = [
        gym.load_config(None, ["synthetic.num_nodes", "400", *more])
        for more in (
            [],
            ["seed", "3"],
            ["train.mode", "erm"],
            ["synthetic.split_seed", "4"],
            ["synthetic.num_unseen", "1"],
            ["gnn.dim_inner", "3"],
        )
    ]
    made = []
    monkeypatch.setattr(
        gym_prepare, "build_task", lambda cfg: made.append(cfg) or gym.build_task(cfg)
    )
    found = gym_prepare.prepare([*zip(configs, "012345")])
    assert made == [configs[0], configs[4]]
    assert found == {gym_prepare.data_key(cfg): gym.build_task(cfg).fingerprint() for cfg in made}
    keys = [gym_prepare.data_key(cfg) for cfg in configs]
    assert keys[0] == keys[2] == keys[5] and len({*keys}) == 4


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

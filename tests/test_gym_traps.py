"""GraphGym's traps: each test shows that a trap is there, and that the adapter avoids it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.config import set_cfg
from torch_geometric.graphgym.loader import create_dataset
from torch_geometric.graphgym.logger import create_logger
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.graphgym.train import GraphGymDataModule
from torch_geometric.loader import DataLoader

from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.main import TaskDataset, own_config


@pytest.fixture
def main_cfg(gym, tmp_path, monkeypatch):
    """GraphGym's global config in a ``main.py`` that trains a method on a tiny shift."""
    monkeypatch.chdir(tmp_path)
    words = ["accelerator", "cpu", "out_dir", str(tmp_path), "erm.steps", "3"]
    cfg = gym.load_config("testing/erm", words)
    cfg.params = 0
    cfg.run_dir = str(tmp_path / "old" / "0")
    gym.activate(cfg)
    return global_cfg


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_the_loader_gives_three_loaders_to_a_method_alone(main_cfg):
    register.register_loader("greedy", lambda format, name, dataset_dir: object())
    assert isinstance(create_dataset(), TaskDataset)
    loaders = GraphGymDataModule().loaders
    assert len(loaders) == 3 and all(loader.dataset.task.num_known >= 2 for loader in loaders)
    assert [logger.name for logger in create_logger()] == ["train", "val", "test"]
    task = loaders[0].dataset.task
    assert (main_cfg.share.dim_in, main_cfg.share.dim_out) == (task.num_features, task.num_outputs)
    assert len(list(create_model().parameters())) == 2, "a method makes its own model"
    main_cfg.train.mode = "standard"
    with pytest.raises(InputError, match="train.mode: standard cannot train on the shift synth"):
        create_dataset()


def test_train_dict_has_graphgps_signature(gym, main_cfg):
    loaders = GraphGymDataModule().loaders
    loggers = create_logger()
    result = register.train_dict["erm"](loggers, loaders, None, None, None)
    rows = lines("old/0/val/stats.json")
    assert [row["epoch"] for row in rows] == list(range(len(result["history"])))
    assert rows[0]["accuracy"] == rows[0]["micro_f1"]
    assert "source" in lines("old/0/train/stats.json")[0]
    main_cfg.erm.steps = 4
    with pytest.raises(InputError, match="results of another config. Rename the yaml file"):
        register.train_dict["erm"](loggers, loaders, None, None, None)
    main_cfg.run_dir = "results"
    with pytest.raises(InputError, match="run_dir: .*set_run_dir"):
        register.train_dict["erm"](loggers, loaders, None, None, None)
    with pytest.raises(InputError, match="dataset.format"):
        register.train_dict["erm"]([], [DataLoader([torch.zeros(1)])] * 3, None, None, None)


def test_a_main_py_is_told_what_our_methods_do_not_read(gym, main_cfg, caplog):
    loaders = GraphGymDataModule().loaders
    # What GraphGym's own defaults say, and what its main.py and assert_cfg write, is nobody's wish.
    main_cfg.share.dim_in = 12
    main_cfg.devices = None
    main_cfg.view_emb = True
    main_cfg.srnc.steps = 3
    register.train_dict["erm"]([], loaders, None, None, None)
    assert "train.mode erm does not read view_emb, srnc.steps" in caplog.text
    main_cfg.optim.max_epoch = 7
    main_cfg.num_workers = 3
    main_cfg.metric_agg = "max"
    main_cfg.optim.scheduler = "cos"
    with pytest.raises(InputError) as error:
        register.train_dict["erm"]([], loaders, None, None, None)
    keys = {"optim.max_epoch", "num_workers", "metric_agg", "optim.scheduler"}
    assert {one.key for one in error.value.errors} == keys and len(error.value.errors) == 4
    assert "train.mode erm does not read this key, set to 7" in str(error.value)
    main_cfg.clear()
    set_cfg(main_cfg)  # default.yaml has another homophily
    main_cfg.optim.scheduler = "none"
    main_cfg.dataset.format = "open_set"
    own_config("erm")
    assert caplog.text.count("does not read") == 1

"""GraphGym's traps: each test shows that a trap is there, and that the adapter avoids it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch
from conftest import make_task
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import CN, set_cfg
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.loader import create_dataset, set_dataset_info
from torch_geometric.graphgym.logger import create_logger
from torch_geometric.graphgym.loss import compute_loss
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.graphgym.train import GraphGymDataModule
from torch_geometric.graphgym.train import train as graphgym_train
from torch_geometric.loader import DataLoader

from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.keys import SCORES
from graphgym_srnc.gym.modules import TaskDataset, open_set_ce
from graphgym_srnc.train.metrics import classification_scores

PACKAGE = Path(__file__).parents[1] / "graphgym_srnc"
QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}


@pytest.fixture
def standard(gym, tmp_path, monkeypatch):
    """GraphGym's global config for plain training of our encoder on a tiny shift."""
    monkeypatch.chdir(tmp_path)
    cfg = gym.load_config("testing/erm", ["accelerator", "cpu", "out_dir", str(tmp_path)])
    cfg.train.mode, cfg.train.enable_ckpt, cfg.optim.max_epoch, cfg.params = "standard", False, 3, 0
    cfg.run_dir = str(tmp_path / "old" / "0")
    gym.activate(cfg)
    return global_cfg


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def batch_of(task, split="train"):
    batch = next(iter(DataLoader(TaskDataset(task, "row"))))
    batch.split = split
    return batch


def test_config_dict_is_ignored_unless_set_cfg_runs_again(gym):
    def late(cfg):
        cfg.late = 1

    register.register_config("late", late)
    assert "late" not in global_cfg
    assert "late" in gym.load_config() and gym.load_config().late == 1
    assert "srnc" in global_cfg and global_cfg.train.mode == "standard"
    fresh = CN()
    set_cfg(fresh)
    assert "srnc" in fresh and "late" in fresh


def test_two_label_values_become_one_output(standard):
    task = make_task(num_known=2, open_set=False)
    set_dataset_info(TaskDataset(task, "row"))
    assert standard.share.dim_out == 2
    standard.model.type, standard.gnn.head = "gnn", "node"
    assert create_model()(batch_of(task))[0].shape == (10, 1)
    standard.gnn.head = "open_set_node"
    assert create_model()(batch_of(task))[0].shape == (10, 2)
    standard.model.type = "srnc_encoder"
    pred, true = create_model()(batch_of(task))
    assert pred.shape == (10, 2) and torch.isfinite(compute_loss(pred, true)[0])


def test_dim_out_counts_distinct_labels(standard):
    task = make_task(num_known=2, open_set=True, unknown_nodes=False)
    assert task.source.y.unique().numel() == 2
    set_dataset_info(TaskDataset(task, "row"))
    assert standard.share.dim_out == 3 and standard.share.dim_in == 12
    assert create_model()(batch_of(task))[0].shape == (10, 3)


def test_sanity_check_writes_a_record_of_an_untrained_model(gym, standard, tmp_path):
    for name, train in (("stock", graphgym_train), ("ours", gym.train)):
        standard.run_dir = str(tmp_path / name)
        datamodule = GraphGymDataModule()
        train(create_model(), datamodule, trainer_config=QUIET)
    assert [row["epoch"] for row in lines(tmp_path / "stock/val/stats.json")] == [0, 0, 1, 2]
    assert [row["epoch"] for row in lines(tmp_path / "ours/val/stats.json")] == [0, 1, 2]
    assert set(standard.custom_metrics) <= set(lines(tmp_path / "ours/val/stats.json")[0])


def test_nothing_here_calls_what_deletes_results():
    for path in PACKAGE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert not names & {"set_out_dir", "set_run_dir", "makedirs_rm_exist"}, path


@pytest.mark.parametrize("two_graphs", [False, True])
def test_there_are_three_loaders_in_order(standard, two_graphs):
    task = make_task(two_graphs=two_graphs)
    dataset = TaskDataset(task, "row")
    set_dataset_info(dataset)
    assert standard.share.num_splits == 3
    assert [logger.name for logger in create_logger()] == ["train", "val", "test"]
    data, start = dataset[0], 90 * two_graphs
    for split, offset in (("train", 0), ("val", start), ("test", start)):
        nodes = sorted((getattr(task, split) + offset).tolist())
        assert data[f"{split}_mask"].nonzero()[:, 0].tolist() == nodes
    assert data.num_nodes == 90 * (1 + two_graphs) and torch.equal(data.y[start:], task.target.y)
    assert data.edge_index.max() < data.num_nodes
    loaders = GraphGymDataModule().loaders
    assert len(loaders) == 3 and all(loader.dataset.task.num_known >= 2 for loader in loaders)


def test_a_rival_that_takes_everything_does_not_get_ours(gym, standard):
    register.register_loader("greedy", lambda format, name, dataset_dir: object())
    assert isinstance(create_dataset(), TaskDataset)


def test_loss_is_silent_unless_named(standard):
    pred, true = torch.randn(5, 3), torch.tensor([0, 1, 2, -1, 0])
    loss, score = open_set_ce(pred, true)
    assert torch.allclose(loss, torch.nn.functional.cross_entropy(pred[true >= 0], true[true >= 0]))
    assert torch.allclose(score.exp().sum(1), torch.ones(5))
    standard.model.loss_fun = "cross_entropy"
    assert open_set_ce(pred, true) is None


def test_metrics_are_ours(standard):
    score, label = torch.randn(40, 4), torch.randint(4, (40,))
    want = classification_scores(score.argmax(1), label, 3, True)
    for name in SCORES:
        figure = register.metric_dict[name](
            [label[:10], label[10:]], [score[:10], score[10:]], task_type="classification_multi"
        )
        assert figure == pytest.approx(want[name], abs=1e-4)
    binary = register.metric_dict["micro_f1"]([torch.tensor([0, 1])], [torch.tensor([0.2, 0.9])])
    assert binary == 1.0
    known = [torch.tensor([0, 1, 0])], [torch.eye(3)]
    assert register.metric_dict["unknown_recall"](*known) == 0, "GraphGym's logger needs a number"


def test_train_dict_has_graphgps_signature(gym, standard):
    loaders, loggers = GraphGymDataModule().loaders, create_logger()
    standard.erm.steps, standard.optim.max_epoch, standard.train.enable_ckpt = 3, 200, True
    result = register.train_dict["erm"](loggers, loaders, None, None, None)
    rows = lines("old/0/val/stats.json")
    assert [row["epoch"] for row in rows] == list(range(len(result["history"])))
    assert rows[0]["accuracy"] == rows[0]["micro_f1"]
    assert "source" in lines("old/0/train/stats.json")[0]
    assert global_cfg.train.mode == "standard"
    standard.run_dir = "results"
    with pytest.raises(InputError, match="run_dir: .*set_run_dir"):
        register.train_dict["erm"](loggers, loaders, None, None, None)


@pytest.mark.parametrize("key", ["optim.max_epoch", "num_workers"])
def test_a_main_py_is_told_what_our_methods_do_not_read(gym, standard, key, caplog):
    loaders = GraphGymDataModule().loaders
    standard.optim.max_epoch, standard.train.enable_ckpt = 200, True
    # What GraphGym's own defaults say, and what its main.py and assert_cfg write, is nobody's wish.
    standard.model.type, standard.model.loss_fun, standard.gnn.head = "gnn", "cross_entropy", "node"
    standard.share.dim_in, standard.devices, standard.custom_metrics = 12, None, []
    standard.erm.steps, standard.view_emb = 3, True
    register.train_dict["erm"]([], loaders, None, None, None)
    assert "train.mode erm does not read view_emb" in caplog.text
    block, _, last = key.rpartition(".")
    (standard[block] if block else standard)[last] = 3
    with pytest.raises(InputError, match=f"{key}: train.mode erm does not read this key, set to 3"):
        register.train_dict["erm"]([], loaders, None, None, None)


def test_our_loops_refuse_foreign_loaders(gym, standard):
    loader = DataLoader([torch.zeros(1)])
    with pytest.raises(InputError, match="dataset.format"):
        register.train_dict["erm"]([], [loader] * 3, None, None, None)

"""GraphGym's own ``main.py`` with our ``train``: its scripts and ours read what it leaves."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from conftest import rows

from graphgym_srnc.cli.main import main
from graphgym_srnc.gym import run
from graphgym_srnc.io import records

CONFIG = """
out_dir: results/g
dataset: {format: synthetic, name: toy}
synthetic: {num_nodes: 300, num_val: 60, num_test: 100}
train: {mode: erm, patience: 1}
erm: {steps: 5, rounds: 4}
gnn: {layer_type: gcnconv, dim_inner: 8, layers_post_mp: 1, batchnorm: false}
optim: {scheduler: none}
accelerator: cpu
num_threads: 1
"""
MAIN = """
from graphgym_srnc.gym.main import train
from torch_geometric import seed_everything
from torch_geometric.graphgym.cmd_args import parse_args
from torch_geometric.graphgym.config import cfg, dump_cfg, load_cfg, set_out_dir, set_run_dir
from torch_geometric.graphgym.logger import set_printing
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.graphgym.train import GraphGymDataModule
from torch_geometric.graphgym.utils.agg_runs import agg_batch, agg_runs
from torch_geometric.graphgym.utils import params_count

args = parse_args()
load_cfg(cfg, args)
set_out_dir(cfg.out_dir, args.cfg_file)
dump_cfg(cfg)
for i in range(args.repeat):
    set_run_dir(cfg.out_dir)
    set_printing()
    cfg.seed += 1
    seed_everything(cfg.seed)
    datamodule, model = GraphGymDataModule(), create_model()
    cfg.params = params_count(model)
    train(model, datamodule, logger=True)
agg_runs(cfg.out_dir, cfg.metric_best)
agg_batch("results/g", cfg.metric_best)
"""


@pytest.fixture
def main_py(gym, tmp_path, monkeypatch, unchanged_globals):
    """A function that runs GraphGym's ``main.py``, followed by ``agg_batch``, on a config."""
    monkeypatch.chdir(tmp_path)
    handlers = [*logging.root.handlers]

    def call(config: str, *words: str) -> Path:
        Path("g-m=erm.yaml").write_text(config)
        monkeypatch.setattr(sys, "argv", ["main.py", "--cfg", "g-m=erm.yaml", *words])
        exec(compile(MAIN, "main.py", "exec"), {})
        return tmp_path / "results" / "g"

    yield call
    logging.root.handlers[:] = handlers


def test_its_folder_is_that_of_the_command_line(gym, main_py, capsys, tmp_path):
    left = main_py(CONFIG, "--repeat", "3")
    assert "NaN or Inf" not in "".join(capsys.readouterr())
    home = left / "g-m=erm"
    found = records.read_results(home)
    assert sorted(found) == [0, 1, 2] and all("verdict" in one for one in found.values())
    # Runs that stopped early have as many lines as the longest one.
    lengths = [len(record["history"]) for record in found.values()]
    assert len({*lengths}) > 1
    for seed, record in found.items():
        folder = home / str(seed)
        assert (folder / "model.safetensors").is_file()
        for split in ("train", "val", "test"):
            lines = (folder / split / "stats.json").read_text().splitlines()
            assert len(lines) == max(lengths)
        log = (folder / "logging.log").read_text()
        episodes = [line for line in log.splitlines() if line.startswith("episode ")]
        assert len(episodes) == len(record["history"])
        why = [*record["warnings"].values(), *record["verdict"]["sentences"].values()]
        assert log.count("warning: ") == len(why) and all(text in log for text in why)

    lines = rows(left / "agg" / "test_best.csv")
    mean = sum(record["test"]["micro_f1"] for record in found.values()) / 3
    assert lines[0]["m"] == "erm"
    assert float(lines[0]["accuracy"]) == pytest.approx(mean, abs=1e-4)
    assert (left / "agg" / "train_bestepoch.csv").is_file()
    assert main(["compare", str(left)]) == 0
    assert f"{100 * mean:.1f}" in capsys.readouterr().out
    cfg = gym.load_config(home / "config.yaml", ["out_dir", str(tmp_path)])
    again = run.run(cfg, 1, run.experiment(cfg, "again"))
    assert again["test"] == found[1]["test"] and again["digest"] == found[1]["digest"]
    assert main(["predict", str(home), "--out", str(tmp_path / "p.csv")]) == 0

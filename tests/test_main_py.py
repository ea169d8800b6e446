"""GraphGym's own ``main.py`` with our ``train``: what it leaves is read by its scripts and ours."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphgym_srnc.cli.main import main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.gym import load_config, run
from graphgym_srnc.io import store
from graphgym_srnc.io.stats import read_lines

ROOT = Path(__file__).parents[1]
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
import graphgym_srnc.gym
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


def main_py(folder: Path, config: str, *words: str) -> subprocess.CompletedProcess:
    """GraphGym's ``main.py`` in a process of its own, followed by ``agg_batch``."""
    (folder / "g-m=erm.yaml").write_text(config)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MAIN, "--cfg", "g-m=erm.yaml", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def left(tmp_path_factory) -> Path:
    pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("main")
    done = main_py(folder, CONFIG, "--repeat", "3")
    assert done.returncode == 0, done.stderr
    assert "NaN or Inf" not in done.stdout + done.stderr
    return folder / "results" / "g"


def test_runs_that_stopped_early_have_lines_of_the_longest(left):
    home = left / "g-m=erm"
    lengths = {
        split: {len(read_lines(home / str(seed) / split / "stats.json")) for seed in range(3)}
        for split in ("train", "val", "test")
    }
    records = store.read_results(home)
    longest = max(len(record["history"]) for record in records.values())
    assert lengths == dict.fromkeys(("train", "val", "test"), {longest})
    assert len({len(record["history"]) for record in records.values()}) > 1  # or nothing is shown


@pytest.mark.usefixtures("unchanged_globals")
def test_its_folder_is_that_of_the_command_line(left, capsys, tmp_path):
    home = left / "g-m=erm"
    records = store.read_results(home)
    assert sorted(records) == [0, 1, 2] and all("verdict" in one for one in records.values())
    assert all((home / str(seed) / "model.safetensors").is_file() for seed in records)
    lines = list(csv.DictReader((left / "agg" / "test_best.csv").open()))
    mean = sum(record["test"]["micro_f1"] for record in records.values()) / 3
    assert lines[0]["m"] == "erm"
    assert float(lines[0]["accuracy"]) == pytest.approx(mean, abs=1e-4)
    assert (left / "agg" / "train_bestepoch.csv").is_file()

    assert main(["compare", str(left)]) == 0
    assert f"{100 * mean:.1f}" in capsys.readouterr().out
    cfg = load_config(home / "config.yaml", ["out_dir", str(tmp_path)])
    again = run.run(cfg, 1, run.experiment(cfg, "again"))
    assert again["test"] == records[1]["test"] and again["digest"] == records[1]["digest"]
    assert main(["predict", str(home), "--out", str(tmp_path / "p.csv")]) == 0


def test_its_log_tells_how_far_each_run_is_and_what_to_distrust(left):
    for seed, record in store.read_results(left / "g-m=erm").items():
        log = (left / "g-m=erm" / str(seed) / "logging.log").read_text()
        episodes = [line for line in log.splitlines() if line.startswith("episode ")]
        assert len(episodes) == len(record["history"])
        assert f"selected episode {record['selected']}: val " in log
        why = [*record["warnings"], *record["verdict"]["sentences"].values()]
        assert log.count("warning: ") == len(why) and all(text in log for text in why)


def test_keys_that_the_method_does_not_read_are_refused_at_once(tmp_path):
    wrong = CONFIG.replace("{scheduler: none}", "{max_epoch: 7, scheduler: cos}")
    done = main_py(tmp_path, wrong.replace("patience: 1", "batch_size: 128"))
    assert done.returncode and all(
        text in done.stderr
        for text in (
            "optim.max_epoch: train.mode",
            "optim.scheduler: got 'cos'",
            "train.batch_size: train.",
        )
    )
    assert not list(tmp_path.rglob("result.json"))


def test_what_a_method_does_anyway_may_be_said(gym):
    words = ["train.eval_period", "1", "train.sampler", "full_batch"]
    assert gym.load_config("testing/erm", words)
    with pytest.raises(InputError, match="train.eval_period: .*set to 2.*set it to 10"):
        gym.load_config("testing/erm", ["train.eval_period", "2"])

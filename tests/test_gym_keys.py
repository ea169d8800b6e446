"""What becomes of each key of GraphGym: the page, the check of a config, and a stock main.py."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.train import GraphGymDataModule

from graphgym_srnc.cli.main import main
from graphgym_srnc.errors import InputError, each
from graphgym_srnc.gym import keys
from graphgym_srnc.io.settings import flatten

ROOT = Path(__file__).parents[1]
STOCK = sorted(keys.stock_keys())
VALUES = {
    "accelerator": "cpu",
    "device": "cpu",
    "dataset.format": "open_set",
    "dataset.normalize": "row",
    "gnn.layer_type": "sageconv",
    "gnn.act": "selu",
    "gnn.agg": "mean",
    "metric_best": "macro_f1",
    "optim.optimizer": "sgd",
}
"""Another value of keys that have few."""


def another(key: str, value: Any) -> Any:
    """A value of a key other than the given one."""
    if key in VALUES:
        return VALUES[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1 if isinstance(value, int) else value / 2
    return [1, 2] if isinstance(value, list) else "other"


PAGE = runpy.run_path(str(ROOT / "docs/stubs.py"))


def test_the_page_is_that_of_the_code():
    assert PAGE["KEYS_FILE"].read_text("utf-8") == PAGE["keys_page"](), "run python docs/stubs.py"


def test_the_treatment_is_that_of_a_config(gym):
    default = flatten(gym.load_config("testing/erm"))
    counts = dict.fromkeys(("works", "refused", "unused"), 0)
    for key in STOCK:
        kind, text = PAGE["treatment"](key)
        counts[kind] += 1
        words = [key, another(key, default[key])]
        if key in keys.LAYERS_READ:
            norm = ["gnn.batchnorm", True]
            words += norm if key.startswith("bn.") else ["gnn.layer_type", "generalconv"]
        if key == "optim.momentum":
            words += ["optim.optimizer", "sgd"]
        if key == "custom_metrics":
            continue  # needs a registered metric
        if kind != "refused":
            assert flatten(gym.load_config("testing/erm", words))[key] != default[key], key
            continue
        with pytest.raises(InputError) as error:
            gym.load_config("testing/erm", words)
        (one,) = each(error.value)
        assert one.key == key and text, key
        assert keys.instead(key).format(mode="erm", shift="synthetic") in str(one), key
    assert sum(counts.values()) > 100 and min(counts.values()) >= 10


@pytest.mark.parametrize("key", [*sorted(keys.LAYERS_READ), "optim.momentum"])
def test_keys_of_graphgyms_layers_are_refused_with_ours(gym, key):
    value = another(key, flatten(gym.load_config("testing/erm"))[key])
    with pytest.raises(InputError, match=key):
        gym.load_config("testing/erm", [key, value])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train.sampler", "neighbor"),
        ("val.sampler", "cluster"),
        ("dataset.task", "graph"),
        ("train.batch_size", 3),
        ("gnn.stage_type", "skipsum"),
    ],
)
def test_a_stock_main_py_gets_the_refusal_of_this_package(gym, tmp_path, monkeypatch, key, value):
    """GraphGym itself would fail at the loaders, before the method begins."""
    monkeypatch.chdir(tmp_path)
    cfg = gym.load_config("testing/erm", ["out_dir", str(tmp_path), "erm.steps", "2"])
    cfg.params = 0
    gym.activate(cfg)
    block, _, name = key.partition(".")
    global_cfg[block][name] = value
    with pytest.raises(InputError, match=f"^{key}: train.mode erm does not read this key"):
        GraphGymDataModule()


def test_the_device_is_that_of_the_run(gym):
    for words in (["device", "cpu"], ["device", "auto"], ["accelerator", "cpu", "device", "cpu"]):
        gym.load_config("testing/erm", words)
    for words in (["device", "cuda"], ["accelerator", "cuda", "device", "cpu"]):
        with pytest.raises(InputError, match="^device: got"):
            gym.load_config("testing/erm", words)


def test_a_folder_beside_the_keys_is_the_graph(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chess").mkdir()
    for word, hint in (
        ("chess", "write its key first: dataset.name"),
        ("ches", "key value key value"),
    ):
        assert main(["run", "--cfg", "own", word]) == 2
        told = capsys.readouterr().err
        assert f"'{word}' has no value" in told and hint in told

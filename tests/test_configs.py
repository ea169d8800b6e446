"""Every shipped config loads, and its method runs for a moment on a graph made in memory."""
from __future__ import annotations

from pathlib import Path

import pytest

from graphgym_srnc.gym import build_task, config_names, config_root, fit, load_config, schema, train_standard

SCHEMA = schema()
SMALL = ["dataset.format", "synthetic", "dataset.name", "synthetic", "synthetic.num_nodes", "500", "synthetic.num_features", "50",
         "synthetic.num_val", "50", "synthetic.num_test", "100", "train.max_episodes", "1", "optim.max_epoch", "2", "gnn.dim_inner", "16",
         "gnn.att_heads", "2", "train.enable_ckpt", "False"]


def small(name: str) -> list[str]:
    """Overrides that make a config run in a moment."""
    mode = load_config(name).train.mode
    steps = [option.key for option in SCHEMA.get(mode, []) if option.type is int and "steps" in option.key]
    return SMALL + [word for key in steps for word in (f"{mode}.{key}", "2")]


def test_the_folder_is_found():
    assert config_root() == Path(__file__).parents[1] / "configs_gym"
    assert "default" in config_names() and "open_set/cora-srnc" in config_names()


def test_no_config_at_all_is_the_default():
    assert load_config() == load_config("default")


@pytest.mark.parametrize("name", config_names())
def test_config_runs(gym, name, tmp_path):
    cfg = load_config(name, small(name))
    if cfg.train.mode == "standard":
        train_standard(cfg, tmp_path)
        assert (tmp_path / "test/stats.json").is_file()
        return
    _, record = fit(cfg, build_task(cfg))
    assert len(record.history) <= 2 and 0 <= record.test["micro_f1"] <= 1


@pytest.mark.parametrize("name", [name for name in config_names() if name.startswith("open_set/")])
def test_config_says_what_its_name_says(name):
    data, mode = name.removeprefix("open_set/").split("-")[:2]
    cfg = load_config(name)
    assert (cfg.dataset.name.lower(), cfg.train.mode, cfg.dataset.format) == (data, mode, "open_set")
    assert cfg.open_set.num_unseen == {"pubmed": 1}.get(data, 3)

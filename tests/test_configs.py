"""Every shipped config loads, and its method runs for a moment on a graph made in memory."""
from __future__ import annotations

from pathlib import Path

import pytest

from graphgym_srnc.gym import (
    build_task,
    config_names,
    config_root,
    fit,
    load_config,
    schema,
    train_standard,
)

SCHEMA = schema()
SMALL = ["train.max_episodes", "1", "optim.max_epoch", "2", "gnn.dim_inner", "16", "gnn.att_heads", "2", "train.enable_ckpt", "False"]
MADE = ["dataset.format", "synthetic", "dataset.name", "synthetic", "synthetic.num_nodes", "500", "synthetic.num_features", "50",
        "synthetic.num_val", "50", "synthetic.num_test", "100"]
IN_MEMORY = {"temporal": ["temporal.scale", "0.01"], "cross_graph": [*MADE, "synthetic.mode", "close_set"]}
"""What takes the place of a shift that reads files; that over time makes its own graph."""


def small(name: str) -> list[str]:
    """Overrides that make a config run in a moment."""
    cfg = load_config(name)
    mode = cfg.train.mode
    steps = [option.key for option in SCHEMA.get(mode, []) if option.type is int and "steps" in option.key]
    return IN_MEMORY.get(cfg.dataset.format, MADE) + SMALL + [word for key in steps for word in (f"{mode}.{key}", "2")]


def test_the_folder_is_found():
    assert config_root() == Path(__file__).parents[1] / "configs_gym"
    assert "default" in config_names() and "paper/open_set/cora-srnc" in config_names()


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


@pytest.mark.parametrize("name", [name for name in config_names() if name.startswith(("paper/open_set/", "paper/clustering/"))])
def test_open_set_config_says_what_its_name_says(name):
    data, mode = name.rpartition("/")[2].split("-")[:2]
    cfg = load_config(name)
    assert (cfg.dataset.name.lower(), cfg.train.mode, cfg.dataset.format) == (data, mode, "open_set")
    assert cfg.open_set.num_unseen == {"pubmed": 1}.get(data, 3)
    assert cfg.srnc.source_regularizer != name.endswith("no-source")


@pytest.mark.parametrize("name", [name for name in config_names() if name.startswith("paper/close_set/")])
def test_close_set_config_says_what_its_name_says(name):
    _, _, table, method = name.split("/")
    cfg = load_config(name)
    assert cfg.train.mode == method.split("-")[0]
    if table == "arxiv":
        assert (cfg.dataset.format, cfg.dataset.name, cfg.train.selection) == ("temporal", "arxiv_like", "target_val")
    else:
        # No label of the target is used before the test, but by the oracle.
        assert cfg.dataset.format == "cross_graph" and cfg.cross_graph.num_val == 0 and cfg.cross_graph.source != cfg.cross_graph.target
        assert cfg.train.selection == {"srnc": "last", "srnc-paper": "last", "iid": "target_val", "srnc-plus": "target_modularity"}.get(
            method, "source_val")


@pytest.mark.parametrize("clusters", [7, 16])
def test_clusters_config_says_what_its_name_says(clusters):
    ours, faithful = load_config(f"paper/clusters/cora-{clusters}"), load_config("paper/open_set/cora-srnc")
    assert ours.srnc.num_clusters == clusters
    faithful.srnc.num_clusters = clusters
    assert ours == faithful

"""Every shipped config loads, and its method runs for a moment on a small file of its data set."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import written

from graphgym_srnc.cli.main import main
from graphgym_srnc.data import citation, datasets, matlab, ocnnc, pyg
from graphgym_srnc.gym import (
    build_task,
    config_names,
    config_root,
    fit,
    load_config,
    schema,
    train_standard,
)
from graphgym_srnc.gym.config import not_read

SCHEMA = schema()
SMALL = ["train.max_episodes", "1", "gnn.dim_inner", "16", "gnn.att_heads", "2"]
STANDARD = ["optim.max_epoch", "2", "train.enable_ckpt", "False"]
IN_MEMORY = {
    "synthetic": [
        "synthetic.num_nodes",
        "500",
        "synthetic.num_features",
        "50",
        "synthetic.num_val",
        "50",
        "synthetic.num_test",
        "100",
    ],
    "arxiv_like": ["temporal.scale", "0.01"],
}
"""Sizes of the graphs that some configs make in memory, by the name of the data set."""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return written.all_of_them(tmp_path_factory.mktemp("data"))


@pytest.fixture
def published(files, tmp_path, monkeypatch) -> Path:
    """A data folder with a small file of each data set, and no network."""
    monkeypatch.setenv("GRAPHGYM_SRNC_DATA", str(files))
    monkeypatch.setenv("GRAPHGYM_SRNC_CACHE", str(tmp_path / "cache"))
    for module, sizes in ((citation, written.CITATION), (ocnnc, written.OCNNC)):
        monkeypatch.setattr(module, "NODES", sizes)
        monkeypatch.setattr(module, "WORDS", written.WORDS)
    monkeypatch.setattr(import_module("graphgym_srnc.shifts.temporal"), "NODES", written.PERIODS)
    # The small pickles have none of the public checksums; the real ones: test_bad_input_data.py.
    monkeypatch.setattr(pyg, "verify", lambda file, shown: None)
    monkeypatch.setattr(matlab, "urlopen", no_network)
    datasets.load.cache_clear()
    yield files
    datasets.load.cache_clear()


def no_network(*_: object, **__: object) -> None:
    raise OSError("no network")


def small(name: str) -> list[str]:
    """Overrides that make a config run in a moment."""
    cfg = load_config(name)
    mode = cfg.train.mode
    steps = [
        f"{mode}.{option.key}"
        for option in SCHEMA.get(mode, [])
        if option.type is int and "steps" in option.key
    ]
    return [
        *IN_MEMORY.get(cfg.dataset.name, ()),
        *SMALL,
        *(STANDARD if mode == "standard" else ()),
        *(word for key in steps for word in (key, "2")),
    ]


def named(*folders: str) -> list[str]:
    """The shipped configs in some folders."""
    return [name for name in config_names() if name.startswith(folders)]


def mode_of(variant: str) -> str:
    """The method that a config's name begins with, e.g. ``srnc_plus`` of ``srnc-plus``."""
    if variant == "srnc-plus":
        return "srnc_plus"
    return {"deep": "a2gnn"}.get(name := variant.split("-")[0], name)


def test_the_folder_is_found():
    assert config_root() == Path(__file__).parents[1] / "configs_gym"
    assert "default" in config_names() and "paper/open_set/cora-srnc" in config_names()


def test_no_config_at_all_is_the_default():
    assert load_config() == load_config("default")


@pytest.mark.parametrize("name", config_names())
def test_config_runs_on_files_as_they_are_published(gym, name, tmp_path, published):
    words = ["dataset.name", str(published / "own")] * (name == "own")
    cfg = load_config(name, [*small(name), *words])
    if cfg.train.mode == "standard":
        train_standard(cfg, tmp_path)
        assert (tmp_path / "test/stats.json").is_file()
        return
    _, record = fit(cfg, build_task(cfg))
    assert len(record.history) <= 2 and 0 <= record.test["micro_f1"] <= 1


def test_shipped_configs_set_nothing_in_vain():
    assert not {name: keys for name in config_names() if (keys := not_read([load_config(name)]))}


@pytest.mark.parametrize("name", named("paper/open_set/", "paper/clustering/"))
def test_open_set_config_says_what_its_name_says(name):
    data, _, variant = name.rpartition("/")[2].partition("-")
    cfg = load_config(name)
    assert (cfg.dataset.name.lower(), cfg.dataset.format) == (data, "open_set")
    assert cfg.train.mode == mode_of(variant)
    assert cfg.open_set.num_unseen == {"pubmed": 1}.get(data, 3)
    assert cfg.srnc.source_regularizer != name.endswith("no-source")


@pytest.mark.parametrize("name", named("paper/close_set/"))
def test_close_set_config_says_what_its_name_says(name):
    _, _, table, variant = name.split("/")
    cfg = load_config(name)
    assert cfg.train.mode == mode_of(variant)
    if table == "arxiv":
        assert (cfg.dataset.format, cfg.dataset.name) == ("temporal", "ogbn-arxiv")
        assert (cfg.temporal.scale, cfg.train.selection) == (1.0, "target_val")
    else:
        # No label of the target is used before the test, but by the oracle, and no row chooses.
        assert cfg.dataset.format == "cross_graph" and cfg.cross_graph.num_val == 0
        assert cfg.cross_graph.source != cfg.cross_graph.target
        assert cfg.train.selection == "last"


@pytest.mark.parametrize("name", named("close_set/arxiv_like/"))
def test_the_synthetic_growing_graph_has_the_settings_of_the_real_one(name):
    cfg, real = load_config(name), load_config(f"paper/close_set/arxiv/{name.rpartition('/')[2]}")
    assert (cfg.dataset.name, cfg.temporal.scale) == ("arxiv_like", 0.125)
    cfg.dataset.name, cfg.temporal.scale = "ogbn-arxiv", 1.0
    assert cfg == real


@pytest.mark.parametrize("name", named("paper/universal/"))
def test_universal_config_says_what_its_name_says(name):
    variant, cfg = name.rpartition("/")[2], load_config(name)
    assert cfg.train.mode == ("erm" if variant == "gnnsafe" else mode_of(variant))
    # Validation nodes are the training nodes, which can choose nothing.
    assert (cfg.dataset.format, cfg.ocnnc.val_share, cfg.train.selection) == ("ocnnc", 0, "last")
    assert cfg.erm.score == ("gnnsafe" if variant == "gnnsafe" else "max_softmax")


@pytest.mark.parametrize("clusters", [7, 16])
def test_clusters_config_says_what_its_name_says(clusters):
    ours = load_config(f"paper/clusters/cora-{clusters}")
    faithful = load_config("paper/open_set/cora-srnc")
    assert ours.srnc.num_clusters == clusters
    faithful.srnc.num_clusters = clusters
    assert ours == faithful


def test_data_list_says_which_raw_files_are_here(published, capsys):
    assert main(["data", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {line.partition("  ")[0]: line.split()[-2:] for line in lines}
    for name, place in (
        ("Planetoid/Cora", "planetoid/Cora/raw"),
        ("OGB/ogbn-arxiv", "ogb/ogbn_arxiv/raw"),
        ("Amazon/Photo", "amazon/Photo/raw"),
        ("cross_graph: acmv9", "citation/acmv9.mat"),
        ("ocnnc: dblp-v4", "ocnnc/dblp-v4.mat"),
    ):
        assert found[name] == ["yes", str(published / place)]
    assert found["WikiCS"] == ["no", str(published / "wikics/raw")]

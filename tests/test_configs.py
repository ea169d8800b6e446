"""Every shipped config loads, and its method runs for a moment on a small file of its data set."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch_geometric.datasets
import written
import yaml
from yacs.config import CfgNode

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.data import datasets, networks
from graphgym_srnc.gym import build_task, config_names, config_root, fit, load_config, schema
from graphgym_srnc.gym.keys import not_read
from graphgym_srnc.io.settings import flatten

pytestmark = pytest.mark.usefixtures("hardly_pretrained")

SMALL = ["train.max_episodes", "1", "gnn.dim_inner", "16", "gnn.att_heads", "2"]
SYNTHETIC = {"num_nodes": 500, "num_features": 50, "num_val": 50, "num_test": 100}
IN_MEMORY = {
    "synthetic": [word for key, n in SYNTHETIC.items() for word in (f"synthetic.{key}", str(n))],
    "arxiv_like": ["temporal.scale", "0.01"],
}
"""Sizes of the graphs that some configs make in memory, by the name of the data set."""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return written.all_of_them(tmp_path_factory.mktemp("data"))


@pytest.fixture
def published(files, monkeypatch) -> Path:
    """A data folder with a small file of each data set, and no network."""
    monkeypatch.setenv("GRAPHGYM_SRNC_DATA", str(files))
    for family in (networks.CITATION, networks.BLOG, networks.OCNNC):
        monkeypatch.setattr(family, "nodes", getattr(written, family.name.upper()))
        monkeypatch.setattr(family, "words", written.WORDS)
    # The small pickles have none of the public checksums; the real ones: test_bad_input_data.py.
    monkeypatch.setattr(datasets, "_verify", lambda file, shown: None)
    monkeypatch.setattr(networks, "urlopen", None)  # no network
    shifts.forget()
    yield files
    shifts.forget()


def small(cfg: CfgNode) -> list[str]:
    """Overrides that make a config run in a moment."""
    words = [*SMALL, *IN_MEMORY.get(cfg.dataset.name, ())]
    for option in schema().get(cfg.train.mode, []):
        if option.type is int and "steps" in option.key:
            words += [f"{cfg.train.mode}.{option.key}", "2"]
    return words


def named(*folders: str) -> list[str]:
    """The shipped configs in some folders."""
    return [name for name in config_names() if name.startswith(folders)]


def mode_of(variant: str) -> str:
    """The method that a config's name begins with, e.g. ``srnc_plus`` of ``srnc-plus``."""
    if variant == "srnc-plus":
        return "srnc_plus"
    return {"deep": "a2gnn"}.get(name := variant.split("-")[0], name)


LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
SETTINGS = {
    name: flatten(yaml.load((config_root() / f"{name}.yaml").read_bytes(), LOADER))
    for name in config_names()
}
KINDS = {
    settings[key]: name
    for key in ("train.mode", "dataset.format", "dataset.name")
    for name, settings in SETTINGS.items()
    if key in settings
}.values()
"""A config of each method, each shift and each data set."""
if not hasattr(torch_geometric.datasets, "GraphLandDataset"):  # before PyG 2.7
    KINDS = [name for name in KINDS if "graphland" not in name]


@pytest.fixture(scope="module")
def configs() -> dict[str, CfgNode]:
    """All shipped configs."""
    return {name: load_config(name) for name in SETTINGS}


def test_shipped_configs_are_found_and_set_nothing_in_vain(configs):
    for name in ("testing/srnc-plus", "paper/open_set/cora-srnc_plus"):  # either spelling
        assert load_config(name).train.mode == "srnc_plus"
    assert config_root() == Path(__file__).parents[1] / "configs_gym"
    assert load_config() == configs["default"]
    default = flatten(configs["default"])
    vain = {name: keys for name, cfg in configs.items() if (keys := not_read([cfg], default))}
    assert not vain


@pytest.mark.parametrize("name", sorted({*KINDS}))
def test_config_runs_on_files_as_they_are_published(gym, name, tmp_path, published, configs):
    words = []
    if name == "own":
        words = ["dataset.name", str(published / "own"), "file.num_test", "10"]
    cfg = load_config(name, [*small(configs[name]), *words])
    _, record = fit(cfg, build_task(cfg))
    assert len(record.history) <= 2 and 0 <= record.test["micro_f1"] <= 1


def test_configs_say_what_their_names_say(configs):
    for name in named("paper/open_set/", "paper/clustering/"):
        data, _, variant = name.rpartition("/")[2].partition("-")
        cfg = configs[name]
        assert (cfg.dataset.name.lower(), cfg.dataset.format) == (data, "open_set"), name
        assert cfg.train.mode == mode_of(variant), name
        assert cfg.open_set.num_unseen == {"pubmed": 1}.get(data, 3), name
        assert cfg.srnc.source_regularizer != name.endswith("no-source"), name
    for name in named("paper/close_set/"):
        _, _, table, variant = name.split("/")
        cfg = configs[name]
        assert cfg.train.mode == mode_of(variant), name
        if table == "arxiv":
            assert (cfg.dataset.format, cfg.dataset.name) == ("temporal", "ogbn-arxiv"), name
            assert (cfg.temporal.scale, cfg.train.selection) == (1.0, "target_val"), name
        else:
            # No label of the target is used before the test, except by the oracle.
            assert (cfg.cross_graph.num_val, cfg.train.selection) == (0, "last"), name
            assert cfg.cross_graph.source != cfg.cross_graph.target, name
    for name in named("close_set/arxiv_like/"):
        real = configs.get("paper/close_set/arxiv/" + name.rpartition("/")[2])
        if real is not None:  # a method that the paper has
            cfg = configs[name].clone()
            assert (cfg.dataset.name, cfg.temporal.scale) == ("arxiv_like", 0.125), name
            cfg.dataset.name = "ogbn-arxiv"
            cfg.temporal.scale = 1.0
            assert cfg == real, name
    for name in named("paper/universal/"):
        cfg = configs[name]
        # Validation nodes are the training nodes, which can choose nothing.
        assert (cfg.dataset.format, cfg.train.selection) == ("ocnnc", "last"), name


def test_data_list_says_which_raw_files_are_here(published, capsys):
    assert main(["data", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {line.partition("  ")[0]: line.split()[-2:] for line in lines}
    for name, place in (
        ("Planetoid/Cora", "planetoid/Cora/raw"),
        ("OGB/ogbn-arxiv", "ogb/ogbn_arxiv/raw"),
        ("cross_graph: acmv9", "citation/acmv9.mat"),
        ("cross_graph: Blog1", "blog/Blog1.mat"),
        ("cross_graph: MAG_US", "mag/MAG_US_labels_20.pt"),
    ):
        assert found[name] == ["yes", str(published / place)]
    assert found["WikiCS"] == ["no", str(published / "wikics/raw")]


@pytest.mark.parametrize(("mode", "width"), [("srnc", 256), ("srnc_plus", 64), ("a2gnn", 128)])
def test_commands_give_a_method_the_encoder_of_its_estimator(mode, width):
    assert load_config(overrides=["train.mode", mode]).gnn.dim_inner == width
    words = ["train.mode", mode, "gnn.dim_inner", "32"]
    assert load_config(overrides=words).gnn.dim_inner == 32

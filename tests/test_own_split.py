"""Data sets with arguments, and their own splits, against PyG's reader of the same files."""

from __future__ import annotations

import pytest
import torch
import written
from conftest import refused
from torch_geometric import datasets as pyg

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.data import catalogue, datasets

NAME = "GraphLandDataset/tolokers-2"

pytestmark = pytest.mark.skipif(
    not hasattr(pyg, "GraphLandDataset"), reason="this version of PyG has no GraphLand"
)


@pytest.fixture
def graphland_folder(tmp_path):
    """A data folder with the files of GraphLand, and no graph in memory from another test."""
    shifts.forget()
    written.graphland(tmp_path)
    yield tmp_path
    shifts.forget()


def theirs(graphland_folder, split: str) -> list:
    return [*pyg.GraphLandDataset(str(graphland_folder / "graphlanddataset"), "tolokers-2", split)]


@pytest.mark.parametrize("split", ["TH", "RL"])
def test_masks_of_one_graph_are_pygs(graphland_folder, split):
    task = shifts.find("own_split")(name=f"{NAME}?split={split}", root=str(graphland_folder))
    (data,) = theirs(graphland_folder, split)
    assert task.source is task.target and task.num_known == 2 and not task.open_set
    for nodes, mask in (
        (task.train, "train_mask"),
        (task.val, "val_mask"),
        (task.test, "test_mask"),
    ):
        assert torch.equal(nodes, data[mask].nonzero().view(-1)) and len(nodes)
    labelled = ~data.y.isnan()
    assert torch.equal(task.target.y[labelled].float(), data.y[labelled])
    assert (task.target.y[~labelled] == -1).all() and (~labelled).sum() == 24
    assert torch.allclose(task.target.x, data.x)


def test_states_of_a_graph_that_grows_are_pygs(graphland_folder):
    task = shifts.find("own_split")(name=f"{NAME}?split=THI", root=str(graphland_folder))
    first, second, third = theirs(graphland_folder, "THI")
    for graph, data in ((task.source, first), (task.validation, second), (task.target, third)):
        assert torch.allclose(graph.x, data.x) and graph.num_nodes == data.num_nodes
        assert set(zip(*graph.edge_index.tolist())) == set(zip(*data.edge_index.tolist()))
    train = torch.cat([task.train, task.source_val]).sort().values
    assert torch.equal(train, first.mask.nonzero().view(-1))
    assert len(task.source_val) == round(0.2 * len(train))
    assert torch.equal(task.val, second.mask.nonzero().view(-1))
    assert torch.equal(task.test, third.mask.nonzero().view(-1))
    new = ~torch.isin(third.cross_snapshot_node_id, first.cross_snapshot_node_id)
    assert torch.equal(task.pool, new.nonzero().view(-1))
    assert torch.isin(task.test, task.pool).all()
    other = shifts.find("own_split")(
        name=f"{NAME}?split=THI", root=str(graphland_folder), split_seed=1
    )
    assert other.fingerprint() != task.fingerprint()
    error = refused("name", datasets.load, f"{NAME}?split=THI", str(graphland_folder))
    assert "3 graphs" in str(error) and "own_split" in str(error)


def test_arguments_are_checked_against_the_class():
    name = catalogue.with_arguments(NAME, {"split": "TH", "to_undirected": "False"})
    assert name == f"{NAME}?split=TH&to_undirected=False"
    assert catalogue.with_arguments(name, {"split": "RL"}).endswith("?split=RL&to_undirected=False")
    assert catalogue.with_arguments("Cora", {}) == "Cora"
    made = catalogue.arguments(f"{name}&numerical_features_transform=None", pyg.GraphLandDataset)
    assert made == {
        "split": "TH",
        "to_undirected": False,
        "numerical_features_transform": None,
    }
    assert catalogue.arguments("Cora?num_val=7", pyg.Planetoid) == {"num_val": 7}
    for query in ("", "split=TH&pre_transform=os", "split=TH&root=/"):
        error = refused("name", catalogue.arguments, f"{NAME}?{query}", pyg.GraphLandDataset)
        assert error.code == "arguments"
    query = "split=TH&to_undirected=maybe"
    refused("name", catalogue.arguments, f"{NAME}?{query}", pyg.GraphLandDataset)
    refused("name", catalogue.arguments, "Cora?num_val=many", pyg.Planetoid)


def test_a_config_sets_arguments(gym, graphland_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GRAPHGYM_SRNC_DATA", str(graphland_folder))
    (tmp_path / "a.yaml").write_text(
        f"dataset:\n  args: {{split: THI}}\n  format: own_split\n  name: {NAME}\n"
    )
    cfg = gym.load_config(tmp_path / "a.yaml", ["dataset.args.split", "TH"])
    assert cfg.dataset.name == f"{NAME}?split=TH"
    assert gym.load_config(tmp_path / "a.yaml").dataset.name == f"{NAME}?split=THI"
    monkeypatch.chdir(tmp_path)
    words = "--no-figures --no-tensorboard train.mode erm erm.steps 5 gnn.dim_inner 8".split()
    assert main(["run", "--cfg", "close_set/graphland/tolokers-2", *words]) == 0
    assert "own_split" in "".join(capsys.readouterr())


def test_a_data_set_without_a_split_is_refused(graphland_folder, monkeypatch):
    graph = written.graph(60, 3)
    monkeypatch.setattr(datasets, "load_all", lambda *_: (graph,))
    error = refused("name", shifts.find("own_split"), name="Cora")
    assert "no train_mask" in str(error)

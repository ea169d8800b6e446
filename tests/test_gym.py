"""The adapter: configs made from signatures, YAML as a difference, builders, registered layers."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.datasets
from conftest import make_task, refused
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.models.layer import GeneralLayer, new_layer_config

from graphgym_srnc import backbones, methods, shifts
from graphgym_srnc.backbones import prepare
from graphgym_srnc.data import datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import prepare as gym_prepare
from graphgym_srnc.gym.build import own_graph, visible_task
from graphgym_srnc.gym.keys import not_read, stock_keys
from graphgym_srnc.gym.spec import GymEncoder, encoder_spec
from graphgym_srnc.io.settings import flatten

ROOT = Path(__file__).parents[1]


def test_blocks_are_the_signatures_and_take_no_key_of_graphgym(gym):
    schema = gym.schema()
    assert set(schema) == {"train", "dataset", *shifts.names(), *methods.names()}
    assert not set(shifts.names()) & set(methods.names())
    for block, entries in schema.items():
        assert all(option.key in global_cfg[block] and option.doc for option in entries), block
    assert not stock_keys() & {
        f"{block}.{option.key}" for block, entries in schema.items() for option in entries
    }
    assert not {key.partition(".")[0] for key in stock_keys()} & {*shifts.names(), *methods.names()}


def test_override_takes_the_type_of_its_key(gym):
    wanted = {"optim.base_lr": 1.0, "gnn.dim_inner": 64, "gnn.batchnorm": True}
    wanted |= {"dataset.name": "007", "synthetic.unseen": [1, 2], "custom_metrics": []}
    values = 1, "64", "true", "007", "[1, 2]", "[]"
    cfg = flatten(gym.load_config(None, [word for pair in zip(wanted, values) for word in pair]))
    for key, want in wanted.items():
        assert cfg[key] == want and type(cfg[key]) is type(want)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("erm.stepz", "3", "erm.steps"),
        ("optim.base_lr", "nan", "a number"),
        ("gnn.batchnorm", "1", "true or false"),
        ("train.mode", "standard", "a2gnn"),
        ("gnn.layer_type", "gcncov", "Did you mean gcnconv?"),
        ("gnn.layer_type", "gcn", "Did you mean gcnconv"),
        ("gnn.layer_type", "GraphSAGE", "Did you mean sageconv"),
        ("gnn.layer_type", "gin", "Did you mean ginconv"),
        ("gnn.layer_type", "GATv2", "Did you mean gatconv"),
        ("gnn.dropout", "1", "in [0, 1)"),
        ("num_threads", "0", "auto, or in [1, 1024]"),
        ("gnn.stage_type", "skipsum", "set it to 'stack'"),
        ("accelerator", "mps", "auto, cpu, cuda"),
        ("metric_best", "unknown_recall", "micro_f1"),
        ("custom_metrics", "[nope]", "no module registers the metric nope"),
        ("optim.max_epoch", "7", "set it to 200"),
    ],
)
def test_bad_value_names_its_key(gym, key, value, words):
    mode = [] if key == "train.mode" else ["train.mode", "pgl"]
    error = refused(key, gym.load_config, None, [*mode, key, value])
    assert error.key == key and words in error.message


def test_one_head_is_what_graphgym_gives(gym):
    """With batch normalisation the layer is GraphGym's own, which has one head."""
    words = ["gnn.layer_type", "gatconv", "gnn.batchnorm", "True"]
    with pytest.raises(InputError, match="gnn.att_heads: got 2; allowed: 1"):
        gym.load_config("testing/erm", words)
    assert gym.load_config("testing/erm", [*words, "gnn.att_heads", "1"])
    assert gym.load_config("testing/erm", [*words[:2], "gnn.att_heads", "4"]).gnn.att_heads == 4


def test_what_does_nothing_is_known(gym):
    for words, found in (
        ("", []),
        ("print file view_emb True", ["print", "view_emb"]),
        ("dataset.name Cora", ["dataset.name"]),
        ("dataset.name Cora dataset.format open_set", []),
        ("open_set.num_unseen 1 synthetic.num_classes 4", ["open_set.num_unseen"]),
        ("optim.momentum 0.5 optim.optimizer sgd", []),
    ):
        cfg = gym.load_config(None, ["train.mode", "erm", *words.split()])
        assert not_read([cfg], flatten(gym.load_config())) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gnn: {act: elu}\nseed: 1\ngnn: {dropout: 0.1}\n", "gnn is given twice"),
        ("gnn: {dim_inner: 8}\ngnn.dim_inner: 9\n", "sets gnn.dim_inner twice"),
        ("a: [", "^config: "),
        ("\xff\xfe", "^config: "),
        ("seed: !!python/object/apply:os.mkdir ['made']", "tag"),
    ],
)
def test_bad_yaml_is_refused_and_runs_no_code(gym, tmp_path, text, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=words):
        gym.load_config("bad.yaml")
    assert not Path("made").exists()


def test_yaml_is_a_difference_and_overrides_win(gym, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "seed: 7\ngnn:\n  dim_inner: 8\noptim:\ndataset:\n  name: 1e5\ntrain: {mode: erm}\n"
    )
    cfg = gym.load_config(path, ["seed", "9"])
    assert (cfg.seed, cfg.gnn.dim_inner, cfg.dataset.name, cfg.train.mode) == (9, 8, "1e5", "erm")
    assert cfg.gnn.dropout == gym.load_config().gnn.dropout == 0.5
    with pytest.raises(InputError, match="paper/open_set/cora-srnc"):
        gym.load_config("paper/open_set/cora-srcn")


def test_data_folder(gym, monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHGYM_SRNC_DATA", "/somewhere")
    assert gym.load_config().dataset.dir == "/somewhere"
    (tmp_path / "mine.pt").touch()
    cfg = gym.load_config("own", ["dataset.dir", str(tmp_path), "dataset.name", "mine.pt"])
    assert own_graph(cfg) == tmp_path / "mine.pt"
    monkeypatch.delenv("GRAPHGYM_SRNC_DATA")
    assert gym.load_config().dataset.dir == "./datasets"


def test_load_config_leaves_the_global_config_alone(gym):
    before = copy.deepcopy(global_cfg)
    cfg = gym.load_config("testing/erm", ["seed", "5"])
    assert global_cfg == before
    gym.activate(cfg)
    assert global_cfg == cfg and global_cfg.gnn is not cfg.gnn


def test_split_seed_follows_the_seed_unless_given(gym):
    def prints(*overrides):
        return gym.build_task(gym.load_config("testing/erm", list(overrides))).fingerprint()

    assert prints("seed", "3") == prints("synthetic.split_seed", "3") != prints("seed", "4")
    fixed = "synthetic.split_seed", "1"
    assert prints("seed", "3", *fixed) == prints("seed", "4", *fixed)


def test_build_method_takes_every_key(gym):
    words = (
        "erm.steps 3 gnn.dim_inner 24 gnn.layers_mp 3 gnn.dropout 0.25 gnn.act elu "
        "gnn.att_heads 4 dataset.normalize l2 optim.base_lr 0.5 optim.weight_decay 0.25"
    )
    method = gym.build_method(gym.load_config("testing/erm", words.split()))
    spec = method.encoder
    assert (spec.hidden, spec.layers, spec.dropout, spec.act) == (24, 3, 0.25, "elu")
    assert (method.steps, spec.heads, spec.features) == (3, 4, "l2")
    group = method.make_optimizer([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (0.5, 0.25)


def test_optimizers_are_graphgyms(gym):
    from torch_geometric.graphgym.optim import create_optimizer

    method = gym.build_method(gym.load_config("testing/erm", ["optim.optimizer", "sgd"]))
    optimizer = method.make_optimizer(torch.nn.Linear(1, 1).parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    cfg = gym.load_config("testing/erm")
    weights = []
    for make in (gym.build_method(cfg).make_optimizer, partial(create_optimizer, cfg=cfg.optim)):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = make([weight])
        for _ in range(5):
            optimizer.zero_grad()
            (weight**3).sum().backward()
            optimizer.step()
        weights.append(weight.detach())
    assert torch.allclose(*weights, atol=1e-7)


def test_oracle_method_needs_an_oracle(gym):
    with pytest.raises(InputError, match="train.mode: iid needs .*oracle"):
        gym.fit(gym.load_config("testing/iid"), make_task(oracle=False))


def test_validation_nodes_teach_unless_one_of_them_is_unknown(task):
    drawn = replace(task, val_may_teach=True)
    crossing = methods.find("srnc_plus")
    assert drawn.validates_unknown and visible_task(crossing, drawn) is drawn
    known = replace(drawn, val=drawn.val[drawn.target.y[drawn.val] < drawn.num_known])
    assert not len(visible_task(crossing, known).val)
    assert visible_task(methods.find("erm"), known) is known


class EdgeMean(torch.nn.Module):
    """A layer that a user might register: the mean over neighbours, then a linear map."""

    def __init__(self, layer_config, **kwargs):
        super().__init__()
        dims = layer_config.dim_in, layer_config.dim_out
        self.map = torch.nn.Linear(*dims, bias=layer_config.has_bias)

    def forward(self, batch):
        row, column = batch.edge_index
        total = torch.zeros_like(batch.x).index_add(0, row, batch.x[column])
        batch.x = self.map(total / torch.bincount(row, minlength=len(total)).clamp(min=1)[:, None])
        return batch


@pytest.mark.parametrize("mode", ["srnc_plus", "openwgl"])
def test_a_registered_layer_trains_with_each_method(gym, task, mode):
    register.register_layer("edgemean", EdgeMean)
    method, record = gym.fit(
        gym.load_config(f"testing/{mode}", ["gnn.layer_type", "edgemean", f"{mode}.steps", "3"]),
        task,
    )
    assert any(isinstance(module, GymEncoder) for module in method.modules())
    assert record.history and 0 <= record.test["micro_f1"] <= 1


@pytest.mark.parametrize(
    ("words", "fast", "kind"),
    [
        ("gnn.layer_type generalconv", False, "ReLU"),
        ("gnn.layer_type sageconv gnn.batchnorm True", False, "BatchNorm1d"),
        ("gnn.layer_type gcnconv gnn.act swish", True, ""),
    ],
)
def test_graphgyms_layers_serve_where_ours_do_not(gym, task, words, fast, kind):
    method, _ = gym.fit(gym.load_config("testing/erm", words.split()), task)
    assert isinstance(method.classifier, GymEncoder) != fast
    assert kind in {"", *(type(module).__name__ for module in method.modules())}


def make_encoder(gym, *overrides, out_dim=4):
    cfg = gym.load_config("testing/erm", list(overrides))
    gym.activate(cfg)
    return backbones.build(encoder_spec(cfg), 12, out_dim)


def test_gym_encoder_is_graphgyms_layer(gym, task):
    words = "gnn.layer_type sageconv gnn.batchnorm True gnn.l2norm True gnn.dropout 0"
    encoder = make_encoder(gym, *words.split())
    assert isinstance(encoder, GymEncoder)
    config = new_layer_config(12, 16, 1, has_act=True, has_bias=False, cfg=global_cfg)
    theirs = GeneralLayer("sageconv", config)
    theirs.load_state_dict(encoder.layers[0].layer.state_dict())
    view = encoder.view(prepare(task.source, "row"))
    batch = Data(x=view.x, edge_index=view.blocks[0].data.edge_index)
    assert torch.equal(encoder.embed(view)[1], theirs(batch).x)


def test_fast_path_where_it_does_what_is_asked(gym, task):
    for kind, cls in backbones.BACKBONES.items():
        words = ["gnn.layer_type", kind]
        assert type(make_encoder(gym, *words, out_dim=4)) is cls
        if kind not in ("dgi", "gatdrop", "sgconv", "sign"):  # which GraphGym does not have
            slow = make_encoder(gym, *words, "gnn.batchnorm", "True", "gnn.att_heads", "1")
            assert type(slow) is GymEncoder
    fast = make_encoder(gym, "gnn.layer_type", "gcnconv").eval()
    slow = GymEncoder(fast.spec, 12, 4).eval()
    with torch.no_grad():
        for a, b in zip(fast.layers, slow.layers):
            conv = (b.layer.layer if isinstance(b.layer, GeneralLayer) else b.layer).model
            conv.lin.weight.copy_(a.weight.T)
            (conv.bias if b.bias is None else b.bias).copy_(torch.rand_like(a.bias))
            a.bias.copy_(conv.bias if b.bias is None else b.bias)
    graph = prepare(task.source, "row")
    assert torch.allclose(fast(fast.view(graph)), slow(slow.view(graph)), atol=1e-5)


STOCK = """
import json, os
if os.environ.get("PLUGIN"):
    import graphgym_srnc.gym
from torch_geometric.graphgym import register, set_cfg, cfg
set_cfg(cfg)
print("RESULT" + json.dumps([cfg, sorted(register.layer_dict), sorted(register.act_dict)]))
"""


# Data sets are downloaded and read once before workers start.


def test_downloads_are_kept_where_the_folder_takes_them(monkeypatch, tmp_path):
    downloads = []

    class Small(InMemoryDataset):
        raw_file_names = ("edges.npy",)
        processed_file_names = "data.pt"

        def __init__(self, root: str) -> None:
            super().__init__(root)
            self.load(self.processed_paths[0])

        def download(self) -> None:
            downloads.append(self.raw_dir)
            np.save(Path(self.raw_dir) / "edges.npy", np.arange(30).reshape(2, 15))

        def process(self) -> None:
            edges = torch.from_numpy(np.load(self.raw_paths[0]))
            graph = Data(x=torch.eye(30), edge_index=edges, y=torch.arange(30) % 3)
            self.save([graph], self.processed_paths[0])

    monkeypatch.setattr(torch_geometric.datasets, "Small", Small, raising=False)
    monkeypatch.setattr(datasets, "SAFE", {*datasets.SAFE, "Small"})
    monkeypatch.setattr(Small, "__module__", "torch_geometric.datasets")
    for _ in range(2):
        datasets.load.cache_clear()
        datasets.load("Small", str(tmp_path / "data"))
    files = [path.name for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files == ["edges.npy"] and len(downloads) == 1
    (tmp_path / "file").touch()
    assert datasets.load("Small", str(tmp_path / "file")).num_nodes == 30
    datasets.load.cache_clear()


def test_each_data_set_is_prepared_once(gym, monkeypatch):
    others = ", seed 3, train.mode erm, synthetic.split_seed 4, synthetic.num_unseen 1"
    others = [more.split() for more in f"{others}, gnn.dim_inner 3".split(", ")]
    configs = [gym.load_config(None, ["synthetic.num_nodes", "400", *more]) for more in others]
    made = []
    monkeypatch.setattr(
        gym_prepare, "build_task", lambda cfg: made.append(cfg) or gym.build_task(cfg)
    )
    found = gym_prepare.prepare([*zip(configs, "012345")])
    assert made == [configs[0], configs[4]]
    assert found == {gym_prepare.data_key(cfg): gym.build_task(cfg).fingerprint() for cfg in made}
    keys = [gym_prepare.data_key(cfg) for cfg in configs]
    assert keys[0] == keys[2] == keys[5] and len({*keys}) == 4


def test_what_cannot_be_prepared_is_named(gym, tmp_path):
    good = gym.load_config(None, ["synthetic.num_nodes", "400"])
    words = f"dataset.format file dataset.name nothing.pt dataset.dir {tmp_path}"
    bad = gym.load_config(None, words.split())
    told = r"file.path: 'nothing.pt' does not exist.*\(file/nothing.pt, config two\)"
    with pytest.raises(InputError, match=told):
        gym_prepare.prepare([(good, "one"), (bad, "two")])


@pytest.mark.slow
def test_graphgym_is_unchanged():
    results = []
    for plugin in ("", "1"):
        command = [sys.executable, "-W", "ignore", "-c", STOCK]
        env = os.environ | {"PLUGIN": plugin}
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout.split("RESULT")[1]))
    (stock, *known), (own, *own_known) = results
    assert known == own_known
    for block, keys in stock.items():
        kept = keys.items() <= own[block].items() if isinstance(keys, dict) else own[block] == keys
        assert kept, block

"""The adapter: configs made from signatures, yaml as a difference, builders, registered layers."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from conftest import make_task
from torch_geometric.data import Data
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import CN, set_cfg
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.models.layer import GeneralLayer, new_layer_config

from graphgym_srnc import backbones, methods, shifts
from graphgym_srnc.backbones import prepare
from graphgym_srnc.core import environment, options
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.gym import keys as table
from graphgym_srnc.gym.config import dump_config, not_read
from graphgym_srnc.gym.encoder import GymEncoder, encoder_spec
from graphgym_srnc.io import configs
from graphgym_srnc.io.settings import flatten

ROOT = Path(__file__).parents[1]


def test_blocks_are_the_signatures(gym):
    schema = gym.schema()
    assert set(schema) == {"train", "dataset", *shifts.names(), *methods.names()}
    assert not set(shifts.names()) & set(methods.names())
    for block, entries in schema.items():
        assert all(option.key in global_cfg[block] for option in entries)
    steps = next(option for option in schema["erm"] if option.key == "steps")
    assert steps.type is int and steps.doc.startswith("gradient steps")


def test_no_block_takes_a_key_of_graphgym(gym):
    register.config_dict.clear()
    stock = CN()
    set_cfg(stock)
    assert not set(stock) & {*shifts.names(), *methods.names()}
    assert not any(
        option.key in stock[block]
        for block in ("train", "dataset")
        for option in gym.schema()[block]
    )


def test_every_option_has_a_doc(gym):
    silent = [
        f"{block}.{option.key}"
        for block, entries in gym.schema().items()
        for option in entries
        if not option.doc
    ]
    assert not silent


def test_docs_and_signature():
    def function(
        *,
        name: str = "Cora",
        a: int = 1,
        b: float = 0.5,
        pick: tuple = (),
        encoder: object = None,
        **base,
    ):
        """What it does.

        Args:
            a, b: two
                lines.
            pick: a list.

        Raises:
            InputError: never.
        """

    assert options.docs(function) == {"a": "two lines.", "b": "two lines.", "pick": "a list."}
    assert [(o.key, o.type, o.default) for o in options.options(function)] == [
        ("a", int, 1),
        ("b", float, 0.5),
        ("pick", tuple, ()),
    ]


@pytest.mark.parametrize(
    ("key", "value", "want"),
    [
        ("optim.base_lr", "1", 1.0),
        ("optim.base_lr", "1e-3", 0.001),
        ("optim.base_lr", 1, 1.0),
        ("gnn.dim_inner", "64", 64),
        ("gnn.dim_inner", 64, 64),
        ("train.auto_resume", "true", True),
        ("train.auto_resume", False, False),
        ("dataset.name", "007", "007"),
        ("dataset.name", "1e5", "1e5"),
        ("dataset.name", 2024, "2024"),
        ("optim.steps", "[1, 2]", [1, 2]),
        ("optim.steps", [1, 2], [1, 2]),
        ("dataset.split", "[1, 0, 0]", [1.0, 0.0, 0.0]),
        ("custom_metrics", "[micro_f1]", ["micro_f1"]),
    ],
)
def test_override_takes_the_type_of_its_key(gym, key, value, want):
    cfg = gym.load_config(None, ["train.mode", "standard", key, value])
    for part in key.split("."):
        cfg = cfg[part]
    assert cfg == want and type(cfg) is type(want)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("erm.stepz", "3", "erm.steps"),
        ("stepz", "3", "no such config"),
        ("gnn", "3", "no such"),
        ("erm.steps.x", "3", "no such config"),
        ("erm.steps", "3.5", "an integer"),
        ("erm.steps", "many", "an integer"),
        ("erm.steps", "true", "an integer"),
        ("optim.base_lr", "fast", "a number"),
        ("optim.base_lr", "nan", "a number"),
        ("optim.base_lr", "inf", "a number"),
        ("optim.base_lr", "-1", "0 or more"),
        ("gnn.batchnorm", "1", "true or false"),
        ("optim.steps", "3", "a list"),
        ("optim.steps", "[a]", "an integer"),
        ("optim.steps", "[1", "a list"),
        ("train.mode", "magic", "standard, a2gnn"),
        ("dataset.format", "PyG", "synthetic"),
        ("gnn.layer_type", "nolayer", "gcnconv"),
        ("gnn.act", "wiggle", "relu"),
        ("gnn.dropout", "1", "in [0, 1)"),
        ("gnn.layers_mp", "0", "1 or more"),
        ("gnn.dim_inner", "0", "1 or more"),
        ("gnn.att_heads", "0", "1 or more"),
        ("train.selection", "test", "target_val"),
        ("train.min_agreement", "1.5", "in [0, 1]"),
        ("train.max_episodes", "-2", "-1 or more"),
        ("train.patience", "-1", "0 or more"),
        ("train.checkpoint", "2", "in [0, 1]"),
        ("num_threads", "0", "auto, or in [1, 1024]"),
        ("dataset.normalize", "rows", "row, l2, auto, none"),
        ("optim.optimizer", "adamax", "adam"),
        ("optim.scheduler", "cos", "none"),
        ("gnn.stage_type", "skipsum", "stack with train.mode pgl"),
        ("dataset.task", "edge", "node"),
        ("seed", "-1", "in [0, 4294967295]"),
        ("pgl.enlarging", "0", None),
        ("accelerator", "mps", "auto, cpu, cuda"),
        ("round", "-1", "in [0, 17]"),
        ("num_threads", "1000000", "in [1, 1024]"),
        ("metric_best", "nope", "micro_f1"),
        ("metric_agg", "sort", "argmax, argmin"),
        ("print", "loud", "both, stdout, file"),
        ("gnn.agg", "median", "add, sum, mean"),
        ("bn.eps", "0", "above 0"),
        ("run_dir", "mine", "it is made of out_dir"),
        ("share.dim_in", "3", "GraphGym takes it from the data"),
        ("device", "cuda:1", "accelerator"),
    ],
)
def test_bad_value_names_its_key(gym, key, value, words):
    mode = [] if key == "train.mode" else ["train.mode", "pgl"]
    with pytest.raises(InputError) as error:
        gym.load_config(None, [*mode, key, value])
    assert error.value.key == key and (words is None or words in error.value.message)


def test_threads_are_a_number_or_chosen_by_the_size_of_the_graph(gym, tmp_path, monkeypatch):
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    large = environment.SECOND_THREAD
    chosen = [environment.threads("auto", edges) for edges in (0, large - 1, large, 9 * large)]
    assert chosen == [1, 1, 2, 2] and environment.threads(3, 9 * large) == 3
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert environment.threads("auto", large) == 1

    (tmp_path / "auto.yaml").write_text("num_threads: auto\n")
    auto = gym.load_config(tmp_path / "auto.yaml")
    assert auto.num_threads == "auto" and gym.parse_config(dump_config(auto)) == auto
    two = gym.load_config(tmp_path / "auto.yaml", ["num_threads", "2"])
    assert (two.num_threads, type(two.num_threads)) == (2, int)
    assert configs.glance(tmp_path / "auto.yaml", [])["num_threads"] == "auto"
    for word in ("many", "Auto", "2.5"):
        with pytest.raises(InputError, match="num_threads"):
            gym.load_config(None, ["num_threads", word])


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("optim.max_epoch", "-5", "1 or more"),
        ("train.batch_size", "-3", "1 or more"),
        ("num_workers", "-3", "in [0, 1024]"),
        ("dataset.split", "[5, -3]", "in [0, 1]"),
        ("custom_metrics", "[micro_f1, nope]", "macro_f1"),
        ("train.sampler", "all", "full_batch"),
        ("gnn.stage_type", "pile", "skipsum"),
        ("gnn.layers_pre_mp", "-1", "0 or more"),
        ("dataset.task_type", "ranking", "classification"),
        ("model.size_average", "max", "mean, sum"),
        ("optim.momentum", "2", "in [0, 1]"),
        ("optim.steps", "[3, 0]", "1 or more"),
        ("share.dim_out", "3", "GraphGym takes it from the data"),
    ],
)
def test_bad_value_of_a_key_of_graphgym(gym, key, value, words):
    """What only GraphGym's own training reads; a method refuses it whatever the number."""
    with pytest.raises(InputError) as error:
        gym.load_config("testing/standard", [key, value])
    assert error.value.key == key and words in error.value.message
    with pytest.raises(InputError) as error:
        gym.load_config("testing/srnc", [key, value])
    assert error.value.key == key


def changed(value):
    """Another value of the same type that GraphGym could have."""
    if isinstance(value, list):
        return [str(changed(item)) for item in value[:-1]]
    kinds = {
        bool: lambda: not value,
        int: lambda: value + 1,
        float: lambda: value / 2,
        str: lambda: "other",
    }
    return str(kinds[type(value)]())


def test_every_key_of_graphgym_is_treated_in_one_way(gym):
    """A key that a new version of GraphGym brings fails here by its name."""
    stock = CN()
    set_cfg(stock)
    stock.run_dir = stock.out_dir
    ours = {
        f"{block}.{option.key}" for block, entries in gym.schema().items() for option in entries
    }
    classes = [table.READ, set(table.UNREAD), set(table.TOLD), set(table.MADE), ours]
    assert not [key for key in flatten(stock) if sum(key in some for some in classes) != 1]
    assert set().union(*classes, table.limits(stock)) == set(flatten(stock))


@pytest.mark.parametrize("key", sorted(table.UNREAD))
def test_a_key_that_no_method_reads_is_refused(gym, key):
    value = changed(flatten(gym.load_config())[key])
    with pytest.raises(InputError, match="train.mode srnc does not read this key") as error:
        gym.load_config("testing/srnc", [key, value])
    assert error.value.key == key
    cfg = gym.load_config("testing/srnc", [key, value], stored=True)
    assert cfg == gym.load_config("testing/srnc")


def test_one_head_is_what_graphgym_gives(gym):
    """With batch normalisation the layer is GraphGym's own, which has no heads to set."""
    words = ["gnn.layer_type", "gatconv", "gnn.batchnorm", "True"]
    with pytest.raises(InputError, match="gnn.att_heads: .*set to 2. Remove it, or set it to 1"):
        gym.load_config("testing/erm", words)
    assert gym.load_config("testing/erm", words, stored=True).gnn.att_heads == 1
    assert gym.load_config("testing/erm", [*words, "gnn.att_heads", "1"])
    assert gym.load_config("testing/erm", [*words[:2], "gnn.att_heads", "4"]).gnn.att_heads == 4


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", []),
        ("print file view_emb True", ["print", "view_emb"]),
        ("srgnn.rounds 3 erm.steps 9", ["srgnn.rounds"]),
        ("open_set.num_unseen 1 synthetic.num_classes 4", ["open_set.num_unseen"]),
        ("gnn.agg max", ["gnn.agg"]),
        ("gnn.agg max gnn.layer_type generalconv", []),
        ("bn.mom 0.2", ["bn.mom"]),
        ("bn.mom 0.2 gnn.batchnorm True", []),
        ("optim.momentum 0.5", ["optim.momentum"]),
        ("optim.momentum 0.5 optim.optimizer sgd", []),
        ("train.patience 2", []),
        ("train.mode standard train.patience 2", ["train.patience"]),
        ("train.mode standard print file gnn.agg max", []),
    ],
)
def test_what_does_nothing_is_known(gym, words, found):
    assert not_read([gym.load_config(None, ["train.mode", "erm", *words.split()])]) == found


def test_what_one_config_of_a_grid_reads_is_read(gym):
    configs = [
        gym.load_config(f"testing/{mode}", ["srgnn.rounds", "3", "dann.rounds", "3"])
        for mode in ("erm", "srgnn")
    ]
    assert "srgnn.rounds" not in not_read(configs) and "dann.rounds" in not_read(configs)


@pytest.mark.parametrize(
    "words", [["srnc.rounds=3"], ["seed", "3", "srnc.rounds=3"], ["srnc.rounds=3", "seed=1"]]
)
def test_an_equals_sign_is_explained(gym, words):
    with pytest.raises(InputError, match="with a space: srnc.rounds 3"):
        gym.load_config(None, words)


def test_odd_overrides(gym):
    with pytest.raises(InputError, match="pairs"):
        gym.load_config(None, ["seed"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "gnn: {dim_inner: 8}\nseed: 1\ngnn: {dropout: 0.1}\n",
            "key gnn is given twice, in line 1 and in line 3",
        ),
        (
            "gnn:\n  dim_inner: 8\n  act: elu\n  dim_inner: 9\n",
            "dim_inner is given twice, in line 2",
        ),
        ("gnn: {dim_inner: 8}\ngnn.dim_inner: 9\n", "sets gnn.dim_inner twice"),
    ],
)
def test_a_key_given_twice_is_refused(gym, tmp_path, text, words):
    path = tmp_path / "twice.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        gym.load_config(path)


def test_yaml_is_a_difference_and_overrides_win(gym, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "seed: 7\ngnn:\n  dim_inner: 8\noptim:\ndataset:\n  name: 1e5\ntrain: {mode: erm}\n"
    )
    cfg = gym.load_config(path, ["seed", "9"])
    assert (cfg.seed, cfg.gnn.dim_inner, cfg.dataset.name, cfg.train.mode) == (9, 8, "1e5", "erm")
    assert cfg.gnn.dropout == gym.load_config().gnn.dropout == 0.5
    assert gym.load_config(str(path.with_suffix(""))).seed == 7


@pytest.mark.parametrize("text", ["a: [", "- a\n- b", "\xff\xfe", "text"])
def test_unreadable_yaml(gym, tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="--cfg"):
        gym.load_config(path)


def test_yaml_runs_no_code(gym, tmp_path):
    for name, text in (
        ("a.yaml", f"seed: !!python/object/apply:os.mkdir ['{tmp_path}/made']"),
        ("b.py", f"import os; os.mkdir('{tmp_path}/made')"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError):
            gym.load_config(tmp_path / name)
    assert not (tmp_path / "made").exists()


def test_unknown_config_name_offers_near_ones(gym):
    with pytest.raises(InputError, match="paper/open_set/cora-srnc"):
        gym.load_config("paper/open_set/cora-srcn")


def test_dumped_config_loads_again(gym, tmp_path):
    cfg = gym.load_config("testing/erm", ["seed", "3"])
    (tmp_path / "config.yaml").write_text(cfg.dump())
    assert gym.load_config(tmp_path / "config.yaml") == cfg
    assert yaml.safe_load(cfg.dump())["seed"] == 3


def test_data_folder(gym, monkeypatch):
    monkeypatch.setenv("GRAPHGYM_SRNC_DATA", "/somewhere")
    assert gym.load_config().dataset.dir == "/somewhere"
    assert gym.load_config(None, ["dataset.dir", "/mine"]).dataset.dir == "/mine"
    monkeypatch.delenv("GRAPHGYM_SRNC_DATA")
    assert gym.load_config().dataset.dir == "./datasets"


def test_load_config_leaves_the_global_config_alone(gym):
    before = copy.deepcopy(global_cfg)
    cfg = gym.load_config("testing/erm", ["seed", "5"])
    assert global_cfg == before
    gym.activate(cfg)
    assert global_cfg == cfg and global_cfg.gnn is not cfg.gnn
    gym.activate(global_cfg)
    assert global_cfg == cfg


def test_split_seed_follows_the_seed_unless_given(gym):
    def prints(*overrides):
        return gym.build_task(gym.load_config("testing/erm", list(overrides))).fingerprint()

    assert prints("seed", "3") == prints("synthetic.split_seed", "3") != prints("seed", "4")
    fixed = "synthetic.split_seed", "1"
    assert prints("seed", "3", *fixed) == prints("seed", "4", *fixed)


def test_build_method_takes_every_key(gym, task):
    words = (
        "erm.steps 3 gnn.dim_inner 24 gnn.layers_mp 3 gnn.dropout 0.25 gnn.act elu "
        "gnn.att_heads 4 dataset.normalize l2 optim.base_lr 0.5 optim.weight_decay 0.25"
    )
    cfg = gym.load_config("testing/erm", words.split())
    method = gym.build_method(cfg, task)
    spec = method.encoder
    assert (spec.hidden, spec.layers, spec.dropout, spec.act) == (24, 3, 0.25, "elu")
    assert (method.steps, spec.heads, spec.features) == (3, 4, "l2")
    group = method.make_optimizer([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (0.5, 0.25)


def test_optimizer_of_graphgym(gym, task):
    register.register_optimizer(
        "plain", lambda params, base_lr: torch.optim.SGD(params, lr=base_lr)
    )
    for name in ("sgd", "plain"):
        method = gym.build_method(gym.load_config("testing/erm", ["optim.optimizer", name]), task)
        optimizer = method.make_optimizer(torch.nn.Linear(1, 1).parameters())
        assert isinstance(optimizer, torch.optim.SGD)


def test_own_adam_is_graphgyms_adam(gym):
    from torch_geometric.graphgym.optim import create_optimizer

    from graphgym_srnc.gym.build import make_optimizer

    cfg, weights = gym.load_config("testing/erm"), []
    for make in (make_optimizer(cfg.optim), partial(create_optimizer, cfg=cfg.optim)):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = make([weight])
        for _ in range(5):
            optimizer.zero_grad()
            (weight**3).sum().backward()
            optimizer.step()
        weights.append(weight.detach())
    assert torch.allclose(*weights, atol=1e-7)


def test_oracle_method_needs_an_oracle(gym):
    with pytest.raises(InputError, match="oracle"):
        gym.build_method(gym.load_config("testing/iid"), make_task(oracle=False))


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


@pytest.mark.parametrize("mode", methods.names())
@pytest.mark.parametrize("layer", ["generalconv", "ginconv", "edgemean"])
def test_any_registered_layer_trains(gym, task, mode, layer):
    register.register_layer("edgemean", EdgeMean)
    cfg = gym.load_config(f"testing/{mode}", ["gnn.layer_type", layer])
    method, record = gym.fit(cfg, task)
    assert any(isinstance(module, GymEncoder) for module in method.modules())
    assert record.history and 0 <= record.test["micro_f1"] <= 1


def test_a_registered_activation_works_on_graphgyms_layers(gym, task):
    register.act_dict["cube"] = Cube
    for act, kind in (("prelu", "PReLU"), ("cube", "Cube"), ("tanh", "Tanh"), ("swish", "SiLU")):
        words = ["gnn.layer_type", "sageconv", "gnn.batchnorm", "True", "gnn.act", act]
        method, _ = gym.fit(gym.load_config("testing/erm", words), task)
        assert kind in {type(module).__name__ for module in method.modules()}


@pytest.mark.parametrize(
    ("layer", "act", "fast"),
    [("gcnconv", "prelu", False), ("gcnconv", "swish", True), ("sgconv", "prelu", False)],
)
def test_graphgyms_layers_serve_where_ours_lack_an_activation(gym, task, layer, act, fast):
    words = ["gnn.layer_type", layer, "gnn.act", act]
    method, _ = gym.fit(gym.load_config("testing/erm", words), task)
    assert isinstance(method.classifier, GymEncoder) != fast
    with pytest.raises(InputError, match="gnn.layer_type: got 'dgi'; allowed: gatconv, gcnconv"):
        gym.fit(gym.load_config("testing/erm", ["gnn.layer_type", "dgi", "gnn.act", "prelu"]), task)


class Cube(torch.nn.Module):
    """A user's own activation."""

    def __init__(self, **kwargs):
        super().__init__()

    def forward(self, h):
        return h**3


def make_encoder(gym, *overrides, out_dim=4):
    cfg = gym.load_config("testing/erm", list(overrides))
    gym.activate(cfg)
    return backbones.build(encoder_spec(cfg), 12, out_dim)


def test_gym_encoder_keeps_the_contract(gym, task):
    graph, nodes = prepare(task.source, "row"), torch.tensor([3, 1, 4])
    before = task.source.clone()
    encoder = make_encoder(gym, "gnn.layer_type", "generalconv", "gnn.dropout", "0").eval()
    logits, hidden = encoder.embed(encoder.view(graph))
    assert logits.shape == (90, 4) and hidden.shape == (90, 16)
    assert bool((hidden >= 0).all()) and bool((logits < 0).any())
    view = encoder.view(graph, nodes)
    assert torch.equal(encoder(view), logits[nodes]) and torch.equal(encoder(view), encoder(view))
    with torch.no_grad():
        encoder.output_bias[2] += 10
    assert torch.allclose(encoder(view) - logits[nodes], torch.tensor([0.0, 0, 10, 0]), atol=1e-4)
    assert torch.equal(before.x, task.source.x)
    assert torch.equal(before.edge_index, task.source.edge_index)
    for layers, skip in ((1, False), (3, False), (3, True)):
        other = backbones.build(replace(encoder_spec(global_cfg), layers=layers, skip=skip), 12, 5)
        assert other(other.view(graph, nodes)).shape == (3, 5)


def test_gym_encoder_is_graphgyms_layer(gym, task):
    encoder = make_encoder(
        gym,
        "gnn.layer_type",
        "sageconv",
        "gnn.batchnorm",
        "True",
        "gnn.l2norm",
        "True",
        "gnn.dropout",
        "0",
    )
    assert isinstance(encoder, GymEncoder)
    config = new_layer_config(12, 16, 1, has_act=True, has_bias=False, cfg=global_cfg)
    theirs = GeneralLayer("sageconv", config)
    theirs.load_state_dict(encoder.layers[0].layer.state_dict())
    view = encoder.view(prepare(task.source, "row"))
    batch = Data(x=view.x, edge_index=view.blocks[0].data.edge_index)
    assert torch.equal(encoder.embed(view)[1], theirs(batch).x)


def test_fast_path_where_it_does_what_is_asked(gym):
    for kind, cls in backbones.BACKBONES.items():
        assert type(make_encoder(gym, "gnn.layer_type", kind, out_dim=4)) is cls
        if kind not in ("dgi", "gatdrop"):  # which GraphGym does not have
            slow = make_encoder(
                gym, "gnn.layer_type", kind, "gnn.batchnorm", "True", "gnn.att_heads", "1"
            )
            assert type(slow) is GymEncoder


def test_fast_gcn_agrees_with_graphgyms(gym, task):
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


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


STOCK = """
import json, logging, os, sys, torch
if os.environ.get("PLUGIN"):
    import graphgym_srnc.gym
from torch_geometric.data import Data
from torch_geometric.graphgym import register, set_cfg, load_cfg, create_model, train, cfg
from torch_geometric.graphgym.imports import pl
from torch_geometric.graphgym.train import GraphGymDataModule
from types import SimpleNamespace

class Own(list):
    _data = property(lambda self: self[0])

def load_own(format, name, dataset_dir):
    if format == "own":
        generator = torch.Generator().manual_seed(0)
        splits = enumerate(("train", "val", "test"))
        masks = {f"{split}_mask": torch.arange(60) % 3 == i for i, split in splits}
        edges = torch.randint(60, (2, 200), generator=generator)
        return Own([Data(x=torch.rand(60, 8, generator=generator), edge_index=edges,
                         y=torch.arange(60) // 20, **masks)])
register.register_loader("own", load_own)
os.chdir(sys.argv[-1] if len(sys.argv) > 1 else os.environ["WORK"])
with open("stock.yaml", "w") as file:
    file.write("dataset: {format: own, name: x}\\noptim: {max_epoch: 3}\\n"
               "gnn: {layers_post_mp: 1}\\naccelerator: cpu\\n"
               "train: {enable_ckpt: false}\\n")
load_cfg(cfg, SimpleNamespace(cfg_file="stock.yaml", opts=[]))
logging.disable(logging.CRITICAL)
pl.seed_everything(0)
datamodule = GraphGymDataModule()
model = create_model()
cfg.params = 0
train(model, datamodule, trainer_config={"enable_progress_bar": False, "logger": False})
rows = [json.loads(line) for split in ("train", "val", "test")
        for line in open(f"results/{split}/stats.json")]
rows = [{key: row[key] for key in ("epoch", "loss", "accuracy")} for row in rows]
known = sorted(register.layer_dict), sorted(register.act_dict)
print("RESULT" + json.dumps([rows, cfg, *known], default=str))
"""


def test_graphgym_is_unchanged(tmp_path):
    results = []
    for plugin in ("", "1"):
        work = tmp_path / f"work{plugin}"
        work.mkdir()
        out = run_python(STOCK, PLUGIN=plugin, WORK=str(work))
        results.append(json.loads(out.split("RESULT")[1]))
    (rows, stock, layers, acts), (own_rows, own, own_layers, own_acts) = results
    assert rows == own_rows and len(rows) == 3 + 4 + 1
    assert set(own_acts) - set(acts) == {"identity", "swish", "tanh"}
    assert set(own_layers) - set(layers) == {"sgconv"}
    for block, keys in stock.items():
        kept = keys.items() <= own[block].items() if isinstance(keys, dict) else own[block] == keys
        assert kept, block

"""Other plug-ins of GraphGym in the same process, and modules that register with GraphGym."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import torch
from conftest import ended, rows
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import CN

from graphgym_srnc import backbones, methods, shifts
from graphgym_srnc.api import estimators
from graphgym_srnc.cli.main import main
from graphgym_srnc.core import plugins
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.keys import add_options, stock_keys
from graphgym_srnc.gym.main import register_main


def test_names_that_are_taken_keep_their_owner(gym):
    register.train_dict["erm"] = "theirs"
    register_main()
    assert register.train_dict["erm"] == "theirs"


def test_a_block_of_another_plugin_gets_our_keys_beside_its_own():
    cfg = CN({"accelerator": "cpu", "out_dir": "x", "dann": CN({"strength": 0.5}), "erm": 3})
    add_options(cfg)
    assert cfg.dann.strength == 0.5 and "steps" in cfg.dann and cfg.erm == 3


MODULE = """
import torch
from torch_geometric.graphgym.config import CN, cfg
from torch_geometric.graphgym.register import (register_act, register_config, register_layer,
                                               register_metric)
from graphgym_srnc import shifts
from graphgym_srnc.backbones import Encoder, Layer
from graphgym_srnc.methods.erm import ERM

@register_config("mine")
def set_cfg_mine(cfg):
    cfg.mine = CN()
    cfg.mine.scale = 2.0

@register_layer("scaledconv")
class Scaled(torch.nn.Module):
    def __init__(self, config, **kwargs):
        super().__init__()
        self.linear = torch.nn.Linear(config.dim_in, config.dim_out)

    def forward(self, batch):
        mean = torch.zeros_like(batch.x).index_add_(0, batch.edge_index[1],
                                                    batch.x[batch.edge_index[0]])
        batch.x = self.linear(batch.x + cfg.mine.scale * mean / (1 + mean.abs().amax()))
        return batch

class Cube(torch.nn.Module):
    def forward(self, h):
        return h ** 3

register_act("cube", Cube)
register_metric("errors", lambda true, pred, task_type: -float(
    (torch.cat(pred).argmax(1) != torch.cat(true)).sum()))

class Foreign(ERM):
    '''A method of another package.

    Args:
        weight: of nothing.
    '''
    def __init__(self, *, weight: float = 0.5, **base):
        super().__init__(**base)

class OwnLayer(Layer):
    def forward(self, h, block):
        return block.root(h) @ self.weight + self.bias

class Own(Encoder):
    operator, layer = "gcn", OwnLayer

def build(*, name="", root="", split_seed=0, num_nodes=200):
    return shifts.find("synthetic")(num_nodes=num_nodes, num_features=20, num_val=30, num_test=50,
                                    labels_per_class=8)
"""

ENTRIES = """
[graphgym_srnc.register]
mine = otherpackage
[graphgym_srnc.methods]
foreign = otherpackage:Foreign
[graphgym_srnc.shifts]
made = otherpackage:build
[graphgym_srnc.backbones]
ownconv = otherpackage:Own
"""

USE = """
import graphgym_srnc
from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
task = shifts.find("made")(num_nodes=150)
Foreign = graphgym_srnc.Foreign
model = Foreign(backbone="ownconv", hidden=4, steps=2, weight=0.1).fit(task)
model.save("model.pt")
again = graphgym_srnc.load("model.pt")
assert type(again) is Foreign and again.weight == 0.1
assert (again.predict(task.target) == model.predict(task.target)).all()
words = ("run --no-figures --no-tensorboard --name one train.mode foreign dataset.format made"
         " made.num_nodes 160 foreign.steps 3 foreign.rounds 2 foreign.weight 0.3 gnn.dim_inner 8"
         " gnn.layer_type scaledconv gnn.act cube mine.scale 0.5 custom_metrics [errors]"
         " metric_best errors").split()
assert main(words) == 0
assert main([*words, "--resume", "foreign.weigth", "0.3"]) == 2
assert main(["predict", "results/one", "--out", "predictions.csv"]) == 0
"""


@pytest.mark.slow
def test_what_another_package_brings_reaches_commands_and_python(tmp_path):
    (tmp_path / "otherpackage.py").write_text(MODULE)
    info = tmp_path / "otherpackage-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: otherpackage\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    # The working directory, which Python searches first, contains the other package.
    done = ended([sys.executable, "-W", "ignore", "-c", USE], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "foreign.weigth: there is no such config key. Did you mean foreign.weight" in done.stderr
    result = json.loads((tmp_path / "results/one/0/result.json").read_text())
    config = result["config"]
    assert config["mine"]["scale"] == 0.5 and config["gnn"]["act"] == "cube"
    assert config["foreign"]["weight"] == 0.3 and result["method"] == "foreign"
    errors = [episode["val"]["errors"] for episode in result["history"]]
    assert result["val"]["errors"] == max(errors) == result["score"]
    # The scores are those of the decisions, the unknown class included.
    assert errors == pytest.approx(
        [30 * (episode["val"]["micro_f1"] - 1) for episode in result["history"]]
    )
    assert f"errors {result['test']['errors']:.4g}" in done.stdout
    assert len(rows(tmp_path / "predictions.csv")) == 160


NO_OPTION = "the argument 'weight' of .* cannot be an option"
SIGNATURES = {
    "Optioned": ("*, weight: Optional[float] = None, **base", f"{NO_OPTION}. Make it .* None is"),
    "Positional": ("weight=1.0, **base", NO_OPTION),
    "Bare": ("*, weight: float, **base", NO_OPTION),
    "Closed": ("*, weight: float = 1.0", "does not pass the options of its base class on"),
    "Swallowing": (
        "*, swallowed: float = 1.0, **other",
        r"on. Add \*\*base to its arguments",
    ),
    "Misspelt": ("*, weight: Weigth = 1.0, **base", "in Misspelt cannot be read .name 'Weigth' is"),
    "Whole": (
        "*, weight: float = 1, **base",
        "has the annotation float and the default 1",
    ),
    "Outside": ("*, weight: Share = 2.0, **base", r"float, in \[0, 1\] and the default 2.0"),
    "Chosen": ("*, kind: Literal['a'] = 'a', **base", "'kind' .* has the annotation Literal"),
}
"""Arguments of a method's constructor, and what is said of them; some do not reach its base."""

RETURNS = {
    "Undefined": (
        "logits",
        " * float('nan')",
        "error: Undefined, episode 0: a score .* is nan",
    ),
    "NoBegin": ("losses", " and self.on_target", "error in /place/mistakes.py:.* of the plug-in"),
}
"""What a method returns instead of what its base does, and the error of a run."""

MISTAKES = """
from typing import Literal, Optional
from graphgym_srnc.core.options import Share
from graphgym_srnc.methods.shared.supervised import Supervised

class Uncalled(Supervised):
    def __init__(self, *, weight: float = 1.0, **base):
        self.weight = weight

class Diverging(Supervised):
    def losses(self):
        return super().losses() | {"extra": super().losses()["source"] * float("nan")}

def nothing(*, name="", root="", num_nodes: int = 200):
    return None

def lacking(*, name="", root="", num_nodes: int = 200):
    return {}["x"]

def nameless(*, root=""):
    return None

def hidden(*, share: Optional[float] = None):
    return None

from graphgym_srnc.backbones import MLP

class Typing(MLP):
    operator = "gnc"
"""
for name, (words, _) in SIGNATURES.items():
    passed = "**base" if "base" in words else ""
    MISTAKES += f"""
class {name}(Supervised):
    def __init__(self, {words}):
        super().__init__({passed})
"""
for name, (method, words, _) in RETURNS.items():
    MISTAKES += f"""
class {name}(Supervised):
    def {method}(self, *given):
        return super().{method}(*given){words}
"""


@pytest.fixture
def mistaken(monkeypatch):
    """Plug-ins with one mistake each, by kind and name."""
    module = ModuleType("mistakes")
    exec(compile(MISTAKES, "/place/mistakes.py", "exec"), vars(module))
    monkeypatch.setitem(sys.modules, "mistakes", module)
    classes = [name for name, value in vars(module).items() if isinstance(value, type)]
    classes = [name for name in classes if name not in ("MLP", "Supervised", "Typing")]
    found = {name.lower(): f"mistakes:{name}" for name in classes}
    found |= {"renamed-x": "mistakes:Diverging", "mistakes": "mistakes"}
    found |= {"absent": "no_such_package:Broken", "wrong": "math:sqrt", "erm": "math:sqrt"}
    made = {name: f"mistakes:{name}" for name in ("nothing", "lacking", "hidden", "nameless")}
    kinds = {"methods": found, "shifts": made | {"away": "no_such_package:build"}}
    kinds["backbones"] = {"noconv": "math:sqrt", "typing": "mistakes:Typing"}
    entries = {
        kind: {name: EntryPoint(name, value, f"graphgym_srnc.{kind}") for name, value in of.items()}
        for kind, of in kinds.items()
    }
    monkeypatch.setattr(plugins, "entries", lambda kind: entries.get(kind, {}))
    plugins.warned.clear()


def test_a_name_of_a_config_block_is_taken(mistaken, monkeypatch, capsys):
    stock = {key.partition(".")[0] for key in stock_keys()}
    assert {*plugins.GRAPHGYM} == {*stock, "params", "run_dir", "standard"}
    kinds = {"methods": "dataset temporal both", "shifts": "coral both"}
    taken = {kind: {n: EntryPoint(n, "m:x", "") for n in kinds[kind].split()} for kind in kinds}
    monkeypatch.setattr(plugins, "entries", taken.get)
    assert methods.names() == methods.own_names() and shifts.names()[-1] == "both"
    told = re.findall("name '(.*)' of m in .* is taken, so it", capsys.readouterr().err)
    assert told == ["both", "dataset", "temporal", "coral"]


RUN = "run --no-figures --no-tensorboard gnn.dim_inner 4 synthetic.num_nodes 300".split()


def test_a_plugin_that_cannot_be_used_is_left_out(mistaken, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "train.mode", "erm", "erm.steps", "2"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    wanted = "absent bare chosen closed misspelt optioned outside positional swallowing uncalled"
    wanted += " whole wrong away hidden nameless renamed-x mistakes"
    wanted = wanted.split()
    left_out = [line for line in warnings if line.endswith("It is left out.")]
    assert len(left_out) == len(wanted) and "or uninstall no_such_package" in "".join(left_out)
    assert all(any(f" {name} in " in line for line in left_out) for name in wanted)
    assert sum("'erm' of math in graphgym_srnc.methods is taken" in line for line in warnings) == 1
    assert methods.find("erm").__module__ == "graphgym_srnc.methods.erm"
    assert {"ERM", "Diverging"} <= estimators().keys() and "Absent" not in estimators()
    assert "gcnconv" in dict(backbones.BACKBONES.items())
    assert main([*RUN, "train.mode", "absent"]) == main([*RUN, "dataset.format", "away"]) == 2
    told = capsys.readouterr().err
    assert "error: method absent: it cannot be used, see the warning above.\n" in told
    assert main([*RUN, "whole.weight", "2"]) == 2
    assert "error: method whole: it cannot be used" in capsys.readouterr().err  # not the key
    assert main([*RUN, "--name", "layer", "gnn.layer_type", "noconv"]) == 2
    assert capsys.readouterr().out == ""  # before anything is written


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "absent in no_such_package:Broken: it cannot be imported .ModuleNotFoundError"),
        ("wrong", "sqrt> is not a subclass of graphgym_srnc.methods.shared.base.Method"),
        ("uncalled", "does not pass the options of its base class on"),
        ("renamed-x", "the class Diverging has the name diverging in configs, not renamed-x"),
        ("mistakes", "mistakes: it defines no class Mistakes"),
        *((name.lower(), words) for name, (_, words) in SIGNATURES.items()),
    ],
)
def test_a_method_with_a_wrong_signature(mistaken, name, words):
    with pytest.raises(InputError, match=words):
        methods.find(name)


def test_a_shift_with_a_mistake(mistaken):
    with pytest.raises(InputError, match="'share' of hidden cannot be an option"):
        shifts.find("hidden")
    with pytest.raises(InputError, match="nameless in .*its build has no argument 'name'"):
        shifts.find("nameless")
    with pytest.raises(InputError, match="nothing: its build must return a ShiftTask, got NoneT"):
        shifts.find("nothing")()
    with pytest.raises(InputError, match="not a subclass of .*Encoder with a layer"):
        backbones.BACKBONES["noconv"]
    with pytest.raises(InputError, match="its operator is 'gnc'; allowed: raw, gcn, mean, loops"):
        backbones.BACKBONES["typing"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("train.mode diverging", "error: Diverging, episode 0: extra is nan. A lower"),
        ("dataset.format lacking", "error in /place/mistakes.py:18 of the plug-in mistakes: Key"),
        *((f"train.mode {name.lower()}", error) for name, (*_, error) in RETURNS.items()),
    ],
)
def test_a_mistake_in_a_plugin_is_a_sentence(mistaken, tmp_path, capsys, words, error):
    assert main([*RUN, "--out-dir", str(tmp_path), *words.split()]) in (1, 2)
    assert re.match(error, capsys.readouterr().err.splitlines()[-1])


@pytest.mark.parametrize("best", ["first_class", "accuracy", "undefined"])
def test_metric_best_selects_the_episode(gym, task, best):
    register.metric_dict["first_class"] = lambda true, pred, task_type: float(
        (torch.cat(pred).argmax(1) == 0).float().mean()
    )
    register.metric_dict["undefined"] = lambda true, pred, task_type: float("nan")
    words = "erm.rounds 4 erm.steps 5 train.max_episodes -1".split()
    words += ["custom_metrics", "[first_class,undefined]"]
    _, record = gym.fit(gym.load_config("testing/erm", [*words, "metric_best", best]), task)
    name = "micro_f1" if best == "accuracy" else best
    found = [episode.val.get(name, 0.0) for episode in record.history]
    assert len(found) == 5 and record.best == found.index(max(found))
    assert (
        (record.score is None) == (best == "undefined") == (best not in {"accuracy", *record.val})
    )


def test_a_metric_that_fails(gym, task):
    register.metric_dict["binary"] = lambda true, pred, task_type: 1 / 0
    cfg = gym.load_config("testing/erm", ["custom_metrics", "[binary]"])
    with pytest.raises(InputError, match="custom_metrics: the metric binary.*ZeroDivisionError"):
        gym.fit(cfg, task)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ("generaledgeconv", "TypeError.*maps batch.x"),
        ("oldstyle", "TypeError.*is made from a LayerConfig"),
    ],
)
def test_a_layer_that_cannot_run_is_one_line(gym, task, layer, words):
    register.layer_dict["oldstyle"] = torch.nn.Linear
    cfg = gym.load_config("testing/erm", ["gnn.layer_type", layer, "gnn.dim_inner", "8"])
    wanted = f"gnn.layer_type: the layer '{layer}' failed.*{words}"
    with pytest.raises(InputError, match=wanted):
        gym.fit(cfg, task)

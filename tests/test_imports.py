"""What is imported before it is needed: nothing that is slow."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from test_cli import environment
from test_store import record
from torch_geometric.graphgym.config import set_cfg
from yacs.config import CfgNode

from graphgym_srnc import gym
from graphgym_srnc.cli.main import INPUT
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.gym import run
from graphgym_srnc.io import configs
from graphgym_srnc.io.settings import flatten


def in_new_process(code: str, *args: str) -> object:
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        env=environment(),
        text=True,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_a_worker_takes_of_graphgym_what_methods_read_and_leaves_the_package_whole():
    late, gone, fine = in_new_process("""
import json, sys
from graphgym_srnc import environment
environment.is_command = True  # as a worker does
import graphgym_srnc.sweep.worker
slow = ["pytorch_lightning", "lightning", "sklearn", "matplotlib", "tensorboard", "scipy.stats"]
late = [name for name in slow if name in sys.modules]
from graphgym_srnc.gym import load_config
load_config("paper/open_set/cora-srnc")
late += [name for name in slow if name in sys.modules and name not in late]
import torch_geometric.graphgym as graphgym
from torch_geometric.graphgym import *
gone = [name for name in graphgym.__all__ if name not in globals()]
print(json.dumps([late, gone, "gnn" in graphgym.register.network_dict]))
""")
    assert (late, gone, fine) == ([], [], True)


def test_keys_and_defaults_are_read_from_sources_as_they_are():
    cfg = CfgNode()
    set_cfg(cfg)
    gym.config.add_options(cfg)
    there, found = flatten(cfg) | {"run_dir": ""}, configs.defaults()
    assert set(found) == set(there)
    spelt = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in found.items()
        if value is not configs.UNREAD
    }
    assert spelt == {key: there[key] for key in spelt}
    assert len(spelt) > 0.95 * len(there)


@pytest.mark.parametrize("name", [None, "paper/open_set/cora-srnc-plus", "testing/erm", "own"])
def test_a_glance_sees_the_config(name):
    words = ["seed", "7", "gnn.dim_inner", "32", "open_set.unseen", "[1, 2]"]
    seen, cfg = configs.glance(name, words), flatten(gym.load_config(name, words))
    assert seen == {key: cfg[key] for key in seen if key != "dataset.dir"} | {
        "dataset.dir": seen["dataset.dir"]
    }
    assert configs.agrees(cfg, seen) and not configs.agrees(cfg | {"gnn.dim_inner": 33}, seen)


BAD = [
    ("--cfg", "paper/open_set/cora-srn"),
    ("srnc.round", "3"),
    ("nothing.at_all", "3"),
    ("gnn.dim_inner", "many"),
    ("train.mode", "srncc"),
    ("dataset.format", "opn_set"),
    ("open_set.unseen", "1 2"),
    ("erm.rounds=3",),
    ("srnc.rounds",),
]


def test_names_keys_and_finished_results_are_refused_before_torch_is_imported(tmp_path):
    words = ["run", "--out-dir", str(tmp_path), "--name", "done", "--repeat", "2"]
    experiment = run.experiment(gym.load_config(None, ["out_dir", str(tmp_path)]), "done")
    experiment.begin(1)
    experiment.finish(1, record([0.5]))
    other = [*words, "srnc.rounds", "9"]
    with pytest.raises(InputError) as finished:
        experiment.plan([0, 1])
    told = in_new_process(
        """
import contextlib, io, json, sys
from graphgym_srnc.cli.main import main
told = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    told.append([status, err.getvalue(), sorted({"torch", "numpy", "yacs"} & set(sys.modules))])
print(json.dumps(told))
""",
        json.dumps(
            [["run", "--out-dir", str(tmp_path), *words] for words in BAD]
            + [["grid", "--grid", "grids/open_set", *words] for words in BAD]
            + [["predict", str(tmp_path), "--out", str(tmp_path / "a.csv")], words, other]
        ),
    )
    (status, message, heavy), (_, done, _) = told.pop(), told[-1]
    assert (status, "another config" in message, "torch" in heavy) == (INPUT, True, True)
    assert done.startswith(f"error: {finished.value}")
    assert [part for part in told if (part[0], part[2]) != (INPUT, [])] == []
    for words, *refused in zip(BAD, told, told[len(BAD) :]):
        name, rest = (words[1], ()) if words[0] == "--cfg" else (None, words)
        with pytest.raises(InputError) as error:
            gym.load_config(name, rest)
        assert all(message.startswith(f"error: {error.value}") for _, message, _ in refused)

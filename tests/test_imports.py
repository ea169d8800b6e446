"""What is imported before it is needed: nothing that is slow; what is refused without it."""

from __future__ import annotations

import json
import sys

import pytest
from conftest import ended

from graphgym_srnc.cli.main import INPUT
from graphgym_srnc.core import environment
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import load_config

CODE = """
import contextlib, gc, io, json, sys, time
from graphgym_srnc.cli.main import build_parser, main
from graphgym_srnc.cli.parser import COMMANDS, DATA_COMMANDS as DATA
build_parser().format_help()
for words in [[name, "--help"] for name in COMMANDS] + [["data", name, "--help"] for name in DATA]:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(words)
seconds = time.process_time()
heavy = {"numpy", "rich", "scipy", "sklearn", "torch", "yacs"}
told = [[0, "", sorted(heavy & {*sys.modules})]]
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    told.append([status, err.getvalue(), sorted({"numpy", "torch", "yacs"} & {*sys.modules})])
sys.argv = ["graphgym-srnc", *sys.argv[2:]]
assert main() == 0
assert gc.get_freeze_count() > 100_000  # imported objects, which no collection visits
slow = sorted({"lightning", "pytorch_lightning", "scipy.stats", "sklearn"} & {*sys.modules})
from torch_geometric.graphgym.train import train  # a command leaves GraphGym whole
print(json.dumps([seconds, slow, *told]))
"""


@pytest.mark.slow
def test_names_are_refused_before_torch_is_imported(tmp_path):
    """And a run imports neither Lightning nor scikit-learn."""
    commands = [
        ["run", "--cfg", "paper/open_set/cora-srn"],
        ["grid", "--grid", "grids/open_set", "--cfg", "paper/open_set/cora-srn"],
        ["predict", "nowhere", "--out", "predictions.csv"],
    ]
    run = "run --no-figures --no-tensorboard --out-dir . train.mode erm erm.steps 1".split()
    run += ["synthetic.num_nodes", "600"]
    done = ended([sys.executable, "-c", CODE, json.dumps(commands), *run], cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop(0) < 0.5  # seconds of a processor, for the help of all commands
    assert told.pop(0) == []
    assert told.pop(0) == [0, "", []]
    assert [part for part in told if (part[0], part[2]) != (INPUT, [])] == []
    with pytest.raises(InputError) as error:
        load_config("paper/open_set/cora-srn")
    assert all(error.value.message in message for _, message, _ in told[:2])


def test_two_functions_of_the_compiler_do_nothing_without_it():
    late = environment.LateCompiler(environment.LateCompiler.NAME)
    assert late.disable(len, True, wrapping=False) is len
    late.graph_break()
    assert not hasattr(late, "__file__")


COMPILED = """
import torch
from graphgym_srnc.core import environment
environment.own()
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.Adam([weight], fused=True)
weight.sum().backward()
optimizer.step()
assert isinstance(torch._dynamo, environment.LateCompiler)
double = torch.compile(lambda x: 2 * x, backend="eager")
assert double(torch.ones(2)).tolist() == [2, 2]
assert not isinstance(torch._dynamo, environment.LateCompiler)
weight.grad = torch.ones(2)
optimizer.step()
torch.optim.Adam([weight]).step()
"""


@pytest.mark.slow
def test_torch_compiles_in_a_command():
    done = ended([sys.executable, "-c", COMPILED])
    assert done.returncode == 0, done.stderr

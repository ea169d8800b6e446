"""What is imported before it is needed: nothing that is slow; what is refused without it."""

from __future__ import annotations

import json
import sys

import pytest
from conftest import ended

from graphgym_srnc.cli.main import INPUT, late_import
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


def test_a_late_import_happens_when_an_import_reads_from_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with late_import("colorsys"):
        assert "colorsys" not in sys.modules  # the process belongs to pytest
    monkeypatch.setattr(environment, "owned", True)
    with late_import("colorsys"):
        import colorsys

        assert not hasattr(colorsys, "__file__")
        assert sys.modules["colorsys"] is colorsys
    assert "colorsys" not in sys.modules
    assert colorsys.ONE_THIRD == pytest.approx(1 / 3)
    with late_import("colorsys"):
        from colorsys import rgb_to_hls
    assert sys.modules["colorsys"].rgb_to_hls is rgb_to_hls

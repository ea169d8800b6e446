"""What is imported before it is needed: nothing that is slow; what is refused without it."""

from __future__ import annotations

import json
import subprocess
import sys

from test_cli import environment

from graphgym_srnc.cli.main import INPUT

CODE = """
import contextlib, io, json, sys
from graphgym_srnc.cli.main import build_parser, main
build_parser().format_help()
heavy = {"numpy", "rich", "scipy", "sklearn", "torch", "yacs"}
told = [[0, "", sorted(heavy & {*sys.modules})]]
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    told.append([status, err.getvalue(), sorted({"numpy", "torch", "yacs"} & {*sys.modules})])
from torch_geometric.graphgym.train import train  # a command leaves GraphGym whole
print(json.dumps(told))
"""


def test_a_finished_run_is_refused_before_torch_is_imported(tmp_path):
    (tmp_path / "done" / "0").mkdir(parents=True)
    (tmp_path / "done" / "0" / "result.json").touch()
    start = ["run", "--out-dir", str(tmp_path)]
    commands = [
        [*start, "--name", "done"],
        [*start, "--cfg", "paper/open_set/cora-srn"],
        [*start, "srnc.rounds"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(commands)],
        env=environment(),
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop(0) == [0, "", []]
    assert [part for part in told if (part[0], part[2]) != (INPUT, [])] == []

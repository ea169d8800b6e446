"""What lies in the current folder, such as files of a downloaded data set, decides nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from graphgym_srnc.cli.main import main
from graphgym_srnc.core import environment
from graphgym_srnc.io import records

SHADOWS = ("pickle", "socket", "runpy", "signal", "tempfile", "selectors", "yaml", "numpy", "torch")
"""Modules that a worker process imports, of the standard library and of other packages."""

TINY = ["synthetic.num_nodes", "200", "erm.steps", "2", "erm.rounds", "0"]


@pytest.fixture
def folder_of_traps(tmp_path, monkeypatch):
    """The current folder, with modules that leave a mark and end the process if they run."""
    for name in SHADOWS:
        mark = tmp_path / f"{name} ran"
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\nraise SystemExit(0)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_workers_of_a_grid_import_nothing_of_it(folder_of_traps, capfd):
    (folder_of_traps / "grid.txt").write_text("gnn.dim_inner d [4]\n")
    words = ["grid", "--cfg", "testing/erm", "--grid", "grid.txt", "--name", "g", "--jobs", "1"]
    assert main([*words, *TINY]) == 0
    assert not list(folder_of_traps.glob("* ran"))
    assert list(records.read_results(folder_of_traps / "results" / "g" / "erm-d=4")) == [0]


def test_a_matplotlibrc_that_cannot_be_read_does_not_end_a_command(folder_of_traps):
    (folder_of_traps / "matplotlibrc").write_bytes(b"\xff\xfe lines.linewidth: 40")
    code = (
        "from graphgym_srnc.core import environment; environment.owned = True\n"
        "from graphgym_srnc.plots import charts\n"
        "import matplotlib, os; print(matplotlib.rcParams['lines.linewidth'], os.getcwd())"
    )
    (folder_of_traps.parent / "draw.py").write_text(code)
    command = [sys.executable, folder_of_traps.parent / "draw.py"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stdout.split() == ["1.5", str(folder_of_traps)], ran.stderr


def test_the_folder_is_the_same_afterwards(folder_of_traps):
    with pytest.raises(ValueError, match="inside"), environment.outside():
        assert str(folder_of_traps) != os.getcwd()
        raise ValueError("inside")
    assert str(folder_of_traps) == os.getcwd()

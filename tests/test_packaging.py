"""The sdist and the wheel made from it hold the code, the configs and true metadata."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from conftest import ended

import graphgym_srnc

ROOT = Path(__file__).parents[1]
SHIPPED = "graphgym_srnc configs_gym setup.py pyproject.toml MANIFEST.in LICENSE README.md".split()

ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""The environment of a command that finds the installed package alone."""

CONFIGS = "from graphgym_srnc.io.settings import config_root; print(config_root().is_dir())"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the sources."""
    copy = tmp_path_factory.mktemp("copy")
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(copy, tmp_path_factory) -> zipfile.ZipFile:
    """A wheel built from an sdist built from a copy of the sources."""
    pytest.importorskip("build")
    out = tmp_path_factory.mktemp("out")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy)
    assert list(out.glob("*.tar.gz"))
    return zipfile.ZipFile(next(out.glob("*.whl")))


def run(*words: str | Path) -> str:
    """Output of a command that succeeds."""
    done = subprocess.run([*map(str, words)], env=ALONE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_holds_code_and_configs(wheel):
    names = set(wheel.namelist())
    for path in (ROOT / "graphgym_srnc").rglob("*.py"):
        assert path.relative_to(ROOT).as_posix() in names
    configs = [
        path for path in (ROOT / "configs_gym").rglob("*") if path.suffix in (".yaml", ".txt")
    ]
    shipped = {name for name in names if name.startswith("graphgym_srnc/configs_gym/")}
    assert {f"graphgym_srnc/{path.relative_to(ROOT).as_posix()}" for path in configs} == shipped
    files = {"report/page.html", "own/discover/map.js", "py.typed", "__init__.pyi"}
    assert {f"graphgym_srnc/{file}" for file in files} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "configs_gym"))]


def test_metadata(wheel):
    info = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(info).decode())
    assert (metadata["Name"], metadata["Version"]) == ("graphgym-srnc", graphgym_srnc.__version__)
    assert "MIT" in (metadata["License"], metadata["License-Expression"])
    assert metadata["Summary"] and metadata["Requires-Python"] == ">=3.10"
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert all(">=" in line for line in needed) and not any("[graphgym]" in line for line in needed)
    assert {"ray", "tune", "dev"} <= set(metadata.get_all("Provides-Extra"))
    points = wheel.read(info.replace("METADATA", "entry_points.txt")).decode()
    assert "graphgym-srnc = graphgym_srnc.cli.main:main" in points


def test_installed_package_finds_its_configs(wheel, tmp_path):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    wheel.extractall(site)
    elsewhere.mkdir()
    code = (
        "from graphgym_srnc.gym import *; cfg = load_config('paper/open_set/cora-srnc');"
        "print(config_root()); print(cfg.dataset.name, len(config_names()))"
    )
    words, env = [sys.executable, "-W", "ignore", "-c", code], {"PYTHONPATH": str(site)}
    done = ended(words, cwd=elsewhere, env=os.environ | env)
    assert done.returncode == 0, done.stderr
    root, line = done.stdout.splitlines()[-2:]
    assert Path(root) == site / "graphgym_srnc/configs_gym"
    assert line == f"Cora {len(list((ROOT / 'configs_gym').rglob('*.yaml')))}"


WRONG = {
    'SRNCPlus(backbone="gnc")': "gnc",
    "SRNCPlus(rounds='two')": "rounds",
    "SRNC(width=4)": "width",
    "SRNCPlus().predct()": "predct",
    "SRNC().set_params(hidden=8).hiden": "hiden",
    "OnNodes(SRNC(), Data()).scroe([0], [1])": "scroe",
    "load('model.pt').fit(graph).score_": "score_",
}
"""Code that a type checker refuses, and a word of its message."""


@pytest.mark.parametrize("kind", ["editable", "wheel"])
def test_type_checkers_know_the_estimators(kind, copy, wheel, tmp_path):
    pytest.importorskip("mypy")
    pytest.importorskip("basedpyright")
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    what = ["-e", copy] if kind == "editable" else [wheel.filename]
    options = ["--no-deps", "--no-build-isolation", "--ignore-installed", "--no-index"]
    run(sys.executable, "-m", "pip", "install", *options, "--prefix", environment, *what)
    # The dependencies are those of this environment.
    site = next(environment.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    python = environment / "bin/python"
    assert "True" in run(python, "-W", "ignore", "-c", CONFIGS)

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    fitted = "print(model.rounds, model.classes_.shape, model.get_params(), model.verdict_)\n"
    page = (ROOT / "docs/how-to/python.md").read_text(encoding="utf-8")
    of_page = "".join(re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S))
    (tmp_path / "right.py").write_text(example + fitted)
    (tmp_path / "right_page.py").write_text(of_page)
    begin = "from graphgym_srnc import *; from torch_geometric.data import Data; graph = Data()\n"
    (tmp_path / "wrong.py").write_text(begin + "\n".join(WRONG))
    # basedpyright is pyright with all of its files in the wheel; so are its rules in this mode.
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    for checker, option in {"mypy": "--python-executable", "basedpyright": "--pythonpath"}.items():
        command = [
            sys.executable,
            "-m",
            checker,
            option,
            python,
            "right.py",
            "right_page.py",
            "wrong.py",
        ]
        done = subprocess.run(command, cwd=tmp_path, env=ALONE, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        right = [line for line in lines if "right" in line and " error" in line]
        assert all("import-untyped" in line for line in right), done.stdout  # of other packages
        for number, word in enumerate(WRONG.values(), start=2):
            found = [line for line in lines if f"wrong.py:{number}:" in line and "error" in line]
            assert found and word in found[0], done.stdout

"""The sdist and the wheel made from it hold the code, the configs and true metadata."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import graphgym_srnc

ROOT = Path(__file__).parents[1]
SHIPPED = [
    "graphgym_srnc",
    "configs_gym",
    "setup.py",
    "pyproject.toml",
    "MANIFEST.in",
    "LICENSE",
    "README.md",
]


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """A wheel built from an sdist built from a copy of the sources."""
    pytest.importorskip("build")
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("out")
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, copy / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(out.glob("*.tar.gz"))
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_wheel_holds_code_and_configs(wheel):
    names = set(wheel.namelist())
    for path in (ROOT / "graphgym_srnc").rglob("*.py"):
        assert path.relative_to(ROOT).as_posix() in names
    configs = [
        path for path in (ROOT / "configs_gym").rglob("*") if path.suffix in (".yaml", ".txt")
    ]
    shipped = {name for name in names if name.startswith("graphgym_srnc/configs_gym/")}
    assert {f"graphgym_srnc/{path.relative_to(ROOT).as_posix()}" for path in configs} == shipped
    files = {"report/page.html", "own/discover/map.js", "api/card.md", "py.typed"}
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
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stderr
    root, line = done.stdout.splitlines()[-2:]
    assert Path(root) == site / "graphgym_srnc/configs_gym"
    assert line == f"Cora {len(list((ROOT / 'configs_gym').rglob('*.yaml')))}"

"""The sdist and the wheel made from it hold the code, the configs and true metadata."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from conftest import ended
from packaging.version import Version

import graphgym_srnc

ROOT = Path(__file__).parents[1]
SHIPPED = "graphgym_srnc configs_gym CHANGELOG.md CITATION.cff LICENSE MANIFEST.in".split()
SHIPPED += "README.md pyproject.toml setup.py".split()

ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""The environment of a command that finds the installed package alone."""

CONFIGS = "from graphgym_srnc.io.settings import config_root; print(config_root().is_dir())"

pytestmark = pytest.mark.slow


def copied(folder: Path) -> Path:
    """A folder with a copy of the sources, and with tests that an sdist leaves out."""
    for name in (*SHIPPED, "tests"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """A copy of the sources."""
    return copied(tmp_path_factory.mktemp("copy"))


@pytest.fixture(scope="module")
def built(sources, tmp_path_factory) -> Path:
    """The folder of an sdist, and of a wheel built from it."""
    pytest.importorskip("build")
    out = tmp_path_factory.mktemp("out")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, sources)
    return out


@pytest.fixture(scope="module")
def wheel(built) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


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
    files = {"report/page.html", "own/discover/map.js", "own/discover/nodes.js"}
    files |= {"py.typed", "__init__.pyi"}
    assert {f"graphgym_srnc/{file}" for file in files} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "configs_gym"))]


def test_sdist_holds_what_a_wheel_needs_and_no_test(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {*SHIPPED, "PKG-INFO"} <= names
    assert not {name for name in names if name.startswith(("tests", "docs", "benchmarks"))}
    for path in (ROOT / "configs_gym").rglob("*.*"):
        assert path.relative_to(ROOT).as_posix() in names


def test_the_index_accepts_both_files(built):
    pytest.importorskip("twine")
    files = map(str, built.iterdir())
    done = ended([sys.executable, "-m", "twine", "check", "--strict", *files])
    assert done.returncode == 0 and done.stdout.count("PASSED") == 2, done.stdout


def metadata_of(wheel: zipfile.ZipFile) -> tuple[Message, str]:
    """The metadata of a wheel, and their folder."""
    info = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(info).decode()), info.removesuffix("METADATA")


def test_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {graphgym_srnc.__version__}\n" in text


def test_lowest_versions_are_the_lower_bounds():
    """``tests/lowest.txt``, with which CI runs the tests, and ``pyproject.toml`` agree."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = "ray|docs|dev|all"
    ours = re.sub(rf"^(?:{extras}) = \[(?:[^\n]*\]$|.*?^\]$)", "", text, flags=re.M | re.S)
    found = re.findall(r'"([\w.-]+)>=([\d.]+)"', ours.partition("[project]")[2])
    lowest = re.findall(r"^([\w.-]+)==([\d.]+)$", (ROOT / "tests/lowest.txt").read_text(), re.M)
    assert len(found) > 15 and {name: Version(text) for name, text in found} == {
        name: Version(text) for name, text in lowest
    }


def test_metadata(wheel):
    metadata, info = metadata_of(wheel)
    assert (metadata["Name"], metadata["Version"]) == ("graphgym-srnc", graphgym_srnc.__version__)
    assert "MIT" in (metadata["License"], metadata["License-Expression"])
    assert metadata["Summary"] and metadata["Requires-Python"] == ">=3.10"
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert all(">=" in line for line in needed) and not any("[graphgym]" in line for line in needed)
    assert {"graphgym", "ray", "tune", "dev"} <= set(metadata.get_all("Provides-Extra"))
    classifiers = metadata.get_all("Classifier")
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)} <= {
        *classifiers
    }
    points = wheel.read(f"{info}entry_points.txt").decode()
    assert "graphgym-srnc = graphgym_srnc.cli.main:main" in points


def test_installed_package_finds_its_configs(wheel, tmp_path):
    site = tmp_path / "site"
    elsewhere = tmp_path / "elsewhere"
    wheel.extractall(site)
    elsewhere.mkdir()
    code = (
        "from graphgym_srnc.gym import *; cfg = load_config('paper/open_set/cora-srnc');"
        "print(config_root()); print(cfg.dataset.name, len(config_names()))"
    )
    words = [sys.executable, "-W", "ignore", "-c", code]
    env = {"PYTHONPATH": str(site)}
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
    "load('model.safetensors').fit(graph).score_": "score_",
}
"""Code that a type checker refuses, and a word of its message."""


@pytest.mark.parametrize("kind", ["editable", "wheel"])
def test_type_checkers_know_the_estimators(kind, sources, wheel, tmp_path):
    pytest.importorskip("mypy")
    pytest.importorskip("basedpyright")
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    what = ["-e", sources] if kind == "editable" else [wheel.filename]
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

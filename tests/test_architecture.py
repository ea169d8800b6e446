"""Who may import whom, read from the source: a new file that breaks a line of the plan fails here by name."""
from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Iterator

import pytest

PACKAGE = Path(__file__).parents[1] / "graphgym_srnc"
FILES = sorted(PACKAGE.rglob("*.py"))
ALL = {"errors", "task", "losses", "backbones", "shifts", "methods", "metrics", "trainer", "store", "cache", "report", "gym", "grid",
       "tables", "clustering", "settings", "api", "verdict", "parallel", "edges"}

INSIDE = {
    "__init__": {"api", "methods"}, "errors": set(), "task": set(), "metrics": set(), "store": set(), "cache": {"store"}, "settings": set(),
    "losses": set(), "parallel": set(), "edges": set(), "backbones": {"backbones", "cache", "parallel", "edges"},
    "shifts": {"task", "cache", "edges"}, "methods": {"losses", "backbones", "task", "methods.base", "cache", "parallel"},
    "trainer": {"task", "metrics", "methods.base", "backbones", "losses", "verdict", "parallel"},
    "verdict": {"task", "metrics", "methods.base", "backbones", "losses"},
    "report": {"report", "store", "task", "metrics", "trainer", "methods.base"},
    "grid": {"grid", "store", "gym", "report", "settings"}, "clustering": {"clustering", "backbones", "metrics", "task"},
    "api": {"api", "task", "trainer", "methods", "backbones", "shifts", "store", "settings", "verdict"},
    "tables": {"tables", "shifts"},
    "discover": {"discover", "clustering", "backbones", "metrics", "report", "tables"},
    "gym": ALL - {"grid", "api"}, "cli": ALL | {"cli", "discover"}, "__main__": {"cli"},
}
"""Parts of the package that each part may import; besides, all may import ``errors``, and helpers of their own folder."""

OUTSIDE = {
    "__init__": set(), "errors": set(), "edges": {"numpy"}, "store": {"filelock"}, "cache": {"torch", "filelock"},
    "losses": {"torch", "scipy", "numpy"}, "parallel": {"torch"}, "task": {"torch", "torch_geometric"},
    "backbones": {"torch", "torch_geometric", "numpy", "scipy"}, "metrics": {"torch", "sklearn", "scipy", "numpy"},
    "methods": {"torch", "torch_geometric", "numpy", "scipy"}, "trainer": {"torch"}, "verdict": {"torch", "numpy", "scipy"},
    "grid": {"psutil", "ray"}, "__main__": set(),
    "clustering": {"torch", "torch_geometric", "numpy", "scipy", "sklearn"}, "settings": {"yaml"},
    "api": {"torch", "torch_geometric", "numpy", "sklearn", "yaml"},
    "discover": {"torch", "torch_geometric", "numpy", "scipy", "sklearn", "matplotlib", "jinja2"},
}
"""Third-party packages of the parts that have to stay pure."""

SLOW = {"torch", "torch_geometric", "numpy", "scipy", "sklearn", "matplotlib", "pandas", "yacs", "tensorboard", "tensorboardX"}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, top_level: bool = False) -> Iterator[str]:
    """Dotted names that a file imports, but for annotations alone; with ``top_level`` only those that run at its import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")]
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def inside(path: Path) -> Iterator[str]:
    """What a file imports of this package, without the package's name."""
    yield from (name.removeprefix("graphgym_srnc.") for name in imports(path) if name.startswith("graphgym_srnc."))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_plan(path):
    part = part_of(path)
    assert part in INSIDE, f"{part}: a new part of the package needs a line here"
    for name in inside(path):
        helper = name.split(".")[0] == part and (name.split(".") + ["_"])[1].startswith("_")
        allowed = any(f"{name}.".startswith(f"{other}.") for other in INSIDE[part] | {"errors", "__version__"})
        assert allowed or helper, f"{part} may not import {name}"
    for name in imports(path):
        root = name.split(".")[0]
        if part in OUTSIDE and root not in sys.stdlib_module_names and root != "graphgym_srnc":
            assert root in OUTSIDE[part], f"{part} may not import {root}"
        if part != "gym":
            assert not name.startswith(("torch_geometric.graphgym", "yacs", "pytorch_lightning")), f"only gym may import {name}"


@pytest.mark.parametrize("folder", ["methods", "shifts"])
def test_no_method_or_shift_imports_another(folder):
    for path in (PACKAGE / folder).glob("*.py"):
        for name in inside(path):
            parts = name.split(".")
            assert parts[0] != folder or len(parts) == 1 or parts[1] == "base" or parts[1].startswith("_"), f"{path.name} imports {name}"


def test_the_command_line_imports_nothing_slow():
    light = ("__init__", "errors", "store", "settings", "methods/__init__", "shifts/__init__")
    for path in [*(PACKAGE / "cli").glob("*.py"), *(PACKAGE / f"{name}.py" for name in light)]:
        assert not {name.split(".")[0] for name in imports(path, top_level=True)} & SLOW, path


def test_methods_are_found_by_folder():
    from graphgym_srnc import methods
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.methods.base import Method
    for name in methods.names():
        assert issubclass(methods.find(name), Method) and methods.find(name).__name__.lower() == name
        defined = [value for value in vars(sys.modules[f"graphgym_srnc.methods.{name}"]).values() if isinstance(value, type)
                   and issubclass(value, Method) and value.__module__ == f"graphgym_srnc.methods.{name}"]
        assert len(defined) == 1
    for name in ("base", "_hidden", "nothing", ""):
        with pytest.raises(InputError, match="train.mode"):
            methods.find(name)

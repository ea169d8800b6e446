"""Who may import whom, read from the source: a file that breaks the plan fails here by name."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Iterator

import pytest

from graphgym_srnc import methods, shifts

PACKAGE = Path(__file__).parents[1] / "graphgym_srnc"
FILES = sorted(PACKAGE.rglob("*.py"))
ORDER = "errors < core < io < losses data < backbones shifts < methods < train < plots < gym api"
ORDER += " < report < own < sweep < plot < cli"
LAYERS = [layer.split() for layer in ORDER.split(" < ")]
"""The packages from the ground up: each imports those of lower layers, and itself."""
INSIDE = {
    "__init__": {"api", "core", "methods", "report"},
    "__main__": {"cli"},
    "core": set(),
    "losses": set(),
    "io": {"core"},
    "data": {"core", "io"},
    "shifts": {"core", "io", "data"},
    "backbones": {"core", "io", "data.cleaning", "data.edges"},
    "methods": {"core", "io", "losses", "backbones"},
}
"""Parts whose imports are fewer still."""

TENSORS = {"torch", "torch_geometric", "numpy", "scipy"}
OUTSIDE = {
    "__init__": set(),
    "__main__": set(),
    "core": {"torch", "torch_geometric", "threadpoolctl", "rich"},
    "io": {"torch", "filelock", "safetensors", "yaml"},
    "losses": {"torch", "scipy", "numpy"},
    "backbones": TENSORS,
    "methods": TENSORS | {"sklearn"},
    "train": TENSORS | {"sklearn"},
    "api": {"torch", "torch_geometric", "numpy", "sklearn", "pandas", "jinja2"},
    "own": TENSORS | {"sklearn", "matplotlib", "jinja2", "pandas", "networkx"},
    "sweep": {"ray", "optuna", "yaml", "filelock"},
}
"""Third-party packages of the parts that have to stay pure."""

SLOW = set(
    "torch torch_geometric numpy scipy sklearn matplotlib pandas yacs tensorboard "
    "tensorboardX".split()
)

BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""The parts of a statement that are lists of statements, which imports are."""


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All parts of the syntax of a file."""
    return list(ast.walk(tree_of(path)))


@pytest.fixture(scope="module", autouse=True)
def no_syntax_is_left():
    """Later collections of garbage would visit it."""
    yield
    tree_of.cache_clear()
    nodes_of.cache_clear()


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, top_level: bool = False, types: bool = False) -> Iterator[str]:
    """Dotted names that a file imports: with ``top_level`` only those that run at its import, and
    with ``types`` also those for annotations alone."""
    todo: list[ast.AST] = [tree_of(path)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types:
            todo += node.orelse
        elif not (top_level and isinstance(node, ast.FunctionDef)):
            for block in BLOCKS:
                todo += getattr(node, block, ())


def inside(path: Path) -> Iterator[str]:
    """What a file imports of this package, without the package's name."""
    names = imports(path, types=True)
    yield from (name[14:] for name in names if name.startswith("graphgym_srnc."))


def layer_of(part: str) -> int:
    return next((i for i, packages in enumerate(LAYERS) if part in packages), len(LAYERS))


def test_every_package_has_a_layer():
    packages = {part_of(path) for path in FILES} - {"__init__", "__main__"}
    assert packages <= {package for layer in LAYERS for package in layer}


def broken_rules(path: Path) -> Iterator[str]:
    """What a file imports against the plan."""
    part = part_of(path)
    for name in inside(path):
        other = name.split(".")[0]
        if other in ("errors", "__version__"):
            continue
        if part in INSIDE:
            allowed = INSIDE[part] | {part}
            if not any(f"{name}.".startswith(f"{package}.") for package in allowed):
                yield f"{part} may not import {name}"
        if other != part:
            if layer_of(other) >= layer_of(part):
                yield f"{part} may not import {name}, of a layer that is not below it"
            if any(word.startswith("_") for word in name.split(".")):
                yield f"{part} imports {name}, which is private there"
    for name in imports(path):
        root = name.split(".")[0]
        if part in OUTSIDE and root not in sys.stdlib_module_names and root != "graphgym_srnc":
            if root not in OUTSIDE[part]:
                yield f"{part} may not import {root}"
        is_gyms = name.startswith(("torch_geometric.graphgym", "yacs", "pytorch_lightning"))
        if part != "gym" and is_gyms:
            yield f"only gym may import {name}"


def test_imports_follow_the_plan():
    broken = {str(path.relative_to(PACKAGE)): [*broken_rules(path)] for path in FILES}
    assert len(broken) > 100 and {name: rules for name, rules in broken.items() if rules} == {}


@pytest.mark.parametrize("folder", ["methods", "shifts"])
def test_no_method_or_shift_imports_another(folder):
    shared = ("shared",) if folder == "methods" else shifts.SHARED
    for path in (PACKAGE / folder).rglob("*.py"):
        for name in inside(path):
            parts = name.split(".")
            fine = parts[0] != folder or len(parts) == 1 or parts[1] in shared
            assert fine, f"{path.name} imports {name}"


def test_only_commands_and_plugins_are_imported_by_a_name_made_at_run_time():
    calls = [path for path in FILES if "import_module(" in path.read_text(encoding="utf-8")]
    assert calls == [PACKAGE / "__init__.py", PACKAGE / "cli" / "main.py"]


def test_the_command_line_imports_nothing_slow():
    light = "__init__ errors core/environment core/options io/config_files io/stats io/records"
    light += " io/store io/settings methods/__init__ shifts/__init__"
    light += " cli/main cli/parser cli/arguments cli/data"
    for path in (PACKAGE / f"{name}.py" for name in light.split()):
        assert not {name.split(".")[0] for name in imports(path, top_level=True)} & SLOW, path


def test_packages_below_the_interfaces_speak_of_none():
    """They name options as arguments, in backticks; an interface words them, see ``cli/words``."""
    keys = "gnn optim train dataset cfg " + " ".join([*shifts.own_names(), *methods.own_names()])
    key = rf"\b({keys.replace(' ', '|')})\.(?!safetensors|md\b)[a-z]\w*"
    word = re.compile(
        rf"(?<![\w-])--[a-z]|{key}|(?<![\w-])graphgym-srnc [a-z]+ [A-Z-]|\bPython: |^(RUN|DIR)$"
    )
    # `git` has options of its own, and settings lists the keys that change no result.
    others = {"core/environment.py", "io/settings.py"}
    for path in FILES:
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(("cli/", "api/", "gym/")) or name in others:
            continue
        # What reads results and settings knows the names of their columns, which are no words.
        is_reader = name.startswith(("report/", "io/", "sweep/"))
        for text in texts_of(path):
            is_column = is_reader and re.fullmatch(rf"{key}(\w|\.)*", text)
            assert is_column or not word.search(text), f"{name} says {text!r}"


def texts_of(path: Path) -> Iterator[str]:
    """All texts in the code of a file, also inside f-strings, but no docstring."""
    bare = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def test_each_code_of_an_error_has_words_in_commands():
    from graphgym_srnc.cli.words import HINTS

    codes = set()
    for path in FILES:
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "InputError.plain":
                given = [*node.args[3:], *(kw.value for kw in node.keywords if kw.arg == "code")]
                codes |= {one.value for one in given if isinstance(one, ast.Constant)}
    assert codes and codes <= {*HINTS} and all(HINTS.values())


def test_nothing_calls_what_deletes_results():
    """GraphGym's functions that begin a folder of results delete what is there."""
    for path in FILES:
        names = {node.id for node in nodes_of(path) if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute)}
        assert not names & {"set_out_dir", "set_run_dir", "makedirs_rm_exist"}, path


def test_no_test_imports_another():
    """What tests share is in a module without tests, such as ``tasks`` or ``conftest``."""
    imported = re.compile(
        r"^\s*(?:from|import)\s+(?:tests\s*\.\s*|\.)?(?:import\s+)?test_\w+", re.M
    )
    assert imported.search("import test_x") and imported.search("    from tests.test_x import y")
    for path in Path(__file__).parent.glob("*.py"):
        shared = imported.findall(path.read_text(encoding="utf-8"))
        assert not shared, f"{path.name} imports {shared}"

"""What can be set: options out of signatures, which are config keys and parameters of estimators, and the folder of shipped configs."""
from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path
from typing import Any, Callable, NamedTuple

import yaml

SHARED = ("name", "root")
"""Keywords of a shift that come from ``dataset.name`` and ``dataset.dir``."""


class _Loader(yaml.BaseLoader):
    """Makes text, lists and mappings, and refuses aliases, by which a short file can stand for more than any memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def plain_yaml(text: str) -> Any:
    """A yaml text of a stranger, in which every scalar stays text.

    Raises:
        ValueError: it is no yaml, or has aliases, or is nested too deeply.
    """
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


class Option(NamedTuple):
    """One config key of a block: its name, type, default and what its docstring says."""

    key: str
    type: type
    default: Any
    doc: str


@functools.cache
def options(function: Callable) -> list[Option]:
    """The options of a shift, or of a method: its own ones first, then what it inherits."""
    found: dict[str, Option] = {}
    for part in [p for p in function.__mro__ if "__init__" in vars(p)] if isinstance(function, type) else [function]:
        told = docs(part)
        for p in inspect.signature(part).parameters.values():
            if p.kind is p.KEYWORD_ONLY and p.name not in SHARED and type(p.default) in (bool, int, float, str, list, tuple):
                found.setdefault(p.name, Option(p.name, type(p.default), p.default, told.get(p.name, "")))
    return list(found.values())


def docs(function: Callable) -> dict[str, str]:
    """What the section ``Args`` of a docstring says of each argument, in one line each."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in (inspect.getdoc(function) or "").partition("Args:\n")[2].splitlines():
        if line and not line.startswith(" "):
            break
        entry = re.match(r" {4}(\w[\w, ]*): (.*)", line)
        if entry:
            names = entry[1].split(", ")
        for name in names:
            found[name] = f"{found.get(name, '')} {entry[2] if entry else line.strip()}".strip()
    return found


def config_root() -> Path:
    """The folder of shipped configs: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent
    return next(path for path in (package / "configs_gym", package.parent / "configs_gym") if path.is_dir())

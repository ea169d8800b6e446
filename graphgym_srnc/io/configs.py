"""Config files and the words of a command line, before any large package is imported.

What keys there are and what they are by default is read from the sources, those of GraphGym too.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import math
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from graphgym_srnc import methods, shifts
from graphgym_srnc.core.environment import AUTO
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.options import SHARED, OneOf
from graphgym_srnc.core.plugins import entries
from graphgym_srnc.core.text import tell_changed
from graphgym_srnc.io.checksums import is_edited
from graphgym_srnc.io.settings import config_root, is_volatile, leaves, plain_yaml

PACKAGE = Path(__file__).parents[1]

UNREAD = ...
"""In place of a default that its source does not spell out."""

OWN = {
    "train.mode": "standard",
    "train.checkpoint": 0.02,
    "train.save_model": True,
    "dataset.normalize": "none",
    "device": UNREAD,
    "run_dir": UNREAD,
}
"""Keys that are in no signature, as ``gym`` has them."""

NAMES = {
    "train.mode": OneOf("standard", *methods.names()),
    "dataset.format": OneOf(*shifts.names()),
}


def config_names() -> list[str]:
    """Names of all shipped configs, e.g. ``paper/open_set/cora-srnc``, sorted."""
    found = (path.relative_to(config_root()) for path in config_root().rglob("*.yaml"))
    return sorted(name.with_suffix("").as_posix() for name in found)


def find(cfg_file_or_name: str | os.PathLike) -> Path:
    """The file of a config: a user's own one first, then a shipped one of that name.

    Raises:
        InputError: there is no such file.
    """
    name, root = str(cfg_file_or_name), config_root()
    for path in (Path(name), Path(f"{name}.yaml"), root / name, root / f"{name}.yaml"):
        if path.is_file():
            return path
    near = difflib.get_close_matches(name, config_names(), 3)
    near = ", ".join(near or ["own", "paper/open_set/cora-srnc-plus"])
    hint = (
        f"Give a yaml file, or a shipped config such as {near}; `graphgym-srnc options` lists all"
    )
    raise InputError.plain("--cfg", f"there is no config {name!r}", hint)


def read(path: Path) -> dict[str, Any]:
    """A config file as dotted keys, every value a text or a list of texts.

    Raises:
        InputError: it is none.
    """
    try:
        # Every scalar stays text, so that the schema and not yaml decides its type: a data set
        # named 2024 remains a name.
        text = path.read_text(encoding="utf-8")
        tree = plain_yaml(text) or {}
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError.plain("--cfg", f"{path} is not a readable yaml file ({reason})") from error
    if is_edited(path):
        tell_changed(str(path))
    if not isinstance(tree, dict):
        raise InputError.plain("--cfg", f"{path} contains no blocks of keys and values")
    flat: dict[str, Any] = {}
    for key, value in leaves(tree):
        if key in flat:
            raise InputError.plain("--cfg", f"{path} sets {key} twice", "Remove one of them")
        flat[key] = value
    return flat


def pairs(words: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """Pairs of key and value from the command line; the last value of a repeated key counts.

    Raises:
        InputError: a key has no value.
    """
    for word in words[::2]:
        key, equals, value = str(word).partition("=")
        if equals:
            raise InputError.plain(
                "overrides",
                f"{word!r} has an equals sign",
                f"Write the key and the value with a space: {key} {value}",
            )
    if len(words) % 2:
        raise InputError.plain(
            "overrides",
            f"{words[-1]!r} has no value",
            "Write the settings as pairs: key value key value ...",
        )
    return zip(words[::2], words[1::2])


def coerce(key: str, value: Any, default: Any) -> Any:
    """A text as a value of the type of its key's default; a list as it is, or as yaml.

    Raises:
        InputError: it is none of that type.
    """
    if isinstance(default, (list, tuple)):
        with contextlib.suppress(ValueError):
            value = plain_yaml(value) if isinstance(value, str) else value
        if not isinstance(value, list):
            raise InputError(key, value, "a list, e.g. [1, 2]")
        return [
            coerce(key, str(item), default[0] if default else _guess(str(item))) for item in value
        ]
    if key == "num_threads":
        # A number or a word, whichever the config has so far.
        if value == AUTO:
            return AUTO
        default = 1
    words, parse = _KINDS[type(default)]
    try:
        parsed = parse(value) if isinstance(value, str) else None
    except (KeyError, ValueError):
        parsed = None
    if parsed is None or isinstance(parsed, float) and not math.isfinite(parsed):
        raise InputError(key, value, words)
    return parsed


def unknown(key: str, value: Any, known: Iterable[str]) -> InputError:
    """The error of a key that there is not; names those that are spelt alike."""
    near = ", ".join(difflib.get_close_matches(key, list(known), 3))
    hint = f"Did you mean {near}?" if near else "`graphgym-srnc options` lists all keys"
    return InputError.plain(key, "there is no such config key", hint)


def glance(cfg_file_or_name: str | os.PathLike | None, words: Sequence[Any]) -> dict[str, Any]:
    """The values of a config by dotted key, as far as sources spell them out.

    Raises:
        InputError: no such file, an unknown key, a method or shift that there is not, or a value of
            a wrong type. What ``gym.load_config`` refuses beyond that, it refuses later.
    """
    values, known = {}, defaults()
    blocks = {key.partition(".")[0] for key in known}
    files = [config_root() / "default.yaml"]
    files += [find(cfg_file_or_name)] if cfg_file_or_name is not None else []
    given = [pair for file in files for pair in read(file).items()] + list(pairs(words))
    # Whoever lays a method or shift of their own here has its keys elsewhere.
    elsewhere = {*methods.names(), *shifts.names()} - blocks
    for key, value in given:
        key, value = str(key), value if isinstance(value, list) else str(value)
        answered = key.endswith(".verify")  # why it is refused is told later
        if answered or key.partition(".")[0] in elsewhere or key in blocks and value == "":
            continue
        if key not in known and entries("register"):
            continue  # it may be a key that another package registers
        if key not in known:
            raise unknown(key, value, known)
        if key in NAMES and not NAMES[key].allows(value):
            raise InputError(key, value, str(NAMES[key]))
        if known[key] is not UNREAD:
            values[key] = coerce(key, value, known[key])
    return {key: value for key, value in known.items() if value is not UNREAD} | values


def agrees(stored: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether a stored config, by dotted key, is that of :func:`glance` as far as that is known."""
    return all(
        list(value) if isinstance(value, tuple) else value == stored[key]
        for key, value in values.items()
        if key in stored and not is_volatile(key)
    )


@functools.cache
def defaults() -> dict[str, Any]:
    """Every key of a config and its default, ``UNREAD`` where the source does not spell it out."""
    blocks = {"train": _parameters(_definition("train/trainer.py", "fit"))}
    blocks |= {
        name: _parameters(_definition(f"shifts/{name}.py", "build")) for name in shifts.own_names()
    }
    blocks |= {
        name: _inherited(f"methods/{name}.py", name.replace("_", ""))
        for name in methods.own_names()
    }
    ours = {
        f"{block}.{key}": default
        for block, found in blocks.items()
        for key, default in found.items()
        if key not in SHARED
    }
    # The config's own seed, unless it says another.
    ours |= {key: -1 for key in ours if key.endswith(".split_seed")}
    for key in ("train.seed", "train.callbacks"):  # no options, as in gym
        del ours[key]
    return _graphgym() | ours | OWN


def _graphgym() -> dict[str, Any]:
    """GraphGym's keys, which it assigns one by one: ``cfg.gnn.act = 'relu'``."""
    package = find_spec("torch_geometric").submodule_search_locations[0]
    text = Path(package, "graphgym", "config.py").read_text(encoding="utf-8")
    found = re.findall(r"^    cfg\.(\w+(?:\.\w+)?) = (.+)$", text, re.MULTILINE)
    # Later ones in that file set what a run has chosen, the first one is the default.
    read = {
        key: _literal(ast.parse(value.strip(), mode="eval").body)
        for key, value in reversed(found)
        if value.strip() != "CN()"
    }
    return {key: UNREAD if value is None else value for key, value in read.items()}


def _inherited(file: str, name: str) -> dict[str, Any]:
    """The keyword-only parameters of a class, by its name in small letters, and of its bases."""
    owner = _definition(file, name)
    places = {
        alias.name.lower(): node.module
        for node in _tree(file).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found: dict[str, Any] = {}
    for base in (node.id.lower() for node in owner.bases if isinstance(node, ast.Name)):
        module = places.get(base, "")
        if module.startswith(f"{PACKAGE.name}."):
            path = module.removeprefix(f"{PACKAGE.name}.").replace(".", "/")
            found |= _inherited(f"{path}.py", base)
    calls = [node for node in owner.body if getattr(node, "name", "") == "__init__"]
    return found | (_parameters(calls[0]) if calls else {})


def _parameters(function: ast.FunctionDef) -> dict[str, Any]:
    """Keyword-only parameters that are options, and their defaults."""
    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults)
    found = {
        argument.arg: _literal(default)
        for argument, default in pairs
        if isinstance(default, ast.expr) and not isinstance(default, ast.Call)
    }
    return {key: default for key, default in found.items() if type(default) in _PLAIN}


def _literal(node: ast.expr) -> Any:
    """The value that a source spells out; of the name of a constant ``UNREAD``, else None."""
    with contextlib.suppress(ValueError):
        return ast.literal_eval(node)
    return UNREAD if isinstance(node, ast.Name) and node.id.isupper() else None


def _definition(file: str, name: str) -> ast.FunctionDef | ast.ClassDef:
    return next(node for node in _tree(file).body if getattr(node, "name", "").lower() == name)


@functools.cache
def _tree(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


_PLAIN = (bool, int, float, str, list, tuple, type(UNREAD))

_KINDS = {
    bool: ("true or false", lambda text: {"true": True, "false": False}[text.lower()]),
    int: ("an integer", int),
    float: ("a number", float),
    str: ("text", str),
}


def _guess(text: str) -> Any:
    for parse in (int, float):
        with contextlib.suppress(ValueError):
            return parse(text)
    return text

"""Config files by name and the settings in them, as text; what they mean is known to ``gym``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterable, Sequence

from graphgym_srnc.core.text import tell_changed
from graphgym_srnc.errors import InputError, did_you_mean
from graphgym_srnc.io import atomic
from graphgym_srnc.io.checksums import is_edited
from graphgym_srnc.io.settings import config_root, leaves, plain_yaml

Settings = dict[str, Any]  # texts, or lists of texts, by dotted key
# Shipped files that an error names if none has a similar name.
EXAMPLES = {".yaml": ["own", "paper/open_set/cora-srnc-plus"], ".txt": ["grids/open_set"]}


def config_names(suffix: str = ".yaml") -> list[str]:
    """Names of all shipped configs, e.g. ``paper/open_set/cora-srnc``, sorted; ``.txt`` = grids."""
    found = (path.relative_to(config_root()) for path in config_root().rglob(f"*{suffix}"))
    return sorted(name.with_suffix("").as_posix() for name in found)


def find(name: str | os.PathLike, key: str = "config", suffix: str = ".yaml") -> Path:
    """A file of your own if there is one, else the shipped one; ``.txt`` finds grid files.

    The suffix may be left out, and ``-`` and ``_`` are equal in a shipped name.
    The InputError names ``key`` and similar names.
    """
    name = str(name)
    root = config_root()
    for path in (Path(name), Path(f"{name}{suffix}"), root / name, root / f"{name}{suffix}"):
        if path.is_file():
            return path
    for known in config_names(suffix):  # srnc_plus is a method, srnc-plus the end of most configs
        if known.replace("_", "-") == name.removesuffix(suffix).replace("_", "-"):
            return root / f"{known}{suffix}"
    hint = f"Give a {suffix} file, or a shipped one such as {', '.join(EXAMPLES[suffix])}"
    hint = did_you_mean(name, config_names(suffix), hint)
    raise InputError.plain(key, f"there is no file {name!r}", hint)


def read(cfg_file_or_name: str | os.PathLike | None) -> Settings:
    """The settings of a config, see ``find``; None has no settings.

    Every scalar stays text, so that the type of its key decides: a data set 2024 remains a name.
    """
    if cfg_file_or_name is None:
        return {}
    path = find(cfg_file_or_name)
    try:
        text = atomic.content(path).decode("utf-8")
        tree = plain_yaml(text) or {}
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError.plain(
            "config", f"{path} is not a readable yaml file ({reason})"
        ) from error
    if is_edited(path):
        tell_changed(str(path))
    if not isinstance(tree, dict):
        raise InputError.plain("config", f"{path} contains no blocks of keys and values")
    flat: Settings = {}
    for key, value in leaves(tree):
        if key in flat:
            raise InputError.plain("config", f"{path} sets {key} twice", "Remove one of them")
        flat[key] = value
    return flat


def pairs(words: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """Pairs of key and value from the command line."""
    for word in words[::2]:
        if "=" in str(word):
            raise InputError.plain(
                "overrides",
                f"{word!r} has an equals sign",
                "Write the key and the value with a space",
            )
    if len(words) % 2:
        raise InputError.plain(
            "overrides",
            f"{words[-1]!r} has no value",
            "Write the settings as pairs: key value key value ...",
            "graph_without_key" if Path(str(words[-1])).exists() else "",
        )
    return zip(map(str, words[::2]), words[1::2])

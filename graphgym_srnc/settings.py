"""Yaml of strangers, and the folder of shipped configs."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


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


def config_root() -> Path:
    """The folder of shipped configs: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent
    return next(path for path in (package / "configs_gym", package.parent / "configs_gym") if path.is_dir())

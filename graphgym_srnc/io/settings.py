"""Configs as plain data: yaml of strangers, dotted keys, digests; the folder of shipped ones."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping  # whose checks take a tenth of those of typing's
from pathlib import Path
from typing import Any, Iterator

import yaml

VOLATILE = frozenset(
    "seed out_dir run_dir cfg_dest print params share tensorboard_each_run tensorboard_agg"
    " dataset.dir train.save_model train.checkpoint".split()
)
"""Config keys, or whole blocks, that may differ between the runs of one experiment."""


class _Loader(yaml.BaseLoader):
    """Makes text, lists and mappings; refuses tags, aliases and repeated keys.

    By aliases a short file can stand for more than any memory holds.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        tag = getattr(self.peek_event(), "tag", None)
        if tag:
            raise yaml.YAMLError(f"the tag {tag} is not allowed")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        twice = [key for key, count in keys.items() if count > 1]
        if twice:
            raise yaml.YAMLError(f"key {twice[0]} is given twice")
        return node


def plain_yaml(text: str) -> Any:
    """A yaml text of a stranger, in which every scalar stays text; a ValueError if it is none."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def config_root() -> Path:
    """The folder of shipped configs: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parents[1]
    folders = package / "configs_gym", package.parent / "configs_gym"
    return next(path for path in folders if path.is_dir())


def leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of nested dictionaries; twice the same where one is written dotted."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dictionaries as one with dotted keys."""
    return dict(leaves(config))


def is_volatile(key: str) -> bool:
    """Whether a dotted key may differ between the runs of one experiment, see ``VOLATILE``."""
    return key in VOLATILE or key.split(".")[0] in VOLATILE


def digest(config: Mapping[str, Any]) -> str:
    """SHA-256 of a config without its ``VOLATILE`` keys: equal for all runs of one experiment."""
    kept = {key: value for key, value in flatten(config).items() if not is_volatile(key)}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Old and new value of each key, but ``VOLATILE`` ones, in which two configs differ."""
    old = flatten(old)
    new = flatten(new)
    return {
        key: (old.get(key), new.get(key))
        for key in sorted(old | new)
        if old.get(key) != new.get(key) and not is_volatile(key)
    }

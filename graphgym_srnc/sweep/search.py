"""What a search tries of a method: its own options, and what everybody has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Collection

from graphgym_srnc import methods
from graphgym_srnc.core.options import options
from graphgym_srnc.gym.config import KEYS
from graphgym_srnc.gym.encoder import ignored
from graphgym_srnc.io.settings import flatten

if TYPE_CHECKING:
    from yacs.config import CfgNode

SHARED: dict[str, tuple[Any, ...]] = {
    "lr": (0.001, 0.003, 0.01),
    "weight_decay": (0.0, 5e-4, 5e-3),
    "hidden": (64, 128, 256),
    "dropout": (0.2, 0.5, 0.8),
    "features": ("none", "row", "auto"),
    "smoothing": (0, 1, 3, 10),
    "correction": ("none", "mean"),
    "correction_power": (0.25, 0.5, 0.75, 1.0),
}
"""What every method has a right to. Its own ``search`` may name other values, or none."""

Space = dict[str, tuple[Any, ...]]
"""Values by config key; the first one is that of the config as it is."""

Point = tuple[Any, ...]
"""A value for each key of a space, in its order."""


def space(cfg: CfgNode, open_set: bool, fixed: Collection[str] = ()) -> Space:
    """All that a search tries of the method of a config.

    Args:
        cfg: the config as it is. Its value of a key is tried too, whatever the list says.
        open_set: whether there is an unknown class.
        fixed: config keys that are not searched.
    """
    method, values = methods.find(cfg.train.mode), flatten(cfg)
    own = {option.key: f"{cfg.train.mode}.{option.key}" for option in options(method)}
    unread = ignored(cfg) - set(own)
    found: Space = {}
    wanted = {**SHARED, **method.search, **(method.search_open if open_set else {})}
    for option, choices in wanted.items():
        key = own.get(option) or KEYS[option]
        if choices and option not in unread and key not in fixed:
            found[key] = tuple(dict.fromkeys((values[key], *choices)))
    return found

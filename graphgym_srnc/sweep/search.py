"""The methods of a study: where each one starts and which values it may try."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Collection, Mapping, Sequence

from graphgym_srnc import methods, shifts
from graphgym_srnc.core.options import options
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.gym import build_task, config_names, load_config
from graphgym_srnc.gym.build import visible_task
from graphgym_srnc.gym.config import CfgNode
from graphgym_srnc.gym.keys import KEYS
from graphgym_srnc.gym.prepare import data_key, prepare
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.train import selection

# Options that are searched for every method. Its ``search`` may name other values, or none.
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

Words = Sequence[str]  # config keys and values, alternately, as on the command line


@dataclass
class Arm:
    """A method of a study."""

    name: str
    base: str | None  # the config that it starts from
    words: Words  # settings of all its runs
    # Values by config key. The first one is that of the config as it is.
    space: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of different settings in the search space."""
        return math.prod(map(len, self.space.values()))

    @property
    def defaults(self) -> dict[str, Any]:
        """The setting of the config as it is."""
        return {key: values[0] for key, values in self.space.items()}

    def config(self, block: Words = (), setting: Mapping[str, Any] | None = None) -> CfgNode:
        """Load the config of a block with a setting, by default the config as it is."""
        chosen = [str(word) for item in (setting or {}).items() for word in item]
        return load_config(self.base, [*self.words, *block, *chosen])


def arms(base: str | None, names: Sequence[str], words: Words) -> list[Arm]:
    """Methods of a study. Each starts from its own config if one lies beside the base config.

    ``paper/open_set/cora-pgl`` is the config of ``pgl`` beside ``paper/open_set/cora-erm``. Without
    one, a method starts from the base config and its own defaults.
    """
    mode = load_config(base, words).train.mode
    known = methods.names()
    for name in names:
        if name not in known:
            raise InputError("methods", name, ", ".join(known))
    return [
        Arm(name, _beside(base, mode, name) or base, [*words, "train.mode", name])
        for name in dict.fromkeys(names or [mode])
    ]


def _beside(base: str | None, mode: str, name: str) -> str | None:
    """A config whose name differs from that of the base config in the method only."""
    stem = (base or "").removesuffix(".yaml")
    for sign in ("_", "-"):
        ours = mode.replace("_", sign)
        found = stem.removesuffix(ours) + name.replace("_", sign)
        if stem.endswith(ours) and (found in config_names() or Path(f"{found}.yaml").is_file()):
            return found + (base or "")[len(stem) :]
    return None


def check(arms: Sequence[Arm], blocks: Sequence[Words], seed: int) -> None:
    """Prepare the data of each block and set the search space of each method."""
    open_set = False
    for block in blocks:
        configs = [arm.config([*block, "seed", str(seed)]) for arm in arms]
        prepare([(configs[0], arms[0].name)])
        task = build_task(configs[0])
        open_set = open_set or task.open_set
        for arm, cfg in zip(arms, configs):
            if data_key(cfg) != data_key(configs[0]):
                data = f"{cfg.dataset.format}/{cfg.dataset.name}"
                message = f"{arm.name} uses {data}, which is not the data of {arms[0].name}"
                hint = "Compare methods on the same data"
                raise InputError.plain("methods", message, hint)
            with renamed({"train.mode": "methods"}):
                seen = visible_task(methods.find(arm.name), task)
            if cfg.train.selection == "last":
                message = "the rule 'last' computes no score to choose settings by"
                hint = "Use target_val, for example"
                raise InputError.plain("selection", message, hint)
            selection.check(cfg.train.selection, seen)
    shifts.forget()
    for arm in arms:
        fixed = {word for words in (arm.words, *blocks) for word in words[::2]}
        arm.space = space(arm.config(), open_set, fixed)


def space(cfg: CfgNode, open_set: bool, fixed: Collection[str] = ()) -> dict[str, tuple[Any, ...]]:
    """Values to try of each searched config key. The value of the config comes first.

    ``fixed`` are config keys that are not searched.
    """
    method = methods.find(cfg.train.mode)
    values = flatten(cfg)
    own = {option.key: f"{cfg.train.mode}.{option.key}" for option in options(method)}
    found: dict[str, tuple[Any, ...]] = {}
    wanted = {**SHARED, **method.search, **(method.search_open if open_set else {})}
    for option, choices in wanted.items():
        key = own.get(option) or KEYS.get(option)
        if key is None:
            raise InputError.plain(cfg.train.mode, f"its search names {option}, which is no option")
        if choices and key not in fixed:
            found[key] = tuple(dict.fromkeys((values[key], *choices)))
    return found

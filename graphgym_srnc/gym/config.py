"""Configs: GraphGym's keys, a block per method and shift, and YAML files that hold a difference."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, Callable, Iterable, Sequence

from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import assert_cfg, set_cfg
from torch_geometric.graphgym.config import cfg as global_cfg
from yacs.config import CfgNode

from graphgym_srnc import methods, shifts
from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core.environment import AUTO
from graphgym_srnc.core.options import Option, finite, options
from graphgym_srnc.data import catalogue
from graphgym_srnc.errors import InputError, did_you_mean
from graphgym_srnc.gym.keys import KEYS, add_options, check, schema
from graphgym_srnc.gym.spec import SPEC_KEYS
from graphgym_srnc.io import config_files
from graphgym_srnc.io.settings import flatten, plain_yaml
from graphgym_srnc.methods.shared.training import adam

ARGUMENT = "dataset.args."  # begin of keys that are arguments of the class of dataset.name


def load_config(
    source: str | os.PathLike | config_files.Settings | None = None,
    overrides: Sequence[Any] = (),
    stored: bool = False,
) -> CfgNode:
    """A new config, checked as a whole.

    It has GraphGym's defaults, then ours, then those of the method's encoder, a YAML file, and
    overrides.

    Args:
        source: a YAML file, or the name of one that ships with the package, for example
            ``paper/open_set/cora-srnc``, or its settings; None = our defaults.
        overrides: keys and values, alternately, for example ``["gnn.dim_inner", "64"]``.
        stored: whether it is the config of a finished run, which was checked when it began.

    Raises:
        InputError: there is no such file, a key is unknown, a value has a wrong type or is out of
            range, or the method does not read a key that is set.
    """
    # Methods, shifts and plug-ins may be added at any time.
    default = _default_config((*methods.names(), *shifts.names()), *register.config_dict.values())
    cfg = default.clone()
    settings = source if isinstance(source, dict) else config_files.read(source)
    given = [*settings.items(), *config_files.pairs(overrides)]
    arguments = {key: str(value) for key, value in given if key.startswith(ARGUMENT)}
    _assign(cfg, _encoder_defaults(str(dict(given).get("train.mode", cfg.train.mode))))
    _assign(cfg, [pair for pair in given if pair[0] not in arguments])
    own = {key.removeprefix(ARGUMENT): value for key, value in arguments.items()}
    cfg.dataset.name = catalogue.with_arguments(cfg.dataset.name, own)
    if cfg.dataset.dir == default.dataset.dir:
        cfg.dataset.dir = data_root(cfg.dataset.dir)
    cfg.run_dir = cfg.out_dir  # a config that a run has written names the folder of that run
    if not stored:
        check(cfg, flatten(default))
    assert_cfg(cfg)
    return cfg


def documented() -> dict[str, list[Option]]:
    """Keys of this package and of GraphGym by block, with the values of a run without a config."""
    blocks = {**schema(), "gnn": [], "optim": []}
    for option in (*options(EncoderSpec), *options(adam)):
        block, _, key = KEYS.get(option.key, "").partition(".")
        if block in ("gnn", "optim"):
            blocks[block].append(option._replace(key=key))
    cfg = load_config()
    return {
        block: [one._replace(default=cfg[block].get(one.key, one.default)) for one in own]
        for block, own in blocks.items()
    }


@functools.cache
def _default_config(names: tuple[str, ...], *plugins: Callable) -> CfgNode:
    cfg = CfgNode()
    set_cfg(cfg)
    # Once more, since another plug-in may have made a block with one of our names.
    add_options(cfg)
    _assign(cfg, config_files.read("default").items())
    return cfg


def _encoder_defaults(mode: str) -> list[tuple[str, Any]]:
    """Keys and values of the encoder that a method was tuned with, as its estimator has them."""
    if mode not in methods.names():
        return []
    return [(SPEC_KEYS[name], v) for name, v in methods.find(mode).encoder_defaults.items()]


def activate(cfg: CfgNode) -> None:
    """Make a copy of a config GraphGym's global one, which its layers and loggers read."""
    copied = cfg.clone()  # first, since the config may be the global one
    global_cfg.defrost()
    global_cfg.clear()
    global_cfg.update(copied)


def data_root(default: str) -> str:
    """The folder of data sets: the environment variable ``GRAPHGYM_SRNC_DATA`` or a default."""
    return os.environ.get("GRAPHGYM_SRNC_DATA") or default


def _assign(cfg: CfgNode, settings: Iterable[tuple[str, Any]]) -> None:
    """Set keys to texts, which are converted by the type of the present value."""
    for key, value in settings:
        *blocks, last = key.split(".")
        node: Any = cfg
        for block in blocks:
            node = node.get(block) if isinstance(node, dict) else None
        default = node.get(last) if isinstance(node, dict) else None
        if isinstance(default, dict) and value == "":
            continue
        if default is None or isinstance(default, dict):
            for registry in (methods.METHODS, shifts.SHIFTS):
                if key.partition(".")[0] in registry:
                    registry.find(key.partition(".")[0])  # tells why it has been left out
            others = {*methods.names()} - {cfg.train.mode}
            own = sorted(flatten(cfg), key=lambda known: known.partition(".")[0] in others)
            hint = did_you_mean(key, own, "`graphgym-srnc options` lists all keys")
            raise InputError.plain(key, "there is no such config key", hint)
        node[last] = coerce(key, value if isinstance(value, list) else str(value), default)


TYPES = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


def coerce(key: str, value: Any, default: Any) -> Any:
    """A text as a value of the type of its key's default; a list as it is, or as YAML."""
    if isinstance(default, (list, tuple)):
        with contextlib.suppress(ValueError):
            value = plain_yaml(value) if isinstance(value, str) else value
        if not isinstance(value, list):
            raise InputError(key, value, "a list in brackets, e.g. [1, 2]")
        return [coerce(key, item, default[0]) if default else _guess(str(item)) for item in value]
    if key == "num_threads":
        # A number or a word, whichever the config has so far.
        if value == AUTO:
            return AUTO
        default = 1
    kind = type(default)
    parsed = None
    text = str(value)
    if not isinstance(value, list):
        with contextlib.suppress(KeyError, ValueError):
            parsed = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    if parsed is None or not finite(parsed):
        raise InputError(key, value, TYPES[kind])
    return parsed


def _guess(text: str) -> Any:
    for parse in (int, float):
        with contextlib.suppress(ValueError):
            return parse(text)
    return text

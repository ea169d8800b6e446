"""Configs: GraphGym's keys, a block per method and shift, and yaml files that say a difference."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Mapping, Sequence

import yaml
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import assert_cfg, set_cfg
from torch_geometric.graphgym.config import cfg as global_cfg
from yacs.config import CfgNode

from graphgym_srnc import methods, shifts
from graphgym_srnc.backbones import ACTIVATIONS, BACKBONES, FEATURES, EncoderSpec
from graphgym_srnc.core.errors import Collected, InputError
from graphgym_srnc.core.options import Allowed, OneOf, Option, Range
from graphgym_srnc.core.options import options as options_of
from graphgym_srnc.gym.encoder import SPEC_KEYS
from graphgym_srnc.gym.keys import DONE_ANYWAY, MADE, METHODS_LOOP, TOLD, limits, unread
from graphgym_srnc.gym.late import enter
from graphgym_srnc.io.configs import coerce, find, pairs, read, unknown
from graphgym_srnc.io.settings import config_root, flatten
from graphgym_srnc.methods.shared.training import adam
from graphgym_srnc.train import trainer

# Those of libyaml are several times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

TRAINING = [option for option in options_of(trainer.fit) if option.key not in ("seed", "callbacks")]
"""The settings of the trainer, which are keys of the block ``train``."""

OWN = {
    "train": [
        Option("mode", str, "standard", "method to train; standard = GraphGym's own training."),
        *TRAINING,
        Option(
            "checkpoint",
            float,
            0.02,
            "maximum share of the run time spent on writing checkpoints, from which --resume "
            "continues; 1 = after every episode, 0 = never.",
            Range(0, 1),
        ),
        Option(
            "save_model",
            bool,
            True,
            "whether to save the trained model in the folder of the "
            "run; grid and tune set it to false by default.",
        ),
    ],
    "dataset": [
        Option(
            "normalize",
            str,
            "none",
            "scaling of features: row (sum 1), l2 (length 1), auto "
            "(l2, and dense features are centred) or none.",
            OneOf(*FEATURES),
        ),
    ],
}
"""Keys of this package in blocks of GraphGym."""

KEYS = {
    **SPEC_KEYS,
    "lr": "optim.base_lr",
    "weight_decay": "optim.weight_decay",
    "method": "train.mode",
    "shift": "dataset.format",
    "name": "dataset.name",
    "root": "dataset.dir",
    **{option.key: f"train.{option.key}" for option in TRAINING},
}
"""GraphGym's key for what the rest of this package calls an option."""


def schema() -> dict[str, list[Option]]:
    """Every config key that this package adds, by block; each shift and each method has one."""
    blocks = dict(OWN)
    for name in shifts.names():
        blocks[name] = [
            option._replace(
                default=-1, doc=f"{option.doc} -1 = seed of the run.".strip(), allowed=Range(-1)
            )
            if option.key == "split_seed"
            else option
            for option in options_of(shifts.find(name))
        ]
    return blocks | {name: options_of(methods.find(name)) for name in methods.names()}


def add_options(cfg: CfgNode) -> None:
    """Add our keys to a config; a key that is there already stays as it is."""
    for block, options in schema().items():
        node = cfg.setdefault(block, CfgNode())
        for option in options if isinstance(node, dict) else ():
            default = list(option.default) if option.type is tuple else option.default
            node.setdefault(option.key, default)
    # GraphGym 2.8 reads this key where gpu_mem is on, and never makes it.
    cfg.setdefault("device", cfg.accelerator)
    # It makes this one later, and so could not read the whole config of a run.
    cfg.setdefault("run_dir", cfg.out_dir)


def register_options() -> None:
    """Make GraphGym know our keys, and its global config have them."""
    register.config_dict.setdefault("graphgym_srnc", add_options)
    # GraphGym ran set_cfg before it could know us.
    add_options(global_cfg)


def values(cfg: CfgNode, block: str, function: Callable) -> dict[str, Any]:
    """The keywords of a method or shift as a config has them, in the types of its signature."""
    return {option.key: option.type(cfg[block][option.key]) for option in options_of(function)}


def load_config(
    cfg_file_or_name: str | os.PathLike | None = None,
    overrides: Sequence[Any] = (),
    stored: bool = False,
) -> CfgNode:
    """A new config: GraphGym's defaults, then ours, a yaml file, and overrides; checked as a whole.

    Args:
        cfg_file_or_name: a yaml file, or the name of one that ships with the package, e.g.
            ``paper/open_set/cora-srnc``; None = our defaults.
        overrides: keys and values, alternately, e.g. ``["gnn.dim_inner", "64"]``.
        stored: it is the config of a finished run, in which keys that its method did not read may
            have any value; they get their default.

    Raises:
        InputError: no such file, an unknown key, a value of a wrong type or outside its range, or
            one for a key that the method does not read.
    """
    cfg = CfgNode()
    set_cfg(cfg)
    # Once more, since another plug-in may have made a block of a name that we have.
    add_options(cfg)
    cfg.run_dir = cfg.out_dir
    default_dir = cfg.dataset.dir
    _assign_all(cfg, read(config_root() / "default.yaml").items())
    defaults = flatten(cfg)
    if cfg_file_or_name is not None:
        _assign_all(cfg, read(find(cfg_file_or_name)).items())
        # The yaml may be a whole config that a run has written.
        defaults["run_dir"] = cfg.run_dir
    _assign_all(cfg, pairs(overrides))
    if cfg.dataset.dir == default_dir:
        cfg.dataset.dir = data_root(default_dir)
    if stored:
        forget_unread(cfg, defaults)
    refuse(cfg, [defaults], unread(cfg) | MADE)
    assert_cfg(cfg)
    return cfg


def dump_config(cfg: CfgNode) -> str:
    """A whole config as yaml, as ``cfg.dump()`` writes it; :func:`parse_config` reads it back."""
    return yaml.dump(_plain(cfg), Dumper=DUMPER)


def parse_config(text: str) -> CfgNode:
    """A whole config from what :func:`dump_config` wrote; it is not checked again."""
    return CfgNode(yaml.load(text, LOADER))


def activate(cfg: CfgNode) -> None:
    """Make a copy of a config GraphGym's global one, which its layers and loggers read."""
    nodes = cfg.clone()
    global_cfg.defrost()
    global_cfg.clear()
    global_cfg.update(nodes)


def current() -> CfgNode:
    """A copy of GraphGym's global config."""
    return global_cfg.clone()


def data_root(default: str) -> str:
    """The folder of data sets: the environment variable ``GRAPHGYM_SRNC_DATA`` or a default."""
    return os.environ.get("GRAPHGYM_SRNC_DATA") or default


def check(cfg: CfgNode) -> None:
    """Refuse what no run could do, before any long work.

    Raises:
        InputError: names the keys at fault.
    """
    enter()
    wrong = Collected()
    for key, allowed in _allowed(cfg).items():
        value = _get(cfg, key)
        # None is a key that this GraphGym lacks, or what it makes of devices.
        if value is not None and not allowed.allows(value):
            limited = allowed is METHODS_LOOP.get(key)
            why = f" with train.mode {cfg.train.mode}" if limited else ""
            wrong.errors.append(InputError(key, value, f"{allowed}{why}"))
    wrong.check()
    if cfg.train.mode != "standard":
        method = methods.find(cfg.train.mode)
        method(**values(cfg, cfg.train.mode, method))


def forget_unread(cfg: CfgNode, defaults: Mapping[str, Any]) -> None:
    """Give keys that are not read their value in a flat config of defaults."""
    unset = {key: _unset(key, [defaults]) for key in unread(cfg) | MADE}
    _assign_all(cfg, [(key, allowed[0]) for key, allowed in unset.items() if allowed])


def refuse(cfg: CfgNode, defaults: Sequence[Mapping[str, Any]], keys: Mapping[str, str]) -> None:
    """Refuse what no run could do, and values for what is not read, which would do nothing.

    Args:
        cfg: the config.
        defaults: flat configs, whose values count as not set.
        keys: the dotted keys that are not read, and what does the work of each instead.

    Raises:
        InputError: names the keys at fault.
    """
    wrong, of_key = Collected(), {}
    with wrong.step():
        _refuse_unread(cfg, defaults, keys)
    with wrong.step():
        check(cfg)
    for error in wrong.errors:
        of_key.setdefault(error.key, error)
    wrong.errors = list(of_key.values())
    wrong.check()


def _refuse_unread(
    cfg: CfgNode,
    defaults: Sequence[Mapping[str, Any]],
    keys: Mapping[str, str],
) -> None:
    flat, wrong = flatten(cfg), Collected()
    for key, instead in keys.items():
        allowed = _unset(key, defaults)
        if allowed and flat.get(key) is not None and flat[key] not in allowed:
            message = f"train.mode {cfg.train.mode} does not read this key, set to {flat[key]!r}"
            hint = f"Remove it, or set it to {allowed[0]!r}" + (f"; {instead}" if instead else "")
            wrong.errors.append(InputError.plain(key, message, hint))
    wrong.check()


def _unset(key: str, defaults: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What a key that is not read may be; none where GraphGym has no such key."""
    return (
        [1]
        if key == "gnn.att_heads"
        else [*(flat[key] for flat in defaults if key in flat), *DONE_ANYWAY.get(key, ())]
    )


def not_read(configs: Sequence[CfgNode], defaults: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Keys that some of the configs set and none of them reads; a note names them.

    Args:
        configs: those of one command.
        defaults: flat configs, whose values count as not set; by default ours.
    """
    defaults = defaults or [flatten(load_config())]
    blocks = set(schema()) - set(OWN)
    trainer_keys = {f"train.{option.key}" for option in TRAINING}

    def reads(cfg: CfgNode, key: str) -> bool:
        block, standard = key.split(".")[0], cfg.train.mode == "standard"
        if block in blocks:
            return block in (cfg.train.mode, cfg.dataset.format)
        return not standard if key in trainer_keys else standard or TOLD[key](cfg)

    return [
        key
        for key in defaults[-1]
        if (key in TOLD or key in trainer_keys or key.split(".")[0] in blocks)
        and any(_get(cfg, key) not in _unset(key, defaults) for cfg in configs)
        and not any(reads(cfg, key) for cfg in configs)
    ]


def stock_defaults() -> list[dict[str, Any]]:
    """What a config of GraphGym's own ``main.py`` has where nobody has set anything, or as ours."""
    stock = CfgNode()
    set_cfg(stock)
    # The head is what GraphGym's assert_cfg makes of it.
    return [
        flatten(stock),
        flatten(stock) | {"gnn.head": stock.dataset.task},
        flatten(load_config()),
    ]


def _allowed(cfg: CfgNode) -> dict[str, Allowed]:
    """What the keys of a config may be, by our options and by what GraphGym can do."""
    standard = cfg.train.mode == "standard"
    stock = standard and cfg.model.type == "gnn"
    layers = set(register.layer_dict) | set(() if stock else BACKBONES)
    blocks, used = schema(), ("train", "dataset", cfg.dataset.format)
    return {
        **limits(cfg),
        **{
            f"{block}.{option.key}": option.allowed
            for block in used
            for option in blocks.get(block, ())
            if option.allowed
        },
        **{
            KEYS[option.key]: option.allowed
            for option in options_of(EncoderSpec) + options_of(adam)
            if option.allowed
        },
        "train.mode": OneOf("standard", *methods.names()),
        "dataset.format": OneOf(*shifts.names()),
        "gnn.layer_type": OneOf(*sorted(layers)),
        "gnn.act": OneOf(*sorted({*register.act_dict, *ACTIVATIONS})),
    }


def _plain(tree: Any) -> Any:
    return {k: _plain(v) for k, v in tree.items()} if isinstance(tree, dict) else tree


def _get(cfg: CfgNode, key: str) -> Any:
    for part in key.split("."):
        cfg = cfg.get(part) if isinstance(cfg, dict) else None
    return cfg


def _assign_all(cfg: CfgNode, pairs: Iterable[tuple[str, Any]]) -> None:
    for key, value in pairs:
        _assign(cfg, str(key), value if isinstance(value, list) else str(value))


def _assign(cfg: CfgNode, key: str, value: Any) -> None:
    default = _get(cfg, key)
    if isinstance(default, dict) and value == "":
        return
    if key in ("open_set.verify", "localized.verify"):
        raise InputError.plain(
            key, "a config cannot say which files are trusted", "Use --trust on the command line"
        )
    if default is None or isinstance(default, dict):
        raise unknown(key, value, flatten(cfg))
    block, _, last = key.rpartition(".")
    (_get(cfg, block) if block else cfg)[last] = coerce(key, value, default)

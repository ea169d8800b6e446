"""The keys of a config: which there are, which of them a run reads, and what they may be."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, Callable, Mapping, Sequence

import yaml
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import set_cfg
from yacs.config import CfgNode

from graphgym_srnc import methods, shifts
from graphgym_srnc.backbones import ACTIVATIONS, BACKBONES, FEATURES, EncoderSpec
from graphgym_srnc.core.environment import AUTO, MAX_THREADS
from graphgym_srnc.core.options import Allowed, OneOf, Option, Range, Share, docs
from graphgym_srnc.core.options import options as options_of
from graphgym_srnc.errors import Collected, InputError
from graphgym_srnc.gym.spec import SPEC_KEYS, is_fast
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.methods.shared.training import adam
from graphgym_srnc.train import trainer

NO_KEYS = ("seed", "callbacks", "best")  # of the block train
TRAINING = [option for option in options_of(trainer.fit) if option.key not in NO_KEYS]


def train_keys(
    *, mode: str = "standard", checkpoint: Share = 0.02, save_model: bool = True
) -> None:
    """Keys of the block ``train`` beside the settings of the trainer.

    Args:
        mode: method to train; standard = GraphGym's own training, on its own data in a main.py.
        checkpoint: maximum share of the run time spent on writing checkpoints, from which --resume
            continues; 1 = after every episode, 0 = never.
        save_model: whether to save the trained model with a run; false by default in grid and tune.
    """


def dataset_keys(*, normalize: Annotated[str, OneOf(*FEATURES)] = "none") -> None:
    """Keys that this package adds to the block ``dataset``.

    Args:
        normalize: scaling of features: row (sum 1), l2 (length 1), auto (l2, and dense features are
            centred) or none.
    """


MODE, *KEPT = options_of(train_keys)
# Keys of this package in blocks of GraphGym.
OWN = {"train": [MODE, *TRAINING, *KEPT], "dataset": options_of(dataset_keys)}

# GraphGym's key for what the rest of this package calls an option.
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


def schema() -> dict[str, list[Option]]:
    """Every config key that this package adds, by block; each shift and each method has one."""
    blocks = dict(OWN)
    for name, build in shifts.SHIFTS.items():
        found = {option.key: option for option in options_of(build)}
        seed = found.get("split_seed")
        if seed:
            doc = f"{seed.doc} -1 = seed of the run.".strip()
            found["split_seed"] = seed._replace(default=-1, doc=doc, allowed=Range(-1))
        blocks[name] = list(found.values())
    return blocks | {name: options_of(method) for name, method in methods.METHODS.items()}


def add_options(cfg: CfgNode) -> None:
    """Add our keys to a config; a key that is there already stays as it is."""
    for block, options in schema().items():
        node = cfg.setdefault(block, CfgNode())
        for option in options if isinstance(node, dict) else ():
            default = list(option.default) if option.type is tuple else option.default
            node.setdefault(option.key, default)
    # GraphGym reads these keys and makes them late or never.
    cfg.setdefault("device", cfg.accelerator)
    cfg.setdefault("run_dir", cfg.out_dir)


def values(cfg: CfgNode, block: str, function: Callable) -> dict[str, Any]:
    """The keywords of a method or shift as a config has them, in the types of its signature."""
    return {option.key: option.type(cfg[block][option.key]) for option in options_of(function)}


_FILE = yaml.safe_load(Path(__file__).with_name("keys.yaml").read_text(encoding="utf-8"))
READ = {*_FILE["read"], *SPEC_KEYS.values()}
SHOWN = {*_FILE["shown"]}
WRITTEN = {*_FILE["written"]}
LAYERS_READ = {*_FILE["layers_read"]}
INSTEAD: dict[str, str] = _FILE["instead"]


def instead(key: str) -> str:
    """What to use instead of a key of GraphGym that no method reads; empty if nothing is known."""
    for name, text in INSTEAD.items():
        if key == name or name.endswith("*") and key.startswith(name[:-1]):
            return text
    return ""


@functools.cache
def stock_keys() -> frozenset[str]:
    """The keys of GraphGym without any plug-in."""
    stock = CfgNode()
    plugins = dict(register.config_dict)
    register.config_dict.clear()
    try:
        set_cfg(stock)
    finally:
        register.config_dict.update(plugins)
    return frozenset({*flatten(stock), "device"} - {"run_dir"})


def reads(cfg: CfgNode, key: str) -> bool:
    """Whether a run of a config may set a key; those of other packages it may."""
    if key in LAYERS_READ:
        normal = key.startswith("bn.") and cfg.gnn.batchnorm
        return normal or cfg.gnn.layer_type not in BACKBONES
    if key == "optim.momentum":
        return cfg.optim.optimizer != "adam"
    return key in READ | SHOWN | WRITTEN or key not in stock_keys()


def not_read(configs: Sequence[CfgNode], defaults: Mapping[str, Any]) -> list[str]:
    """Keys of methods and shifts that some configs set, against flat defaults, and none uses."""
    used = {name for cfg in configs for name in (cfg.train.mode, cfg.dataset.format)}
    others = {*methods.names(), *shifts.names()} - used
    flats = list(map(flatten, configs))
    unread = {*SHOWN}
    if not any(reads_data(cfg.dataset.format) for cfg in configs):
        unread.add("dataset.name")
    return [
        key
        for key, default in defaults.items()
        if (key.split(".")[0] in others or key in unread)
        and any(flat.get(key) != default for flat in flats)
    ]


def reads_data(shift: str) -> bool:
    """Whether a shift reads a data set; the docstring of ``synthetic`` says that root is ignored.

    For a pair of networks the name is that of the pair in tables.
    """
    return docs(shifts.find(shift)).get("root") != "ignored."


def check(cfg: CfgNode, defaults: Mapping[str, Any]) -> None:
    """Refuse values that are not allowed, and keys that are set and not read, all at once."""
    wrong = Collected()
    allowed = limits(cfg)
    for key, value in flatten(cfg).items():
        if not reads(cfg, key) and value != defaults.get(key):
            message = f"train.mode {cfg.train.mode} does not read this key, set to {value!r}"
            use = instead(key).format(mode=cfg.train.mode, shift=cfg.dataset.format)
            hint = f"Remove it, or set it to {defaults.get(key)!r}"
            hint = f"{use}. {hint}" if use else hint
            wrong.errors.append(InputError.plain(key, message, hint))
        elif key == "custom_metrics" and not {*value} <= {*register.metric_dict}:
            unknown = {*value} - {*register.metric_dict}
            message = f"no module registers the metric {min(map(str, unknown))} in this command"
            hint = "Declare the module as an entry point, see docs/how-to/graphgym.md, or set"
            hint += " custom_metrics to [] and metric_best to micro_f1"
            wrong.errors.append(InputError.plain(key, message, hint))
        elif key in allowed and not allowed[key].allows(value):
            error = allowed[key].refuse(key, value)
            wrong.errors.append(error.noted(INSTEAD[key]) if key in INSTEAD else error)
    wrong.check()


def limits(cfg: CfgNode) -> dict[str, Allowed]:
    """What the keys of a config may be."""
    blocks = schema()
    mode = cfg.train.mode
    # Scores of every run; others exist only where nodes are unknown.
    measured = ("auto", "accuracy", "micro_f1", "macro_f1", "macro_recall")
    own = {
        f"{block}.{option.key}": option.allowed
        for block in ("train", "dataset", cfg.dataset.format, mode)
        for option in blocks.get(block, ())
    }
    if mode in methods.names() and not methods.find(mode).in_batches:
        own[f"{mode}.batch_size"] = OneOf(0)
    if cfg.gnn.layer_type in BACKBONES:
        BACKBONES.find(cfg.gnn.layer_type)  # refuses one that cannot be used
    own |= {
        KEYS[option.key]: option.allowed
        for option in options_of(EncoderSpec) + options_of(adam)
        if option.key in KEYS
    }
    if cfg.gnn.layer_type == "gatconv" and not is_fast(cfg.gnn, "gatconv"):
        own["gnn.att_heads"] = OneOf(1)  # GraphGym's own layer ignores the number
    return {
        **{key: allowed for key, allowed in own.items() if allowed},
        "seed": Range(0, 2**32 - 1),
        "round": Range(0, 17),
        "num_threads": Range(1, MAX_THREADS, word=AUTO),
        "accelerator": OneOf("auto", "cpu", "cuda"),
        "metric_best": OneOf(*measured, *cfg.custom_metrics),
        "dataset.format": OneOf(*shifts.names()),
        "train.mode": OneOf(*methods.names()),
        "gnn.layer_type": OneOf(*sorted({*register.layer_dict, *BACKBONES})),
        "gnn.act": OneOf(*sorted({*register.act_dict, *ACTIVATIONS})),
        "gnn.agg": OneOf("add", "sum", "mean", "min", "max"),
        "optim.optimizer": OneOf(*sorted(register.optimizer_dict)),
        "optim.scheduler": OneOf("none"),
        "device": OneOf("auto", "cuda" if cfg.accelerator == "cuda" else "cpu"),
    }

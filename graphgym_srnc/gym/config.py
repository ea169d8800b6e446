"""Configs: GraphGym's keys, a block per method and shift, and YAML files that hold a difference."""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
import os
from typing import Annotated, Any, Callable, Iterable, Mapping, Sequence

import yaml
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import assert_cfg, set_cfg
from torch_geometric.graphgym.config import cfg as global_cfg
from yacs.config import CfgNode

from graphgym_srnc import methods, shifts
from graphgym_srnc.backbones import ACTIVATIONS, BACKBONES, FEATURES, EncoderSpec
from graphgym_srnc.core.environment import AUTO, MAX_THREADS
from graphgym_srnc.core.options import Allowed, OneOf, Option, Range, Share
from graphgym_srnc.core.options import options as options_of
from graphgym_srnc.errors import Collected, InputError
from graphgym_srnc.gym.encoder import SPEC_KEYS, is_fast
from graphgym_srnc.io import config_files
from graphgym_srnc.io.settings import flatten, plain_yaml
from graphgym_srnc.methods.shared.training import adam
from graphgym_srnc.train import trainer

# libyaml's loader and dumper are several times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

TRAINING = [option for option in options_of(trainer.fit) if option.key not in ("seed", "callbacks")]
"""The settings of the trainer, which are keys of the block ``train``."""


def train_keys(
    *, mode: str = "standard", checkpoint: Share = 0.02, save_model: bool = True
) -> None:
    """Keys of the block ``train`` beside the settings of the trainer.

    Args:
        mode: method to train; standard = GraphGym's own training.
        checkpoint: maximum share of the run time spent on writing checkpoints, from which --resume
            continues; 1 = after every episode, 0 = never.
        save_model: whether to save the trained model in the folder of the run; grid and tune set it
            to false by default.
    """


def dataset_keys(*, normalize: Annotated[str, OneOf(*FEATURES)] = "none") -> None:
    """Keys that this package adds to the block ``dataset``.

    Args:
        normalize: scaling of features: row (sum 1), l2 (length 1), auto (l2, and dense features are
            centred) or none.
    """


MODE, *KEPT = options_of(train_keys)
OWN = {"train": [MODE, *TRAINING, *KEPT], "dataset": options_of(dataset_keys)}
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

TRAINER_KEYS = {f"train.{option.key}" for option in TRAINING}

READ = {
    *("accelerator", "out_dir", "seed", "round", "num_threads"),
    *("custom_metrics", "metric_best", "metric_agg"),
    *("dataset.format", "dataset.name", "dataset.dir", "dataset.task"),
    *("dataset.node_encoder", "dataset.edge_encoder"),
    *("gnn.layers_pre_mp", "gnn.layers_post_mp", "gnn.stage_type", "gnn.batchnorm", "gnn.l2norm"),
    *("optim.optimizer", "optim.base_lr", "optim.weight_decay", "optim.scheduler"),
    *SPEC_KEYS.values(),
}
"""Keys of GraphGym that a method, its encoder or its run reads."""

LAYERS_READ = {
    *("gnn.agg", "gnn.normalize_adj", "gnn.msg_direction", "gnn.self_msg", "gnn.keep_edge"),
    *("gnn.clear_feature", "gnn.att_final_linear", "gnn.att_final_linear_bn"),
    *("dataset.edge_dim", "mem.inplace", "bn.eps", "bn.mom"),
}
"""Keys that GraphGym's own layers read, and ours do not."""

SCREEN = {
    *("print", "cfg_dest", "tensorboard_each_run", "tensorboard_agg"),
    *("view_emb", "gpu_mem", "benchmark"),
}
"""Keys of what GraphGym shows and where: a method does not read them, and they do no harm."""

MADE = {"run_dir", "share.dim_in", "share.dim_out", "share.num_splits"}
"""Keys that GraphGym and a run write into a config."""

INSTEAD = {
    "optim.max_epoch": "train.max_episodes and the steps of the method bound its training",
    "train.batch_size": "the method's own batch_size is its batch",
    "train.auto_resume": "use the option --resume",
    "train.enable_ckpt": "use train.checkpoint and train.save_model",
    "train.ckpt_period": "use train.checkpoint",
    "train.eval_period": "every episode is scored",
    "devices": "torchrun starts several processes",
    "device": "use accelerator",
    "dataset.split": "the shift has its own sizes of the split",
    "model.loss_fun": "a method has its own losses",
    "model.type": "gnn.layer_type names its encoder",
    "run_dir": "it is made of out_dir",
    **dict.fromkeys(MADE - {"run_dir"}, "GraphGym takes it from the data"),
}
"""What does the work of a key that is not read."""

DONE_ANYWAY: dict[str, list[Any]] = {"train.eval_period": [1], "train.sampler": ["full_batch"]}
"""Values that say what a method does in any case, as GraphGym's example config has them."""

METRICS = ("auto", "loss", "accuracy", "precision", "recall", "f1", "auc", "mae", "mse", "rmse")
"""What ``metric_best`` may be in GraphGym's own training, beside registered metrics."""

ALWAYS = ("auto", "accuracy", "micro_f1", "macro_f1", "macro_recall")
"""What ``metric_best`` may be for a method, beside your own metrics. Other scores exist only where
nodes are unknown."""

SCORES = (
    *("micro_f1", "macro_f1", "macro_recall", "unknown_recall", "unknown_precision"),
    *("known_accuracy", "known_recall", "hs"),
)
"""Scores of every method, which ``custom_metrics`` need not name."""

_late: list[tuple[dict[str, Any], str, Any]] = []


def later(registry: dict[str, Any], name: str, module: Any) -> None:
    """Have :func:`enter` put a module into one of GraphGym's registries.

    GraphGym refuses a name that is taken. Names that other plug-ins may have too, such as ``dann``
    or ``macro_f1``, therefore wait until every plug-in is imported.
    """
    _late.append((registry, name, module))


def enter() -> None:
    """Put the modules that wait into the registries, except those whose name is taken."""
    for registry, name, module in _late:
        registry.setdefault(name, module)


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
    """Add our keys to GraphGym's registry, and to its global config."""
    register.config_dict.setdefault("graphgym_srnc", add_options)
    # GraphGym called set_cfg before this package could register.
    add_options(global_cfg)


def values(cfg: CfgNode, block: str, function: Callable) -> dict[str, Any]:
    """The keywords of a method or shift as a config has them, in the types of its signature."""
    return {option.key: option.type(cfg[block][option.key]) for option in options_of(function)}


def load_config(
    source: str | os.PathLike | config_files.Settings | None = None,
    overrides: Sequence[Any] = (),
    stored: bool = False,
) -> CfgNode:
    """A new config: GraphGym's defaults, then ours, a YAML file, and overrides; checked as a whole.

    Args:
        source: a YAML file, or the name of one that ships with the package, for example
            ``paper/open_set/cora-srnc``, or what :func:`~graphgym_srnc.io.config_files.read` has
            read; None = our defaults.
        overrides: keys and values, alternately, for example ``["gnn.dim_inner", "64"]``.
        stored: whether it is the config of a finished run, in which keys that its method did not
            read may have any value; they get their default.

    Raises:
        InputError: there is no such file, a key is unknown, a value has a wrong type or is out of
            range, or the method does not read a key that is set.
    """
    cfg = CfgNode()
    set_cfg(cfg)
    # Once more, since another plug-in may have made a block with one of our names.
    add_options(cfg)
    default_dir = cfg.dataset.dir
    _assign(cfg, config_files.read("default").items())
    cfg.run_dir = cfg.out_dir
    defaults = [flatten(cfg)]
    _assign(cfg, (source if isinstance(source, dict) else config_files.read(source)).items())
    # The file may be the whole config that a run has written.
    defaults[0]["run_dir"] = cfg.run_dir
    _assign(cfg, config_files.pairs(overrides))
    if cfg.dataset.dir == default_dir:
        cfg.dataset.dir = data_root(default_dir)
    if stored:
        reset_unread(cfg, defaults[0])
    check(cfg, defaults)
    assert_cfg(cfg)
    return cfg


def dump_config(cfg: CfgNode) -> str:
    """A whole config as YAML, as ``cfg.dump()`` writes it; :func:`parse_config` reads it back."""
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


def data_root(default: str) -> str:
    """The folder of data sets: the environment variable ``GRAPHGYM_SRNC_DATA`` or a default."""
    return os.environ.get("GRAPHGYM_SRNC_DATA") or default


def check(cfg: CfgNode, defaults: Sequence[Mapping[str, Any]]) -> None:
    """Check a whole config before any long work.

    Args:
        cfg: the config.
        defaults: flat configs, whose values count as not set.

    Raises:
        InputError: a value is not allowed, or a key is set that the method does not read; names all
            keys at fault.
    """
    enter()
    wrong, mode = Collected(), cfg.train.mode
    for key, value in flatten(cfg).items():
        usual = unset(key, defaults) if key in stock_keys() - SCREEN else [value]
        if value not in usual and not reads(cfg, key):
            message = f"train.mode {mode} does not read this key, set to {value!r}"
            hint = f"Remove it, or set it to {usual[0]!r}"
            hint += f"; {INSTEAD[key]}" if key in INSTEAD else ""
            wrong.errors.append(InputError.plain(key, message, hint))
    seen = {error.key for error in wrong.errors}
    for key, limit in limits(cfg).items():
        value = _get(cfg, key)
        # GraphGym may lack a key, and makes None of devices.
        if key not in seen and value is not None and not limit.allows(value):
            why = f" with train.mode {mode}" * (limit is OF_METHODS.get(key))
            wrong.errors.append(InputError(key, value, f"{limit}{why}"))
    if mode == "standard" and cfg.custom_metrics and "micro_f1" not in cfg.custom_metrics:
        allowed = "a list with micro_f1, or []"
        wrong.errors.append(InputError("custom_metrics", list(cfg.custom_metrics), allowed))
    wrong.check()
    if mode != "standard":
        method = methods.find(mode)
        method(**values(cfg, mode, method))  # refuses options that do not go together


@functools.cache
def stock_keys() -> frozenset[str]:
    """The keys of GraphGym without any plug-in, and ``device`` and ``run_dir``."""
    stock, plugins = CfgNode(), dict(register.config_dict)
    register.config_dict.clear()
    try:
        set_cfg(stock)
    finally:
        register.config_dict.update(plugins)
    return frozenset({*flatten(stock), *MADE, "device"})


def reads(cfg: CfgNode, key: str) -> bool:
    """Whether a run of a config reads a key of GraphGym or of ours."""
    mode = cfg.train.mode
    if key in TRAINER_KEYS:
        return mode != "standard"
    if key not in stock_keys():
        block = key.split(".")[0]
        own = {*methods.names(), *shifts.names()} - {mode, cfg.dataset.format}
        return block not in own
    if key in MADE or mode == "standard":
        return key not in MADE
    if key in LAYERS_READ:
        normal = key.startswith("bn.") and cfg.gnn.batchnorm
        return normal or cfg.gnn.layer_type not in BACKBONES
    if key == "optim.momentum":
        return cfg.optim.optimizer != "adam"
    return key in READ


def unset(key: str, defaults: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The values of a key that count as not set."""
    usual = [flat[key] for flat in defaults if key in flat]
    return usual + DONE_ANYWAY.get(key, [])


def reset_unread(cfg: CfgNode, defaults: Mapping[str, Any]) -> None:
    """Give keys that are not read their value in a flat config of defaults."""
    for key in stock_keys():
        if key in defaults and not reads(cfg, key):
            block, last = _owner(cfg, key)
            block[last] = defaults[key]


def not_read(configs: Sequence[CfgNode], defaults: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Keys that some of the configs set and none of them reads, and that do no harm.

    Args:
        configs: the configs of one command.
        defaults: flat configs, whose values count as not set; by default ours.
    """
    defaults = defaults or [flatten(load_config())]
    blocks = {*methods.names(), *shifts.names()}
    return [
        key
        for key in defaults[-1]
        if (key in SCREEN or key in TRAINER_KEYS or key.split(".")[0] in blocks)
        and any(_get(cfg, key) not in unset(key, defaults) for cfg in configs)
        and not any(reads(cfg, key) for cfg in configs)
    ]


def own_metrics(cfg: CfgNode) -> list[str]:
    """The metrics of ``custom_metrics`` that are not scores of every method: your own ones."""
    return [name for name in cfg.custom_metrics if name not in SCORES]


OF_METHODS: dict[str, Allowed] = {
    "gnn.stage_type": OneOf("stack"),
    "gnn.layers_pre_mp": OneOf(0),
    "gnn.layers_post_mp": OneOf(0, 1),
    "optim.scheduler": OneOf("none"),
    "dataset.node_encoder": OneOf(False),
    "dataset.edge_encoder": OneOf(False),
    "accelerator": OneOf("auto", "cpu", "cuda"),
}
"""What a method's loop and stack of layers can do; other values would silently do nothing."""


def limits(cfg: CfgNode) -> dict[str, Allowed]:
    """What the keys of a config may be, by our options and by what GraphGym can do."""
    standard = cfg.train.mode == "standard"
    stock = standard and cfg.model.type == "gnn"
    layers = {*register.layer_dict, *(() if stock else BACKBONES)}
    blocks = schema()
    one_head = cfg.gnn.layer_type == "gatconv" and not is_fast(cfg, "gatconv")
    own = {
        f"{block}.{option.key}": option.allowed
        for block in ("train", "dataset", cfg.dataset.format)
        for option in blocks.get(block, ())
    }
    own |= {
        KEYS[option.key]: option.allowed
        for option in options_of(EncoderSpec) + options_of(adam)
        if option.key in KEYS
    }
    return {
        "seed": Range(0, 2**32 - 1),
        "round": Range(0, 17),
        "num_threads": Range(1, MAX_THREADS, word=AUTO),
        "print": OneOf("both", "stdout", "file"),
        "metric_agg": OneOf("argmax", "argmin"),
        "metric_best": OneOf(*METRICS, *sorted(register.metric_dict))
        if standard
        else OneOf(*ALWAYS, *own_metrics(cfg)),
        "custom_metrics": OneOf(*sorted(register.metric_dict)),
        "dataset.task": OneOf("node"),
        "dataset.task_type": OneOf("classification"),
        "model.type": OneOf(*sorted({"gnn", *register.network_dict})),
        "gnn.head": OneOf(*sorted({"default", *register.head_dict})),
        "gnn.stage_type": OneOf(*sorted(register.stage_dict)),
        "gnn.layers_pre_mp": Range(0),
        "gnn.layers_post_mp": Range(0),
        "gnn.agg": OneOf("add", "sum", "mean", "min", "max"),
        "optim.optimizer": OneOf(*sorted(register.optimizer_dict)),
        "optim.scheduler": OneOf(*sorted(filter(None, register.scheduler_dict))),
        "optim.max_epoch": Range(1),
        "optim.momentum": Range(0, 1),
        "train.batch_size": Range(1),
        "bn.mom": Range(0, 1),
        "bn.eps": Range(0, closed="neither"),
        **({} if standard else OF_METHODS),
        **{key: allowed for key, allowed in own.items() if allowed},
        **({"gnn.att_heads": OneOf(1)} if one_head and not standard else {}),
        "train.mode": OneOf("standard", *methods.names()),
        "dataset.format": OneOf(*shifts.names()),
        "gnn.layer_type": OneOf(*sorted(layers)),
        "gnn.act": OneOf(*sorted({*register.act_dict, *ACTIVATIONS})),
    }


def _plain(tree: Any) -> Any:
    return {k: _plain(v) for k, v in tree.items()} if isinstance(tree, dict) else tree


def _get(cfg: CfgNode, key: str) -> Any:
    node: Any = cfg
    for part in key.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _owner(cfg: CfgNode, key: str) -> tuple[CfgNode, str]:
    block, _, last = key.rpartition(".")
    return _get(cfg, block) if block else cfg, last


def _assign(cfg: CfgNode, settings: Iterable[tuple[str, Any]]) -> None:
    """Set keys to texts, which are converted by the type of the present value."""
    for key, value in settings:
        value = value if isinstance(value, list) else str(value)
        default = _get(cfg, key)
        if isinstance(default, dict) and value == "":
            continue
        if key in ("open_set.verify", "localized.verify"):
            message = "a config cannot say which files are trusted"
            raise InputError.plain(key, message, "Use --trust on the command line")
        if default is None or isinstance(default, dict):
            near = ", ".join(difflib.get_close_matches(key, list(flatten(cfg)), 3))
            hint = f"Did you mean {near}?" if near else "`graphgym-srnc options` lists all keys"
            raise InputError.plain(key, "there is no such config key", hint)
        block, last = _owner(cfg, key)
        block[last] = coerce(key, value, default)


PARSERS: dict[type, tuple[str, Callable[[str], Any]]] = {
    bool: ("true or false", lambda text: {"true": True, "false": False}[text.lower()]),
    int: ("an integer", int),
    float: ("a number", float),
    str: ("text", str),
}


def coerce(key: str, value: Any, default: Any) -> Any:
    """A text as a value of the type of its key's default; a list as it is, or as YAML.

    Raises:
        InputError: it cannot be converted to that type.
    """
    if isinstance(default, (list, tuple)):
        with contextlib.suppress(ValueError):
            value = plain_yaml(value) if isinstance(value, str) else value
        if not isinstance(value, list):
            raise InputError(key, value, "a list, e.g. [1, 2]")
        kind = default[0] if default else None
        return [
            coerce(key, str(item), _guess(str(item)) if kind is None else kind) for item in value
        ]
    if key == "num_threads":
        # A number or a word, whichever the config has so far.
        if value == AUTO:
            return AUTO
        default = 1
    words, parse = PARSERS[type(default)]
    try:
        parsed = parse(value) if isinstance(value, str) else None
    except (KeyError, ValueError):
        parsed = None
    if parsed is None or isinstance(parsed, float) and not math.isfinite(parsed):
        raise InputError(key, value, words)
    return parsed


def _guess(text: str) -> Any:
    for parse in (int, float):
        with contextlib.suppress(ValueError):
            return parse(text)
    return text

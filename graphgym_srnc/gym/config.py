"""Configuration: GraphGym's own keys, one block per method and shift made from its signature, and yaml files that say a difference."""
from __future__ import annotations

import contextlib
import difflib
import math
import os
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import yaml
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import assert_cfg, set_cfg
from torch_geometric.graphgym.config import cfg as global_cfg
from yacs.config import CfgNode

from graphgym_srnc import methods, shifts
from graphgym_srnc.backbones import ACTIVATIONS, BACKBONES, FEATURES
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.gym.encoder import is_fast
from graphgym_srnc.options import Option
from graphgym_srnc.options import options as options_of
from graphgym_srnc.settings import config_root, plain_yaml
from graphgym_srnc.train.selection import SELECTIONS

DATA_DIR = "GRAPHGYM_SRNC_DATA"
"""Environment variable that holds ``dataset.dir`` where no config says otherwise."""

LOADER, DUMPER = getattr(yaml, "CSafeLoader", yaml.SafeLoader), getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""What reads and writes whole configs; those of libyaml, where it is there, are several times as fast."""

OWN = {
    "train": [
        Option("mode", str, "standard", "standard (GraphGym's own training) or the name of a method."),
        Option("selection", str, "target_val", "What the best episode is chosen by: target_val, source_val, target_modularity or last."),
        Option("min_agreement", float, 0.6, "With target_modularity, least share of target nodes on which an episode and episode 0 agree."),
        Option("max_episodes", int, -1, "At most so many episodes after episode 0; -1 = as many as the method asks for."),
        Option("patience", int, 0, "Stop after so many episodes in a row without a better score; 0 = never."),
        Option("checkpoint", float, 0.02, "Share of a run's time that keeping its state after episodes may take, for --resume to go on "
                                          "from there; 1 = after every episode, 0 = never."),
        Option("save_model", bool, True, "Keep the trained model beside the record of a run; in a grid only if its command line says so."),
    ],
    "dataset": [Option("normalize", str, "none", "Scaling of features: row (sum 1), l2 (length 1), auto (l2, dense ones centred), none.")],
}


def schema() -> dict[str, list[Option]]:
    """Every config key that this package adds, by block: its own ones, then one block per shift and per method."""
    blocks = dict(OWN)
    for name in shifts.names():
        blocks[name] = [o._replace(default=-1, doc=f"{o.doc} -1 = the run's seed.".strip()) if o.key == "split_seed" else o
                        for o in options_of(shifts.find(name))]
    return blocks | {name: options_of(methods.find(name)) for name in methods.names()}


def add_options(cfg: CfgNode) -> None:
    """Add our keys to a config; a key that is there already stays as it is."""
    for block, options in schema().items():
        node = cfg.setdefault(block, CfgNode())
        for option in options:
            node.setdefault(option.key, list(option.default) if option.type is tuple else option.default)
    # GraphGym 2.8 reads this key where gpu_mem is on, and never makes it.
    cfg.setdefault("device", cfg.accelerator)


def values(cfg: CfgNode, block: str, function: Callable) -> dict[str, Any]:
    """The keywords of a method or shift as a config has them, in the types of its signature."""
    return {o.key: o.type(cfg[block][o.key]) for o in options_of(function)}


def load_config(cfg_file_or_name: str | os.PathLike | None = None, overrides: Sequence[Any] = ()) -> CfgNode:
    """A new config: GraphGym's defaults, then ours, then a yaml file, then overrides; checked as a whole.

    Args:
        cfg_file_or_name: a yaml file, or the name of one that ships with the package, e.g. ``paper/open_set/cora-srnc``; None = our
            defaults.
        overrides: keys and values by turns, e.g. ``["gnn.dim_inner", "64"]``.

    Raises:
        InputError: no such file, an unknown key, or a value of a wrong type or outside its range.
    """
    cfg = CfgNode()
    set_cfg(cfg)
    cfg.run_dir = cfg.out_dir
    home = cfg.dataset.dir
    for path in [config_root() / "default.yaml"] + ([] if cfg_file_or_name is None else [_find(str(cfg_file_or_name))]):
        for key, value in _leaves(_read(path)):
            _assign(cfg, key, value)
    if len(overrides) % 2:
        raise InputError("overrides", " ".join(map(str, overrides)), "pairs of a key and a value")
    for key, value in zip(overrides[::2], overrides[1::2]):
        _assign(cfg, key, value if isinstance(value, list) else str(value))
    if cfg.dataset.dir == home:
        cfg.dataset.dir = data_root(home)
    check(cfg)
    assert_cfg(cfg)
    return cfg


def dump_config(cfg: CfgNode) -> str:
    """A whole config as yaml, just as ``cfg.dump()`` writes it; :func:`parse_config` reads it back."""
    return yaml.dump(_plain(cfg), Dumper=DUMPER)


def parse_config(text: str) -> CfgNode:
    """A whole config from what :func:`dump_config` wrote, e.g. ``config.yaml``; it is not checked again."""
    return CfgNode(yaml.load(text, LOADER))


def activate(cfg: CfgNode) -> None:
    """Make a copy of a config GraphGym's global one, which its layers, loaders and loggers read."""
    nodes = cfg.clone()
    global_cfg.defrost()
    global_cfg.clear()
    global_cfg.update(nodes)


def data_root(default: str) -> str:
    """The folder of data sets: the environment variable ``GRAPHGYM_SRNC_DATA`` or a default."""
    return os.environ.get(DATA_DIR) or default


def config_names() -> list[str]:
    """Names of all shipped configs, e.g. ``paper/open_set/cora-srnc``, sorted."""
    root = config_root()
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml"))


def check(cfg: CfgNode) -> None:
    """Refuse what no run could do, before any long work.

    Raises:
        InputError: names the first key at fault.
    """
    standard, stock = cfg.train.mode == "standard", cfg.train.mode == "standard" and cfg.model.type == "gnn"
    with renamed({"shift": "dataset.format"}):
        shifts.find(cfg.dataset.format)
    if not standard:
        method = methods.find(cfg.train.mode)
        method(**values(cfg, cfg.train.mode, method))
    acts = set(register.act_dict) if stock else set(ACTIVATIONS)
    if not stock and not is_fast(cfg, cfg.gnn.layer_type):
        acts &= set(register.act_dict)
    choices = {
        "dataset.task": ("node",), "dataset.normalize": FEATURES, "train.selection": SELECTIONS,
        "gnn.layer_type": sorted(register.layer_dict if stock else {*BACKBONES, *register.layer_dict}), "gnn.act": sorted(acts),
        "optim.optimizer": sorted(register.optimizer_dict), "model.type": sorted(register.network_dict),
        "optim.scheduler": sorted(filter(None, register.scheduler_dict)), "gnn.head": sorted({"default", *register.head_dict}),
    }
    # A method has its own loop and stack of layers, in which other values of these keys would silently do nothing.
    own_loop = {"gnn.stage_type": ("stack",), "gnn.layers_pre_mp": (0,), "gnn.layers_post_mp": (0, 1), "optim.scheduler": ("none",),
                "dataset.node_encoder": (False,), "dataset.edge_encoder": (False,), "accelerator": ("auto", "cpu", "cuda")}
    for table, reason in ((choices, ""), ({} if standard else own_loop, f" (train.mode is {cfg.train.mode})")):
        for key, allowed in table.items():
            if _get(cfg, key) not in allowed:
                raise InputError(key, _get(cfg, key), ", ".join(map(str, allowed)) + reason)
    for key, low, high in (("gnn.layers_mp", 1, math.inf), ("gnn.dim_inner", 1, math.inf), ("gnn.att_heads", 1, math.inf),
                           ("gnn.dropout", 0, 0.999), ("optim.base_lr", 0, math.inf), ("optim.weight_decay", 0, math.inf),
                           ("train.max_episodes", -1, math.inf), ("train.patience", 0, math.inf), ("seed", 0, 2 ** 32 - 1),
                           ("num_threads", 1, math.inf), ("train.checkpoint", 0, 1)):
        if not low <= _get(cfg, key) <= high:
            raise InputError(key, _get(cfg, key), f"{low} or more" if high == math.inf else f"{low} to {high}")


def _find(name: str) -> Path:
    for path in (Path(name), Path(f"{name}.yaml"), config_root() / name, config_root() / f"{name}.yaml"):
        if path.is_file():
            return path
    near = difflib.get_close_matches(name, config_names(), 3) or ["own", "paper/open_set/cora-srnc-plus"]
    raise InputError("--cfg", name, f"a yaml file, or the name of a shipped one, e.g. {', '.join(near)}; graphgym-srnc options lists all")


def _read(path: Path) -> dict[str, Any]:
    try:
        # Every scalar stays text, so that the schema and not yaml decides its type: a data set named 2024 remains a name.
        tree = plain_yaml(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError) as error:
        raise InputError("--cfg", str(path), f"a readable yaml file ({' '.join(str(error).split())})") from error
    if not isinstance(tree, dict):
        raise InputError("--cfg", str(path), "a yaml file of blocks, keys and values")
    return tree


def _leaves(tree: dict[str, Any], block: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{block}{key}.")
        else:
            yield f"{block}{key}", value


def _plain(tree: Any) -> Any:
    return {key: _plain(value) for key, value in tree.items()} if isinstance(tree, dict) else tree


def _get(cfg: CfgNode, key: str) -> Any:
    for part in key.split("."):
        cfg = cfg.get(part) if isinstance(cfg, dict) else None
    return cfg


def _assign(cfg: CfgNode, key: str, value: Any) -> None:
    default = _get(cfg, key)
    if isinstance(default, dict) and value == "":
        return
    if default is None or isinstance(default, dict):
        near = difflib.get_close_matches(key, [leaf for leaf, _ in _leaves(cfg)], 3)
        raise InputError(key, value, f"a known key; close: {', '.join(near)}" if near else "a known key, see graphgym-srnc options")
    block, _, last = key.rpartition(".")
    (_get(cfg, block) if block else cfg)[last] = _coerce(key, value, default)


_KINDS = {
    bool: ("true or false", lambda text: {"true": True, "false": False}[text.lower()]), int: ("an integer", int),
    float: ("a number", float), str: ("text", str),
}


def _coerce(key: str, value: Any, default: Any) -> Any:
    if isinstance(default, (list, tuple)):
        try:
            items = plain_yaml(value) if isinstance(value, str) else value
        except ValueError:
            items = None
        if not isinstance(items, list):
            raise InputError(key, value, "a list, e.g. [1, 2]")
        return [_coerce(key, str(item), default[0] if default else _guess(str(item))) for item in items]
    words, parse = _KINDS[type(default)]
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

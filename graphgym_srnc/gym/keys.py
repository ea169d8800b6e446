"""The keys of a config: which there are, which of them a run reads, and what they may be."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Callable, Mapping, Sequence

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


# Keys of GraphGym that a method, its encoder or its run reads.
READ = {
    *("accelerator", "device", "out_dir", "seed", "round", "num_threads", "custom_metrics"),
    *("metric_best", "dataset.format", "dataset.name", "dataset.dir", "gnn.batchnorm"),
    *("gnn.l2norm", "optim.optimizer", "optim.base_lr", "optim.weight_decay", "optim.scheduler"),
    *SPEC_KEYS.values(),
}
# Keys of GraphGym without effect that do no harm: what GraphGym shows and where.
SHOWN = {
    *("print", "tensorboard_each_run", "tensorboard_agg", "view_emb", "gpu_mem", "benchmark"),
}
# Keys that GraphGym's main.py writes.
WRITTEN = {"cfg_dest", "share.dim_in", "share.dim_out", "share.num_splits"}
# Keys that GraphGym's own layers read, and ours do not.
LAYERS_READ = {
    *("gnn.agg", "gnn.normalize_adj", "gnn.msg_direction", "gnn.self_msg", "gnn.keep_edge"),
    *("gnn.clear_feature", "gnn.att_final_linear", "gnn.att_final_linear_bn"),
    *("dataset.edge_dim", "mem.inplace", "bn.eps", "bn.mom"),
}


# What to use instead of a key that no method reads. ``{mode}`` is the method, and * ends a prefix.
INSTEAD = {
    "optim.max_epoch": "Use {mode}.steps, the gradient steps per episode, and train.max_episodes",
    "optim.scheduler": "Methods train in few steps at a constant rate. Use optim.base_lr",
    "optim.steps": "Methods have no scheduler. Use optim.base_lr",
    "optim.lr_decay": "Methods have no scheduler. Use optim.base_lr",
    "optim.momentum": "Adam has no momentum. Use optim.optimizer sgd",
    "gnn.layers_pre_mp": "Use gnn.layers_mp: all layers pass messages, the last gives the logits",
    "gnn.layers_post_mp": "Use gnn.layers_mp: all layers pass messages, the last gives the logits",
    "gnn.stage_type": "Layers are stacked; {mode} srnc_plus adds skip connections itself",
    "gnn.skip_every": "Layers are stacked; there are no stages",
    "gnn.head": "All methods classify nodes",
    "dataset.task": "All methods classify nodes",
    "dataset.task_type": "All methods classify nodes",
    "dataset.transductive": "Use dataset.format: a shift decides what is seen in training",
    "dataset.split": "Use the sizes of the shift, such as {shift}.num_val and {shift}.num_test",
    "dataset.split_mode": "Use {shift}.split_seed and the other keys of the shift",
    "dataset.shuffle_split": "Use {shift}.split_seed",
    "dataset.transform": "Use dataset.normalize for features, or change the graph in its file",
    "dataset.to_undirected": "All graphs are read as undirected",
    "dataset.remove_feature": "Change the graph in its file",
    "dataset.location": "Use dataset.dir, and --trust for a reader that runs code",
    "dataset.label_*": "Use `graphgym-srnc data make` with --label",
    "dataset.cache_*": "PyG caches what it processes below dataset.dir",
    "dataset.encoder*": "Features are numbers; `graphgym-srnc data make` encodes words",
    "dataset.node_encoder*": "Features are numbers; `graphgym-srnc data make` encodes words",
    "dataset.edge_*": "Edges have no features",
    "dataset.resample_*": "All methods classify nodes",
    "dataset.tu_simple": "All methods classify nodes",
    "train.batch_size": "Use {mode}.batch_size",
    "train.sampler": "Use {mode}.batch_size and {mode}.fanout",
    "train.neighbor_sizes": "Use {mode}.fanout",
    "train.iter_per_epoch": "Use {mode}.steps",
    "train.node_per_graph": "Use {mode}.batch_size",
    "train.sample_node": "Use {mode}.batch_size",
    "train.walk_length": "Use {mode}.batch_size",
    "train.radius": "Use {mode}.fanout",
    "train.eval_period": "Every episode is evaluated",
    "train.skip_train_eval": "Training nodes are scored after each episode",
    "train.auto_resume": "Use the option --resume",
    "train.epoch_resume": "Use the option --resume",
    "train.enable_ckpt": "Use train.checkpoint, and train.save_model for the model",
    "train.ckpt_*": "Use train.checkpoint, and train.save_model for the model",
    "val.*": "Validation predicts the whole graph",
    "model.loss_fun": "A method defines its losses",
    "model.size_average": "A method defines its losses",
    "model.thresh": "Use {mode}.cut for the unknown-class threshold",
    "model.*": "A method makes its own model",
    "metric_agg": "Larger is better in all metrics; only argmax is possible",
    "devices": "Start several processes with torchrun",
    "num_workers": "Methods load no batches in workers",
    "bn.*": "Set gnn.batchnorm True; ours have no normalisation",
    "mem.inplace": "Only GraphGym's own layers read it, such as gnn.layer_type generalconv",
    "gnn.*": "Only GraphGym's own layers read it, such as gnn.layer_type generalconv",
}


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
            wrong.errors.append(_not_read(cfg, key, value, defaults.get(key)))
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


def _not_read(cfg: CfgNode, key: str, value: Any, default: Any) -> InputError:
    """The error about a key that no run of the config reads."""
    mode = cfg.train.mode
    message = f"train.mode {mode} does not read this key, set to {value!r}"
    hint = f"Remove it, or set it to {default!r}"
    use = instead(key).format(mode=mode, shift=cfg.dataset.format)
    return InputError.plain(key, message, f"{use}. {hint}" if use else hint)


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

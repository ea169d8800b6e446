"""How GraphGym's own keys are treated: what our methods read of them, and which values they take.

Each of them is in one of ``READ``, ``UNREAD``, ``TOLD`` and ``MADE``, which a test checks against
the GraphGym that is installed. All of that is about methods: what ``train.mode: standard`` reads
is GraphGym's affair, and only the values are checked.
"""

from __future__ import annotations

from typing import Callable

from torch_geometric.graphgym import register
from yacs.config import CfgNode

from graphgym_srnc.backbones import BACKBONES
from graphgym_srnc.core import environment
from graphgym_srnc.core.options import Allowed, OneOf, Range
from graphgym_srnc.gym.encoder import is_fast

READ = frozenset(
    {
        "accelerator",
        "out_dir",
        "seed",
        "round",
        "num_threads",
        "custom_metrics",
        "metric_best",
        "metric_agg",
        "dataset.format",
        "dataset.name",
        "dataset.dir",
        "dataset.task",
        "dataset.node_encoder",
        "dataset.edge_encoder",
        "gnn.layer_type",
        "gnn.layers_pre_mp",
        "gnn.layers_mp",
        "gnn.layers_post_mp",
        "gnn.dim_inner",
        "gnn.stage_type",
        "gnn.batchnorm",
        "gnn.l2norm",
        "gnn.act",
        "gnn.dropout",
        "gnn.att_heads",
        "optim.optimizer",
        "optim.base_lr",
        "optim.weight_decay",
        "optim.scheduler",
    }
)
"""What a method, its encoder or its run reads."""

UNREAD = {
    "optim.max_epoch": "train.max_episodes and the steps of the method bound its training",
    "train.batch_size": "the method's own batch_size is its batch",
    "train.auto_resume": "the option --resume goes on",
    "train.enable_ckpt": "train.checkpoint and train.save_model say what is kept",
    "train.ckpt_period": "train.checkpoint says how often a run's state is kept",
    "train.eval_period": "every episode is scored",
    "devices": "torchrun starts several processes",
    "device": "accelerator says where a method trains",
    "dataset.split": "the shift has its own sizes of the split",
    "dataset.task_type": "a method classifies",
    "model.loss_fun": "a method has its own losses",
    "model.type": "gnn.layer_type names its encoder",
    **dict.fromkeys(
        (
            "num_workers",
            "dataset.transductive",
            "dataset.shuffle_split",
            "dataset.split_mode",
            "dataset.encoder",
            "dataset.encoder_name",
            "dataset.encoder_bn",
            "dataset.node_encoder_name",
            "dataset.node_encoder_bn",
            "dataset.edge_encoder_name",
            "dataset.edge_encoder_bn",
            "dataset.encoder_dim",
            "dataset.edge_train_mode",
            "dataset.edge_message_ratio",
            "dataset.edge_negative_sampling_ratio",
            "dataset.resample_disjoint",
            "dataset.resample_negative",
            "dataset.transform",
            "dataset.cache_save",
            "dataset.cache_load",
            "dataset.remove_feature",
            "dataset.tu_simple",
            "dataset.to_undirected",
            "dataset.location",
            "dataset.label_table",
            "dataset.label_column",
            "train.sampler",
            "train.sample_node",
            "train.node_per_graph",
            "train.radius",
            "train.skip_train_eval",
            "train.epoch_resume",
            "train.ckpt_clean",
            "train.iter_per_epoch",
            "train.walk_length",
            "train.neighbor_sizes",
            "val.sample_node",
            "val.sampler",
            "val.node_per_graph",
            "val.radius",
            "model.match_upper",
            "model.size_average",
            "model.thresh",
            "model.edge_decoding",
            "model.graph_pooling",
            "gnn.head",
            "gnn.skip_every",
            "optim.steps",
            "optim.lr_decay",
        ),
        "",
    ),
}
"""Keys that no method reads, and what does their work instead. They have to keep their default."""

DONE_ANYWAY = {"train.eval_period": [1], "train.sampler": ["full_batch"]}
"""Values of them that say what a method does in any case, as GraphGym's example does."""


def never(cfg: CfgNode) -> bool:
    """No config of a method reads the key."""
    return False


def by_other_layers(cfg: CfgNode) -> bool:
    """Layers that are not ours may read any of GraphGym's keys."""
    return cfg.gnn.layer_type not in BACKBONES


def by_batchnorm(cfg: CfgNode) -> bool:
    """GraphGym's batch normalisation, and layers that are not ours."""
    return cfg.gnn.batchnorm or by_other_layers(cfg)


def by_other_optimizers(cfg: CfgNode) -> bool:
    """Every optimiser but Adam may read it."""
    return cfg.optim.optimizer != "adam"


TOLD: dict[str, Callable[[CfgNode], bool]] = {
    **dict.fromkeys(
        (
            "print",
            "cfg_dest",
            "tensorboard_each_run",
            "tensorboard_agg",
            "view_emb",
            "gpu_mem",
            "benchmark",
        ),
        never,
    ),
    **dict.fromkeys(
        (
            "gnn.agg",
            "gnn.normalize_adj",
            "gnn.msg_direction",
            "gnn.self_msg",
            "gnn.keep_edge",
            "gnn.clear_feature",
            "gnn.att_final_linear",
            "gnn.att_final_linear_bn",
            "dataset.edge_dim",
            "mem.inplace",
        ),
        by_other_layers,
    ),
    "bn.eps": by_batchnorm,
    "bn.mom": by_batchnorm,
    "optim.momentum": by_other_optimizers,
}
"""Keys that do no harm, or that some configs read: which ones do. Others are told of them."""

MADE = {
    "run_dir": "it is made of out_dir",
    **dict.fromkeys(
        ("share.dim_in", "share.dim_out", "share.num_splits"), "GraphGym takes it from the data"
    ),
}
"""What GraphGym and a run write into a config, and of what."""

METHODS_LOOP = {
    "gnn.stage_type": OneOf("stack"),
    "gnn.layers_pre_mp": OneOf(0),
    "gnn.layers_post_mp": OneOf(0, 1),
    "optim.scheduler": OneOf("none"),
    "dataset.node_encoder": OneOf(False),
    "dataset.edge_encoder": OneOf(False),
    "accelerator": OneOf("auto", "cpu", "cuda"),
}
"""What a method's own loop and stack of layers can do; other values would silently do nothing."""

COUNTS = (
    "devices",
    "dataset.encoder_dim",
    "dataset.edge_dim",
    "train.batch_size",
    "train.node_per_graph",
    "train.eval_period",
    "train.ckpt_period",
    "train.iter_per_epoch",
    "train.walk_length",
    "val.node_per_graph",
    "gnn.skip_every",
    "optim.steps",
    "optim.max_epoch",
)
SHARES = (
    "dataset.split",
    "dataset.edge_message_ratio",
    "model.thresh",
    "gnn.keep_edge",
    "optim.momentum",
    "bn.mom",
)
SAMPLERS = OneOf(
    "full_batch", "neighbor", "random_node", "saint_rw", "saint_node", "saint_edge", "cluster"
)
METRICS = ("auto", "loss", "accuracy", "precision", "recall", "f1", "auc", "mae", "mse", "rmse")
"""What ``metric_best`` may be beside the metrics that are registered."""

ALWAYS = ("auto", "accuracy", "micro_f1", "macro_f1", "macro_recall")
"""What it may be for a method, beside metrics of the user's own: there are others of its scores
where nodes are unknown alone."""

SCORES = (
    "micro_f1",
    "macro_f1",
    "macro_recall",
    "unknown_recall",
    "unknown_precision",
    "known_accuracy",
    "known_recall",
    "hs",
)
"""What every method is scored by, so that ``custom_metrics`` need not ask for it."""


def limits(cfg: CfgNode) -> dict[str, Allowed]:
    """What GraphGym's keys may be, by their meaning and by its registries."""
    standard = cfg.train.mode == "standard"
    return {
        **dict.fromkeys(COUNTS, Range(1)),
        **dict.fromkeys(SHARES, Range(0, 1)),
        "seed": Range(0, 2**32 - 1),
        "round": Range(0, 17),
        "num_threads": Range(1, environment.MAX_THREADS, word=environment.AUTO),
        "num_workers": Range(0, environment.MAX_THREADS),
        "print": OneOf("both", "stdout", "file"),
        "metric_agg": OneOf("argmax", "argmin"),
        "metric_best": OneOf(*METRICS, *sorted(register.metric_dict))
        if standard
        else OneOf(*ALWAYS, *own_metrics(cfg)),
        "custom_metrics": OneOf(*sorted(register.metric_dict)),
        "dataset.task": OneOf("node"),
        "dataset.task_type": OneOf("classification"),
        "dataset.edge_negative_sampling_ratio": Range(0),
        "train.sampler": SAMPLERS,
        "val.sampler": SAMPLERS,
        "train.epoch_resume": Range(-1),
        "train.neighbor_sizes": Range(-1),
        # GraphGym registers its own network with its training, which methods do without.
        "model.type": OneOf(*sorted({"gnn", *register.network_dict})),
        "model.size_average": OneOf("mean", "sum"),
        "gnn.head": OneOf(*sorted({"default", *register.head_dict})),
        "gnn.stage_type": OneOf(*sorted(register.stage_dict)),
        "gnn.layers_pre_mp": Range(0),
        "gnn.layers_post_mp": Range(0),
        "gnn.agg": OneOf("add", "sum", "mean", "min", "max"),
        "gnn.msg_direction": OneOf("single", "both"),
        "gnn.self_msg": OneOf("none", "add", "concat"),
        "optim.optimizer": OneOf(*sorted(register.optimizer_dict)),
        "optim.scheduler": OneOf(*sorted(filter(None, register.scheduler_dict))),
        "optim.lr_decay": Range(0, closed="neither"),
        "bn.eps": Range(0, closed="neither"),
        **({} if standard else METHODS_LOOP),
    }


def own_metrics(cfg: CfgNode) -> list[str]:
    """The metrics of ``custom_metrics`` that are not scores of every method: a user's own."""
    return [name for name in cfg.custom_metrics if name not in SCORES]


def unread(cfg: CfgNode) -> dict[str, str]:
    """The keys of a config that have to keep their value, and what does their work instead."""
    if cfg.train.mode == "standard":
        return {}
    if cfg.gnn.layer_type != "gatconv" or is_fast(cfg, "gatconv"):
        return UNREAD
    return UNREAD | {
        "gnn.att_heads": "with gnn.batchnorm or gnn.l2norm it is GraphGym's gatconv,"
        " which has one head"
    }

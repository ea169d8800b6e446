"""Training by ``train.mode``: methods under GraphGym's signatures, GraphGym's own on our shifts."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Sequence

from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg as global_cfg

from graphgym_srnc import methods
from graphgym_srnc.core.errors import InputError, renamed
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.gym import stock
from graphgym_srnc.gym.build import build_method, device, visible_task
from graphgym_srnc.gym.config import (
    KEYS,
    TRAINING,
    CfgNode,
    activate,
    add_options,
    forget_unread,
    not_read,
    refuse,
    stock_defaults,
)
from graphgym_srnc.gym.encoder import make_layer
from graphgym_srnc.gym.keys import own_metrics, unread
from graphgym_srnc.gym.late import later
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import trainer
from graphgym_srnc.train.metrics import ExtraScores

if TYPE_CHECKING:
    from torch_geometric.graphgym.logger import Logger
    from torch_geometric.graphgym.model_builder import GraphGymModule
    from torch_geometric.graphgym.train import GraphGymDataModule


@renamed(KEYS)
def fit(
    cfg: CfgNode,
    task: ShiftTask,
    callbacks: Sequence[trainer.Callback] = (),
    checkpoint: trainer.Checkpoint | None = None,
) -> tuple[Method, trainer.RunRecord]:
    """Train the method of a config on a task; gives the trained method and its record."""
    method = build_method(cfg, task)
    settings = {option.key: cfg.train[option.key] for option in TRAINING}
    return method, trainer.fit(
        method,
        visible_task(method, task),
        seed=cfg.seed,
        callbacks=callbacks,
        checkpoint=checkpoint,
        extra=extra_scores(cfg),
        **settings,
    )


def extra_scores(cfg: CfgNode) -> ExtraScores:
    """The metrics of ``custom_metrics`` that are a user's own, and what selects an episode."""
    best = "micro_f1" if cfg.metric_best in ("auto", "accuracy") else cfg.metric_best
    functions = {name: register.metric_dict[name] for name in own_metrics(cfg)}
    return ExtraScores(functions, best, cfg.metric_agg == "argmin")


def train_method(
    mode: str,
    loggers: Sequence[Logger],
    loaders: Sequence[Any],
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
) -> trainer.RunRecord:
    """A method as GraphGPS calls a training loop; model, optimiser and scheduler are its own.

    Args:
        mode: the method.
        loggers: GraphGym's loggers of train, val and test, or none.
        loaders: GraphGym's loaders; the first one's data set holds the task.

    Raises:
        InputError: the loaders are not of one of our shifts, or a key is set that no method reads.
    """
    cfg = own_config(mode, loaders)
    return fit(cfg, loaders[0].dataset.task.to(device(cfg)), [partial(_log, loggers)])[1]


def own_config(mode: str, loaders: Sequence[Any]) -> CfgNode:
    """GraphGym's global config for a method; what the method does not read is logged.

    Raises:
        InputError: the loaders are not of one of our shifts, or a key is set that no method reads.
    """
    if not isinstance(getattr(loaders[0].dataset, "task", None), ShiftTask):
        message = f"{global_cfg.dataset.format!r} is not a shift, and train.mode {mode} needs one"
        raise InputError.plain(
            "dataset.format", message, "`graphgym-srnc options` lists the shifts"
        )
    cfg = global_cfg.clone()
    add_options(cfg)
    cfg.train.mode = mode
    cfg.devices = cfg.devices or 1  # GraphGym makes None of it on the CPU
    cfg.pop("params", None)  # main.py makes it, of the model that is not trained
    defaults = stock_defaults()
    refuse(cfg, defaults, unread(cfg))
    if keys := not_read([cfg], defaults):
        logging.warning("train.mode %s does not read %s", mode, ", ".join(keys))
    # GraphGym has filled in others, so that its dump is no config that a command would take.
    forget_unread(cfg, defaults[-1])
    cfg.run_dir = global_cfg.run_dir
    return cfg


def train(
    model: GraphGymModule,
    datamodule: GraphGymDataModule,
    logger: bool = True,
    trainer_config: dict[str, Any] | None = None,
) -> None:
    """GraphGym's ``train`` by ``train.mode``, for a ``main.py`` that is to train our methods too.

    ``standard`` is GraphGym's own, less Lightning's sanity check, whose validation record of an
    untrained model would count as epoch 0.
    """
    from torch_geometric.graphgym.logger import create_logger
    from torch_geometric.graphgym.train import train as graphgym_train

    mode = global_cfg.train.mode
    if mode == "standard":
        lightning = {"num_sanity_val_steps": 0, **(trainer_config or {})}
        return graphgym_train(model, datamodule, logger, lightning)
    (optimizer,), (scheduler,) = model.configure_optimizers()
    loggers = create_logger() if logger else []
    # A loop of another plug-in gets what GraphGPS gives it; of a name that both have, ours goes on.
    loop = partial(train_method, mode) if mode in methods.names() else register.train_dict[mode]
    loop(loggers, datamodule.loaders, model, optimizer, scheduler)


def train_standard(cfg: CfgNode, run_dir: str | os.PathLike) -> GraphGymModule:
    """GraphGym's own training, without the parts of its ``main.py`` that delete results.

    Args:
        cfg: the config.
        run_dir: an existing folder for what GraphGym writes.
    """
    stock.load()
    from torch_geometric.graphgym.imports import pl
    from torch_geometric.graphgym.model_builder import create_model
    from torch_geometric.graphgym.models.layer import new_layer_config
    from torch_geometric.graphgym.train import GraphGymDataModule
    from torch_geometric.graphgym.utils import auto_select_device, params_count

    activate(cfg)
    # Lightning writes its own logs to out_dir.
    global_cfg.out_dir = global_cfg.run_dir = str(run_dir)
    auto_select_device()
    if cfg.model.type == "gnn":
        make_layer(cfg.gnn.layer_type, new_layer_config(8, 8, 1, True, False, cfg))
    pl.seed_everything(cfg.seed)
    datamodule, model = GraphGymDataModule(), create_model()
    global_cfg.params = params_count(model)
    train(model, datamodule)
    return model


def register_train() -> None:
    """Enter every method into ``train_dict`` under its name."""
    for name in methods.names():
        later(register.train_dict, name, partial(train_method, name))


def _log(
    loggers: Sequence[Logger],
    episode: trainer.Episode,
    method: Method,
    task: ShiftTask,
) -> None:
    """A callback of the trainer that writes an episode as an epoch of GraphGym."""
    from torch_geometric.graphgym.utils.io import dict_to_json

    digits = global_cfg.round
    stats = {"train": episode.losses, "val": episode.val, "test": episode.test}
    for logger in loggers:
        scores = {key: round(float(value), digits) for key, value in stats[logger.name].items()}
        if "micro_f1" in scores:
            scores["accuracy"] = scores["micro_f1"]
        line = {"epoch": episode.number, "time_epoch": round(episode.seconds, digits)} | scores
        dict_to_json(line, f"{logger.out_dir}/stats.json")

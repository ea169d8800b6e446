"""Training by ``train.mode``: our methods under GraphGym's signatures, and GraphGym's own training on our shifts."""
from __future__ import annotations

import os
from functools import partial
from typing import Any, Sequence

from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.imports import pl
from torch_geometric.graphgym.logger import Logger, create_logger
from torch_geometric.graphgym.model_builder import GraphGymModule, create_model
from torch_geometric.graphgym.train import GraphGymDataModule
from torch_geometric.graphgym.train import train as graphgym_train
from torch_geometric.graphgym.utils import auto_select_device, dict_to_json, params_count
from yacs.config import CfgNode

from graphgym_srnc import methods
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.build import build_method, device
from graphgym_srnc.gym.config import activate
from graphgym_srnc.methods.base import Method
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.train import trainer
from graphgym_srnc.train.verdict import judge


def fit(cfg: CfgNode, task: ShiftTask, callbacks: Sequence[trainer.Callback] = (),
        checkpoint: trainer.Checkpoint | None = None) -> tuple[Method, trainer.RunRecord]:
    """Train the method of a config on a task by the config's own rules; gives the trained method and its record."""
    method = build_method(cfg, task)
    if method.oracle:
        task = task.oracle
    record = trainer.fit(method, task, seed=cfg.seed, max_episodes=cfg.train.max_episodes, patience=cfg.train.patience,
                         selection=cfg.train.selection, min_agreement=cfg.train.min_agreement, callbacks=callbacks,
                         checkpoint=checkpoint)
    record.verdict = judge(method, task, record.first)._asdict()
    return method, record


def train_method(mode: str, loggers: Sequence[Logger], loaders: Sequence[Any], model: Any = None, optimizer: Any = None,
                 scheduler: Any = None) -> trainer.RunRecord:
    """A method as GraphGPS calls a training loop; the model, optimiser and scheduler are the method's own.

    Args:
        mode: the method.
        loggers: GraphGym's loggers of train, val and test, or none.
        loaders: GraphGym's loaders; the first one's data set holds the task.

    Raises:
        InputError: the loaders are not of one of our shifts.
    """
    task = getattr(loaders[0].dataset, "task", None)
    if not isinstance(task, ShiftTask):
        raise InputError("dataset.format", global_cfg.dataset.format, f"one of our shifts, since train.mode is {mode}")
    cfg = global_cfg.clone()
    cfg.train.mode = mode
    return fit(cfg, task.to(device(cfg)), [partial(_log, loggers)])[1]


def train(model: GraphGymModule, datamodule: GraphGymDataModule, logger: bool = True, trainer_config: dict[str, Any] | None = None) -> None:
    """GraphGym's ``train``, by ``train.mode``: import it from here in a ``main.py`` to train our methods as well.

    ``standard`` is GraphGym's own, less Lightning's sanity check, whose validation record of an untrained model would count
    as epoch 0.
    """
    if global_cfg.train.mode == "standard":
        return graphgym_train(model, datamodule, logger, {"num_sanity_val_steps": 0, **(trainer_config or {})})
    (optimizer,), (scheduler,) = model.configure_optimizers()
    register.train_dict[global_cfg.train.mode](create_logger() if logger else [], datamodule.loaders, model, optimizer, scheduler)


def train_standard(cfg: CfgNode, run_dir: str | os.PathLike) -> GraphGymModule:
    """One run of GraphGym's own training (its ``main.py`` without the parts that delete results) into an existing folder."""
    activate(cfg)
    # Lightning writes its own logs to out_dir.
    global_cfg.out_dir = global_cfg.run_dir = str(run_dir)
    pl.seed_everything(cfg.seed)
    auto_select_device()
    datamodule, model = GraphGymDataModule(), create_model()
    global_cfg.params = params_count(model)
    train(model, datamodule)
    return model


def _log(loggers: Sequence[Logger], episode: trainer.Episode, method: Method, task: ShiftTask) -> None:
    stats = {"train": episode.losses, "val": episode.val, "test": episode.test}
    for logger in loggers:
        scores = {key: round(float(value), global_cfg.round) for key, value in stats[logger.name].items()}
        if "micro_f1" in scores:
            scores["accuracy"] = scores["micro_f1"]
        dict_to_json({"epoch": episode.number, "time_epoch": round(episode.seconds, global_cfg.round)} | scores,
                     f"{logger.out_dir}/stats.json")


def register_train() -> None:
    """Enter every method into ``train_dict`` under its name."""
    for name in methods.names():
        register.train_dict.setdefault(name, partial(train_method, name))

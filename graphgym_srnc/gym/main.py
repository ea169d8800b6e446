"""``train`` for a GraphGym ``main.py``, and our methods in GraphGym's ``train_dict``."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any, Sequence

from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.config import set_cfg
from torch_geometric.graphgym.logger import Logger, create_logger
from torch_geometric.graphgym.model_builder import GraphGymModule
from torch_geometric.graphgym.train import GraphGymDataModule
from torch_geometric.graphgym.utils.io import dict_to_json

from graphgym_srnc import methods
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import run
from graphgym_srnc.gym.build import device
from graphgym_srnc.gym.config import (
    MADE,
    CfgNode,
    activate,
    add_options,
    check,
    data_root,
    later,
    load_config,
    not_read,
    reset_unread,
)
from graphgym_srnc.gym.recorder import Silent
from graphgym_srnc.gym.training import fit, lightning
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.io.store import Result
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import trainer


def train(
    model: GraphGymModule,
    datamodule: GraphGymDataModule,
    logger: bool = True,
    trainer_config: dict[str, Any] | None = None,
) -> None:
    """GraphGym's ``train`` by ``train.mode``: GraphGym's own training, or a method.

    A method writes into ``cfg.run_dir``, which ``set_run_dir`` has made, the files of
    ``graphgym-srnc run``: ``result.json``, the model, statistics and events. GraphGym's
    ``agg_runs`` and ``agg_batch`` read that folder, and so do ``compare`` and ``report``. The model
    of ``main.py`` is not trained. Without a logger, or in a folder whose name is not a seed, a
    method writes GraphGym's statistics alone.

    Raises:
        InputError: the data set is not one of our shifts, or a key is set that no method reads.
    """
    mode, place = global_cfg.train.mode, Path(global_cfg.run_dir)
    if mode == "standard":
        lightning(model, datamodule, logger, trainer_config)
    elif mode in methods.names() and logger and place.name.isdecimal():
        _store(own_config(mode, datamodule.loaders), place.absolute())
    else:
        # A loop of another plug-in gets GraphGPS's arguments; of a name that both have, ours runs.
        loop = partial(train_method, mode) if mode in methods.names() else register.train_dict[mode]
        (optimizer,), (scheduler,) = model.configure_optimizers()
        loop(create_logger() if logger else [], datamodule.loaders, model, optimizer, scheduler)


def train_method(
    mode: str,
    loggers: Sequence[Logger],
    loaders: Sequence[Any],
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
) -> trainer.RunRecord:
    """Train a method with the arguments that GraphGPS gives to a training loop.

    Args:
        mode: the method, which makes its own model and optimiser.
        loggers: GraphGym's loggers of train, val and test, or none.
        loaders: GraphGym's loaders; the data set of the first one holds the task.

    Raises:
        InputError: the loaders are not of one of our shifts, or a key is set that no method reads.
    """
    cfg = own_config(mode, loaders)
    return fit(cfg, loaders[0].dataset.task.to(device(cfg)), [partial(_log, loggers)])[1]


def own_config(mode: str, loaders: Sequence[Any]) -> CfgNode:
    """A copy of GraphGym's global config for a method; keys without effect are logged.

    Raises:
        InputError: the loaders are not of one of our shifts, or a key is set that no method reads.
    """
    if not isinstance(getattr(loaders[0].dataset, "task", None), ShiftTask):
        message = f"{global_cfg.dataset.format!r} is not a shift, and train.mode {mode} needs one"
        raise InputError.plain(
            "dataset.format", message, "`graphgym-srnc options` lists the shifts"
        )
    cfg, stock = global_cfg.clone(), CfgNode()
    add_options(cfg)
    set_cfg(stock)
    ours, theirs = flatten(load_config()), flatten(stock)
    # GraphGym's assert_cfg replaces the head, and its main.py adds the number of parameters.
    defaults = [ours, theirs, theirs | {"gnn.head": stock.dataset.task}]
    cfg.train.mode = mode
    cfg.devices = cfg.devices or 1  # GraphGym makes None of it on the CPU
    cfg.pop("params", None)
    run_dir = cfg.run_dir
    reset_unread(cfg, {key: ours[key] for key in MADE})
    check(cfg, defaults)
    if keys := not_read([cfg], [theirs, ours]):
        logging.warning("train.mode %s does not read %s", mode, ", ".join(keys))
    # GraphGym's defaults differ from ours in keys that a config of ours must not set.
    reset_unread(cfg, ours)
    cfg.run_dir = run_dir
    return cfg


def register_train() -> None:
    """Enter every method into ``train_dict`` under its name."""
    for name in methods.names():
        later(register.train_dict, name, partial(train_method, name))


class Logged(Silent):
    """Shows how far a run is where GraphGym shows its epochs: on the terminal and in its log."""

    def doing(self, status: str) -> None:
        logging.info(status)

    def episode(self, number: int, most: int, text: str) -> None:
        logging.info("episode %d of %d: %s", number, most, text)

    def say(self, line: str) -> None:
        logging.warning(line)

    def end(self, result: Result) -> None:
        """Show the scores of a stored run, and its warnings."""
        logging.info(
            "selected episode %d: val %.1f, test %.1f (Micro-F1, %%)",
            result["selected"],
            *(100 * result[part]["micro_f1"] for part in ("val", "test")),
        )
        verdict = (result.get("verdict") or {}).get("sentences", {})
        for text in (*result["warnings"], *(f"{kind}: {why}" for kind, why in verdict.items())):
            self.say(f"warning: {text}")


def _store(cfg: CfgNode, place: Path) -> None:
    """Train the method of a config and store the run in the folder of its seed."""
    before = global_cfg.clone()
    # The folder names the seed: PyG's main.py increments cfg.seed after it has made the folder.
    cfg.seed, cfg.out_dir = int(place.name), str(place.parent.parent)
    if cfg.dataset.dir == "./datasets":
        cfg.dataset.dir = data_root(cfg.dataset.dir)
    experiment, watch = run.experiment(cfg, place.parent.name), Logged()
    try:
        watch.end(run.run(cfg, cfg.seed, experiment, watch))
    finally:
        # main.py continues with its own config, whose out_dir holds all seeds.
        activate(before)
    experiment.aggregate(cfg.round)
    # agg_runs needs the same terms in all lines, so terms that an episode lacks are NaN there;
    # tensorboardX would warn of each.
    logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)


def _log(
    loggers: Sequence[Logger], episode: trainer.Episode, method: Method, task: ShiftTask
) -> None:
    """A callback of the trainer that writes an episode as an epoch of GraphGym."""
    digits = global_cfg.round
    stats = {"train": episode.losses, "val": episode.val, "test": episode.test}
    for logger in loggers:
        scores = {key: round(float(value), digits) for key, value in stats[logger.name].items()}
        if "micro_f1" in scores:
            scores["accuracy"] = scores["micro_f1"]
        line = {"epoch": episode.number, "time_epoch": round(episode.seconds, digits)} | scores
        dict_to_json(line, f"{logger.out_dir}/stats.json")

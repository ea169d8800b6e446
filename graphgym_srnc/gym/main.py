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
from torch_geometric.graphgym.train import train as graphgym_train

from graphgym_srnc import methods
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import run
from graphgym_srnc.gym.config import CfgNode, activate, load_config
from graphgym_srnc.gym.keys import add_options, not_read, reads
from graphgym_srnc.io.records import Result
from graphgym_srnc.io.settings import flatten


def train(
    model: GraphGymModule,
    datamodule: GraphGymDataModule,
    logger: bool = True,
    trainer_config: dict[str, Any] | None = None,
) -> None:
    """GraphGym's ``train`` by ``train.mode``: GraphGym's own training, or :func:`train_method`.

    The model of ``main.py`` is not trained by a method.
    """
    mode = global_cfg.train.mode
    if mode == "standard":
        # Lightning's sanity check would write a record of the untrained model as epoch 0.
        own = {"num_sanity_val_steps": 0, **(trainer_config or {})}
        graphgym_train(model, datamodule, logger, own)
    elif mode in methods.names():
        train_method(mode, [], datamodule.loaders)
    else:  # a loop of another plug-in gets GraphGPS's arguments
        loop, loggers = register.train_dict[mode], create_logger() if logger else []
        (optimizer,), (scheduler,) = model.configure_optimizers()
        loop(loggers, datamodule.loaders, model, optimizer, scheduler)


def train_method(
    mode: str,
    loggers: Sequence[Logger],
    loaders: Sequence[Any],
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
) -> Result:
    """Train a method with the arguments that GraphGPS gives to a training loop.

    It writes into ``cfg.run_dir``, which ``set_run_dir`` has made, the files of
    ``graphgym-srnc run``: ``result.json``, the model, statistics and events. GraphGym's
    ``agg_runs`` and ``agg_batch`` read that folder, and so do ``compare`` and ``report``.

    Args:
        mode: the method, which makes its own model, optimiser and logger.
        loggers, model, optimizer, scheduler: not used.
        loaders: GraphGym's loaders; the data set of the first one holds the task.

    Raises:
        InputError: the loaders are not of one of our shifts, a key is set that no method reads, or
            the name of the folder is not a seed.
    """
    before, place, watch = global_cfg.clone(), Path(global_cfg.run_dir).absolute(), Logged()
    cfg = own_config(mode, loaders)
    if not place.name.isdecimal():
        message = f"a method stores its run in the folder of a seed, and this one is {place}"
        raise InputError.plain("run_dir", message, "Call set_run_dir(cfg.out_dir) before")
    # The folder names the seed: PyG's main.py increments cfg.seed after it has made the folder.
    cfg.seed, cfg.out_dir = int(place.name), str(place.parent.parent)
    experiment = run.experiment(cfg, place.parent.name)
    try:
        result = run.run(cfg, cfg.seed, experiment, watch, overwrite=True)
    finally:
        # main.py continues with its own config, whose out_dir holds all seeds.
        activate(before)
    for text in (*result["warnings"], *result["verdict"]["sentences"].values()):
        watch.say(f"warning: {text}")
    experiment.aggregate(cfg.round)
    # agg_runs needs the same terms in all lines, so terms that an episode lacks are NaN there;
    # tensorboardX would warn of each.
    logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)
    return result


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
    given, stock, default = global_cfg.clone(), CfgNode(), load_config()
    add_options(given)
    set_cfg(stock)
    given.train.mode = mode
    # What its assert_cfg and main.py write is nobody's wish.
    written = {"gnn.head": stock.dataset.task, "devices": None}
    theirs = flatten(stock)
    words = [
        word
        for key, value in flatten(given).items()
        if key != "params"
        and (reads(given, key) or value not in (theirs.get(key), written.get(key)))
        for word in (key, value)
    ]
    cfg = load_config(None, words)
    if keys := not_read([cfg], flatten(default)):
        logging.warning("train.mode %s does not read %s", mode, ", ".join(keys))
    return cfg


def register_train() -> None:
    """Enter every method into ``train_dict``, unless its name is taken."""
    for name in methods.names():
        register.train_dict.setdefault(name, partial(train_method, name))


class Logged(run.Quiet):
    """Shows how far a run is where GraphGym shows its epochs: on the terminal and in its log."""

    def doing(self, status: str, until: float = 0.0) -> None:
        logging.info(status)

    def episode(self, number: int, most: int, text: str) -> None:
        logging.info("episode %d of %d: %s", number, most, text)

    def say(self, line: str) -> None:
        logging.warning(line)

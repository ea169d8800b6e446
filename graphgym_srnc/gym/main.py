"""Our methods in a GraphGym ``main.py``: a loader of shifts, ``train``, and ``train_dict``."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any, Sequence

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.config import set_cfg
from torch_geometric.graphgym.imports import pl
from torch_geometric.graphgym.logger import Logger
from torch_geometric.graphgym.model_builder import GraphGymModule
from torch_geometric.graphgym.train import GraphGymDataModule
from torch_geometric.graphgym.train import train as graphgym_train

from graphgym_srnc import methods, shifts
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import run
from graphgym_srnc.gym.build import build_task
from graphgym_srnc.gym.config import CfgNode, activate, load_config
from graphgym_srnc.gym.keys import add_options, not_read, reads
from graphgym_srnc.io.records import Result, read_results, warnings_of
from graphgym_srnc.io.settings import flatten

UNUSED = "not_trained"
"""Network that ``main.py`` makes if a method trains, which makes its own."""


class TaskDataset(list[Data]):
    """A :class:`ShiftTask` as a data set of GraphGym's loaders, which pass it to a method."""

    def __init__(self, task: ShiftTask) -> None:
        super().__init__([task.target])
        self.task = task
        # GraphGym counts features, labels and masks here to know its inputs, outputs and loaders.
        self._data = Data(
            x=torch.empty(0, task.num_features),
            y=torch.arange(task.num_outputs),
            val_mask=torch.empty(0),
            test_mask=torch.empty(0),
        )


def load_shift(format: str, name: str, dataset_dir: str) -> TaskDataset | None:
    """GraphGym's loader of our shifts; returns None for other formats, which other loaders read."""
    if format not in shifts.names():
        return None
    if global_cfg.train.mode not in methods.names():
        raise InputError.plain(
            "train.mode",
            f"{global_cfg.train.mode} cannot train on the shift {format}",
            "Set it to a method, for example erm; `graphgym-srnc options` lists all",
        )
    if global_cfg.model.type == "gnn":
        global_cfg.model.type = UNUSED
    # GraphGym reads its samplers next, and knows those of its own training only.
    own_config(global_cfg.train.mode)
    task_cfg = global_cfg.clone()
    task_cfg.dataset.dir = dataset_dir
    return TaskDataset(build_task(task_cfg))


def train(
    model: GraphGymModule,
    datamodule: GraphGymDataModule,
    logger: bool = True,
    trainer_config: dict[str, Any] | None = None,
) -> None:
    """GraphGym's ``train`` by ``train.mode``: :func:`train_method`, or GraphGym's own training."""
    mode = global_cfg.train.mode
    if mode in methods.names():
        train_method(mode, [], datamodule.loaders)
        return
    if not hasattr(pl, "Trainer"):
        raise InputError.plain(
            "train.mode",
            f"{mode} is GraphGym's own training, and Lightning is not installed",
            "Install it with: pip install 'graphgym-srnc[graphgym]'",
        )
    graphgym_train(model, datamodule, logger, trainer_config)


def train_method(
    mode: str,
    loggers: Sequence[Logger],
    loaders: Sequence[Any],
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
) -> Result:
    """Train a method with the arguments that GraphGPS gives to a training loop.

    It writes the files of ``graphgym-srnc run`` into ``cfg.run_dir``, which ``set_run_dir`` has
    made.

    Args:
        mode: the method, which makes its own model, optimiser and logger.
        loggers, model, optimizer, scheduler: not used.
        loaders: GraphGym's loaders; the data set of the first one holds the task.

    Raises:
        InputError: see :func:`own_config`, or the name of the folder is not a seed, or its parent
            contains results of another config.
    """
    before = global_cfg.clone()
    place = Path(global_cfg.run_dir).absolute()
    watch = Logged(1)
    if not isinstance(getattr(loaders[0].dataset, "task", None), ShiftTask):
        message = f"{global_cfg.dataset.format!r} is not a shift, and train.mode {mode} needs one"
        raise InputError.plain(
            "dataset.format", message, "`graphgym-srnc options` lists the shifts"
        )
    cfg = own_config(mode)
    keys = not_read([cfg], flatten(load_config()))
    if keys:
        logging.warning("train.mode %s does not read %s", mode, ", ".join(keys))
    if not place.name.isdecimal():
        message = f"a method stores its run in the folder of a seed, and this one is {place}"
        raise InputError.plain("run_dir", message, "Call set_run_dir(cfg.out_dir) before")
    # The folder names the seed: PyG's main.py increments cfg.seed after it has made the folder.
    cfg.seed = int(place.name)
    cfg.out_dir = str(place.parent.parent)
    experiment = run.experiment(cfg, place.parent.name)
    finished = read_results(experiment.path)
    if any(found["digest"] != experiment.digest for found in finished.values()):
        message = f"{experiment.path} contains results of another config"
        raise InputError.plain("out_dir", message, "Rename the yaml file, or delete the folder")
    try:
        # The loggers of a main.py may have written into the folder, so all but a result goes.
        result = run.run(cfg, cfg.seed, experiment, watch, overwrite=cfg.seed not in finished)
    finally:
        # main.py continues with its own config, whose out_dir holds all seeds.
        activate(before)
    watch.tell(result)
    experiment.aggregate(cfg.round)
    # agg_runs needs the same terms in all lines, so terms that an episode lacks are NaN there;
    # tensorboardX would warn of each.
    logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)
    return result


def own_config(mode: str) -> CfgNode:
    """A copy of GraphGym's global config for a method, which refuses keys that it does not read."""
    given = global_cfg.clone()
    stock = CfgNode()
    add_options(given)
    set_cfg(stock)
    given.train.mode = mode
    # What its defaults, its assert_cfg, its main.py and our loader write is nobody's wish.
    others = {*methods.names(), *shifts.names()} - {mode, given.dataset.format}
    written = {"gnn.head": stock.dataset.task, "devices": None, "model.type": UNUSED}
    words = []
    theirs = flatten(stock)
    for key, value in flatten(given).items():
        is_used = reads(given, key) and key.split(".")[0] not in others
        wanted = is_used or value not in (theirs.get(key), written.get(key))
        words += [key, value] if wanted and key != "params" else []
    return load_config(None, words)


def register_main() -> None:
    """Register the loader and all methods with GraphGym; a name that is taken keeps its owner."""
    others = dict(register.loader_dict)
    register.loader_dict.clear()
    # Ours is first, since another loader may raise an error for an unknown format.
    register.loader_dict.update({"graphgym_srnc": load_shift} | others)
    register.network_dict.setdefault(UNUSED, lambda dim_in, dim_out: nn.Linear(1, 1))
    for name in methods.names():
        register.train_dict.setdefault(name, partial(train_method, name))


class Logged(RunProgress):
    """Shows how far a run is where GraphGym shows its epochs: on the terminal and in its log."""

    def doing(self, status: str, until: float = 0.0) -> None:
        logging.info(status)

    def episode(self, number: int, most: int, text: str = "") -> None:
        logging.info("episode %d of %d: %s", number, most, text or "done")

    def say(self, line: str) -> None:
        logging.warning(line)

    def tell(self, result: Result) -> None:
        """Show the hidden classes and the warnings of a run."""
        if result["hidden_classes"]:
            logging.info("hidden classes: %s", ", ".join(result["hidden_classes"]))
        for text in warnings_of(result).values():
            logging.warning("warning: %s", text)

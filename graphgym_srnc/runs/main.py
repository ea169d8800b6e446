"""``train`` for a GraphGym ``main.py``: a run of our methods is stored as the command line does."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from graphgym_srnc import gym, methods
from graphgym_srnc.gym.config import activate, current, data_root
from graphgym_srnc.gym.training import own_config
from graphgym_srnc.runs import run


def train(model: Any, datamodule: Any, logger: bool = True,
          trainer_config: dict[str, Any] | None = None) -> None:
    """GraphGym's ``train`` by ``train.mode``, with the whole record of a method's run.

    A method leaves in ``cfg.run_dir``, which ``set_run_dir`` has made, what ``graphgym-srnc run``
    leaves there: ``result.json``, the model, statistics with as many lines of each seed, events.
    So GraphGym's ``agg_runs`` and ``agg_batch`` read the folder, and ``compare`` and ``report`` do.
    The model of ``main.py`` is not trained.

    Raises:
        InputError: the data set is not one of our shifts, or a key is set that no method reads.
    """
    before = current()
    mode, place = before.train.mode, Path(before.run_dir)
    if mode not in methods.names() or not logger or not place.name.isdecimal():
        gym.train(model, datamodule, logger, trainer_config)
        return

    cfg, home = own_config(mode, datamodule.loaders), place.absolute().parent
    # The folder says the seed: PyG's main.py counts cfg.seed up once it has made the folder.
    cfg.seed, cfg.out_dir = int(place.name), str(home.parent)
    if cfg.dataset.dir == "./datasets":
        cfg.dataset.dir = data_root(cfg.dataset.dir)
    experiment = run.experiment(cfg, home.name)
    try:
        run.run(cfg, cfg.seed, experiment)
    finally:
        # main.py goes on with its own config, whose out_dir holds all seeds.
        activate(before)
    experiment.aggregate(cfg.round)

"""``train`` for a GraphGym ``main.py``: a run of our methods is stored as the command line does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from graphgym_srnc import gym, methods
from graphgym_srnc.gym import run
from graphgym_srnc.gym.config import activate, current, data_root
from graphgym_srnc.gym.recorder import Watch
from graphgym_srnc.gym.training import own_config
from graphgym_srnc.io.store import Result


class Logged(Watch):
    """Tells how far a run is where GraphGym tells its epochs: on the terminal and in its log."""

    def doing(self, status: str) -> None:
        """What the run does now, where that may take long."""
        logging.info(status)

    def episode(self, number: int, most: int, text: str) -> None:
        """An episode is done, of at most so many after episode 0."""
        logging.info("episode %d of %d: %s", number, most, text)

    def say(self, line: str) -> None:
        """Something that the user should know."""
        logging.warning(line)

    def end(self, result: Result) -> None:
        """The run is stored: its scores, and why it may be distrusted."""
        logging.info(
            "selected episode %d: val %.1f, test %.1f (Micro-F1, %%)",
            result["selected"],
            *(100 * result[part]["micro_f1"] for part in ("val", "test")),
        )
        verdict = (result.get("verdict") or {}).get("sentences", {})
        for text in (*result["warnings"], *(f"{kind}: {why}" for kind, why in verdict.items())):
            self.say(f"warning: {text}")


def train(
    model: Any, datamodule: Any, logger: bool = True, trainer_config: dict[str, Any] | None = None
) -> None:
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
    watch = Logged()
    try:
        watch.end(run.run(cfg, cfg.seed, experiment, watch))
    finally:
        # main.py goes on with its own config, whose out_dir holds all seeds.
        activate(before)
    experiment.aggregate(cfg.round)
    # agg_runs wants the same terms in all lines. Those that an episode lacks are not numbers, which
    # tensorboardX tells once each.
    logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)

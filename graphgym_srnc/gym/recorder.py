"""What a run does after each episode: scores and seconds are noted, TensorBoard and user told."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.gym.config import CfgNode, load_config
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.io.store import Experiment
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.plots.tensorboard import TensorBoard, blind, untouched
from graphgym_srnc.train.trainer import Episode, RunRecord

MAIN = (
    "dataset.normalize",
    "gnn.layers_mp",
    "gnn.dim_inner",
    "gnn.dropout",
    "optim.base_lr",
    "optim.weight_decay",
)
"""Settings that TensorBoard shows of every run of ``run``, since most searches vary them."""


class Extras(NamedTuple):
    """What a run leaves behind beside its record; none of it changes a number.

    Args:
        tensorboard: write events.
        figures: draw the first episode, every k-th, and the selected one.
        every: k; 0 = none between the first and the selected one.
        how: the map of embeddings, ``pca`` or ``tsne``.
        varied: settings to show in TensorBoard; empty = ``MAIN``, and whatever else of the task,
            the method, the backbone and the optimiser is not the default.
    """

    tensorboard: bool = True
    figures: bool = False
    every: int = 0
    how: str = "pca"
    varied: tuple[tuple[str, Any], ...] = ()

    def settings(self, cfg: CfgNode) -> dict[str, Any]:
        """What tells a run of a config from others in TensorBoard, by config key."""
        known = flatten(cfg)
        # A grid file says words, of which the config knows the types.
        shown = {key: known.get(key, value) for key, value in self.varied}
        if "cfg" in shown:  # a long path, of which a table shows the beginning
            shown["cfg"] = Path(shown["cfg"]).name.removesuffix(".yaml")
        if not shown:
            blocks = (cfg.dataset.format, "train", cfg.train.mode, "gnn", "optim")
            default = flatten(load_config())
            shown = {
                key: value
                for key, value in known.items()
                if key in MAIN or key.split(".")[0] in blocks and value != default.get(key)
            }
        return {"method": cfg.train.mode, "seed": cfg.seed, **shown}


class Watch(Protocol):
    """Who is told how far a run is."""

    def doing(self, status: str) -> None:
        """What the run does now, where that may take long."""

    def episode(self, number: int, most: int, text: str) -> None:
        """An episode is done, of at most so many after episode 0."""

    def say(self, line: str) -> None:
        """Something that the user should know."""


class Silent:
    """A :class:`Watch` that shows nothing."""

    def doing(self, status: str) -> None: ...

    def episode(self, number: int, most: int, text: str) -> None: ...

    def say(self, line: str) -> None: ...


class Recorder:
    """A callback of the trainer; its :meth:`state` is part of the checkpoints of the run.

    Args:
        cfg: the config of the run, with its seed.
        experiment: makes the directory of the run once its first episode is done.
        watch: who is told after each episode.
        extras: what is written beside the record.
    """

    def __init__(self, cfg: CfgNode, experiment: Experiment, watch: Watch, extras: Extras) -> None:
        self.cfg, self.experiment, self.watch, self.extras = cfg, experiment, watch, extras
        self.begin = time.perf_counter()
        self.board: TensorBoard | None = None
        self.train_scores: list[dict[str, float]] = []
        self.resumed: dict[str, Any] = {}

    def __call__(self, episode: Episode, method: Method, task: ShiftTask) -> None:
        if self.board is None:
            # Only now, since a method may still refuse its task when it starts.
            self.board = self._open(episode.number)
        with untouched(method):
            seen = blind(method, task)
            scores = method.predict_at(seen.source, task.train, seen.role_of(seen.source))
            right = method.decide(scores) == task.source.y[task.train]
        self.train_scores.append({"micro_f1": float(right.float().mean())})
        self.board(episode, method, task)

        most = method.planned(self.cfg.train.max_episodes)
        self.watch.episode(episode.number, most, f"val {100 * episode.val['micro_f1']:.1f}")

    def finish(self, record: RunRecord, method: Method, task: ShiftTask) -> None:
        """Show the selected episode of a trained method."""
        self.watch.doing("drawing figures" if self.extras.figures else "writing files")
        if self.board is not None:
            self.board.finish(record, method, task, self.extras.settings(self.cfg))

    def close(self) -> None:
        """Leave the events on disk, however the training ended."""
        if self.board is not None:
            self.board.close()

    def seconds(self) -> float:
        """What the run has taken so far, with the time before a checkpoint that it went on from."""
        return time.perf_counter() - self.begin + self.resumed.get("seconds", 0.0)

    def state(self) -> dict[str, Any]:
        """All that :meth:`restore` needs, tensors and plain values."""
        return {
            "train_scores": self.train_scores,
            "maps": self.board.checkpoint() if self.board is not None else {},
            "seconds": self.seconds(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from the state of a checkpoint."""
        self.train_scores.extend(state["train_scores"])
        self.resumed = state

    def _open(self, first_episode: int) -> TensorBoard:
        directory = self.experiment.begin(self.cfg.seed, anew=not self.resumed)
        extras = self.extras
        board = TensorBoard(
            directory,
            extras.tensorboard,
            extras.figures,
            extras.every,
            extras.how,
            start=first_episode,
        )
        board.maps = self.resumed.get("maps", {})
        return board

"""The state of a run between two episodes, kept in its directory for ``--resume`` to go on from."""

from __future__ import annotations

import random
import time
from typing import Any, Callable, cast

import numpy as np
import torch

from graphgym_srnc.core import environment, parallel
from graphgym_srnc.gym.recorder import Recorder
from graphgym_srnc.io import tensors
from graphgym_srnc.io.store import CHECKPOINT, Experiment

FIRST_COST = 0.02
"""Seconds that the first file is taken to cost, before there is one to measure."""


class Checkpoint:
    """A :class:`graphgym_srnc.train.trainer.Checkpoint` in a file of the directory of a run.

    A file is used only if it is whole and of just this config, seed, split and versions,
    since anything else would make other numbers. No code in it is run.

    Args:
        experiment, seed: the run.
        split: fingerprint of its task.
        share: of the run's time that writing may take; 1 = after every episode, 0 = never.
        say: told in a line what becomes of a file, or of a disk that takes none.
        resume: whether to read a file that is there.
        recorder: keeps its state beside the trainer's.
    """

    def __init__(
        self,
        experiment: Experiment,
        seed: int,
        split: str,
        share: float,
        say: Callable[[str], None],
        resume: bool,
        recorder: Recorder,
    ) -> None:
        self.experiment = experiment
        self.path = experiment.path / str(seed) / CHECKPOINT
        self.seed = seed
        self.key: dict[str, Any] = {
            "config": experiment.digest,
            "seed": seed,
            "split": split,
            "versions": environment.versions(),
            "processes": parallel.count(),
        }
        self.share, self.say, self.resume, self.recorder = share, say, resume, recorder
        self.last_write, self.cost = time.monotonic(), FIRST_COST

    def read(self) -> dict[str, Any] | None:
        """The trainer's state; None where there is no file or none that can be used."""
        content = parallel.from_first(self._read_bytes)
        if not content:
            return None
        try:
            about, values = tensors.parse(content)
            wrong = [name for name, value in self.key.items() if about["key"].get(name) != value]
            if not wrong:
                state = tensors.join(about["state"], values)
                found = state["trainer"]
                np.random.set_state(state["numpy"])
                random.setstate(state["python"])
                self.recorder.restore(state["recorder"])
        except Exception:  # whatever is wrong with a file, the run is made again
            wrong = ["file: it is damaged"]
        if wrong:
            self.say(
                f"warning: {self.path} is not used (different {', '.join(wrong)}). "
                f"Seed {self.seed} starts from the beginning."
            )
            return None
        self.say(f"seed {self.seed} continues from its checkpoint")
        return found

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        """Keep a state, unless the last one was kept too short a time ago for what it took."""
        begin = time.monotonic()
        if self.share < 1 and (begin - self.last_write) * self.share < self.cost:
            return
        name, numbers, *rest = cast(tuple[Any, ...], np.random.get_state())
        values: dict[str, torch.Tensor] = {}
        whole = {
            "trainer": state(),
            "numpy": (name, numbers.tolist(), *rest),
            "python": random.getstate(),
            "recorder": self.recorder.state(),
        }
        try:
            tensors.write(
                self.path, {"key": self.key, "state": tensors.split(whole, values)}, values
            )
        except OSError as error:
            self.share = 0.0
            self.say(
                f"warning: {self.path} cannot be written ({error.strerror}). "
                f"Seed {self.seed} continues without checkpoints."
            )
        self.last_write = time.monotonic()
        self.cost = self.last_write - begin

    def _read_bytes(self) -> bytes:
        """The file; nothing where there is none, so that an empty or unreadable one is damaged."""
        if not (self.resume and self.path.is_file()):
            return b""
        try:
            return self.path.read_bytes() or b"empty"
        except OSError:
            return b"unreadable"

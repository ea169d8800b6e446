"""The state of a run between two episodes, kept in its directory for ``--resume`` to go on from."""
from __future__ import annotations

import io
import json
import random
import time
import zipfile
from typing import Any, Callable

import numpy as np
import torch

from graphgym_srnc import atomic, methods, parallel, store
from graphgym_srnc.cache import source_digest

FORMAT = 1
"""Of these files; another one is not read."""

FIRST = 0.02
"""Seconds that the first one is taken to cost, before there is one to measure."""


class Checkpoint:
    """A :class:`graphgym_srnc.train.trainer.Checkpoint` of a run in ``checkpoint.pt``; ``found`` is what :meth:`read` read of the run's own.

    A file is used only if it is whole and of just this config, seed, split, code and versions, since anything else would make other
    numbers. It holds tensors and plain values, and no code in it is run.

    Args:
        place, seed: the run.
        mode: its ``train.mode``, a method, whose code counts with that of ``graphgym_srnc.gym.training``.
        split: fingerprint of its task.
        share: of the run's time that writing may take; 1 = after every episode, 0 = never.
        say: told in a line what becomes of a file, or of a disk that takes none.
        resume: whether to read a file that is there.
        own: what the run adds to the trainer's state, tensors and plain values.
    """

    def __init__(self, place: store.Experiment, seed: int, mode: str, split: str, share: float, say: Callable[[str], None], resume: bool,
                 own: Callable[[], dict[str, Any]]) -> None:
        self.path = place.path / str(seed) / store.CHECKPOINT
        self.key = {"format": FORMAT, "config": place.digest, "seed": seed, "split": split,
                    "code": source_digest(methods.find(mode).__module__, "graphgym_srnc.gym.training"),
                    "versions": store.environment()["versions"], "processes": parallel.count()}
        self.share, self.say, self.resume, self.own = share, say, resume, own
        self.found: dict[str, Any] = {}
        self.last, self.cost = time.monotonic(), FIRST

    def read(self) -> dict[str, Any] | None:
        """The trainer's state, or None where there is no file or none that can be used."""
        content = parallel.from_first(self._content)
        if not content:
            return None
        try:
            # Torch itself does not look at the checksums that it writes.
            if zipfile.ZipFile(io.BytesIO(content)).testzip() is not None:
                raise ValueError("torn")
            with torch.sparse.check_sparse_tensor_invariants():
                found = torch.load(io.BytesIO(content), weights_only=True)
            key = json.loads(found["key"])
            other = [name for name, value in self.key.items() if key.get(name) != value]
            if not other:
                name, state, *rest = found["numpy"]
                np.random.set_state((name, state.numpy(), *rest))
                random.setstate(found["python"])
        except Exception:  # whatever is wrong with a file, the run is made again
            other = ["file, it is damaged"]
        if other:
            self.say(f"warning: {self.path} is not used (another {', '.join(other)}); seed {self.key['seed']} starts anew")
            return None
        self.say(f"seed {self.key['seed']} goes on from its checkpoint")
        self.found = found["run"]
        return found["trainer"]

    def _content(self) -> bytes:
        """What is in the file; nothing where there is none, so that an empty or unreadable one is a damaged one."""
        if not (self.resume and self.path.is_file()):
            return b""
        try:
            return self.path.read_bytes() or b"empty"
        except OSError:
            return b"unreadable"

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        """Keep a state, unless the last one was kept too short a time ago for what it took."""
        begin = time.monotonic()
        if self.share < 1 and (begin - self.last) * self.share < self.cost:
            return
        name, numpy, *rest = np.random.get_state()
        buffer = io.BytesIO()
        torch.save({"key": json.dumps(self.key), "trainer": state(), "run": self.own(), "python": random.getstate(),
                    "numpy": (name, torch.from_numpy(numpy.astype(np.int64)), *rest)}, buffer)
        try:
            atomic.write_bytes(self.path, buffer.getvalue())
        except OSError as error:
            self.share = 0.0
            self.say(f"warning: {self.path} cannot be written ({error.strerror}); seed {self.key['seed']} goes on without")
        self.last = time.monotonic()
        self.cost = self.last - begin

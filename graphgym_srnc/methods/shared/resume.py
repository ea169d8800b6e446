"""State of a method between two episodes, from which an interrupted run continues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, cast

import torch
from torch import Tensor, nn

from graphgym_srnc.backbones import EncoderSpec, build
from graphgym_srnc.core.task import ShiftTask


class Resumable(nn.Module):
    """State of a method that is written into a checkpoint and restored from it."""

    encoder: EncoderSpec
    optimizer: torch.optim.Optimizer
    setup: Callable[[ShiftTask], None]
    ready: Callable[[], None]

    kept: tuple[str, ...] = ("warnings", "collapsed", "episodes", "draws")
    """What a checkpoint has beside weights and ``self.optimizer``: attributes, tensors and plain
    values, that an episode reads and that :meth:`ready` cannot make again."""

    def checkpoint(self) -> dict[str, Any]:
        """All that the next episode depends on but torch's generator; tensors are not copied."""
        kept = {name: getattr(self, name) for name in self.kept if hasattr(self, name)}
        state = {"weights": self.state_dict(), **kept}
        if self.encoder.base is not None:
            state["base"] = self.encoder.base.state_dict()
        if hasattr(self, "optimizer"):
            state["optimizer"] = self.optimizer.state_dict()
        return state

    def restore(self, task: ShiftTask, state: dict[str, Any]) -> None:
        """Become the method that a :meth:`checkpoint` on the same task was taken of."""
        if "base" in state:
            base = cast(nn.Module, build(self.encoder, task.num_features, 1).base)
            base.load_state_dict(state["base"])
            self.encoder = replace(self.encoder, base=base)
        self.setup(task)
        set_random_state(state["draws"], task.device)
        self.ready()
        self.load(state)

    def load(self, state: dict[str, Any]) -> None:
        """The part of :meth:`restore` that comes after :meth:`ready`."""
        for name in self.kept:
            if name in state:
                setattr(self, name, state[name])
        self.load_state_dict(state["weights"])
        if "optimizer" in state:
            self.optimizer.load_state_dict(state["optimizer"])


def random_state(device: torch.device) -> tuple[Tensor, ...]:
    """The state of torch's generator and, on a GPU, of the device's own."""
    if device.type == "cpu":
        return (torch.get_rng_state(),)
    return torch.get_rng_state(), torch.get_device_module(device).get_rng_state(device)


def set_random_state(state: tuple[Tensor, ...], device: torch.device) -> None:
    """Put back what :func:`random_state` gave."""
    torch.set_rng_state(state[0])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(state[1], device)
